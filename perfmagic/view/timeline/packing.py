"""Ops of one stream that overlap, laid side by side: nothing covers anything, nothing is left out."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from perfmagic.numerics.intervals import Int64
from perfmagic.trace.columns import Int32


@dataclass(frozen=True, eq=False)
class Packing:
    """Where each op lies inside its lane.

    sub_lane: 0 is the top.  split: how many sub-lanes the lane has at the op; 1 where nothing overlaps, so that the
    lane splits only where it must.  Both of the ops' shape.
    """

    sub_lane: Int32
    split: Int32

    @property
    def depth(self) -> int:
        """The most sub-lanes anywhere, 1 where nothing overlaps."""
        return int(self.split.max(initial=1))


def pack(start_ns: Int64, end_ns: Int64) -> Packing:
    """Put each op on the first sub-lane that is free when it starts.

    start_ns: rising.  Ops that touch (one ends as the other starts) share a sub-lane.
    """
    n = len(start_ns)
    sub_lane, split = np.zeros(n, np.int32), np.ones(n, np.int32)
    for first, last in _clusters(start_ns, end_ns):
        lanes = _greedy(start_ns[first:last].tolist(), end_ns[first:last].tolist())
        sub_lane[first:last] = lanes
        split[first:last] = max(lanes) + 1
    return Packing(sub_lane, split)


def _clusters(start_ns: Int64, end_ns: Int64) -> list[tuple[int, int]]:
    """Row ranges of ops that overlap directly or through others; single ops are left out."""
    if len(start_ns) < 2:
        return []
    opens = np.flatnonzero(start_ns[1:] >= np.maximum.accumulate(end_ns)[:-1]) + 1
    edges = np.concatenate(([0], opens, [len(start_ns)]))
    several = np.flatnonzero(np.diff(edges) > 1)
    return [(int(edges[i]), int(edges[i + 1])) for i in several]


def _greedy(start_ns: list[int], end_ns: list[int]) -> list[int]:
    lanes: list[int] = []
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for start, end in zip(start_ns, end_ns, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane))
        lanes.append(lane)
    return lanes
