"""What timeline_redraw.py and ranks_page.py share: Chromium without a GPU, and a live view in a page of it."""

import base64
import shutil
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from perfmagic.view.page import drawing_script

PAGE = "<!DOCTYPE html><meta charset=utf-8><body style='margin:0'><div id=place style='width:{width}px'></div>"
# `view` is mounted and painted for the first time, after `first` ms; `rasterised` waits for all that was drawn
MOUNTED = """async ([header, payload, zooms, frames]) => {
  const raw = atob(payload), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const module = await import(URL.createObjectURL(new Blob([window.source], {type: 'text/javascript'})));
  const host = {theme: () => 'light', onTheme: () => () => {}};
  const begun = performance.now();
  const painted = new Promise((done) => { host.painted = () => done(performance.now() - begun); });
  const view = await module.mount(document.getElementById('place'), header, bytes, host);
  const first = await painted;
  const canvas = document.querySelector('canvas'), g = canvas.getContext('2d');
  const span = JSON.parse(header).span_ns;
  const rasterised = () => g.getImageData(canvas.width >> 1, canvas.height >> 1, 1, 1);
  const redraws = (zoom, draw) => Array.from({length: frames}, (_, i) => {
    const length = span * zoom, from = (span - length) * (0.2 + 0.6 * i / frames);
    view.lookAt([from, from + length]);
    const since = performance.now();
    draw();
    rasterised();
    return performance.now() - since;
  });
  BODY
}"""


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser. Ends the program where there is none."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        sys.exit("Chromium is not installed")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def measured(
    browser: Any, wire: Any, body: str, *, width_px: int, zooms: Sequence[float], frames: int
) -> dict[str, Any]:
    """What a script finds that runs where a view is mounted.  width_px: of the place for it."""
    page = browser.new_page(viewport={"width": width_px, "height": 1000})
    page.set_content(PAGE.format(width=width_px))
    page.evaluate("(source) => { window.source = source }", drawing_script(more=wire.needs_more))
    payload = base64.b64encode(wire.payload).decode()
    found: dict[str, Any] = page.evaluate(MOUNTED.replace("BODY", body), [wire.header_json, payload, zooms, frames])
    page.close()
    return found


def medians_ms(zooms: Sequence[float], times: Sequence[Sequence[float]]) -> dict[str, float]:
    """The median time of each zoom."""
    return {str(zoom): round(statistics.median(each), 1) for zoom, each in zip(zooms, times, strict=True)}
