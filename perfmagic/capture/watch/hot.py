"""Letting go of hot loops: plain Python whose lines follow each other faster than any call into torch.

A line event costs a few empty calls. A loop of nothing but Python would take ten times as long and fill the memory, and
its lines queue nothing.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from types import CodeType
from typing import Protocol

from perfmagic.capture.watch.events import LINE, MOST_EVENTS, Event, Events

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
