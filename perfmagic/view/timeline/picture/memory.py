"""The memory of a device in a picture: a curve, scaled to its peak."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.timeline.memory import MemoryCurve
from perfmagic.trace.columns import Float64
from perfmagic.view.svg.path import quantised, skyline
from perfmagic.view.timeline.picture.frame import Frame

LANE_PX, HEAD_PX = 58, 10


def draw_memory(frame: Frame, lane: MemoryCurve, y: float) -> float:
    """The curve, scaled to its peak; returns the lower edge."""
    heights = highest(lane, frame.columns_ns()) / max(1, lane.peak_bytes) * (LANE_PX - HEAD_PX)
    frame.canvas.fill(skyline(frame.columns_px(), quantised(heights, 0.5), y + LANE_PX), "memory")
    frame.label(y + LANE_PX / 2, "memory")
    frame.number(y + LANE_PX / 2, f"peak {units.size(lane.peak_bytes)}")
    if lane.reserved_max_bytes:
        frame.number(y + LANE_PX - 6, f"{units.size(lane.reserved_max_bytes)} reserved", "ink2", size=10)
    return y + LANE_PX + 6


def highest(lane: MemoryCurve, edges_ns: Float64) -> Float64:
    """The most that was allocated in each column; shape (columns,).  edges_ns: columns + 1 instants, rising."""
    first = np.maximum(np.searchsorted(lane.at_ns, edges_ns[:-1], side="right") - 1, 0)
    last = np.maximum(np.searchsorted(lane.at_ns, edges_ns[1:], side="left") - 1, first)
    found = lane.allocated_bytes[first].astype(np.float64)
    for column in np.flatnonzero(last > first).tolist():
        found[column] = float(lane.allocated_bytes[first[column] : last[column] + 1].max())
    return found
