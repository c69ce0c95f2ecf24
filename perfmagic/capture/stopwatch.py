"""Timing one sample of a body that somebody else runs.

A sample is a small generator that yields an iterable of k steps, for each of which the caller runs the body once. The
iterable itself reads the clock, before its first step and when it is asked for one more, so that nothing of a sample
but that lies between the two readings. `drive` strings such iterables together: the loop around the body runs in C
within a sample and costs some 15 ns a call.
"""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TypeAlias, TypeVar

from perfmagic.capture.device import Backend
from perfmagic.trace.model import DeviceInfo

Step: TypeAlias = tuple[()]
ResultT = TypeVar("ResultT")
Steps: TypeAlias = Generator[Iterable[Step], None, ResultT]

PLAIN_FROM = 100  # calls: then what a step costs counts more than what the beginning and the end of a sample cost
EMPTY_BLOCKS = 15  # at first; an odd number, so that the median is one of them
EMPTY_CALLS = 1001  # in all of them at least: a block of one call is as short as what disturbs it; they take 0.3 ms
EMPTY_EVERY = 16  # blocks, before their median is taken again


def drive(steps: Steps[None]) -> Iterator[Step]:
    """Every step of every iterable the generator yields; the generator goes on when one is used up."""
    return chain.from_iterable(steps)


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
        self._left: tuple[Iterator[Step], ...] = ()

    @property
    def runs(self) -> int:
        """How often the body was started, also in the middle of a sample."""
        return self._handed_out - sum(map(operator.length_hint, self._left))

    def steps(self, k: int) -> Iterable[Step]:
        """Steps for k calls, counted."""
        return self._count(k)[0]

    def _count(self, *calls: int) -> tuple[Iterator[Step], ...]:
        self._left = tuple(repeat((), k) for k in calls)
        self._handed_out += sum(calls)
        return self._left

    def sample(self, k: int = 1, untimed: int = 0) -> Steps[Reading]:
        """*returns* and *done* of k calls in a row, from one start.  untimed: calls right before that start."""
        if k < PLAIN_FROM:
            timed = _Timed(self.clock_ns, self._devices.synchronize)
            before, first, rest = self._count(untimed, 1, k - 1)
            yield chain(before, timed.begin(first), rest, timed.end())
            return Reading(timed.returned_ns - timed.start_ns, timed.done_ns - timed.start_ns)
        clock_ns = self.clock_ns
        before, steps = self._count(untimed, k)
        yield before
        start = clock_ns()
        yield steps
        back = clock_ns()
        self._devices.synchronize()
        return Reading(back - start, clock_ns() - start)

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
        yield steps
        back = self.clock_ns()
        last = backend.event()
        self._devices.synchronize()
        return SpanReading(backend.elapsed_ns(first, last), back - start, queued)


class _Timed:
    """The clock around the steps of one sample, read by the iterables the steps stand between."""

    __slots__ = ("_clock_ns", "_synchronize", "done_ns", "returned_ns", "start_ns")

    def __init__(self, clock_ns: Callable[[], int], synchronize: Callable[[], None]) -> None:
        self._clock_ns, self._synchronize = clock_ns, synchronize
        self.start_ns = self.returned_ns = self.done_ns = 0

    def begin(self, first: Iterator[Step]) -> Iterator[Step]:
        """The first step."""
        step = next(first)
        self.start_ns = self._clock_ns()
        yield step

    def end(self) -> Iterator[Step]:
        """No step."""
        self.returned_ns = self._clock_ns()
        self._synchronize()
        self.done_ns = self._clock_ns()
        yield from ()


class EmptyLoop:
    """What a sample of k calls of nothing takes: to be subtracted. Never counted as runs of a body.

    Measured at once, and again beside the samples with again(): where the machine changes its speed, what was measured
    before is not what the loop took later.
    """

    def __init__(self, clock_ns: Callable[[], int], k: int) -> None:
        self._watch, self._k = Stopwatch(clock_ns, Devices(tuple)), k
        self._readings_ns: list[int] = []
        for _ in range(max(EMPTY_BLOCKS, EMPTY_CALLS // k)):
            self._measure()
        self.ns = statistics.median_low(self._readings_ns)

    @property
    def ns_a_call(self) -> float:
        return self.ns / self._k

    def again(self) -> None:
        """One block more."""
        self._measure()
        if len(self._readings_ns) % EMPTY_EVERY == 0:
            self.ns = statistics.median_low(self._readings_ns)

    def _measure(self) -> None:
        for () in drive(self._one()):
            pass

    def _one(self) -> Steps[None]:
        reading = yield from self._watch.sample(self._k)
        self._readings_ns.append(reading.returns_ns)
