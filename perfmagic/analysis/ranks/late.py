"""Which rank the others wait for, how much that holds them up, and why it is late."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import listed, sentences
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.late_line import line_words
from perfmagic.analysis.ranks.one_job import OneJob
from perfmagic.analysis.ranks.own_time import own_time

LATE_SHARE = 2 / 3  # of all waiting in collectives: of two ranks one always has half of it or more
BEGAN_FRAC = 0.5  # of the waiting for a rank: then its late beginning is the reason
ALONE_FRAC = 0.9  # of the waiting for a rank: where less of it would end without the rank, others come late too
ONCE_FRAC = 0.9  # of the waiting for a rank: where one of several collectives has it, the rank was late once
HIDDEN_FRAC = 0.1  # of the waiting for a rank: less of it beside compute is not told


def late(job: OneJob) -> list[RankFinding]:
    """The straggler and who else comes late; or that ranks wait for each other in turn."""
    by_last = job.costs_ns.sum(axis=1)
    everything = int(by_last.sum())
    if not everything:
        return []
    i = int(by_last.argmax())
    share = by_last[i] / everything
    if share < LATE_SHARE:
        return _in_turn(job, i, share)
    notable = [j for j in range(len(job.ranks)) if job.waited_for_ns(j) >= job.notable_ns]
    others = [j for j in notable if j != i]
    together = len(others) > 1 and all(_before_last(job, j) <= set(others) for j in others)
    beside = [_late_too(job, others)] if together else [_late_too(job, [j]) for j in others]
    return [_straggler(job, i), *beside] if i in notable else []


def _in_turn(job: OneJob, i: int, share: float) -> list[RankFinding]:
    waited_ns = job.costs_ns.sum(axis=0)
    each_ns = round(float(np.median(waited_ns)))
    if each_ns < job.notable_ns:
        return []
    median = f"the median rank waits {units.duration(each_ns)} in {job.n_collectives}, with no compute beside"
    if len(job.ranks) == 2:
        first, second = (f"rank {rank} {{}}{units.duration(ns)}" for rank, ns in zip(job.ranks, waited_ns, strict=True))
        median = f"{first.format('waits ')} and {second.format('')} in {job.n_collectives}, with no compute beside"
    no_straggler = f"no rank causes most of it (rank {job.ranks[i]} causes {units.percent(share)})"
    return [
        RankFinding(
            rule="ranks_in_turn",
            cost_ns=each_ns,
            cause="ranks wait for each other in turn",
            detail=": " + sentences(median, no_straggler),
            ranks=tuple(job.ranks),
            advice="The work of a step varies from rank to rank: sequence lengths, experts, or Python's pauses",
        )
    ]


def _straggler(job: OneJob, i: int) -> RankFinding:
    later_ns, rank, once = _began_later_ns(job, i), job.ranks[i], ""
    if later_ns:
        cause = f"rank {rank} began {units.duration(later_ns)} after {job.than_others(i)}"
        why = f"{units.percent(_first_share(job, i))} of the waiting for rank {rank} is in its first collective"
        advice = f"Look at what rank {rank} did before: data loading, a checkpoint, or a profiler that started later"
    else:
        once = _once(job, i)
        whom = f"rank {job.ranks[1 - i]}" if len(job.ranks) == 2 else "others"
        cause = f"rank {rank} kept {whom} waiting once" if once else f"rank {rank} is a straggler"
        why, advice = _why(job, [i])
    said = [f"rank {rank} arrives last at {_n_last(job, [i])}", once, _waiting_words(job, [i]), _without_words(job, i)]
    detail = ": " + sentences(*([why, *said] if later_ns else [*said, why]))
    return RankFinding("straggler", _held_up_ns(job, [i]), cause, detail, (rank,), advice, _longest_wait_ns(job, [i]))


def _late_too(job: OneJob, late_ones: list[int]) -> RankFinding:
    """Ranks that others wait for as well, beside the straggler; several of them come late to the same collectives."""
    ranks = tuple(job.ranks[i] for i in late_ones)
    why, advice = _why(job, late_ones)
    if len(ranks) == 1:
        cause = f"rank {ranks[0]} arrives last at {_n_last(job, late_ones)}"
        without = _without_words(job, late_ones[0])
    else:
        cause = (
            f"ranks {listed([str(rank) for rank in ranks])} arrive last at {_n_last(job, late_ones)}, close together"
        )
        without = f"were these in time, {_less(job, _held_up_ns(job, late_ones))}"
    return RankFinding(
        "late_too",
        _held_up_ns(job, late_ones),
        cause,
        f": {sentences(_waiting_words(job, late_ones), without, why)}",
        ranks,
        advice,
        _longest_wait_ns(job, late_ones),
    )


def _why(job: OneJob, late_ones: list[int]) -> tuple[str, str]:
    """Why some ranks are late, and what to do: what they did more of, and the line on which they did it."""
    why, advice = own_time(job, late_ones)
    one = f"rank {job.ranks[late_ones[0]]}" if len(late_ones) == 1 else "the one that came last"
    on_line, look = line_words(job, late_ones, one)
    return sentences(why, on_line), look if look and not why.startswith("between") else advice


def _n_last(job: OneJob, late_ones: list[int]) -> str:
    n_last = sum(len(where) for i in late_ones for _, _, where in job.last_at(i))
    return f"{units.count(n_last)} of {job.n_collectives}"


def _once(job: OneJob, i: int) -> str:
    """In which one of several collectives nearly all waiting for a rank is; "" where it is spread over more."""
    rank = job.ranks[i]
    waits = [
        (int(ns), k, group)
        for group, costly in job.costly_waits
        if rank in group.ranks
        for k, ns in enumerate(np.where(group.last == group.ranks.index(rank), costly.ns.sum(axis=0), 0))
    ]
    most_ns, k, group = max(waits, key=lambda wait: wait[0])
    everything_ns = sum(ns for ns, *_ in waits)
    if len(waits) < 2 or most_ns < ONCE_FRAC * everything_ns:
        return ""
    which = f"number {units.count(k + 1)} of {units.count(len(group.kinds))} in {group.name}"
    share = units.percent(most_ns / everything_ns)
    return f"{share} of the waiting for rank {rank} is in one of them, {which}: {group.kinds[k].partition(' ')[0]}"


def _waiting_words(job: OneJob, late_ones: list[int]) -> str:
    """How long the others waited for some ranks: the median of them, and the one that waited longest."""
    peers = sorted({j for i in late_ones for j in job.peers(i)} - set(late_ones))
    waits = job.costs_ns[late_ones].sum(axis=0)
    longest = max(peers, key=lambda j: waits[j])
    late = listed([str(job.ranks[i]) for i in late_ones])
    one, it = f"rank {job.ranks[longest]}", f"rank {late}" if len(late_ones) == 1 else f"ranks {late}"
    wrong_ns = job.errs_ns(late_ones)
    most = units.known_within(int(waits[longest]), wrong_ns)
    hidden_ns = int(job.hidden_ns[late_ones].sum(axis=0)[longest])
    beside = (
        f", and {units.duration(hidden_ns)} more beside compute" if hidden_ns > HIDDEN_FRAC * waits[longest] else ""
    )
    if len(peers) == 1:
        return f"{one} waits {most} for {it}{beside}"
    median = units.known_within(float(np.median(waits[peers])), wrong_ns)
    others = f"the other {units.plural(len(peers), 'rank')}"
    return f"{others} wait {median} for {it} in the median, {one} the longest, {most}{beside}"


def _held_up_ns(job: OneJob, late_ones: list[int]) -> int:
    """How much less the others would wait in the median, with no compute beside, did some ranks come with the last of
    the others wherever one of them comes last.
    """
    ranks, less_ns = {job.ranks[i] for i in late_ones}, dict.fromkeys(job.ranks, 0)
    for group, costly in job.costly_waits:
        theirs = np.array([rank in ranks for rank in group.ranks])
        if theirs.any() and not theirs.all():
            would_meet_ns = costly.met_ns - group.ahead_ns(~theirs)
            held_ns = costly.after_ns(would_meet_ns)[:, theirs[group.last]].sum(axis=1)
            for rank, ns in zip(group.ranks, held_ns.tolist(), strict=True):
                less_ns[rank] += ns
    peers = {job.ranks[j] for i in late_ones for j in job.peers(i)} - ranks
    return round(float(np.median([less_ns[rank] for rank in peers]))) if peers else 0


def _less(job: OneJob, held_ns: int) -> str:
    """What the others would win, in words."""
    if len(job.ranks) == 2:
        return f"the other would wait {units.duration(held_ns)} less"
    return f"the others would wait {units.duration(held_ns)} less in the median"


def _longest_wait_ns(job: OneJob, late_ones: list[int]) -> tuple[int, int]:
    """The longest time that a rank waited for some ranks, on the common axis."""
    ranks, found = {job.ranks[i] for i in late_ones}, []
    for group, costly in job.costly_waits:
        where = np.flatnonzero([group.ranks[place] in ranks for place in group.last])
        if len(where):
            row, k = np.unravel_index(costly.ns[:, where].argmax(), (len(group.ranks), len(where)))
            start = int(group.start_ns[row, where[k]]) + job.all.alignment.offset_ns[group.ranks[row]]
            found.append((start, start + int(group.waiting_ns[row, where[k]])))
    return max(found, key=lambda span: span[1] - span[0])


def _before_last(job: OneJob, i: int) -> set[int]:
    """The places of the ranks that come last but one where a rank comes last."""
    return {
        job.ranks.index(group.ranks[int(np.argsort(group.duration_ns[:, k], kind="stable")[1])])
        for group, _, where in job.last_at(i)
        for k in where.tolist()
    }


def _without_words(job: OneJob, i: int) -> str:
    """What would be won without this rank's lateness, where others come late too."""
    held_ns = _held_up_ns(job, [i])
    if held_ns >= ALONE_FRAC * job.waited_for_ns(i):
        return ""
    before = _before_last(job, i)
    who = f"rank {job.ranks[before.pop()]} is" if len(before) == 1 else "others are"
    return f"{who} nearly as late: were rank {job.ranks[i]} alone in time, {_less(job, held_ns)}"


def _began_later_ns(job: OneJob, i: int) -> int:
    """By how much a rank began after the others, where that explains most of the waiting for it; else 0."""
    if job.all.alignment.residual_ns is None:
        return 0
    began = [job.all.began_on_axis_ns(rank) for rank in job.ranks]
    later_ns = round(began[i] - job.others(i, began))
    explains = later_ns >= BEGAN_FRAC * job.waited_for_ns(i) and _first_share(job, i) >= BEGAN_FRAC
    return later_ns if explains else 0


def _first_share(job: OneJob, i: int) -> float:
    """How much of the waiting for a rank is in the first collective that it came to."""
    mine = [
        (group, group.ranks.index(job.ranks[i]), costly)
        for group, costly in job.costly_waits
        if job.ranks[i] in group.ranks
    ]
    group, place, costly = min(mine, key=lambda one: int(one[0].start_ns[one[1], 0]))
    first_ns = int(costly.ns[:, 0].sum()) if group.last[0] == place else 0
    return first_ns / max(1, int(job.costs_ns[i].sum()))
