"""Samples in the order they were taken, and their distribution beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmagic.trace.columns import Float64
from perfmagic.view.svg.canvas import Canvas
from perfmagic.view.svg.palette import tint
from perfmagic.view.svg.path import number

MOST_DOTS = 400


def draw_dots(canvas: Canvas, x: Float64, y: Float64, hollow: Sequence[bool], token: str, *, size: float = 2.6) -> None:
    """A dot per sample, outliers hollow; very many as the range of each pixel column, and the outliers on top."""
    if len(x) > MOST_DOTS:
        far = np.asarray(hollow, bool)
        _draw_columns(canvas, x[~far], y[~far], token)
        places = sorted({(int(a), round(float(b))) for a, b in zip(x[far], y[far], strict=True)})
        canvas.boxes([(a, b, 1, 1) for a, b in places], token)
        return
    points = [
        (number(round(float(a), 1)), number(round(float(b), 1)), far) for a, b, far in zip(x, y, hollow, strict=True)
    ]
    canvas.stroke("".join(f"M{a} {b}h0" for a, b, far in points if not far), token, size, cap="round")
    canvas.stroke("".join(f"M{a} {b}h0" for a, b, far in points if far), "ink", size + 2, cap="round")
    canvas.stroke("".join(f"M{a} {b}h0" for a, b, far in points if far), "ground", size, cap="round")


def _draw_columns(canvas: Canvas, x: Float64, y: Float64, token: str) -> None:
    column = np.floor(x).astype(int)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    tops, bottoms = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    spans = zip(column[starts].tolist(), tops.round(1).tolist(), bottoms.round(1).tolist(), strict=True)
    canvas.boxes([(c, t, 1, round(max(1.0, b - t), 1)) for c, t, b in spans], token)


def draw_distribution(
    canvas: Canvas, y: Float64, token: str, *, x: float, width: float, top: float, height: float, bins: int
) -> None:
    """How many samples lie in each of some equal steps between top and top + height, as bars to the right of x."""
    counts, _ = np.histogram(y, bins=bins, range=(top, top + height))
    bar = height / bins
    lengths = counts / max(1, counts.max()) * width
    boxes = [
        (x, round(top + i * bar, 1), round(float(length), 1), round(bar - 0.4, 1))
        for i, length in enumerate(lengths)
        if length
    ]
    canvas.boxes(boxes, tint(token, 0.75, 0.75))
