"""The frame of a timeline picture: column_widths, scale, level of detail, and the ways to write beside a lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmagic.base import units
from perfmagic.base.language import translate_term
from perfmagic.base.numerics.intervals import Intervals, covered_before
from perfmagic.trace.columns import Float64
from perfmagic.trace.names import OpClass
from perfmagic.view.svg.canvas import NARROW_PX, WIDTH_PX, Canvas, Part, in_row, quantised, step_path
from perfmagic.view.svg.metrics import Scale, fitted, width_px
from perfmagic.view.timeline.lanes import Share

LEFT_PX, PLOT_PX = 92, 796
RIGHT_PX = WIDTH_PX - LEFT_PX - PLOT_PX


def column_widths(width_px: int) -> tuple[int, int]:
    """The room left and right of the plot: in narrow pictures lanes have shorter names, and no numbers."""
    return (LEFT_PX, RIGHT_PX) if width_px >= NARROW_PX else (76, 8)


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


def narrow_detail(detail: Detail) -> Detail:
    """That of narrow layouts where not every layout can be fine."""
    return replace(DETAILS[-1], streams=min(4, detail.streams))


@dataclass(frozen=True, eq=False)
class Frame:
    """Where and how finely lanes are drawn. x counts from the plot's left edge."""

    canvas: Canvas
    scale: Scale
    detail: Detail

    @property
    def plot_px(self) -> int:
        return self.scale.width_px

    @property
    def left_px(self) -> int:
        return column_widths(self.canvas.width_px)[0]

    @property
    def right_px(self) -> int:
        return column_widths(self.canvas.width_px)[1]

    def columns_ns(self) -> Float64:
        return self.scale.columns_ns(self.detail.column_px)

    def columns_px(self) -> Float64:
        return np.arange(0, self.plot_px + 1, self.detail.column_px, dtype=np.float64)

    def occupancy(self, busy: Intervals, edges_ns: Float64) -> Float64:
        """Share of each slot between edges that is covered, 0 to 1, shape (len(edges) - 1,)."""
        width = np.diff(edges_ns)
        covered = np.diff(covered_before(busy, edges_ns))
        return np.clip(np.divide(covered, width, out=np.zeros(len(width)), where=width > 0), 0.0, 1.0)

    def step_path(self, share: Float64, y: float, height_px: float) -> str:
        """Columns as high as their share, standing on y + height_px."""
        return step_path(self.columns_px(), quantised(share * height_px, self.detail.small_grain_px), y + height_px)

    def label(self, y: float, text: str, token: str = "ink", *, size: int = 11) -> None:
        """A lane's name in the left gutter; y is the middle of the lane."""
        available_px, text = self.left_px - 10, translate_term(text)
        if width_px(text, size) > available_px:
            size = 10
        shown = fitted(text, available_px, size)
        self.canvas.text(-8, round(y + size * 0.35, 1), shown, token, size=size, anchor="end")

    def number(self, y: float, text: str, token: str = "ink", *, size: int = 11) -> None:
        """A lane's number in the right gutter; y is the middle of the lane."""
        shown = fitted(text, self.right_px - 10, size)
        if shown:
            self.canvas.text(self.plot_px + 8, round(y + size * 0.35, 1), shown, token, size=size)

    def rule(self, y: float, token: str = "rule") -> None:
        self.canvas.boxes([(0, y, self.plot_px, 1)], token)


def stacked(shares: Sequence[Float64]) -> list[Float64]:
    """Running sums of shares of the same columns, never above 1."""
    tops: list[Float64] = []
    for share in shares:
        tops.append(np.minimum(1.0, (tops[-1] if tops else 0.0) + share))
    return tops


# Where some time went, above the lanes.

GUTTER_PX = 92
KEY_NAMES = {
    OpClass.MATRIX: ("matrix kernels", "matrix"),
    OpClass.COMPUTE: ("other kernels", "comp"),
    OpClass.COMMUNICATION: ("communication", "comm"),
    OpClass.HTOD: ("copy HtoD", "htod"),
    OpClass.DTOH: ("DtoH", "dtoh"),
    OpClass.DTOD: ("DtoD", "dtod"),
    OpClass.PTOP: ("PtoP", "dtod"),
    OpClass.MEMSET: ("memset", "memset"),
    OpClass.UNKNOWN: ("time unknown", "unknown"),
}


def draw_shares(canvas: Canvas, shares: Sequence[Share], y: float, title: str = "") -> float:
    """What some time consists of, each instant once, as one bar and its words; returns the lower edge."""
    total = max(1, sum(share.ns for share in shares))
    x = 0.0
    for share in shares:
        width = share.ns / total * canvas.width_px
        share_box(canvas, share, round(x, 1), y, round(max(0.5, width - 1), 1), 7)
        x += width
    x = 0.0
    if title:
        shown = translate_term(title)
        canvas.text(0, y + 21, shown, "ink2")
        x = width_px(shown, 10) + 14
    return list_shares(canvas, shares, x, y + 13) + 15


def list_shares(canvas: Canvas, shares: Sequence[Share], x: float, y: float, left_px: float = 0.0) -> float:
    """The colour of each share, how long it is and what it is; returns the top of the last row.

    x, y: of the first share.  left_px: where further rows begin.
    """
    for share in shares:
        amount = units.duration(share.ns)
        before_px = 18 + width_px(amount, 10, bold=True)
        words = translate_term(share.name)
        needed_px = before_px + width_px(words, 10)
        x, y = in_row(canvas, x, y, needed_px, left_px)
        share_box(canvas, share, round(x, 1), y, 10, 8)
        name = fitted(words, canvas.width_px - x - before_px, 10)
        canvas.run(round(x + 14, 1), y + 8, Part(amount, bold=True), Part(name, "ink2", gap_px=4))
        x += needed_px + 14
    return y


def share_box(canvas: Canvas, share: Share, x: float, y: float, width: float, height: float) -> None:
    """A part of a bar, in its colour."""
    canvas.boxes([(x, y, width, height)], share.token)
    if share.second:
        canvas.boxes([(x, y + height / 2, width, height / 2)], share.second)
