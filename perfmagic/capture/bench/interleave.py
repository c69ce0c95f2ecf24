"""Several bodies measured in turns: A B B A, so that what drifts during the run moves all of them alike."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import closing

from perfmagic.capture.bench import quiet
from perfmagic.capture.bench.empty_loop import MOST_CALLS, EmptyLoop
from perfmagic.capture.bench.engine import BenchSpec, Engine
from perfmagic.capture.bench.stopwatch import Steps, Stretches, Turns
from perfmagic.errors import OptionError
from perfmagic.numerics.ratio import BAND, FEWEST_99, judged, ratio_interval
from perfmagic.samples import BenchRecord, Float64
from perfmagic.units import duration_s

MOST_S = 60.0  # of all together: a comparison that takes longer was not meant
DECIDE_S = 10.0  # so long it goes on where the verdict is unclear, warm-up included
FIRST_LOOK = 20  # samples of each: below it an interval says little
MORE_FRAC = 0.25  # so many samples more before it is looked at again: each look is a chance of a false alarm
# Some 20 looks at 95 % each call 2 to 3 % of equal bodies different; at 99.9 % hardly any, and a true 5 % is found
# after twice as many samples (benchmarks/bench_coverage.py, "looked at").
SURE_LEVEL = 0.999
PROBES = 6  # samples of each before their lengths are made equal; even: each comes first as often as last
ALIKE = 1.5  # bodies whose calls differ by less have as many calls in a sample


class Sitting:
    """Some bodies measured together: their engines, and in which order the bodies are to run.

    Whoever has the bodies runs body i once for every step of first(i), of each in its order, and then of each pair
    (i, steps) of rest(). With more than one it goes on until each is faster, slower or the same as the first (changes
    within the band do not count), for decide_s at most; a decide_s of 0 leaves the end to their stopping rules.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        *,
        band: float = BAND,
        decide_s: float = DECIDE_S,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.engines = engines
        self._band, self._decide_s, self._clock_ns = band, decide_s, clock_ns
        self._round_id = secrets.token_hex(6) if len(engines) > 1 else ""
        self._passed = 0

    def first(self, which: int) -> Steps[None]:
        """The first call of one of them; its output is let through."""
        return self.engines[which].first(self._round_id)

    def whole(self) -> Stretches:
        """The first call of each, and the rest."""
        for which in range(len(self.engines)):
            yield which, self.first(which)
        yield from self.rest()

    def rest(self) -> Stretches:
        """Warm-up of each, samples in turns, and what comes after the samples; printed output is dropped."""
        with quiet.muted():
            if len(self.engines) == 1:
                yield 0, self.engines[0].rest()
                return
            begun_ns = self._clock_ns()
            for which, engine in enumerate(self.engines):
                yield which, engine.warm()
            yield from self._equal_samples()
            share_empty_loops(self.engines)
            if self._decide_s:
                yield from self._until_clear(lambda: (self._clock_ns() - begun_ns) / 1e9)
            else:
                from_ns = self._clock_ns()
                yield from self._until_finished(lambda: (self._clock_ns() - from_ns) / 1e9)
            for which, engine in enumerate(self.engines):
                yield which, engine.after()

    def failed(self, error: BaseException, which: int) -> None:
        """Say what ended all of them early, and in which; what was measured before is kept."""
        within = self.engines[which].name if len(self.engines) > 1 else ""
        for engine in self.engines:
            if not engine.complete:
                engine.failed(error, within)

    def _equal_samples(self) -> Stretches:
        """Samples of one length for all: a longer one more often holds what interrupts it, and its median knows.

        How long a call is was found out for each by itself, at times when the machine may have been of another speed.
        So a few samples of all are taken in turns. Bodies that then take about as long have as many calls in a sample.
        """
        filled = [engine.fills_samples for engine in self.engines]
        if not all(filled) or all(engine.calls_per_sample == 1 for engine in self.engines):
            return
        for number in range(PROBES):
            order = list(enumerate(self.engines))
            for which, engine in reversed(order) if number % 2 else order:
                yield which, engine.probe()
        calls_s = [engine.probed_call_s() for engine in self.engines]
        alike = max(calls_s) <= ALIKE * min(calls_s)
        for engine, call_s in zip(self.engines, calls_s, strict=True):
            engine.fill_samples(min(calls_s) if alike else call_s)

    def _until_finished(self, spent_s: Callable[[], float]) -> Stretches:
        """Until the stopping rule of each has enough."""
        while not all(engine.finished for engine in self.engines) and spent_s() < MOST_S:
            yield from self._pass(spent_s)
        for engine in self.engines:
            engine.done_sampling()

    def _until_clear(self, spent_s: Callable[[], float]) -> Stretches:
        """Until each is sure to be faster, slower or the same, or the time for that is over.

        spent_s: with warm-up, which is part of what somebody waits for. Long bodies take as much more as a verdict
        needs.
        """
        clear, n, look_at = False, 0, FIRST_LOOK
        while not clear and (n == 0 or spent_s() < (MOST_S if n < FEWEST_99 else self._decide_s)):
            yield from self._pass(spent_s)
            n += 1
            if n == look_at:
                clear = self._decided()
                look_at += max(2, int(n * MORE_FRAC))
        why = "stopped when the comparison was clear" if clear else f"stopped after {duration_s(spent_s())}"
        for engine in self.engines:
            engine.done_sampling(why)

    def _pass(self, spent_s: Callable[[], float]) -> Stretches:
        """Once through all of them, forth and back by turns; with three or more another comes first each time."""
        order = list(enumerate(self.engines))
        if len(order) > 2:
            at = self._passed // 2 % len(order)
            order = order[at:] + order[:at]
        for which, engine in reversed(order) if self._passed % 2 else order:
            yield which, engine.take(lambda: spent_s() / len(self.engines))
        self._passed += 1

    def _decided(self) -> bool:
        first = self.engines[0].done_so_far()
        others = [engine.done_so_far() for engine in self.engines[1:]]
        return all(self._clear(other, first) for other in others)

    def _clear(self, other: Float64, first: Float64) -> bool:
        """Whether it is sure now, also if it is looked at again and again."""
        found = ratio_interval(other, first, interleaved=True)
        if found is not None and judged(found, self._band) == "same":
            return True
        sure = ratio_interval(other, first, interleaved=True, level=SURE_LEVEL)
        return sure is not None and judged(sure, self._band) in ("faster", "slower")


def share_empty_loops(engines: Sequence[Engine]) -> None:
    """Subtract the same for the empty loop from all, a call: measured for each by itself, its noise would differ.

    Only for samples of as many calls, as looking at the clock counts where they are few.
    """
    shared: dict[int, EmptyLoop | None] = {}
    for engine in engines:
        engine.log.loop = shared.setdefault(min(engine.calls_per_sample, MOST_CALLS), engine.log.loop)


def measure_in_turns(
    bodies: Sequence[Callable[[], object]],
    specs: Sequence[BenchSpec],
    *,
    band: float = BAND,
    decide_s: float = DECIDE_S,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    kept: Callable[[list[BenchRecord]], None] | None = None,
) -> list[BenchRecord]:
    """The records of some bodies whose samples were taken in turns, as many of each (see Sitting).

    An exception of a body ends all of them, an interrupt too: kept is then given what was measured before, and the
    exception goes on.
    """
    refuse_runs(specs)
    engines = [Engine(spec, synced=False, clock_ns=clock_ns) for spec in specs]
    sitting = Sitting(engines, band=band, decide_s=decide_s, clock_ns=clock_ns)
    turns = Turns(sitting.whole(), clock_ns)
    try:
        with quiet.undisturbed(), closing(turns):  # what is printed is seen again, also while an exception is held
            run(turns, bodies)
    except BaseException as error:
        sitting.failed(error, turns.which)
        if kept is not None:
            kept([engine.record() for engine in engines])
        raise
    return [engine.record() for engine in engines]


def refuse_runs(specs: Sequence[BenchSpec]) -> None:
    """Raise OptionError for whole runs of what takes turns: one after the other is what turns are there to avoid."""
    if len(specs) > 1 and any(spec.runs > 1 for spec in specs):
        raise OptionError(
            f"--runs {max(spec.runs for spec in specs)}: benchmarks that take turns are one run",
            hint="leave out --runs; --time 20 takes longer",
        )


def run(turns: Turns, bodies: Sequence[Callable[[], object]]) -> None:
    """Call each body when it is its turn."""
    while turns.turn():
        body = bodies[turns.which]
        for () in turns.steps(turns.which):
            body()
