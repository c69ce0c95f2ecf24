"""The timelines of several files: those that are ranks of one job together, all others alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from perfmagic.analysis.ranks.findings import mixed_jobs
from perfmagic.analysis.ranks.jobs import jobs
from perfmagic.analysis.ranks.rank_summary import host_as_device
from perfmagic.analysis.ranks.ranks import ranks_of
from perfmagic.base import units
from perfmagic.base.errors import OptionError
from perfmagic.base.terminal import escaped
from perfmagic.results.ranks import RanksResult
from perfmagic.results.result import Result
from perfmagic.results.timeline import TimelineResult


class Traces(tuple[TimelineResult, ...]):  # noqa: SLOT001  it keeps what was worked out
    """The timelines of several files, in order.

    jobs: those that are ranks of one job, on one axis each, the largest job first.  alone: all others.  mixed: which
    jobs the files are of, in a sentence; "" for one job.
    """

    @cached_property
    def _grouped(self) -> tuple[list[RanksResult], list[TimelineResult]]:
        return grouped(self)

    @property
    def jobs(self) -> list[RanksResult]:
        return self._grouped[0]

    @property
    def alone(self) -> list[TimelineResult]:
        return self._grouped[1]

    @property
    def mixed(self) -> str:
        return "".join(finding.sentence for finding in mixed_jobs([timeline.trace for timeline in self]))

    @property
    def ranks(self) -> RanksResult:
        """The ranks of the largest job on one axis. Raises OptionError where there are none."""
        if not self.jobs:
            raise OptionError(
                f"{units.plural(len(self), 'trace')}, and no two of them are ranks of one job",
                hint=self.mixed or "open the files of several ranks",
            )
        return self.jobs[0]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What IPython shows: the ranks on one axis, then the timelines that stand alone."""
        shown: list[Result] = [*self.jobs, *self.alone]
        mixed = f"<p>{escaped(self.mixed)}</p>" if self.mixed else ""
        return {
            "text/plain": "\n\n".join(
                [*([self.mixed] if self.mixed else []), *(timeline.text() for timeline in shown)]
            ),
            "text/html": mixed + "".join(timeline.html() for timeline in shown),
        }


def grouped(results: Sequence[TimelineResult]) -> tuple[list[RanksResult], list[TimelineResult]]:
    """The jobs of which several ranks are given, the largest first, and the timelines that stand alone."""
    of_jobs: list[RanksResult] = []
    alone: list[TimelineResult] = []
    for job in jobs([result.trace for result in results]):
        members = [results[i] for i in job.members]
        with_ops = [timeline for timeline in members if len(host_as_device(timeline.trace).ops)]
        ranks = ranks_of([timeline.trace for timeline in with_ops], with_ops[0].comm_names) if with_ops else None
        if ranks is None:
            alone += members
            continue
        of_jobs.append(RanksResult(tuple(with_ops), ranks))
        alone += [timeline for timeline in members if timeline not in with_ops]
    return of_jobs, alone
