"""Checks of speed for pytest and for notebooks that nbval runs, with the verdict rules of %compare."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from perfmagic.analysis.bench import result as analysed
from perfmagic.benchmarks import bench, given_options, options_in_words
from perfmagic.capture.bench.spec import Work
from perfmagic.comparisons import compare, compared
from perfmagic.errors import OptionError
from perfmagic.keywords import documented
from perfmagic.results import BenchResult, CompareResult
from perfmagic.show import remember

__all__ = ["faster", "not_slower"]

Baseline: TypeAlias = "Callable[[], object] | BenchResult | str | os.PathLike[str]"


def __dir__() -> list[str]:
    """The checks alone, so that Tab offers nothing that was imported for this file."""
    return __all__


@documented(options_in_words(time_s=None))
def not_slower(
    body: Callable[[], object],
    baseline: Baseline,
    *,
    quantity: str | None = None,
    samples: int | None = None,
    min_samples: int | None = None,
    max_samples: int = 10_000,
    time_s: float | None = None,
    rel: float = 0.01,
    calls: int | None = None,
    warmup: int | None = None,
    cold: bool = False,
    cooldown_s: float = 0.0,
    runs: int = 1,
    flop: float | None = None,
    moved_bytes: float | None = None,
    work: Callable[[], Work] | None = None,
    setup_each: Callable[[], object] | None = None,
    name: str = "",
    code: str = "",
    setup: str = "",
) -> CompareResult:
    """Raise AssertionError where body is slower than the baseline beyond doubt.

    baseline: a function, measured interleaved with body; or an earlier benchmark, also as the file that its save()
    wrote. An earlier benchmark is less exact: measure both with runs=4 (docs/measuring.md, "Comparing").
    quantity: "returns" or "done"; None: *done* where a device was in use, else *returns*.
    Slower: the whole 95 % confidence interval of the ratio lies beyond 1 %, against an earlier benchmark beyond 3 %.
    An unclear verdict passes, so a busy machine does not fail the test; the comparison's `why` gives the reason.
    Without time_s and samples two functions are sampled up to 10 s while the verdict is unclear.
    """
    __tracebackhide__ = True
    found = _compared(body, baseline, quantity, given_options(locals()))
    if found.verdict == "slower":
        raise AssertionError(found.comparisons[0].sentence)
    return found


@documented(options_in_words(time_s=None))
def faster(
    body: Callable[[], object],
    baseline: Baseline,
    *,
    quantity: str | None = None,
    samples: int | None = None,
    min_samples: int | None = None,
    max_samples: int = 10_000,
    time_s: float | None = None,
    rel: float = 0.01,
    calls: int | None = None,
    warmup: int | None = None,
    cold: bool = False,
    cooldown_s: float = 0.0,
    runs: int = 1,
    flop: float | None = None,
    moved_bytes: float | None = None,
    work: Callable[[], Work] | None = None,
    setup_each: Callable[[], object] | None = None,
    name: str = "",
    code: str = "",
    setup: str = "",
) -> CompareResult:
    """Raise AssertionError unless body is faster than the baseline beyond doubt; the rest as in not_slower()."""
    __tracebackhide__ = True
    found = _compared(body, baseline, quantity, given_options(locals()))
    if found.verdict != "faster":
        raise AssertionError(found.comparisons[0].sentence)
    return found


def _compared(
    body: Callable[[], object], baseline: Baseline, quantity: str | None, options: dict[str, Any]
) -> CompareResult:
    """The baseline against the body."""
    if isinstance(body, (analysed.BenchSummary, str, os.PathLike)):
        raise OptionError("the first argument is the function that is checked, the second the baseline")
    name = options.pop("name") or getattr(body, "__name__", "<lambda>")
    if isinstance(baseline, (str, os.PathLike)):
        baseline = BenchResult.load(baseline)
    if not isinstance(baseline, analysed.BenchSummary):
        names = _distinct(getattr(baseline, "__name__", "<lambda>"), name)
        return compare(baseline, body, names=names, quantity=quantity, **options)
    if quantity not in (None, "returns", "done"):
        raise OptionError(f"an earlier benchmark is compared by returns or done, not by {quantity}")
    names = _distinct(baseline.name, name)
    options = {option: value for option, value in options.items() if value is not None}
    found = compared([replace(baseline, name=names[0]), bench(body, **options, name=names[1])], quantity)
    remember(found)
    return found


def _distinct(baseline: str, body: str) -> tuple[str, str]:
    """What both are called, so that the names tell them apart."""
    names = ("baseline" if baseline in ("", "<lambda>") else baseline, "body" if body in ("", "<lambda>") else body)
    return names if names[0] != names[1] else ("baseline", "body")
