"""The timelines of several files: those that are ranks of one job together, all others alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from perfmagic import units
from perfmagic.analysis.ranks.findings import mixed_jobs
from perfmagic.analysis.ranks.host_as_device import host_as_device
from perfmagic.analysis.ranks.jobs import jobs
from perfmagic.analysis.ranks.summary import ranks_of
from perfmagic.errors import OptionError
from perfmagic.results.faces import Result
from perfmagic.results.ranks import RanksResult
from perfmagic.results.timeline import TimelineResult
from perfmagic.view.svg.canvas import escaped


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
        return "".join(finding.sentence for finding in mixed_jobs([one.trace for one in self]))

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
            "text/plain": "\n\n".join([*([self.mixed] if self.mixed else []), *(one.text() for one in shown)]),
            "text/html": mixed + "".join(one.html() for one in shown),
        }


def grouped(results: Sequence[TimelineResult]) -> tuple[list[RanksResult], list[TimelineResult]]:
    """The jobs of which several ranks are given, the largest first, and the timelines that stand alone."""
    found: list[RanksResult] = []
    alone: list[TimelineResult] = []
    for job in jobs([result.trace for result in results]):
        mine = [results[i] for i in job.members]
        with_ops = [one for one in mine if len(host_as_device(one.trace).ops)]
        ranks = ranks_of([one.trace for one in with_ops], with_ops[0].comm_names) if with_ops else None
        if ranks is None:
            alone += mine
            continue
        found.append(RanksResult(tuple(with_ops), ranks))
        alone += [one for one in mine if one not in with_ops]
    return found, alone
