"""What joins the rows of the picture of several ranks: a line through each meeting, a dot on the rank that came last,
an arrow from each send to its receive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perfmagic.trace.columns import NONE, Float64, Int64
from perfmagic.view.ranks.met import Met
from perfmagic.view.svg.canvas import Canvas
from perfmagic.view.svg.palette import tint
from perfmagic.view.svg.path import number
from perfmagic.view.svg.scale import Scale

APART_PX = 4  # lines that stand closer are one: that of the longest wait
MOST_ARROWS = 200
_TIP_PX = (4.0, 1.7)  # length and half width of an arrow's tip
_LINE = tint("wait", 0.6, 0.6)


@dataclass(frozen=True)
class Heights:
    """Of the bands of a row and the gap after it, in px; bands of 0 are left out."""

    host: int
    compute: int
    comm: int
    copy: int
    idle: int
    gap: int

    @property
    def row(self) -> int:
        return self.host + self.compute + self.comm + self.copy + self.idle


@dataclass(frozen=True)
class Places:
    """Where the rows lie: the first one's top, their heights, how many are drawn."""

    top: float
    high: Heights
    n: int

    def comm(self, row: int, share: float) -> float:
        """A height within the band of communication of a row, from its top (0) to its floor (1)."""
        high = self.high
        return self.top + row * (high.row + high.gap) + high.host + high.compute + share * high.comm


def draw_met(canvas: Canvas, met: Met, scale: Scale, places: Places, column_px: int) -> None:
    """The lines, dots and arrows of what lies in the scale's window; the coarser the columns, the fewer."""
    if places.n < 2:
        return
    _meetings(canvas, met, scale, places, max(APART_PX, 2 * column_px))
    _arrows(canvas, met, scale, places, MOST_ARROWS // column_px)


def _meetings(canvas: Canvas, met: Met, scale: Scale, places: Places, apart_px: int) -> None:
    first, last_row = met.first_row, np.minimum(met.last_row, places.n - 1)
    shown = np.flatnonzero((met.met_ns >= scale.start_ns) & (met.met_ns < scale.end_ns) & (first < last_row))
    if not len(shown):
        return
    x_px: Float64 = (met.met_ns - scale.start_ns).astype(np.float64) * scale.px_per_ns
    lines, dots = "", ""
    radius = 2.6 if places.high.row > 20 else 1.8
    for i in sorted(_apart(x_px, shown[np.argsort(-met.waited_ns[shown], kind="stable")], apart_px)):
        x = number(round(float(x_px[i]), 1))
        upper, lower = places.comm(int(first[i]), 0.5), places.comm(int(last_row[i]), 0.5)
        lines += f"M{x} {number(round(upper))}V{number(round(lower))}"
        if met.last[i] != NONE and met.last[i] < places.n:
            dots += f"M{x} {number(round(places.comm(int(met.last[i]), 0.5) * 2) / 2)}h0"
    canvas.stroke(lines, _LINE, 0.8, dash=(2, 2))
    canvas.stroke(dots, "ground", 2 * radius + 1.6, cap="round")
    canvas.stroke(dots, "wait", 2 * radius, cap="round")


def _apart(x_px: Float64, order: Int64, apart_px: float) -> Iterator[int]:
    """The first of some places that keep a distance from all before them."""
    taken: set[int] = set()
    for i in order.tolist():
        column = int(x_px[i] // apart_px)
        if not taken & {column - 1, column, column + 1}:
            taken.add(column)
            yield i


def _arrows(canvas: Canvas, met: Met, scale: Scale, places: Places, most: int) -> None:
    both = met.both_ns
    seen = (both >= scale.start_ns) & (met.arrived_ns < scale.end_ns)
    seen &= (met.source < places.n) & (met.target < places.n)
    shown = np.flatnonzero(seen)
    if len(shown) > most:  # those that took longest
        shown = np.sort(shown[np.argsort(both[shown] - met.arrived_ns[shown], kind="stable")[:most]])
    shafts, tips = "", ""
    for i in shown.tolist():
        x0, x1 = (float(ns - scale.start_ns) * scale.px_per_ns for ns in (both[i], met.arrived_ns[i]))
        y0, y1 = places.comm(int(met.source[i]), 0.25), places.comm(int(met.target[i]), 0.75)
        shafts += f"M{number(round(x0, 1))} {number(round(y0))}L{number(round(x1, 1))} {number(round(y1))}"
        tips += _tip(x0, y0, x1, y1)
    canvas.stroke(shafts, "ink", 0.8, 0.6)
    canvas.fill(tips, "ink")


def _tip(x0: float, y0: float, x1: float, y1: float) -> str:
    long, half = _TIP_PX
    length = max(1e-6, ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5)
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    corners = (
        (x1, y1),
        (x1 - long * dx - half * dy, y1 - long * dy + half * dx),
        (x1 - long * dx + half * dy, y1 - long * dy - half * dx),
    )
    return "M" + "L".join(f"{number(round(x, 1))} {number(round(y, 1))}" for x, y in corners) + "z"
