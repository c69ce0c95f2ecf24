"""The result of %%bench and %%syncbench: the numbers of perfmagic.analysis.bench.result, with their picture."""

from __future__ import annotations

from dataclasses import fields

from perfmagic.analysis.bench import result as analysed
from perfmagic.results.faces import Result


class BenchResult(Result, analysed.BenchSummary):  # noqa: D101 - the words of the numbers are its own
    __doc__ = analysed.BenchSummary.__doc__

    @classmethod
    def of(cls, numbers: analysed.BenchSummary) -> BenchResult:
        """The same numbers, with their faces."""
        if isinstance(numbers, BenchResult):
            return numbers
        return cls(**{one.name: getattr(numbers, one.name) for one in fields(numbers)})

    def text(self) -> str:
        """The sentence, a table of the quantities, how they were measured, and warnings."""
        from perfmagic.view.bench.bench import bench_doc, bench_text

        return bench_text(bench_doc(self))

    def html(self) -> str:
        """The sentence, Python and the device on one axis, the samples, how they were measured, and warnings."""
        from perfmagic.view.bench.bench import bench_doc, bench_html

        return bench_html(bench_doc(self))
