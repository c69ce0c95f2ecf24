"""A static picture is laid out for the width it has: no letter is made smaller or larger, and none leaves it."""

import base64
import re
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from perfmagic.analysis.bench.compare import CompareSummary, compare
from perfmagic.analysis.bench.sweep import SweepSummary, sweep_result
from perfmagic.analysis.findings.answer import Conclusion
from perfmagic.api.comparisons import compare_timelines
from perfmagic.changes import no_item
from perfmagic.results import GraphResult, MemoryResult, TimelineResult
from perfmagic.results.what_if import Curve
from perfmagic.trace.model import Trace
from perfmagic.view.bench.bench import bench_html
from perfmagic.view.bench.compare import compare_html
from perfmagic.view.bench.doc import bench_doc
from perfmagic.view.bench.sweep import sweep_html
from perfmagic.view.diff.picture import pair_picture, waterfall_picture
from perfmagic.view.html import framed, image
from perfmagic.view.ranks.scaling import ScalingDoc, scaling_html
from perfmagic.view.ranks.writers import ranks_html
from perfmagic.view.svg.layouts import MAX_BYTES
from perfmagic.view.timeline.writers import timeline_html
from tests.analysis.bench.test_compare import result as benchmark
from tests.analysis.bench.test_compare import series
from tests.analysis.bench.test_sweep import at
from tests.analysis.diff.pairs import eager, fused
from tests.analysis.graph.made import chain, two_devices
from tests.analysis.replay.test_changes import steps
from tests.trace.recorded import recorded
from tests.view.bench.test_bench import model_of, result
from tests.view.memory.test_picture import memory_trace
from tests.view.ranks.build import four_ranks
from tests.view.ranks.test_scaling import PICTURES, stats
from tests.view.timeline.build import doc_of, queue_of
from tests.view.timeline.golden import cell_with_copies, roofline_of
from tests.view.timeline.lines.build import with_backward
from tests.view.timeline.lines.test_memory_column import with_blocks

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


SHEET_PX = 680  # 180 mm
MARGIN_PX = 16


def compared() -> CompareSummary:
    """Two against a baseline; one of them is unclear."""
    runs = tuple(
        benchmark(series(ms / 1e3, n=40, noise=0.05, seed=seed), name, round_id="1")
        for seed, (name, ms) in enumerate((("baseline", 1.0), ("as fast, within noise", 1.01), ("fused", 0.4)))
    )
    return CompareSummary(compare(*runs), runs)


def scaling(name: str) -> ScalingDoc:
    """A sweep over numbers of ranks."""
    return ScalingDoc(Conclusion("weak scaling"), stats(*PICTURES[name]), "weak", "simulated device", (1, 3))


def curve() -> Curve:
    """A run whose kernels become faster, until Python holds it."""
    return TimelineResult(steps(6, read=False, python=80)).curve("kernel", (1.1, 1.2, 2, 4, inf))


def pair_html(first: Trace, second: Trace) -> str:
    """Both timelines of a comparison on one axis."""
    diff = compare_timelines(TimelineResult(first), TimelineResult(second))
    return framed(image(pair_picture(diff, *diff.timelines, MAX_BYTES), "both timelines"))


def waterfall_html(first: Trace, second: Trace) -> str:
    """From the first timeline of a comparison to the second."""
    diff = compare_timelines(TimelineResult(first), TimelineResult(second))
    return framed(image(waterfall_picture(diff), "waterfall"))


def swept(*others: str) -> SweepSummary:
    """A sweep over eight sizes, of one function or of it and others."""
    sizes = [2**i for i in range(6, 14)]
    of_size = [[at(1e-4, 1e-9 * n**1.6 / i, name) for i, name in enumerate(("eager", *others), 1)] for n in sizes]
    return sweep_result("n", sizes, of_size)


HTML: dict[str, Callable[[], str]] = {
    "queue": lambda: timeline_html(doc_of(queue_of())),
    "step": lambda: timeline_html(TimelineResult(recorded("v100_4streams_nccl_step")).doc),
    "bench": lambda: bench_html(bench_doc(result())),
    "syncbench": lambda: bench_html(bench_doc(result(queue_model=model_of(11, 0.2, 1.1, 0.4)))),
    "compare": lambda: compare_html(compared()),
    "sweep": lambda: sweep_html(swept()),
    "sweep of variants": lambda: sweep_html(swept("compiled with max-autotune")),
    "memory": lambda: MemoryResult(memory_trace(60, reserved=400)).html(),
    "ranks": lambda: ranks_html(four_ranks()),
    "ranks sweep": lambda: scaling_html(scaling("nearly ideal")),
    "ranks sweep of many": lambda: scaling_html(scaling("many")),
    "what-if": lambda: TimelineResult(steps(6, read=True)).what_if(no_item()).html(),
    "curve": lambda: (
        TimelineResult(steps(6, read=False, python=80)).curve("kernel", (1.1, 1.2, 2, 4, inf))._repr_html_()
    ),
    "roofline": lambda: TimelineResult(roofline_of()).roofline().html(),
    "flame": lambda: TimelineResult(recorded("v100_4streams_nccl_step")).flame().html(),
    "pair of cells": lambda: pair_html(cell_with_copies(), queue_of()),
    "pair of steps": lambda: pair_html(eager(steps=3), fused(steps=3)),
    "waterfall": lambda: waterfall_html(cell_with_copies(), queue_of()),
    "lines": TimelineResult(with_backward()).lines._repr_html_,
    "lines with memory": TimelineResult(with_blocks()).lines._repr_html_,
    "graph": GraphResult(*two_devices()).html,
    "graph of many": GraphResult(*chain(60)).html,
}
PAGE = '<!doctype html><meta charset="utf-8"><body style="margin:{margin}px">{body}<hr>'
# of the image as it would be drawn at the size it has: each text, its letters in px, and by how much it leaves the
# picture; what is hidden has no box
TEXTS = """async () => {
  const image = document.querySelector('.perfmagic-static img, img');
  const {width, height} = image.getBoundingClientRect();
  const frame = document.createElement('iframe');
  frame.style.cssText = `border:0;position:absolute;left:0;top:0;width:${width}px;height:${height}px`;
  const svg = await (await fetch(image.src)).text();
  frame.srcdoc = `<!doctype html><style>body{margin:0}body>svg{display:block}</style>${svg}`;
  document.body.append(frame);
  await new Promise((done) => { frame.onload = done; });
  const texts = [...frame.contentDocument.querySelectorAll('text, tspan')].filter((one) => !one.querySelector('tspan'));
  const found = texts.map((one) => {
    const box = one.getBoundingClientRect(), {a, b} = one.getScreenCTM ? one.getScreenCTM()
      : one.parentNode.getScreenCTM();
    const size = parseFloat(frame.contentWindow.getComputedStyle(one).fontSize) * Math.hypot(a, b);
    const out = Math.max(-box.left, box.right - width, -box.top, box.bottom - height);
    return [one.textContent, size, out, box.width];
  }).filter(([, , , wide]) => wide > 0);
  frame.remove();
  return found;
}"""


def open_page(tab: Any, name: str) -> None:
    """A page with a picture between two margins."""
    tab.set_content(PAGE.format(margin=MARGIN_PX, body=HTML[name]()))
    tab.wait_for_function("() => document.images[0].complete")


def shown(tab: Any, width_px: int) -> list[list[Any]]:
    """The texts of the open page's picture in a window of a width."""
    tab.set_viewport_size({"width": width_px, "height": 900})
    texts: list[list[Any]] = tab.evaluate(TEXTS)
    return texts


def wrong(texts: list[list[Any]]) -> list[list[Any]]:
    """Texts whose letters have another size than they should have, or that leave the picture."""
    return [one for one in texts if not 10 <= round(one[1], 2) <= 13 or one[2] > 1]


@pytest.mark.parametrize("name", HTML)
def test_letters_keep_their_size_in_a_window_of_any_width(tab: Any, name: str) -> None:
    open_page(tab, name)
    of_width = {width_px: shown(tab, width_px) for width_px in (400, 700, 900, 1300, 1910)}
    assert min(map(len, of_width.values())) > 6
    assert {width_px: wrong(texts) for width_px, texts in of_width.items() if wrong(texts)} == {}


@pytest.mark.parametrize("name", HTML)
def test_letters_keep_their_size_on_paper(tab: Any, name: str) -> None:
    tab.emulate_media(media="print")
    open_page(tab, name)
    assert wrong(shown(tab, SHEET_PX)) == []
    pdf = tab.pdf(width="180mm", height="250mm", print_background=True)
    assert pdf.startswith(b"%PDF")


@pytest.mark.parametrize("name", HTML)
def test_words_below_a_picture_follow_it_at_once(tab: Any, name: str) -> None:
    open_page(tab, name)
    image = tab.locator("img").first
    svg = base64.b64decode(image.get_attribute("src").split(",")[1]).decode()
    layouts = {int(w) // 2: int(h) // 2 for w, h in re.findall(r'viewBox="0 0 (\d+) (\d+)"', svg)}
    taken = {}
    for width_px in (400, 700, 1300):
        tab.set_viewport_size({"width": width_px, "height": 900})
        margin = float(image.evaluate("i => parseFloat(getComputedStyle(i).marginBottom)"))
        taken[width_px] = image.bounding_box()["height"] + margin
    assert taken == {width_px: layouts[max(w for w in layouts if w <= width_px - 2 * MARGIN_PX)] for width_px in taken}


def test_a_picture_of_no_more_than_its_place_is_never_cut(tab: Any) -> None:
    """Narrower than the narrowest layout, it is made smaller as a whole."""
    open_page(tab, "step")
    texts = shown(tab, 280)
    assert [one for one in texts if one[2] > 1] == []
    assert max(one[1] for one in texts) < 10
