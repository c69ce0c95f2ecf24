"""The samples of *returns* and *done*, taken until the stopping rule has enough (perfmagic.capture.bench.stopping)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from perfmagic.capture.bench.body_loop import Phase
from perfmagic.capture.bench.device_use import DeviceUse
from perfmagic.capture.bench.empty_loop import EmptyLoop
from perfmagic.capture.bench.plan import Plan, SampleSize
from perfmagic.capture.bench.reference_loop import ReferenceLoop
from perfmagic.capture.bench.sample_log import SampleLog
from perfmagic.capture.bench.sampler import Sampler
from perfmagic.capture.bench.watchers import Watchers
from perfmagic.samples import Float64


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
        clock_ns = self._sampler.watch.clock_ns
        from_ns = clock_ns()
        while not self.enough:
            yield from self.sample(lambda: (clock_ns() - from_ns) / 1e9)

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
        """The median of the probes, in seconds a call."""
        return float(np.median(self._probes_s))

    def resize(self, call_s: float) -> None:
        """Samples are of the size for calls of this length from now on."""
        size = self._plan.sample_size(call_s, device_works=self._use.works)
        loop = EmptyLoop(self._sampler.watch.clock_ns, size.calls)  # before both change: an interrupt keeps them a pair
        self.size, self.log.loop = size, loop
