"""The functions behind `python -m perfmagic compare A B --fail-if-slower 5%`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perfmagic.analysis.gate import Gate, gate_benchmarks, gate_steps
from perfmagic.api.comparisons import compare_timelines, compared, is_trace_path
from perfmagic.api.options import ReadOptions
from perfmagic.api.reports import as_json
from perfmagic.api.saved import load
from perfmagic.base.errors import OptionError
from perfmagic.base.options import as_fraction
from perfmagic.results import BenchResult, CompareResult, TraceComparison
from perfmagic.view.diff.tables import comparison_text
from perfmagic.view.page import page

if TYPE_CHECKING:
    from typing_extensions import Unpack

Path = str | os.PathLike[str]


def limit_of(text: str) -> float:
    """A limit as a fraction: 0.05 for "5%". Raises OptionError for anything but a percentage from 0 to 100."""
    fraction = as_fraction(text)
    if not 0 <= fraction < 1:
        raise OptionError(f"{text} is not a percentage from 0 % to 100 %", hint="5% and 0.05 are five percent")
    return float(fraction)


def compare_files(first: Path, second: Path, **reading: Unpack[ReadOptions]) -> TraceComparison | CompareResult:
    """What changed between two traces, two folders with the traces of a job's ranks, or two saved benchmarks.

    Raises OptionError for one of each, TraceError for what cannot be read.
    """
    traces = [path for path in (first, second) if is_trace_path(path)]
    if len(traces) == 1 and all(map(os.path.exists, (first, second))):
        other = second if traces[0] == first else first
        raise OptionError(f"{traces[0]} is a trace, {other} is not", hint="give two traces, or two saved benchmarks")
    if traces:
        return compare_timelines(first, second, **reading)
    return compared([_benchmark(path) for path in (first, second)])


def _benchmark(path: Path) -> BenchResult:
    result = load(path)
    if not isinstance(result, BenchResult):
        raise OptionError(f"{path} holds no single benchmark", hint="perfmagic.bench(step).save(FILE) writes one")
    return result


def gate(comparison: TraceComparison | CompareResult, limit: float) -> Gate:
    """Whether the second is slower by more than the limit, a fraction."""
    if isinstance(comparison, TraceComparison):
        return gate_steps(comparison, limit)
    return gate_benchmarks(comparison, limit)


def text_of(comparison: TraceComparison | CompareResult, form: str | None) -> str:
    """What changed, for a terminal; "details", "json", "brief" or "markdown".

    Raises OptionError for Markdown of benchmarks.
    """
    if form == "brief":
        return as_json(comparison.brief())
    if isinstance(comparison, TraceComparison):
        if form is None:
            return comparison_text(comparison, "--details")
        return {"json": comparison.to_json, "markdown": comparison.markdown}.get(
            form, lambda: comparison.text(details=True)
        )()
    if form == "markdown":
        raise OptionError("a comparison of benchmarks has no Markdown", hint="--json and --html have all of it")
    return comparison.to_json() if form == "json" else comparison.text()


def page_of(comparison: TraceComparison | CompareResult) -> str:
    """The same as a self-contained page."""
    if isinstance(comparison, TraceComparison):
        return comparison.page()
    return page(" and ".join(result.name for result in comparison.results), [comparison.html()])
