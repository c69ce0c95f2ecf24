"""What CPU does the picture of a large timeline take: the first one, and one while the view moves?

    python benchmarks/picture_cpu.py TRACE

TRACE: a file of some 1 M events, as `repeat_trace.py OUT --events 1000000` writes. CPU of this process, and of the main
thread of Chromium without a GPU, which decodes, paints and rasterises: unlike wall time it hardly counts what else a
machine does. "moving" has 3 M synthetic slices on 32 streams, 2400 px wide, the mean of 30 frames at each zoom, after
the view has chosen how many pixels a column has.
"""

import argparse
import base64
import json
import time
from itertools import pairwise
from typing import Any

import pages
import timeline_redraw

from perfmagic import open_trace
from perfmagic.results import TimelineResult
from perfmagic.view.page import drawing_script
from perfmagic.view.timeline.live_data import Wire, timeline_wire

KEPT = pages.MOUNTED.replace("BODY", "Object.assign(window, {view, redraws}); return null;")
FRAMES = 30


def mounted(browser: Any, wire: Wire, width_px: int) -> tuple[Any, Any, float]:
    """A page with the view, a function that gives the CPU seconds of its thread, and those of the first picture."""
    page = browser.new_page(viewport={"width": width_px, "height": 1000})
    page.set_content(pages.PAGE.format(width=width_px))
    page.evaluate("(source) => { window.source = source }", drawing_script(more=wire.needs_more))
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def cpu_s() -> float:
        metrics = {one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]}
        return float(metrics["ThreadTime"])

    since = cpu_s()
    page.evaluate(KEPT, [wire.header_json, base64.b64encode(wire.payload).decode(), [], FRAMES])
    return page, cpu_s, cpu_s() - since


def first_picture(browser: Any, path: str) -> dict[str, Any]:
    """From a trace that was read to the first picture."""
    result = open_trace(path)
    marks = [time.process_time()]
    for step in (lambda: result.findings, lambda: result.doc):
        step()
        marks.append(time.process_time())
    wire = timeline_wire(result.doc, result.trace)
    marks.append(time.process_time())
    page, _, browser_s = mounted(browser, wire, 1396)
    page.close()
    steps = [b - a for a, b in pairwise(marks)]
    named = dict(zip(("findings_s", "document_s", "data_s", "browser_s"), [*steps, browser_s], strict=True))
    total = {"after_findings_s": sum(steps[1:]) + browser_s, "all_s": sum(steps) + browser_s}
    return {"slices": wire.n_slices, **{name: round(value, 2) for name, value in {**named, **total}.items()}}


def moving(browser: Any) -> dict[str, Any]:
    """Frames of a view that moves, by zoom: CPU in ms, and pixels a column."""
    trace = timeline_redraw.synthetic(3_000_000, 32)
    page, cpu_s, _ = mounted(browser, timeline_wire(TimelineResult(trace).doc, trace), 2596)
    found = {}
    for zoom in timeline_redraw.ZOOMS:
        frames = "(zoom) => { redraws(zoom, () => view.paint(true)); return view.canvas.columnPx }"
        page.evaluate(frames, zoom)
        since = cpu_s()
        column_px = page.evaluate(frames, zoom)
        found[str(zoom)] = [round((cpu_s() - since) / FRAMES * 1e3, 1), column_px]
    return {"slices": 3_000_000, "streams": 32, "width_px": 2400, "moving_ms_and_column_px": found}


def main() -> None:
    """Print one JSON object for the first picture, one for the moving view."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace")
    path = parser.parse_args().trace
    with pages.chromium() as browser:
        print(json.dumps(first_picture(browser, path)), flush=True)
        print(json.dumps(moving(browser)), flush=True)


if __name__ == "__main__":
    main()
