"""Which operator the host was in at an instant, and which inside which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from perfmagic.base.numerics.intervals import coded, distinct
from perfmagic.trace.columns import NONE, Bool, HostKind, HostOps, Int32, Int64
from perfmagic.trace.model import Trace, once_per_trace

# torch's own note about a collective, recorded like an operator: its inputs are the collective's parameters
COLLECTIVE_NOTE = "record_param_comms"


_BLOCK = 1 << 16  # instants looked up at once, in the cache


@dataclass(frozen=True, eq=False)
class HostStack:
    """Some host ops, by thread and nesting depth.

    levels: for each thread the rows of host_ops at depth 0, 1, … each sorted by start; rows of one level are disjoint
    where the ops of a thread nest.
    """

    host_ops: HostOps
    levels: dict[int, tuple[Int32, ...]]

    def outermost_at(self, thread: Int64, at_ns: Int64) -> Int64:
        """Row of the outermost op running on each thread at each instant, NONE where none does; shape of at_ns."""
        return self._at(thread, at_ns, deepest=False)

    def innermost_at(self, thread: Int64, at_ns: Int64) -> Int64:
        """Row of the innermost op running on each thread at each instant, NONE where none does; shape of at_ns."""
        return self._at(thread, at_ns, deepest=True)

    def each_level_at(self, thread: Int64, at_ns: Int64) -> Iterator[Int64]:
        """For each depth, the outermost first, the row running on each thread at each instant, NONE where none does."""
        threads = distinct(thread).tolist()
        for depth in range(max((len(levels) for levels in self.levels.values()), default=0)):
            running = np.full(len(at_ns), NONE, np.int64)
            for number in threads:
                levels = self.levels.get(number, ())
                if depth < len(levels):
                    asked = thread == number
                    running[asked] = self._running(levels[depth], at_ns[asked])
            yield running

    def parents(self) -> Int64:
        """The row each row runs inside of on its thread, NONE for the outermost and for others; shape of host_ops."""
        parent = np.full(len(self.host_ops), NONE, np.int64)
        for levels in self.levels.values():
            for outer, inner in pairwise(levels):
                parent[inner] = self._running(outer, self.host_ops.start_ns[inner])
        return parent

    def _at(self, thread: Int64, at_ns: Int64, deepest: bool) -> Int64:
        innermost = np.full(len(at_ns), NONE, np.int64)
        for number in distinct(thread).tolist():
            of_thread = np.flatnonzero(thread == number).astype(np.int32)
            for first in range(0, len(of_thread), _BLOCK):
                asked = of_thread[first : first + _BLOCK]
                asked_ns = at_ns[asked]
                for rows in self.levels.get(number, ()):
                    running = self._running(rows, asked_ns)
                    better = (running != NONE) & (deepest | (innermost[asked] == NONE))
                    innermost[asked[better]] = running[better]
        return innermost

    def _running(self, rows: Int32, at_ns: Int64) -> Int32:
        begun = np.searchsorted(self.host_ops.start_ns[rows], at_ns, side="right")
        row: Int32 = rows[np.maximum(begun, 1) - 1]
        row[(begun == 0) | (self.host_ops.end_ns[row] <= at_ns)] = NONE
        return row


def host_stack(trace: Trace, which: Bool | None = None) -> HostStack:
    """The nesting of a trace's operators and annotations, or of those in `which` (a mask over host_ops)."""
    return nested(trace.host_ops, which)


def nested(ops: HostOps, which: Bool | None = None) -> HostStack:
    """The nesting of a table's rows, or of those in `which` (a mask over them)."""
    lasting = ops.end_ns > ops.start_ns
    rows = np.flatnonzero(lasting if which is None else lasting & which).astype(np.int32)
    threads = ops.thread[rows]
    return HostStack(ops, {t: _levels(ops, rows[threads == t]) for t in distinct(threads).tolist()})


@once_per_trace
def is_operator(trace: Trace) -> Bool:
    """Which rows of host_ops are operators; shape of host_ops.

    COLLECTIVE_NOTE inside an operator is none: what happens in it is c10d::allreduce_'s, under one name.
    """
    operator: Bool = trace.host_ops.kind == HostKind.OP
    noted = np.array([name == COLLECTIVE_NOTE for name in trace.names], bool)
    if not noted.any():
        return operator
    note = operator & noted[trace.host_ops.name]
    inside = np.zeros(len(operator), bool)
    for levels in host_stack(trace, operator).levels.values():
        for level in levels[1:]:
            inside[level] = True
    own: Bool = operator & ~(note & inside)
    return own


@once_per_trace
def operator_stack(trace: Trace) -> HostStack:
    """The nesting of a trace's operators."""
    return host_stack(trace, is_operator(trace))


@once_per_trace
def launching_operators(trace: Trace) -> Int32:
    """The innermost operator that each device op was launched in, NONE where none was recorded; shape of ops."""
    launch, calls = trace.ops.launch, trace.calls
    operator = np.full(len(launch), NONE, np.int32)
    launched = np.flatnonzero(launch != NONE)
    if len(launched) and len(trace.host_ops):
        rows, inverse = coded(launch[launched])
        operator[launched] = operator_stack(trace).innermost_at(calls.thread[rows], calls.start_ns[rows])[inverse]
    operator.flags.writeable = False
    return operator


def inside_same_name(host_ops: HostOps, parent: Int64, *, by_shape: bool = False) -> Bool:
    """Which rows run inside one of the same name: what a total must not count again; shape of host_ops.

    parent: the result of HostStack.parents().  by_shape: only one with inputs of the same shape counts.
    """
    nested = np.zeros(len(host_ops), bool)
    rows = np.flatnonzero(parent != NONE)
    above = parent[rows]
    while len(rows):
        same = host_ops.name[above] == host_ops.name[rows]
        if by_shape:
            same &= host_ops.shape[above] == host_ops.shape[rows]
        nested[rows[same]] = True
        above = parent[above]
        further = ~same & (above != NONE)
        rows, above = rows[further], above[further]
    return nested


def _levels(ops: HostOps, rows: Int32) -> tuple[Int32, ...]:
    start, end = ops.start_ns[rows], ops.end_ns[rows]
    at = _beside_equals(start)
    rows[at] = rows[at[np.lexsort((-end[at], start[at]))]]
    start, end = ops.start_ns[rows], ops.end_ns[rows]
    closed = np.searchsorted(np.sort(end, kind="stable"), start, side="right")  # they nearly rise: fast if stable
    depth = np.arange(len(rows)) - closed
    levels = tuple(rows[depth == level] for level in range(int(depth.max()) + 1))
    return levels if _nest(ops, levels) else _levels_one_by_one(ops, rows)


def _beside_equals(start_ns: Int64) -> Int64:
    """Which of some starts equal the one before or after them; all where they do not rise."""
    if (start_ns[1:] < start_ns[:-1]).any():
        return np.arange(len(start_ns))
    equal = np.concatenate(([False], start_ns[1:] == start_ns[:-1], [False]))
    return np.flatnonzero(equal[1:] | equal[:-1])


def _nest(ops: HostOps, levels: tuple[Int32, ...]) -> bool:
    """Whether every row of a level lies in one of the level above; times rounded to the microsecond can overshoot."""
    for outer, inner in pairwise(levels):
        above = outer[np.maximum(np.searchsorted(ops.start_ns[outer], ops.start_ns[inner], side="right") - 1, 0)]
        if ((ops.end_ns[above] < ops.end_ns[inner]) | (ops.start_ns[above] > ops.start_ns[inner])).any():
            return False
    return True


def _levels_one_by_one(ops: HostOps, rows: Int32) -> tuple[Int32, ...]:
    """The levels where some row ends after the one it began in: such a row counts as ending with it."""
    start, end = ops.start_ns[rows].tolist(), ops.end_ns[rows].tolist()
    open_ends: list[int] = []
    depth = np.zeros(len(rows), np.int64)
    for i in range(len(rows)):
        while open_ends and open_ends[-1] <= start[i]:
            open_ends.pop()
        depth[i] = len(open_ends)
        open_ends.append(min(end[i], open_ends[-1]) if open_ends else end[i])
    return tuple(rows[depth == level] for level in range(int(depth.max()) + 1))
