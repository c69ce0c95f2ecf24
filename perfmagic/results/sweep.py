"""The result of --sweep: the times by size of perfmagic.analysis.bench.sweep, with their picture."""

from __future__ import annotations

from perfmagic.analysis.bench import sweep as analysed
from perfmagic.results.bench import BenchResult
from perfmagic.results.faces import Result


class SweepResult(Result, analysed.SweepSummary):  # noqa: D101 - the words of the numbers are its own
    __doc__ = analysed.SweepSummary.__doc__

    results: tuple[tuple[BenchResult, ...], ...]

    @classmethod
    def of(cls, numbers: analysed.SweepSummary) -> SweepResult:
        """The same times, with their faces and those of the benchmarks."""
        rows = tuple(tuple(BenchResult.of(one) for one in row) for row in numbers.results)
        return cls(numbers.name, numbers.values, rows, numbers.comparisons, numbers.failed)

    @classmethod
    def from_json(cls, text: str) -> SweepResult:
        """The sweep that to_json() wrote; values that are neither numbers nor text come back as their repr.

        Raises OptionError for other text.
        """
        return cls.of(super().from_json(text))

    def text(self) -> str:
        """The sentence, a row for each value and variant, and how it was measured."""
        from perfmagic.view.bench.sweep import sweep_text

        return sweep_text(self)

    def html(self) -> str:
        """The sentence, time against size, and how it was measured."""
        from perfmagic.view.bench.sweep import sweep_html

        return sweep_html(self)
