"""The watch of Python 3.10 and 3.11: sys.settrace.

It pays for every call, of libraries too, and misses threads that ran before it and those that C++ began.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from perfmagic.capture.watch.events import LEAVE, LINE, START, Events, clock_ns
from perfmagic.errors import CaptureError


class Settrace:
    """Notes events of the user's code from take() to give_back(); a resource of perfmagic.capture.owner.

    mine, running: as in perfmagic.capture.watch.monitoring.
    """

    def __init__(self, events: Events, mine: Callable[[CodeType], bool], running: list[FrameType]) -> None:
        self.events = events
        self._mine, self._running = mine, running
        self._released: set[CodeType] = set()
        self._stopped = False
        self._function: Any = None

    def take(self) -> None:
        if sys.gettrace() is not None:
            raise CaptureError(
                "lines in functions cannot be followed: a debugger or a coverage tool traces this process",
                hint="end it, or measure without --lines; Python 3.12 follows lines beside it",
            )
        self._function, local = self._functions()
        for frame in self._running:
            self.events.rows().append((clock_ns(), START, frame.f_code, frame.f_lineno))
            frame.f_trace = local
        threading.settrace(self._function)
        sys.settrace(self._function)

    def give_back(self) -> None:
        if self._function is None:
            return
        if sys.gettrace() is self._function:  # a debugger may have been started meanwhile
            sys.settrace(None)
        if getattr(threading, "_trace_hook", None) is self._function:
            threading.settrace(None)  # type: ignore[arg-type, unused-ignore]
        for frame in self._running:
            frame.f_trace = None
        self._running, self._function = [], None

    def let_go(self, code: CodeType) -> None:
        """Note the lines of a function no more, from any thread."""
        self._released.add(code)

    def stop(self) -> None:
        """Note nothing more, from any thread."""
        self._stopped = True

    def _functions(self) -> tuple[Any, Any]:
        main, of_main, put = self.events.main, self.events.of_main.append, self.events.put
        mine, released, ident = self._mine, self._released, threading.get_ident

        def local(frame: FrameType, event: str, _arg: object) -> Any:
            if self._stopped:
                return None
            if event == "line":
                if frame.f_code in released:
                    frame.f_trace_lines = False
                    return local
                (of_main if ident() == main else put())((clock_ns(), LINE, frame.f_code, frame.f_lineno))
            elif event == "return":
                (of_main if ident() == main else put())((clock_ns(), LEAVE, frame.f_code, 0))
            return local

        def begun(frame: FrameType, _event: str, _arg: object) -> Any:
            code = frame.f_code
            if self._stopped or not mine(code):
                return None
            if code in released:
                frame.f_trace_lines = False
            # a generator that goes on comes here too: its line says where
            (of_main if ident() == main else put())((clock_ns(), START, code, frame.f_lineno))
            return local

        return begun, local
