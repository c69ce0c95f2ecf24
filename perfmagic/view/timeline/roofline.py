"""The renderers of a roofline: text, and HTML with its picture."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from perfmagic.analysis.findings.answer import Conclusion
from perfmagic.analysis.timeline.device_operators import DeviceOperator, Roof, RooflineData
from perfmagic.base import units
from perfmagic.base.language import counted, phrase, say, translate_term, translated
from perfmagic.base.tables import Table, text_lines
from perfmagic.base.terminal import wrapped
from perfmagic.trace.families import Category
from perfmagic.trace.names import short_names
from perfmagic.view.html import conclusion_html, framed, image, paragraphs
from perfmagic.view.svg.canvas import NARROW_PX, WIDTH_PX, Canvas, Placed, number
from perfmagic.view.svg.layouts import alone, in_bytes
from perfmagic.view.svg.metrics import fitted, in_lines, width_px

# The roofline as SVG: operators sized by their time, over arithmetic intensity, below what the device can do.

LEFT, TOP, FLOOR = 96, 16, 356
ROOF_PX = 128  # room for the names of the roofs at their ends
NARROW_ROOF_PX = 44  # in a narrow picture a roof has only its type there, and its rate below the plot
MOST_DOTS = 200  # of the longest operators; all further ones together take less time than a dot shows
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


@dataclass(frozen=True)
class _Plot:
    """How far the plot of a picture reaches to the right, and what places an intensity and a rate in it; px."""

    right: float
    x: Place
    y: Place

    @classmethod
    def for_data(cls, data: RooflineData, width_px: int) -> _Plot:
        """The plot that holds all operators and the corners of the roofs."""
        right = width_px - (ROOF_PX if width_px >= NARROW_PX else NARROW_ROOF_PX)
        intensities = [row.flop_per_byte or 1.0 for row in data.operators]
        rates = [row.flop_per_s or 1.0 for row in data.operators] + [roof.flop_per_s for roof in data.roofs]
        if data.bytes_per_s:  # the corner where a roof turns flat belongs to the picture
            intensities += [roof.flop_per_s / data.bytes_per_s for roof in data.roofs]
        x = _logarithmic(intensities, LEFT, right, least=1.2)
        return cls(right, x, _logarithmic(rates, FLOOR, TOP, least=1.2))


def roofline_svg(data: RooflineData) -> str:
    """The picture of one device's operators, 1000 px wide, light and dark."""
    return alone(partial(_draw_roofline, data), _alt(data)).svg


def _alt(data: RooflineData) -> str:
    return say("Roofline: {words}", words=describe_roofline(data))


def _draw_roofline(data: RooflineData, canvas: Canvas) -> float:
    """The picture as wide as the canvas; returns its height."""
    plot = _Plot.for_data(data, canvas.width_px)
    _draw_axes(canvas, plot)
    _draw_roofs(canvas, data, plot)
    dots = _dots(data, plot)
    for token, matrix in (("comp", False), ("matrix", True)):
        _draw_dots(canvas, [dot for dot in dots if (dot.row.category in _MATRIX) == matrix], token)
    _draw_numbers(canvas, dots[:LABELLED])
    lines = [f"{n}  {_label(dot.row)}" for n, dot in enumerate(dots[:LABELLED], 1)]
    if canvas.width_px == WIDTH_PX:
        _draw_names(canvas, lines, plot.right)
        lines = []
    if canvas.width_px < NARROW_PX:
        lines += [_describe_roof(roof) for roof in data.roofs]
    return _draw_below(canvas, lines, data.label)


def _draw_below(canvas: Canvas, lines: Sequence[str], label: str) -> float:
    """The name of the axis, the device, and the lines that have no room in the plot; returns the lower edge."""
    y = FLOOR + 32.0
    intensity = say(INTENSITY)
    for words in in_lines(intensity, canvas.width_px - LEFT, 10):
        canvas.text(LEFT, y, words, "ink2")
        y += LABEL_GAP_PX
    used = width_px(intensity, 10) + LEFT + LABEL_GAP_PX
    y -= LABEL_GAP_PX if used + width_px(label, 10) <= canvas.width_px else 0
    canvas.text(canvas.width_px, y, fitted(label, canvas.width_px, 10), "ink2", anchor="end")
    for line in lines:
        for words in in_lines(line, canvas.width_px - 6, 10):
            y += LABEL_GAP_PX
            canvas.text(6, y, words)
    return y + 10


def describe_roofline(data: RooflineData) -> str:
    """What the picture holds, and where its roofs are from."""
    if not data.ops_ns:  # benchmarks, which are no part of a device's time
        words = counted(len(data.operators), "{n} benchmark", "{n} benchmarks")
        return _with_roofs(words, data) if data.kind else translated(words)
    words = counted(
        len(data.operators),
        "{n} operator with counted FLOP, {share} of the device's time",
        "{n} operators with counted FLOP, {share} of the device's time",
        share=units.percent(data.placed_ns / max(1, data.ops_ns)),
    )
    if not data.kind:
        peaks = "perfmagic.Peaks(...)"
        return say(
            "{words}; no peak of {label} is known, give peaks={peaks}", words=words, label=data.label, peaks=peaks
        )
    return _with_roofs(words, data)


def _with_roofs(words: str, data: RooflineData) -> str:
    return say("{words}, roofs from {kind} peaks", words=words, kind=phrase(data.kind))


def describe_limit(data: RooflineData) -> str:
    """How near to its roof the longest operator is, or of benchmarks the first and the last; which roof it is."""
    if data.ops_ns:
        first = data.operators[0]
        name, share = _name_of(data, first), units.percent(first.share_frac)
        if first.roof_frac is None:
            rate = units.rate(first.flop_per_s or 0.0, "FLOP/s")
            return say("{name} takes {share} of the device's time, at {rate}", name=name, share=share, rate=rate)
        said = {"name": name, "share": share, "roof": units.percent(first.roof_frac)}
        if _is_below_memory(data, first):
            return say("{name} takes {share} of the device's time and reaches {roof} of the memory's roof", **said)
        return say("{name} takes {share} of the device's time and reaches {roof} of the compute roof", **said)
    placed = sorted((row for row in data.operators if row.roof_frac is not None), key=lambda row: row.roof_frac or 0.0)
    if not placed:
        return describe_roofline(data)
    near, far = placed[-1], placed[0]
    most = say("{name} reaches {roof} of its roof", name=near.name, roof=units.percent(near.roof_frac or 0.0))
    if near is far:
        return most
    return most + say("; ") + say("{name} reaches {roof}", name=far.name, roof=units.percent(far.roof_frac or 0.0))


def _is_below_memory(data: RooflineData, row: DeviceOperator) -> bool:
    """Whether the memory's bandwidth is the lower roof at the intensity of an operator."""
    if not data.bytes_per_s or not row.flop_per_byte:
        return False
    return row.peak_flop_per_s is None or row.flop_per_byte * data.bytes_per_s < row.peak_flop_per_s


def _name_of(data: RooflineData, row: DeviceOperator) -> str:
    return f"`{short_names([each.name for each in data.operators], 40, kernels=False)[row.name]}`"


def _draw_axes(canvas: Canvas, plot: _Plot) -> None:
    """The grid and its labels, those of the intensity where none touches another."""
    placed = Placed(canvas)
    for power in range(-6, 10):
        at = round(plot.x(10.0**power), 1)
        if LEFT <= at <= plot.right:
            canvas.boxes([(at, TOP, 0.75, FLOOR - TOP)], "grid")
            placed.text(at, FLOOR + 14, _plain(power), "ink2")
    for power in range(19):
        at = round(plot.y(10.0**power), 1)
        if TOP <= at <= FLOOR:
            canvas.boxes([(LEFT, at, plot.right - LEFT, 0.75)], "grid")
            canvas.text(LEFT - 8, at + 3.5, _ZEROS.sub("", units.rate(10.0**power, "FLOP/s")), "ink2", anchor="end")


def _logarithmic(values: Sequence[float], low_px: float, high_px: float, *, least: float) -> Place:
    """Places values by their logarithm, with a little room on both sides; least: decades."""
    low, high = (math.log10(edge(values)) for edge in (min, max))
    margin = max(0.2, (least - (high - low)) / 2)
    low, high = low - margin, high + margin
    return lambda value: low_px + (math.log10(max(value, 1e-12)) - low) / (high - low) * (high_px - low_px)


def _plain(power: int) -> str:
    return f"{10**power:,}" if power >= 0 else f"{10.0**power:.{-power}f}"


def _draw_roofs(canvas: Canvas, data: RooflineData, plot: _Plot) -> None:
    """The slope of the memory once, up to the highest roof, and the flat part of each type with its name."""
    used: list[float] = []
    highest = max((roof.flop_per_s for roof in data.roofs), default=None)
    available_px = canvas.width_px - plot.right - 6
    for roof in reversed(data.roofs):
        at = round(plot.y(roof.flop_per_s), 1)
        corner = plot.x(roof.flop_per_s / data.bytes_per_s) if data.bytes_per_s else LEFT
        canvas.stroke(f"M{number(round(max(LEFT, corner), 1))} {number(at)}H{number(plot.right)}", "ink2", 1.2)
        below = max([at + 3.5, *(other + LABEL_GAP_PX for other in used)])
        used.append(below)
        name = _describe_roof(roof) if canvas.width_px >= NARROW_PX else roof.compute
        canvas.text(plot.right + 6, below, fitted(name, available_px, 10), "ink2")
    if highest is not None:
        for line, words in enumerate(in_lines(translate_term(data.kind), available_px, 10), 1):
            canvas.text(plot.right + 6, max(used) + LABEL_GAP_PX * line, words, "ink3")
    if data.bytes_per_s:
        _draw_slope(canvas, data.bytes_per_s, highest, plot)


def _describe_roof(roof: Roof) -> str:
    return f"{roof.compute} {units.significant(roof.flop_per_s / 1e12)}{units.NBSP}TFLOP/s"


def _draw_slope(canvas: Canvas, bytes_per_s: float, highest: float | None, plot: _Plot) -> None:
    """What the memory allows: a straight line on these axes, cut at the plot's edges and at the highest roof."""
    x, y = plot.x, plot.y
    down_px = (y(10.0) - y(1.0)) / (x(10.0) - x(1.0))  # for a pixel to the right
    one_x, one_y = x(1.0), y(bytes_per_s)  # at one operation a byte
    top = max(TOP, y(highest)) if highest else TOP
    left, right = max(LEFT, one_x + (FLOOR - one_y) / down_px), min(plot.right, one_x + (top - one_y) / down_px)
    if right <= left:
        return
    first, last = ((round(at, 1), round(one_y + (at - one_x) * down_px, 1)) for at in (left, right))
    canvas.stroke(f"M{number(first[0])} {number(first[1])}L{number(last[0])} {number(last[1])}", "ink2", 1.2)
    words = say("memory {rate}", rate=f"{units.size(bytes_per_s)}/s")
    beside = one_y + (left + 6 + width_px(words, 10) - one_x) * down_px  # where the line is at the end of the words
    canvas.text(round(left + 6, 1), round(max(TOP + 10, beside - 6), 1), words, "ink2")


def _dots(data: RooflineData, plot: _Plot) -> list[_Dot]:
    longest = max(row.total_ns for row in data.operators)
    return [
        _Dot(
            row,
            round(plot.x(row.flop_per_byte or 1.0), 1),
            round(plot.y(row.flop_per_s or 1.0), 1),
            round(max(SMALLEST_PX, LARGEST_PX * math.sqrt(row.total_ns / longest)), 1),
        )
        for row in data.operators[:MOST_DOTS]
    ]


def _draw_dots(canvas: Canvas, dots: Sequence[_Dot], token: str) -> None:
    """Discs whose area is the time, the largest below, each with a rim of ground."""
    for dot in sorted(dots, key=lambda dot: -dot.size):
        point = f"M{number(dot.x)} {number(dot.y)}h0"
        canvas.stroke(point, "ground", dot.size + 2, cap="round")
        canvas.stroke(point, token, dot.size, cap="round")


def _draw_numbers(canvas: Canvas, dots: Sequence[_Dot]) -> None:
    """Numbers on the longest operators."""
    for dot, numbers in _together(dots):
        inside = dot.size >= NUMBER_PX and len(numbers) == 1
        token = ("on_matrix" if dot.row.category in _MATRIX else "on_comp") if inside else "ink"
        at = dot.x if inside else dot.x + dot.size / 2 + 3
        words = ", ".join(map(str, numbers))
        canvas.text(round(at, 1), round(dot.y + 3.5, 1), words, token, anchor="middle" if inside else "", bold=True)


def _draw_names(canvas: Canvas, lines: Sequence[str], right: float) -> None:
    """What the numbers are, in the corner that rooflines leave empty: below, at the right."""
    width = max((width_px(line, 10) for line in lines), default=0.0)
    top = FLOOR - 6 - LABEL_GAP_PX * len(lines)
    canvas.boxes(
        [(round(right - 14 - width, 1), top - 4, round(width + 8, 1), LABEL_GAP_PX * len(lines) + 4)], "ground"
    )
    for i, line in enumerate(lines, 1):
        canvas.text(round(right - 10 - width, 1), top + LABEL_GAP_PX * i - 3, line)


def _together(dots: Sequence[_Dot]) -> list[tuple[_Dot, list[int]]]:
    """Each dot with its number, counted from 1; one that lies on another joins it."""
    groups: list[tuple[_Dot, list[int]]] = []
    for n, dot in enumerate(dots, 1):
        near = [numbers for first, numbers in groups if math.hypot(first.x - dot.x, first.y - dot.y) < NUMBER_PX]
        if near:
            near[0].append(n)
        else:
            groups.append((dot, [n]))
    return groups


def _label(row: DeviceOperator) -> str:
    name = " ".join(filter(None, (row.name.removeprefix("aten::"), row.shapes, row.dtypes)))
    rate = units.rate(row.flop_per_s or 0.0, "FLOP/s")
    if not row.share_frac:
        return f"{fitted(name, LABEL_PX, 10)}, {units.duration(row.total_ns)}, {rate}"
    share = units.percent(row.share_frac)
    return say("{name}, {share} of the time, {rate}", name=fitted(name, LABEL_PX, 10), share=share, rate=rate)


ROWS = 10
HEAD = ("", "time", "achieved", "of its roof", "of the peak", "FLOP/byte")


def roofline_text(data: RooflineData) -> str:
    """The words and the longest operators, as wide as the terminal."""
    rows = [_row(row) for row in data.operators[:ROWS]]
    below = wrapped(say("peaks: {source}", source=data.source)) if data.source else []
    lines = [
        *wrapped(describe_limit(data)),
        *wrapped(f"  {data.label}: {describe_roofline(data)}", indent=2),
        "",
        *text_lines(Table("", HEAD, rows), shorten=_shortened),
        *below,
    ]
    return "\n".join(line.rstrip() for line in lines)


def roofline_html(data: RooflineData) -> str:
    """The picture as an image, and where its roofs are from; survives sanitisers."""
    words = describe_roofline(data)
    head = conclusion_html(Conclusion(describe_limit(data)), f"{data.label}: {words}")
    picture = image(in_bytes(partial(_draw_roofline, data), _alt(data)), _alt(data))
    return framed(head + picture + paragraphs([data.source] if data.source else []))


def _shortened(names: Sequence[str], max_columns: int) -> list[str]:
    short = short_names(names, max_columns, kernels=False)
    return [short[name] for name in names]


def _row(row: DeviceOperator) -> tuple[str, ...]:
    name = " ".join(filter(None, (row.name, row.shapes, row.dtypes)))
    return (
        name,
        units.duration(row.total_ns),
        units.rate(row.flop_per_s or 0.0, "FLOP/s"),
        "" if row.roof_frac is None else units.percent(row.roof_frac),
        "" if row.peak_frac is None else units.percent(row.peak_frac),
        units.significant(row.flop_per_byte or 0.0),
    )
