"""Several bodies measured interleaved, A B B A, so that what drifts during the run moves all of them alike.

Which of them is A is drawn at random for every two passes. On a busy machine the same places may meet the same
neighbours again and again, and equal bodies would differ.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from perfmagic.base.clock import reader, spent_reader
from perfmagic.base.errors import CaptureError, OptionError
from perfmagic.base.numerics.stats import BAND
from perfmagic.base.options import option
from perfmagic.capture.bench.engine import Engine
from perfmagic.capture.bench.judging import Judge
from perfmagic.capture.bench.limit import Limit
from perfmagic.capture.bench.quiet import Quiet
from perfmagic.capture.bench.sampling import MOST_CALLS, BodyLoop, EmptyLoop, Phase, Schedule, run
from perfmagic.capture.bench.spec import DECIDE_S, BenchSpec, ComparisonRule, Host, Recording
from perfmagic.capture.same_work.same_work import SameWork
from perfmagic.trace.samples import BenchRecord

PROBES = 6  # samples of each before their lengths are made equal; even: each comes first as often as last
BLOCKS, BLOCK_BITS = 8, (10, 18)  # of memory that is held during a sample, of 1 to 256 kB
ALIKE = 1.5  # bodies whose calls differ by less have as many calls in a sample


class Interleaved:
    """Some bodies measured together: their engines, and in which order the bodies are to run.

    The owner of the bodies runs body i once for every repetition of first_call(i), in order. Then it runs it for each
    pair (i, phase) of after_first_calls(). With more than one body samples are taken until each is faster, slower
    or the same as the first (changes within the band do not count), for decide_s at most; a decide_s of 0 leaves the
    end to their own stopping rules.
    quiet: keeps disturbances away; the caller that passes it begins and ends it.
    judge: finds out whether all do the same work.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        *,
        band: float = BAND,
        decide_s: float = DECIDE_S,
        clock_ns: Callable[[], int] | None = None,
        quiet: Quiet | None = None,
        judge: Judge | None = None,
    ) -> None:
        self.engines = engines
        self._judge = judge
        self._phases = [engine.phases for engine in engines]
        self._quiet = quiet or Quiet()
        self._band, self._decide_s, self._spent_ns = band, decide_s, spent_reader(clock_ns or reader())
        self._round_id = secrets.token_hex(6) if len(engines) > 1 else ""
        self._passes = 0
        self._lot = random.Random(0)  # of a seed: on a virtual clock the same order gives the same result
        self._sizes = random.Random(1)
        self._order = [*enumerate(self._phases)]

    def __enter__(self) -> Interleaved:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def whole(self) -> Schedule:
        """All of it, kept from what would disturb it."""
        try:
            self._quiet.begin()
            for which in range(len(self.engines)):
                yield which, self.first_call(which)
            yield from self.after_first_calls()
        finally:
            self.close()

    def first_call(self, which: int) -> Phase[None]:
        """The first call of one of them; its output is let through."""
        return self._phases[which].first_call(self._round_id)

    def after_first_calls(self) -> Schedule:
        """Warm-up of each, interleaved samples, and the device passes of each; output is dropped meanwhile."""
        self._quiet.mute()
        if len(self.engines) == 1:
            yield 0, self._phases[0].after_first_call()
        else:
            begun_ns = self._spent_ns()
            for which, phases in enumerate(self._phases):
                yield which, phases.warm_up()
            yield from self._equal_samples()
            if self._judge is not None:
                self._judge.plan()
            share_empty_loops(self.engines)
            yield from self._until_clear(begun_ns) if self._decide_s else self._until_enough()
            for which, phases in enumerate(self._phases):
                yield which, phases.device_passes()
            if self._judge is not None:
                yield from self._judge.closing()
        self._quiet.unmute()

    def failed(self, error: BaseException, which: int, limit: Limit | None = None) -> None:
        """Say what ended all of them early, and in which; what was measured before is kept.

        limit: that knows for how long a call had run. An interrupt says so, too.
        """
        within = self._phases[which].plan.spec.name if len(self.engines) > 1 else ""
        if limit is not None and isinstance(error, KeyboardInterrupt) and (words := limit.words(within)):
            error.args, within = (words,), ""
        for engine in self.engines:
            if not engine.phases.outcome.complete:
                engine.failed(error, within)

    def close(self) -> None:
        """Put back what was taken away, in every engine; harmless when repeated."""
        try:
            for engine in self.engines:
                engine.close()
            if self._judge is not None:
                self._judge.close()
        finally:
            self._quiet.end()

    def _equal_samples(self) -> Schedule:
        """Samples of one length for all: a longer one more often holds what interrupts it, and its median shows it.

        How long a call is was found out for each by itself, at times when the machine may have been of another speed.
        So a few samples of all are interleaved. Bodies that then take about as long have as many calls in a sample.
        """
        all_sampling = [phases.sampling for phases in self._phases]
        filled = all(sampling.fills_samples for sampling in all_sampling)
        if filled and any(sampling.size.calls > 1 for sampling in all_sampling):
            yield from self._probes()
            calls_s = [sampling.probed_call_s() for sampling in all_sampling]
            alike = max(calls_s) <= ALIKE * min(calls_s)
            for sampling, call_s in zip(all_sampling, calls_s, strict=True):
                sampling.resize(min(calls_s) if alike else call_s)
        # a call right after another finds warmer caches: on a busy machine equal bodies may seem shorter and longer
        # than where such calls end, and would differ by a tenth (benchmarks/results/bench_verdicts.md)
        untimed = min(1, max(sampling.size.untimed for sampling in all_sampling))
        for sampling in all_sampling:
            sampling.warm_by(untimed)

    def _probes(self) -> Schedule:
        for number in range(PROBES):
            order = list(enumerate(phases.sampling for phases in self._phases))
            for which, sampling in reversed(order) if number % 2 else order:
                yield which, sampling.probe()

    def _until_enough(self) -> Schedule:
        """Passes until the stopping rule of each body has enough; none is cut short, so `-r 10` takes 10 samples."""
        from_ns = self._spent_ns()
        while not all(phases.sampling.enough for phases in self._phases):
            yield from self._pass(lambda: self._since_s(from_ns))
        for phases in self._phases:
            phases.end_samples()

    def _until_clear(self, begun_ns: int) -> Schedule:
        """Passes until the comparison is clear, or its time is over (perfmagic.capture.bench.spec)."""
        rule = ComparisonRule(band=self._band, time_s=self._decide_s)
        while not rule.finished:
            yield from self._pass(lambda: self._since_s(begun_ns))
            rule.add(lambda: [phases.sampling.done_s() for phases in self._phases], self._since_s(begun_ns))
        for phases in self._phases:
            phases.end_samples(rule.reason)

    def _pass(self, spent_s: Callable[[], float]) -> Schedule:
        """One sample of each, forward and backward in alternation, in an order that is redrawn each time."""
        if self._passes % 2:
            self._order.reverse()
        else:
            self._lot.shuffle(self._order)
        with self._judge.of_pass() if self._judge is not None else nullcontext():
            for which, phases in self._order:
                taken = self._memory()
                yield which, phases.sampling.sample(lambda: spent_s() / len(self.engines))
                del taken
        self._passes += 1

    def _memory(self) -> list[Any]:
        """Untouched memory of drawn sizes: while it is held, what the next sample makes comes to lie elsewhere.

        A call takes up to 5 % longer by where its results lie, and equal bodies kept getting different places.
        """
        return [np.empty(int(2 ** self._sizes.uniform(*BLOCK_BITS)), np.uint8) for _ in range(BLOCKS)]

    def _since_s(self, from_ns: int) -> float:
        return (self._spent_ns() - from_ns) / 1e9


def share_empty_loops(engines: Sequence[Engine]) -> None:
    """Subtract the same for the empty loop from all, a call: measured for each by itself, its noise would differ.

    Only for samples of as many calls, as looking at the clock counts where they are few.
    """
    shared: dict[int, EmptyLoop | None] = {}
    for engine in engines:
        sampling = engine.phases.sampling
        sampling.log.loop = shared.setdefault(min(sampling.size.calls, MOST_CALLS), sampling.log.loop)


def measure_interleaved(
    bodies: Sequence[Callable[[], object]],
    specs: Sequence[BenchSpec],
    *,
    band: float = BAND,
    decide_s: float = DECIDE_S,
    clock_ns: Callable[[], int] | None = None,
    kept: Callable[[list[BenchRecord]], None] | None = None,
    same_work: SameWork | None = None,
    record: Callable[[str], Recording] | None = None,
    limit_s: float | None = None,
) -> list[BenchRecord]:
    """The records of some bodies whose samples were interleaved, as many of each (see Interleaved).

    An exception of a body ends all of them, an interrupt too: kept is then given what was measured before, and the
    exception goes on.
    same_work: finds out whether all do the same.  record: makes the recordings for that, of a kind of device.
    limit_s: the longest that a call may take, None for the usual. One that takes longer is a CaptureError.
    """
    refuse_runs(specs)
    clock_ns = clock_ns or reader()
    engines = [Engine(spec, synced=False, host=Host(clock_ns)) for spec in specs]
    judge = None if same_work is None else Judge(same_work, engines, record)
    together = Interleaved(engines, band=band, decide_s=decide_s, clock_ns=clock_ns, judge=judge)
    loop = BodyLoop(together.whole(), clock_ns)
    limit = Limit(limit_s, loop.running_s)
    with together, together:  # twice: see capture/owner.py
        try:
            limit.start()
            try:
                run(loop, bodies, specs[0].magic or "compare", None if judge is None else judge.kept)
            finally:
                limit.close()
        except BaseException as error:
            together.close()  # output is seen again, also while the exception is held
            together.failed(error, loop.which, limit)
            if kept is not None:
                kept([engine.record() for engine in engines])
            if limit.over and isinstance(error, KeyboardInterrupt):
                raise CaptureError(f"compare: {error}", hint=limit.hint) from None
            raise
    return [engine.record() for engine in engines]


def refuse_runs(specs: Sequence[BenchSpec]) -> None:
    """Raise OptionError for whole runs of interleaved benchmarks: separate runs are what interleaving avoids."""
    if len(specs) > 1 and any(spec.runs > 1 for spec in specs):
        magic = specs[0].magic
        raise OptionError(
            f"{option(magic, 'runs', max(spec.runs for spec in specs))}: interleaved benchmarks are one run",
            hint=f"leave out {option(magic, 'runs')}; {option(magic, 'samples')} says how many samples are taken",
        )
