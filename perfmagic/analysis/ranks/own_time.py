"""What a late rank spent more time with than the others, between coming to a collective and coming last to the next.

A rank that waits inside a collective may compute beside it what another has still to do afterwards: counted from its
end, only the late rank would seem to compute. What a device waits for Python is told from no total: a rank that comes
early waits inside collectives while its Python runs ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmagic import units
from perfmagic.analysis.ranks.matching import MatchedGroup
from perfmagic.analysis.ranks.one_host import what_else_runs
from perfmagic.analysis.ranks.one_job import OneJob
from perfmagic.trace.columns import NONE, Bool, Int64

Spent = npt.NDArray[np.int64]  # by rank of a group and collective, in ns; shape (r, n)


@dataclass(frozen=True)
class _Own:
    """What a rank may spend more of than others before a collective, and what to do about it.

    did: in words, behind the rank; "" for what is no evidence by itself.  of: one of SPENT; "" for nothing at all.
    """

    did: str
    of: str
    advice: str


_OWN = (
    _Own(
        "computed",
        "compute",
        "Compare its kernels with another rank's: more of them mean an uneven share of the work, "
        "longer ones a slower device",
    ),
    _Own(
        "copied",
        "copy",
        "Compare its copies with another rank's: only it may load or save data, or use pageable memory",
    ),
    _Own(
        "",  # a device that comes late executes nothing while others are still inside the collective before
        "",
        "",
    ),
)
_EXECUTED_NOTHING = _OWN[2]
BORNE_OUT_FRAC = 0.5  # of what a rank did longer: where its total is longer by less, it did so elsewhere, not more
IN_TIME_FRAC = 0.5  # of the longest wait in a collective: a rank that waited so long there was not late itself


def own_time(job: OneJob, late_ones: Sequence[int]) -> tuple[str, str]:
    """What the one of some ranks that came last to a collective spent more time with before it, and what to do.

    Over all collectives to which one of them came last, against the ranks that were in time there.
    """
    one = f"rank {job.ranks[late_ones[0]]}" if len(late_ones) == 1 else "the one that came last"
    before = f"Look at what {one} does before its collectives"
    if len(late_ones) > 1:
        before = "Look at what these ranks do before their collectives"
    excess_ns, own = max(
        ((_excess_ns(job, late_ones, _on_device(own)), own) for own in _OWN), key=lambda found: found[0]
    )
    if excess_ns < job.notable_ns:
        return "", before
    than = _than(job, late_ones)
    if own is not _EXECUTED_NOTHING:
        in_all, evident = _in_all(job, late_ones, own, excess_ns)
        longer = f"{one} {own.did} {units.duration(excess_ns)} longer than {than}{in_all}"
        return f"between these and the collectives before them, {longer}", own.advice if evident else before
    host_ns = _excess_ns(job, late_ones, _on_host)
    if host_ns < job.notable_ns:
        return "", before
    where = [int(k) for i in late_ones for _, _, of_group in job.last_at(i) for k in of_group]
    began = ", or the beginning," if 0 in where else ""
    these, in_all = (f"each of these {units.count(len(where))}", " in all") if len(where) > 1 else ("this one", "")
    longer = f"the Python of {one} took {units.duration(host_ns)} longer{in_all} than {than}"
    why = f"from launching the collective before{began} to launching {these}, {longer}, blocking calls left out"
    return why, f"Look at what Python does there, and at {what_else_runs(job)}"


def _excess_ns(job: OneJob, late_ones: Sequence[int], spent_by: Callable[[OneJob, MatchedGroup], Spent]) -> float:
    """By how much what the last rank spent exceeds the median of those in time, summed over its collectives."""
    excess_ns = 0.0
    for i in late_ones:
        for group, place, where in job.last_at(i):
            if len(where):
                spent = spent_by(job, group)[:, where].astype(float)
                usual = np.nanmedian(np.where(_in_time(group, where), spent, np.nan), axis=0)
                excess_ns += float((spent[place] - usual).sum())
    return excess_ns


def _in_time(group: MatchedGroup, where: Int64) -> Bool:
    """Which ranks were not late to some collectives themselves; shape (r, collectives)."""
    waiting = group.waiting_ns[:, where]
    return np.asarray(waiting >= IN_TIME_FRAC * waiting.max(axis=0))


def _than(job: OneJob, late_ones: Sequence[int]) -> str:
    """With whom the last rank is compared."""
    if len(job.ranks) == 2:
        return job.than_others(late_ones[0])
    asked = [(group, where) for i in late_ones for group, _, where in job.last_at(i) if len(where)]
    every = all(bool((_in_time(group, where).sum(axis=0) == len(group.ranks) - 1).all()) for group, where in asked)
    return "the others in the median" if every else "the ranks that were in time there, in the median"


def _in_all(job: OneJob, late_ones: Sequence[int], own: _Own, excess_ns: float) -> tuple[str, bool]:
    """What the totals of the table say of it, in words, and whether they bear it out.

    "" where they say the same; of several late ranks nobody's total is meant.
    """
    if len(late_ones) > 1:
        return "", True
    i, totals_ns = late_ones[0], [getattr(row, f"{own.of}_ns") for row in job.all.table]
    longer_ns = totals_ns[i] - job.others(i, totals_ns)
    if units.duration(longer_ns) == units.duration(excess_ns):
        return "", True
    others = units.duration(job.others(i, totals_ns))
    other = f"rank {job.ranks[1 - i]}" if len(job.ranks) == 2 else "the others in the median"
    words = f"; over the whole record {units.duration(totals_ns[i])}, {other} {others}"
    return words, longer_ns >= BORNE_OUT_FRAC * excess_ns


def _on_device(own: _Own) -> Callable[[OneJob, MatchedGroup], Spent]:
    """From coming to the collective before, of the same group, to coming to each; from where the rank began."""

    def spent(job: OneJob, group: MatchedGroup) -> Spent:
        rows = []
        for rank, places in zip(group.ranks, group.places, strict=True):
            one, name = job.summaries[rank], own.of or "busy"
            start, until = one.comm["start"][places], one.comm[name][places]
            covered = _since(until, one.began[name], began=one.began_ns < int(start[0]))
            if not own.of:
                covered = start - np.concatenate(([min(one.began_ns, int(start[0]))], start[:-1])) - covered
            rows.append(covered)
        return np.array(rows)

    return spent


def _since(until: Int64, first: int, *, began: bool) -> Int64:
    """How much there was until each collective, from where the one before was come to.

    first: how much until the rank began, if that was before the first one.
    """
    before = np.concatenate(([first if began else int(until[0])], until[:-1]))
    since: Int64 = np.maximum(until - before, 0)
    return since


def _on_host(job: OneJob, group: MatchedGroup) -> Spent:
    """From launching the collective before to launching each, less what the host was blocked; 0 where not recorded."""
    rows = []
    for rank, places in zip(group.ranks, group.places, strict=True):
        one = job.summaries[rank]
        launched, blocked = one.comm["launched"][places], one.comm["blocked"][places]
        if (launched == NONE).any():
            return np.zeros(group.places.shape, np.int64)
        before = np.concatenate(([min(one.began_ns, int(launched[0]))], launched[:-1]))
        began = one.began_ns < int(launched[0])
        rows.append(launched - before - _since(blocked, one.began["blocked"], began=began))
    return np.array(rows)
