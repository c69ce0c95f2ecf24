"""Following the user's lines during a recording, and what was found, as the paths of a trace.

Hot loops are let go: plain Python whose lines follow each other faster than any call into torch. A line event costs a
few empty calls. Such a loop would take ten times as long and fill the memory, and its lines queue nothing.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Protocol

import numpy as np

from perfmagic.capture.owner import Owner
from perfmagic.capture.watch import monitoring
from perfmagic.capture.watch.events import LINE, MOST_EVENTS, Event, Events
from perfmagic.capture.watch.monitoring import Monitoring
from perfmagic.capture.watch.paths import paths_of
from perfmagic.capture.watch.settrace import Settrace
from perfmagic.capture.watch.sources import Sources
from perfmagic.capture.watch.user_code import UserCode
from perfmagic.trace.columns import NONE, PathMarks
from perfmagic.trace.paths import Paths

LOOK_S = 0.02
LEAST_EVENTS = 30_000  # this many events this close together count as a loop
CLOSE_NS = 2_000  # a call into torch takes longer; with sys.settrace an event alone takes up to 1 µs
SAMPLE = 4_000  # of the latest events, to see whose they are
LEAST_SHARE = 0.1


class Watching(Protocol):
    """What records line events, and can stop for one function or for all."""

    def stop_tracking(self, code: CodeType) -> None: ...

    def stop(self) -> None: ...


class HotLoops:
    """A thread that looks at the log while it grows; a resource of perfmagic.capture.owner.

    untracked: functions whose lines are no longer recorded.  full_ns: when the full log stopped the watch, by
    perf_counter_ns; None where it did not.
    """

    def __init__(
        self, events: Events, watching: Watching, *, least_events: int = LEAST_EVENTS, most_events: int = MOST_EVENTS
    ) -> None:
        self._events, self._watching = events, watching
        self._least, self._most = least_events, most_events
        self._seen: dict[int, int] = {}  # how far each thread's list was looked at
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self.untracked: list[CodeType] = []
        self.full_ns: int | None = None

    def acquire(self) -> None:
        self._thread = threading.Thread(target=self._run, name="perfmagic-lines", daemon=True)
        self._thread.start()

    def give_back(self) -> None:
        self._end.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None

    def look(self) -> None:
        """Stop tracking the functions that are hot by now."""
        if len(self._events) >= self._most and self.full_ns is None:
            self._watching.stop()
            self.full_ns = time.perf_counter_ns()
        for thread, rows in list(self._events.by_thread.items()):
            self._look_at(thread, rows)

    def _run(self) -> None:
        while not self._end.wait(LOOK_S):
            self.look()

    def _look_at(self, thread: int, rows: list[Event]) -> None:
        begin, end = self._seen.get(thread, 0), len(rows)
        if end - begin < 2:
            return
        if rows[end - 1][0] - rows[begin][0] >= CLOSE_NS * (end - begin):
            self._seen[thread] = end
        elif end - begin >= self._least:
            self._seen[thread] = end
            self._untrack(rows[end - SAMPLE : end])

    def _untrack(self, sample: list[Event]) -> None:
        codes = {id(code): code for _, _, code, _ in sample}  # by id: a code object's own hash is slow
        lines = Counter(id(code) for _, kind, code, _ in sample if kind == LINE)
        for number, n in lines.items():
            code = codes[number]
            if n >= LEAST_SHARE * len(sample) and all(code is not known for known in self.untracked):
                self._watching.stop_tracking(code)
                self.untracked.append(code)


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
        self._main_native = threading.get_native_id()

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
        """What was followed.  offset_ns: from perf_counter to the trace's time.  has_cell: whether it was a cell."""
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
        """When the watch ended before its time, by perf_counter_ns, and why."""
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
