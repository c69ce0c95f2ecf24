"""Checks of speed for pytest and for notebooks that nbval runs, with the verdict rules of %compare."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from perfmagic.analysis.bench.compare import CompareResult
from perfmagic.analysis.bench.result import BenchResult
from perfmagic.benchmarks import bench, compare
from perfmagic.errors import OptionError

Baseline: TypeAlias = "Callable[[], object] | BenchResult | str | os.PathLike[str]"


def not_slower(
    body: Callable[[], object], baseline: Baseline, *, quantity: str | None = None, **options: Any
) -> CompareResult:
    """Raise AssertionError where body is slower than the baseline beyond doubt.

    baseline: another function, measured in turns with body; or a benchmark from before, also as the file that its
    save() wrote, which knows less: take both with runs=4 (perfmagic.analysis.bench.separate_runs says why).
    Slower: the whole 95 % interval of the ratio lies beyond 1 %, beside a benchmark from before beyond 3 %. What is
    unclear passes: a test must not fail because the machine was busy, or another one; the result's `why` tells.
    options: as in perfmagic.compare, beside a benchmark from before as in perfmagic.bench.
    """
    __tracebackhide__ = True
    found = _compared(body, baseline, quantity, options)
    if found.verdict == "slower":
        raise AssertionError(found.comparisons[0].sentence)
    return found


def faster(
    body: Callable[[], object], baseline: Baseline, *, quantity: str | None = None, **options: Any
) -> CompareResult:
    """Raise AssertionError unless body is faster than the baseline beyond doubt; the rest as in not_slower."""
    __tracebackhide__ = True
    found = _compared(body, baseline, quantity, options)
    if found.verdict != "faster":
        raise AssertionError(found.comparisons[0].sentence)
    return found


def _compared(
    body: Callable[[], object], baseline: Baseline, quantity: str | None, options: dict[str, Any]
) -> CompareResult:
    """The baseline against the body."""
    if isinstance(body, (BenchResult, str, os.PathLike)):
        raise OptionError("the first argument is the function that is checked, the second the baseline")
    if not isinstance(baseline, (BenchResult, str, os.PathLike)):
        return compare(baseline, body, names=_names(baseline, body), quantity=quantity, **options)
    before = BenchResult.load(baseline) if isinstance(baseline, (str, os.PathLike)) else baseline
    if quantity not in (None, "returns", "done"):
        raise OptionError(f"a function is held against a benchmark by returns or done, not by {quantity}")
    own = options.pop("name", "") or getattr(body, "__name__", "<lambda>")
    was = before.name or "baseline"
    names = was, "body" if own == "<lambda>" else own
    names = names if len({*names}) == 2 else ("baseline", "body")
    return compare(replace(before, name=names[0]), bench(body, **{**options, "name": names[1]}), quantity=quantity)


def _names(baseline: Callable[[], object], body: Callable[[], object]) -> tuple[str, str]:
    """Their own, where both have one and these differ."""
    own = getattr(baseline, "__name__", "<lambda>"), getattr(body, "__name__", "<lambda>")
    return ("baseline", "body") if "<lambda>" in own or own[0] == own[1] else own
