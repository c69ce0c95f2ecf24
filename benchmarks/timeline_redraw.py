"""How long does a redraw of the live timeline take, and how long from the end of a cell to the first picture?

    python benchmarks/timeline_redraw.py [--quick | --ten]

Chromium without a GPU, every frame rasterised before the clock stops (a pixel is read back), all lanes on, median of 60
frames. "still" is the picture at rest of what a window 1000 px high shows; the lanes below it follow when the browser
has time, and "whole" is with all of them, wherever they are. "moving" leaves out texture and small labels and may use
columns of several pixels.

--ten: ten timelines of 10,000 slices on one page, as in a long notebook: how many frames a scroll from the first to the
last and a zoom in the last paint in a second each, and the longest time between two of them.
"""

import argparse
import base64
import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pages

from perfmagic.results import TimelineResult
from perfmagic.trace.columns import CallKind, HostKind, OpKind
from perfmagic.trace.model import DeviceInfo, Trace, TraceMeta, make_trace
from perfmagic.view.page import drawing_script
from perfmagic.view.timeline.live_data import timeline_wire

FRAMES = 60
ZOOMS = (1.0, 0.5, 0.1, 0.01, 0.001, 0.0001)
KERNELS = ("sgemm_128x64", "vectorized_elementwise_kernel", "ncclKernel_AllReduce")
NAMES = (*KERNELS, "Memcpy HtoD", "Memcpy DtoD", "reduce")


@dataclass(frozen=True)
class Case:
    """What is drawn: slices in all, on so many streams, in a plot of so many pixels, and what it may take."""

    name: str
    slices: int
    streams: int
    width_px: int
    still_ms: float
    moving_ms: float


CASES = (
    Case("100 k slices, 4 streams, 1200 px", 100_000, 4, 1200, 16, 16),
    Case("1 M slices, 4 streams, 1200 px", 1_000_000, 4, 1200, 16, 16),
    Case("3 M slices, 4 streams, 1200 px", 3_000_000, 4, 1200, 33, 33),
    Case("1 M slices, 32 streams, 2400 px", 1_000_000, 32, 2400, 40, 16),
)


def synthetic(slices: int, n_streams: int) -> Trace:
    """A device that is mostly busy behind a deep queue: a third of the slices are ops, launches and host operators."""
    random = np.random.default_rng(3)
    n = slices // 3
    stream = random.integers(0, n_streams, n)
    length = random.gamma(0.7, 9000.0, n).astype(np.int64) + 800
    gap = random.gamma(0.5, 1500.0, n).astype(np.int64)
    start = np.zeros(n, np.int64)
    for s in range(n_streams):
        rows = np.flatnonzero(stream == s)
        ends = np.cumsum(length[rows] + gap[rows])
        start[rows] = ends - length[rows]
    order = np.argsort(start, kind="stable")
    start, length, stream = start[order], length[order], stream[order]
    ahead = (300_000 + 250_000 * np.sin(np.arange(n) / 9000)).astype(np.int64)
    launch = np.maximum.accumulate(np.maximum(0, start - ahead))
    name = random.choice(len(NAMES), n, p=[0.3, 0.4, 0.05, 0.05, 0.1, 0.1])
    kind = np.where(np.isin(name, (3, 4)), int(OpKind.MEMCPY), int(OpKind.KERNEL))
    names = (*NAMES, "cudaLaunchKernel", "aten::linear", "aten::addmm")
    end_ns = int((start + length).max())
    host_start = np.linspace(0, end_ns, n, endpoint=False).astype(np.int64)
    step = max(2, end_ns // n)
    return make_trace(
        names,
        TraceMeta("synthetic", end_ns=end_ns, devices=(DeviceInfo(0, "cuda", "synthetic record"),)),
        ops={
            "start_ns": start,
            "end_ns": start + length,
            "kind": kind,
            "stream": stream,
            "name": name,
            "correlation": np.arange(n),
        },
        calls={
            "start_ns": launch,
            "end_ns": launch + 3000,
            "kind": np.full(n, int(CallKind.LAUNCH)),
            "name": np.full(n, len(NAMES)),
            "correlation": np.arange(n),
        },
        host_ops={
            "start_ns": host_start,
            "end_ns": host_start + np.where(np.arange(n) % 2, step // 2, step + step // 2),
            "kind": np.full(n, int(HostKind.OP)),
            "name": len(NAMES) + 1 + np.arange(n) % 2,
        },
    )


REDRAWN = """const found = {first, height: canvas.height, still: [], whole: [], moving: []};
  for (const zoom of zooms) {
    found.still.push(redraws(zoom, () => view.paint(false)));
    found.whole.push(redraws(zoom, () => { view.paint(false); view.canvas.finish(); }));
    found.moving.push(redraws(zoom, () => view.paint(true)));
  }
  view.destroy();
  return found;"""


def measure(case: Case, browser: Any, frames: int) -> dict[str, Any]:
    """One case in a new page."""
    trace = synthetic(case.slices, case.streams)
    result = TimelineResult(trace)
    since = time.perf_counter()
    wire = timeline_wire(result.doc, trace)
    python_s = time.perf_counter() - since
    width_px = case.width_px + 196
    found = pages.measured(browser, wire, REDRAWN, width_px=width_px, zooms=ZOOMS, frames=frames)
    times_ms = {kind: pages.medians_ms(ZOOMS, found[kind]) for kind in ("still", "whole", "moving")}
    return {
        "case": case.name,
        "slices": wire.n_slices,
        "bytes_a_slice": round(len(wire.payload) / wire.n_slices, 2),
        "document_and_wire_s": round(python_s, 2),
        "decode_to_painted_s": round(found["first"] / 1e3, 2),
        "height_px": found["height"],
        **{f"{kind}_ms": by_zoom for kind, by_zoom in times_ms.items()},
        "within": max(times_ms["still"].values()) <= case.still_ms
        and max(times_ms["moving"].values()) <= case.moving_ms,
    }


TEN = """async ([wires, source]) => {
  const module = await import(URL.createObjectURL(new Blob([source], {type: 'text/javascript'})));
  for (const [header, payload] of wires) {
    const raw = atob(payload), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    const place = document.getElementById('place').appendChild(document.createElement('div'));
    await new Promise((painted) => {
      void module.mount(place, header, bytes, {theme: () => 'light', onTheme: () => () => {}, painted});
    });
  }
}"""
# Calls what moves in every frame of a second, then one more, and notes when each began.
FRAMES_OF = """async (move) => {
  const begun = [];
  await new Promise((done) => {
    const frame = (now) => {
      begun.push(now);
      const share = (now - begun[0]) / 1000;
      move(Math.min(1, share));
      if (share < 1) requestAnimationFrame(frame); else done();
    };
    requestAnimationFrame(frame);
  });
  const waits = begun.slice(1).map((t, i) => t - begun[i]);
  return {frames: waits.length, longest_ms: Math.round(Math.max(...waits) * 10) / 10};
}"""
SCROLL = "(share) => scroller.scrollTo(0, share * (scroller.scrollHeight - scroller.clientHeight))"
WHEEL = """(share) => {
  const {left, top} = last.getBoundingClientRect();
  const at = {clientX: left + 400, clientY: top + 100, ctrlKey: true, bubbles: true, cancelable: true};
  last.dispatchEvent(new WheelEvent('wheel', {...at, deltaY: share < 0.5 ? -40 : 40}));
}"""


def measure_ten(browser: Any) -> dict[str, Any]:
    """Ten timelines of one page."""
    wires = []
    for number in range(10):
        result = TimelineResult(synthetic(10_000 + 30 * number, 4))
        wire = timeline_wire(result.doc, result.trace)
        wires.append([wire.header_json, base64.b64encode(wire.payload).decode()])
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    page.set_content(pages.PAGE.format(width=1240))
    page.evaluate(TEN, [wires, drawing_script(more=False)])
    page.wait_for_timeout(1000)
    page.evaluate("() => { window.scroller = document.scrollingElement; }")
    page.evaluate("() => { window.last = [...document.querySelectorAll('canvas')].at(-1); }")
    found = {
        name: page.evaluate(f"() => ({FRAMES_OF})({move})") for name, move in (("scroll", SCROLL), ("zoom", WHEEL))
    }
    page.close()
    return {"case": "ten timelines of 10 k slices on a page", **found}


def main() -> None:
    """Print one JSON object a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="ten frames, the first case only")
    parser.add_argument("--ten", action="store_true", help="only: ten timelines on one page, scrolled and zoomed")
    options = parser.parse_args()
    with pages.chromium() as browser:
        if options.ten:
            print(json.dumps(measure_ten(browser), ensure_ascii=False), flush=True)
        for case in () if options.ten else CASES[:1] if options.quick else CASES:
            print(json.dumps(measure(case, browser, 10 if options.quick else FRAMES), ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
