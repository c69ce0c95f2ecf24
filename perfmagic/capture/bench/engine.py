"""The benchmark engine: a body that runs in its owner's frame, timed between the steps of a loop.

    engine = Engine(BenchSpec(), synced=True)
    turns = engine.turns()
    try:
        while turns.turn():
            for () in turns.steps(0):
                <body>
    except BaseException as error:
        engine.failed(error)
        raise
    finally:
        engine.close()
        record = engine.record()

A measurement reads as the phases of `Engine._phases`; several engines that take turns are driven phase by phase
(perfmagic.capture.bench.interleave). Source of all quantities and figures: docs/measuring.md.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator

import numpy as np

from perfmagic.capture.bench import quiet
from perfmagic.capture.bench.clocks import Clocks, clocks_of
from perfmagic.capture.bench.device_passes import DevicePasses, Recording
from perfmagic.capture.bench.empty_loop import EmptyLoop
from perfmagic.capture.bench.growth import Growth
from perfmagic.capture.bench.reference_loop import ReferenceLoop
from perfmagic.capture.bench.sample_log import SampleLog
from perfmagic.capture.bench.sampler import Sampler
from perfmagic.capture.bench.side_effects import SideEffects
from perfmagic.capture.bench.spec import BenchSpec, Work
from perfmagic.capture.bench.stopwatch import Devices, Step, Steps, Stopwatch, Turns, drive
from perfmagic.capture.bench.warming import SHORTEST_CALL_S, Warming, calls_of_block
from perfmagic.capture.devices.backends import Backend, active_backends, torch_if_imported
from perfmagic.capture.devices.environment import environment
from perfmagic.capture.devices.profiled import profiled_before
from perfmagic.errors import CaptureError
from perfmagic.numerics.stats import relative_half_width
from perfmagic.samples import SESSION, BenchRecord, Float64, Plain
from perfmagic.units import NBSP, duration_s, plural, significant

__all__ = ["BenchSpec", "Engine", "Recording", "Work"]

# What runs between two samples takes the caches from the body: a sample lasted up to 30 µs longer for it, and some 5 µs
# after one call (benchmarks/bench_accuracy.py). So host work runs before the clock starts: so long, one call at least.
UNTIMED_S = 0.2e-3
UNTIMED_BELOW_S = 10e-3  # longer calls lose less than 0.3 %
READ_CLOCKS_EVERY = 16  # samples, as the stopping rule looks


class Engine:
    """Measures the body of the loop over `turns()`, or over `calls()`.

    synced: also take the device span and, where profile is given, one recorded run for the verdict.
    setup: runs once, before the first call.  profile: makes a Recording.
    told: called before every sample with what says in words how far it has come.
    clock_ns, backends, load, rest, clocks: the machine; a test brings its own.
    """

    def __init__(
        self,
        spec: BenchSpec,
        *,
        synced: bool,
        setup: Callable[[], object] | None = None,
        profile: Callable[[], Recording] | None = None,
        told: Callable[[Callable[[], str]], None] | None = None,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        backends: Callable[[], tuple[Backend, ...]] = active_backends,
        load: Callable[[], float] = quiet.other_load,
        rest: Callable[[float], None] = time.sleep,
        clocks: Callable[[tuple[int, ...]], Clocks | None] | None = None,
    ) -> None:
        self._spec, self._synced, self._setup, self._load = spec, synced, setup, load
        self._devices = Devices(backends)
        self._watch = Stopwatch(clock_ns, self._devices)
        self._clock_ns = clock_ns
        heard = None if told is None else lambda: told(self._so_far)
        self._sampler = Sampler(spec, self._devices, self._watch, heard=heard, rest=rest)
        self._passes = DevicePasses(self._sampler, profile, clock_ns)
        self._clocks_of = clocks or _clocks
        self._clocks: Clocks | None = None
        self._running: Steps[None] | None = None
        self._warming = Warming(self._sampler, clock_ns, self._may_take_many)
        self._k = 1
        self._untimed = 0
        self._probed_s: list[float] = []
        self.log = SampleLog()
        self._reference = ReferenceLoop(clock_ns)
        self._stopped_by = ""
        self._failed = ""
        self._complete = False
        self._taken_unix_ns = 0
        self._rule = spec.rule()
        self._round_id = ""
        self._work = Work(spec.flop, spec.moved_bytes)
        self._held_bytes = 0
        self._peak: tuple[int, int] | None = None  # bytes held before a call, and the most during it
        self._growth: Growth | None = None
        self._idle = False  # the body queued nothing on the devices there are
        self._queued_at_first: int | None = None
        self._launches: int | None = None  # of one call, where the devices tell
        self._side_effects = SideEffects(spec)

    def turns(self) -> Turns:
        """One step for every run of the body; the body's first output is let through, later ones are dropped."""
        return Turns((one for one in [(0, self._run())]), self._clock_ns)

    def calls(self) -> Iterator[Step]:
        """The same for a plain loop, which costs more a step."""
        return drive(self._run(), self._clock_ns)

    def _run(self) -> Steps[None]:
        if self._running is not None:
            raise CaptureError("this benchmark has been run already", hint="make a new Engine for another run")
        self._running = self._phases()
        return self._running

    def failed(self, error: BaseException, within: str = "") -> None:
        """Say what ended the body early; what was measured before is kept.

        within: the name of the body it came up in, where several take turns.
        """
        words = str(error).strip().splitlines()
        name = type(error).__name__
        what = "interrupted" if isinstance(error, KeyboardInterrupt) else ": ".join([name, *words[:1]])
        self._failed = f"{what} (in {within})" if within else what

    def note(self, kind: str, **values: Plain) -> None:
        """Say a condition that its owner knows of."""
        self._sampler.note(kind, **values)

    @property
    def name(self) -> str:
        return self._spec.name

    def close(self) -> None:
        """Put back gc, hooks and output where the loop was left early; harmless otherwise, and when called twice."""
        if self._running is not None:
            self._running.close()

    def record(self) -> BenchRecord:
        """What was measured so far: complete samples only, empty arrays where there are none."""
        has_device = self._has_device()
        samples, starts = self.log.samples_s(), self.log.run_starts
        caches = self._sampler.caches
        return BenchRecord(
            name=self._spec.name,
            synced=self._synced,
            returns_s=samples[:, 0],
            done_s=samples[:, 1] if has_device else np.empty(0, np.float64),
            span_s=np.array(self._passes.spans, np.float64),
            first_calls_s=np.array(self._warming.first_s, np.float64),
            warmup_calls=self._warming.calls,
            body_runs=self._watch.runs,
            loop_overhead_s=self.log.loop_ns[0] / 1e9,
            span_calls_per_sample=self._passes.span_calls,
            stopped_by=f"ended early: {self._failed}" if self._failed else self._stopped_by,
            devices=self._devices.infos if has_device else (),
            trace=self._passes.trace,
            failed=self._failed,
            conditions=tuple(self._sampler.conditions),
            code=self._spec.code,
            setup=self._spec.setup,
            taken_unix_ns=self._taken_unix_ns,
            session=SESSION,
            calls_per_sample=self._k,
            round_id=self._round_id,
            queued_s=np.array(self._passes.queued, np.float64),
            queued_calls=self._passes.queued_calls,
            run_starts=tuple(starts) if len(starts) > 1 else (),
            reference_s=tuple(ns / 1e9 for ns in self._reference.taken_ns),
            cold_bytes=caches.size_bytes if caches is not None else 0,
            cold_of=caches.name if caches is not None else "",
            flop=self._work.flop,
            moved_bytes=self._work.moved_bytes,
            held_bytes=self._peak[0] if self._peak is not None else None,
            peak_bytes=self._peak[1] if self._peak is not None else None,
            clocks=self._clocks.records() if self._clocks is not None else (),
            settings=self._spec.settings(),
            environment=environment() | ({"driver": self._clocks.driver} if self._clocks is not None else {}),
        )

    def first(self, round_id: str = "") -> Steps[None]:
        """The first call, whose output is let through.  round_id: of the benchmarks that take turns with this one."""
        self._round_id = round_id
        self._prepare()
        yield from self._first_call()
        if self._spec.work is not None:
            self._work = self._spec.work()
        if self._work.moved_bytes is not None:
            self._sampler.note_what_fits(self._work.moved_bytes, device_works=self._has_device())

    def warm(self) -> Steps[None]:
        """Calls until they settle, and how many of them make a sample."""
        self.log.end_run()
        yield from self._warming.run(again=bool(self.log.run_starts))
        self._devices.refresh()
        if self._idle and self._devices.progress() != self._queued_at_first:
            self._idle = False  # it came to the device later
        call_s = self._warming.call_s()
        many = self._spec.calls or calls_of_block(call_s)
        self._use_calls(many if self._may_take_many() else 1, call_s)
        self._begin_run()

    @property
    def fills_samples(self) -> bool:
        """Whether samples are filled with as many calls as they have room for."""
        return self._may_take_many() and self._spec.calls is None

    def probe(self) -> Steps[None]:
        """One sample that does not count, to find out how long a call is."""
        reading = yield from self._sampler.sample(self._k, untimed=self._untimed)
        self._warming.calls += self._k
        self._probed_s.append(reading.done_ns / self._k / 1e9)

    def probed_call_s(self) -> float:
        """The median of the probes, in seconds a call."""
        return float(np.median(self._probed_s))

    def fill_samples(self, call_s: float) -> None:
        """Fill samples with calls of this length from now on."""
        self._use_calls(calls_of_block(call_s), call_s)

    def take(self, spent_s: Callable[[], float]) -> Steps[None]:
        """One sample. spent_s: asked after it, how long has been sampled so far."""
        k = self._k
        peak_wanted = self._peak is None and self._has_device()
        if self._round_id and self._growth is not None:
            self._growth.look()  # what the others of the round leave behind is theirs
        ready = self._watch_peak if peak_wanted else None
        self._side_effects.before_sample()
        reading = yield from self._sampler.sample(k, untimed=self._untimed, ready=ready)
        self._side_effects.after_sample()
        if peak_wanted and (memory := self._devices.memory_bytes()) is not None:
            self._peak = (self._held_bytes, memory[1])
        if self._round_id and self._growth is not None:
            self._growth.add()
        self._reference.beside(reading.done_ns)
        returns_s, done_s = self.log.add(reading, k)
        if self._clocks is not None and self.log.of_this_run % READ_CLOCKS_EVERY == 0:
            self._clocks.read()
        self._rule.add((returns_s, done_s) if self._has_device() else (returns_s,), spent_s())
        self._stopped_by = self._rule.reason

    @property
    def finished(self) -> bool:
        """Whether the stopping rule has enough samples."""
        return self._rule.finished

    def after(self) -> Steps[None]:
        """What comes after the samples: calls in a row where asked for, the device span, the recorded run."""
        if self._has_device() and self._spec.calls is not None and self._spec.calls > 1:
            yield from self._passes.take_queued(self._spec.calls, self._launches)
        if self._has_device() and self._synced:
            returns_s, done_s = np.median(self.log.samples_s(), axis=0).tolist()
            yield from self._passes.take_spans(returns_s, done_s)
            yield from self._passes.take_recorded(done_s)
        self._complete = True

    def rest(self) -> Steps[None]:
        """Everything after the first call, of a body measured by itself."""
        for _ in range(self._spec.runs):
            yield from self.warm()
            yield from self._take_samples()
            self.done_sampling()
        yield from self.after()

    @property
    def calls_per_sample(self) -> int:
        """How many calls make a sample of *returns*, known after warm()."""
        return self._k

    @property
    def complete(self) -> bool:
        """Whether everything was measured."""
        return self._complete

    def done_so_far(self) -> Float64:
        """The samples of *done*, or without a device of *returns*, in seconds a call."""
        return self.log.samples_s()[:, 1 if self._has_device() else 0]

    def _use_calls(self, k: int, call_s: float) -> None:
        loop = EmptyLoop(self._watch.clock_ns, k)  # takes a while: an interrupt must not come between the two
        self._k, self.log.loop = k, loop
        warm = self.fills_samples and self._spec.warmup != 0
        wanted = math.ceil(UNTIMED_S / max(call_s, SHORTEST_CALL_S))
        self._untimed = wanted if warm and call_s < UNTIMED_BELOW_S else 0

    def done_sampling(self, stopped_by: str = "") -> None:
        """Note what is odd about the samples.  stopped_by: what ended them, where it was not the rule."""
        self._stopped_by = stopped_by or self._stopped_by
        if self._clocks is not None:
            self._clocks.read()
        if self._synced and self._idle:
            self._sampler.note("idle device", device=self._devices.infos[0].label)
        elif self._synced and not self._has_device():
            self._sampler.note("no device")
        later_s = float(np.median(self.done_so_far())) if self.log.of_this_run else 0.0
        self._side_effects.tell(self._sampler, self._warming.first_s[0], later_s)
        if self._growth is not None:
            if not self._round_id:
                self._growth.add()
            self._growth.tell(self._sampler, self.log.of_this_run * (self._k + self._untimed))
            self._growth = None

    def _phases(self) -> Steps[None]:
        with quiet.undisturbed():
            yield from self.first()
            with quiet.muted():
                yield from self.rest()

    def _prepare(self) -> None:
        self._taken_unix_ns = time.time_ns()
        if (load := self._load()) > 0:
            self._sampler.note("load", load=load, cores=os.cpu_count() or 1)
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
        self._sampler.before()
        self._side_effects.before_first_call()
        queued = self._devices.progress()
        start_ns = self._clock_ns()
        yield self._watch.steps(1)
        self._devices.refresh()  # the body may have imported torch or started a device
        after = self._devices.progress()
        self._idle = queued is not None and after == queued
        self._launches = after - (queued or 0) if after is not None else None
        self._devices.synchronize()
        self._warming.first((self._clock_ns() - start_ns) / 1e9)
        self._side_effects.after_first_call()
        cuda = tuple(info.index for info in self._devices.infos if info.kind in ("cuda", "rocm"))
        if cuda and profiled_before():
            self._sampler.note("profiled before")
        self._queued_at_first = self._devices.progress()
        self._sampler.make_cold(device_works=self._has_device())
        self._clocks = self._clocks_of(cuda)

    def _begin_run(self) -> None:
        """A whole run begins: its own stopping rule, and what is there before its first sample."""
        self.log.begin_run()
        if len(self.log.run_starts) > 1:
            self._rule = self._spec.rule()
        self._growth = Growth(self._devices)
        if self._clocks is not None:
            self._clocks.read()

    def _take_samples(self) -> Steps[None]:
        from_ns = self._clock_ns()
        while not self._rule.finished:
            yield from self.take(lambda: self._since_s(from_ns))

    def _may_take_many(self) -> bool:
        """Several calls a sample only where nothing queues up and nothing has to be done in between."""
        return not self._has_device() and self._spec.setup_each is None and not self._spec.cold

    def _watch_peak(self) -> None:
        """Note the bytes that are allocated before a call; from here on the devices look for the most."""
        if (found := self._devices.memory_bytes()) is not None:
            self._held_bytes = found[0]
            self._devices.reset_peak_memory()

    def _has_device(self) -> bool:
        return bool(self._devices.backends) and not self._idle

    def _since_s(self, from_ns: int) -> float:
        return (self._clock_ns() - from_ns) / 1e9

    def _so_far(self) -> str:
        """In words, for somebody who waits."""
        if not self._warming.first_s:
            return "first call"
        if not self.log.of_this_run:
            return f"first call {duration_s(self._warming.first_s[0])}, warming up"
        done = self.done_so_far()
        known = relative_half_width(done)
        interval = f" ±{NBSP}{significant(known * 100, 2)}{NBSP}%" if math.isfinite(known) else ""
        return f"{plural(len(done), 'sample')}, median {duration_s(float(np.median(done)))}{interval}"


def _clocks(indices: tuple[int, ...]) -> Clocks | None:
    torch = torch_if_imported()
    return clocks_of(torch, indices) if torch is not None and indices else None
