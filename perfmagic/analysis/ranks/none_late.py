"""What the job would take if no rank were late: each collective begun when the median of its ranks had come.

The question of Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025); the
answer here is a first one, without a simulation of what depends on what.
"""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.one_job import OneJob
from perfmagic.numerics.intervals import subtract, total_ns, union
from perfmagic.trace.columns import Int64

FEWEST = 3  # of two ranks the median lies between them: nobody came then


def none_late(job: OneJob) -> list[RankFinding]:
    """How much shorter the job would be, from 2 % of the extent on; nothing of fewer than three ranks."""
    if len(job.ranks) < FEWEST or not job.matching.n:
        return []
    won_ns = round(float(np.median(won_by_rank_ns(job))))
    if won_ns < job.notable_ns:
        return []
    left_ns = job.extent_ns - won_ns
    share = units.percent(won_ns / job.extent_ns)
    return [
        RankFinding(
            rule="none_late",
            cost_ns=None,
            cause=f"were no rank later than the median, the job would take {units.duration(left_ns)}",
            detail=f", not {units.duration(job.extent_ns)} in the median of its ranks ({share} less). Each of "
            f"{job.n_collectives} but the first would begin when the median of its ranks had come; all else is assumed "
            "to take as long as it did",
            ranks=tuple(job.ranks),
        )
    ]


def won_by_rank_ns(job: OneJob) -> list[int]:
    """How much earlier each rank would be through, were no rank late to any matched collective; by rank.

    For each collective that is the time from when the median rank came to when the last one did: a rank that waits
    then goes on that much earlier, less what it computed beside; one that is late needs that much less before it.
    Collectives at one time count once. Left out are a rank's first one, to which ranks come as their records begin, and
    what is no longer than the waits may be wrong.
    """
    spans: dict[int, list[Int64]] = {rank: [] for rank in job.ranks}
    for group in job.matching.groups:
        late_ns = group.median_ahead_ns
        late_ns = np.where(late_ns > group.errs_ns, late_ns, 0)
        columns = (group.start_ns, group.end_ns, group.waiting_ns)
        for rank, start, end, waiting in zip(group.ranks, *columns, strict=True):
            met = start + waiting
            spans[rank].append(np.stack([met - late_ns, start, met, end]))
    return [_won_ns(job, rank, spans[rank]) for rank in job.ranks]


def _won_ns(job: OneJob, rank: int, spans: list[Int64]) -> int:
    """Of one rank.  spans: of each group when its collectives would be met, were come to, met and left."""
    if not spans:
        return 0
    would, start, met, end = np.concatenate(spans, axis=1)
    after_ns = int(end[start.argmin()])
    would, start, met = (np.maximum(column, after_ns) for column in (would, start, met))
    hidden = subtract(union(start, met), job.summaries[rank].exposed_communication)
    return total_ns(subtract(union(would, met), hidden))
