"""What a watch notes: one tuple an event, in a list for each thread.

A tuple appended to a list costs 0.2 µs with the clock in it, a third of what an array takes. Nothing is looked up while
the code runs: paths are made of the events afterwards (perfmagic.capture.watch.paths).

Hot loops are skipped: plain Python whose lines follow each other faster than any call into torch. A line event costs a
few empty calls. Such a loop would take ten times as long and fill the memory, and its lines queue nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import Protocol, TypeAlias

from perfmagic.base.clock import is_repeatable, reader, thread_reader

LINE = 0  # this line is about to run
START = 1  # a function begins, or a frame that was running when the watch began
RESUME = 2  # a generator or a coroutine goes on
LEAVE = 3  # it returned, yielded, or an exception left it

# (when, by the host's clock; what; whose code; a line, or for START and RESUME of sys.monitoring an offset)
Event: TypeAlias = tuple[int, int, CodeType, int]
Append: TypeAlias = Callable[[Event], None]

# a log of 600,000 events takes 70 MB: with lines 5 µs apart that is three seconds of the user's own Python
MOST_EVENTS = 600_000


class _Looking(list[Event]):
    """A list that looks for hot loops itself, at the same event on each run: a counted host has no thread for it."""

    def __init__(self, events: Events) -> None:
        super().__init__()
        self._events = events

    def append(self, event: Event) -> None:
        super().append(event)
        if len(self) % SAMPLE == 0:
            self._events.look()


class Events:
    """The events of one watch, by thread.

    main: the thread that began it. Its list is known to the callbacks, which spares a look-up in each.
    clock_ns: what reads the host's time.
    """

    def __init__(self) -> None:
        self.main = threading.get_ident()
        self.clock_ns, self._thread = reader(), thread_reader()
        self.look: Callable[[], None] = lambda: None
        self.by_thread: dict[int, list[Event]] = {}
        self._of = threading.local()
        self.of_main = self.rows()

    def rows(self) -> list[Event]:
        """The list of the thread that asks."""
        try:
            rows: list[Event] = self._of.rows
        except AttributeError:
            rows = self._of.rows = _Looking(self) if is_repeatable() else []
            self.by_thread[self._thread()] = rows
        return rows

    def put(self) -> Append:
        """Where the thread that asks adds its events."""
        return self.rows().append

    def __len__(self) -> int:
        return sum(map(len, list(self.by_thread.values())))


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
    """Looks at the log while it grows, in a thread on the real clock; a resource of perfmagic.capture.owner.

    untracked: functions whose lines are no longer recorded.  full_ns: when the full log stopped the watch, by
    the host's clock; None where it did not.
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
        self._events.look = self.look
        if is_repeatable():
            return
        self._thread = threading.Thread(target=self._run, name="perfmagic-lines", daemon=True)
        self._thread.start()

    def give_back(self) -> None:
        self._end.set()
        thread, self._thread = self._thread, None
        # an interrupt may come before it is started
        if thread is not None and thread.ident is not None and thread is not threading.current_thread():
            thread.join()

    def look(self) -> None:
        """Stop tracking the functions that are hot by now."""
        if len(self._events) >= self._most and self.full_ns is None:
            self._watching.stop()
            self.full_ns = self._events.clock_ns()
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
