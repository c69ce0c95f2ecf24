"""The frame of a timeline picture: gutters, scale, level of detail, and the ways to write beside a lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic.numerics.intervals import Intervals, covered_before
from perfmagic.trace.columns import Float64
from perfmagic.view.svg.canvas import WIDTH_PX, Canvas
from perfmagic.view.svg.metrics import WIDEST_FONT, fitted, width_px
from perfmagic.view.svg.path import quantised, skyline
from perfmagic.view.svg.scale import Scale

LEFT_PX, PLOT_PX = 92, 796
RIGHT_PX = WIDTH_PX - LEFT_PX - PLOT_PX


@dataclass(frozen=True)
class Detail:
    """How finely a picture is drawn; coarser ones take fewer bytes and show the same time.

    grain_px: heights are multiples of it; small_grain_px: in low lanes.  flow_gap_px: least distance of flow lines, 0
    for none.  slice_px: ops at least so wide are drawn one by one.  column_px: width of the columns in which the rest
    is summed.  streams: drawn for each device.  labels: names inside slices.
    """

    grain_px: float = 0.25
    small_grain_px: float = 0.25
    flow_gap_px: float = 6.0
    slice_px: float = 2.0
    column_px: int = 1
    streams: int = 8
    labels: bool = True


# from fine to coarse; a picture takes the first one with which it fits its size
DETAILS = (
    Detail(),
    Detail(grain_px=0.5, small_grain_px=0.5),
    Detail(grain_px=0.5, small_grain_px=1.0, slice_px=3.0),
    Detail(grain_px=0.5, small_grain_px=1.0, flow_gap_px=12.0, slice_px=4.0),
    Detail(grain_px=1.0, small_grain_px=1.0, flow_gap_px=12.0, slice_px=6.0),
    Detail(grain_px=1.0, small_grain_px=1.0, flow_gap_px=0.0, slice_px=16.0, streams=6),
    Detail(grain_px=1.0, small_grain_px=1.0, flow_gap_px=0.0, slice_px=34.0, streams=4, labels=False),
    Detail(grain_px=1.0, small_grain_px=1.0, flow_gap_px=0.0, slice_px=34.0, streams=2, column_px=2, labels=False),
    Detail(grain_px=2.0, small_grain_px=2.0, flow_gap_px=0.0, slice_px=60.0, streams=1, column_px=4, labels=False),
)


@dataclass(frozen=True, eq=False)
class Frame:
    """Where and how finely lanes are drawn. x counts from the plot's left edge."""

    canvas: Canvas
    scale: Scale
    detail: Detail

    def columns_ns(self) -> Float64:
        return self.scale.columns_ns(self.detail.column_px)

    def columns_px(self) -> Float64:
        return np.arange(0, PLOT_PX + 1, self.detail.column_px, dtype=np.float64)

    def occupancy(self, busy: Intervals, edges_ns: Float64) -> Float64:
        """Share of each slot between edges that is covered, 0 to 1, shape (len(edges) - 1,)."""
        width = np.diff(edges_ns)
        covered = np.diff(covered_before(busy, edges_ns))
        return np.clip(np.divide(covered, width, out=np.zeros(len(width)), where=width > 0), 0.0, 1.0)

    def skyline(self, share: Float64, y: float, height_px: float) -> str:
        """Columns as high as their share, standing on y + height_px."""
        return skyline(self.columns_px(), quantised(share * height_px, self.detail.small_grain_px), y + height_px)

    def label(self, y: float, text: str, token: str = "ink", *, size: int = 11) -> None:
        """A lane's name in the left gutter; y is the middle of the lane."""
        if width_px(text, size) * WIDEST_FONT > LEFT_PX - 10:
            size = 10
        shown = fitted(text, LEFT_PX - 10, size)
        self.canvas.text(-8, round(y + size * 0.35, 1), shown, token, size=size, anchor="end")

    def number(self, y: float, text: str, token: str = "ink", *, size: int = 11) -> None:
        """A lane's number in the right gutter; y is the middle of the lane."""
        self.canvas.text(PLOT_PX + 8, round(y + size * 0.35, 1), fitted(text, RIGHT_PX - 10, size), token, size=size)

    def rule(self, y: float, token: str = "rule") -> None:
        self.canvas.boxes([(0, y, PLOT_PX, 1)], token)


def stacked(shares: Sequence[Float64]) -> list[Float64]:
    """Running sums of shares of the same columns, never above 1."""
    tops: list[Float64] = []
    for share in shares:
        tops.append(np.minimum(1.0, (tops[-1] if tops else 0.0) + share))
    return tops
