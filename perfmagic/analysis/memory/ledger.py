"""The blocks of a device in order, and which of them were alive at the peak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfmagic.analysis.memory.visits import NOT_VISITED, Visits, paths_of, visits
from perfmagic.trace.columns import NONE, Blocks, Bool, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.paths import Paths

AT_THE_START = -1  # order of blocks from before the recording


@dataclass(frozen=True, eq=False)
class Ledger:
    """The blocks of one device; arrays have their shape.

    order, free_order: of allocation and release in one sequence; AT_THE_START, and NONE for what is alive at the end.
    visit: of the line that allocated each, free_visit: that ran when it was freed; 0 for none.
    peak_order: of the allocation that reached the peak, AT_THE_START if that was before all others.
    """

    trace: Trace
    device: int
    blocks: Blocks
    order: Int64
    visit: Int64
    free_visit: Int64
    start_bytes: int
    peak_bytes: int
    peak_order: int

    @cached_property
    def paths(self) -> Paths:
        return paths_of(self.trace)

    @cached_property
    def visits(self) -> Visits:
        return visits(self.trace)

    @cached_property
    def path(self) -> Int64:
        """The line that allocated each block."""
        return np.asarray(self.visits.path[self.visit])

    @cached_property
    def before(self) -> Bool:
        return np.asarray(self.blocks.before == 1)

    @cached_property
    def at_peak(self) -> Bool:
        """Which blocks were alive at the peak."""
        freed = (self.blocks.free_order != NONE) & (self.blocks.free_order <= self.peak_order)
        return np.asarray((self.order <= self.peak_order) & ~freed)

    @cached_property
    def at_end(self) -> Bool:
        """Which are alive at the end."""
        return np.asarray(self.blocks.free_order == NONE)

    @cached_property
    def peak_row(self) -> int:
        """The block with which the peak was reached, NONE where nothing was allocated on the way to it."""
        rows = np.flatnonzero((self.order == self.peak_order) & ~self.before)
        return int(rows[0]) if len(rows) else NONE

    @property
    def peak_ns(self) -> int:
        """When the most was allocated."""
        return self.trace.meta.start_ns if self.peak_row == NONE else int(self.blocks.alloc_ns[self.peak_row])

    def order_at(self, at_ns: int) -> float:
        """A place in the sequence after all that happened before an instant."""
        at, order = self._happened
        row = int(np.searchsorted(at, at_ns, side="left")) - 1
        return AT_THE_START + 0.5 if row < 0 else float(order[row]) + 0.5

    @cached_property
    def _happened(self) -> tuple[Int64, Int64]:
        freed = self.blocks.free_order != NONE
        made = ~self.before
        order = np.concatenate((self.order[made], self.blocks.free_order[freed]))
        at = np.concatenate((self.blocks.alloc_ns[made], self.blocks.free_ns[freed]))
        by = np.argsort(order)
        return np.maximum.accumulate(at[by]), order[by]

    def replayed(self, ends: Mapping[int, float], size_bytes: Int64 | None = None) -> int:
        """The most that would have been allocated, had some blocks been freed earlier.

        ends: a place in the sequence by row of blocks; a later one than the real changes nothing.  size_bytes: instead
        of the real sizes.
        """
        size = self.blocks.size_bytes if size_bytes is None else size_bytes
        end = np.where(self.at_end, np.inf, self.blocks.free_order.astype(float))
        for row, order in ends.items():
            end[row] = min(end[row], max(order, float(self.order[row]) + 0.25))
        return _peak(self.order.astype(float), end, size)[0]


def ledger(trace: Trace, device: int) -> Ledger | None:
    """The ledger of a device; None where its blocks were not recorded."""
    blocks = trace.blocks.select(trace.blocks.device == device)
    if not len(blocks):
        return None
    before = blocks.before == 1
    order = np.where(before, AT_THE_START, blocks.order)
    end = np.where(blocks.free_order == NONE, np.inf, blocks.free_order.astype(float))
    peak_bytes, peak_order = _peak(order.astype(float), end, blocks.size_bytes)
    known, followed = visits(trace), paths_of(trace).followed
    unseen = (blocks.free_order == NONE) | ~followed(blocks.free_ns)
    return Ledger(
        trace=trace,
        device=device,
        blocks=blocks,
        order=order,
        visit=np.where(before | ~followed(blocks.alloc_ns), NOT_VISITED, known.at(blocks.thread, blocks.alloc_ns)),
        free_visit=np.where(unseen, NOT_VISITED, known.at(blocks.free_thread, blocks.free_ns)),
        start_bytes=int(blocks.size_bytes[before].sum()),
        peak_bytes=peak_bytes,
        peak_order=int(peak_order),
    )


def _peak(
    begin: np.ndarray[tuple[int], np.dtype[np.float64]], end: np.ndarray[tuple[int], np.dtype[np.float64]], size: Int64
) -> tuple[int, float]:
    """The most that was allocated at once, and the place in the sequence where that was reached first."""
    ends = np.isfinite(end)
    order = np.concatenate((begin, end[ends]))
    change = np.concatenate((size, -size[ends]))
    by = np.argsort(order, kind="stable")
    held = np.cumsum(change[by])
    order = order[by]
    last = np.append(order[1:] != order[:-1], True)  # what begins at one place counts together
    row = int(np.argmax(np.where(last, held, -1)))
    return int(held[row]), float(order[row])
