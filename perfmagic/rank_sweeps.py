"""perfmagic.sweep_ranks(code, [1, 2, 4]): how well do more ranks pay off, and what is lost to what?"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perfmagic.analysis.ranks.efficiency import Scaling
from perfmagic.capture.ranks.session import Outputs
from perfmagic.errors import DeviceError, OptionError, RanksError
from perfmagic.keywords import documented
from perfmagic.rank_ends import raise_failure
from perfmagic.rank_outputs import outputs
from perfmagic.rank_sessions import DEVICES, MOST_RANKS, Ranks, current
from perfmagic.rank_starts import settings_of
from perfmagic.results import RanksResult, RanksSweep
from perfmagic.show import remember
from perfmagic.units import plural

RUNS, WARMUP = 3, 1  # the first run of a cell connects ranks and loads kernels


@documented()
def sweep_ranks(
    code: str,
    n: Sequence[int] = (1, 2, 4),
    *,
    setup: str = "",
    strong: bool = False,
    device: str = "auto",
    backend: str = "",
    runs: int = RUNS,
    warmup: int = WARMUP,
    memory: bool = False,
    shapes: bool = False,
) -> RanksSweep:
    """How well do more ranks pay off? Runs code on each number of ranks, in new processes, as `%%ranks --sweep` does.

    n ((1, 2, 4)): the numbers of ranks.
    setup (""): code that runs first, behind the notebook's `%%ranks --setup` cells, and is not measured.
    strong (False): all ranks share one work, which the code divides by world_size; else each has the same work.
    device ("auto"), backend (""): as in ranks(); those of the ranks that run where they are left out.
    runs (3): recorded runs of the code for each number, of which the one of median time counts.
    warmup (1): runs before these.
    memory (False), shapes (False): also record allocated memory, and shapes of operators' inputs.
    Ranks that run, and their variables, stay. Raises OptionError for fewer than two numbers, RanksError where code
    fails in a rank; perfmagic.last() then has the numbers of ranks before.
    """
    record = {"memory": memory, "shapes": shapes}
    scaling: Scaling = "strong" if strong else "weak"
    found, error = swept(Asked(f"%%ranks\n{code}", setup, scaling, device, backend, runs, warmup, record), n)
    if found is not None:
        remember(found)
    if error is not None:
        raise error
    assert found is not None
    return found


@dataclass(frozen=True)
class Asked:
    """What a sweep runs, and how.  source: the cell, its first line its magic's.  setup: code without one."""

    source: str
    setup: str
    scaling: Scaling
    device: str = "auto"
    backend: str = ""
    runs: int = RUNS
    warmup: int = WARMUP
    record: dict[str, Any] = field(default_factory=dict)


def swept(
    asked: Asked, n: Sequence[int], progress: Callable[[str], None] = lambda _: None
) -> tuple[RanksSweep | None, BaseException | None]:
    """The sweep of what ended well, None where that is nothing; and what ended it early, an interrupt too.

    progress: called before each run with where the sweep is. Raises OptionError for numbers that cannot be used.
    """
    numbers = _numbers(asked, n)
    done: list[list[RanksResult]] = []
    kinds: dict[str, int] = {}
    ended: BaseException | None = None
    try:
        for ranks in numbers:
            done.append(_on(asked, ranks, max(numbers), kinds, progress))  # noqa: PERF401 - extend() promises less
    except BaseException as error:  # noqa: BLE001 - it is raised again by whoever has shown what was measured
        ended = _named(error, numbers[len(done)])
    failed = f"{type(ended).__name__} on {plural(numbers[len(done)], 'rank')} ended the sweep" if ended else ""
    return RanksSweep.of(done, asked.scaling, failed=failed) if done else None, ended


def _numbers(asked: Asked, n: Sequence[int]) -> list[int]:
    numbers = list(n)
    wrong = [one for one in numbers if type(one) is not int or not 1 <= one <= MOST_RANKS]
    if wrong:
        raise OptionError(f"a sweep on {wrong[0]!r} ranks: 1 to {MOST_RANKS} processes", hint="n=1,2,4")
    if len(set(numbers)) < len(numbers) or len(numbers) < 2:
        words = ", ".join(map(str, numbers))
        raise OptionError(f"a sweep on {words or 'no'} ranks: two numbers or more, each once", hint="n=1,2,4")
    if asked.device not in DEVICES:
        raise OptionError(f"device kind {asked.device!r} is not known", hint="one of " + ", ".join(DEVICES))
    if asked.runs < 1 or asked.warmup < 0:
        raise OptionError(f"{asked.runs} runs after {asked.warmup}: one run or more, after none or more")
    return numbers


def _on(asked: Asked, n: int, most: int, kinds: dict[str, int], progress: Callable[[str], None]) -> list[RanksResult]:
    """The recorded runs on one number of ranks, in new processes.

    most: the largest number of the sweep.  kinds: the number of ranks on each kind of device so far.
    """
    said, running = _FirstRun(), current()
    device, backend = asked.device, asked.backend
    if running is not None and running.running:
        device = running.settings.device if device == "auto" else device
        backend = backend or running.settings.backend
    settings = settings_of(n, device, backend)
    each = max(1, (os.cpu_count() or 1) // most)  # as many threads a rank whatever their number
    progress(f"{plural(n, 'rank')} start")
    with Ranks(replace(settings, threads=each * n), said.outputs) as found:
        kinds.setdefault(found.device, n)
        if len(kinds) > 1:
            each_on = ", ".join(f"{plural(ranks, 'rank')} on {kind}" for kind, ranks in kinds.items())
            raise DeviceError(f"a sweep on several devices: {each_on}", hint="name one: --device sim")
        found.set_up()
        if asked.setup.strip():
            raise_failure(found.end_of(asked.setup))
        results: list[RanksResult] = []
        for i in range(asked.warmup + asked.runs):
            progress(f"{plural(n, 'rank')}, run {i + 1} of {asked.warmup + asked.runs}")
            recorded = asked.record if i >= asked.warmup else None
            end = found.end_of(asked.source, record=recorded, show=not said.quiet)
            said.quiet = True
            raise_failure(end)
            if recorded is not None and (result := found.recorded(end)) is not None:
                results.append(result)
        return results


def _named(error: BaseException, n: int) -> BaseException:
    """A failure that says on how many ranks it was."""
    if isinstance(error, RanksError):
        return RanksError.named(type(error).__name__, f"on {plural(n, 'rank')}: {error.message}", error.failures)
    return error


class _FirstRun:
    """What ranks print and display, until quiet is set: a cell that runs again would say all of it again."""

    def __init__(self) -> None:
        self.quiet = False
        self._real = outputs()
        self.outputs = Outputs(line=self._line, display=self._display, tell=self._real.tell)

    def _line(self, rank: int, stream: str, text: str) -> None:
        if not self.quiet:
            self._real.line(rank, stream, text)

    def _display(self, rank: int, bundle: dict[str, str]) -> None:
        if not self.quiet:
            self._real.display(rank, bundle)
