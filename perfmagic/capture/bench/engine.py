"""The benchmark engine: a body that stays in its owner's frame, measured while a loop repeats it.

    engine = Engine(BenchSpec(), synced=True)
    loop = engine.loop()
    try:
        while loop.more():
            for () in loop.repetitions(0):
                <body>
    except BaseException as error:
        engine.failed(error)
        raise
    finally:
        engine.close()
        record = engine.record()

A plan says what is measured (perfmagic.capture.bench.spec), and phases measure it one after the other. A record holds
the samples. perfmagic.capture.bench.interleave runs several engines together.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from perfmagic.base.clock import is_repeatable, reader, virtual_clock
from perfmagic.base.errors import CaptureError
from perfmagic.base.language import counted, say
from perfmagic.base.numerics.stats import relative_half_width
from perfmagic.base.units import NBSP, duration_s, percent_known
from perfmagic.capture.bench.block import refuse_changed_clock
from perfmagic.capture.bench.device_passes import DevicePasses
from perfmagic.capture.bench.device_use import Devices, DeviceUse
from perfmagic.capture.bench.quiet import Quiet
from perfmagic.capture.bench.sampling import BodyLoop, Phase, Repetition, Sampler, Sampling, Stopwatch, drive
from perfmagic.capture.bench.spec import (
    AGREE_FRAC,
    CAP_S,
    MOST_CALLS,
    SAMPLE_S,
    BenchSpec,
    Host,
    Notes,
    Outcome,
    Plan,
    Recording,
    WarmUp,
    agree,
)
from perfmagic.capture.bench.watchers import Watchers
from perfmagic.capture.devices.backends import require_torch
from perfmagic.capture.devices.environment import environment
from perfmagic.trace.model import DeviceInfo
from perfmagic.trace.samples import SESSION, BenchRecord, Plain

# The calls before the samples of a benchmark: until two agree, then until they settle; how long a call seems to be.

FIRST_CALLS = 4  # compile, autotune and graph warm-up take 2 to 4
LONG_FIRST_S = 0.1  # a first call of this length is not made again only to find out how many calls make a sample
LONG_CALL_S = 0.5  # two such calls that agree are warm-up enough


class Warming:
    """Makes the calls before the samples, and knows what they took.

    first_s: of the first calls until two agreed.  calls: after those, in all runs.
    """

    def __init__(self, plan: Plan, sampler: Sampler, use: DeviceUse, notes: Notes) -> None:
        self.first_s: list[float] = []
        self.calls = 0
        self._plan, self._sampler, self._use, self._notes = plan, sampler, use, notes
        self._settling = WarmUp()
        self._from_ns = 0
        self._grown_call_s = 0.0

    def first(self, seconds: float) -> None:
        """Note how long the very first call took."""
        self.first_s.append(seconds)
        if seconds >= CAP_S and self._plan.spec.warmup is None:
            self._notes.note("long first call", seconds=seconds)

    def run(self, *, again: bool) -> Phase[None]:
        """As many calls as are asked for, or until they settle.  again: in a whole run that is not the first."""
        self._settling, self._from_ns = WarmUp(), self._sampler.watch.spent_ns()
        asked = self._plan.spec.warmup
        if asked is None and is_repeatable():
            return  # all calls of a kind take the same there
        if asked is not None:
            for _ in range(asked):
                yield from self._block(1)
            yield from self._grow_blocks()
        elif self.first_s[0] < CAP_S:
            if not again:
                yield from self._more_first_calls()
            yield from self._settle()

    def call_s(self) -> float:
        """How long a call seems to be, in seconds."""
        return self._grown_call_s or self._settling.typical_s() or self.first_s[0]

    def _more_first_calls(self) -> Phase[None]:
        """Until two successive calls agree: they alone may tell what a call costs, the first never does."""
        while len(self.first_s) < FIRST_CALLS and not self._first_calls_agree():
            reading = yield from self._sampler.sample(1)
            self.first_s.append(reading.done_ns / 1e9)
            self._settling.add(self.first_s[-1], self._spent_s())

    def _first_calls_agree(self) -> bool:
        return len(self.first_s) > 1 and agree(self.first_s[-2], self.first_s[-1], AGREE_FRAC)

    def _settle(self) -> Phase[None]:
        if self._first_calls_agree() and self.first_s[-1] >= LONG_CALL_S:
            return
        k = 1
        while not self._settling.finished:
            block_ns = yield from self._block(k)
            if block_ns < SAMPLE_S * 1e9 and self._several_calls():
                k *= 2
        if not self._settling.settled:
            self._notes.note("did not settle", seconds=round(self._settling.spent_s, 1))

    def _block(self, k: int) -> Phase[int]:
        """Make k calls and return the time of all, in ns."""
        reading = yield from self._sampler.sample(k)
        self.calls += k
        self._settling.add(reading.done_ns / k / 1e9, self._spent_s())
        return reading.done_ns

    def _grow_blocks(self) -> Phase[None]:
        """Blocks that grow to the length of a sample where few calls or none came before: the first says little."""
        long = self.first_s[0] >= LONG_FIRST_S
        if self._plan.spec.calls is not None or not self._several_calls() or long:
            return
        k, block_ns = 1, 0
        while block_ns < SAMPLE_S * 1e9 / 2 and k <= MOST_CALLS:
            block_ns = (yield from self._sampler.sample(k)).done_ns
            self._grown_call_s = block_ns / k / 1e9
            k *= 10

    def _several_calls(self) -> bool:
        return self._plan.several_calls(device_works=self._use.works)

    def _spent_s(self) -> float:
        return (self._sampler.watch.spent_ns() - self._from_ns) / 1e9


# How a body is measured: first call, warm-up, samples, device passes, in this order.


class Phases:
    """Measures one body, phase by phase; what was taken stays with the part that took it.

    on_sample: called before every sample.
    """

    def __init__(self, plan: Plan, host: Host, *, on_sample: Callable[[], None] | None = None) -> None:
        self.plan, self.host = plan, host
        self._reader = reader()  # that of the host, unless a test brings its own
        self.notes, self.outcome = Notes(), Outcome()
        self.use = DeviceUse(Devices(host.backends))
        watch = Stopwatch(host.clock_ns, self.use.devices)
        self.sampler = Sampler(plan.spec, self.use.devices, watch, on_sample=on_sample, rest=host.rest)
        self.watchers = Watchers(plan.spec, self.use, host.clocks, self.notes)
        self.warming = Warming(plan, self.sampler, self.use, self.notes)
        self.sampling = Sampling(plan, self.sampler, self.use, self.watchers)
        self.passes = DevicePasses(self.sampler, plan.profile, self.notes)

    def after_first_call(self) -> Phase[None]:
        """Everything after the first call, of a body that is measured by itself."""
        for _ in range(self.plan.spec.runs):
            yield from self.warm_up()
            yield from self.sampling.until_enough()
            self.end_samples()
        yield from self.device_passes()

    def first_call(self, round_id: str = "") -> Phase[None]:
        """The first call, whose output is seen.  round_id: of the benchmarks that this one is interleaved with."""
        self.outcome.begin(round_id)
        self.watchers.interleaved = bool(round_id)
        # devices idle, set-up code run; an older error of a device is not this body's
        if not is_repeatable() and (load := self.host.load()) > 0:
            self.notes.note("load", load=load, cores=os.cpu_count() or 1)
        self.use.devices.refresh()
        try:
            self.use.devices.synchronize()
        except Exception as error:
            raise CaptureError(
                f"work queued before this cell failed: {error}",
                hint="check the cells run before; after a CUDA error, the kernel usually needs a restart",
            ) from error
        if self.plan.setup is not None:
            self.plan.setup()
        yield from self._time_first_call()
        self._check_clock()
        work = self.outcome.work = self.plan.spec.asked_work()
        if work.bytes is not None:
            self.sampler.note_what_fits(self.notes, work.bytes, device_works=self.use.works)

    def _check_clock(self) -> None:
        """Raise CaptureError for a body that changed the clock, or that takes no virtual time; note a virtual clock."""
        refuse_changed_clock(self._reader)
        clock = virtual_clock()
        paces = [info.pace for info in self.use.worked if info.virtual]
        if clock is None or (clock.measured and not paces):
            return
        if not paces:
            raise CaptureError(
                "on a virtual clock only the simulated device's work takes time, and this code gave it none",
                hint='perfmagic.device(clock="real") first, or %timeit',
            )
        self.notes.note("virtual clock", pace=paces[0])
        if clock.measured:
            self.notes.note("measured host")

    def warm_up(self) -> Phase[None]:
        """Calls until they settle; how many of them make a sample is known then."""
        self.sampling.log.end_run()
        yield from self.warming.run(again=bool(self.sampling.log.run_starts))
        self.use.look_again()
        self.sampling.begin_run(self.warming.call_s())

    def end_samples(self, stopped_by: str = "") -> None:
        """Note what is odd about the samples of a run.  stopped_by: what ended them, where it was not their rule."""
        refuse_changed_clock(self._reader)
        sampling = self.sampling
        sampling.stopped_by = stopped_by or sampling.stopped_by
        if self.plan.synced and self.use.idle:
            self.notes.note("idle device", device=self.use.devices.infos[0].label)
        elif self.plan.synced and not self.use.works:
            self.notes.note("no device")
        calls = sampling.log.of_this_run * (sampling.size.calls + sampling.size.untimed)
        self.watchers.end_run(first_s=self.warming.first_s[0], median_s=sampling.median_s(), calls=calls)

    def device_passes(self) -> Phase[None]:
        """Calls in a row where asked for, the device span, the recorded run."""
        if self.use.works and self.plan.spec.calls is not None and self.plan.spec.calls > 1:
            yield from self.passes.take_queued(self.plan.spec.calls, self.use.launches)
        if self.use.works and self.plan.synced:
            returns_s, done_s = np.median(self.sampling.log.samples_s(), axis=0).tolist()
            yield from self.passes.take_spans(returns_s, done_s)
            yield from self.passes.take_recorded(done_s)
        self.outcome.complete = True

    def _time_first_call(self) -> Phase[None]:
        clock_ns = self.host.clock_ns
        self.sampler.before()
        self.watchers.before_first_call()
        self.use.before_first_call()
        if (observer := self.sampler.observer) is not None:
            observer.ready()
        start_ns = clock_ns()
        yield self.sampler.watch.repetitions(1)
        self.use.after_first_call()
        self.use.devices.synchronize()
        self.warming.first((clock_ns() - start_ns) / 1e9)
        if observer is not None:
            observer.after(1)
        self.watchers.after_first_call()
        self.sampler.make_cold(self.use.worked if self.use.works else ())


# What was measured of a body: its raw record, and a line that shows progress.


def bench_record(phases: Phases) -> BenchRecord:
    """What was measured so far: complete samples only, empty arrays where there are none."""
    plan, outcome, passes = phases.plan, phases.outcome, phases.passes
    sampling, warming, watchers = phases.sampling, phases.warming, phases.watchers
    works, caches, clocks = phases.use.works, phases.sampler.caches, watchers.clocks
    samples, starts = sampling.log.samples_s(), sampling.log.run_starts
    return BenchRecord(
        name=plan.spec.name,
        synced=plan.synced,
        returns_s=samples[:, 0],
        done_s=samples[:, 1] if works else np.empty(0, np.float64),
        span_s=np.array(passes.spans, np.float64),
        first_calls_s=np.array(warming.first_s, np.float64),
        warmup_calls=warming.calls + sampling.probe_calls,
        body_runs=phases.sampler.watch.runs,
        loop_overhead_s=sampling.log.loop_ns[0] / 1e9,
        span_calls_per_sample=passes.span_calls,
        stopped_by=f"ended early: {outcome.failed}" if outcome.failed else sampling.stopped_by,
        devices=_devices(phases) if works else (),
        trace=passes.trace,
        failed=outcome.failed,
        conditions=tuple(phases.notes.conditions),
        code=plan.spec.code,
        magic=plan.spec.magic,
        warmed_up=warming.calls > 0 or len(warming.first_s) > 1 or is_repeatable(),
        setup=plan.spec.setup,
        taken_unix_ns=outcome.taken_unix_ns,
        session=SESSION,
        calls_per_sample=sampling.size.calls,
        round_id=outcome.round_id,
        queued_s=np.array(passes.queued, np.float64),
        queued_calls=passes.queued_calls,
        run_starts=tuple(starts) if len(starts) > 1 else (),
        reference_s=tuple(ns / 1e9 for ns in sampling.reference.taken_ns),
        cold_bytes=caches.size_bytes if caches is not None else 0,
        cold_of=caches.name if caches is not None else "",
        flop=outcome.work.flops,
        moved_bytes=outcome.work.bytes,
        held_bytes=watchers.peak.held_bytes,
        peak_bytes=watchers.peak.peak_bytes,
        clocks=clocks.records() if clocks is not None else (),
        settings=plan.spec.settings(),
        checks=phases.outcome.checks,
        environment=environment() | ({"driver": clocks.driver} if clocks is not None else {}),
    )


def _devices(phases: Phases) -> tuple[DeviceInfo, ...]:
    """Those that worked; with what the recorded run says of their pace."""
    trace = phases.passes.trace
    recorded = {(info.kind, info.index): info for info in (trace.meta.devices if trace is not None else ())}
    return tuple(recorded.get((info.kind, info.index), info) for info in phases.use.worked)


def describe_progress(phases: Phases) -> str:
    """How far the benchmark has come."""
    first_s, sampling = phases.warming.first_s, phases.sampling
    if not first_s:
        return say("first call")
    if not sampling.log.of_this_run:
        return say("first call {time}, warming up", time=duration_s(first_s[0]))
    done = sampling.done_s()
    known = relative_half_width(done)
    interval = f" ±{NBSP}{percent_known(known)}" if math.isfinite(known) else ""
    samples, median = counted(len(done), "{n} sample", "{n} samples"), duration_s(sampling.median_s()) + interval
    return say("{samples}, median {median}", samples=samples, median=median)


class Engine:
    """Measures one body once, and owns what the measurement takes from the process until close().

    synced, setup, profile: see spec.Plan.  host: the clock and devices; a test brings its own.
    on_sample: called before every sample with a function that says in words how far the benchmark has come.
    """

    def __init__(
        self,
        spec: BenchSpec,
        *,
        synced: bool,
        setup: Callable[[], object] | None = None,
        profile: Callable[[], Recording] | None = None,
        on_sample: Callable[[Callable[[], str]], None] | None = None,
        host: Host | None = None,
    ) -> None:
        heard = None if on_sample is None else lambda: on_sample(partial(describe_progress, self.phases))
        self.phases: Phases = Phases(Plan(spec, synced, setup, profile), host or Host(), on_sample=heard)
        self._quiet = Quiet()
        self._running: Phase[None] | None = None

    def __enter__(self) -> Engine:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def loop(self) -> BodyLoop:
        """Repeats the body until everything is measured; its first output is let through, later ones are dropped."""
        return BodyLoop((part for part in [(0, self._run())]), self.phases.host.clock_ns)

    def calls(self) -> Iterator[Repetition]:
        """The same for a plain `for` loop, which costs more for each repetition."""
        return drive(self._run(), self.phases.host.clock_ns)

    def _run(self) -> Phase[None]:
        if self._running is not None:
            raise CaptureError("this benchmark has been run already", hint="make a new Engine for another run")
        self._running = self._whole()
        return self._running

    def _whole(self) -> Phase[None]:
        try:
            self._quiet.begin()
            yield from self.phases.first_call()
            self._quiet.mute()
            yield from self.phases.after_first_call()
        finally:
            self._quiet.end()

    def failed(self, error: BaseException, within: str = "") -> None:
        """Say what ended the body early; what was measured before is kept.

        within: the name of the body that raised, where several are interleaved.
        """
        self.phases.outcome.fail(error, within)

    def note(self, kind: str, **values: Plain) -> None:
        """Note a condition that the engine's owner knows of."""
        self.phases.notes.note(kind, **values)

    def close(self) -> None:
        """End a recording under way and put back gc, hooks and output; harmless when all is over, and when repeated."""
        try:
            if self._running is not None:
                self._running.close()
            self.phases.passes.abandon()
        finally:
            self._quiet.end()

    @property
    def has_samples(self) -> bool:
        """Whether any sample has been taken."""
        return len(self.phases.sampling.done_s()) > 0

    def record(self) -> BenchRecord:
        """What was measured so far."""
        return bench_record(self.phases)


# A result as a torch.utils.benchmark.Measurement, for torch's own tables (Compare) and fuzzers.


def measurement(
    samples_s: Sequence[float], *, calls_per_sample: int, code: str, setup: str, label: str, description: str
) -> Any:
    """The Measurement that holds these samples.

    samples_s: seconds a call; torch keeps seconds a sample, so they are multiplied by calls_per_sample again.
    Raises TorchMissingError without torch.
    """
    torch = require_torch("a Measurement")
    from torch.utils.benchmark import Measurement
    from torch.utils.benchmark.utils.common import TaskSpec

    lines = [line.strip() for line in code.splitlines() if line.strip() and not line.startswith("%%")]
    task = TaskSpec(
        stmt=code or "pass",
        setup=setup or "pass",
        label=label,
        sub_label=(f"{lines[0]} …" if len(lines) > 1 else lines[0]) if lines else "a function",  # torch's row, one line
        description=description,  # its column: Compare fails without one, and pools what has the same
        num_threads=torch.get_num_threads(),
    )
    return Measurement(calls_per_sample, [s * calls_per_sample for s in samples_s], task)
