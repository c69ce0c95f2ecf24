"""The faces of a comparison: text, a picture of the ratios, and HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from perfmagic.analysis.compare import CompareResult, Comparison
from perfmagic.units import duration_s
from perfmagic.view.canvas import Canvas
from perfmagic.view.html import framed, headline, image, paragraphs
from perfmagic.view.metrics import columns, fitted
from perfmagic.view.svgpath import number
from perfmagic.view.text import table, wrapped

AXIS_X, AXIS_PX = 330, 640
ROW_PX = 40
LEAST_RANGE = math.log(1.25)  # on both sides of 1
TICKS = (0.1, 0.2, 0.25, 0.33, 0.4, 0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 10.0)
TICK_APART_PX = 46


def compare_text(result: CompareResult) -> str:
    """The verdicts in sentences and a table, at most 100 columns wide."""
    lines = [line for comparison in result.comparisons for line in wrapped(comparison.sentence, indent=2)]
    head = ("", "median", "times as fast", "verdict")
    first = result.comparisons[0]
    rows = [(first.baseline, duration_s(first.baseline_s), "× 1", "")]
    rows += [(c.name, duration_s(c.name_s), c.ratio_words, c.verdict) for c in result.comparisons]
    widths = [max(columns(row[i]) for row in (head, *rows)) + 2 for i in range(len(head))]
    return "\n".join([*lines, "", *(line.rstrip() for line in table(head, rows, widths))])


def compare_html(result: CompareResult) -> str:
    """The first verdict as a headline, the picture as an image, what the verdicts rest on; survives sanitisers."""
    first = result.comparisons[0]
    words = "; ".join(comparison.sentence for comparison in result.comparisons)
    below = [*dict.fromkeys(f"{c.name}: {c.why}" for c in result.comparisons), *_warnings(result)]
    line = headline(first.words, f"{first.quantity} {duration_s(first.name_s)} against {duration_s(first.baseline_s)}")
    return framed(line + image(compare_svg(result), f"Comparison: {words}") + paragraphs(below))


def compare_svg(result: CompareResult) -> str:
    """Every ratio with its interval on one logarithmic axis, the band that counts as the same around 1."""
    canvas = Canvas()
    comparisons = result.comparisons
    reach = max([LEAST_RANGE, *(abs(math.log(v)) for c in comparisons for v in _ends(c) if v > 0)]) * 1.1
    height = 20 + ROW_PX * len(comparisons)

    def x(ratio: float) -> float:
        return round(AXIS_X + AXIS_PX * (0.5 + math.log(ratio) / (2 * reach)), 1)

    band = max(c.band for c in comparisons)
    left, right = x(1 / (1 + band)), x(1 + band)
    canvas.boxes([(left, 14, max(2.0, right - left), height - 14)], "host3")
    taken = [-math.inf]
    for ratio in sorted(TICKS, key=lambda tick: abs(math.log(tick))):
        if abs(math.log(ratio)) < reach and all(abs(x(ratio) - other) >= TICK_APART_PX for other in taken):
            taken.append(x(ratio))
            canvas.boxes([(x(ratio), 14, 0.75, height - 14)], "grid")
            canvas.text(x(ratio), 10, f"× {ratio:g}", "ink2", anchor="middle")
    for i, comparison in enumerate(comparisons):
        _draw(canvas, comparison, 20 + ROW_PX * i, x)
    canvas.text(AXIS_X, height + 10, "← slower", "ink2")
    canvas.text(AXIS_X + AXIS_PX, height + 10, "faster →", "ink2", anchor="end")
    canvas.text(0, height + 10, fitted(_label(result), AXIS_X - 20, 10), "ink2")
    return canvas.svg(height + 16, "; ".join(c.sentence for c in comparisons))


def _draw(canvas: Canvas, comparison: Comparison, y: float, at: Callable[[float], float]) -> None:
    middle = y + ROW_PX / 2 - 4
    canvas.text(0, middle - 3, fitted(comparison.name, AXIS_X - 20, 11), size=11, bold=True)
    words = f"{comparison.verdict} · {comparison.ratio_words}"
    canvas.text(0, middle + 11, fitted(words, AXIS_X - 20, 10), "ink2")
    if comparison.ratio <= 0:
        return
    place = at(comparison.ratio)
    if comparison.low is not None and comparison.high is not None:
        low, high = at(comparison.low), at(comparison.high)
        canvas.stroke(f"M{number(low)} {number(middle)}H{number(max(high, low + 1))}", "ink", 1.5)
    canvas.stroke(f"M{number(place)} {number(middle)}h0", "ink", 9, cap="round")
    if comparison.verdict == "unclear":
        canvas.stroke(f"M{number(place)} {number(middle)}h0", "ground", 6, cap="round")


def _ends(comparison: Comparison) -> Sequence[float]:
    return [v for v in (comparison.ratio, comparison.low, comparison.high) if v is not None]


def _label(result: CompareResult) -> str:
    return result.results[0].device_label or "on the CPU"


def _warnings(result: CompareResult) -> list[str]:
    return [f"! {one.name}: {warning}" for one in result.results for warning in one.warnings]
