"""Timing one sample of a body that somebody else runs.

A sample is a small generator that yields an iterable of k steps, for each of which the caller runs the body once, and
is resumed with the clock's reading right after the last. The iterable reads the clock when the loop over it begins. So
nothing lies between the two readings but the loop, and that runs over itertools.repeat itself, as timeit's does: one
more iterator around it costs 3 ns a call, and 10 to 15 where another thread has the other half of the core.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import TypeAlias, TypeVar

from perfmagic.capture.devices.backends import Backend
from perfmagic.trace.model import DeviceInfo

Step: TypeAlias = tuple[()]
ResultT = TypeVar("ResultT")
Steps: TypeAlias = Generator[Iterable[Step], int, ResultT]  # resumed with the clock's reading, in ns
Stretches: TypeAlias = Generator[tuple[int, Steps[None]], None, None]  # a body's number, and the steps it runs for


def drive(steps: Steps[None], clock_ns: Callable[[], int]) -> Iterator[Step]:
    """Every step of every iterable the generator yields, for a plain loop; Turns costs less a step."""
    with suppress(StopIteration):
        some = next(steps)
        while True:
            yield from some
            some = steps.send(clock_ns())


class Turns:
    """Which body runs now, and for which steps.

        while turns.turn():
            for () in turns.steps(0):
                <body 0>
            for () in turns.steps(1):
                <body 1>

    stretches: one after the other, a body's number and the steps it runs for.
    """

    def __init__(self, stretches: Stretches, clock_ns: Callable[[], int]) -> None:
        self._stretches, self._clock_ns = stretches, clock_ns
        self._running: Steps[None] | None = None
        self._some: Iterable[Step] = ()
        self._ended_ns = 0  # when the last steps were used up, 0 until somebody asks for more
        self.which = 0

    def turn(self) -> bool:
        """Go on to the next steps; False when all have been taken."""
        now_ns = self._clock_ns()
        ended_ns = self._ended_ns or now_ns
        self._ended_ns = 0
        if self._running is not None:
            with suppress(StopIteration):
                self._some = self._running.send(ended_ns)
                return True
        for which, steps in self._stretches:
            self.which, self._running = which, steps
            with suppress(StopIteration):
                self._some = next(steps)
                return True
        self._running = None
        return False

    def steps(self, which: int) -> Iterable[Step]:
        """Those of a body now; none where it is another's turn."""
        if which == self.which and self._some:
            some, self._some = self._some, ()
            return some
        if not self._some and not self._ended_ns:  # the body before this one has just ended
            self._ended_ns = self._clock_ns()
        return ()

    def close(self) -> None:
        """Leave it where it is; a recording may be under way."""
        try:
            if self._running is not None:
                self._running.close()
        finally:
            self._stretches.close()


class Devices:
    """The asynchronous devices that may hold work of the body."""

    def __init__(self, active: Callable[[], tuple[Backend, ...]]) -> None:
        self._active = active
        self.backends: tuple[Backend, ...] = ()
        self.infos: tuple[DeviceInfo, ...] = ()

    def refresh(self) -> None:
        """Ask again which devices are in use: the body may have started one."""
        found = self._active()
        if [b.kind for b in found] != [b.kind for b in self.backends]:  # keeps a backend's calibration
            self.backends = found
            self.infos = tuple(info for backend in found for info in backend.infos())

    def synchronize(self) -> None:
        """Wait until all of them are idle."""
        for backend in self.backends:
            backend.synchronize()

    def progress(self) -> int | None:
        """A number that grows with everything queued on any of them, None where one does not tell."""
        each = [backend.progress() for backend in self.backends]
        known = [n for n in each if n is not None]
        return sum(known) if each and len(known) == len(each) else None

    def memory_bytes(self) -> tuple[int, int] | None:
        """What is allocated on all of them now, and the most since reset_peak_memory; None where one does not tell."""
        each = [backend.memory_bytes() for backend in self.backends]
        known = [one for one in each if one is not None]
        if not each or len(known) < len(each):
            return None
        return sum(now for now, _ in known), sum(peak for _, peak in known)

    def reset_peak_memory(self) -> None:
        """Begin to look for the most anew."""
        for backend in self.backends:
            backend.reset_peak_memory()

    def with_events(self) -> Backend | None:
        """The first one that can time on the device, None where none can."""
        return next((b for b in self.backends if b.has_events()), None)


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
        self._last: Iterator[Step] = repeat((), 0)

    @property
    def runs(self) -> int:
        """How often the body was started, also in the middle of a sample."""
        return self._handed_out - operator.length_hint(self._last)

    def steps(self, k: int) -> Iterator[Step]:
        """Steps for k calls, counted."""
        self._last = repeat((), k)
        self._handed_out += k
        return self._last

    def sample(self, k: int = 1, untimed: int = 0) -> Steps[Reading]:
        """*returns* and *done* of k calls in a row, from one start.  untimed: calls right before that start."""
        if untimed:
            yield self.steps(untimed)
        timed = _Timed(self.clock_ns, self.steps(k))
        back_ns = yield timed
        self._devices.synchronize()
        return Reading(back_ns - timed.start_ns, self.clock_ns() - timed.start_ns)

    def span(
        self, backend: Backend, k: int, backlog_s: float, behind: Callable[[], None] | None = None
    ) -> Steps[SpanReading]:
        """*Device span* of k calls queued behind a backlog; the events see the current stream only.

        behind: queues what is to run after the backlog and before the first event.
        """
        steps = self.steps(k)
        queued = backend.occupy(backlog_s)
        if behind is not None:
            behind()
        first = backend.event()
        start = self.clock_ns()
        back = yield steps
        last = backend.event()
        self._devices.synchronize()
        return SpanReading(backend.elapsed_ns(first, last), back - start, queued)


class _Timed:
    """Steps that note when the loop over them begins."""

    __slots__ = ("_clock_ns", "_steps", "start_ns")

    def __init__(self, clock_ns: Callable[[], int], steps: Iterator[Step]) -> None:
        self._clock_ns, self._steps = clock_ns, steps
        self.start_ns = 0

    def __iter__(self) -> Iterator[Step]:
        self.start_ns = self._clock_ns()
        return self._steps
