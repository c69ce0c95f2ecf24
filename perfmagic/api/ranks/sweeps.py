"""perfmagic.sweep_ranks(code, [1, 2, 4]): how well do more ranks pay off, and what is lost to what?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.ranks.scaling import Scaling
from perfmagic.api.options import RUNS, WARMUP, RanksSweepOptions, keywords
from perfmagic.api.ranks.session import (
    MOST_RANKS,
    Ranks,
    check_code,
    check_device,
    current,
    outputs,
    raise_failure,
    settings_for,
)
from perfmagic.api.show import remember
from perfmagic.base.errors import DeviceError, OptionError, RanksError
from perfmagic.base.language import counted, say
from perfmagic.base.units import plural
from perfmagic.capture.ranks.printed import Outputs
from perfmagic.results import RanksResult, RanksSweep

if TYPE_CHECKING:
    from typing_extensions import Unpack


@keywords(RanksSweepOptions)
def sweep_ranks(code: str, n: Sequence[int] = (1, 2, 4), **options: Unpack[RanksSweepOptions]) -> RanksSweep:
    """How well do more ranks pay off? Runs code on each number of ranks, in new processes, as `%%ranks --sweep` does.

    n ((1, 2, 4)): the numbers of ranks.
    Ranks that run, and their variables, stay; device and backend are theirs where left out.
    Raises OptionError for fewer than two numbers, RanksError where code fails in a rank; perfmagic.last() then has the
    numbers of ranks before.
    """
    check_code("sweep_ranks", "code", code)
    check_code("sweep_ranks", "setup", options["setup"])
    result, error = run_sweep(SweepPlan.for_options(f"%%ranks\n{code}", options), n)
    if result is not None:
        remember(result)
    if error is not None:
        raise error
    assert result is not None
    return result


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep runs, and how.  source: the cell, its first line its magic.  setup: code without a magic."""

    source: str
    setup: str
    scaling: Scaling
    device: str = "auto"
    backend: str = ""
    clock: str = ""
    runs: int = RUNS
    warmup: int = WARMUP
    record: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def for_options(cls, source: str, options: RanksSweepOptions) -> SweepPlan:
        """The plan for a cell."""
        return cls(
            source,
            options["setup"],
            "strong" if options["strong"] else "weak",
            options["device"],
            options["backend"],
            options["clock"],
            options["runs"],
            options["warmup"],
            {"memory": options["memory"], "shapes": options["shapes"]},
        )


def run_sweep(
    plan: SweepPlan, n: Sequence[int], progress: Callable[[str], None] = lambda _: None
) -> tuple[RanksSweep | None, BaseException | None]:
    """Measure on each number of ranks. Gives the sweep of the runs that succeeded, and the error that ended it early.

    The sweep is None where no run succeeded. The error may be an interrupt.
    progress: called before each run with a line on it. Raises OptionError for numbers that cannot be used.
    """
    numbers = _checked_numbers(plan, n)
    done: list[list[RanksResult]] = []
    kinds: dict[str, int] = {}
    ended: BaseException | None = None
    try:
        for ranks in numbers:
            done.append(_measure_on(plan, ranks, max(numbers), kinds, progress))  # noqa: PERF401 - extend() promises less
    except BaseException as error:  # noqa: BLE001 - the caller shows what was measured, then raises it
        ended = error
        if isinstance(error, RanksError):
            where = f"on {plural(numbers[len(done)], 'rank')}"
            ended = RanksError.named(type(error).__name__, f"{where}: {error.message}", error.failures)
    failed = f"{type(ended).__name__} on {plural(numbers[len(done)], 'rank')} ended the sweep" if ended else ""
    return RanksSweep.of(done, plan.scaling, failed=failed) if done else None, ended


def _checked_numbers(plan: SweepPlan, n: object) -> list[int]:
    if isinstance(n, str) or not isinstance(n, Iterable):
        raise OptionError(f"a sweep on {n!r} ranks: several numbers are needed", hint="n=1,2,4 or [1, 2, 4]")
    numbers = list(n)
    wrong = [number for number in numbers if type(number) is not int or not 1 <= number <= MOST_RANKS]
    if wrong:
        raise OptionError(f"a sweep on {wrong[0]!r} ranks: 1 to {MOST_RANKS} processes", hint="n=1,2,4")
    if len(set(numbers)) < len(numbers) or len(numbers) < 2:
        listed = ", ".join(map(str, numbers))
        raise OptionError(f"a sweep on {listed or 'no'} ranks: two numbers or more, each once", hint="n=1,2,4")
    check_device(plan.device, plan.clock)
    if plan.runs < 1 or plan.warmup < 0:
        raise OptionError(f"{plan.runs} runs after {plan.warmup}: one run or more, after none or more")
    return numbers


def _measure_on(
    plan: SweepPlan, n: int, most: int, kinds: dict[str, int], progress: Callable[[str], None]
) -> list[RanksResult]:
    """The recorded runs on one number of ranks, in new processes.

    most: the largest number of the sweep.  kinds: the number of ranks on each kind of device so far.
    """
    shown, running = _FirstRunOutputs(), current()
    device, backend, clock = plan.device, plan.backend, plan.clock
    if running is not None and running.running:
        device = running.settings.device if device == "auto" else device
        backend = backend or running.settings.backend
        clock = clock or running.settings.clock
    settings = settings_for(n, device, backend, clock)
    threads = max(1, (os.cpu_count() or 1) // most)  # of each rank, the same for all numbers of ranks
    of_ranks = counted(n, "{n} rank", "{n} ranks")
    progress(say("{ranks} start", ranks=of_ranks))
    with Ranks(replace(settings, threads=threads * n), shown.outputs) as ranks:
        kinds.setdefault(ranks.device, n)
        if len(kinds) > 1:
            each_on = ", ".join(f"{plural(world, 'rank')} on {kind}" for kind, world in kinds.items())
            raise DeviceError(f"a sweep on several devices: {each_on}", hint="name one: --device sim")
        ranks.set_up()
        if plan.setup.strip():
            raise_failure(ranks.run_cell(plan.setup))
        results: list[RanksResult] = []
        for i in range(plan.warmup + plan.runs):
            progress(say("{ranks}, run {n} of {runs}", ranks=of_ranks, n=i + 1, runs=plan.warmup + plan.runs))
            record = plan.record if i >= plan.warmup else None
            end = ranks.run_cell(plan.source, record=record, show=not shown.quiet)
            shown.quiet = True
            raise_failure(end)
            if record is not None and (result := ranks.keep_result(end)) is not None:
                results.append(result)
        return results


class _FirstRunOutputs:
    """Shows what ranks print and display until quiet is set: later runs of the cell repeat the output."""

    def __init__(self) -> None:
        self.quiet = False
        self._real = outputs()
        whole = "the cell without --sweep keeps all"
        self.outputs = Outputs(lines=self._lines, display=self._display, tell=self._real.tell, whole=whole)

    def _lines(self, rank: int, stream: str, text: str) -> None:
        if not self.quiet:
            self._real.lines(rank, stream, text)

    def _display(self, rank: int, bundle: dict[str, str]) -> None:
        if not self.quiet:
            self._real.display(rank, bundle)
