"""The findings about several files of a report, taken as the ranks of one job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perfmagic.analysis.ranks.findings import RankFinding, rank_findings
from perfmagic.trace.model import Trace


class TraceOf(Protocol):
    """What a report on several files needs of each result."""

    @property
    def trace(self) -> Trace: ...

    @property
    def comm_names(self) -> str | None: ...

    @property
    def title(self) -> str: ...


def findings_of_ranks(results: Sequence[TraceOf]) -> tuple[RankFinding, ...]:
    """The findings of perfmagic.analysis.ranks.findings; none for one file."""
    return rank_findings([r.trace for r in results], results[0].comm_names) if len(results) > 1 else ()
