"""The result of comparing two timelines: the differences of perfmagic.analysis.diff, with their pictures."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from perfmagic.analysis.diff import diff as analysed
from perfmagic.results.result import Result
from perfmagic.results.timeline import TimelineResult
from perfmagic.trace.model import in_its_digits

if TYPE_CHECKING:
    import pandas as pd

    from perfmagic.results.briefs.form import Brief


@dataclass(frozen=True, eq=False)
class TraceComparison(Result, analysed.TraceDiff):  # noqa: D101 - the words of the numbers are its own
    __doc__ = analysed.TraceDiff.__doc__

    timelines: tuple[TimelineResult, TimelineResult]

    @classmethod
    def of(cls, numbers: analysed.TraceDiff, timelines: tuple[TimelineResult, TimelineResult]) -> TraceComparison:
        """The same differences, as a result that can be shown."""
        return cls(**{field.name: getattr(numbers, field.name) for field in fields(numbers)}, timelines=timelines)

    @property
    def predicted(self) -> bool:
        """Whether models gave the times of both, which are then written with two digits."""
        return all(timeline.trace.predicted for timeline in self.timelines)

    def to_frame(self) -> pd.DataFrame:
        """The parts, one per row: each instant of both timelines once. Needs pandas; every table has its own."""
        return self.parts.to_frame()

    @in_its_digits
    def text(self, *, details: bool = False) -> str:
        """How much longer, who decides in each, and at most three differences.

        details: what a reader must know, and tables of what changed, as well.
        """
        from perfmagic.view.diff.tables import comparison_text

        return comparison_text(self, "" if details else ".text(details=True)")

    @in_its_digits
    def html(self) -> str:
        """The verdict, the waterfall, both timelines on one axis, and tables of what changed."""
        from perfmagic.view.diff.tables import comparison_html

        return comparison_html(self, *self.timelines)

    @in_its_digits
    def markdown(self) -> str:
        """The verdict and the tables as GitHub's Markdown."""
        from perfmagic.view.diff.tables import comparison_markdown

        return comparison_markdown(self)

    @in_its_digits
    def page(self) -> str:
        """One self-contained page with every table, without a script and without a network."""
        from perfmagic.view.diff.tables import comparison_html
        from perfmagic.view.page import page

        return page(f"{self.a.name} and {self.b.name}", [comparison_html(self, *self.timelines, whole=True)])

    @in_its_digits
    def _brief(self) -> Brief:
        from perfmagic.results.briefs.benchmarks import trace_diff_brief

        return trace_diff_brief(self)

    def __repr__(self) -> str:
        return self.headline
