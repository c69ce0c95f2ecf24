"""The roofline as SVG: operators sized by their time, over arithmetic intensity, below what the device can do."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfmagic import units
from perfmagic.analysis.timeline.categories import Category
from perfmagic.analysis.timeline.device_operators import DeviceOperator
from perfmagic.analysis.timeline.roofline import RooflineData
from perfmagic.view.svg.canvas import WIDTH_PX, Canvas
from perfmagic.view.svg.metrics import fitted, width_px
from perfmagic.view.svg.path import number

LEFT, RIGHT, TOP, FLOOR = 96, 872, 16, 356
MOST_DOTS = 200  # the longest; a rest of so many more is less than a dot's worth of time
LABELLED = 5
LARGEST_PX, SMALLEST_PX = 26.0, 3.0
LABEL_PX, LABEL_GAP_PX = 260, 14
NUMBER_PX = 13  # a dot with room for a number
INTENSITY = "FLOP per byte of inputs and outputs, each once"
_MATRIX = (Category.GEMM, Category.ATTENTION, Category.CONVOLUTION)

_ZEROS = re.compile(r"\.0+(?=\D)")

Place = Callable[[float], float]


@dataclass(frozen=True)
class _Dot:
    """One operator on the picture; pixels."""

    row: DeviceOperator
    x: float
    y: float
    size: float


def roofline_svg(data: RooflineData) -> str:
    """The picture of one device's operators, 1000 px wide, light and dark."""
    canvas = Canvas()
    x, y = _axes(canvas, data)
    _draw_roofs(canvas, data, x, y)
    dots = _dots(data, x, y)
    for token, matrix in (("comp", False), ("matrix", True)):
        mine = [dot for dot in dots if (dot.row.category in _MATRIX) == matrix]
        _draw_dots(canvas, mine, token)
    _draw_labels(canvas, dots)
    canvas.text(LEFT, FLOOR + 32, INTENSITY, "ink2")
    canvas.text(WIDTH_PX, FLOOR + 32, data.label, "ink2", anchor="end")
    return canvas.svg(FLOOR + 42, f"Roofline: {roofline_words(data)}")


def roofline_words(data: RooflineData) -> str:
    """What the picture holds, and where its roofs are from."""
    if not data.ops_ns:  # benchmarks, which are no part of a device's time
        words = units.plural(len(data.operators), "benchmark")
        return f"{words}; roofs: {data.kind}" if data.kind else words
    n = units.plural(len(data.operators), "operator")
    share = units.percent(data.placed_ns / max(1, data.ops_ns))
    words = f"{n} with counted FLOP, {share} of the device's time"
    if not data.kind:
        return f"{words}; no peak of {data.label} is known, give peaks=perfmagic.Peaks(...)"
    return f"{words}; roofs: {data.kind}"


def _axes(canvas: Canvas, data: RooflineData) -> tuple[Place, Place]:
    """Draws grid and labels; gives the functions that place an intensity and a rate."""
    intensities = [row.flop_per_byte or 1.0 for row in data.operators]
    rates = [row.flop_per_s or 1.0 for row in data.operators] + [roof.flop_per_s for roof in data.roofs]
    if data.bytes_per_s:  # the corner where a roof turns flat belongs to the picture
        intensities += [roof.flop_per_s / data.bytes_per_s for roof in data.roofs]
    x = _logarithmic(intensities, LEFT, RIGHT, least=1.2)
    y = _logarithmic(rates, FLOOR, TOP, least=1.2)
    for power in range(-6, 10):
        at = round(x(10.0**power), 1)
        if LEFT <= at <= RIGHT:
            canvas.boxes([(at, TOP, 0.75, FLOOR - TOP)], "grid")
            canvas.text(at, FLOOR + 14, _plain(power), "ink2", anchor="middle")
    for power in range(19):
        at = round(y(10.0**power), 1)
        if TOP <= at <= FLOOR:
            canvas.boxes([(LEFT, at, RIGHT - LEFT, 0.75)], "grid")
            canvas.text(LEFT - 8, at + 3.5, _ZEROS.sub("", units.rate(10.0**power, "FLOP/s")), "ink2", anchor="end")
    return x, y


def _logarithmic(values: Sequence[float], low_px: float, high_px: float, *, least: float) -> Place:
    """Places values by their logarithm, with a little room on both sides; least: decades."""
    low, high = (math.log10(edge(values)) for edge in (min, max))
    room = max(0.2, (least - (high - low)) / 2)
    low, high = low - room, high + room
    return lambda value: low_px + (math.log10(max(value, 1e-12)) - low) / (high - low) * (high_px - low_px)


def _plain(power: int) -> str:
    return f"{10**power:,}" if power >= 0 else f"{10.0**power:.{-power}f}"


def _draw_roofs(canvas: Canvas, data: RooflineData, x: Place, y: Place) -> None:
    """The slope of the memory once, up to the highest roof, and the flat part of each type with its name."""
    used: list[float] = []
    highest = max((roof.flop_per_s for roof in data.roofs), default=None)
    for roof in reversed(data.roofs):
        at = round(y(roof.flop_per_s), 1)
        corner = x(roof.flop_per_s / data.bytes_per_s) if data.bytes_per_s else LEFT
        canvas.stroke(f"M{number(round(max(LEFT, corner), 1))} {number(at)}H{number(RIGHT)}", "ink2", 1.2)
        below = max([at + 3.5, *(other + LABEL_GAP_PX for other in used)])
        used.append(below)
        name = f"{roof.compute} {units.significant(roof.flop_per_s / 1e12)}{units.NBSP}TFLOP/s"
        canvas.text(RIGHT + 6, below, fitted(name, WIDTH_PX - RIGHT - 6, 10), "ink2")
    if highest is not None:
        canvas.text(RIGHT + 6, max(used) + LABEL_GAP_PX, data.kind, "ink3")
    if data.bytes_per_s:
        _draw_slope(canvas, data.bytes_per_s, highest, x, y)


def _draw_slope(canvas: Canvas, bytes_per_s: float, highest: float | None, x: Place, y: Place) -> None:
    """What the memory allows: a straight line on these axes, cut at the plot's edges and at the highest roof."""
    down_px = (y(10.0) - y(1.0)) / (x(10.0) - x(1.0))  # for a pixel to the right
    one_x, one_y = x(1.0), y(bytes_per_s)  # at one operation a byte
    top = max(TOP, y(highest)) if highest else TOP
    left, right = max(LEFT, one_x + (FLOOR - one_y) / down_px), min(RIGHT, one_x + (top - one_y) / down_px)
    if right <= left:
        return
    first, last = ((round(at, 1), round(one_y + (at - one_x) * down_px, 1)) for at in (left, right))
    canvas.stroke(f"M{number(first[0])} {number(first[1])}L{number(last[0])} {number(last[1])}", "ink2", 1.2)
    words = f"memory {units.size(bytes_per_s)}/s"
    beside = one_y + (left + 6 + width_px(words, 10) - one_x) * down_px  # where the line is at the end of the words
    canvas.text(round(left + 6, 1), round(max(TOP + 10, beside - 6), 1), words, "ink2")


def _dots(data: RooflineData, x: Place, y: Place) -> list[_Dot]:
    longest = data.operators[0].total_ns
    return [
        _Dot(
            row,
            round(x(row.flop_per_byte or 1.0), 1),
            round(y(row.flop_per_s or 1.0), 1),
            round(max(SMALLEST_PX, LARGEST_PX * math.sqrt(row.total_ns / longest)), 1),
        )
        for row in data.operators[:MOST_DOTS]
    ]


def _draw_dots(canvas: Canvas, dots: Sequence[_Dot], token: str) -> None:
    """Discs whose area is the time, the largest below, each with a rim of ground."""
    for dot in sorted(dots, key=lambda one: -one.size):
        point = f"M{number(dot.x)} {number(dot.y)}h0"
        canvas.stroke(point, "ground", dot.size + 2, cap="round")
        canvas.stroke(point, token, dot.size, cap="round")


def _draw_labels(canvas: Canvas, dots: Sequence[_Dot]) -> None:
    """Numbers on the longest operators, their names in the corner that rooflines leave empty: below, at the right."""
    told = dots[:LABELLED]
    for dot, numbers in _together(told):
        inside = dot.size >= NUMBER_PX and len(numbers) == 1
        token = ("on_matrix" if dot.row.category in _MATRIX else "on_comp") if inside else "ink"
        at = dot.x if inside else dot.x + dot.size / 2 + 3
        words = ", ".join(map(str, numbers))
        canvas.text(round(at, 1), round(dot.y + 3.5, 1), words, token, anchor="middle" if inside else "", bold=True)
    lines = [f"{n}  {_label(dot.row)}" for n, dot in enumerate(told, 1)]
    width = max((width_px(line, 10) for line in lines), default=0.0)
    top = FLOOR - 6 - LABEL_GAP_PX * len(lines)
    canvas.boxes(
        [(round(RIGHT - 14 - width, 1), top - 4, round(width + 8, 1), LABEL_GAP_PX * len(lines) + 4)], "ground"
    )
    for i, line in enumerate(lines, 1):
        canvas.text(round(RIGHT - 10 - width, 1), top + LABEL_GAP_PX * i - 3, line)


def _together(dots: Sequence[_Dot]) -> list[tuple[_Dot, list[int]]]:
    """Each dot with its number, counted from 1; one that lies on another joins it."""
    found: list[tuple[_Dot, list[int]]] = []
    for n, dot in enumerate(dots, 1):
        near = [numbers for first, numbers in found if math.hypot(first.x - dot.x, first.y - dot.y) < NUMBER_PX]
        if near:
            near[0].append(n)
        else:
            found.append((dot, [n]))
    return found


def _label(row: DeviceOperator) -> str:
    name = " ".join(filter(None, (row.name.removeprefix("aten::"), row.shapes, row.dtypes)))
    rate = units.rate(row.flop_per_s or 0.0, "FLOP/s")
    if not row.share_frac:
        return f"{fitted(name, LABEL_PX, 10)}, {units.duration(row.total_ns)}, {rate}"
    return f"{fitted(name, LABEL_PX, 10)}, {units.percent(row.share_frac)} of the time, {rate}"
