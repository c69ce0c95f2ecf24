"""The renderers of a comparison: text, and HTML with its picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from perfmagic.analysis.bench.compare import CompareSummary, Comparison
from perfmagic.analysis.bench.result import BenchSummary, Quantity, warmth
from perfmagic.analysis.bench.same_work import NOTED, OK, REFUSED
from perfmagic.base import units
from perfmagic.base.language import chained, phrase, say, translate_term, translated
from perfmagic.base.tables import Table, text_blocks
from perfmagic.base.terminal import wrapped
from perfmagic.view.bench.bench import BETWEEN, Strip, describe_beyond, one_line, unfolding
from perfmagic.view.bench.doc import variant_token
from perfmagic.view.html import framed, headline, image
from perfmagic.view.svg.canvas import NARROW_PX, WIDTH_PX, Canvas, draw_distribution, draw_dots, labels_apart, number
from perfmagic.view.svg.layouts import Picture, alone, in_bytes
from perfmagic.view.svg.metrics import fitted, in_lines, ticks, width_px
from perfmagic.view.svg.palette import tint

# A comparison as SVG: ratios with intervals on the left, samples in the order taken on the right.

ROW_PX = 42
WHY_PX, WHY_LINES = 12, 4  # below a ratio that is unclear: the reason and what would help
LABEL_PX = 28  # of a name and its interval below
LEAST_HEIGHT_PX = 116
LINE_PX = 13
LEAST_RANGE = math.log(1.25)  # on both sides of 1
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10, 20, 50, 100)
TICK_APART_PX = 48
BINS = 24
MOST_BANDS = 60
FEW_DOTS = 100  # so few have room to be seen from afar


@dataclass(frozen=True)
class Columns:
    """How wide the ratios are, and where the samples in order, their distribution and the names begin.

    stacked: the samples are below the ratios.  listed: the names are below the samples.
    """

    axis_px: int
    order_x: int
    order_px: int
    spread_x: int
    spread_px: int
    name_x: int
    stacked: bool = False
    listed: bool = False

    @classmethod
    def of(cls, width_px: int) -> Columns:
        """The columns of a picture of a width."""
        if width_px >= WIDTH_PX:
            return cls(316, 392, 372, 770, 62, 846)
        listed = width_px < NARROW_PX
        order_x, spread_px, name_x = (56, 40, 12) if listed else (56, 62, width_px - 154)
        spread_x = (width_px if listed else name_x - 14) - spread_px
        return cls(width_px, order_x, spread_x - 6 - order_x, spread_x, spread_px, name_x, stacked=True, listed=listed)

    @property
    def both_px(self) -> int:
        """From the first sample to the end of the distribution."""
        return self.spread_x + self.spread_px - self.order_x


def draw_compare(canvas: Canvas, result: CompareSummary) -> float:
    """The picture of a comparison, as wide as the canvas; returns its height."""
    columns = Columns.of(canvas.width_px)
    alone = len(result.comparisons) == 1
    reasons = [_reason_lines(comparison, columns.axis_px, alone=alone) for comparison in result.comparisons]
    floor = 22.0 + sum(ROW_PX + WHY_PX * len(lines) for lines in reasons)
    floor = floor if columns.stacked else max(LEAST_HEIGHT_PX, floor)
    _draw_ratios(canvas, result.comparisons, reasons, floor, columns.axis_px)
    top = floor + 26 if columns.stacked else 8.0
    floor = top + LEAST_HEIGHT_PX if columns.stacked else floor
    bottom = _draw_samples(canvas, result, columns, (top, floor))
    # what it ran on belongs into the picture
    label = fitted(translated(result.results[0].device_label) or say("on the CPU"), canvas.width_px, 10)
    canvas.text(canvas.width_px, bottom + 14, label, "ink2", anchor="end")
    return bottom + 20


def _reason_lines(comparison: Comparison, max_px: int, *, alone: bool) -> list[str]:
    """Why there is no verdict, in lines as wide as the axis; none for a clear one.  alone: the headline has it."""
    if comparison.verdict not in ("unclear", "not comparable"):
        return []
    if alone and comparison.not_comparable is not None:
        return [fitted(phrase("not comparable"), max_px, 10)]
    lines = in_lines(say("{verdict}: {why}", verdict=phrase(comparison.verdict), why=comparison.why), max_px, 10)
    if len(lines) > WHY_LINES:
        lines = [*lines[: WHY_LINES - 1], " ".join(lines[WHY_LINES - 1 :])]
    return [fitted(line, max_px, 10) for line in lines]


def _draw_ratios(
    canvas: Canvas, comparisons: Sequence[Comparison], reasons: Sequence[Sequence[str]], height: float, axis_px: int
) -> None:
    if all(c.not_comparable is not None for c in comparisons):
        _draw_rows(canvas, comparisons, reasons, height, lambda _: 0.0, axis_px)
        return
    known = [v for c in comparisons for v in (c.ratio, c.ratio_low, c.ratio_high) if v is not None and v > 0]
    ends = [abs(math.log(v)) for v in known]
    reach = max([LEAST_RANGE, *ends]) * 1.15

    def x(ratio: float) -> float:
        return round(axis_px * (0.5 + math.log(ratio) / (2 * reach)), 1)

    band = max(c.band_frac for c in comparisons)
    left, right = x(1 / (1 + band)), x(1 + band)
    canvas.boxes([(left, 14, max(2.0, right - left), height - 14)], "host3")
    taken: list[float] = []
    for ratio in sorted(TICKS, key=lambda tick: abs(math.log(tick))):
        inside = TICK_APART_PX / 3 < x(ratio) < axis_px - TICK_APART_PX / 3
        if inside and all(abs(x(ratio) - other) >= TICK_APART_PX for other in taken):
            taken.append(x(ratio))
            canvas.boxes([(x(ratio), 14, 0.75, height - 14)], "grid")
            canvas.text(x(ratio), 10, f"× {ratio:g}", "ink2", anchor="middle")
    _draw_rows(canvas, comparisons, reasons, height, x, axis_px)
    canvas.text(0, height + 12, say("← slower"), "ink2")
    canvas.text(x(1), height + 12, say("same"), "ink2", anchor="middle")
    canvas.text(axis_px, height + 12, say("faster →"), "ink2", anchor="end")


def _draw_rows(
    canvas: Canvas,
    comparisons: Sequence[Comparison],
    reasons: Sequence[Sequence[str]],
    height: float,
    at: Callable[[float], float],
    axis_px: int,
) -> None:
    """A row for each comparison.  at: where a ratio lies."""
    free = height - 18 - WHY_PX * sum(map(len, reasons))
    y, step = 18.0, free / len(comparisons)
    for comparison, lines in zip(comparisons, reasons, strict=True):
        _draw_ratio(canvas, comparison, y + step / 2, at, axis_px)
        for line in lines:
            y += WHY_PX
            canvas.text(0, y + step / 2 + 10, line, "ink2")
        y += step


def _draw_ratio(
    canvas: Canvas, comparison: Comparison, middle: float, at: Callable[[float], float], axis_px: int
) -> None:
    if comparison.not_comparable is not None:  # on no place of the axis, which would be a verdict
        canvas.text(0, middle, fitted(comparison.name, axis_px, 10, bold=True), bold=True)
        return
    ratio = f": {comparison.ratio_text}"
    words = fitted(comparison.name, axis_px - width_px(ratio, 10, bold=True), 10, bold=True) + ratio
    if comparison.ratio <= 0:
        canvas.text(axis_px / 2, middle, words, "ink2", anchor="middle")
        return
    place = at(comparison.ratio)
    anchor = "" if place < axis_px * 0.3 else "end" if place > axis_px * 0.7 else "middle"
    canvas.text({"": 0.0, "end": float(axis_px)}.get(anchor, axis_px / 2), middle - 8, words, anchor=anchor, bold=True)
    if comparison.ratio_low is not None and comparison.ratio_high is not None:
        low, high = at(comparison.ratio_low), at(comparison.ratio_high)
        canvas.stroke(f"M{number(low)} {number(middle + 4)}H{number(max(high, low + 1))}", "ink", 1.5)
    canvas.stroke(f"M{number(place)} {number(middle + 4)}h0", "ink", 9, cap="round")
    if comparison.verdict == "unclear":
        canvas.stroke(f"M{number(place)} {number(middle + 4)}h0", "ground", 6, cap="round")


def _draw_samples(canvas: Canvas, result: CompareSummary, columns: Columns, between: tuple[float, float]) -> float:
    """The samples between two heights and their names; gives the baseline of the last line."""
    name = result.comparisons[0].quantity
    quantities = [run.quantities[name] for run in result.results]
    top_s = (max(Strip.of(q).high_s for q in quantities) or 1e-9) * 1.04
    top, floor = between

    def y(seconds: float) -> float:
        return floor - min(1.0, seconds / top_s) * (floor - top)

    if result.comparisons[0].interleaved:
        _draw_bands(canvas, min(q.n for q in quantities), columns, top, floor)
    marks = ticks(top_s * 1e9, floor - top, least_gap_px=28.0)
    for tick in marks:
        at = round(y(tick.offset_ns / 1e9), 1)
        canvas.boxes([(columns.order_x, at, columns.order_px, 0.75)], "grid")
        canvas.text(columns.order_x - 6, at + 3.5, tick.text, "ink2", anchor="end")
    for i, quantity in enumerate(quantities):
        _draw_interval(
            canvas, quantity, variant_token(i), y, columns
        )  # all of them first: no band may hide another's samples
    for i, quantity in enumerate(quantities):
        _draw_series(canvas, quantity, variant_token(i), y, columns, between)
    beyond = describe_beyond(tuple(sorted(s for q in quantities for s in q.samples_s if s > top_s)))
    words = say("{quantity}, samples in the order taken", quantity=phrase(name))
    words += say("; ") + beyond if beyond else ""
    for line in in_lines(words, canvas.width_px - columns.order_x, 10):
        floor += LINE_PX
        canvas.text(columns.order_x, floor - 1, line, "ink2")
    if columns.listed:
        places = [floor + 18 + LABEL_PX * i for i in range(len(quantities))]
        floor = places[-1] + LABEL_PX - LINE_PX
    else:
        places = labels_apart([y(q.median_s) + 2 for q in quantities], LABEL_PX, top + 6, between[1] - 14)
    _draw_names(canvas, result.results, quantities, places, columns.name_x)
    return floor - 1


def _draw_bands(canvas: Canvas, samples: int, columns: Columns, top: float, floor: float) -> None:
    """Every second pass, A B B A, on a paler ground."""
    passes = samples // 2
    if not 1 < passes <= MOST_BANDS:
        return
    width = columns.order_px / passes
    boxes = [(round(columns.order_x + i * width, 1), top, round(width, 1), floor - top) for i in range(1, passes, 2)]
    canvas.boxes(boxes, tint("host3", 0.5, 0.5))


def _draw_interval(
    canvas: Canvas, quantity: Quantity, token: str, y: Callable[[float], float], columns: Columns
) -> None:
    """The interval of the median, across samples and distribution."""
    if quantity.low_s is not None and quantity.high_s is not None:
        low, high = y(quantity.low_s), y(quantity.high_s)
        box = (columns.order_x, round(high, 1), columns.both_px, round(max(0.5, low - high), 1))
        canvas.boxes([box], tint(token, 0.18, 0.25))


def _draw_series(
    canvas: Canvas,
    quantity: Quantity,
    token: str,
    y: Callable[[float], float],
    columns: Columns,
    between: tuple[float, float],
) -> None:
    top, floor = between
    at = np.array([y(s) for s in quantity.samples_s], np.float64)
    canvas.boxes([(columns.order_x, round(y(quantity.median_s) - 0.5, 1), columns.both_px, 1)], token)
    x = np.linspace(columns.order_x + 3, columns.order_x + columns.order_px - 3, len(at))
    draw_dots(canvas, x, at, quantity.is_outlier, token, size=4.0 if len(at) <= FEW_DOTS else 2.6)
    inside = at[at > top]
    draw_distribution(
        canvas, inside, token, x=columns.spread_x, width=columns.spread_px, top=top, height=floor - top, bins=BINS
    )


def _draw_names(
    canvas: Canvas,
    results: Sequence[BenchSummary],
    quantities: Sequence[Quantity],
    places: Sequence[float],
    x: int,
) -> None:
    for i, at in enumerate(places):
        quantity, available_px = quantities[i], canvas.width_px - x
        median = units.duration_s(quantity.median_s)
        name = fitted(results[i].name or chr(ord("A") + i), available_px - 62, 11, bold=True)
        canvas.stroke(f"M{number(x - 8)} {number(round(at - 4, 1))}h0", variant_token(i), 6, cap="round")
        canvas.text(x, round(at, 1), name, size=11, bold=True)
        canvas.text(canvas.width_px, round(at, 1), median, size=11, anchor="end")
        if quantity.low_s is not None and quantity.high_s is not None:
            interval = f"{units.duration_s(quantity.low_s)} – {units.duration_s(quantity.high_s)}"
            canvas.text(canvas.width_px, round(at + 12, 1), interval, "ink2", anchor="end")


__all__ = ["compare_html", "compare_svg", "compare_text"]


def compare_text(result: CompareSummary) -> str:
    """The verdicts, a table with the reasons of what is unclear, and one line of fine print, as wide as a terminal."""
    lines = [line for comparison in result.comparisons for line in wrapped(translated(comparison.headline), indent=2)]
    lines += ["", *_table(result), "", one_line(_fine_print(result))]
    for words in _below(result):
        lines += wrapped(words, indent=2)
    return "\n".join(lines)


def compare_html(result: CompareSummary) -> str:
    """The verdicts as headlines, the picture, one line that unfolds, and the warnings; survives sanitisers."""
    line = "".join(headline(translated(c.words), translated(c.times)) for c in result.comparisons)
    explained = [say("{a}: {b}", a=c.name, b=c.explanation) for c in result.comparisons if c.explanation]
    below = unfolding(BETWEEN.join(_fine_print(result)), _details(result), [*explained, *_below(result)])
    return framed(line + image(compare_picture(result), say("Comparison: {sentence}", sentence=_alt(result))) + below)


def compare_svg(result: CompareSummary) -> str:
    """Every ratio with its interval on one logarithmic axis; beside it the samples in order.  1000 px wide."""
    return alone(partial(draw_compare, result=result), _alt(result)).svg


def compare_picture(result: CompareSummary) -> Picture:
    """The same laid out for several widths."""
    return in_bytes(partial(draw_compare, result=result), _alt(result))


def _alt(result: CompareSummary) -> str:
    return translated(chained("{a}; {b}", (c.sentence for c in result.comparisons)))


def _table(result: CompareSummary) -> list[str]:
    """A row per benchmark, and below those that are unclear the reason and what would help."""
    head = ("", "median", "times as fast", "verdict")
    first = result.comparisons[0]
    rows = [(first.baseline, first.median("baseline", first.baseline_s), "× 1", "")]
    rows += [(c.name, c.median("name", c.name_s), c.ratio_text, translate_term(c.verdict)) for c in result.comparisons]
    blocks = [[line.rstrip() for line in block] for block in text_blocks(Table("", head, rows))]
    explained = [*blocks[0], *blocks[1]]
    for comparison, block in zip(result.comparisons, blocks[2:], strict=True):
        explained += block
        explained += wrapped(f"  {translated(comparison.explanation)}", indent=2) if comparison.explanation else []
    return explained


def _fine_print(result: CompareSummary) -> tuple[str, ...]:
    """How it was measured, the device last."""
    first = result.comparisons[0]
    counts = sorted({run.quantities[first.quantity].n for run in result.results})
    samples = f"{counts[0]}" if len(counts) == 1 else phrase("{low} to {high}", low=counts[0], high=counts[-1])
    how = phrase("interleaved (ABBA)") if first.interleaved else phrase("from separate runs")
    stops = {"" if run.failed else run.stopped_by for run in result.results}
    parts = (
        phrase("{samples} samples each, {how}", samples=samples, how=how),
        chained("{a} and {b}", dict.fromkeys(warmth(run) for run in result.results)),
        stops.pop() if len(stops) == 1 else phrase("each stopped for a reason of its own"),
        chained("{a}; {b}", dict.fromkeys(run.device_label or phrase("on the CPU") for run in result.results)),
    )
    return tuple(translated(part) for part in parts if part)


def _details(result: CompareSummary) -> list[str]:
    """What the ratio is, and what clear verdicts rest on."""
    interleaved = result.comparisons[0].interleaved
    how = (
        phrase("the median of the ratios of neighbouring samples")
        if interleaved
        else phrase("the ratio of the medians")
    )
    clear = dict.fromkeys(
        say("{a}: {b}", a=c.name, b=c.why) for c in result.comparisons if c.verdict not in ("unclear", "not comparable")
    )
    ok = dict.fromkeys(
        _about(c, check.detail)
        for c in result.comparisons
        for check in c.checks
        if check.outcome == OK or (check.outcome == NOTED and check.name == "work")
    )
    return [say("× is {how}, in brackets its 95 % confidence interval", how=how), *clear, *ok]


def _about(comparison: Comparison, detail: str) -> str:
    """What was found of the work of a comparison, with its name where the words have none."""
    words = translated(detail)
    return words if comparison.name in words else say("{a}: {b}", a=comparison.name, b=detail)


def _below(result: CompareSummary) -> list[str]:
    """What ended it early, and each warning once with whom it is about."""
    failures = dict.fromkeys(run.failed for run in result.results if run.failed)
    work = dict.fromkeys(
        f"{'! ' if check.outcome == REFUSED else ''}{_about(c, check.detail)}"
        for c in result.comparisons
        for check in c.checks
        if check.outcome == REFUSED or (check.outcome == NOTED and check.name not in ("work", "inputs"))
        if check.detail != c.not_comparable
    )
    ended = [say("ended early: {failed}", failed=failed) for failed in failures]
    warnings: dict[str, list[str]] = {}
    for run in result.results:
        for warning in run.warnings:
            warnings.setdefault(translated(warning.sentence), []).append(run.name)
    everyone = len(result.results)
    said = [
        f"! {words}" if len(n) == everyone else f"! {', '.join(n)}{say(': ')}{words}" for words, n in warnings.items()
    ]
    return [*ended, *work, *said]
