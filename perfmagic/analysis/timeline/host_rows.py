"""Some time of the host's threads by what ran in it: by row where rows nest, else cut wherever one begins or ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perfmagic.numerics.grouped import distinct
from perfmagic.numerics.intervals import Intervals, covered_ns
from perfmagic.trace.columns import NONE, Bool, HostOps, Int64
from perfmagic.trace.hoststack import HostStack, nested

_BLOCK = 1 << 16  # pieces looked at together: every level of a stack has an array of so many


@dataclass(frozen=True, eq=False)
class Pieces:
    """Some time, cut wherever what ran on its thread changed; arrays of equal length.

    interval: the number of the interval asked for.  thread, start_ns, length_ns: of the piece.
    """

    interval: Int64
    thread: Int64
    start_ns: Int64
    length_ns: Int64


@dataclass(frozen=True, eq=False)
class RowTimes:
    """How long the rows that nest ran in some time; arrays of equal length, the outermost rows first.

    row: of the table.  parent: the row around it, NONE for none.  alone_ns: it was the innermost.
    levels: where in the arrays each depth begins, and their length.
    """

    row: Int64
    parent: Int64
    alone_ns: Int64
    levels: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ThreadTime:
    """The time asked for on one thread, and what ran in it.

    number: of each interval among all that were asked for.  where: the intervals, by start.
    """

    thread: int
    number: Int64
    where: Intervals
    stack: HostStack

    def row_times(self) -> RowTimes | None:
        """The time by row, None where rows do not nest: times rounded to the microsecond can overshoot."""
        table, levels = self.stack.host_ops, self.stack.levels.get(self.thread, ())
        if not levels:
            none = np.zeros(0, np.int64)
            return RowTimes(none, none, none, (0,))
        row = np.concatenate(levels)
        start, end = table.start_ns, table.end_ns
        parents = self.stack.parents()
        parent = parents[row]
        inner = len(levels[0])
        above = parent[inner:]
        if (above == NONE).any() or (end[above] < end[row[inner:]]).any():
            return None
        if any((start[level[1:]] < end[level[:-1]]).any() for level in levels):
            return None
        ran = np.zeros(len(table), np.int64)
        ran[row] = covered_ns(self.where, start[row], end[row])
        alone = ran.copy()
        np.subtract.at(alone, above, ran[row[inner:]])
        return RowTimes(row, parent, alone[row], (0, *np.cumsum([len(level) for level in levels]).tolist()))

    def pieces(self) -> Pieces:
        """The time, cut wherever a row begins or ends."""
        table, start, end = self.stack.host_ops, self.where[:, 0], self.where[:, 1]
        levels = self.stack.levels.get(self.thread, ())
        rows = np.concatenate(levels) if levels else np.zeros(0, np.int64)
        cuts = distinct(np.concatenate((table.start_ns[rows], table.end_ns[rows])))
        first = np.searchsorted(cuts, start, side="right")
        n = np.searchsorted(cuts, end, side="left") + 1 - first
        part = np.repeat(np.arange(len(start)), n)
        at = np.arange(len(part)) - np.repeat(np.cumsum(n) - n, n) + first[part]
        low = np.maximum(np.concatenate((start[:1], cuts))[at], start[part])
        high = np.minimum(np.concatenate((cuts, end[-1:]))[at], end[part])
        return Pieces(self.number[part], np.full(len(part), self.thread), low, high - low)

    def blocks(self) -> Iterator[Pieces]:
        """The pieces, some at a time."""
        whole = self.pieces()
        for begin in range(0, len(whole.start_ns), _BLOCK):
            yield Pieces(*(column[begin : begin + _BLOCK] for column in vars(whole).values()))


def by_thread(table: HostOps, which: Bool, thread: Int64, where: Intervals) -> Iterator[ThreadTime]:
    """The time of each thread with those rows of a table, of `which`, that run in it."""
    for one in distinct(thread).tolist():
        mine = np.flatnonzero((thread == one) & (where[:, 1] > where[:, 0]))
        if not len(mine):
            continue
        mine = mine[np.argsort(where[mine, 0], kind="stable")]
        start, end = where[mine, 0], where[mine, 1]
        # the last interval that began before the row ended
        last = np.searchsorted(start, table.end_ns, side="left") - 1
        reaches = (last >= 0) & (end[np.maximum(last, 0)] > table.start_ns)
        yield ThreadTime(one, mine, where[mine], nested(table, which & (table.thread == one) & reaches))
