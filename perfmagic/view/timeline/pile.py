"""The pile: every op that is queued on a stream as a layer, in the order in which the layers will start.

With L(t) = ops launched and S(t) = ops started, the op of rank i lies at level i − S(t) from its launch to its start:
the surface L(t) − S(t) is the queue depth and the area is the total waiting time (Little's law). All values here are
means over time slots, from prefix sums: a slot's width times its value is exactly the waiting time inside it, however
short the waits are.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from perfmagic.numerics.intervals import Int64
from perfmagic.trace.columns import Float64


@dataclass(frozen=True)
class Run:
    """Layers first <= rank < last that belong together: one cell line, one tint."""

    first: int
    last: int
    key: int

    def __len__(self) -> int:
        return self.last - self.first


@dataclass(frozen=True, eq=False)
class Pile:
    """The waits [launch_ns, start_ns) of one stream's ops, by rank: rising start.

    Streams start ops in launch order; where a record says otherwise, an op's level counts the waiting ops of lower
    rank, and its path may rise.
    """

    launch_ns: Int64
    start_ns: Int64

    def __len__(self) -> int:
        return len(self.start_ns)

    def depth(self, edges_ns: Float64) -> Float64:
        """Mean number of queued ops in each slot between edges, shape (len(edges) - 1,)."""
        return self.layer_depth(0, len(self), edges_ns)

    def layer_depth(self, first: int, last: int, edges_ns: Float64) -> Float64:
        """Mean number of queued ops of the ranks [first, last) in each slot: the thickness of that layer."""
        return _mean_waiting(self.launch_ns[first:last], self.start_ns[first:last], edges_ns)

    def level(self, rank: int, edges_ns: Float64) -> Float64:
        """Mean level of an op's lower edge in each slot, NaN in slots it is not queued in at all."""
        queued = (edges_ns[1:] > self.launch_ns[rank]) & (edges_ns[:-1] < self.start_ns[rank])
        below = np.full(len(queued), np.nan)
        if queued.any():
            slots = np.flatnonzero(queued)
            first = int(_started(self.start_ns, edges_ns[slots[0]]))
            part = edges_ns[slots[0] : slots[-1] + 2]
            below[queued] = self.layer_depth(min(first, rank), rank, part)[queued[slots[0] : slots[-1] + 1]]
        return below

    def runs(self, keys: Int64) -> tuple[Run, ...]:
        """Neighbouring ranks with the same key, bottom first."""
        if not len(keys):
            return ()
        cuts = np.concatenate(([0], np.flatnonzero(np.diff(keys)) + 1, [len(keys)]))
        return tuple(Run(int(a), int(b), int(keys[a])) for a, b in itertools.pairwise(cuts))


def rank(start_ns: Int64, launch_ns: Int64) -> Int64:
    """Rows in the order in which a stream starts them; ties keep the order of their launches."""
    return np.lexsort((launch_ns, start_ns))


def flow_stride(row_px: float, gap_px: float) -> int:
    """Every how many-th path is drawn, so that paths are gap_px apart: a power of two, stable when panning."""
    stride = 1
    while stride * row_px < gap_px:
        stride *= 2
    return stride


def _mean_waiting(launch_ns: Int64, start_ns: Int64, edges_ns: Float64) -> Float64:
    width = np.diff(edges_ns)
    total = _summed_before(np.sort(launch_ns), edges_ns) - _summed_before(np.sort(start_ns), edges_ns)
    mean = np.divide(np.diff(total), width, out=np.zeros(len(width)), where=width > 0)
    return np.where(mean > 1e-9, mean, 0.0)


def _started(at_ns: Int64, by_ns: Float64) -> Int64:
    """How many of some rising instants had come by others; whole ns, or numpy makes all of them doubles each time."""
    number: Int64 = np.searchsorted(at_ns, np.floor(by_ns).astype(np.int64), side="right")
    return number


def _summed_before(at_ns: Int64, edges_ns: Float64) -> Float64:
    """Over all events before each edge, the time since the event, summed."""
    if not len(at_ns):
        return np.zeros(len(edges_ns))
    # relative to the first edge, so that the sums keep their last digits
    since = at_ns - edges_ns[0]
    before = np.concatenate(([0.0], np.cumsum(since)))
    number = _started(at_ns, edges_ns)
    summed: Float64 = number * (edges_ns - edges_ns[0]) - before[number]
    return summed
