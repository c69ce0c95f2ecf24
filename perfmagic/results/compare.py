"""The result of %compare and --vs: the verdicts of perfmagic.analysis.bench.compare, with their picture."""

from __future__ import annotations

from perfmagic.analysis.bench import compare as analysed
from perfmagic.results.bench import BenchResult
from perfmagic.results.faces import Result


class CompareResult(Result, analysed.CompareSummary):  # noqa: D101 - the words of the numbers are its own
    __doc__ = analysed.CompareSummary.__doc__

    results: tuple[BenchResult, ...]

    @classmethod
    def of(cls, numbers: analysed.CompareSummary) -> CompareResult:
        """The same verdicts, with their faces and those of the benchmarks."""
        return cls(numbers.comparisons, tuple(BenchResult.of(one) for one in numbers.results))

    @classmethod
    def from_json(cls, text: str) -> CompareResult:
        """The comparison that to_json() wrote, judged anew from its results. Raises OptionError for other text."""
        return cls.of(super().from_json(text))

    def text(self) -> str:
        """The verdicts in sentences, and a table of medians and ratios."""
        from perfmagic.view.bench.compare import compare_text

        return compare_text(self)

    def html(self) -> str:
        """The verdicts, each ratio with its confidence interval, and the samples in the order taken."""
        from perfmagic.view.bench.compare import compare_html

        return compare_html(self)
