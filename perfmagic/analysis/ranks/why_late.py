"""Why a rank is late: what it spent more time with than the others, and on which line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from perfmagic.analysis.findings.catalogue import ACTION_CHARS, Remedy, action, headline
from perfmagic.analysis.ranks.who_waited import MatchedGroup
from perfmagic.analysis.timeline.activity import syncs
from perfmagic.base import units
from perfmagic.base.language import Words, counted, phrase, sentences
from perfmagic.base.numerics.intervals import EMPTY, Intervals, covered_ns, subtract, union
from perfmagic.base.terminal import columns, cut_to_columns
from perfmagic.trace.columns import NO_LINE, NONE, Bool, Int64

if TYPE_CHECKING:
    from perfmagic.analysis.ranks.ranks import Ranks

MOST_NAMED = 4  # of several ranks, in a headline


def why_late(job: Ranks, late_places: list[int]) -> Reason:
    """Why some ranks are late, and what to do: what they did more of, and the line on which they did it."""
    own = own_time(job, late_places)
    who = _who(job, late_places)
    on_line = describe_line(job, late_places, who)
    if on_line is None:
        return own
    why = sentences(own.why, on_line.why)
    if own.why.startswith("between"):
        return replace(own, why=why)
    return replace(on_line, why=why, remedy=on_line.remedy._replace(action=on_line.remedy.action or own.remedy.action))


def _who(job: Ranks, late_places: Sequence[int]) -> Words:
    """The one late rank; of several the one that was last each time."""
    if len(late_places) == 1:
        return phrase("rank {rank}", rank=job.ranks[late_places[0]])
    return phrase("the one that came last")


def name_ranks(job: Ranks, places: Sequence[int]) -> Words:
    """Some ranks in words: "rank 3", "ranks 4 and 5", "12 ranks"."""
    if len(places) > MOST_NAMED:
        return counted(len(places), "{n} rank", "{n} ranks")
    *before, last = (str(job.ranks[i]) for i in places)
    if not before:
        return phrase("rank {rank}", rank=last)
    return phrase("ranks {first} and {last}", first=", ".join(before), last=last)


# What a late rank spent more time with than the others, between coming to a collective and coming last to the next.

Spent = npt.NDArray[np.int64]  # by rank of a group and collective, in ns; shape (r, n)


@dataclass(frozen=True)
class _Own:
    """What a rank may spend more of than others before a collective, and what to do about it.

    did: in words, behind the rank; "" for what is no evidence by itself.  of: one of SPENT; "" for nothing at all.
    headline, action: of the catalogue.
    """

    did: str
    of: str
    advice: str
    headline: str = ""
    action: str = ""


OTHER_KERNELS = phrase(
    "Compare its kernels with another rank's: more of them mean an uneven share of the work, longer ones a slower "
    "device"
)
OTHER_COPIES = phrase("Compare its copies with another rank's: only it may load or save data, or use pageable memory")
_OWN = (
    _Own(
        phrase("computed"),
        "compute",
        OTHER_KERNELS,
        "late_in_compute",
        "late_kernels",
    ),
    _Own(
        phrase("copied"),
        "copy",
        OTHER_COPIES,
        "late_in_copies",
        "late_copies",
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


@dataclass(frozen=True)
class Reason:
    """Why ranks are late.  why: a sentence, "" where nothing says so.  headline, line: of one late rank."""

    why: str
    remedy: Remedy
    headline: str = ""
    line: int = NO_LINE


def own_time(job: Ranks, late_places: Sequence[int]) -> Reason:
    """What the one of some ranks that came last to a collective spent more time with before it, and what to do.

    Over all collectives to which one of them came last, against the ranks that were in time there.
    """
    who = _who(job, late_places)
    ranks, several = name_ranks(job, late_places), len(late_places) > 1
    before = phrase("Look at what {who} does before its collectives", who=who)
    if several:
        before = phrase("Look at what these ranks do before their collectives")
    look = Remedy(before, action("late_collectives", ranks=ranks))
    excess_ns, own = max(
        ((_excess_ns(job, late_places, _on_device(own)), own) for own in _OWN), key=lambda excess: excess[0]
    )
    if excess_ns < job.notable_ns:
        return Reason("", look)
    than = _than(job, late_places)

    def said(key: str, ns: float) -> str:
        """The headline of one late rank; of several it would name none of them."""
        if several:
            return ""
        others = phrase("ranks in time") if than.startswith("the ranks") else job.others(late_places[0])
        return headline(key, rank=job.ranks[late_places[0]], time=units.duration(ns), others=others)

    if own is not _EXECUTED_NOTHING:
        in_all, evident = _in_all(job, late_places, own, excess_ns)
        why = phrase(
            "between these and the collectives before them, {who} {did} {time} longer than {than}{in_all}",
            who=who,
            did=own.did,
            time=units.duration(excess_ns),
            than=than,
            in_all=in_all,
        )
        if not evident:
            return Reason(why, look)
        named = look.action if several else action(own.action, rank=job.ranks[late_places[0]])
        return Reason(why, Remedy(own.advice, named), said(own.headline, excess_ns))
    host_ns = _excess_ns(job, late_places, _on_host)
    if host_ns < job.notable_ns:
        return Reason("", look)
    where = [int(k) for i in late_places for _, _, of_group in job.waits.last_at(i) for k in of_group]
    why = phrase(
        "from launching the collective before{began} to launching {these}, the Python of {who} took {time} "
        "longer{in_all} than {than}, blocking calls left out",
        began=phrase(", or the beginning,") if 0 in where else "",
        these=phrase("each of these {n}", n=units.count(len(where))) if len(where) > 1 else phrase("this one"),
        who=who,
        time=units.duration(host_ns),
        in_all=phrase(" in all") if len(where) > 1 else "",
        than=than,
    )
    look_there = phrase("Look at what Python does there, and at {place}", place=job.where_to_look)
    remedy = Remedy(look_there, action("late_python", ranks=ranks))
    return Reason(why, remedy, said("late_in_python", host_ns))


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
    in_time = phrase("the ranks that were in time there, in the median")
    return phrase("the others in the median") if every else in_time


def _in_all(job: Ranks, late_places: Sequence[int], own: _Own, excess_ns: float) -> tuple[str, bool]:
    """What the totals of the table say of it, in words, and whether they bear it out.

    "" where they say the same, and of several late ranks.
    """
    if len(late_places) > 1:
        return "", True
    i, totals_ns = late_places[0], [getattr(row, f"{own.of}_ns") for row in job.table]
    others_ns = float(np.median(np.delete(totals_ns, i)))
    longer_ns = totals_ns[i] - others_ns
    if units.duration(longer_ns) == units.duration(excess_ns):
        return "", True
    words = phrase(
        "; over the whole record {time}, {others} {other_time}",
        time=units.duration(totals_ns[i]),
        others=job.than_others(i),
        other_time=units.duration(others_ns),
    )
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
    lines = {rank: time_on_lines(job, rank) for rank in job.ranks}
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


def describe_line(job: Ranks, late_places: Sequence[int], who: str) -> Reason | None:
    """That line in a sentence, and what to do; None where none explains it.  who: the rank that was last."""
    late_on = late_line(job, late_places)
    if late_on is None:
        return None
    line, longer_ns = late_on
    i, longer = late_places[0], units.duration(longer_ns)
    than, look_there = job.than_others(i), phrase("Look at line {line} on {who}", line=line, who=who)
    why = phrase("on line {line} {who} spent {time} longer than {than}", line=line, who=who, time=longer, than=than)
    if len(late_places) > 1:
        return Reason(why, Remedy(look_there))
    cell = job.traces[job.ranks[i]].cell
    code = cell.text(line) if cell else ""
    room = ACTION_CHARS - columns(action("late_line", line=line, rank=job.ranks[i], code=""))
    at = {"line": line, "rank": job.ranks[i]}
    look = action("late_line", **at, code=cut_to_columns(code, room)) if code else action("late_rank_line", **at)
    said = headline("late_on_line", rank=job.ranks[i], time=longer, line=line, others=job.others(i))
    return Reason(why, Remedy(look_there, look), said, line)


def time_on_lines(job: Ranks, rank: int) -> dict[int, Intervals]:
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
