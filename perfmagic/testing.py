"""Checks of speed and memory for pytest and for notebooks that nbval runs; speed by the verdict rules of %compare."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

from perfmagic.analysis.bench import result as analysed
from perfmagic.api.baselines import FOLDER, RUNS, is_name, load_baseline, refuse_elsewhere, save_baseline
from perfmagic.api.benchmarks import SamplingOptions, bench, bench_keywords
from perfmagic.api.comparisons import GateOptions, compare, compared
from perfmagic.api.same_work import split
from perfmagic.api.show import remember
from perfmagic.base import units
from perfmagic.base.errors import CaptureError, OptionError
from perfmagic.base.options import documented
from perfmagic.capture.bench.device_use import Devices
from perfmagic.capture.devices.backends import active_backends
from perfmagic.capture.unawaited import refuse_async, refuse_unawaited
from perfmagic.results import BenchResult, CompareResult

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["faster", "no_growth", "not_slower", "peak_below", "record_baseline"]

Path: TypeAlias = "str | os.PathLike[str]"
Baseline: TypeAlias = "Callable[[], object] | BenchResult | Path"


def __dir__() -> list[str]:
    """The checks alone, so that Tab offers nothing that was imported for this file."""
    return __all__


@bench_keywords(GateOptions, time=None, runs=None)
def not_slower(
    body: Callable[[], object],
    baseline: Baseline,
    *,
    quantity: str | None = None,
    baselines: Path = FOLDER,
    **options: Unpack[GateOptions],
) -> CompareResult:
    """Raise AssertionError where body is slower than the baseline beyond doubt.

    baseline: a function, measured interleaved with body; an earlier benchmark, also as the file that its save() wrote,
    which ends in .json; or the name of one that record_baseline() kept. An earlier benchmark is less exact: measure
    both with runs=4, which is usual for names (docs/measuring.md, "Comparing").
    baselines: the folder of those with names. Raises OptionError where there is none of that name. It raises that, too,
    where machine, device, driver, threads, or versions of Python, torch or perfmagic differ.
    quantity: "returns" or "done"; None: *done* where a device was in use, else *returns*.
    Slower: the whole 95 % confidence interval of the ratio lies beyond 1 %. Against an earlier benchmark it
    lies beyond 3 %, or 10 % where the host does the work.
    Functions that do not do the same work raise, too, with the reason (docs/same-work.md).
    An unclear verdict passes, so a busy machine does not fail the test; the comparison's `why` gives the reason.
    Without time and samples two functions are sampled up to 10 s while the verdict is unclear.

    >>> comparison = perfmagic.testing.not_slower(lambda: 1_249_975_000, lambda: sum(range(50_000)), samples=20)
    >>> comparison.verdict
    'faster'
    """
    __tracebackhide__ = True
    comparison = _compared(body, baseline, quantity, baselines, options)
    if comparison.verdict in ("slower", "not comparable"):
        raise AssertionError(comparison.comparisons[0].sentence)
    return comparison


@bench_keywords(GateOptions, time=None, runs=None)
def faster(
    body: Callable[[], object],
    baseline: Baseline,
    *,
    quantity: str | None = None,
    baselines: Path = FOLDER,
    **options: Unpack[GateOptions],
) -> CompareResult:
    """Raise AssertionError unless body is faster than the baseline beyond doubt; the rest as in not_slower()."""
    __tracebackhide__ = True
    comparison = _compared(body, baseline, quantity, baselines, options)
    if comparison.verdict != "faster":
        raise AssertionError(comparison.comparisons[0].sentence)
    return comparison


@bench_keywords(SamplingOptions, runs=RUNS)
def record_baseline(
    body: Callable[[], object], name: str, *, baselines: Path = FOLDER, **options: Unpack[SamplingOptions]
) -> BenchResult:
    """Measure body and keep the result by name, for not_slower(body, name) and faster(body, name) later.

    name: with slashes for folders. One of that name is replaced.
    baselines: the folder to keep it in. Raises OptionError where it cannot be written.
    """
    result = bench(body, **options, name=name)
    save_baseline(result, name, baselines)
    return result


@documented()
def peak_below(body: Callable[[], object], limit: str | int) -> int:
    """Raise AssertionError where one call of body allocates more on the devices than the limit, at its peak.

    limit: "1.2 GB", "512 MiB" or bytes. What was allocated before the call counts: the peak is the devices', as
    `torch.cuda.max_memory_allocated()` gives it, summed over the devices in use. That counter is reset.
    Returns the peak in bytes. Raises CaptureError where no device in use reports its memory, OptionError for a limit
    that cannot be read.
    """
    __tracebackhide__ = True
    most = units.bytes_of(limit)
    if most is None:
        raise OptionError(f"peak_below(limit={limit!r}) is not a number of bytes", hint='peak_below(step, "1.2 GB")')
    refuse_async("peak_below", body)
    before = _allocated_bytes()
    for backend in active_backends():
        backend.reset_peak_memory()
    refuse_unawaited("peak_below", body())
    peak = _memory_bytes("peak_below")[1]
    if peak > most:
        held = f", of which {units.size(before)} were allocated before it" if before else ""
        raise AssertionError(
            f"{_name(body)} allocated {units.size(peak)} at its peak{held}; the limit is {units.size(most)}, "
            f"{units.size(peak - most)} less"
        )
    return peak


@documented()
def no_growth(body: Callable[[], object], *, rounds: int = 5) -> int:
    """Raise AssertionError where calls of body leave more and more allocated on the devices.

    body is called once, as first calls make what stays (optimizer states, caches), then `rounds` (5) more times. It
    grows where each of those rounds ends with more than the one before; an even use after a step up passes.
    Returns the bytes that the last round ended with. Raises CaptureError where no device in use reports its memory.
    """
    __tracebackhide__ = True
    if index(rounds) < 2:
        message = f"no_growth(rounds={rounds!r}): 2 rounds or more are needed"
        raise OptionError(message, hint="no_growth(step, rounds=5)")
    refuse_async("no_growth", body)
    ends = []
    for _ in range(rounds + 1):
        refuse_unawaited("no_growth", body())
        gc.collect()  # what only a cycle holds is gone sooner or later
        ends.append(_memory_bytes("no_growth")[0])
    grown = [after - before for before, after in pairwise(ends)]
    if min(grown) > 0:
        raise AssertionError(
            f"{_name(body)} leaves {units.size((ends[-1] - ends[0]) / rounds)} more allocated with each call: "
            f"{units.size(ends[0])} after the first, {units.size(ends[-1])} after {rounds} more"
        )
    return ends[-1]


def _allocated_bytes() -> int:
    """What is allocated now on the devices in use; 0 before there is one."""
    return _memory_bytes("peak_below")[0] if active_backends() else 0


def _memory_bytes(check: str) -> tuple[int, int]:
    """Bytes allocated now and at the peak, on all devices in use."""
    devices = Devices(active_backends)
    devices.refresh()
    memory_bytes = devices.memory_bytes()
    if memory_bytes is None:
        names = ", ".join(backend.kind for backend in devices.backends)
        raise CaptureError(
            f"{check}: {f'{names} does not report' if names else 'no device is in use that reports'} allocated memory",
            hint="run the body on perfmagic.device(): CUDA and the simulated device report it",
        )
    return memory_bytes


def _name(body: Callable[[], object]) -> str:
    name = getattr(body, "__name__", "")
    return "the body" if name in ("", "<lambda>") else f"{name}()"


def _compared(
    body: Callable[[], object], baseline: Baseline, quantity: str | None, folder: Path, options: GateOptions
) -> CompareResult:
    """The body against the baseline.  folder: of baselines with names."""
    __tracebackhide__ = True
    if isinstance(body, (analysed.BenchSummary, str, os.PathLike)):
        raise OptionError("the first argument is the function that is checked, the second the baseline")
    name = options["name"] or getattr(body, "__name__", "<lambda>")
    given: dict[str, Any] = {key: value for key, value in options.items() if key != "name" and value is not None}
    if callable(baseline) and not isinstance(baseline, analysed.BenchSummary):
        names = _distinct(getattr(baseline, "__name__", "<lambda>"), name)
        return compare(baseline, body, names=names, quantity=quantity, **given)
    checks, given = split(given)
    if asked := [key for key, value in checks.items() if value not in ((), False, "fresh")]:
        raise OptionError(f"{asked[0]}: an earlier benchmark is not run again", hint="give both functions")
    if is_name(baseline):
        return _against_named(body, str(baseline), quantity, folder, {"runs": RUNS, **given, "name": name})
    if isinstance(baseline, (str, os.PathLike)):
        baseline = BenchResult.load(baseline)
    if not isinstance(baseline, analysed.BenchSummary):
        raise OptionError(f"a function or a benchmark is needed to compare with, not {type(baseline).__name__}")
    _check_quantity(quantity)
    return _beside(baseline, bench(body, **given, name=name), quantity)


def _against_named(
    body: Callable[[], object], name: str, quantity: str | None, folder: Path, given: dict[str, Any]
) -> CompareResult:
    """The body against a baseline that was kept by name. Raises OptionError where both were not measured alike."""
    __tracebackhide__ = True
    _check_quantity(quantity)
    baseline = load_baseline(name, folder)
    measured = bench(body, **given)
    refuse_elsewhere(baseline, measured, name)
    return _beside(replace(baseline, name="baseline"), measured, quantity)


def _check_quantity(quantity: str | None) -> None:
    if quantity not in (None, "returns", "done"):
        raise OptionError(f"an earlier benchmark is compared by returns or done, not by {quantity}")


def _beside(baseline: BenchResult, measured: BenchResult, quantity: str | None) -> CompareResult:
    """A benchmark against an earlier one, under names that differ."""
    names = _distinct(baseline.name, measured.name)
    comparison = compared([replace(baseline, name=names[0]), replace(measured, name=names[1])], quantity)
    remember(comparison)
    return comparison


def _distinct(baseline: str, body: str) -> tuple[str, str]:
    """Names of the two that differ."""
    names = ("baseline" if baseline in ("", "<lambda>") else baseline, "body" if body in ("", "<lambda>") else body)
    return names if names[0] != names[1] else ("baseline", "body")
