"""The watch of Python 3.10 and 3.11: sys.settrace.

It pays for every call, of libraries too, and misses threads that ran before it and those that C++ began.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from perfmagic.base.errors import CaptureError
from perfmagic.capture.watch.events import LEAVE, LINE, START, Append, Events


class Settrace:
    """Notes events of the user's code from acquire() to give_back(); a resource of perfmagic.capture.owner.

    is_user_code, running: as in perfmagic.capture.watch.monitoring.
    lost: the thread that began this has another trace function at the end, or none: a debugger in the cell took it, or
    an interrupt struck in ours, upon which Python drops it. The lines after the last event are then not known.
    """

    def __init__(self, events: Events, is_user_code: Callable[[CodeType], bool], running: list[FrameType]) -> None:
        self.events = events
        self.lost = False
        self._is_user_code, self._running = is_user_code, running
        self._known: dict[int, tuple[bool, CodeType]] = {}  # by id; the code is kept, so that its id stays its own
        self._released: set[int] = set()  # ids: a code object's own hash is slow
        self._stopped: list[bool] = []  # not empty once stopped
        self._function: Any = None
        self._of_threads: Any = None

    def acquire(self) -> None:
        if sys.gettrace() is not None:
            raise CaptureError(
                "lines in functions cannot be followed: "
                "a debugger, a coverage tool or another recording traces this process",
                hint="end it, or measure without --lines; Python 3.12 follows lines beside it",
            )
        self._function, local = self._functions(self.events.of_main.append)
        for frame in self._running:
            self.events.rows().append((self.events.clock_ns(), START, frame.f_code, frame.f_lineno))
            frame.f_trace = local
        if threading.gettrace() is None:  # else new threads are a debugger's
            self._of_threads = self._begin_thread
            threading.settrace(self._of_threads)
        sys.settrace(self._function)

    def give_back(self) -> None:
        self.stop()  # threads that go on end it themselves
        if self._function is None:
            return
        if sys.gettrace() is self._function:
            sys.settrace(None)
        elif threading.get_ident() == self.events.main:
            self.lost = True
        if self._of_threads is not None and threading.gettrace() is self._of_threads:
            threading.settrace(None)  # type: ignore[arg-type, unused-ignore]
        for frame in self._running:
            frame.f_trace = None
        self._running, self._function, self._of_threads = [], None, None

    def stop_tracking(self, code: CodeType) -> None:
        """Note the lines of a function no more, from any thread."""
        self._released.add(id(code))

    def stop(self) -> None:
        """Note nothing more, from any thread."""
        self._stopped.append(True)

    def _begin_thread(self, frame: FrameType, event: str, arg: object) -> Any:
        """The trace function of a thread that begins: it has functions of its own from its first call on."""
        if self._stopped:
            sys.settrace(None)
            return None
        begun, _ = self._functions(self.events.put())
        sys.settrace(begun)
        return begun(frame, event, arg)

    def _functions(self, append: Append) -> tuple[Any, Any]:
        """What traces the calls of one thread, and what traces the lines of one frame."""
        known, is_user_code, released, stopped = self._known, self._is_user_code, self._released, self._stopped
        local, clock_ns = self._local(append), self.events.clock_ns

        def begun(frame: FrameType, _event: str, _arg: object) -> Any:
            if stopped:
                sys.settrace(None)
                return None
            code = frame.f_code
            entry = known.get(id(code))
            if entry is None:
                entry = known[id(code)] = is_user_code(code), code
            if not entry[0]:
                return None
            if id(code) in released:
                frame.f_trace_lines = False
            # a generator that goes on comes here too: its line says where
            append((clock_ns(), START, code, frame.f_lineno))
            return local

        return begun, local

    def _local(self, append: Append) -> Any:
        released, stopped, clock_ns = self._released, self._stopped, self.events.clock_ns

        def local(frame: FrameType, event: str, _arg: object) -> Any:
            if stopped:
                return None
            if event == "line":
                code = frame.f_code
                if released and id(code) in released:
                    frame.f_trace_lines = False
                else:
                    append((clock_ns(), LINE, code, frame.f_lineno))
            elif event == "return":
                append((clock_ns(), LEAVE, frame.f_code, 0))
            return local

        return local
