"""The benchmark engine: a body that runs in its owner's frame, timed between the steps of a loop.

    engine = Engine(BenchSpec(), synced=True)
    try:
        for () in engine.calls():
            <body>
    except BaseException as error:
        engine.failed(error)
        raise
    finally:
        engine.close()
        record = engine.record()

A measurement reads as the phases of `Engine._phases`. Source of all quantities and figures: MEASURING.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from perfmagic.capture import quiet
from perfmagic.capture.device import Backend, active_backends
from perfmagic.capture.stopping import AGREE_FRAC, CAP_S, StoppingRule, WarmUp, agree
from perfmagic.capture.stopwatch import Devices, Reading, SpanReading, Step, Steps, Stopwatch, drive
from perfmagic.errors import CaptureError, OptionError, PerfmagicError
from perfmagic.trace.model import Trace
from perfmagic.trace.samples import BenchRecord, Float64
from perfmagic.units import duration_s

FIRST_CALLS = 4  # compile, autotune and graph warm-up take 2 to 4
LONG_CALL_S = 0.5  # two such calls that agree are warm-up enough
SHORT_CALL_S = 10e-6  # below it the 0.1 µs of loop and clock are over 1 %: many calls a sample, without a device
BLOCK_S = 1e-3  # length of such a sample
SHORTEST_CALL_S = 10e-9  # an empty body with its loop; bounds the calls of a sample
SPAN_BLOCK_S = 50e-6  # event resolution is about 0.5 µs
SPAN_MOST_CALLS = 50
SPAN_LAUNCHES = 500  # behind one backlog; a stream holds about 1000
FASTEST_LAUNCH_S = 2e-6  # no launch takes the host less, so returns / 2 µs bounds their number
BACKLOG_FACTOR = 1.5
BACKLOG_CAP_S = 0.05
PROFILED_RUNS = 5  # at most, for one that is not disturbed
DISTURBED = 1.25  # a recorded run this many times the median of done does not stand for the samples


class Recording(Protocol):
    """One profiled run: perfmagic.capture.profiler.Recorder."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> Trace:
        """Wait for the devices and give what was recorded."""


@dataclass(frozen=True)
class BenchSpec:
    """How a benchmark is to be taken.

    samples: take exactly so many, None to let the stopping rule decide.  min_samples, max_samples: bounds of that
    rule; None for 20 below 50 ms a call, 10 below 0.5 s, 3 above.  time_s: how long to sample; 10 s or this is the cap.
    rel: half-width of the median's 95 % interval to stop at, as a share.  warmup: False for no calls before the samples
    but the first.  setup_each: runs before each sample, outside the clock.  name, code, options: kept with the result.
    Raises OptionError for a value that cannot be used.
    """

    samples: int | None = None
    min_samples: int | None = None
    max_samples: int = 10_000
    time_s: float = 2.0
    rel: float = 0.01
    warmup: bool = True
    setup_each: Callable[[], object] | None = None
    name: str = ""
    code: str = ""
    options: str = ""

    def __post_init__(self) -> None:
        for option, value in (
            ("-n", self.samples),
            ("min_samples", self.min_samples),
            ("max_samples", self.max_samples),
        ):
            if value is not None and value < 1:
                raise OptionError(f"{option} {value}: at least one sample is needed")
        if not 0 < self.time_s < math.inf:
            raise OptionError(f"--time {self.time_s:g}: a time above 0 s is needed")
        if not 0 < self.rel < 1:
            raise OptionError(f"--rel {self.rel:g}: a share between 0 and 1 is needed, 0.01 for 1 %")

    def rule(self) -> StoppingRule:
        """A fresh stopping rule."""
        return StoppingRule(
            wanted=self.samples, fewest=self.min_samples, most=self.max_samples, rel=self.rel, time_s=self.time_s
        )


class Engine:
    """Measures the body of the loop over `calls()`.

    synced: also take the device span and, where profile is given, one recorded run for the verdict.
    setup: runs once, before the first call.  profile: makes a Recording.
    clock_ns, backends, load: the machine; a test brings its own.
    """

    def __init__(
        self,
        spec: BenchSpec,
        *,
        synced: bool,
        setup: Callable[[], object] | None = None,
        profile: Callable[[], Recording] | None = None,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        backends: Callable[[], tuple[Backend, ...]] = active_backends,
        load: Callable[[], str] = quiet.other_load,
    ) -> None:
        self._spec, self._synced, self._setup, self._profile, self._load = spec, synced, setup, profile, load
        self._devices = Devices(backends)
        self._watch = Stopwatch(clock_ns, self._devices)
        self._clock_ns = clock_ns
        self._running: Steps[None] | None = None
        self._first_s: list[float] = []
        self._warm = WarmUp()
        self._warm_from_ns = 0
        self._warmup_calls = 0
        self._k = 1
        self._overhead_ns = 0
        self._samples: list[tuple[float, float]] = []
        self._span_k = 0
        self._spans: list[float] = []
        self._trace: Trace | None = None
        self._stopped_by = ""
        self._failed = ""
        self._warnings: list[str] = []
        self._taken_unix_ns = 0
        self._rule = spec.rule()
        self._round_id = ""
        self._idle = False  # the body queued nothing on the devices there are

    def calls(self) -> Iterator[Step]:
        """One step for every run of the body; the body's first output is let through, later ones are dropped."""
        if self._running is not None:
            raise CaptureError("this benchmark has been run already", hint="make a new Engine for another run")
        self._running = self._phases()
        return drive(self._running)

    def failed(self, error: BaseException) -> None:
        """Say what ended the body early; what was measured before is kept."""
        words = str(error).strip().splitlines()
        name = type(error).__name__
        self._failed = "interrupted" if isinstance(error, KeyboardInterrupt) else ": ".join([name, *words[:1]])

    def close(self) -> None:
        """Put back gc, hooks and output where the loop was left early; harmless otherwise, and when called twice."""
        if self._running is not None:
            self._running.close()

    def record(self) -> BenchRecord:
        """What was measured so far: complete samples only, empty arrays where there are none."""
        has_device = self._has_device()
        return BenchRecord(
            name=self._spec.name,
            synced=self._synced,
            returns_s=np.array([returns for returns, _ in self._samples], np.float64),
            done_s=np.array([done for _, done in self._samples if has_device], np.float64),
            span_s=np.array(self._spans, np.float64),
            first_calls_s=np.array(self._first_s, np.float64),
            warmup_calls=self._warmup_calls,
            body_runs=self._watch.runs,
            loop_overhead_s=self._overhead_ns / self._k / 1e9,
            span_calls_per_sample=self._span_k,
            stopped_by=f"ended early: {self._failed}" if self._failed else self._stopped_by,
            devices=self._devices.infos if has_device else (),
            trace=self._trace,
            failed=self._failed,
            warnings=tuple(self._warnings),
            code=self._spec.code,
            options=self._spec.options,
            taken_unix_ns=self._taken_unix_ns,
            calls_per_sample=self._k,
            round_id=self._round_id,
        )

    def ready(self, round_id: str = "") -> Steps[None]:
        """Everything before the first sample, for samples that are then taken one by one (take).

        round_id: of the benchmarks that take turns with this one.
        """
        self._round_id = round_id
        self._prepare()
        yield from self._first_call()
        with quiet.muted():
            if self._spec.warmup and self._first_s[0] < CAP_S:
                yield from self._more_first_calls()
                yield from self._warm_up()
        self._k = self._calls_per_sample()
        self._overhead_ns = self._watch.overhead_ns(self._k)

    def take(self, spent_s: Callable[[], float]) -> Steps[None]:
        """One sample. spent_s: asked after it, how long has been sampled so far."""
        k = self._k
        reading = yield from self._sample(k)
        returns_s = max(0, reading.returns_ns - self._overhead_ns) / k / 1e9
        done_s = max(0, reading.done_ns - self._overhead_ns) / k / 1e9
        self._samples.append((returns_s, done_s))
        self._rule.add((returns_s, done_s) if self._has_device() else (returns_s,), spent_s())
        self._stopped_by = self._rule.reason

    @property
    def finished(self) -> bool:
        """Whether the stopping rule has enough samples."""
        return self._rule.finished

    def _phases(self) -> Steps[None]:
        with quiet.undisturbed():
            yield from self.ready()
            with quiet.muted():
                yield from self._take_samples()
                if self._synced and self._has_device():
                    yield from self._take_spans()
                    yield from self._profile_runs()

    def _prepare(self) -> None:
        self._taken_unix_ns = time.time_ns()
        self._warn(self._load())
        self._devices.refresh()
        try:
            self._devices.synchronize()
        except Exception as error:
            raise CaptureError(
                f"an error of work that was queued earlier came up, not from this cell: {error}",
                hint="look at the cells run before; after a CUDA error the kernel usually has to be restarted",
            ) from error
        if self._setup is not None:
            self._setup()

    def _first_call(self) -> Steps[None]:
        self._before_sample()
        queued = self._devices.progress()
        start_ns = self._clock_ns()
        yield self._watch.steps(1)
        self._devices.refresh()  # the body may have imported torch or started a device
        self._idle = queued is not None and self._devices.progress() == queued
        self._devices.synchronize()
        self._first_s.append((self._clock_ns() - start_ns) / 1e9)
        self._warm_from_ns = self._clock_ns()
        if self._first_s[0] >= CAP_S:
            self._warn(f"the first call took {duration_s(self._first_s[0])}: no warm-up")
        if any(b.kind in ("cuda", "rocm") for b in self._devices.backends) and _profiled_before():
            self._warn("a profile was taken earlier in this process: launches may be 10 to 20 % slower until a restart")

    def _more_first_calls(self) -> Steps[None]:
        """Until two successive calls agree: they alone may tell what a call costs, the first never does."""
        while len(self._first_s) < FIRST_CALLS and not self._first_calls_agree():
            reading = yield from self._sample(1)
            self._first_s.append(reading.done_ns / 1e9)
            self._warm.add(self._first_s[-1], self._since_s(self._warm_from_ns))

    def _first_calls_agree(self) -> bool:
        return len(self._first_s) > 1 and agree(self._first_s[-2], self._first_s[-1], AGREE_FRAC)

    def _warm_up(self) -> Steps[None]:
        if self._first_calls_agree() and self._first_s[-1] >= LONG_CALL_S:
            return
        k = 1
        while not self._warm.finished:
            reading = yield from self._sample(k)
            self._warmup_calls += k
            self._warm.add(reading.done_ns / k / 1e9, self._since_s(self._warm_from_ns))
            if reading.done_ns < BLOCK_S * 1e9 and self._may_take_many():
                k *= 2
        self._devices.refresh()
        if not self._warm.settled:
            self._warn(f"did not settle within {duration_s(self._warm.spent_s)} of warm-up: later calls may differ too")

    def _take_samples(self) -> Steps[None]:
        from_ns = self._clock_ns()
        while not self._rule.finished:
            yield from self.take(lambda: self._since_s(from_ns))
        self.done_sampling()

    def done_so_far(self) -> Float64:
        """The samples of *done*, or without a device of *returns*, in seconds a call."""
        return np.array([done for _, done in self._samples], np.float64)

    def done_sampling(self, stopped_by: str = "") -> None:
        """Say what is odd about the samples.  stopped_by: what ended them, where it was not the rule."""
        self._stopped_by = stopped_by or self._stopped_by
        has_device = self._has_device()
        if self._idle:
            self._warn(f"nothing was queued on the {self._devices.infos[0].label}")
        elif self._synced and not has_device:
            self._warn("no device was in use: done equals returns")

    def _calls_per_sample(self) -> int:
        call_s = self._warm.typical_s() or self._first_s[0]
        if call_s >= SHORT_CALL_S or not self._may_take_many():
            return 1
        return math.ceil(BLOCK_S / max(call_s, SHORTEST_CALL_S))

    def _may_take_many(self) -> bool:
        """Several calls a sample only where nothing queues up and nothing has to be set up in between."""
        return not self._has_device() and self._spec.setup_each is None

    def _take_spans(self) -> Steps[None]:
        backend = self._devices.with_events()
        if backend is None:
            self._warn(f"no device records on {self._devices.backends[0].kind}: no device span")
            return
        returns_s, done_s = np.median(self._samples, axis=0).tolist()
        alone = yield from self._span(backend, 1, returns_s)
        k = self._span_k = self._calls_per_span(returns_s, alone.span_ns / 1e9)
        rule = self._spec.rule()
        outlasted = 0
        from_ns = self._clock_ns()
        while not rule.finished:
            reading = yield from self._span(backend, k, returns_s)
            self._spans.append(reading.span_ns / k / 1e9)
            outlasted += reading.host_ns > _backlog_s(returns_s, k) * 1e9
            rule.add((self._spans[-1],), self._since_s(from_ns))
        if not alone.queued:
            self._warn("nothing could keep the queue full: device span includes launch gaps")
        elif 2 * outlasted > len(self._spans):
            self._warn(_outlasted_warning(returns_s, done_s, k))

    def _calls_per_span(self, returns_s: float, span_s: float) -> int:
        if self._spec.setup_each is not None:
            return 1
        long_enough = math.ceil(SPAN_BLOCK_S / max(span_s, 1e-9))
        few_launches = int(SPAN_LAUNCHES * FASTEST_LAUNCH_S / max(returns_s, 1e-9))
        return max(1, min(long_enough, few_launches, SPAN_MOST_CALLS))

    def _profile_runs(self) -> Steps[None]:
        """A recorded run for the verdict, the last of all: profiling slows what comes after it.

        One run is easily disturbed (a descheduled thread, a first use of the recorder). While it takes longer than
        DISTURBED times the median of *done* it is repeated; the shortest is kept.
        """
        for _ in range(PROFILED_RUNS):
            kept = self._trace
            yield from self._profile_once()
            if kept is not None and (self._trace is None or _window_s(kept) <= _window_s(self._trace)):
                self._trace = kept
            if self._trace is None or _window_s(self._trace) <= DISTURBED * self._median_done_s():
                return

    def _median_done_s(self) -> float:
        return float(np.median([done for _, done in self._samples])) if self._samples else math.inf

    def _profile_once(self) -> Steps[None]:
        if self._profile is None:
            return
        self._before_sample()
        recording = self._profile()
        try:
            recording.start()
        except CaptureError as error:
            self._warn(f"no verdict: {error.message}")
            return
        finished = False
        try:
            yield self._watch.steps(1)
            finished = True
        finally:
            trace = self._stop(recording)
            self._trace = trace if finished else None

    def _stop(self, recording: Recording) -> Trace | None:
        """End a recording; where that fails the numbers taken before are worth more than the verdict."""
        try:
            return recording.stop()
        except (PerfmagicError, RuntimeError) as error:
            self._warn(f"no verdict: {error}")
            return None

    def _sample(self, k: int) -> Steps[Reading]:
        self._before_sample()
        return (yield from self._watch.sample(k))

    def _span(self, backend: Backend, k: int, returns_s: float) -> Steps[SpanReading]:
        self._before_sample()
        return (yield from self._watch.span(backend, k, _backlog_s(returns_s, k)))

    def _before_sample(self) -> None:
        """Outside the clock: garbage collected where due, the body's inputs reset, devices idle."""
        quiet.collect_when_due()
        if self._spec.setup_each is not None:
            self._spec.setup_each()
        self._devices.synchronize()

    def _has_device(self) -> bool:
        return bool(self._devices.backends) and not self._idle

    def _since_s(self, from_ns: int) -> float:
        return (self._clock_ns() - from_ns) / 1e9

    def _warn(self, words: str) -> None:
        if words and words not in self._warnings:
            self._warnings.append(words)


def _backlog_s(returns_s: float, k: int) -> float:
    return min(BACKLOG_FACTOR * returns_s * k, BACKLOG_CAP_S)


def _outlasted_warning(returns_s: float, done_s: float, k: int) -> str:
    """Why the backlog was over before the calls were queued, in most samples."""
    if BACKLOG_FACTOR * returns_s * k > BACKLOG_CAP_S:
        return (
            f"Python needs {duration_s(returns_s * k)}, longer than a backlog may be: device span includes launch gaps"
        )
    if returns_s > done_s / 2:  # a cell that waits for its own work comes back about when the device is done
        return "the cell synchronises: device span includes waiting"
    return "Python was slower than in the first pass: device span includes launch gaps"


def _window_s(trace: Trace) -> float:
    return (trace.meta.end_ns - trace.meta.start_ns) / 1e9


def _profiled_before() -> bool:
    from perfmagic.capture.session import profiled_before  # needs torch, which a CUDA device has brought

    return profiled_before()
