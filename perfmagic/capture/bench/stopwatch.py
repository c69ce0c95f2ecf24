"""Timing one sample of a body that somebody else runs.

A sample is a phase (perfmagic.capture.bench.body_loop) that yields k repetitions once. The iterable that it yields
reads the clock when the loop over it begins, and the phase is resumed with the reading taken right after the last
repetition. Nothing lies between the two readings but the loop, and that runs over itertools.repeat itself, as timeit's
does: one more iterator around it costs 3 ns a call, and 10 to 15 where another thread has the other half of the core.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat

from perfmagic.capture.bench.body_loop import Phase, Repetition
from perfmagic.capture.bench.device_use import Devices
from perfmagic.capture.devices.backends import Backend


@dataclass(frozen=True)
class Reading:
    """One sample of k calls, in ns for all of them: until Python came back, and until every device was idle."""

    returns_ns: int
    done_ns: int


@dataclass(frozen=True)
class SpanReading:
    """One sample of the device span, in ns for all its calls.

    host_ns: what the host needed for the calls.  queued: whether a backlog kept the queue full.
    """

    span_ns: int
    host_ns: int
    queued: bool


class Stopwatch:
    """Takes samples and counts how often the body ran."""

    def __init__(self, clock_ns: Callable[[], int], devices: Devices) -> None:
        self.clock_ns = clock_ns
        self._devices = devices
        self._handed_out = 0
        self._last: Iterator[Repetition] = repeat((), 0)

    @property
    def runs(self) -> int:
        """How often the body was started, also in the middle of a sample."""
        return self._handed_out - operator.length_hint(self._last)

    def repetitions(self, k: int) -> Iterator[Repetition]:
        """k repetitions of the body, counted."""
        self._last = repeat((), k)
        self._handed_out += k
        return self._last

    def sample(self, k: int = 1, untimed: int = 0) -> Phase[Reading]:
        """*returns* and *done* of k calls in a row, from one start.  untimed: calls right before that start."""
        if untimed:
            yield self.repetitions(untimed)
        timed = _Timed(self.clock_ns, self.repetitions(k))
        back_ns = yield timed
        self._devices.synchronize()
        return Reading(back_ns - timed.start_ns, self.clock_ns() - timed.start_ns)

    def span(
        self, backend: Backend, k: int, backlog_s: float, behind: Callable[[], None] | None = None
    ) -> Phase[SpanReading]:
        """*Device span* of k calls queued behind a backlog; the events see the current stream only.

        behind: queues what is to run after the backlog and before the first event.
        """
        repetitions = self.repetitions(k)
        queued = backend.occupy(backlog_s)
        if behind is not None:
            behind()
        first = backend.event()
        start = self.clock_ns()
        back = yield repetitions
        last = backend.event()
        self._devices.synchronize()
        return SpanReading(backend.elapsed_ns(first, last), back - start, queued)


class _Timed:
    """Repetitions that note when the loop over them begins."""

    __slots__ = ("_clock_ns", "_repetitions", "start_ns")

    def __init__(self, clock_ns: Callable[[], int], repetitions: Iterator[Repetition]) -> None:
        self._clock_ns, self._repetitions = clock_ns, repetitions
        self.start_ns = 0

    def __iter__(self) -> Iterator[Repetition]:
        self.start_ns = self._clock_ns()
        return self._repetitions
