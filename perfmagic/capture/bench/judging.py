"""The watch over interleaved bodies that tells whether they do the same work, as a part of the benchmark's phases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from perfmagic.base.clock import virtual_clock
from perfmagic.capture.bench.engine import Engine
from perfmagic.capture.bench.quiet import dropped_outputs
from perfmagic.capture.bench.sampling import Kept, Schedule
from perfmagic.capture.bench.spec import Recording
from perfmagic.capture.same_work.closing import Closing, Raised
from perfmagic.capture.same_work.conclude import conclude
from perfmagic.capture.same_work.same_work import SameWork


class _Observed:
    """One body of several under watch, as its sampler sees it."""

    def __init__(self, same: SameWork, which: int, engine: Engine) -> None:
        self._same, self._which, self._devices = same, which, engine.phases.use.devices
        self._begun = False

    def before(self) -> None:
        if not self._begun and self._which == 0:
            self._same.begin(self._devices.progress)
        self._begun = True
        self._same.before(self._which)

    def ready(self) -> None:
        self._same.ready(self._which)

    def after(self, calls: int) -> None:
        self._same.after(self._which, calls)


class Judge:
    """Finds out whether bodies do the same work.  kept: where they leave what they give.

    record: makes a recording of a kind of device; None for none.
    """

    def __init__(self, same: SameWork, engines: Sequence[Engine], record: Callable[[str], Recording] | None) -> None:
        self._same, self._engines, self._record = same, engines, record
        self._closing: Closing | None = None
        same.effects.printed = dropped_outputs
        self.kept = Kept(same.kept, with_arguments=same.arguments is not None)
        for which, engine in enumerate(engines):
            sampler = engine.phases.sampler
            sampler.observer = _Observed(same, which, engine)
            sampler.watch.items = self._items_of(which) if same.arguments is not None and same.take is None else None

    def _items_of(self, which: int) -> Callable[[int], list[tuple[tuple[object, ...], int]]]:
        return lambda k: self._same.items(which, k)

    def plan(self) -> None:
        """Calls of a sample are no more than there are arguments for, and as many for all."""
        if self._same.arguments is None:
            return
        each = [engine.phases.sampling for engine in self._engines]
        calls = self._same.plan(min(sampling.size.calls for sampling in each))
        for sampling in each:
            sampling.limit_calls(calls)

    @contextmanager
    def of_pass(self) -> Iterator[None]:
        """One sample of each, on the same values."""
        self._same.begin_pass()
        yield
        self._same.end_pass()

    def closing(self) -> Schedule:
        """The calls after the samples, and then the facts."""
        phases = [engine.phases for engine in self._engines]
        works = any(each.use.works for each in phases)
        on_device = virtual_clock() is not None or (works and not (self._same.arguments and self._same.on_host()))
        record = None if self._record is None else partial(self._record, "auto" if on_device else "cpu")
        self._closing = Closing(self._same, [each.sampler for each in phases], record, self._forgive)
        medians = [each.sampling.median_s() for each in phases]
        yield from self._closing.schedule(
            medians, phases[0].sampling.size.calls if self._same.arguments is not None else 1
        )
        for which in self.kept.hooked:
            self._same.watched[which].fact("set", what="a trace or profile hook")
        for which, each in enumerate(phases[1:], 1):
            each.outcome.checks = tuple(conclude(self._same, which))

    def _forgive(self, forgives: bool) -> None:
        self.kept.forgives = Raised if forgives else None

    def close(self) -> None:
        """Put back what was changed; harmless when repeated."""
        if self._closing is not None:
            self._closing.abandon()
        self._same.close()
