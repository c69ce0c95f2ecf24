"""The watch of Python 3.12 and later: sys.monitoring, on the user's code objects only.

Library code costs one event a code object, which answers DISABLE, and nothing after that. `restart_events()` is never
called: it would wake what every other tool of the process has disabled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from types import CodeType, FrameType
from typing import Any

from perfmagic.base.errors import CaptureError
from perfmagic.capture.watch.events import LEAVE, LINE, RESUME, START, Events

_TOOL_NAME = "perfmagic"


def available() -> bool:
    """Whether this Python has it."""
    return hasattr(sys, "monitoring")


class Monitoring:
    """Notes events of the user's code from acquire() to give_back(); a resource of perfmagic.capture.owner.

    is_user_code: whether a code object is the user's.
    running: frames of the user's that run already, the outermost first.
    lost: as in perfmagic.capture.watch.settrace; a tool id of sys.monitoring is never taken over.
    """

    lost = False

    def __init__(self, events: Events, is_user_code: Callable[[CodeType], bool], running: list[FrameType]) -> None:
        self.events = events
        self._is_user_code, self._running = is_user_code, running
        self._tool: int | None = None
        self._watched: dict[int, CodeType] = {}

    def acquire(self) -> None:
        m: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore] # from 3.12 on
        self._tool = _free_tool(m)
        for frame in self._running:
            self.events.rows().append((self.events.clock_ns(), START, frame.f_code, frame.f_lineno))
            self._watch(m, frame.f_code)
        self._running = []
        e = m.events
        for event, callback in self._callbacks(m).items():
            m.register_callback(self._tool, event, callback)
        m.set_events(self._tool, e.PY_START | e.PY_UNWIND | e.PY_THROW)

    def give_back(self) -> None:
        if self._tool is None:
            return
        m: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        if m.get_tool(self._tool) == _TOOL_NAME:
            self.stop()
            for event in self._callbacks(m):
                m.register_callback(self._tool, event, None)
            m.free_tool_id(self._tool)
        self._tool = None
        self._watched.clear()

    def stop(self) -> None:
        """Note nothing more, from any thread."""
        m: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        if self._tool is not None:
            m.set_events(self._tool, 0)
            for code in list(self._watched.values()):
                m.set_local_events(self._tool, code, 0)

    def stop_tracking(self, code: CodeType) -> None:
        """Note the lines of a function no more, from any thread; where it begins and ends is still noted."""
        m: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        if self._tool is not None and id(code) in self._watched:
            m.set_local_events(self._tool, code, _locals(m) & ~m.events.LINE)

    def _watch(self, m: Any, code: CodeType) -> None:
        self._watched[id(code)] = code  # kept, so that its id stays its own
        m.set_local_events(self._tool, code, _locals(m))

    def _callbacks(self, m: Any) -> dict[int, Callable[..., Any]]:
        """What is called for each event: functions that know all they need, as they run at every line."""
        return {**self._of_lines(m), **self._of_errors(m)}

    def _of_lines(self, m: Any) -> dict[int, Callable[..., Any]]:
        main, of_main, put = self.events.main, self.events.of_main.append, self.events.put
        clock_ns = self.events.clock_ns
        watched, is_user_code, disable, watch = self._watched, self._is_user_code, m.DISABLE, self._watch

        def line(code: CodeType, number: int) -> None:
            (of_main if get_ident() == main else put())((clock_ns(), LINE, code, number))

        def start(code: CodeType, _offset: int) -> Any:
            if id(code) not in watched:
                if not is_user_code(code):
                    return disable
                watch(m, code)
            (of_main if get_ident() == main else put())((clock_ns(), START, code, 0))
            return None

        def resume(code: CodeType, offset: int) -> None:
            (of_main if get_ident() == main else put())((clock_ns(), RESUME, code, offset))

        def leave(code: CodeType, _offset: int, _value: object) -> None:
            (of_main if get_ident() == main else put())((clock_ns(), LEAVE, code, 0))

        e = m.events
        return {e.LINE: line, e.PY_START: start, e.PY_RESUME: resume, e.PY_RETURN: leave, e.PY_YIELD: leave}

    def _of_errors(self, m: Any) -> dict[int, Callable[..., Any]]:
        """Python has these two for all code at once: the user's is picked here."""
        put, watched, clock_ns = self.events.put, self._watched, self.events.clock_ns

        def unwind(code: CodeType, _offset: int, _error: BaseException) -> None:
            if id(code) in watched:
                put()((clock_ns(), LEAVE, code, 0))

        def throw(code: CodeType, offset: int, _error: BaseException) -> None:
            if id(code) in watched:
                put()((clock_ns(), RESUME, code, offset))

        return {m.events.PY_UNWIND: unwind, m.events.PY_THROW: throw}


def _locals(m: Any) -> int:
    e = m.events
    return int(e.LINE | e.PY_RESUME | e.PY_RETURN | e.PY_YIELD)  # PY_START stays global


def _free_tool(m: Any) -> int:
    """A number of our own; debuggers, coverage and optimisers have theirs. Raises CaptureError where none is free."""
    for tool in (3, 4, m.PROFILER_ID):
        try:
            m.use_tool_id(tool, _TOOL_NAME)
        except ValueError:
            continue
        return int(tool)
    raise CaptureError(
        "lines in functions cannot be followed: other tools of this process hold sys.monitoring's numbers 2, 3 and 4",
        hint="end the other tool, or measure with --no-lines",
    )
