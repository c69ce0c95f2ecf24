"""The samples of *returns* and *done*, taken until the stopping rule has enough (perfmagic.capture.bench.spec)."""

from __future__ import annotations

import operator
import statistics
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from perfmagic.base.clock import spent_reader
from perfmagic.base.imported import torch_if_imported
from perfmagic.base.options import option
from perfmagic.capture.bench import quiet
from perfmagic.capture.bench.device_use import (
    CudaCache,
    Devices,
    DeviceUse,
    HostCaches,
    cuda_cache_bytes,
    host_cache_bytes,
    refuse_without_caches,
)
from perfmagic.capture.bench.limit import HostRoom
from perfmagic.capture.bench.spec import BenchSpec, Notes, Plan, SampleSize
from perfmagic.capture.devices.backends import Backend
from perfmagic.capture.same_work.process import NOW_NS
from perfmagic.capture.same_work.watched import Observer
from perfmagic.capture.unawaited import refuse_unawaited
from perfmagic.trace.model import DeviceInfo
from perfmagic.trace.samples import Float64

if TYPE_CHECKING:
    from perfmagic.capture.bench.watchers import Watchers

# The loop around a body: which body runs now, and how often.

Repetition: TypeAlias = tuple[Any, ...]  # empty, as `for () in` binds no name; of a judged body: arguments, a place
ResultT = TypeVar("ResultT")
Phase: TypeAlias = Generator[Iterable[Repetition], int, ResultT]  # resumed with the clock's reading, in ns
Schedule: TypeAlias = Generator[tuple[int, Phase[None]], None, None]  # a body's number, and a phase of measuring it


GETPROFILE, GETTRACE, SETPROFILE, SETTRACE = sys.getprofile, sys.gettrace, sys.setprofile, sys.settrace


class BodyLoop:
    """Runs a schedule: several bodies, of which one runs at a time.

        while loop.more():
            for () in loop.repetitions(0):
                <body 0>
            for () in loop.repetitions(1):
                <body 1>

    schedule: one after the other, a body's number and the phase that it runs for.
    which: the body that runs now.  since_ns: when it was let run, by a real clock; 0 between two bodies.
    """

    def __init__(self, schedule: Schedule, clock_ns: Callable[[], int]) -> None:
        self._schedule, self._clock_ns = schedule, clock_ns
        self._phase: Phase[None] | None = None
        self._some: Iterable[Repetition] = ()
        self._ended_ns = 0  # when the last repetitions were used up, 0 until more are asked for
        self.which, self.since_ns = 0, 0

    def running_s(self) -> float:
        """For how long the body has run that runs now; 0 where none does. Any thread may ask."""
        return (NOW_NS() - since_ns) / 1e9 if (since_ns := self.since_ns) else 0.0

    def begin(self, which: int) -> None:
        """A body is let run."""
        self.which, self.since_ns = which, NOW_NS()

    def more(self) -> bool:
        """Go on to the next repetitions; False when the schedule has ended."""
        now_ns = self._clock_ns()
        ended_ns = self._ended_ns or now_ns
        self._ended_ns = self.since_ns = 0
        if self._phase is not None:
            with suppress(StopIteration):
                self._some = self._phase.send(ended_ns)
                self.begin(self.which)
                return True
        for which, phase in self._schedule:
            self.which, self._phase = which, phase
            with suppress(StopIteration):
                self._some = next(phase)
                self.begin(which)
                return True
        self._phase = None
        return False

    def repetitions(self, which: int) -> Iterable[Repetition]:
        """The repetitions of a body now; none while another body runs."""
        if which == self.which and self._some:
            some, self._some = self._some, ()
            return some
        if not self._some and not self._ended_ns:  # the body before this one has just ended
            self._ended_ns = self._clock_ns()
        return ()

    def close(self) -> None:
        """Leave the schedule where it is: the phase under way ends first, then the schedule. Harmless when repeated."""
        try:
            if self._phase is not None:
                self._phase.close()
        finally:
            self._schedule.close()


@dataclass
class Kept:
    """Where judged bodies leave what they gave.  forgives: makes of what they raise what is left there."""

    places: list[Any]
    with_arguments: bool = False
    forgives: Callable[[Exception], Any] | None = None
    hooked: set[int] = field(default_factory=set)  # bodies that left a trace or profile hook


def run(
    loop: BodyLoop, bodies: Sequence[Callable[..., object]], where: str = "bench", kept: Kept | None = None
) -> None:
    """Call the bodies as the loop says; the loop is closed however this ends.

    kept: of bodies that are judged; their repetitions may bring arguments and the place for the result. All calls are
    the same line of one frame: a body cannot tell one from another.
    Raises OptionError, in the name of `where`, where the first call of a body gives something to await.
    """
    if kept is not None:
        _run_judged(loop, bodies, where, kept)
        return
    uncalled = set(range(len(bodies)))
    try:
        while loop.more():
            body, which = bodies[loop.which], loop.which
            if which in uncalled:
                uncalled.remove(which)
                for () in loop.repetitions(which):
                    refuse_unawaited(where, body())
                continue
            for () in loop.repetitions(which):
                body()
    finally:
        loop.close()


def _run_judged(loop: BodyLoop, bodies: Sequence[Callable[..., object]], where: str, kept: Kept) -> None:
    uncalled, places = set(range(len(bodies))), kept.places
    try:
        while loop.more():
            body, which = bodies[loop.which], loop.which
            try:
                if kept.with_arguments:
                    for given, place in loop.repetitions(which):
                        places[place] = body(*given)
                else:
                    for () in loop.repetitions(which):
                        places[0] = body()
                # before the clock is read: what a hook does then is the body's work
                if (GETPROFILE() or GETTRACE()) is not None:
                    kept.hooked.add(which)
                SETPROFILE(None)
                SETTRACE(None)
            except Exception as error:
                if kept.forgives is None:
                    raise
                places[0] = kept.forgives(error)
            if which in uncalled:
                uncalled.remove(which)
                refuse_unawaited(where, places[0])
    finally:
        loop.close()


def drive(phase: Phase[None], clock_ns: Callable[[], int]) -> Iterator[Repetition]:
    """Every repetition that a phase yields, for a plain `for` loop; BodyLoop costs less for each."""
    with suppress(StopIteration):
        some = next(phase)
        while True:
            yield from some
            some = phase.send(clock_ns())


# Timing one sample of a body that other code runs.


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
    """Takes samples and counts how often the body ran.  spent_ns: what limits of time are compared with."""

    def __init__(self, clock_ns: Callable[[], int], devices: Devices) -> None:
        self.clock_ns, self.spent_ns = clock_ns, spent_reader(clock_ns)
        self._devices = devices
        self.items: Callable[[int], Sequence[Repetition]] | None = None  # of a judged body, for k calls
        self._handed_out = 0
        self._last: Iterator[Repetition] = repeat((), 0)

    @property
    def runs(self) -> int:
        """How often the body was started, also in the middle of a sample."""
        return self._handed_out - operator.length_hint(self._last)

    def repetitions(self, k: int) -> Iterator[Repetition]:
        """k repetitions of the body, counted."""
        self._last = repeat((), k) if self.items is None else iter(self.items(k))
        self._handed_out += k
        return self._last

    def sample(self, k: int = 1, untimed: int = 0, ready: Callable[[], None] | None = None) -> Phase[Reading]:
        """*returns* and *done* of k calls in a row, from one start.

        untimed: calls right before that start.  ready: called between the two; what it queues is waited for.
        """
        if untimed:
            yield self.repetitions(untimed)
        if ready is not None:
            ready()
            self._devices.synchronize()
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


# One sample of a body: what happens before it, outside the clock, and the reading.


class Sampler:
    """Takes samples of one body.

    on_sample: called before every sample, to show progress.  observer: of a judged body.
    """

    observer: Observer | None = None

    def __init__(
        self,
        spec: BenchSpec,
        devices: Devices,
        watch: Stopwatch,
        *,
        on_sample: Callable[[], None] | None,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self.spec, self.devices, self.watch = spec, devices, watch
        self.caches: HostCaches | CudaCache | None = None
        self._on_sample, self._rest, self._room = on_sample, rest, HostRoom()

    def make_cold(self, worked: Sequence[DeviceInfo]) -> None:
        """From now on every sample finds cold caches, where that is asked for.  worked: devices that the body uses."""
        if not self.spec.cold or self.caches is not None:
            return
        refuse_without_caches(worked, option(self.spec.magic, "cold", True))
        indices = [info.index for info in worked if info.kind in ("cuda", "rocm")]
        self.caches = CudaCache(torch_if_imported(), indices) if indices else HostCaches()

    def note_what_fits(self, notes: Notes, moved_bytes: float, *, device_works: bool) -> None:
        """Note where warm caches hold all that a call moves: its rate is then not that of memory."""
        if self.caches is not None or (device_works and any(info.simulated for info in self.devices.infos)):
            return
        torch: Any = torch_if_imported() if device_works and self.devices.cuda_indices() else None
        if torch is None:
            name, cache_bytes = HostCaches.name, host_cache_bytes()
        else:
            name, cache_bytes = CudaCache.name, cuda_cache_bytes(torch, torch.cuda.current_device())
        if moved_bytes <= cache_bytes:
            notes.note("fits in caches", bytes=moved_bytes, cache_bytes=cache_bytes, name=name)

    def before(self) -> None:
        """Garbage collected where due, inputs reset, rested, devices idle, caches cold."""
        if self.observer is not None:
            self.observer.before()
        if self._on_sample is not None:
            self._on_sample()
        quiet.collect_when_due()
        self._room.look()
        if self.spec.setup_each is not None:
            refuse_unawaited("setup_each", self.spec.setup_each())
        if self.spec.cooldown_s:
            self.devices.synchronize()
            self._rest(self.spec.cooldown_s)
        if self.caches is not None and self.observer is None:
            self.caches.overwrite()
        self.devices.synchronize()

    def _ready(self) -> None:
        """Of a judged body: its arguments get their values, and then the caches forget them."""
        assert self.observer is not None
        self.observer.ready()
        if self.caches is not None:
            self.devices.synchronize()  # what is queued on other streams would come after it
            self.caches.overwrite()

    def sample(self, k: int, *, untimed: int = 0, ready: Callable[[], None] | None = None) -> Phase[Reading]:
        """One sample of *returns* and *done* of k calls.

        untimed: calls right before it.  ready: called when all is prepared, outside the clock.
        """
        self.before()
        if ready is not None:
            ready()
        if self.observer is None:
            return (yield from self.watch.sample(k, untimed))
        reading = yield from self.watch.sample(k, untimed, self._ready)
        self.observer.after(k)
        return reading

    def span(self, backend: Backend, k: int, backlog_s: float) -> Phase[SpanReading]:
        """One sample of the device span of k calls; the caches are overwritten behind the backlog where it is cold."""
        self.before()
        caches = self.caches.overwrite if isinstance(self.caches, CudaCache) else None
        return (yield from self.watch.span(backend, k, backlog_s, behind=caches))


# What the loop around a body takes; it is subtracted from the samples.

AT_FIRST = 15  # measurements; an odd number, so that the median is one of them
CALLS_AT_FIRST = 255  # in all of them at least: a block of one call is as short as what disturbs it; 9 ms
MOST_CALLS = 6000  # of a block: 0.1 ms, in which the machine rarely changes its speed; the clock is 0.05 ns a call
EVERY = 16  # measurements, before their median is taken again


class EmptyLoop:
    """The loop and the two readings of the clock, for samples of k calls. Never counted as runs of a body.

    It is measured around a few ns of work, executed once and twice per iteration (2 × once - twice): an empty loop
    overestimates it by up to 1 ns, as each iteration then waits for the one before (benchmarks/bench_accuracy.py).
    again() repeats the measurement beside the samples: where the machine changes its speed, the loop does too.
    returns_ns, done_ns: a call, the medians.
    """

    def __init__(self, clock_ns: Callable[[], int], k: int) -> None:
        self._watch, self._k = Stopwatch(clock_ns, Devices(tuple)), min(k, MOST_CALLS)
        self._found: list[tuple[float, float]] = []  # returns and done a call, in ns
        self._measure(max(AT_FIRST, CALLS_AT_FIRST // k))

    def again(self) -> None:
        """One measurement more."""
        self._measure(1)

    def _measure(self, times: int) -> None:
        for _ in range(times):
            self._found.append(self._there_and_back())
        if times > 1 or len(self._found) % EVERY == 0:
            returns_ns, done_ns = zip(*self._found, strict=True)
            self.returns_ns = max(0.0, statistics.median_low(returns_ns))
            self.done_ns = max(self.returns_ns, statistics.median_low(done_ns))

    def _there_and_back(self) -> tuple[float, float]:
        """Once, twice, twice, once: what changes steadily cancels."""
        taken: list[Reading] = []
        for rounds in (_once, _twice, _twice, _once):
            rounds(BodyLoop((part for part in [(0, self._block(taken))]), self._watch.clock_ns))
        first, second, third, last = taken
        returns_ns = first.returns_ns + last.returns_ns - (second.returns_ns + third.returns_ns) / 2
        done_ns = first.done_ns + last.done_ns - (second.done_ns + third.done_ns) / 2
        return returns_ns / self._k, done_ns / self._k

    def _block(self, taken: list[Reading]) -> Phase[None]:
        taken.append((yield from self._watch.sample(self._k)))


def _once(loop: BodyLoop) -> None:
    while loop.more():
        for () in loop.repetitions(0):
            None is None


def _twice(loop: BodyLoop) -> None:
    while loop.more():
        for () in loop.repetitions(0):
            None is None
            None is None


# The samples of a benchmark, with the time of the loop around them subtracted.

LOOP_SEEN_FRAC = 1e-3  # of a sample: where the loop is a larger part, it is measured beside every sample


class SampleLog:
    """*returns* and *done* of every sample, in whole runs that each have an empty loop of their own.

    loop: of this run, subtracted from all its samples when they are asked for.
    run_starts: the number of the sample each run began with.
    """

    def __init__(self) -> None:
        self.loop: EmptyLoop | None = None
        self.run_starts: list[int] = []
        self._taken_ns: list[tuple[float, float]] = []  # of this run, a call, with the loop
        self._ended_s: list[Float64] = []  # of each run before, without it

    def end_run(self) -> None:
        """What comes from here on belongs to a run with another loop."""
        if self._taken_ns:
            self._ended_s, self._taken_ns = [*self._ended_s, self._without_loop(self._taken_ns)], []

    def begin_run(self) -> None:
        """The next sample is the first of a run."""
        self.run_starts.append(sum(map(len, self._ended_s)))

    def add(self, reading: Reading, calls: int) -> tuple[float, float]:
        """Add a sample of `calls` calls, and return its seconds per call. Measures the loop again where that shows."""
        self._taken_ns.append((reading.returns_ns / calls, reading.done_ns / calls))
        if self.loop is not None and calls > 1 and LOOP_SEEN_FRAC * reading.returns_ns < calls * self.loop.returns_ns:
            self.loop.again()
        returns_s, done_s = self._without_loop(self._taken_ns[-1:])[0].tolist()
        return returns_s, done_s

    @property
    def of_this_run(self) -> int:
        """How many samples this run has so far."""
        return len(self._taken_ns)

    def samples_s(self) -> Float64:
        """*returns* and *done* of all runs, in seconds a call, shape (samples, 2)."""
        return np.concatenate([*self._ended_s, self._without_loop(self._taken_ns)])

    @property
    def loop_ns(self) -> tuple[float, float]:
        """What the loop takes of *returns* and of *done*, a call."""
        return (self.loop.returns_ns, self.loop.done_ns) if self.loop is not None else (0.0, 0.0)

    def _without_loop(self, taken_ns: list[tuple[float, float]]) -> Float64:
        """In seconds; not below 0, and *done* not before *returns*, which subtracting two medians could make it."""
        left = np.maximum(np.array(taken_ns, np.float64).reshape(-1, 2) - self.loop_ns, 0.0) / 1e9
        return np.maximum.accumulate(left, axis=1)


# How fast the host is while samples are taken: a loop that is always the same, beside them.

ROUNDS = (
    1000  # 10 µs at 10 ns an iteration: long against the clock, and too short for the machine to change its speed in it
)
MOST_FRAC = 0.02  # of the time of the samples


class ReferenceLoop:
    """One reading a sample, for comparisons of benchmarks that are taken one after the other.

    Where the host is slower in one of them, so is this loop; a slower body leaves it alone. Where readings would take
    more than 2 % of the time, the one before counts again.  taken_ns: for ROUNDS iterations, in ns.
    """

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._budget_ns = 0.0
        self.taken_ns: list[int] = []

    def beside(self, sample_ns: int) -> None:
        """Take a reading beside a sample of this length."""
        self._budget_ns += MOST_FRAC * sample_ns
        # by the shortest: one that was interrupted must not be the last for a long time
        cost_ns = 2 * min(self.taken_ns, default=0)
        if self.taken_ns and self._budget_ns < cost_ns:
            self.taken_ns.append(self.taken_ns[-1])
            return
        self.taken_ns.append(min(self._once(), self._once()))  # of two, as an interruption of ms rarely meets both
        self._budget_ns = 0.0

    def _once(self) -> int:
        start_ns = self._clock_ns()
        for () in repeat((), ROUNDS):
            None is None
        return self._clock_ns() - start_ns


class Sampling:
    """Takes the samples of one body.

    log: what they took.  size: how many calls each has.  reference: how fast the host was beside each.
    stopped_by: in words, why there are no more; empty while there are.  probe_calls: made by probe().
    """

    def __init__(self, plan: Plan, sampler: Sampler, use: DeviceUse, watchers: Watchers) -> None:
        self.log = SampleLog()
        self.size = SampleSize()
        self.reference = ReferenceLoop(sampler.watch.clock_ns)
        self.stopped_by = ""
        self.probe_calls = 0
        self._plan, self._sampler, self._use, self._watchers = plan, sampler, use, watchers
        self._rule = plan.spec.rule()
        self._probes_s: list[float] = []

    def begin_run(self, call_s: float) -> None:
        """A whole run begins, with its own sample size and stopping rule.  call_s: how long a call seems to be."""
        self.resize(call_s)
        self.log.begin_run()
        if len(self.log.run_starts) > 1:
            self._rule = self._plan.spec.rule()
        self._watchers.begin_run()

    def until_enough(self) -> Phase[None]:
        """Samples until the stopping rule has enough."""
        spent_ns = self._sampler.watch.spent_ns
        from_ns = spent_ns()
        while not self.enough:
            yield from self.sample(lambda: (spent_ns() - from_ns) / 1e9)

    @property
    def enough(self) -> bool:
        """Whether the stopping rule has enough samples."""
        return self._rule.finished

    def sample(self, spent_s: Callable[[], float]) -> Phase[None]:
        """One sample.  spent_s: asked after it for how long samples have been taken, in seconds."""
        size = self.size
        ready = self._watchers.before_sample()
        reading = yield from self._sampler.sample(size.calls, untimed=size.untimed, ready=ready)
        self._watchers.after_sample(peak_watched=ready is not None)
        self.reference.beside(reading.done_ns)
        returns_s, done_s = self.log.add(reading, size.calls)
        self._watchers.read_clocks_when_due(self.log.of_this_run)
        self._rule.add((returns_s, done_s) if self._use.works else (returns_s,), spent_s())
        self.stopped_by = self._rule.reason

    def done_s(self) -> Float64:
        """The samples of *done*, or without a device of *returns*, in seconds a call."""
        return self.log.samples_s()[:, 1 if self._use.works else 0]

    def median_s(self) -> float:
        """Their median, 0 where this run has none yet."""
        return float(np.median(self.done_s())) if self.log.of_this_run else 0.0

    @property
    def fills_samples(self) -> bool:
        """Whether a sample has as many calls as it has room for."""
        return self._plan.fills_samples(device_works=self._use.works)

    def probe(self) -> Phase[None]:
        """One sample that does not count, to find out how long a call is."""
        reading = yield from self._sampler.sample(self.size.calls, untimed=self.size.untimed)
        self.probe_calls += self.size.calls
        self._probes_s.append(reading.done_ns / self.size.calls / 1e9)

    def probed_call_s(self) -> float:
        """The shortest of the probes, in seconds a call: on a busy machine most are interrupted."""
        return min(self._probes_s)

    def resize(self, call_s: float) -> None:
        """Samples are of the size for calls of this length from now on."""
        self._take_size(self._plan.sample_size(call_s, device_works=self._use.works))

    def limit_calls(self, most: int) -> None:
        """A sample has no more calls than this from now on."""
        if most < self.size.calls:
            self._take_size(SampleSize(most, self.size.untimed))

    def warm_by(self, least: int) -> None:
        """A sample has this many untimed calls before it at least, from now on."""
        if self.size.untimed < least:
            self._take_size(SampleSize(self.size.calls, least))

    def _take_size(self, size: SampleSize) -> None:
        loop = EmptyLoop(self._sampler.watch.clock_ns, size.calls)  # before both change: an interrupt keeps them a pair
        self.size, self.log.loop = size, loop
