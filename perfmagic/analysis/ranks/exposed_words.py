"""What the exposed communication of the ranks is: waiting for late ranks, data on their way, or both."""

from __future__ import annotations

from statistics import median_low

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import sentences
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.one_job import OneJob
from perfmagic.analysis.ranks.summary import RankStat

MORE = 1.25  # times as much is more: what is about equal keeps its order from run to run
_ADVICE = {
    "waiting": "A faster network would hardly help: the ranks have to arrive together",
    "transfer": "Overlap it with compute, or move fewer bytes",
}
_BOTH = {  # in a sentence, the larger part first
    "waiting": "have the ranks arrive together",
    "transfer": "overlap the transfer with compute or move fewer bytes",
}


def exposed(job: OneJob) -> list[RankFinding]:
    """The parts of the exposed communication, the larger first, of about as much waiting; both where both are notable.

    Its cost is that of the transfer: what waiting costs is told of the late ranks.
    """
    table = job.all.table
    waiting_ns, transfer_ns, exposed_ns = (
        float(np.median([getattr(row, name) for row in table]))
        for name in ("exposed_waiting_ns", "exposed_transfer_ns", "exposed_communication_ns")
    )
    if exposed_ns < job.notable_ns or waiting_ns + transfer_ns < job.notable_ns:
        return []
    by_size = [("waiting", waiting_ns), ("transfer", transfer_ns)]
    if transfer_ns > MORE * waiting_ns:
        by_size.reverse()
    told = [name for name, ns in by_size if ns >= job.notable_ns] or [by_size[0][0]]
    cause, advice = f"mostly {told[0]}", _ADVICE[told[0]]
    if len(told) > 1:
        cause, advice = " and ".join(told), ", and ".join(_BOTH[name] for name in told)
    of_rank = sentences(*(_words(job, row) for row in table)) if len(table) == 2 else _median_words(job, by_size)
    return [
        RankFinding(
            rule="rank_exposed",
            cost_ns=median_low([row.exposed_transfer_ns for row in table]) if "transfer" in told else None,
            cause=f"exposed communication is {cause}",
            detail=f": {of_rank}",
            ranks=tuple(job.ranks),
            advice=advice[0].upper() + advice[1:],
        )
    ]


def _median_words(job: OneJob, by_size: list[tuple[str, float]]) -> str:
    exposed_ns = float(np.median([row.exposed_communication_ns for row in job.all.table]))
    words = {"waiting": "waiting for the last rank", "transfer": "moving data"}
    parts = ", ".join(f"{units.duration(ns)} {words[name]}" for name, ns in by_size)
    return f"a rank has {units.duration(exposed_ns)} of it in the median, {parts}"


def _words(job: OneJob, row: RankStat) -> str:
    """Of two ranks each has its sentence: a median of two is neither's."""
    other = next(rank for rank in job.ranks if rank != row.rank)
    parts = [
        f"{units.duration(row.exposed_waiting_ns)} waiting for rank {other}",
        f"{units.duration(row.exposed_transfer_ns)} moving data",
    ]
    if row.exposed_unmatched_ns >= job.notable_ns:
        parts.append(f"{units.duration(row.exposed_unmatched_ns)} of which rank {other} has no record")
    return f"rank {row.rank} has {units.duration(row.exposed_communication_ns)} of it, {', '.join(parts)}"
