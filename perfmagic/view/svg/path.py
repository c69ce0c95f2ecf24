"""Short path data for SVG: step curves, thin lines and rectangles with rounded, relative coordinates.

The picture's user unit is half a pixel: heights are multiples of half a pixel, and so need no decimal point.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from perfmagic.trace.columns import Bool, Float64

UNITS_PER_PX = 2


@lru_cache(maxsize=8192)
def number(px: float) -> str:
    """A length in pixels as user units, at most two decimals, as few characters as possible: 0.25 → ".5"."""
    text = f"{px * UNITS_PER_PX:.2f}".rstrip("0").rstrip(".")
    if text in ("-0", ""):
        return "0"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def quantised(height_px: Float64, step_px: float) -> Float64:
    """Heights rounded to steps; what is not zero keeps at least one step, so that no time disappears."""
    rounded = np.round(height_px / step_px)
    return np.where(height_px > 0, np.maximum(rounded, 1), 0) * step_px


def skyline(edges_px: Float64, height_px: Float64, floor_px: float) -> str:
    """A closed shape standing on the floor: between edges i and i + 1 it is height_px[i] high.

    Heights should be quantised: only changes are written.
    """
    return "".join(_run(edges_px, height_px, floor_px, a, b) + "z" for a, b in stretches(height_px > 0))


def step_line(edges_px: Float64, height_px: Float64, floor_px: float, *, down: bool = True) -> str:
    """An open step curve over the floor. NaN interrupts it; with `down` zero does, and ends go to the floor."""
    drawn = height_px > 0 if down else ~np.isnan(height_px)
    return "".join(_run(edges_px, height_px, floor_px, a, b, feet=down) for a, b in stretches(drawn))


def thin_line(x_px: Float64, y_px: Float64, tolerance_px: float) -> str:
    """An open line through points in x order, in as few straight pieces as stay within the tolerance of every point."""
    kept = _corners(x_px.tolist(), y_px.tolist(), tolerance_px)
    x, y = np.round(x_px[kept], 1).tolist(), np.round(y_px[kept] * 2).tolist()
    text = [f"M{number(x[0])} {number(y[0] / 2)}"]
    for i in range(1, len(kept)):
        down = number((y[i] - y[i - 1]) / 2)
        along = number(x[i] - x[i - 1])
        text.append(f"h{along}" if down == "0" else f"l{along}{'' if down.startswith('-') else ' '}{down}")
    return "".join(text)


def rects(boxes: Iterable[tuple[float, float, float, float]]) -> str:
    """Many rectangles (x, y, width, height) as one path."""
    return "".join(f"M{number(x)} {number(y)}h{number(w)}v{number(h)}h{number(-w)}z" for x, y, w, h in boxes)


def _corners(x: list[float], y: list[float], tolerance: float) -> list[int]:
    """Indices of the points to keep: from each, as far as one straight piece passes all points between."""
    kept, steepest, flattest = [0], float("inf"), float("-inf")
    for i in range(1, len(x)):
        origin = kept[-1]
        run = max(x[i] - x[origin], 1e-9)
        slope = (y[i] - y[origin]) / run
        if not flattest <= slope <= steepest and i - 1 > origin:
            kept.append(i - 1)
            steepest, flattest = float("inf"), float("-inf")
            run = max(x[i] - x[i - 1], 1e-9)
            origin = i - 1
        steepest = min(steepest, (y[i] - y[origin] + tolerance) / run)
        flattest = max(flattest, (y[i] - y[origin] - tolerance) / run)
    return [*kept, len(x) - 1] if len(x) > 1 else kept


def stretches(mask: Bool) -> list[tuple[int, int]]:
    """Index ranges [a, b) in which the mask holds."""
    padded = np.concatenate(([False], mask, [False]))
    flips = np.flatnonzero(padded[1:] != padded[:-1])
    return [(int(a), int(b)) for a, b in flips.reshape(-1, 2)]


def _run(edges: Float64, height: Float64, floor: float, a: int, b: int, *, feet: bool = True) -> str:
    """Slots a to b as relative moves; sums of rounded moves are rounded sums, so nothing drifts."""
    part = height[a:b]
    cuts = np.concatenate(([0], np.flatnonzero(np.diff(part)) + 1))
    x = [*np.round(edges[a:b][cuts], 1).tolist(), round(float(edges[b]), 1)]
    levels = part[cuts].tolist()
    at = 0.0 if feet else levels[0]
    text = [f"M{number(x[0])} {number(floor - at)}"]
    for i, level in enumerate(levels):
        if level != at:
            text.append(f"v{number(at - level)}")
        text.append(f"h{number(x[i + 1] - x[i])}")
        at = level
    if feet:
        text.append(f"v{number(at)}")
    return "".join(text)
