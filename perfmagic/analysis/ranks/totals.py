"""The rank whose compute, copies or idle time stand out, where the files hold the same work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from perfmagic import units
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.one_host import what_else_runs
from perfmagic.analysis.ranks.one_job import OneJob
from perfmagic.analysis.ranks.rank_summary import Totals

OUTLIER_FRAC = 0.05  # of the median extent, as of the longest gap
OUTLIER_RATIO = 1.25  # to the median of the other ranks


@dataclass(frozen=True)
class Total:
    """One total by which ranks are compared.

    alone: only ranks that do not communicate are. A rank that comes early waits inside a collective while its Python
    runs ahead; one that comes late is idle instead: what its device waits for Python is not its own doing alone.
    """

    rule: str
    did: str
    of: Callable[[Totals], int]
    advice: str
    alone: bool = False


TOTALS = (
    Total(
        "rank_compute",
        "computed",
        lambda totals: totals.compute_ns,
        "Compare its kernels with another rank's: more of them mean an uneven share of the work, "
        "longer ones a slower device",
    ),
    Total(
        "rank_idle",
        "waited for Python",
        lambda totals: totals.waited_for_host_ns,
        "Look at its own findings, and at {what_else_runs}",
        alone=True,
    ),
    Total(
        "rank_copies",
        "copied",
        lambda totals: totals.copy_ns,
        "Compare its copies with another rank's: only it may load or save data, or use pageable memory",
    ),
)


def totals(job: OneJob) -> list[RankFinding]:
    """The ranks whose totals stand out; where the files hold other steps, that."""
    if len(job.ranks) < 2:
        return []
    steps = {rank: one.steps for rank, one in job.summaries.items()}
    if len(set(steps.values())) > 1:
        return [_other_steps(steps)]
    if not any(steps.values()) and (job.matching.refused or not job.matching.n):
        return []  # nothing says that the files cover the same time of the job
    communicate = any(one.totals.communication_ns for one in job.summaries.values())
    found = []
    for total in TOTALS:
        if total.alone and communicate:
            continue
        values = [total.of(job.summaries[rank].totals) for rank in job.ranks]
        i = int(np.argmax(values))
        others_ns = job.others(i, values)
        if values[i] - others_ns >= OUTLIER_FRAC * job.extent_ns and values[i] >= OUTLIER_RATIO * others_ns:
            found.append(_outlier(job, total, i, values))
    return found


def _outlier(job: OneJob, total: Total, i: int, values: list[int]) -> RankFinding:
    rest = np.delete(np.array(values), i)
    spread = f" ({units.duration(int(rest.min()))} to {units.duration(int(rest.max()))})" if len(rest) > 1 else ""
    others = f"the others {units.duration(float(np.median(rest)))} in the median{spread}"
    if len(rest) == 1:
        others = f"rank {job.ranks[1 - i]} {units.duration(int(rest[0]))}"
    return RankFinding(
        rule=total.rule,
        cost_ns=round(values[i] - float(np.median(rest))),
        cause=f"rank {job.ranks[i]} {total.did} longer",
        detail=f": {units.duration(values[i])}, {others}",
        ranks=(job.ranks[i],),
        advice=total.advice.format(what_else_runs=what_else_runs(job)),
    )


def _other_steps(steps: Mapping[int, tuple[int, ...]]) -> RankFinding:
    least, most = min(steps, key=lambda r: len(steps[r])), max(steps, key=lambda r: len(steps[r]))
    if least == most:  # as many, but others
        most = next(rank for rank in steps if steps[rank] != steps[least])
    return RankFinding(
        rule="other_steps",
        cost_ns=None,
        cause="ranks recorded different steps",
        detail=f": rank {most} has {_numbers(steps[most])}, rank {least} {_numbers(steps[least])}. "
        "Their totals are not compared",
        ranks=(most, least),
        advice="Give every rank the same torch.profiler.schedule",
    )


def _numbers(steps: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, steps[:3])) + (", …" if len(steps) > 3 else "")
    return f"{units.plural(len(steps), 'step')} ({shown})" if steps else "none"
