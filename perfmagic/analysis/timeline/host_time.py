"""What Python was doing in some time: its operators, annotations and frames, with exact shares.

At each instant the innermost operator (annotation, frame) of a thread counts. So the shares of one kind, and the time
outside of all, add up to the time asked for. Beside it stands how long each was running at all, as in a flame.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from perfmagic.base.numerics.intervals import Intervals, coded, covered_ns, distinct, union, unions
from perfmagic.trace.columns import NONE, Bool, HostKind, HostOps, Int32, Int64
from perfmagic.trace.hoststack import HostStack, is_operator, nested
from perfmagic.trace.model import Trace, once_per_trace
from perfmagic.trace.rows import Rows

# Some time of the host's threads by what ran in it: by row where rows nest, else cut wherever one begins or ends.

_BLOCK = 1 << 16  # pieces of one block: each level of a stack has an array of that length


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

    row: Int32
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
            return RowTimes(none.astype(np.int32), none, none, (0,))
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
    for number in distinct(thread).tolist():
        rows = np.flatnonzero((thread == number) & (where[:, 1] > where[:, 0]))
        if not len(rows):
            continue
        rows = rows[np.argsort(where[rows, 0], kind="stable")]
        start, end = where[rows, 0], where[rows, 1]
        here = np.flatnonzero(which & (table.thread == number))
        # the last interval that began before the row ended
        last = np.searchsorted(start, table.end_ns[here], side="left") - 1
        reaches = np.zeros(len(table), bool)
        reaches[here] = (last >= 0) & (end[np.maximum(last, 0)] > table.start_ns[here])
        yield ThreadTime(number, rows, where[rows], nested(table, reaches))


STEP_NAME = "ProfilerStep#"  # torch.profiler's own mark, which says nothing about the place
MOST_FRAC = 0.5  # of the time: what held Python so long is worth naming
# what stands between people's code, or a library that they call, and an operator: torch's own frames, Python's plumbing
_PLUMBING = re.compile(
    r"(?:^|[\\/])torch[\\/]|^<|(?:^|[\\/])(?:threading|contextlib|functools|runpy|_weakrefset|dataclasses|enum)\.py\("
    r"|(?:^|[\\/])(?:asyncio|concurrent|multiprocessing|logging)[\\/]"
)
# Kineto's python tracer writes co_filename(co_firstlineno): co_name, and the repr of what is built in
FRAME_NAME = re.compile(r"(?P<file>.+?)\((?P<line>\d+)\): (?P<function>.+)", re.DOTALL)
BUILTIN_NAME = re.compile(r"<built-in (?:function|method) (?P<function>[^ >]+)")


@dataclass(frozen=True)
class NameTime:
    """How long Python was in an operator or annotation, in ns.

    share_ns: it was the innermost of its kind.  inclusive_ns: it was running, with what ran inside it.
    """

    name: str
    share_ns: int
    inclusive_ns: int


@dataclass(frozen=True)
class FrameTime:
    """How long Python was in a function.

    function: its name.
    file: the file it is in; of a built-in function that of its caller, empty where that is not recorded.
    line: the line where the function in that file begins; 0 where that is not recorded.
    share_ns: how long it was the innermost function of user code or a library.
    inclusive_ns: how long it ran, with what it called.
    """

    function: str
    file: str
    line: int
    share_ns: int
    inclusive_ns: int

    @property
    def place(self) -> str:
        """The file and the line: "scipy/ndimage/_interpolation.py:123"; "" where they are not known."""
        return f"{self.file}:{self.line}" if self.file else ""

    @property
    def name(self) -> str:
        """The function and its place: "zoom (scipy/ndimage/_interpolation.py:123)"."""
        return f"{self.function} ({self.place})" if self.file else self.function


TimeT = TypeVar("TimeT", NameTime, FrameTime)


@dataclass(frozen=True)
class HostTime:
    """What Python was doing in total_ns, by operator, annotation and frame, the longest share first.

    The shares of each add up to total_ns, but for what passed outside of all. Frames are those of people's code and the
    libraries it calls; torch's own and Python's plumbing count where there is no other around.
    """

    total_ns: int
    operators: Rows[NameTime]
    annotations: Rows[NameTime]
    frames: Rows[FrameTime]


def host_time(trace: Trace, thread: Int64, where: Intervals) -> HostTime:
    """What was Python doing in some time, each interval on the thread beside it?

    thread: shape (n,), where: shape (n, 2); intervals of one thread must not overlap.
    """
    host = trace.host_ops
    step = np.array([name.startswith(STEP_NAME) for name in trace.names] or [False], bool)[host.name]
    marks = (host.kind == HostKind.ANNOTATION) & ~step
    return HostTime(
        total_ns=int((where[:, 1] - where[:, 0]).sum()),
        operators=Rows(_names(trace, is_operator(trace) & ~step, thread, where), NameTime),  # marks, in 2021
        annotations=Rows(_names(trace, marks, thread, where), NameTime),
        frames=Rows(_frames(trace, thread, where), FrameTime),
    )


def python_during(trace: Trace, start_ns: int, end_ns: int, thread: int | None = None) -> HostTime:
    """What was Python doing from start_ns to end_ns? thread: the one with most calls where it is left out."""
    asked = main_thread(trace) if thread is None else thread
    return host_time(trace, np.array([asked], np.int64), np.array([[start_ns, end_ns]], np.int64))


def main_thread(trace: Trace) -> int:
    """The thread with most runtime calls, else with most operators, else with most frames; 0 where nothing ran."""
    for table in (trace.calls, trace.host_ops, trace.python_frames.table):
        if len(table):
            threads, n = np.unique(table.thread, return_counts=True)
            return int(threads[n.argmax()])
    return 0


def held_by(times: Sequence[TimeT], total_ns: int, least_frac: float = MOST_FRAC) -> TimeT | None:
    """What held Python: of those that ran for so much of the time or more, the innermost; None where none did.

    Of two that did, the one that ran for less lies inside the other, or began later and ended earlier.
    """
    long = [time for time in times if total_ns and time.inclusive_ns >= least_frac * total_ns]
    return min(long, key=lambda time: (time.inclusive_ns, -time.share_ns), default=None)


def longest_operator(trace: Trace, thread: Int64, where: Intervals) -> Int64:
    """Of each interval the operator that was innermost for most of it, as row of trace.names, NONE where none ran."""
    longest = np.full(len(where), NONE, np.int64)
    for part in by_thread(trace.host_ops, is_operator(trace), thread, where):
        pieces = part.pieces()
        row = part.stack.innermost_at(pieces.thread, pieces.start_ns)
        known = row != NONE
        name = trace.host_ops.name[row[known]].astype(np.int64)
        key, group = coded(pieces.interval[known] * (len(trace.names) + 1) + name)
        sums = np.zeros(len(key), np.int64)
        np.add.at(sums, group, pieces.length_ns[known])
        interval = key // (len(trace.names) + 1)
        order = np.lexsort((sums, interval))
        longest[interval[order]] = key[order] % (len(trace.names) + 1)  # the last write of an interval is its longest
    return longest


def _names(trace: Trace, which: Bool, thread: Int64, where: Intervals) -> tuple[NameTime, ...]:
    host, share, inclusive = trace.host_ops, _Sums(), _Sums()
    for part in by_thread(host, which, thread, where):
        rows = part.row_times()
        if rows is not None:
            name = host.name[rows.row].astype(np.int64)
            share.add(name, rows.alone_ns)
            inclusive.add_rows(name, host, rows.row, part.where)
            continue
        for pieces in part.blocks():
            row = part.stack.innermost_at(pieces.thread, pieces.start_ns)
            share.add(_at(host.name, row), pieces.length_ns)
            levels = part.stack.each_level_at(pieces.thread, pieces.start_ns)
            inclusive.add_once([_at(host.name, level) for level in levels], pieces.length_ns)
    return tuple(NameTime(trace.names[n], ns, inclusive.sums[n]) for n, ns in share.longest(inclusive))


def _frames(trace: Trace, thread: Int64, where: Intervals) -> tuple[FrameTime, ...]:
    """The frames of people's code and its libraries, else the innermost of all.

    A built-in function counts where such code called it: it, and not its caller, held Python then.
    """
    if not len(trace.python_frames) or not len(where):
        return ()
    table = trace.python_frames.reaching(union(where[:, 0], where[:, 1]))
    labels = _labels(trace)
    share, inclusive = _Sums(), _Sums()
    for part in by_thread(table, np.ones(len(table), bool), thread, where):
        rows = part.row_times()
        if rows is not None:
            own, shown = _shown_frames(table, rows, labels)
            plain = labels.plain(table.name[rows.row].astype(np.int64))
            share.add(np.where(shown != NONE, shown, plain), rows.alone_ns)
            inclusive.add_rows(own, table, rows.row, part.where)
            inclusive.add(np.where(shown == NONE, plain, NONE), rows.alone_ns)
            continue
        for pieces in part.blocks():
            levels, shown = _shown_by_piece(part.stack, pieces, labels)
            share.add(shown, pieces.length_ns)
            inclusive.add_once([*levels, shown], pieces.length_ns)
    return tuple(labels.frame(n, ns, inclusive.sums[n]) for n, ns in share.longest(inclusive))


def _shown_frames(table: HostOps, rows: RowTimes, labels: _Labels) -> tuple[Int64, Int64]:
    """The label of each frame, NONE where it is not shown, and of the innermost shown frame around it, or itself."""
    name = table.name[rows.row].astype(np.int64)
    own = labels.label(name, np.where(rows.parent != NONE, table.name[rows.parent], NONE))
    of_row, shown = np.full(len(table), NONE, np.int64), own.copy()
    for begin, end in pairwise(rows.levels):
        if begin:
            level = slice(begin, end)
            shown[level] = np.where(own[level] != NONE, own[level], of_row[rows.parent[level]])
        of_row[rows.row[begin:end]] = shown[begin:end]
    return own, shown


def _shown_by_piece(stack: HostStack, pieces: Pieces, labels: _Labels) -> tuple[list[Int64], Int64]:
    """The label of the frame at each depth of each piece, and which of them is shown."""
    above = shown = np.full(len(pieces.start_ns), NONE, np.int64)
    levels = []
    for row in stack.each_level_at(pieces.thread, pieces.start_ns):
        name = _at(stack.host_ops.name, row)
        label = labels.label(name, above)
        levels.append(label)
        shown = np.where(label != NONE, label, shown)
        above = np.where(name != NONE, name, above)
    return levels, np.where((shown == NONE) & (above != NONE), labels.plain(above), shown)


def is_own_frame(name: str) -> bool:
    """Whether a frame is people's code, or a library's that they called: a file, and none of torch's."""
    return FRAME_NAME.match(name) is not None and not _PLUMBING.search(name)


class _Labels:
    """What frames are shown as: numbers for pairs of a frame and, of a built-in function, its caller."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.base = names, len(names) + 1
        self.own = np.array([*map(is_own_frame, names), False], bool)
        self.builtin = np.array([*(BUILTIN_NAME.match(n) is not None for n in names), False], bool)

    def label(self, name: Int64, above: Int64) -> Int64:
        """The label of shown frames, NONE for others. above: the frame that called each, NONE for none."""
        called = self.builtin[name] & self.own[above]
        return np.where(called, name * self.base + above, np.where(self.own[name], self.plain(name), NONE))

    def plain(self, name: Int64) -> Int64:
        """The label of a frame without its caller."""
        return name * self.base + self.base - 1

    def frame(self, label: int, share_ns: int, inclusive_ns: int) -> FrameTime:
        name, caller = divmod(label, self.base)
        text = self.names[name]
        place = FRAME_NAME.match(text if caller == self.base - 1 else self.names[caller])
        builtin = BUILTIN_NAME.match(text)
        function = builtin["function"] if builtin else place["function"] if place else text
        file, line = (place["file"], int(place["line"])) if place else ("", 0)
        return FrameTime(function, file, line, share_ns, inclusive_ns)


@once_per_trace
def _labels(trace: Trace) -> _Labels:
    return _Labels(trace.names)


class _Sums:
    """Time by key, exact, over several threads."""

    def __init__(self) -> None:
        self.sums: dict[int, int] = {}

    def add(self, key: Int64, length_ns: Int64) -> None:
        """Add the length of each piece to its key; those of NONE are left out."""
        keys, group = coded(key)
        sums = np.zeros(len(keys), np.int64)
        np.add.at(sums, group, length_ns)
        for number, ns in zip(keys.tolist(), sums.tolist(), strict=True):
            if number != NONE and ns:
                self.sums[number] = self.sums.get(number, 0) + ns

    def add_rows(self, key: Int64, table: HostOps, row: Int32, where: Intervals) -> None:
        """Add to each key how long one of its rows ran at least; of a recursion once. where: the time that counts."""
        known = key != NONE
        keys, spans = unions(key[known], table.start_ns[row[known]], table.end_ns[row[known]])
        self.add(keys, covered_ns(where, spans[:, 0], spans[:, 1]))

    def add_once(self, levels: Sequence[Int64], length_ns: Int64) -> None:
        """Add the length of each piece to every key that some level has for it; of a recursion once."""
        pieces = [np.column_stack((keys, np.arange(len(keys))))[keys != NONE] for keys in levels]
        if not pieces:
            return
        stacked = np.concatenate(pieces)
        distinct = stacked[np.unique(stacked[:, 0] * (len(length_ns) + 1) + stacked[:, 1], return_index=True)[1]]
        self.add(distinct[:, 0], length_ns[distinct[:, 1]])

    def longest(self, inclusive: _Sums) -> list[tuple[int, int]]:
        """Every key that ran, and how long it was innermost, the longest first."""
        innermost = [(key, self.sums.get(key, 0)) for key in inclusive.sums]
        return sorted(innermost, key=lambda item: (-item[1], -inclusive.sums[item[0]], item[0]))


def _at(names: Int64 | np.ndarray[tuple[int, ...], np.dtype[np.int32]], row: Int64) -> Int64:
    """The names of some rows, NONE where a row is NONE."""
    return np.append(names, NONE).astype(np.int64)[row]
