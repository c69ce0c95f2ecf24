"""Following the user's lines during a recording, and what was found, as the paths of a trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType

import numpy as np

from perfmagic.base.clock import thread_reader
from perfmagic.capture.owner import Owner
from perfmagic.capture.watch import monitoring
from perfmagic.capture.watch.events import Events, HotLoops
from perfmagic.capture.watch.monitoring import Monitoring
from perfmagic.capture.watch.paths import paths_of
from perfmagic.capture.watch.settrace import Settrace
from perfmagic.capture.watch.sources import Sources
from perfmagic.capture.watch.user_code import UserCode
from perfmagic.trace.columns import NONE, PathMarks
from perfmagic.trace.paths import Paths


def by_default() -> bool:
    """Whether lines in functions are followed unasked: from Python 3.12 on that costs next to nothing."""
    return monitoring.available()


class LineWatch:
    """Follows lines from acquire() to give_back(); a resource of perfmagic.capture.owner.

    packages: installed ones that count as the user's code.  label: a file's name for people.
    Both raise as UserCode, Monitoring and Settrace do.
    """

    def __init__(self, packages: Iterable[str] = (), label: Callable[[str], str] | None = None) -> None:
        self._user_code, self._label = UserCode(packages), label
        self._events = Events()
        self._cell: CodeType | None = None
        self._owner = Owner()
        self._hot: HotLoops | None = None
        self._watching: Monitoring | Settrace | None = None
        self._main_native = thread_reader()()

    def acquire(self) -> None:
        running = self._running(sys._getframe(1))
        self._cell = running[0].f_code if running else None
        kind = Monitoring if monitoring.available() else Settrace
        self._watching = watching = kind(self._events, self._user_code, running)
        self._hot = HotLoops(self._events, watching)
        self._owner.acquire(self._hot)
        self._owner.acquire(watching)

    def give_back(self) -> None:
        self._owner.close()

    def paths(self, offset_ns: int, *, has_cell: bool) -> Paths:
        """What was followed.  offset_ns: from the host's clock to the trace's.  has_cell: whether it was a cell."""
        sources = Sources(self._label, self._cell if has_cell else None)
        # by id: a code object's own hash is slow
        untracked = set() if self._hot is None else set(map(id, self._hot.untracked))

        def statement(code: CodeType, line: int) -> int:
            """Each line of a hot loop counts as the first line of its function."""
            return code.co_firstlineno if id(code) in untracked else sources.statement(code, line)

        tree, marks = paths_of(self._events.by_thread, self._events.of_main, statement)
        ran: dict[int, set[int]] = {}
        for function, line in zip(tree.function, tree.line, strict=True):
            ran.setdefault(function, set()).add(line)
        threads, until = list(marks), self._until()
        return Paths(
            parent=np.array(tree.parent, np.int32),
            function=np.array(tree.function, np.int32),
            line=np.array(tree.line, np.int32),
            functions=tuple(sources.function(code, ran.get(i, ())) for i, code in enumerate(tree.functions)),
            marks=PathMarks.make(
                {
                    "at_ns": np.concatenate([np.array(marks[t].at_ns, np.int64) for t in threads]) + offset_ns,
                    "thread": np.repeat(np.array(threads, np.int64), [len(marks[t].at_ns) for t in threads]),
                    "path": np.concatenate([np.array(marks[t].path, np.int64) for t in threads]),
                }
            ),
            main_thread=self._main_native,
            until_ns=NONE if until is None else until[0] + offset_ns,
            unfollowed=tuple(i for i, code in enumerate(tree.functions) if id(code) in untracked),
        )

    @property
    def ended_because(self) -> str:
        """Why lines were not followed to the end; empty where they were."""
        until = self._until()
        return "" if until is None else until[1]

    def _until(self) -> tuple[int, str] | None:
        """When the watch ended before its time, by the host's clock, and why."""
        if self._watching is not None and self._watching.lost and self._events.of_main:
            return self._events.of_main[-1][0], "a debugger or another tool took over Python's trace function"
        if self._hot is not None and self._hot.full_ns is not None:
            return self._hot.full_ns, "the log of lines was full"
        return None

    def _running(self, frame: FrameType | None) -> list[FrameType]:
        """The frame that holds what is measured: the user's innermost that runs already."""
        while frame is not None and not self._user_code(frame.f_code):
            frame = frame.f_back
        return [] if frame is None else [frame]
