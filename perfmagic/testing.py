"""Checks of speed for pytest and for notebooks that nbval runs, with the verdict rules of %compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perfmagic.analysis.compare import CompareResult
from perfmagic.benchmarks import compare


def not_slower(
    body: Callable[[], object], baseline: Callable[[], object], *, quantity: str | None = None, **options: Any
) -> CompareResult:
    """Measure two functions in turns, and raise AssertionError where body is slower than the baseline beyond doubt.

    Slower: the whole 95 % interval of the ratio lies beyond 1 %. What is unclear passes: a test must not fail because
    the machine was busy.  options: as in perfmagic.compare.
    """
    __tracebackhide__ = True
    found = compare(baseline, body, names=_names(baseline, body), quantity=quantity, **options)
    if found.verdict == "slower":
        raise AssertionError(found.comparisons[0].sentence)
    return found


def faster(
    body: Callable[[], object], baseline: Callable[[], object], *, quantity: str | None = None, **options: Any
) -> CompareResult:
    """Measure two functions in turns, and raise AssertionError unless body is faster beyond doubt."""
    __tracebackhide__ = True
    found = compare(baseline, body, names=_names(baseline, body), quantity=quantity, **options)
    if found.verdict != "faster":
        raise AssertionError(found.comparisons[0].sentence)
    return found


def _names(baseline: Callable[[], object], body: Callable[[], object]) -> tuple[str, str]:
    """Their own, where both have one and these differ."""
    own = getattr(baseline, "__name__", "<lambda>"), getattr(body, "__name__", "<lambda>")
    return ("baseline", "body") if "<lambda>" in own or own[0] == own[1] else own
