"""The ranks of the jobs in a report on several files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perfmagic.analysis.ranks.findings import mixed_jobs
from perfmagic.trace.model import Trace
from perfmagic.view.ranks.doc import RanksDoc
from perfmagic.view.ranks.table import HEAD, NOTE, rank_cells
from perfmagic.view.report.table import ReportTable


class TraceOf(Protocol):
    """What a report on several files needs of each result."""

    @property
    def trace(self) -> Trace: ...

    @property
    def comm_names(self) -> str | None: ...

    @property
    def title(self) -> str: ...


def rank_table(doc: RanksDoc) -> ReportTable:
    """The ranks of a job as a table of a report."""
    return ReportTable("Ranks", HEAD, tuple(rank_cells(doc)), f"{NOTE}. {doc.clocks[:1].upper()}{doc.clocks[1:]}")


def mixed_words(results: Sequence[TraceOf]) -> str:
    """Which jobs the files are of, where it is more than one; "" else."""
    return "".join(finding.sentence for finding in mixed_jobs([result.trace for result in results]))
