"""Draws the pictures that README and docs show from a recorded trace; those of the live timeline in Chromium."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from perfmagic.api import open_trace
from perfmagic.view.timeline.picture.timeline import timeline_svg

DOCS = Path(__file__).resolve().parent
TRACE = DOCS.parent / "tests" / "data" / "traces" / "v100_4streams_nccl_step.json.gz"


def select_and_point(tab: Any) -> None:
    """A selection of a quarter, and the pointer on an op of the busiest stream."""
    box = tab.locator(".pm canvas").bounding_box()
    tab.mouse.move(box["x"] + 400, box["y"] + 60)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 600, box["y"] + 60, steps=4)
    tab.mouse.up()
    tab.mouse.move(box["x"] + 507, box["y"] + 216)
    tab.wait_for_timeout(400)


def main() -> int:
    """Write docs/v100-step.svg, docs/live-timeline-light.png and -dark.png."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        print("Chromium is not installed", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        result = open_trace(TRACE)
        (DOCS / "v100-step.svg").write_text(timeline_svg(result.doc), encoding="utf-8")
        page = result.to_html(Path(folder) / "page.html")
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        for theme in ("light", "dark"):
            size = {"width": 1048, "height": 1000}
            context = browser.new_context(viewport=size, device_scale_factor=2, color_scheme=theme)
            tab = context.new_page()
            tab.goto(page.as_uri())
            tab.wait_for_selector(".pm canvas")
            tab.wait_for_timeout(400)
            select_and_point(tab)
            target = DOCS / f"live-timeline-{theme}.png"
            tab.locator(".pm").screenshot(path=target)
            print(target.relative_to(DOCS.parent))
            context.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
