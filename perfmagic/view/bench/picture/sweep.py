"""A sweep as SVG: time against size on logarithmic axes, where the bottleneck changes, and the numbers below."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfmagic import units
from perfmagic.analysis.bench.conditions import QUEUED
from perfmagic.analysis.bench.result import Quantity
from perfmagic.analysis.bench.sweep import SweepSummary
from perfmagic.analysis.bench.trend import bottleneck_border
from perfmagic.view.bench.picture.compare import apart, token_of
from perfmagic.view.svg.canvas import WIDTH_PX, Canvas
from perfmagic.view.svg.metrics import fitted, width_px
from perfmagic.view.svg.palette import tint
from perfmagic.view.svg.path import number

LEFT, RIGHT, TOP, FLOOR = 96, 872, 12, 232
INSET_PX = 24
CELL_PX = 44  # room of a number in the table; where there is less, it is left out
ROW_PX = 15
LEAST_S = 1e-9


@dataclass(frozen=True)
class _Line:
    """One curve: a quantity of one variant."""

    name: str
    token: str
    dashed: bool
    quantities: Sequence[Quantity]


def draw_sweep(sweep: SweepSummary) -> str:
    """The picture of a sweep, 1000 px wide."""
    canvas = Canvas()
    lines = _lines(sweep)
    x = _x_places(sweep)
    y = _y_axis(canvas, [q.median_s for line in lines for q in line.quantities])
    _draw_grounds(canvas, sweep, x)
    for line in lines:
        _draw_line(canvas, line, x, y)
    _draw_names(canvas, lines, y)
    bottom = _draw_numbers(canvas, sweep, lines, x)
    label = sweep.results[0][0].device_label or "on the CPU"
    canvas.text(WIDTH_PX, bottom + 4, label, "ink2", anchor="end")
    return canvas.svg(bottom + 12, f"Sweep over {sweep.name}: {sweep.sentence}")


def _lines(sweep: SweepSummary) -> list[_Line]:
    n_variants = len(sweep.results[0])
    if n_variants == 1:
        results = sweep.variant(0)
        known = (
            ("returns", "returns", "launch", False),
            ("span", "device span", "matrix", True),
            ("done", "done", "comp", False),
            ("queued", QUEUED, "dtod", False),
        )
        return [
            _Line(words, token, dashed, [r.quantities[name] for r in results])
            for name, words, token, dashed in known
            if all(name in r.quantities for r in results)
        ]
    quantity = sweep.comparisons[0][0].quantity
    return [
        _Line(sweep.results[0][i].name, token_of(i), False, [r.quantities[quantity] for r in sweep.variant(i)])
        for i in range(n_variants)
    ]


def _x_places(sweep: SweepSummary) -> list[float]:
    """A place for each value: by its logarithm where values are sizes, else side by side."""
    n = len(sweep.values)
    room = RIGHT - LEFT - 2 * INSET_PX
    if not sweep.numeric:
        return [LEFT + INSET_PX + room * (i + 0.5) / n for i in range(n)]
    low, high = math.log(sweep.values[0]), math.log(sweep.values[-1])
    return [LEFT + INSET_PX + room * (math.log(v) - low) / (high - low) for v in sweep.values]


def _y_axis(canvas: Canvas, times_s: Sequence[float]) -> Callable[[float], float]:
    """Draws labels and grid; gives the function that places a time."""
    seen = [max(t, LEAST_S) for t in times_s]
    low, high = math.log10(min(seen)) - 0.12, math.log10(max(seen)) + 0.12
    if high - low < 0.5:
        low, high = (low + high) / 2 - 0.25, (low + high) / 2 + 0.25

    def y(seconds: float) -> float:
        share = (math.log10(max(seconds, LEAST_S)) - low) / (high - low)
        return FLOOR - max(0.0, min(1.0, share)) * (FLOOR - TOP)

    steps = (1, 2, 5) if high - low < 2.2 else (1,)
    for power in range(math.floor(low), math.ceil(high) + 1):
        for step in steps:
            seconds = step * 10.0**power
            if low < math.log10(seconds) < high:
                at = round(y(seconds), 1)
                canvas.boxes([(LEFT, at, RIGHT - LEFT, 0.75)], "grid")
                text = units.duration_like(seconds * 1e9, seconds * 1e9)
                canvas.text(LEFT - 8, at + 3.5, text, "ink2", anchor="end")
    return y


def _draw_grounds(canvas: Canvas, sweep: SweepSummary, x: Sequence[float]) -> None:
    """Where Python is the bottleneck and where the device is, as two grounds; none where neither is certain."""
    found = bottleneck_border(sweep.values, sweep.variant(0)) if len(sweep.results[0]) == 1 else None
    if found is None:
        return
    low, high = math.log(sweep.values[0]), math.log(sweep.values[-1])
    until, since = (
        round(x[0] + (x[-1] - x[0]) * (math.log(size) - low) / (high - low), 1) for size in (found.until, found.since)
    )
    mark = canvas.mark()
    canvas.boxes([(LEFT, TOP, until - LEFT, FLOOR - TOP)], tint("host3", 0.55, 0.55))
    canvas.boxes([(since, TOP, RIGHT - since, FLOOR - TOP)], tint("comp", 0.07, 0.12))
    canvas.move_down(mark, 0)
    for start, end, words in ((LEFT, until, found.below), (since, RIGHT, found.above)):
        if width_px(words, 11, bold=True) + 16 <= end - start:
            canvas.text(start + 8, TOP + 15, words, size=11, bold=True)


def _draw_line(canvas: Canvas, line: _Line, x: Sequence[float], y: Callable[[float], float]) -> None:
    points = [(number(round(a, 1)), number(round(y(q.median_s), 1))) for a, q in zip(x, line.quantities, strict=True)]
    path = "M" + "L".join(f"{a} {b}" for a, b in points)
    canvas.stroke(path, line.token, 1.5, dash=(3.0, 2.5) if line.dashed else ())
    bars = [
        f"M{a} {number(round(y(q.low_s), 1))}V{number(round(y(q.high_s), 1))}"
        for (a, _), q in zip(points, line.quantities, strict=True)
        if q.low_s is not None and q.high_s is not None
    ]
    canvas.stroke("".join(bars), line.token, 1.5)
    if not line.dashed:
        canvas.stroke("".join(f"M{a} {b}h0" for a, b in points), line.token, 5, cap="round")


def _draw_names(canvas: Canvas, lines: Sequence[_Line], y: Callable[[float], float]) -> None:
    wanted = [y(line.quantities[-1].median_s) + 4 for line in lines]
    for line, at in zip(lines, apart(wanted, 14, TOP + 4, FLOOR), strict=True):
        canvas.stroke(f"M{number(RIGHT + 10)} {number(round(at - 4, 1))}h{number(10)}", line.token, 2)
        canvas.text(RIGHT + 26, round(at, 1), fitted(line.name, WIDTH_PX - RIGHT - 28, 11), size=11)


def _draw_numbers(canvas: Canvas, sweep: SweepSummary, lines: Sequence[_Line], x: Sequence[float]) -> float:
    """The values and below each the medians of all lines; gives the lower edge."""
    shown = _with_room(x)
    y = FLOOR + 16.0
    canvas.text(LEFT - 8, y, fitted(sweep.name, LEFT - 10, 10), "ink2", anchor="end")
    for i in shown:
        canvas.boxes([(round(x[i], 1), FLOOR, 0.75, 4)], "ink3")
        canvas.text(
            round(x[i], 1), y, fitted(str(sweep.values[i]), CELL_PX + 8, 10, bold=True), anchor="middle", bold=True
        )
    for line in lines:
        y += ROW_PX
        canvas.text(LEFT - 8, y, fitted(line.name, LEFT - 10, 10), "ink2", anchor="end")
        for i in shown:
            canvas.text(round(x[i], 1), y, units.duration_s(line.quantities[i].median_s), anchor="middle")
    for name, words in _rate_rows(sweep):
        y += ROW_PX
        canvas.text(LEFT - 8, y, fitted(name, LEFT - 10, 10), "ink2", anchor="end")
        for i in shown:
            canvas.text(round(x[i], 1), y, words[i], anchor="middle")
    for name, ratios in _ratio_rows(sweep):
        y += ROW_PX
        canvas.text(LEFT - 8, y, fitted(name, LEFT - 10, 10), "ink2", anchor="end")
        for i in shown:
            canvas.text(round(x[i], 1), y, ratios[i], anchor="middle", bold=True)
    return y + 12


def _rate_rows(sweep: SweepSummary) -> list[tuple[str, list[str]]]:
    """What each variant achieved, where the user said what a call does: FLOP/s, B/s."""
    rows = []
    for j, first in enumerate(sweep.results[0]):
        who = f"{first.name} " if len(sweep.results[0]) > 1 else ""
        each = sweep.variant(j)
        for unit, values in (("FLOP/s", [r.flop_per_s for r in each]), ("B/s", [r.moved_bytes_per_s for r in each])):
            if any(value is not None for value in values):
                words = ["" if value is None else units.rate(value, "").rstrip() for value in values]
                rows.append((f"{who}{unit}", words))
    return rows


def _ratio_rows(sweep: SweepSummary) -> list[tuple[str, list[str]]]:
    """For each variant but the first how many times as fast it is, in brackets where that is unclear."""
    rows = []
    for j in range(len(sweep.results[0]) - 1):
        each = [row[j] for row in sweep.comparisons]
        words = [f"× {units.significant(c.ratio)}" for c in each]
        said = [f"({w})" if c.verdict == "unclear" else w for w, c in zip(words, each, strict=True)]
        rows.append((f"{each[0].name} is", said))
    return rows


def _with_room(x: Sequence[float]) -> list[int]:
    """Which values have room for a number; the last always."""
    shown = [len(x) - 1]
    for i in range(len(x) - 2, -1, -1):
        if x[shown[-1]] - x[i] >= CELL_PX:
            shown.append(i)
    return shown[::-1]
