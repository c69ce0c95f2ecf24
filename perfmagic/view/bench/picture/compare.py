"""A comparison as SVG: ratios with intervals on the left, samples in the order taken on the right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from perfmagic import units
from perfmagic.analysis.bench.compare import CompareSummary
from perfmagic.analysis.bench.comparison import Comparison
from perfmagic.analysis.bench.result import BenchSummary, Quantity
from perfmagic.view.bench.strip import Strip, beyond_in_words
from perfmagic.view.svg.canvas import WIDTH_PX, Canvas
from perfmagic.view.svg.dots import draw_distribution, draw_dots
from perfmagic.view.svg.metrics import WIDEST_FONT, fitted, width_px
from perfmagic.view.svg.palette import tint
from perfmagic.view.svg.path import number
from perfmagic.view.svg.scale import ticks

AXIS_PX = 316
ROW_PX = 42
WHY_PX, WHY_LINES = 12, 4  # below a ratio that is unclear: the reason and what would help
ORDER_X, ORDER_PX = 392, 372
SPREAD_X, SPREAD_PX = 770, 62
NAME_X = 846
LABEL_PX = 28  # of a name and its interval below
LEAST_HEIGHT_PX = 116
LEAST_RANGE = math.log(1.25)  # on both sides of 1
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10, 20, 50, 100)
TICK_APART_PX = 48
TOKENS = ("launch", "comp", "comm", "htod", "memory", "dtod")  # the baseline in the grey of what is there already
BINS = 24
MOST_BANDS = 60
FEW_DOTS = 100  # so few have room to be seen from afar


def draw_compare(result: CompareSummary) -> str:
    """The picture of a comparison, 1000 px wide."""
    canvas = Canvas()
    reasons = [_reason_lines(comparison) for comparison in result.comparisons]
    heights = [ROW_PX + WHY_PX * len(lines) for lines in reasons]
    height = max(LEAST_HEIGHT_PX, 22.0 + sum(heights))
    _draw_ratios(canvas, result.comparisons, reasons, height)
    _draw_samples(canvas, result, height)
    # what it ran on belongs into the picture
    canvas.text(WIDTH_PX, height + 26, result.results[0].device_label or "on the CPU", "ink2", anchor="end")
    return canvas.svg(height + 32, "; ".join(c.sentence for c in result.comparisons))


def token_of(variant: int) -> str:
    """The colour of a variant: the first grey, like what is compared against."""
    return TOKENS[variant] if variant < len(TOKENS) else TOKENS[1 + (variant - 1) % (len(TOKENS) - 1)]


def apart(wanted: Sequence[float], step: float, low: float, high: float) -> list[float]:
    """Places for labels as near to the wanted ones as can be, a step apart and between low and high where they fit."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = [min(max(wanted[i], low), high) for i in order]
    for i in range(1, len(placed)):
        placed[i] = max(placed[i], placed[i - 1] + step)
    overshoot = placed[-1] - high
    for i in range(len(placed) - 1, -1, -1):
        room = high - step * (len(placed) - 1 - i)
        placed[i] = max(low, min(placed[i], room)) if overshoot > 0 else placed[i]
    return [place for _, place in sorted(zip(order, placed, strict=True))]


def _reason_lines(comparison: Comparison) -> list[str]:
    """Why it is unclear, in lines as wide as the axis; none for a clear verdict."""
    if comparison.verdict != "unclear":
        return []
    lines = [""]
    for word in f"unclear: {comparison.why}".split(" "):
        longer = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and width_px(longer, 10) * WIDEST_FONT > AXIS_PX:
            lines.append(word)
        else:
            lines[-1] = longer
    if len(lines) > WHY_LINES:
        lines = [*lines[: WHY_LINES - 1], " ".join(lines[WHY_LINES - 1 :])]
    return [fitted(line, AXIS_PX, 10) for line in lines]


def _draw_ratios(
    canvas: Canvas, comparisons: Sequence[Comparison], reasons: Sequence[Sequence[str]], height: float
) -> None:
    known = [v for c in comparisons for v in (c.ratio, c.ratio_low, c.ratio_high) if v is not None and v > 0]
    ends = [abs(math.log(v)) for v in known]
    reach = max([LEAST_RANGE, *ends]) * 1.15

    def x(ratio: float) -> float:
        return round(AXIS_PX * (0.5 + math.log(ratio) / (2 * reach)), 1)

    band = max(c.band_frac for c in comparisons)
    left, right = x(1 / (1 + band)), x(1 + band)
    canvas.boxes([(left, 14, max(2.0, right - left), height - 14)], "host3")
    taken: list[float] = []
    for ratio in sorted(TICKS, key=lambda tick: abs(math.log(tick))):
        inside = TICK_APART_PX / 3 < x(ratio) < AXIS_PX - TICK_APART_PX / 3
        if inside and all(abs(x(ratio) - other) >= TICK_APART_PX for other in taken):
            taken.append(x(ratio))
            canvas.boxes([(x(ratio), 14, 0.75, height - 14)], "grid")
            canvas.text(x(ratio), 10, f"× {ratio:g}", "ink2", anchor="middle")
    free = height - 18 - WHY_PX * sum(map(len, reasons))
    y, step = 18.0, free / len(comparisons)
    for comparison, lines in zip(comparisons, reasons, strict=True):
        _draw_ratio(canvas, comparison, y + step / 2, x)
        for line in lines:
            y += WHY_PX
            canvas.text(0, y + step / 2 + 10, line, "ink2")
        y += step
    canvas.text(0, height + 12, "← slower", "ink2")
    canvas.text(x(1), height + 12, "same", "ink2", anchor="middle")
    canvas.text(AXIS_PX, height + 12, "faster →", "ink2", anchor="end")


def _draw_ratio(canvas: Canvas, comparison: Comparison, middle: float, at: Callable[[float], float]) -> None:
    ratio = f": {comparison.ratio_words}"
    words = fitted(comparison.name, AXIS_PX - width_px(ratio, 10, bold=True), 10, bold=True) + ratio
    if comparison.ratio <= 0:
        canvas.text(AXIS_PX / 2, middle, words, "ink2", anchor="middle")
        return
    place = at(comparison.ratio)
    anchor = "" if place < AXIS_PX * 0.3 else "end" if place > AXIS_PX * 0.7 else "middle"
    canvas.text({"": 0.0, "end": float(AXIS_PX)}.get(anchor, AXIS_PX / 2), middle - 8, words, anchor=anchor, bold=True)
    if comparison.ratio_low is not None and comparison.ratio_high is not None:
        low, high = at(comparison.ratio_low), at(comparison.ratio_high)
        canvas.stroke(f"M{number(low)} {number(middle + 4)}H{number(max(high, low + 1))}", "ink", 1.5)
    canvas.stroke(f"M{number(place)} {number(middle + 4)}h0", "ink", 9, cap="round")
    if comparison.verdict == "unclear":
        canvas.stroke(f"M{number(place)} {number(middle + 4)}h0", "ground", 6, cap="round")


def _draw_samples(canvas: Canvas, result: CompareSummary, height: float) -> None:
    name = result.comparisons[0].quantity
    quantities = [one.quantities[name] for one in result.results]
    top_s = (max(Strip.of(q).high_s for q in quantities) or 1e-9) * 1.04
    top, floor = 8.0, height

    def y(seconds: float) -> float:
        return floor - min(1.0, seconds / top_s) * (floor - top)

    if result.comparisons[0].interleaved:
        _draw_bands(canvas, min(q.n for q in quantities), top, floor)
    marks = ticks(top_s * 1e9, floor - top, least_gap_px=28.0)
    for tick in marks:
        at = round(y(tick.offset_ns / 1e9), 1)
        canvas.boxes([(ORDER_X, at, ORDER_PX, 0.75)], "grid")
        canvas.text(ORDER_X - 6, at + 3.5, tick.text, "ink2", anchor="end")
    for i, quantity in enumerate(quantities):
        _draw_interval(canvas, quantity, token_of(i), y)  # all of them first: no band may hide another's samples
    for i, quantity in enumerate(quantities):
        _draw_series(canvas, quantity, token_of(i), y, top, floor)
    beyond = beyond_in_words(tuple(sorted(s for q in quantities for s in q.samples_s if s > top_s)))
    words = f"{name}, samples in the order taken" + (f"; {beyond}" if beyond else "")
    canvas.text(ORDER_X, height + 12, words, "ink2")
    _draw_names(canvas, result.results, quantities, y, (top, floor))


def _draw_bands(canvas: Canvas, samples: int, top: float, floor: float) -> None:
    """Every second pass, A B B A, on a paler ground."""
    passes = samples // 2
    if not 1 < passes <= MOST_BANDS:
        return
    width = ORDER_PX / passes
    boxes = [(round(ORDER_X + i * width, 1), top, round(width, 1), floor - top) for i in range(1, passes, 2)]
    canvas.boxes(boxes, tint("host3", 0.5, 0.5))


def _draw_interval(canvas: Canvas, quantity: Quantity, token: str, y: Callable[[float], float]) -> None:
    """The interval of the median, across samples and distribution."""
    if quantity.low_s is not None and quantity.high_s is not None:
        low, high = y(quantity.low_s), y(quantity.high_s)
        width = SPREAD_X + SPREAD_PX - ORDER_X
        canvas.boxes([(ORDER_X, round(high, 1), width, round(max(0.5, low - high), 1))], tint(token, 0.18, 0.25))


def _draw_series(
    canvas: Canvas, quantity: Quantity, token: str, y: Callable[[float], float], top: float, floor: float
) -> None:
    at = np.array([y(s) for s in quantity.samples_s], np.float64)
    canvas.boxes([(ORDER_X, round(y(quantity.median_s) - 0.5, 1), SPREAD_X + SPREAD_PX - ORDER_X, 1)], token)
    x = np.linspace(ORDER_X + 3, ORDER_X + ORDER_PX - 3, len(at))
    draw_dots(canvas, x, at, quantity.is_outlier, token, size=4.0 if len(at) <= FEW_DOTS else 2.6)
    inside = at[at > top]
    draw_distribution(canvas, inside, token, x=SPREAD_X, width=SPREAD_PX, top=top, height=floor - top, bins=BINS)


def _draw_names(
    canvas: Canvas,
    results: Sequence[BenchSummary],
    quantities: Sequence[Quantity],
    y: Callable[[float], float],
    between: tuple[float, float],
) -> None:
    top, floor = between
    wanted = [y(q.median_s) + 2 for q in quantities]
    for i, at in enumerate(apart(wanted, LABEL_PX, top + 6, floor - 14)):
        quantity, room = quantities[i], WIDTH_PX - NAME_X
        median = units.duration_s(quantity.median_s)
        name = fitted(results[i].name or chr(ord("A") + i), room - 62, 11, bold=True)
        canvas.stroke(f"M{number(NAME_X - 8)} {number(round(at - 4, 1))}h0", token_of(i), 6, cap="round")
        canvas.text(NAME_X, round(at, 1), name, size=11, bold=True)
        canvas.text(WIDTH_PX, round(at, 1), median, size=11, anchor="end")
        if quantity.low_s is not None and quantity.high_s is not None:
            interval = f"{units.duration_s(quantity.low_s)} – {units.duration_s(quantity.high_s)}"
            canvas.text(WIDTH_PX, round(at + 12, 1), interval, "ink2", anchor="end")
