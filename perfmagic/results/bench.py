"""The result of %%bench and %%syncbench: the numbers of perfmagic.analysis.bench.result, with their picture."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from perfmagic.analysis.bench import compare as comparison_analysis
from perfmagic.analysis.bench import result as analysed
from perfmagic.analysis.bench import sweep as sweep_analysis
from perfmagic.results.result import Result
from perfmagic.trace.model import in_its_digits

if TYPE_CHECKING:
    from perfmagic.results.briefs.form import Brief


class BenchResult(Result, analysed.BenchSummary):  # noqa: D101 - the words of the numbers are its own
    __doc__ = analysed.BenchSummary.__doc__

    @classmethod
    def of(cls, numbers: analysed.BenchSummary) -> BenchResult:
        """The same numbers, as a result that can be shown."""
        if isinstance(numbers, BenchResult):
            return numbers
        return cls(**{field.name: getattr(numbers, field.name) for field in fields(numbers)})

    @in_its_digits
    def text(self) -> str:
        """The sentence, a table of the quantities, how they were measured, and warnings."""
        from perfmagic.view.bench.bench import bench_doc, bench_text

        return bench_text(bench_doc(self))

    @in_its_digits
    def html(self) -> str:
        """The sentence, Python and the device on one axis, the samples, how they were measured, and warnings."""
        from perfmagic.view.bench.bench import bench_doc, bench_html

        return bench_html(bench_doc(self))

    @in_its_digits
    def _brief(self) -> Brief:
        from perfmagic.results.briefs.benchmarks import bench_brief

        return bench_brief(self)


# The result of %compare and --vs: the verdicts of perfmagic.analysis.bench.compare, with their picture.


class CompareResult(Result, comparison_analysis.CompareSummary):  # noqa: D101 - the words of the numbers are its own
    __doc__ = comparison_analysis.CompareSummary.__doc__

    results: tuple[BenchResult, ...]

    @classmethod
    def of(cls, numbers: comparison_analysis.CompareSummary) -> CompareResult:
        """The same verdicts and benchmarks, as results that can be shown."""
        return cls(numbers.comparisons, tuple(BenchResult.of(summary) for summary in numbers.results))

    @classmethod
    def from_json(cls, text: str) -> CompareResult:
        """The comparison that to_json() wrote, judged again from its results. Raises OptionError for other text."""
        return cls.of(super().from_json(text))

    @in_its_digits
    def text(self) -> str:
        """The verdicts in sentences, and a table of medians and ratios."""
        from perfmagic.view.bench.compare import compare_text

        return compare_text(self)

    @in_its_digits
    def html(self) -> str:
        """The verdicts, each ratio with its confidence interval, and the samples in the order taken."""
        from perfmagic.view.bench.compare import compare_html

        return compare_html(self)

    @in_its_digits
    def _brief(self) -> Brief:
        from perfmagic.results.briefs.benchmarks import compare_brief

        return compare_brief(self)


# The result of --sweep: the times by size of perfmagic.analysis.bench.sweep, with their picture.


class SweepResult(Result, sweep_analysis.SweepSummary):  # noqa: D101 - the words of the numbers are its own
    __doc__ = sweep_analysis.SweepSummary.__doc__

    results: tuple[tuple[BenchResult, ...], ...]

    @classmethod
    def of(cls, numbers: sweep_analysis.SweepSummary) -> SweepResult:
        """The same times and benchmarks, as results that can be shown."""
        rows = tuple(tuple(BenchResult.of(summary) for summary in row) for row in numbers.results)
        return cls(numbers.name, numbers.values, rows, numbers.comparisons, numbers.failed)

    @classmethod
    def from_json(cls, text: str) -> SweepResult:
        """The sweep that to_json() wrote; values that are neither numbers nor text come back as their repr.

        Raises OptionError for other text.
        """
        return cls.of(super().from_json(text))

    @in_its_digits
    def text(self, *, details: bool = False) -> str:
        """The sentence, a row for each value and variant, and how it was measured.  details: more of the warnings."""
        from perfmagic.view.bench.sweep import sweep_text

        return sweep_text(self, details=details)

    @in_its_digits
    def html(self) -> str:
        """The sentence, time against size, and how it was measured."""
        from perfmagic.view.bench.sweep import sweep_html

        return sweep_html(self)

    @in_its_digits
    def _brief(self) -> Brief:
        from perfmagic.results.briefs.benchmarks import sweep_brief

        return sweep_brief(self)
