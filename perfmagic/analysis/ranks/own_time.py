"""What a late rank spent more time with than the others, between leaving a collective and coming last to the next.

All ranks leave a collective together, so that what one of them does from there to its coming to the next is its own
time. Totals of a whole trace are not: a rank that comes early waits inside collectives while its Python runs ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.ranks.matching import MatchedGroup
from perfmagic.analysis.ranks.one_job import OneJob
from perfmagic.numerics.intervals import covered_ns, union
from perfmagic.trace.columns import NONE, Int64

Spent = npt.NDArray[np.int64]  # by rank of a group and collective, in ns; shape (r, n)


@dataclass(frozen=True)
class _Own:
    """What a rank may spend more of than others before a collective, and what to do about it.

    did: in words, with a place for the rank.  of: of one rank, in each [start, end).
    """

    did: str
    of: Callable[[Facts, Int64, Int64], Int64]
    advice: str


_OWN = (
    _Own(
        "{rank} computed",
        lambda facts, start, end: covered_ns(facts.breakdown.intervals["compute"], start, end),
        "Compare its kernels with another rank's: more of them mean an uneven share of the work, "
        "longer ones a slower device",
    ),
    _Own(
        "{rank} copied",
        lambda facts, start, end: covered_ns(facts.breakdown.intervals["copy"], start, end),
        "Compare its copies with another rank's: only it may load or save data, or use pageable memory",
    ),
    _Own(
        "the device of {rank} executed nothing for",
        lambda facts, start, end: end - start - covered_ns(facts.breakdown.intervals["busy"], start, end),
        "Look at what its device waited for in its own findings",
    ),
)
_EXECUTED_NOTHING = _OWN[2]
_SLOW_HOST = "Look at what Python does there, and at what else runs on its host"


def own_time(job: OneJob, i: int) -> tuple[str, str]:
    """What a rank spent more time with before the collectives that it came last to, in words, and what to do."""
    than, rank = job.than_others(i), f"rank {job.ranks[i]}"
    excess_ns, own = max(((_excess_ns(job, i, _on_device(own)), own) for own in _OWN), key=lambda one: one[0])
    if excess_ns < job.notable_ns:
        return "", f"Look at what {rank} does before its collectives"
    longer = f"{own.did.format(rank=rank)} {units.duration(excess_ns)} longer than {than}"
    why, advice = f"between these and the collectives before them, {longer}", own.advice
    host_ns = _excess_ns(job, i, _on_host) if own is _EXECUTED_NOTHING else 0
    if host_ns >= job.notable_ns:
        python = f"the Python of {rank} took {units.duration(host_ns)} longer from the launches of those"
        return sentences(why, f"{python} to the launches of these, blocking calls left out"), _SLOW_HOST
    return why, advice


def _excess_ns(job: OneJob, i: int, spent_by: Callable[[OneJob, MatchedGroup], Spent]) -> float:
    """By how much what a rank spent exceeds the median of the others, summed over the collectives it came last to."""
    excess_ns = 0.0
    for group, place, where in job.last_at(i):
        if len(where):
            spent = spent_by(job, group)
            excess_ns += float((spent[place] - np.median(np.delete(spent, place, axis=0), axis=0))[where].sum())
    return excess_ns


def _on_device(own: _Own) -> Callable[[OneJob, MatchedGroup], Spent]:
    """From leaving the collective before, of the same group, to coming to each; from where the rank began."""

    def spent(job: OneJob, group: MatchedGroup) -> Spent:
        rows = []
        for rank, starts, ends in zip(group.ranks, group.start_ns, group.end_ns, strict=True):
            began = min(job.all.began_ns(rank), int(starts[0]))
            rows.append(own.of(job.facts[rank], np.concatenate(([began], ends[:-1])), starts))
        return np.array(rows)

    return spent


def _on_host(job: OneJob, group: MatchedGroup) -> Spent:
    """From launching the collective before to launching each, less what the host was blocked; 0 where not recorded."""
    rows = []
    for rank, of_rank in zip(group.ranks, group.rows, strict=True):
        facts = job.facts[rank]
        call = facts.trace.ops.launch[of_rank]
        if (call == NONE).any():
            return np.zeros(group.rows.shape, np.int64)
        launched = facts.trace.calls.start_ns[call]
        before = np.concatenate(([min(job.all.began_ns(rank), int(launched[0]))], launched[:-1]))
        blocked = union(facts.syncs.start_ns, facts.syncs.end_ns)
        rows.append(launched - before - covered_ns(blocked, before, launched))
    return np.array(rows)
