"""Which operator the host was in at an instant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.trace.columns import NONE, Bool, HostKind, HostOps, Int64
from perfmagic.trace.model import Trace


@dataclass(frozen=True, eq=False)
class HostStack:
    """Some host ops, by thread and nesting depth.

    levels: for each thread the rows of host_ops at depth 0, 1, … each sorted by start; rows of one level are disjoint
    where the ops of a thread nest.
    """

    host_ops: HostOps
    levels: dict[int, tuple[Int64, ...]]

    def outermost_at(self, thread: Int64, at_ns: Int64) -> Int64:
        """Row of the outermost op running on each thread at each instant, NONE where none does; shape of at_ns."""
        return self._at(thread, at_ns, deepest=False)

    def innermost_at(self, thread: Int64, at_ns: Int64) -> Int64:
        """Row of the innermost op running on each thread at each instant, NONE where none does; shape of at_ns."""
        return self._at(thread, at_ns, deepest=True)

    def _at(self, thread: Int64, at_ns: Int64, deepest: bool) -> Int64:
        found = np.full(len(at_ns), NONE, np.int64)
        for one in np.unique(thread).tolist():
            asked = np.flatnonzero(thread == one)
            for rows in self.levels.get(one, ()):
                running = self._running(rows, at_ns[asked])
                better = (running != NONE) & (deepest | (found[asked] == NONE))
                found[asked[better]] = running[better]
        return found

    def _running(self, rows: Int64, at_ns: Int64) -> Int64:
        last = np.searchsorted(self.host_ops.start_ns[rows], at_ns, side="right") - 1
        row = rows[np.maximum(last, 0)]
        return np.where((last >= 0) & (self.host_ops.end_ns[row] > at_ns), row, NONE)


def host_stack(trace: Trace, which: Bool | None = None) -> HostStack:
    """The nesting of a trace's operators and annotations, or of those in `which` (a mask over host_ops)."""
    ops = trace.host_ops
    mask = ops.kind != HostKind.PYTHON if which is None else which
    rows = np.flatnonzero(mask & (ops.end_ns > ops.start_ns))
    threads = ops.thread[rows]
    return HostStack(ops, {int(t): _levels(ops, rows[threads == t]) for t in np.unique(threads)})


def _levels(ops: HostOps, rows: Int64) -> tuple[Int64, ...]:
    rows = rows[np.lexsort((-ops.end_ns[rows], ops.start_ns[rows]))]
    closed = np.searchsorted(np.sort(ops.end_ns[rows]), ops.start_ns[rows], side="right")
    depth = np.arange(len(rows)) - closed
    return tuple(rows[depth == level] for level in range(int(depth.max()) + 1))
