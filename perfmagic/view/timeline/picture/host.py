"""Python's lanes as SVG: cell lines, operators, launches and what blocked them."""

from __future__ import annotations

import numpy as np

from perfmagic.analysis.timeline.activity import MemoryCurve
from perfmagic.base import units
from perfmagic.base.language import counted, say, translated
from perfmagic.base.numerics.intervals import Int64, union
from perfmagic.trace.columns import Float64
from perfmagic.view.svg.canvas import number, quantised, rects, step_path
from perfmagic.view.svg.metrics import fitted, width_px
from perfmagic.view.svg.palette import LOST_SHARE, tint
from perfmagic.view.timeline.lanes import CellLane, HostOpsLane, LaunchLane
from perfmagic.view.timeline.picture.frame import Frame

CELL_PX, LEVEL_PX, LAUNCH_PX = 18, 11, 14
MAIN_LEVELS, OTHER_LEVELS, MAX_THREADS = 4, 2, 6
LEAST_BLOCKED_PX = 1.2  # narrower calls become a tick of 1 px, never hidden


def line_tones(cell: CellLane | None) -> dict[int, str]:
    """The grey of each cell line, neighbours differing; used wherever the line is met again."""
    if cell is None:
        return {}
    lines = list(dict.fromkeys(cell.line.tolist()))
    return {line: ("host2", "host1")[i % 2] for i, line in enumerate(lines)}


def draw_cell(frame: Frame, cell: CellLane, y: float) -> float:
    """The statements of the cell as they ran; returns the lower edge."""
    frame.label(y + CELL_PX / 2, "cell line")
    tones = line_tones(cell)
    x0, x1 = frame.scale.x(cell.start_ns), frame.scale.x(cell.end_ns)
    wide = x1 - x0 >= 1
    wide |= np.diff(np.floor(x0), prepend=-1.0) > 0  # of several within a pixel the first stands for them
    for tone in ("host1", "host2"):
        mine = wide & np.array([tones[int(n)] == tone for n in cell.line], bool)
        boxes = zip(x0[mine].round(1).tolist(), x1[mine].round(1).tolist(), strict=True)
        frame.canvas.boxes([(a, y, round(max(0.5, b - a - 0.7), 1), CELL_PX) for a, b in boxes], tone)
    for line, a, b in zip(cell.line.tolist(), x0.tolist(), x1.tolist(), strict=True):
        _write_line(frame, y, line, cell.texts.get(line, ""), a, b - a)
    return y + CELL_PX


def draw_threads(frame: Frame, lanes: tuple[HostOpsLane, ...], names: tuple[str, ...], y: float) -> float:
    """Operators of the threads in flame order; returns the lower edge."""
    for i, lane in enumerate(lanes[:MAX_THREADS]):
        levels = min(lane.depth, MAIN_LEVELS if i == 0 else OTHER_LEVELS)
        frame.label(y + LEVEL_PX / 2, lane.label)
        for level in range(levels):
            _draw_level(frame, lane, names, level, y + level * LEVEL_PX)
        y += levels * LEVEL_PX + 4
    if len(lanes) > MAX_THREADS:
        more = counted(len(lanes) - MAX_THREADS, "and {n} more thread", "and {n} more threads")
        frame.label(y + 5, translated(more), "ink2", size=10)
        y += 14
    return y


def draw_launches(frame: Frame, lane: LaunchLane, returned_x: float | None, y: float) -> float:
    """Launch calls by share of the column, blocked time hatched; returns the lower edge.

    returned_x: where the cell gave control back, None where that is not known or at the end.
    """
    frame.label(y + LAUNCH_PX / 2, "launches")
    n_launches = counted(lane.n_launches, "{n} launch", "{n} launches")
    frame.number(y + LAUNCH_PX / 2, translated(n_launches))
    share = frame.occupancy(union(lane.start_ns, lane.end_ns), frame.columns_ns())
    # a launch too short for its column still shows: one pixel
    frame.canvas.fill(frame.step_path(np.where(share > 0, np.maximum(share, 1 / LAUNCH_PX), 0), y, LAUNCH_PX), "launch")
    _draw_blocked(frame, lane, y)
    if returned_x is not None and frame.plot_px - returned_x > 100:
        _draw_returned(frame, returned_x, y)
    return y + LAUNCH_PX


def _write_line(frame: Frame, y: float, line: int, text: str, x: float, width: float) -> None:
    x, digits = round(x, 1), str(line)
    digits_px = width_px(digits, 11, bold=True)
    if width >= digits_px + 6:
        frame.canvas.text(round(x + 5 if width > digits_px + 12 else x + 3, 1), y + 13, digits, size=11, bold=True)
    code = fitted(text, width - digits_px - 16, 10, mono=True) if width > 60 else ""
    if code:
        frame.canvas.text(round(x + digits_px + 10, 1), y + 13, code, "hostink", mono=True)


def _draw_level(frame: Frame, lane: HostOpsLane, names: tuple[str, ...], level: int, y: float) -> None:
    rows = np.flatnonzero(lane.level == level)
    start, end = lane.start_ns[rows], lane.end_ns[rows]
    x0, x1 = frame.scale.x(start), frame.scale.x(end)
    wide = x1 - x0 >= max(2.5, frame.detail.slice_px)
    tone = ("host1", "host2", "host3")[min(2, level)]
    small = frame.occupancy(union(start[~wide], end[~wide]), frame.columns_ns())
    frame.canvas.fill(frame.step_path(small, y, LEVEL_PX - 1), tone)
    boxes = [(a, b, int(lane.name[rows[i]])) for i, a, b in _spans(np.flatnonzero(wide), x0, x1)]
    frame.canvas.boxes([(a, y, round(max(0.5, b - a - 0.7), 1), LEVEL_PX - 1) for a, b, _ in boxes], tone)
    for a, b, name in boxes:
        shown = fitted(names[name], b - a - 7, 10) if b - a > 30 and frame.detail.labels else ""
        if shown:
            frame.canvas.text(round(a + 3.5, 1), y + 8.5, shown, "hostink")


def _spans(
    rows: Int64, x0: np.typing.NDArray[np.float64], x1: np.typing.NDArray[np.float64]
) -> list[tuple[int, float, float]]:
    return [(int(i), round(float(x0[i]), 1), round(float(x1[i]), 1)) for i in rows]


def _draw_blocked(frame: Frame, lane: LaunchLane, y: float) -> None:
    x0, x1 = frame.scale.x(lane.blocked_start_ns), frame.scale.x(lane.blocked_end_ns)
    wide = x1 - x0 >= LEAST_BLOCKED_PX
    spans = _spans(np.flatnonzero(wide), x0, x1)
    for quiet, token, ink in ((True, "ink3", "ink2"), (False, "wait", "wait")):
        ticks = np.unique(np.round(x0[~wide & (lane.beside_work == quiet)])).clip(0, frame.plot_px - 1)
        frame.canvas.boxes([(float(x), y, 1, LAUNCH_PX) for x in ticks], token)
        mine = [span for span in spans if bool(lane.beside_work[span[0]]) is quiet]
        boxes = [(a, y, round(b - a, 1), LAUNCH_PX) for _, a, b in mine]
        frame.canvas.boxes(boxes, tint(token, LOST_SHARE, LOST_SHARE))
        frame.canvas.hatch_lost(rects(boxes), token)
        frame.canvas.boxes([(x, y, 1, LAUNCH_PX) for _, a, b in mine for x in (a, round(b - 1, 1))], token)
        for i, a, b in mine:
            if b - a > 70:
                blocked_ns = int(lane.blocked_end_ns[i] - lane.blocked_start_ns[i])
                _write_in_gap(frame, _describe_blocked(lane.words[i], blocked_ns, b - a - 24), a, b, y, ink)


def _describe_blocked(asked_by: str, blocked_ns: int, max_px: float) -> str:
    time = units.duration(blocked_ns)
    whole, short = say("Python blocked {time}", time=time), say("blocked {time}", time=time)
    for words in (say("{a}: {b}", a=whole, b=asked_by), whole, short):
        if width_px(words, 10) <= max_px:
            return words
    return fitted(short, max_px, 10)


def _write_in_gap(frame: Frame, words: str, x0: float, x1: float, y: float, token: str) -> None:
    if not words:
        return
    width, middle = width_px(words, 10) + 12, (x0 + x1) / 2
    frame.canvas.boxes([(round(middle - width / 2, 1), y, round(width, 1), LAUNCH_PX)], "ground")
    frame.canvas.text(round(middle, 1), y + 10.5, words, token, anchor="middle")


def _draw_returned(frame: Frame, x: float, y: float) -> None:
    middle = y + LAUNCH_PX / 2
    frame.canvas.stroke(
        f"M{number(round(x + 4, 1))} {number(middle)}H{number(frame.plot_px)}", "ink3", 1, dash=(1.0, 4.0)
    )
    _write_in_gap(frame, say("Python has returned"), x, frame.plot_px, y, "ink2")


# The memory of a device in a picture: a curve, scaled to its peak.

LANE_PX, HEAD_PX = 58, 10


def draw_memory(frame: Frame, lane: MemoryCurve, y: float) -> float:
    """The curve, scaled to its peak; returns the lower edge."""
    heights = highest(lane, frame.columns_ns()) / max(1, lane.peak_bytes) * (LANE_PX - HEAD_PX)
    frame.canvas.fill(step_path(frame.columns_px(), quantised(heights, 0.5), y + LANE_PX), "memory")
    frame.label(y + LANE_PX / 2, "memory")
    frame.number(y + LANE_PX / 2, say("peak {size}", size=units.size(lane.peak_bytes)))
    if lane.reserved_max_bytes:
        frame.number(y + LANE_PX - 6, say("{size} reserved", size=units.size(lane.reserved_max_bytes)), "ink2", size=10)
    return y + LANE_PX + 6


def highest(lane: MemoryCurve, edges_ns: Float64) -> Float64:
    """The most that was allocated in each column; shape (columns,).  edges_ns: columns + 1 instants, rising."""
    first = np.maximum(np.searchsorted(lane.at_ns, edges_ns[:-1], side="right") - 1, 0)
    last = np.maximum(np.searchsorted(lane.at_ns, edges_ns[1:], side="left") - 1, first)
    peaks = lane.allocated_bytes[first].astype(np.float64)
    for column in np.flatnonzero(last > first).tolist():
        peaks[column] = float(lane.allocated_bytes[first[column] : last[column] + 1].max())
    return peaks
