"""The result of `ranks.what_if(...)`: what a job would take with changes on its ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from perfmagic.analysis.ranks.job.path import JobPath
from perfmagic.analysis.ranks.job.prediction import job_of
from perfmagic.analysis.ranks.summary import Ranks
from perfmagic.analysis.replay.path_shares import PathShare
from perfmagic.results.predicted import Bars, Predicted


@dataclass(frozen=True, eq=False)
class RanksWhatIf(Predicted):
    """A job with changes on some ranks, predicted by replaying the records of all.

    prediction: the numbers.  ranks: the record it stands on.  after: what would hold the job, None where nothing is
    predicted.  Times in ns.
    """

    checked_against: ClassVar[str] = "recorded ranks with device ops"
    to_check: ClassVar[str] = "run the changed cell under %%ranks -o after, then %compare predicted after"

    ranks: Ranks = field(repr=False)
    after: JobPath | None = field(repr=False)

    @property
    def path(self) -> tuple[PathShare, ...]:
        """What the critical path of the predicted job consists of, the longest first."""
        return () if self.after is None else self.after.shares

    def _measured_ns(self, measured: object) -> int | None:
        ranks = getattr(measured, "ranks", None)
        if not isinstance(ranks, Ranks) or len(ranks.traces) != len(ranks.ranks) or ranks.idle:
            return None
        job = job_of(ranks)
        return None if job.unreadable else job.path.run_ns

    def _bars(self) -> Bars:
        return (("recorded", job_of(self.ranks).path.shares), ("predicted", self.path)) if self.path else ()

    def __repr__(self) -> str:
        return f"RanksWhatIf: {self.sentence}"
