"""What was allocated on a device over time: a lane of its picture, in every face."""

from __future__ import annotations

import numpy as np

from perfmagic.trace.columns import Float64
from perfmagic.trace.model import Trace
from perfmagic.units import size
from perfmagic.view.frame import Frame
from perfmagic.view.lanes import MemoryLane
from perfmagic.view.palette import tint
from perfmagic.view.svgpath import quantised, skyline

ALLOCATED, RESERVED = "Total Allocated", "Total Reserved"  # as Kineto names its memory counters
MEMORY_PX = 30
FILL_SHARE = 0.55


def memory_lane(trace: Trace, device: int, end_ns: int) -> MemoryLane | None:
    """The lane of one device until end_ns; None without a record of its memory."""
    counters = trace.counters
    if not len(counters):
        return None
    series = np.array(trace.names, dtype=object)[counters.series]
    mine = (counters.device == device) & (counters.at_ns < end_ns)
    rows = np.flatnonzero(mine & (series == ALLOCATED))
    if len(rows) < 2:
        return None
    return MemoryLane(
        at_ns=counters.at_ns[rows],
        size_bytes=np.maximum(counters.value[rows], 0).astype(np.int64),
        reserved_max=float(counters.value[mine & (series == RESERVED)].max(initial=0.0)),
    )


def draw_memory(frame: Frame, lane: MemoryLane, y: float) -> float:
    """The allocated bytes as a step area, as high as their share of the peak; returns the lower edge."""
    peak = int(lane.size_bytes.max())
    height = quantised(most(lane, frame.columns_ns()) / max(1, peak) * MEMORY_PX, frame.detail.step_px)
    frame.canvas.fill(skyline(frame.columns_px(), height, y + MEMORY_PX), tint("memory", FILL_SHARE, FILL_SHARE))
    frame.rule(y + MEMORY_PX)
    frame.label(y + MEMORY_PX / 2, "memory")
    frame.number(y + MEMORY_PX / 2, f"peak {size(peak)}")
    return y + MEMORY_PX + 6


def most(lane: MemoryLane, edges_ns: Float64) -> Float64:
    """The most bytes held at any time between two edges, shape (len(edges) - 1,)."""
    last = np.searchsorted(lane.at_ns, edges_ns[:-1], side="right") - 1
    held = lane.size_bytes[np.maximum(last, 0)].astype(np.float64)
    column = np.searchsorted(edges_ns, lane.at_ns, side="right") - 1
    inside = (column >= 0) & (column < len(held))
    np.maximum.at(held, column[inside], lane.size_bytes[inside])
    return held
