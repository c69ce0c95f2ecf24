"""How a body is measured: first call, warm-up, samples, device passes, in this order.

Source of all quantities and figures: docs/measuring.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from perfmagic.capture.bench.body_loop import Phase
from perfmagic.capture.bench.device_passes import DevicePasses
from perfmagic.capture.bench.device_use import Devices, DeviceUse
from perfmagic.capture.bench.notes import Notes, Outcome
from perfmagic.capture.bench.plan import Host, Plan
from perfmagic.capture.bench.sampler import Sampler
from perfmagic.capture.bench.sampling import Sampling
from perfmagic.capture.bench.stopwatch import Stopwatch
from perfmagic.capture.bench.warming import Warming
from perfmagic.capture.bench.watchers import Watchers
from perfmagic.errors import CaptureError


class Phases:
    """Measures one body, phase by phase; what was taken stays with the part that took it.

    on_sample: called before every sample.
    """

    def __init__(self, plan: Plan, host: Host, *, on_sample: Callable[[], None] | None = None) -> None:
        self.plan, self.host = plan, host
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
        self._make_ready()
        yield from self._time_first_call()
        work = self.outcome.work = self.plan.spec.asked_work()
        if work.moved_bytes is not None:
            self.sampler.note_what_fits(self.notes, work.moved_bytes, device_works=self.use.works)

    def warm_up(self) -> Phase[None]:
        """Calls until they settle; how many of them make a sample is known then."""
        self.sampling.log.end_run()
        yield from self.warming.run(again=bool(self.sampling.log.run_starts))
        self.use.look_again()
        self.sampling.begin_run(self.warming.call_s())

    def end_samples(self, stopped_by: str = "") -> None:
        """Note what is odd about the samples of a run.  stopped_by: what ended them, where it was not their rule."""
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

    def _make_ready(self) -> None:
        """Devices idle, set-up code run; an older error of a device is not this body's."""
        if (load := self.host.load()) > 0:
            self.notes.note("load", load=load, cores=os.cpu_count() or 1)
        self.use.devices.refresh()
        try:
            self.use.devices.synchronize()
        except Exception as error:
            raise CaptureError(
                f"an error of work that was queued earlier came up, not from this cell: {error}",
                hint="look at the cells run before; after a CUDA error the kernel usually has to be restarted",
            ) from error
        if self.plan.setup is not None:
            self.plan.setup()

    def _time_first_call(self) -> Phase[None]:
        clock_ns = self.host.clock_ns
        self.sampler.before()
        self.watchers.before_first_call()
        self.use.before_first_call()
        start_ns = clock_ns()
        yield self.sampler.watch.repetitions(1)
        self.use.after_first_call()
        self.use.devices.synchronize()
        self.warming.first((clock_ns() - start_ns) / 1e9)
        self.watchers.after_first_call()
        self.sampler.make_cold(device_works=self.use.works)
