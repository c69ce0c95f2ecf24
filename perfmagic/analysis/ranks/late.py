"""Which rank the others wait for, how much that holds them up, and why it is late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.ranks import Ranks, others_median
from perfmagic.analysis.ranks.who_waited import MatchedGroup
from perfmagic.analysis.timeline.activity import syncs
from perfmagic.base import units
from perfmagic.base.numerics.intervals import EMPTY, Intervals, covered_ns, subtract, union
from perfmagic.base.units import listed, sentences
from perfmagic.trace.columns import NONE, Bool, Int64

# What a late rank spent more time with than the others, between coming to a collective and coming last to the next.

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


def own_time(job: Ranks, late_places: Sequence[int]) -> tuple[str, str]:
    """What the one of some ranks that came last to a collective spent more time with before it, and what to do.

    Over all collectives to which one of them came last, against the ranks that were in time there.
    """
    who = f"rank {job.ranks[late_places[0]]}" if len(late_places) == 1 else "the one that came last"
    before = f"Look at what {who} does before its collectives"
    if len(late_places) > 1:
        before = "Look at what these ranks do before their collectives"
    excess_ns, own = max(
        ((_excess_ns(job, late_places, _on_device(own)), own) for own in _OWN), key=lambda excess: excess[0]
    )
    if excess_ns < job.notable_ns:
        return "", before
    than = _than(job, late_places)
    if own is not _EXECUTED_NOTHING:
        in_all, evident = _in_all(job, late_places, own, excess_ns)
        longer = f"{who} {own.did} {units.duration(excess_ns)} longer than {than}{in_all}"
        return f"between these and the collectives before them, {longer}", own.advice if evident else before
    host_ns = _excess_ns(job, late_places, _on_host)
    if host_ns < job.notable_ns:
        return "", before
    where = [int(k) for i in late_places for _, _, of_group in job.waits.last_at(i) for k in of_group]
    began = ", or the beginning," if 0 in where else ""
    these, in_all = (f"each of these {units.count(len(where))}", " in all") if len(where) > 1 else ("this one", "")
    longer = f"the Python of {who} took {units.duration(host_ns)} longer{in_all} than {than}"
    why = f"from launching the collective before{began} to launching {these}, {longer}, blocking calls left out"
    return why, f"Look at what Python does there, and at {job.where_to_look}"


def _excess_ns(job: Ranks, late_places: Sequence[int], spent_by: Callable[[Ranks, MatchedGroup], Spent]) -> float:
    """By how much what the last rank spent exceeds the median of those in time, summed over its collectives."""
    excess_ns = 0.0
    for i in late_places:
        for group, place, where in job.waits.last_at(i):
            if len(where):
                spent = spent_by(job, group)[:, where].astype(float)
                usual = np.nanmedian(np.where(_in_time(group, where), spent, np.nan), axis=0)
                excess_ns += float((spent[place] - usual).sum())
    return excess_ns


def _in_time(group: MatchedGroup, where: Int64) -> Bool:
    """Which ranks were not late to some collectives themselves; shape (r, collectives)."""
    waiting = group.waits.waiting_ns[:, where]
    return np.asarray(waiting >= IN_TIME_FRAC * waiting.max(axis=0))


def _than(job: Ranks, late_places: Sequence[int]) -> str:
    """With whom the last rank is compared."""
    if len(job.ranks) == 2:
        return job.than_others(late_places[0])
    collectives = [(group, where) for i in late_places for group, _, where in job.waits.last_at(i) if len(where)]
    every = all(
        bool((_in_time(group, where).sum(axis=0) == len(group.ranks) - 1).all()) for group, where in collectives
    )
    return "the others in the median" if every else "the ranks that were in time there, in the median"


def _in_all(job: Ranks, late_places: Sequence[int], own: _Own, excess_ns: float) -> tuple[str, bool]:
    """What the totals of the table say of it, in words, and whether they bear it out.

    "" where they say the same, and of several late ranks.
    """
    if len(late_places) > 1:
        return "", True
    i, totals_ns = late_places[0], [getattr(row, f"{own.of}_ns") for row in job.table]
    longer_ns = totals_ns[i] - others_median(totals_ns, i)
    if units.duration(longer_ns) == units.duration(excess_ns):
        return "", True
    others = units.duration(others_median(totals_ns, i))
    other = f"rank {job.ranks[1 - i]}" if len(job.ranks) == 2 else "the others in the median"
    words = f"; over the whole record {units.duration(totals_ns[i])}, {other} {others}"
    return words, longer_ns >= BORNE_OUT_FRAC * excess_ns


def _on_device(own: _Own) -> Callable[[Ranks, MatchedGroup], Spent]:
    """From coming to the collective before, of the same group, to coming to each; from where the rank began."""

    def spent(job: Ranks, group: MatchedGroup) -> Spent:
        rows = []
        for rank, places in zip(group.ranks, group.places, strict=True):
            summary, name = job.summaries[rank], own.of or "busy"
            start, until = summary.comm["start"][places], summary.comm[name][places]
            covered = _since(until, summary.began[name], began=summary.began_ns < int(start[0]))
            if not own.of:
                covered = start - np.concatenate(([min(summary.began_ns, int(start[0]))], start[:-1])) - covered
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


def _on_host(job: Ranks, group: MatchedGroup) -> Spent:
    """From launching the collective before to launching each, less what the host was blocked; 0 where not recorded."""
    rows = []
    for rank, places in zip(group.ranks, group.places, strict=True):
        summary = job.summaries[rank]
        launched, blocked = summary.comm["launched"][places], summary.comm["blocked"][places]
        if (launched == NONE).any():
            return np.zeros(group.places.shape, np.int64)
        before = np.concatenate(([min(summary.began_ns, int(launched[0]))], launched[:-1]))
        began = summary.began_ns < int(launched[0])
        rows.append(launched - before - _since(blocked, summary.began["blocked"], began=began))
    return np.array(rows)


# On which line of the cell a late rank is longer than the others, before the collectives that it comes last to.

MOST_FRAC = 0.5  # of what others wait for the ranks: less time on one line is not the reason


def late_line(job: Ranks, late_places: Sequence[int]) -> tuple[int, int] | None:
    """The line that explains most of what others wait for some ranks, and by how much they are longer on it (ns).

    Counted from launching the collective before to launching each that one of them came last to, blocking calls left
    out. None where the cell's lines are not recorded or the traces not kept, the ranks ran other cells, or no line
    explains it.
    """
    traces = job.traces
    sources = {trace.cell.source if trace.cell else "" for trace in traces.values()}
    if len(traces) < len(job.ranks):  # they were not kept
        return None
    if len(sources) > 1 or not all(len(trace.marks) for trace in traces.values()):
        return None
    lines = {rank: _lines(job, rank) for rank in job.ranks}
    longer_by_line: dict[int, float] = {}
    for i in late_places:
        for group, place, where in job.waits.last_at(i):
            if len(where):
                for line in sorted(set().union(*(lines[rank] for rank in group.ranks))):
                    spent = _spent_ns(job, group, [lines[rank].get(line) for rank in group.ranks], where)
                    in_time = _in_time(group, where)
                    in_time[place] = False
                    usual = np.nanmedian(np.where(in_time, spent, np.nan), axis=0)
                    longer_by_line[line] = longer_by_line.get(line, 0.0) + float((spent[place] - usual).sum())
    if not longer_by_line:
        return None
    line, longer_ns = max(longer_by_line.items(), key=lambda item: item[1])
    waited_ns = max(job.waits.waited_for_ns(i) for i in late_places)
    return (line, round(longer_ns)) if longer_ns >= max(job.notable_ns, MOST_FRAC * waited_ns) else None


def describe_line(job: Ranks, late_places: Sequence[int], who: str) -> tuple[str, str]:
    """That line in a sentence, and what to do; both "" where none explains it.  who: the rank that was last."""
    late_on = late_line(job, late_places)
    if late_on is None:
        return "", ""
    line, longer_ns = late_on
    than = job.than_others(late_places[0])
    return f"on line {line} {who} spent {units.duration(longer_ns)} longer than {than}", f"Look at line {line} on {who}"


def _lines(job: Ranks, rank: int) -> dict[int, Intervals]:
    """When a rank's Python was on each line of the cell, and in no call that blocks it."""
    trace = job.traces[rank]
    marks, meta, blocking = trace.marks, trace.meta, syncs(trace)
    last_ns = meta.returned_ns or max(meta.end_ns, int(marks.at_ns[-1]))
    ends = np.append(marks.at_ns[1:], max(last_ns, int(marks.at_ns[-1])))
    blocked = union(blocking.start_ns, blocking.end_ns)
    on_lines = {}
    for line in np.unique(marks.line[marks.line > 0]).tolist():
        on = (marks.line == line) & (ends > marks.at_ns)
        on_lines[int(line)] = subtract(union(marks.at_ns[on], ends[on]), blocked)
    return on_lines


def _spent_ns(job: Ranks, group: MatchedGroup, on_line: Sequence[Intervals | None], where: Int64) -> Int64:
    """How long each rank was on a line before each of some collectives; shape (ranks, collectives)."""
    rows = []
    for i, (rank, spans) in enumerate(zip(group.ranks, on_line, strict=True)):
        launched, free = _launched(job, group, i)
        before = np.concatenate(([min(job.began_ns(rank), int(launched[0]))], free[:-1]))
        rows.append(covered_ns(EMPTY if spans is None else spans, before, launched)[where])
    return np.array(rows)


def _launched(job: Ranks, group: MatchedGroup, i: int) -> tuple[Int64, Int64]:
    """When a rank launched each collective of a group, and when its Python continued from there."""
    launched = job.summaries[group.ranks[i]].comm["launched"][group.places[i]]
    if (launched == NONE).any():  # on the CPU: it launches when the collective starts, and continues when it ends
        return group.start_ns[i], group.end_ns[i]
    return launched, launched


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
    exposed = f"in {job.n_collectives}, without overlapping with compute"
    median = f"the median rank waits {units.duration(each_ns)} {exposed}"
    if len(job.ranks) == 2:
        first, second = (f"rank {rank} {{}}{units.duration(ns)}" for rank, ns in zip(job.ranks, waited_ns, strict=True))
        median = f"{first.format('waits ')} and {second.format('')} {exposed}"
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


def _straggler(job: Ranks, i: int) -> RankFinding:
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
    parts = [
        f"rank {rank} arrives last at {_n_last(job, [i])}",
        once,
        _describe_waiting(job, [i]),
        _without_rank(job, i),
    ]
    detail = ": " + sentences(*([why, *parts] if later_ns else [*parts, why]))
    return RankFinding("straggler", _held_up_ns(job, [i]), cause, detail, (rank,), advice, _longest_wait_ns(job, [i]))


def _late_too(job: Ranks, late_places: list[int]) -> RankFinding:
    """Ranks that others wait for as well, beside the straggler; several of them come late to the same collectives."""
    ranks = tuple(job.ranks[i] for i in late_places)
    why, advice = _why(job, late_places)
    if len(ranks) == 1:
        cause = f"rank {ranks[0]} arrives last at {_n_last(job, late_places)}"
        without = _without_rank(job, late_places[0])
    else:
        cause = (
            f"ranks {listed([str(rank) for rank in ranks])} arrive last at {_n_last(job, late_places)}, close together"
        )
        without = f"were these in time, {_less(job, _held_up_ns(job, late_places))}"
    return RankFinding(
        "late_too",
        _held_up_ns(job, late_places),
        cause,
        f": {sentences(_describe_waiting(job, late_places), without, why)}",
        ranks,
        advice,
        _longest_wait_ns(job, late_places),
    )


def _why(job: Ranks, late_places: list[int]) -> tuple[str, str]:
    """Why some ranks are late, and what to do: what they did more of, and the line on which they did it."""
    why, advice = own_time(job, late_places)
    who = f"rank {job.ranks[late_places[0]]}" if len(late_places) == 1 else "the one that came last"
    on_line, look = describe_line(job, late_places, who)
    return sentences(why, on_line), look if look and not why.startswith("between") else advice


def _n_last(job: Ranks, late_places: list[int]) -> str:
    n_last = sum(len(where) for i in late_places for _, _, where in job.waits.last_at(i))
    return f"{units.count(n_last)} of {job.n_collectives}"


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
    which = f"number {units.count(k + 1)} of {units.count(len(group.kinds))} in {group.name}"
    share = units.percent(most_ns / everything_ns)
    return f"{share} of the waiting for rank {rank} is in one of them, {which}: {group.kinds[k].partition(' ')[0]}"


def _describe_waiting(job: Ranks, late_places: list[int]) -> str:
    """How long the others waited for some ranks: the median of them, and the one that waited longest."""
    peers = sorted({j for i in late_places for j in job.waits.peers(i)} - set(late_places))
    waits = job.waits.costs_ns[late_places].sum(axis=0)
    longest = max(peers, key=lambda j: waits[j])
    late = listed([str(job.ranks[i]) for i in late_places])
    longest_rank, it = f"rank {job.ranks[longest]}", f"rank {late}" if len(late_places) == 1 else f"ranks {late}"
    wrong_ns = job.waits.errs_ns(late_places)
    most = units.known_within(int(waits[longest]), wrong_ns)
    hidden_ns = int(job.waits.hidden_ns[late_places].sum(axis=0)[longest])
    beside = (
        f", and {units.duration(hidden_ns)} more overlapped with compute"
        if hidden_ns > HIDDEN_FRAC * waits[longest]
        else ""
    )
    if len(peers) == 1:
        return f"{longest_rank} waits {most} for {it}{beside}"
    median = units.known_within(float(np.median(waits[peers])), wrong_ns)
    others = f"the other {units.plural(len(peers), 'rank')}"
    return f"{others} wait {median} for {it} in the median, {longest_rank} the longest, {most}{beside}"


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
        return f"the other would wait {units.duration(held_ns)} less"
    return f"the others would wait {units.duration(held_ns)} less in the median"


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
    who = f"rank {job.ranks[before.pop()]} is" if len(before) == 1 else "others are"
    return f"{who} nearly as late: were rank {job.ranks[i]} alone in time, {_less(job, held_ns)}"


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
