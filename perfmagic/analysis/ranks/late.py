"""Which rank the others wait for, and how much that holds them up."""

from __future__ import annotations

import numpy as np

from perfmagic.analysis.findings.catalogue import Remedy, action, headline
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.ranks import Ranks, others_median
from perfmagic.analysis.ranks.why_late import Reason, name_ranks, why_late
from perfmagic.base import units
from perfmagic.base.language import counted, listed, phrase, sentences

LATE_SHARE = 2 / 3  # of all waiting in collectives: of two ranks one always has half of it or more
BEGAN_FRAC = 0.5  # of the waiting for a rank: then its late beginning is the reason
ALONE_FRAC = 0.9  # of the waiting for a rank: where less of it would end without the rank, others come late too
ONCE_FRAC = 0.9  # of the waiting for a rank: where one of several collectives has it, the rank was late once
HIDDEN_FRAC = 0.1  # of the waiting for a rank: a smaller part that overlaps with compute is not mentioned


def late(job: Ranks) -> list[RankFinding]:
    """The straggler and who else comes late; or that ranks wait for each other in turn."""
    by_last = job.waits.costs_ns.sum(axis=1)
    everything = int(by_last.sum())
    if not everything:
        return []
    i = int(by_last.argmax())
    share = by_last[i] / everything
    if share < LATE_SHARE:
        return _in_turn(job, i, share)
    notable = [j for j in range(len(job.ranks)) if job.waits.waited_for_ns(j) >= job.notable_ns]
    others = [j for j in notable if j != i]
    together = len(others) > 1 and all(_before_last(job, j) <= set(others) for j in others)
    beside = [_late_too(job, others)] if together else [_late_too(job, [j]) for j in others]
    return [_straggler(job, i), *beside] if i in notable else []


def _in_turn(job: Ranks, i: int, share: float) -> list[RankFinding]:
    waited_ns = job.waits.costs_ns.sum(axis=0)
    each_ns = round(float(np.median(waited_ns)))
    if each_ns < job.notable_ns:
        return []
    each = phrase("the median rank waits {time}", time=units.duration(each_ns))
    if len(job.ranks) == 2:
        first, second = (units.duration(ns) for ns in waited_ns)
        ranks = {"rank": job.ranks[0], "other": job.ranks[1]}
        each = phrase("rank {rank} waits {first} and rank {other} {second}", first=first, second=second, **ranks)
    median = phrase(
        "{waits} in {collectives}, without overlapping with compute", waits=each, collectives=job.n_collectives
    )
    no_straggler = phrase(
        "no rank causes most of it (rank {rank} causes {share})", rank=job.ranks[i], share=units.percent(share)
    )
    return [
        RankFinding(
            rule="ranks_in_turn",
            cost_ns=each_ns,
            cause=phrase("ranks wait for each other in turn"),
            detail=phrase(": {detail}", detail=sentences(median, no_straggler)),
            ranks=tuple(job.ranks),
            advice=phrase("The work of a step varies from rank to rank: sequence lengths, experts, or Python's pauses"),
            headline=headline("ranks_in_turn", rank=job.ranks[i], share=units.percent(share)),
            action=action("balance"),
        )
    ]


def _straggler(job: Ranks, i: int) -> RankFinding:
    later_ns, rank, once = _began_later_ns(job, i), job.ranks[i], ""
    if later_ns:
        time, share = units.duration(later_ns), units.percent(_first_share(job, i))
        cause = phrase("rank {rank} began {time} after {others}", rank=rank, time=time, others=job.than_others(i))
        why = phrase("{share} of the waiting for rank {rank} is in its first collective", share=share, rank=rank)
        advice = phrase(
            "Look at what rank {rank} did before: data loading, a checkpoint, or a profiler that started later",
            rank=rank,
        )
        whom = job.others(i) if len(job.ranks) == 2 else phrase("the median rank")
        said: str = headline("late_at_first", rank=rank, time=units.duration(later_ns), others=job.others(i), whom=whom)
        reason = Reason(why, Remedy(advice, action("late_before", ranks=name_ranks(job, [i]))), said)
    else:
        once = _once(job, i)
        whom = phrase("rank {rank}", rank=job.ranks[1 - i]) if len(job.ranks) == 2 else phrase("others")
        cause = phrase("rank {rank} is a straggler", rank=rank)
        cause = phrase("rank {rank} kept {whom} waiting once", rank=rank, whom=whom) if once else cause
        reason = why_late(job, [i])
    parts = [
        phrase("rank {rank} arrives last at {n}", rank=rank, n=_n_last(job, [i])),
        once,
        _describe_waiting(job, [i]),
        _without_rank(job, i),
    ]
    ordered = [reason.why, *parts] if later_ns else [*parts, reason.why]
    detail = phrase(": {detail}", detail=sentences(*ordered))
    often = headline("late_often", rank=rank, others=job.others(i), n=_n_last(job, [i]))
    if once:
        often = headline("late_once", rank=rank, others=job.others(i), time=units.duration(job.waits.waited_for_ns(i)))
    said = reason.headline or often
    return _of_late(job, [i], (cause, detail), reason, said, rule="straggler")


def _late_too(job: Ranks, late_places: list[int]) -> RankFinding:
    """Ranks that others wait for as well, beside the straggler; several of them come late to the same collectives."""
    ranks = tuple(job.ranks[i] for i in late_places)
    reason, n_last = why_late(job, late_places), _n_last(job, late_places)
    if len(ranks) == 1:
        cause = phrase("rank {rank} arrives last at {n}", rank=ranks[0], n=n_last)
        others = job.others(late_places[0])
        said = reason.headline or headline("late_often", rank=ranks[0], others=others, n=n_last)
        without = _without_rank(job, late_places[0])
    else:
        names = listed([str(rank) for rank in ranks])
        cause = phrase("ranks {ranks} arrive last at {n}, close together", ranks=names, n=n_last)
        who = name_ranks(job, late_places)
        said = headline("late_together", ranks=who.capitalised(), n=n_last)
        less = _less(job, _held_up_ns(job, late_places))
        without = phrase("were these in time, {outcome}", outcome=less)
    facts = sentences(_describe_waiting(job, late_places), without, reason.why)
    detail = phrase(": {detail}", detail=facts)
    return _of_late(job, late_places, (cause, detail), reason, said, rule="late_too")


def _of_late(
    job: Ranks, late_places: list[int], words: tuple[str, str], reason: Reason, said: str, *, rule: str
) -> RankFinding:
    """The finding about late ranks.  words: cause and detail.  said: its headline."""
    return RankFinding(
        rule=rule,
        cost_ns=_held_up_ns(job, late_places),
        cause=words[0],
        detail=words[1],
        ranks=tuple(job.ranks[i] for i in late_places),
        advice=reason.remedy.advice,
        headline=said,
        action=reason.remedy.action,
        line=reason.line,
        window_ns=_longest_wait_ns(job, late_places),
    )


def _n_last(job: Ranks, late_places: list[int]) -> str:
    n_last = sum(len(where) for i in late_places for _, _, where in job.waits.last_at(i))
    return phrase("{n} of {total}", n=units.count(n_last), total=job.n_collectives)


def _once(job: Ranks, i: int) -> str:
    """In which one of several collectives nearly all waiting for a rank is; "" where it is spread over more."""
    rank = job.ranks[i]
    waits = [
        (int(ns), k, group)
        for group, costly in job.waits.costly_waits
        if rank in group.ranks
        for k, ns in enumerate(np.where(group.waits.last == group.ranks.index(rank), costly.ns.sum(axis=0), 0))
    ]
    most_ns, k, group = max(waits, key=lambda wait: wait[0])
    everything_ns = sum(ns for ns, *_ in waits)
    if len(waits) < 2 or most_ns < ONCE_FRAC * everything_ns:
        return ""
    return phrase(
        "{share} of the waiting for rank {rank} is in one of them, number {n} of {total} in {group}: {name}",
        share=units.percent(most_ns / everything_ns),
        rank=rank,
        n=units.count(k + 1),
        total=units.count(len(group.kinds)),
        group=group.name,
        name=group.kinds[k].partition(" ")[0],
    )


def _describe_waiting(job: Ranks, late_places: list[int]) -> str:
    """How long the others waited for some ranks: the median of them, and the one that waited longest."""
    peers = sorted({j for i in late_places for j in job.waits.peers(i)} - set(late_places))
    waits = job.waits.costs_ns[late_places].sum(axis=0)
    longest = max(peers, key=lambda j: waits[j])
    late = listed([str(job.ranks[i]) for i in late_places])
    whom = counted(len(late_places), "rank {ranks}", "ranks {ranks}", ranks=late)
    wrong_ns = job.waits.errs_ns(late_places)
    most = units.known_within(int(waits[longest]), wrong_ns)
    hidden_ns = int(job.waits.hidden_ns[late_places].sum(axis=0)[longest])
    hidden = phrase(", and {time} more overlapped with compute", time=units.duration(hidden_ns))
    beside = hidden if hidden_ns > HIDDEN_FRAC * waits[longest] else ""
    common = {"rank": job.ranks[longest], "whom": whom, "beside": beside}
    if len(peers) == 1:
        return phrase("rank {rank} waits {time} for {whom}{beside}", time=most, **common)
    median = units.known_within(float(np.median(waits[peers])), wrong_ns)
    return phrase(
        "the other {n} ranks wait {median} for {whom} in the median, rank {rank} the longest, {most}{beside}",
        n=units.count(len(peers)),
        median=median,
        most=most,
        **common,
    )


def _held_up_ns(job: Ranks, late_places: list[int]) -> int:
    """How much less the median of the others would wait, not overlapped with compute, if some ranks came with the last
    of the others wherever one of them comes last.
    """
    ranks, less_ns = {job.ranks[i] for i in late_places}, dict.fromkeys(job.ranks, 0)
    for group, costly in job.waits.costly_waits:
        theirs = np.array([rank in ranks for rank in group.ranks])
        if theirs.any() and not theirs.all():
            would_meet_ns = costly.met_ns - group.waits.ahead_without_ns(theirs)
            held_ns = costly.after_ns(would_meet_ns)[:, theirs[group.waits.last]].sum(axis=1)
            for rank, ns in zip(group.ranks, held_ns.tolist(), strict=True):
                less_ns[rank] += ns
    peers = {job.ranks[j] for i in late_places for j in job.waits.peers(i)} - ranks
    return round(float(np.median([less_ns[rank] for rank in peers]))) if peers else 0


def _less(job: Ranks, held_ns: int) -> str:
    """What the others would win, in words."""
    if len(job.ranks) == 2:
        return phrase("the other would wait {time} less", time=units.duration(held_ns))
    return phrase("the others would wait {time} less in the median", time=units.duration(held_ns))


def _longest_wait_ns(job: Ranks, late_places: list[int]) -> tuple[int, int]:
    """The longest time that a rank waited for some ranks, on the common axis."""
    ranks, waits = {job.ranks[i] for i in late_places}, []
    for group, costly in job.waits.costly_waits:
        where = np.flatnonzero([group.ranks[place] in ranks for place in group.waits.last])
        if len(where):
            row, k = np.unravel_index(costly.ns[:, where].argmax(), (len(group.ranks), len(where)))
            start = int(group.start_ns[row, where[k]]) + job.alignment.offset_ns[group.ranks[row]]
            waits.append((start, start + int(group.waits.waiting_ns[row, where[k]])))
    return max(waits, key=lambda span: span[1] - span[0])


def _before_last(job: Ranks, i: int) -> set[int]:
    """The places of the ranks that come last but one where a rank comes last."""
    return {
        job.ranks.index(group.ranks[int(np.argsort(group.duration_ns[:, k], kind="stable")[1])])
        for group, _, where in job.waits.last_at(i)
        for k in where.tolist()
    }


def _without_rank(job: Ranks, i: int) -> str:
    """What would be won without this rank's lateness, where others come late too."""
    held_ns = _held_up_ns(job, [i])
    if held_ns >= ALONE_FRAC * job.waits.waited_for_ns(i):
        return ""
    before = _before_last(job, i)
    late = phrase("others are nearly as late")
    if len(before) == 1:
        late = phrase("rank {rank} is nearly as late", rank=job.ranks[before.pop()])
    less = _less(job, held_ns)
    return phrase("{late}: were rank {rank} alone in time, {outcome}", late=late, rank=job.ranks[i], outcome=less)


def _began_later_ns(job: Ranks, i: int) -> int:
    """By how much a rank began after the others, where that explains most of the waiting for it; else 0."""
    if job.alignment.residual_ns is None:
        return 0
    began = [job.began_on_axis_ns(rank) for rank in job.ranks]
    later_ns = round(began[i] - others_median(began, i))
    explains = later_ns >= BEGAN_FRAC * job.waits.waited_for_ns(i) and _first_share(job, i) >= BEGAN_FRAC
    return later_ns if explains else 0


def _first_share(job: Ranks, i: int) -> float:
    """How much of the waiting for a rank is in the first collective that it came to."""
    groups = [
        (group, group.ranks.index(job.ranks[i]), costly)
        for group, costly in job.waits.costly_waits
        if job.ranks[i] in group.ranks
    ]
    group, place, costly = min(groups, key=lambda row: int(row[0].start_ns[row[1], 0]))
    first_ns = int(costly.ns[:, 0].sum()) if group.waits.last[0] == place else 0
    return first_ns / max(1, int(job.waits.costs_ns[i].sum()))
