"""What Python was doing in some time: its operators, annotations and frames, each with an exact share.

Of each instant the innermost operator (annotation, frame) on a thread counts: the shares add up to the time asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perfmagic.numerics.intervals import Intervals
from perfmagic.trace.columns import NONE, Bool, HostKind, HostOps, Int64
from perfmagic.trace.frames import PythonFrames
from perfmagic.trace.hoststack import nested
from perfmagic.trace.model import Trace

STEP_NAME = "ProfilerStep#"  # torch.profiler's own mark, which says nothing about the place
# what stands between people's code and an operator: frames of torch and of Python's own helpers
_INTERNAL = re.compile(
    r"(?:^|/)(?:torch|torch_npu|_dynamo|functorch)/|(?:^|/)(?:threading|contextlib|functools|_ops)\.py\(|^<string>"
)
FRAME_NAME = re.compile(r"(?P<file>.+?)\((?P<line>\d+)\): (?P<function>.+)", re.DOTALL)
BUILTIN_NAME = re.compile(r"<built-in (?:function|method) (?P<function>\S+?)(?: of .*)?>", re.DOTALL)


@dataclass(frozen=True)
class NameTime:
    """How long Python was in an operator or annotation. share_ns: within the time asked for."""

    name: str
    share_ns: int


@dataclass(frozen=True)
class FrameTime:
    """How long Python was in a function.

    function, file, line: as Python names them, the line being where the function begins; of a built-in function the
    file and line of its caller, "" and 0 where the record has none.  share_ns: within the time asked for.
    """

    function: str
    file: str
    line: int
    share_ns: int

    @property
    def place(self) -> str:
        """The file and line, "" where they are not known."""
        return f"{self.file}:{self.line}" if self.file else ""


@dataclass(frozen=True)
class HostTime:
    """What Python was doing in total_ns: by innermost operator, annotation and frame, the longest first.

    Of frames the innermost of people's code counts; of torch's own only where there is no other. What is missing to
    total_ns passed outside of all of them.
    """

    total_ns: int
    operators: tuple[NameTime, ...]
    annotations: tuple[NameTime, ...]
    frames: tuple[FrameTime, ...]


@dataclass(frozen=True, eq=False)
class Stretches:
    """Some intervals, cut where what ran innermost changed. n: intervals.  interval: of each piece the number of its
    interval; row: of the table, NONE where nothing ran; length_ns: its length.
    """

    n: int
    table: HostOps
    interval: Int64
    row: Int64
    length_ns: Int64

    @property
    def name(self) -> Int64:
        """Of each piece the row of trace.names, NONE where nothing ran."""
        if not len(self.table):
            return self.row
        return np.where(self.row != NONE, self.table.name[self.row], NONE)

    @property
    def longest(self) -> Int64:
        """Of each interval the name in which most of its named time passed, NONE where none did; shape (n,)."""
        result, name = np.full(self.n, NONE, np.int64), self.name
        known = name != NONE
        if known.any():
            keys, group = np.unique(np.column_stack((self.interval, name))[known], axis=0, return_inverse=True)
            sums = np.zeros(len(keys), np.int64)
            np.add.at(sums, group.reshape(-1), self.length_ns[known])
            order = np.lexsort((sums, keys[:, 0]))
            result[keys[order, 0]] = keys[order, 1]  # the last write of an interval is its longest
        return result


def host_time(trace: Trace, thread: Int64, start_ns: Int64, end_ns: Int64) -> HostTime:
    """What was Python doing in these intervals, each on its thread? Intervals of one thread must not overlap."""
    operators = operators_in(trace, thread, start_ns, end_ns)
    step = np.array([name.startswith(STEP_NAME) for name in trace.names], bool)
    host = trace.host_ops
    marks = (host.kind == HostKind.ANNOTATION) & ~step[host.name] if len(host) else np.zeros(0, bool)
    return HostTime(
        total_ns=int((end_ns - start_ns).sum()),
        operators=_named(trace, operators),
        annotations=_named(trace, _innermost(host, marks, thread, start_ns, end_ns)),
        frames=_frames(trace, thread, start_ns, end_ns),
    )


def python_during(trace: Trace, start_ns: int, end_ns: int, thread: int | None = None) -> HostTime:
    """What was Python doing from start_ns to end_ns? thread: the one that launched most if left out."""
    asked = main_thread(trace) if thread is None else thread
    return host_time(trace, *(np.array([value], np.int64) for value in (asked, start_ns, end_ns)))


def main_thread(trace: Trace) -> int:
    """The thread that made most calls, else the one with most operators or frames; 0 where nothing was recorded."""
    for table in (trace.calls, trace.host_ops, trace.python_frames.table):
        if len(table):
            threads, n = np.unique(table.thread, return_counts=True)
            return int(threads[n.argmax()])
    return 0


def operators_in(trace: Trace, thread: Int64, start_ns: Int64, end_ns: Int64) -> Stretches:
    """The innermost operators in some intervals, each on its thread."""
    return _innermost(trace.host_ops, trace.host_ops.kind == HostKind.OP, thread, start_ns, end_ns)


def during(thread: Int64, start_ns: Int64, end_ns: Int64, where: Intervals) -> tuple[Int64, Int64, Int64]:
    """The parts of some intervals that lie in `where`, with their threads."""
    low = np.searchsorted(where[:, 1], start_ns, side="right")
    high = np.searchsorted(where[:, 0], end_ns, side="left")
    n = np.maximum(high - low, 0)
    part = np.repeat(np.arange(len(start_ns)), n)
    row = np.arange(len(part)) - np.repeat(np.cumsum(n) - n, n) + np.repeat(low, n)
    return thread[part], np.maximum(where[row, 0], start_ns[part]), np.minimum(where[row, 1], end_ns[part])


def _innermost(table: HostOps, which: Bool, thread: Int64, start_ns: Int64, end_ns: Int64) -> Stretches:
    """The intervals, cut wherever the innermost row of a table on their thread changes."""
    edges = np.unique(np.concatenate((start_ns, end_ns)))
    if len(table) and len(edges):
        near = (table.end_ns > edges[0]) & (table.start_ns < edges[-1]) & which
        # only what reaches into an interval
        near[near] = np.searchsorted(edges, table.end_ns[near]) > np.searchsorted(edges, table.start_ns[near]) - 1
    else:
        near = np.zeros(len(table), bool)
    pieces: list[tuple[Int64, Int64, Int64]] = []
    stack = nested(table, near)
    for one in np.unique(thread).tolist():
        mine = np.flatnonzero((thread == one) & (end_ns > start_ns))
        levels = stack.levels.get(one, ())
        inside = np.concatenate(levels) if levels else np.zeros(0, np.int64)
        cuts = np.unique(np.concatenate((table.start_ns[inside], table.end_ns[inside])))
        first = np.searchsorted(cuts, start_ns[mine], side="right")
        n = np.searchsorted(cuts, end_ns[mine], side="left") + 1 - first
        part = np.repeat(np.arange(len(mine)), n)
        at = np.arange(len(part)) - np.repeat(np.cumsum(n) - n, n) + first[part]
        low = np.maximum(np.concatenate(([np.iinfo(np.int64).min], cuts))[at], start_ns[mine][part])
        high = np.minimum(np.concatenate((cuts, [np.iinfo(np.int64).max]))[at], end_ns[mine][part])
        pieces.append((mine[part], stack.innermost_at(np.full(len(part), one), low), high - low))
    empty = np.zeros(0, np.int64)
    columns = [np.concatenate(c) for c in zip(*pieces, strict=True)] if pieces else [empty, empty, empty]
    return Stretches(len(start_ns), table, *columns)


def _named(trace: Trace, found: Stretches) -> tuple[NameTime, ...]:
    return tuple(NameTime(trace.names[name], ns) for name, ns in _sums(found.name, found.length_ns))


def _sums(key: Int64, length_ns: Int64) -> list[tuple[int, int]]:
    """The keys with their summed lengths, the longest first; NONE and what has no length left out."""
    keys, group = np.unique(key, return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, group.reshape(-1), length_ns)
    order = np.argsort(-sums, kind="stable")
    return [(k, ns) for k, ns in zip(keys[order].tolist(), sums[order].tolist(), strict=True) if k != NONE and ns]


def _frames(trace: Trace, thread: Int64, start_ns: Int64, end_ns: Int64) -> tuple[FrameTime, ...]:
    """The frames of people's code, else the innermost of all."""
    if not len(trace.python_frames) or not len(start_ns):
        return ()
    table = _reaching(trace.python_frames, int(start_ns.min()), int(end_ns.max()))
    everything = np.ones(len(table), bool)
    own = np.array([is_own_frame(name) for name in trace.names], bool)[table.name] if len(table) else everything
    builtin = np.array([BUILTIN_NAME.match(name) is not None for name in trace.names], bool)
    inner = _innermost(table, everything, thread, start_ns, end_ns)
    at_ns = _piece_starts(inner, start_ns)
    of_thread = thread[inner.interval]
    user = nested(table, own).innermost_at(of_thread, at_ns)
    file = np.array([FRAME_NAME.match(name) is not None for name in trace.names], bool)
    caller = nested(table, file[table.name] if len(table) else everything).innermost_at(of_thread, at_ns)
    last, names = inner.row, np.append(table.name, NONE).astype(np.int64)
    in_builtin = (last != NONE) & np.append(builtin, False)[names[last]]
    shown = np.where(user != NONE, user, last)
    # a built-in function that people's code called directly is what held Python
    shown = np.where(in_builtin & ((user == caller) | (user == NONE)), last, shown)
    beside = np.where(shown != last, NONE, np.where(in_builtin, caller, NONE))
    keys = names[shown] * (len(trace.names) + 1) + np.where(beside != NONE, names[beside], len(trace.names))
    keys = np.where(shown != NONE, keys, NONE)
    base = len(trace.names) + 1
    return tuple(_frame(trace, key // base, key % base, ns) for key, ns in _sums(keys, inner.length_ns))


def _reaching(frames: PythonFrames, start_ns: int, end_ns: int) -> HostOps:
    return frames.window(start_ns, end_ns).table


def _piece_starts(found: Stretches, start_ns: Int64) -> Int64:
    """When each piece began: the pieces of an interval follow each other."""
    if not len(found.interval):
        return found.interval
    before = np.cumsum(found.length_ns) - found.length_ns
    first = np.concatenate(([True], np.diff(found.interval) != 0))
    offset = before - before[np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))]
    return start_ns[found.interval] + offset


def is_own_frame(name: str) -> bool:
    """Whether a frame is people's code, or a library's that they called: a file, and none of torch's."""
    return FRAME_NAME.match(name) is not None and _INTERNAL.search(name) is None


def _frame(trace: Trace, name: int, caller: int, share_ns: int) -> FrameTime:
    text = trace.names[name]
    place = FRAME_NAME.match(trace.names[caller] if caller < len(trace.names) else text)
    builtin = BUILTIN_NAME.match(text)
    function = builtin["function"] if builtin else place["function"] if place else text
    return FrameTime(function, place["file"] if place else "", int(place["line"]) if place else 0, share_ns)
