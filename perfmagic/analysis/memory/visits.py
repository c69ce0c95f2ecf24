"""When a thread came to a line and left it: visits of lines, and their calls of functions.

A line that is on the stack stays visited while what it called runs. A loop that comes back to it visits it again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from perfmagic.trace.columns import NO_LINE, NONE, Bool, Int64, PathMarks
from perfmagic.trace.model import Trace, once_per_trace
from perfmagic.trace.paths import NOWHERE, Paths, UserFunction

NOT_VISITED = 0
FOREVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Visits:
    """Arrays of equal length, a row for each visit; row 0 is none. Times in ns.

    path: the line's.  caller: the visit that called its function, 0 for none.  root: its outermost caller, or itself.
    begin_ns, end_ns: of the visit.  call_end_ns: when the call of its function ended; FOREVER where it did not.
    """

    path: Int64
    caller: Int64
    root: Int64
    begin_ns: Int64
    end_ns: Int64
    call_end_ns: Int64
    _by_thread: dict[int, tuple[Int64, Int64]]  # by thread: from when on which visit
    _main: int

    def at(self, thread: Int64, at_ns: Int64) -> Int64:
        """The visit each thread was in at each instant: the main thread's where its own lines are not known."""
        main = self._on(self._main, at_ns)
        visit = main.copy()
        for number in self._by_thread:
            rows = np.flatnonzero(thread == number)
            if number != self._main and len(rows):
                own = self._on(number, at_ns[rows])
                visit[rows] = np.where(own == NOT_VISITED, main[rows], own)
        return visit

    def _on(self, thread: int, at_ns: Int64) -> Int64:
        known = self._by_thread.get(thread)
        if known is None:
            return np.zeros(len(at_ns), np.int64)
        row = np.searchsorted(known[0], at_ns, side="right") - 1
        return np.where(row >= 0, known[1][np.maximum(row, 0)], NOT_VISITED)

    def next_of_line(self, visit: int) -> int:
        """The next visit of the same line, 0 for none."""
        return int(self._next[visit])

    @cached_property
    def _next(self) -> Int64:
        by = np.lexsort((self.begin_ns, self.path))
        same = self.path[by[1:]] == self.path[by[:-1]]
        next_visit = np.zeros(len(by), np.int64)
        next_visit[by[:-1]] = np.where(same, by[1:], NOT_VISITED)
        return next_visit


@once_per_trace
def paths_of(trace: Trace) -> Paths:
    """The lines that were followed; those of the cell alone where functions were not."""
    if trace.paths is not None:
        return trace.paths
    marks = trace.marks
    lines, number = np.unique(marks.line[marks.line != NO_LINE]), np.zeros(len(marks), np.int64)
    number = np.where(marks.line == NO_LINE, NOWHERE, np.searchsorted(lines, marks.line) + 1)
    texts = tuple((int(line), trace.cell.text(int(line)) if trace.cell else "") for line in lines)
    return Paths(
        parent=np.zeros(len(lines) + 1, np.int32),
        function=np.array([NONE, *[0] * len(lines)], np.int32),
        line=np.array([NO_LINE, *lines.tolist()], np.int32),
        functions=(UserFunction("<module>", "", 1, texts, is_cell=True),),
        marks=PathMarks.make({"at_ns": marks.at_ns, "thread": np.zeros(len(marks), np.int64), "path": number}),
        main_thread=0,
    )


@once_per_trace
def visits(trace: Trace) -> Visits:
    """All visits of all threads."""
    paths = paths_of(trace)
    visiting = _Visiting(paths)
    by_thread = {thread: visiting.thread(marks) for thread, marks in paths.by_thread.items()}
    calls = np.array(visiting.call_ends, np.int64)
    return Visits(
        path=np.array(visiting.path, np.int64),
        caller=np.array(visiting.caller, np.int64),
        root=np.array(visiting.root, np.int64),
        begin_ns=np.array(visiting.begin_ns, np.int64),
        end_ns=np.array(visiting.end_ns, np.int64),
        call_end_ns=calls[np.array(visiting.call, np.int64)],
        _by_thread=by_thread,
        _main=paths.main_thread,
    )


@dataclass
class _Visiting:
    paths: Paths
    path: list[int] = field(default_factory=lambda: [NOWHERE])
    caller: list[int] = field(default_factory=lambda: [NOT_VISITED])
    root: list[int] = field(default_factory=lambda: [NOT_VISITED])
    begin_ns: list[int] = field(default_factory=lambda: [0])
    end_ns: list[int] = field(default_factory=lambda: [FOREVER])
    call: list[int] = field(default_factory=lambda: [0])
    call_ends: list[int] = field(default_factory=lambda: [FOREVER])

    def __post_init__(self) -> None:
        self._function: list[int] = self.paths.function.tolist()

    def thread(self, marks: PathMarks) -> tuple[Int64, Int64]:
        """The visits of one thread, and from when on it was in which."""
        stack: list[int] = []  # visits, the outermost first
        inner: list[int] = []
        chains = {path: self.paths.chain(path)[::-1] for path in np.unique(marks.path).tolist()}
        first = np.flatnonzero(~self._next_lines(marks.path)).tolist()
        at_ns, paths = marks.at_ns.tolist(), marks.path.tolist()
        for row, end in pairwise([*first, len(paths)]):
            chain = chains[paths[row]]
            same = 0
            while same < min(len(stack), len(chain)) and self.path[stack[same]] == chain[same]:
                same += 1
            self._move(stack, chain, same, at_ns[row])
            inner.append(stack[-1] if stack else NOT_VISITED)
            if end > row + 1:
                inner += self._go_on(stack, paths[row + 1 : end], at_ns[row + 1 : end])
        return marks.at_ns, np.array(inner, np.int64)

    def _next_lines(self, path: Int64) -> Bool:
        """Which marks are of another line of the call that the mark before is of."""
        parent, function = self.paths.parent[path], self.paths.function[path]
        goes_on = np.zeros(len(path), bool)
        goes_on[1:] = (parent[1:] == parent[:-1]) & (function[1:] == function[:-1]) & (path[1:] != path[:-1])
        goes_on[1:] &= (path[1:] != NOWHERE) & (path[:-1] != NOWHERE)
        return goes_on

    def _go_on(self, stack: list[int], paths: list[int], at_ns: list[int]) -> range:
        """Visit other lines in the innermost call; returns their visits."""
        left, caller = stack[-1], stack[-2] if len(stack) > 1 else NOT_VISITED
        visits = range(len(self.path), len(self.path) + len(paths))
        self.end_ns[left] = at_ns[0]
        self.path += paths
        self.caller += [caller] * len(paths)
        self.root += [self.root[caller]] * len(paths) if caller else visits
        self.begin_ns += at_ns
        self.end_ns += [*at_ns[1:], FOREVER]
        self.call += [self.call[left]] * len(paths)
        stack[-1] = visits[-1]
        return visits

    def _move(self, stack: list[int], chain: list[int], same: int, at_ns: int) -> None:
        """End the visits that the thread left and begin new ones. The next line of a function is in the same call."""
        ended = stack[same:]
        for visit in ended:
            self.end_ns[visit] = at_ns
        goes_on = (
            bool(ended) and same < len(chain) and self._function[self.path[ended[0]]] == self._function[chain[same]]
        )
        for visit in ended[1 if goes_on else 0 :]:
            self.call_ends[self.call[visit]] = at_ns
        del stack[same:]
        for depth, path in enumerate(chain[same:]):
            if goes_on and depth == 0:
                call = self.call[ended[0]]
            else:
                call = len(self.call_ends)
                self.call_ends.append(FOREVER)
            caller = stack[-1] if stack else NOT_VISITED
            visit = len(self.path)
            self.path.append(path)
            self.caller.append(caller)
            self.root.append(self.root[caller] if caller else visit)
            self.begin_ns.append(at_ns)
            self.end_ns.append(FOREVER)
            self.call.append(call)
            stack.append(visit)
