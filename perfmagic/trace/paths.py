"""Which line of the user's code every thread was on, in any function: paths, and when each thread was on which.

A path is a chain of lines: the cell's line, the line of the function that it called, and so on. It is a row that names
its last line and, as its parent, the path of the caller. Row 0 is no line of the user's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfmagic.trace.columns import NO_LINE, NONE, Bool, Int32, Int64, PathMarks
from perfmagic.trace.json_form import Line

NOWHERE = 0


@dataclass(frozen=True)
class UserFunction:
    """A function of the user's that ran, or the cell.

    name: qualified, "Net.forward".  file: "In[5]", or a path.  first_line: of its definition, decorators included.
    texts: (line, text) of lines that a reader is shown.  is_cell: the measured cell itself.
    note: why there is no text; empty where there is.
    """

    name: str
    file: str
    first_line: Line
    texts: tuple[tuple[Line, str], ...] = ()
    is_cell: bool = False
    note: str = ""

    def text(self, line: int) -> str:
        """The text of a line, stripped; empty where it is not known."""
        return self._by_line.get(line, "").strip()

    @cached_property
    def _by_line(self) -> dict[int, str]:
        return dict(self.texts)


@dataclass(frozen=True, eq=False)
class Paths:
    """All paths of a recording, and where each thread was when.

    parent: the caller's path.  function: row of functions, NONE for row 0.  line: of the function's file.
    functions: in order of their first call.  main_thread: the one that ran the cell.
    until_ns: when following ended before the cell did, NONE where it did not.
    unfollowed: functions whose lines are not followed: hot loops of plain Python.
    """

    parent: Int32
    function: Int32
    line: Int32
    functions: tuple[UserFunction, ...]
    marks: PathMarks
    main_thread: int
    until_ns: int = NONE
    unfollowed: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.parent)

    def at(self, thread: Int64, at_ns: Int64) -> Int64:
        """The path each thread was on at each instant; shape of at_ns.

        A thread without a line of the user's (autograd's, a loader's) is on the path of the one that ran the cell.
        """
        main = self._on(self.main_thread, at_ns)
        path = main.copy()
        for number, marks in self.by_thread.items():
            asked = np.flatnonzero(thread == number)
            if number != self.main_thread and len(asked):
                own = _at(marks, at_ns[asked])
                path[asked] = np.where(own == NOWHERE, main[asked], own)
        return path

    def _on(self, thread: int, at_ns: Int64) -> Int64:
        marks = self.by_thread.get(thread)
        return np.zeros(len(at_ns), np.int64) if marks is None else _at(marks, at_ns)

    @cached_property
    def by_thread(self) -> dict[int, PathMarks]:
        """The marks of each thread."""
        return {int(t): self.marks.select(self.marks.thread == t) for t in np.unique(self.marks.thread)}

    @cached_property
    def cell_line(self) -> Int32:
        """The line of the cell on each path, NO_LINE where it has none; shape of parent."""
        is_cell = np.array([f.is_cell for f in self.functions] + [False])  # NONE is the last
        lines = np.full(len(self), NO_LINE, np.int32)
        for row in range(1, len(self)):  # callers come first
            above = lines[self.parent[row]]
            lines[row] = above if above != NO_LINE else self.line[row] * is_cell[self.function[row]]
        return lines

    def chain(self, path: int) -> list[int]:
        """A path and its callers' paths, the innermost first."""
        rows = []
        while path != NOWHERE:
            rows.append(path)
            path = int(self.parent[path])
        return rows

    def followed(self, at_ns: Int64) -> Bool:
        """Which instants lie in the time that was followed; shape of at_ns."""
        return np.full(len(at_ns), True) if self.until_ns == NONE else at_ns < self.until_ns


def _at(marks: PathMarks, at_ns: Int64) -> Int64:
    row = np.searchsorted(marks.at_ns, at_ns, side="right") - 1
    return np.where(row >= 0, marks.path[np.maximum(row, 0)], NOWHERE)
