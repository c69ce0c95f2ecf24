"""Several numbers of ranks as SVG: the speed-up beside the ideal, and where the time of each went."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from perfmagic import units
from perfmagic.analysis.ranks.scaling import ScalingStat
from perfmagic.view.svg.canvas import WIDTH_PX, Canvas
from perfmagic.view.svg.metrics import fitted, width_px
from perfmagic.view.svg.palette import LOST_SHARE, Tone, tint
from perfmagic.view.svg.path import number, rects
from perfmagic.view.svg.placed import Placed

TOP, FLOOR = 30, 190
SPEED = (56, 400)  # the left half, with the speed-up; the right one has the time
TIME = (500, 988)
INSET_PX = 26
BAR_PX = 56
LABEL_PX = 30  # a part that is lower has no room for its length
PARTS = (
    ("compute_ns", "compute", "comp"),
    ("exposed_transfer_ns", "data moving", "comm"),
    ("exposed_waiting_ns", "waiting for ranks", "wait"),
    ("rest_ns", "Python, copies, idle", "host2"),
)
IDEAL = "ideal"
ON = ("comp", "comm")  # parts dark enough for letters of their own color


def draw_scaling(rows: Sequence[ScalingStat], scaling: str, device_label: str, alt: str) -> str:
    """The picture, 1000 px wide: both halves have a place for each number of ranks."""
    canvas = Canvas()
    _titles(canvas, rows, scaling)
    _draw_speedup(canvas, rows)
    _draw_times(canvas, rows)
    bottom = _key(canvas, FLOOR + 42.0)
    canvas.text(WIDTH_PX, bottom, device_label, "ink2", anchor="end")
    return canvas.svg(bottom + 8, alt)


def _titles(canvas: Canvas, rows: Sequence[ScalingStat], scaling: str) -> None:
    against = units.plural(rows[0].ranks, "rank")
    canvas.text(SPEED[0], 14, f"speed-up against {against}, {scaling} scaling", size=11, bold=True)
    canvas.text(TIME[0], 14, "time of the cell, mean of the ranks", size=11, bold=True)


def _places(rows: Sequence[ScalingStat], half: tuple[int, int]) -> list[float]:
    """Where each number of ranks stands: doubling it is one distance."""
    low, high = math.log(rows[0].ranks), math.log(rows[-1].ranks)
    room = half[1] - half[0] - 2 * INSET_PX
    return [half[0] + INSET_PX + room * ((math.log(r.ranks) - low) / (high - low) if high > low else 0.5) for r in rows]


def _draw_speedup(canvas: Canvas, rows: Sequence[ScalingStat]) -> None:
    x, fewest = _places(rows, SPEED), rows[0].ranks
    ideal = [row.ranks / fewest for row in rows]
    low = math.log2(min(1.0, *(row.speedup for row in rows))) - 0.6
    high = math.log2(max(*ideal, *(row.speedup for row in rows))) + 0.3

    def y(times: float) -> float:
        """Doubling is one distance here too, so that the ideal is a straight line."""
        return FLOOR - (FLOOR - TOP) * (math.log2(times) - low) / (high - low)

    powers = range(math.ceil(low), math.floor(high) + 1)
    _grid(canvas, SPEED, [2.0**power for power in powers], y, lambda times: f"\u00d7 {times:g}")
    canvas.stroke(_path(x, [y(times) for times in ideal]), "ink3", 1.5, dash=(3.0, 2.5))
    canvas.stroke(_path(x, [y(row.speedup) for row in rows]), "comp", 1.5)
    placed = Placed(canvas)
    for i in _by_worth(rows):
        at, row = x[i], rows[i]
        canvas.stroke(f"M{number(round(at, 1))} {number(round(y(row.speedup), 1))}h0", "comp", 6, cap="round")
        below = y(row.speedup) + 16 if row.efficiency_frac < 1 else y(row.speedup) - 8
        placed.text(at, below, units.percent(row.efficiency_frac), bold=True)
    top = y(ideal[-1])
    if not placed.text(x[-1] - 10, top - 3, IDEAL, "ink2", anchor="end"):
        placed.text(x[-1] - 10, top + 20, IDEAL, "ink2", anchor="end")
    _numbers(canvas, x, rows)


def _draw_times(canvas: Canvas, rows: Sequence[ScalingStat]) -> None:
    x = _places(rows, TIME)
    top = max(*(row.time_ns for row in rows), *(row.ideal_ns for row in rows)) * 1.12
    near = min((b - a for a, b in pairwise(x)), default=2.0 * BAR_PX)
    wide = min(BAR_PX, near * 0.8)

    def y(ns: float) -> float:
        return FLOOR - (FLOOR - TOP) * ns / top

    labels: list[tuple[float, float, str, str]] = []
    for at, row in zip(x, rows, strict=True):
        done = 0.0
        for name, _, token in PARTS:
            length = getattr(row, name)
            box = (round(at - wide / 2, 1), round(y(done + length), 1), wide, round(y(done) - y(done + length), 1))
            _part(canvas, box, token)
            words = units.duration(length)
            if box[3] >= LABEL_PX / 2 and width_px(words, 10) + 4 <= wide:
                labels.append((at, box[1] + box[3] / 2 + 3.5, words, f"on_{token}" if token in ON else "ink"))
            done += length
    placed = Placed(canvas)
    for i in _by_worth(rows):
        placed.text(x[i], y(rows[i].time_ns) - 5, units.duration(rows[i].time_ns), bold=True)
    for at, level, words, ink in labels:
        placed.text(at, level, words, ink)
    for at, row in zip(x, rows, strict=True):
        level = round(y(row.ideal_ns), 1)
        past = min(6.0, (near - wide) / 2)  # of a neighbour's line it stays away
        pieces = placed.beside(at - wide / 2 - past, at + wide / 2 + past, level)
        data = "".join(f"M{number(round(a, 1))} {number(level)}h{number(round(b - a, 1))}" for a, b in pieces)
        canvas.stroke(data, "ink", 1.2, dash=(3.0, 2.5))
    canvas.boxes([(TIME[0], FLOOR, TIME[1] - TIME[0], 0.75)], "rule")
    _numbers(canvas, x, rows)


def _part(canvas: Canvas, box: tuple[float, float, float, float], token: str) -> None:
    """A part of the time; red is lost time, hatched as in the ranks' rows."""
    if box[3] <= 0:
        return
    tone: str | Tone = tint("wait", LOST_SHARE, LOST_SHARE) if token == "wait" else token
    canvas.boxes([box], tone)
    if token == "wait":
        canvas.hatch_lost(rects([box]))


def _grid(
    canvas: Canvas,
    half: tuple[int, int],
    values: Sequence[float],
    y: Callable[[float], float],
    words: Callable[[float], str],
) -> None:
    for value in values:
        at = round(y(value), 1)
        canvas.boxes([(half[0], at, half[1] - half[0], 0.75)], "grid")
        canvas.text(half[0] - 6, at + 3.5, words(value), "ink2", anchor="end")
    canvas.boxes([(half[0], FLOOR, half[1] - half[0], 0.75)], "rule")


def _numbers(canvas: Canvas, x: Sequence[float], rows: Sequence[ScalingStat]) -> None:
    """The numbers of ranks below a half; more ranks than cores are said. Where they are many, numbers alone."""
    placed = Placed(canvas)
    words = [units.plural(row.ranks, "rank") for row in rows]
    many = not placed.fit(list(x), words, bold=True)
    if many:
        words = [str(row.ranks) for row in rows[:-1]] + words[-1:]
    for i in _by_worth(rows):
        row = rows[i]
        shown = placed.text(x[i], FLOOR + 14, words[i], bold=True)
        if shown and row.crowded and (not many or row is rows[-1]):
            placed.text(x[i], FLOOR + 26, fitted(f"on {units.plural(row.cores or 0, 'core')}", 90, 10), "ink2")


def _by_worth(rows: Sequence[ScalingStat]) -> list[int]:
    """Where there is no room for the labels of all, the last and the first have theirs; the table has the rest."""
    return list(dict.fromkeys((len(rows) - 1, 0, *range(len(rows)))))


def _key(canvas: Canvas, y: float) -> float:
    x = float(TIME[0])
    for _, words, token in PARTS:
        _part(canvas, (x, y - 8, 10, 9), token)
        canvas.text(x + 14, y, words, "ink2")
        x += width_px(words, 10) + 30
    canvas.stroke(f"M{number(x)} {number(y - 3)}h{number(18)}", "ink", 1.2, dash=(3.0, 2.5))
    canvas.text(x + 22, y, IDEAL, "ink2")
    return y + 16


def _path(x: Sequence[float], y: Sequence[float]) -> str:
    return "M" + "L".join(f"{number(round(a, 1))} {number(round(b, 1))}" for a, b in zip(x, y, strict=True))
