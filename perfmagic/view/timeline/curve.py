"""How a run shrinks as some kernels become faster: a line that goes flat where something else holds the run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfmagic import units
from perfmagic.analysis.replay.prediction import CurvePoint
from perfmagic.view.svg.canvas import Canvas
from perfmagic.view.svg.path import UNITS_PER_PX

LEFT_PX, TOP_PX, PLOT_PX, HIGH_PX = 80, 30, 420, 130


def curve_svg(points: Sequence[CurvePoint], recorded_ns: int, what: str) -> str:
    """The predicted time over how much shorter the kernels become, with its interval.

    points: in any order.  recorded_ns: how long the run took, the line's beginning.  what: whose kernels these are.
    """
    canvas = Canvas()
    known = sorted(points, key=lambda point: point.k)
    most_ns = max([recorded_ns, *(point.high_ns for point in known)])

    def x(k: float) -> float:
        return LEFT_PX + (1 - 1 / k if k >= 1 else 0.0) * PLOT_PX

    def y(ns: int) -> float:
        return TOP_PX + HIGH_PX * (1 - ns / most_ns)

    faster = [point for point in known if point.k >= 1]
    line = [(x(1), y(recorded_ns)), *((x(point.k), y(point.predicted_ns)) for point in faster)]
    upper = [(x(1), y(recorded_ns)), *((x(point.k), y(point.high_ns)) for point in faster)]
    lower = [(x(1), y(recorded_ns)), *((x(point.k), y(point.low_ns)) for point in faster)]
    canvas.text(LEFT_PX, 14, f"how long the run takes with {what} k times as fast", "ink2")
    for ns in (0, recorded_ns):
        canvas.stroke(_path([(LEFT_PX, y(ns)), (LEFT_PX + PLOT_PX, y(ns))]), "rule")
        canvas.text(LEFT_PX - 8, y(ns) + 4, units.duration(ns) if ns else "0", "ink2", anchor="end")
    canvas.fill(_path([*upper, *reversed(lower)]), "rule")
    canvas.stroke(_path(line), "comp", 2)
    for point in faster:
        canvas.boxes([(x(point.k) - 2, y(point.predicted_ns) - 2, 4, 4)], "comp")
        canvas.text(x(point.k), TOP_PX + HIGH_PX + 15, _times(point.k), "ink2", anchor="middle")
    last = faster[-1] if faster else None
    if last is not None:
        canvas.text(x(last.k) + 10, y(last.predicted_ns) + 4, units.duration(last.predicted_ns), bold=True)
    return canvas.svg(TOP_PX + HIGH_PX + 24, f"the run as {what} become faster")


def _times(k: float) -> str:
    return "in no time" if math.isinf(k) else f"{k:g} ×"


def _path(places: Sequence[tuple[float, float]]) -> str:
    """Straight lines from place to place, in the picture's own unit."""
    return "M" + "L".join(f"{round(x * UNITS_PER_PX)} {round(y * UNITS_PER_PX)}" for x, y in places)
