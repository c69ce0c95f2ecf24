"""Events as paths: for every instant of every thread the chain of user lines on its stack.

A path is a node of the tree of calls: its parent is the path of the caller's line. The first path, 0, is no line.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType

from perfmagic.capture.watch.events import LINE, RESUME, START, Event

NOWHERE = 0
_FOLDED = (
    "<listcomp>",
    "<setcomp>",
    "<dictcomp>",
)  # functions of their own until Python 3.12: their line is the caller's


@dataclass
class PathTree:
    """Paths as columns; row 0 is no line.

    parent: row of the caller's path.  function: row of functions, -1 for row 0.  line: in the function's file.
    functions: the code object of each, in order of their first call.
    statement: the first line of the statement that a line of a code object's file belongs to.
    """

    statement: Callable[[CodeType, int], int] = lambda _code, line: line
    parent: list[int] = field(default_factory=lambda: [NOWHERE])
    function: list[int] = field(default_factory=lambda: [-1])
    line: list[int] = field(default_factory=lambda: [0])
    functions: list[CodeType] = field(default_factory=list)
    _rows: dict[tuple[int, int, int], int] = field(default_factory=dict)  # (parent, id of the code, line) to a row
    _numbers: dict[int, int] = field(default_factory=dict)  # id of a code object to its function

    def child(self, parent: int, code: CodeType, line: int) -> int:
        """The path of a line that was called from another path."""
        key = (parent, id(code), line)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._add(parent, code, self.statement(code, line))
        return row

    def _add(self, parent: int, code: CodeType, line: int) -> int:
        number = self._numbers.get(id(code))
        if number is None:
            number = self._numbers[id(code)] = len(self.functions)
            self.functions.append(code)
        key = (parent, id(code), line)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = len(self.parent)
            self.parent.append(parent)
            self.function.append(number)
            self.line.append(line)
        return row


@dataclass
class Marks:
    """Where one thread was: from at_ns on it was on path; perf_counter_ns, rising."""

    at_ns: array[int] = field(default_factory=lambda: array("q"))
    path: array[int] = field(default_factory=lambda: array("q"))

    def path_at(self, at_ns: int) -> int:
        row = bisect_right(self.at_ns, at_ns) - 1
        return self.path[row] if row >= 0 else NOWHERE


def paths_of(
    by_thread: dict[int, list[Event]], main: list[Event], statement: Callable[[CodeType, int], int] | None = None
) -> tuple[PathTree, dict[int, Marks]]:
    """All paths, and where each thread was when.

    main: the list of the thread that began the watch. What another thread runs was called by the line that this one was
    on: of a thread of the user's that is the line that started it or waits for it, of autograd's the one in backward().
    """
    tree = PathTree() if statement is None else PathTree(statement)
    first = _marks(main, tree, lambda _at_ns: NOWHERE)
    marks = {thread: first if rows is main else _marks(rows, tree, first.path_at) for thread, rows in by_thread.items()}
    return tree, marks


def _marks(rows: list[Event], tree: PathTree, below: Callable[[int], int]) -> Marks:
    """below: the path under a thread's first user frame, by time."""
    path = array("q")
    stack = _Stack(tree, below, rows[0][2] if rows else None)
    of_code: CodeType | None = None  # whose lines are known
    known: dict[int, int] = {}  # the paths of its lines, as long as its frame is the innermost
    for when, kind, code, number in rows:
        if kind == LINE:
            if code is not of_code:
                of_code, known = code, {}
            now = known.get(number, -1)
            if now < 0:
                now = known[number] = stack.line(when, code, number)
            stack.here[-1] = now
        else:
            of_code = None
            if kind in (START, RESUME):
                line = _line_of(code, number) if kind == RESUME else number or code.co_firstlineno
                now = stack.begin(when, code, line)
            else:
                now = stack.leave(code)
        path.append(now)
    return Marks(array("q", [row[0] for row in rows]), path)


class _Stack:
    """The user's frames of one thread, as events build and unwind them.

    here: the path each frame is on.
    outermost: the code of the first frame. A coroutine there leaves the stack while it awaits; what its event loop runs
    meanwhile was called by the line that awaits.
    """

    def __init__(self, tree: PathTree, below: Callable[[int], int], outermost: CodeType | None) -> None:
        self._tree, self._below, self._outermost = tree, below, outermost
        self._codes: list[CodeType] = []
        self._callers: list[int] = []  # the path each frame was called from
        self.here: list[int] = []
        self._awaits: tuple[int, int] | None = None  # path and caller of the outermost frame when it left

    def line(self, when: int, code: CodeType, number: int) -> int:
        codes = self._codes
        if not codes or codes[-1] is not code:
            self._back_to(code)
            if not codes:  # it began before the watch
                self._push(code, self._under(when, code))
        caller = self._callers[-1]
        now = self.here[-1] = caller if self._is_folded(code) else self._tree.child(caller, code, number)
        return now

    def begin(self, when: int, code: CodeType, line: int) -> int:
        caller = self.here[-1] if self._codes else self._under(when, code)
        self._push(code, caller)
        now = self.here[-1] = caller if self._is_folded(code) else self._tree.child(caller, code, line)
        return now

    def leave(self, code: CodeType) -> int:
        self._back_to(code)
        if self._codes:
            left, caller, here = self._codes.pop(), self._callers.pop(), self.here.pop()
            if not self._codes and left is self._outermost:
                self._awaits = here, caller
        if self.here:
            return self.here[-1]
        return NOWHERE if self._awaits is None else self._awaits[0]

    def _under(self, when: int, code: CodeType) -> int:
        """The path that the first frame of an empty stack was called from."""
        if self._awaits is None:
            return self._below(when)
        return self._awaits[1] if code is self._outermost else self._awaits[0]

    def _push(self, code: CodeType, caller: int) -> None:
        self._codes.append(code)
        self._callers.append(caller)
        self.here.append(caller)

    def _back_to(self, code: CodeType) -> None:
        """Leave the frames above one that is on the stack: their end was missed."""
        while self._codes and self._codes[-1] is not code:
            self._codes.pop()
            self._callers.pop()
            self.here.pop()

    def _is_folded(self, code: CodeType) -> bool:
        return code.co_name in _FOLDED and len(self._codes) > 1


def _line_of(code: CodeType, offset: int) -> int:
    """The line of an offset into a code object."""
    for begin, end, line in code.co_lines():
        if begin <= offset < end and line is not None:
            return line
    return code.co_firstlineno
