"""The result of opening dumps of torch's flight recorder: where ranks hang, and what keeps them there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.findings.answer import Conclusion
from perfmagic.analysis.flight.job import Job
from perfmagic.analysis.flight.report import FlightReport, RankState, RecordedCall, recorded_calls, report
from perfmagic.analysis.flight.standstill import Standstill
from perfmagic.base.errors import TraceError
from perfmagic.base.language import translated
from perfmagic.results.result import Result
from perfmagic.trace.formats.flight import Dump
from perfmagic.trace.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

    from perfmagic.results.briefs.form import Brief


@dataclass(frozen=True, eq=False)
class FlightResult(Result):
    """Which ranks hang in which collective or message, by dumps of torch's flight recorder.

    dumps: of each rank, as they were read.
    """

    dumps: tuple[Dump, ...] = field(repr=False)

    @classmethod
    def of(cls, dumps: Sequence[Dump]) -> FlightResult:
        """Of one job. Raises TraceError where two dumps are of one rank."""
        by_rank: dict[int, Dump] = {}
        for dump in dumps:
            if (other := by_rank.setdefault(dump.rank, dump)) is not dump:
                message = f"{other.file} and {dump.file} are both of rank {dump.rank}"
                raise TraceError(message, hint="open only the dumps of one job")
        return cls(tuple(by_rank[rank] for rank in sorted(by_rank)))

    @cached_property
    def _job(self) -> Job:
        return Job({dump.rank: dump for dump in self.dumps})

    @cached_property
    def _report(self) -> FlightReport:
        return report(self._job)

    @property
    def title(self) -> str:
        """The names of the files, the first and the last."""
        names = [dump.file for dump in self.dumps]
        return f"{names[0]} … {names[-1]}" if len(names) > 1 else names[0]

    @property
    def conclusion(self) -> Conclusion:
        """Who keeps whom waiting, and what to look at, in English."""
        return self._report.conclusion

    @property
    def standstills(self) -> Rows[Standstill]:
        """Every operation that ranks cannot leave; first what keeps them in the others."""
        return self._report.standstills

    @property
    def ranks(self) -> Rows[RankState]:
        """One row per rank: its last call that ended, the one that it waits in, and the user's line."""
        return self._report.ranks

    @cached_property
    def _calls(self) -> Rows[RecordedCall]:
        return recorded_calls(self._job)

    def calls(self) -> Rows[RecordedCall]:
        """Every recorded call of every rank: group, number, state, size (bytes), duration (ns) where torch timed it."""
        return self._calls

    def to_dict(self) -> dict[str, Any]:
        """The conclusion, the standstills and the ranks, ready for JSON."""
        return self._report.to_dict()

    def to_json(self) -> str:
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)

    def to_frame(self) -> pd.DataFrame:
        """One row per call, as calls(). Needs pandas."""
        return self.calls().to_frame()

    def text(self, *, details: bool = False) -> str:
        """Who keeps whom waiting, what to look at, and where the ranks are.  details: with the last stack of each."""
        from perfmagic.view.ranks.flight import flight_text

        return flight_text(self._report, details=details)

    def markdown(self) -> str:
        """The same as GitHub's Markdown."""
        from perfmagic.view.ranks.flight import flight_markdown

        return flight_markdown(self._report)

    def html(self) -> str:
        """The same for a notebook; stacks open with a click."""
        from perfmagic.view.ranks.flight import flight_html

        return flight_html(self._report)

    def page(self) -> str:
        """A self-contained page of it."""
        from perfmagic.view.page import page

        return page(self.title, [self.html()])

    def _brief(self) -> Brief:
        from perfmagic.results.briefs.jobs import flight_brief

        return flight_brief(self._report, self.title)

    def __repr__(self) -> str:
        return f"Flight recorder: {translated(self.conclusion.decides)}"
