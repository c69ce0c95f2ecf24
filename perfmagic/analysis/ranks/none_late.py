"""What the job would take if no rank were late: each collective begun when the median of its ranks had come.

The question of Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025). All
ranks are replayed for it; of a job too large for that, or whose traces are elsewhere, it is estimated without what
depends on what.
"""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.job.on_time import FEWEST
from perfmagic.analysis.ranks.job.prediction import job_in_passing
from perfmagic.analysis.ranks.one_job import OneJob
from perfmagic.analysis.replay.changes.on_time import OnTime
from perfmagic.analysis.replay.prediction import IF_OTHERS, Prediction
from perfmagic.numerics.intervals import subtract, total_ns, union
from perfmagic.trace.columns import Int64


def none_late(job: OneJob) -> list[RankFinding]:
    """How much shorter the job would be, from 2 % of the extent on; nothing of fewer than three ranks."""
    if len(job.ranks) < FEWEST or not job.matching.n:
        return []
    replayed = _replayed(job)
    if replayed is not None:
        return [_finding(job, *_predicted(replayed))] if replayed.won_ns >= job.notable_ns else []
    won_ns = round(float(np.median(won_by_rank_ns(job))))
    return [_finding(job, *_estimated(job, won_ns))] if won_ns >= job.notable_ns else []


def _finding(job: OneJob, time: str, detail: str) -> RankFinding:
    cause = f"were no rank later than the median, the job would take {time}"
    return RankFinding(rule="none_late", cost_ns=None, cause=cause, detail=detail, ranks=tuple(job.ranks))


def _replayed(job: OneJob) -> Prediction | None:
    """The job with nobody late; None where that is not known, or not in passing."""
    found = job_in_passing(job.all)
    told = found.predict([OnTime()], on=job.ranks)[0] if found else None
    return None if told is None or told.refused else told


def _predicted(told: Prediction) -> tuple[str, str]:
    span = f"{units.duration(told.low_ns)} to {units.duration(told.high_ns)}"
    others = f", {IF_OTHERS}" if told.if_others else ""
    less = units.percent(told.won_ns / told.recorded_ns)
    detail = (
        f" ({span}){others}, not {units.duration(told.recorded_ns)} ({less} less). All ranks are replayed, with what "
        "made one late to a collective no longer than on the median rank"
    )
    return f"about {units.duration(told.expected_ns)}", detail


def _estimated(job: OneJob, won_ns: int) -> tuple[str, str]:
    share = units.percent(won_ns / job.extent_ns)
    detail = (
        f", not {units.duration(job.extent_ns)} in the median of its ranks ({share} less). Each of "
        f"{job.n_collectives} but the first would begin when the median of its ranks had come; all else is assumed to "
        "take as long as it did"
    )
    return units.duration(job.extent_ns - won_ns), detail


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
