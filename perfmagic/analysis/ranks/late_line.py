"""On which line of the cell a late rank is longer than the others, before the collectives that it comes last to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmagic import units
from perfmagic.analysis.ranks.matching import MatchedGroup
from perfmagic.analysis.ranks.one_job import OneJob
from perfmagic.analysis.ranks.own_time import IN_TIME_FRAC
from perfmagic.analysis.timeline.syncs import syncs
from perfmagic.numerics.intervals import EMPTY, Intervals, covered_ns, subtract, union
from perfmagic.trace.columns import NONE, Int64

MOST_FRAC = 0.5  # of what others wait for the ranks: less time on one line is not the reason


def late_line(job: OneJob, late_ones: Sequence[int]) -> tuple[int, int] | None:
    """The line that explains most of what others wait for some ranks, and by how much they are longer on it (ns).

    Counted between asking for the collective before and asking for each that one of them came last to, blocking calls
    left out. None where the cell's lines are not recorded or the traces not kept, the ranks ran other cells, or no line
    explains it.
    """
    traces = job.all.traces
    sources = {trace.cell.source if trace.cell else "" for trace in traces.values()}
    if len(traces) < len(job.ranks):  # they were not kept
        return None
    if len(sources) > 1 or not all(len(trace.marks) for trace in traces.values()):
        return None
    lines = {rank: _lines(job, rank) for rank in job.ranks}
    found: dict[int, float] = {}
    for i in late_ones:
        for group, place, where in job.last_at(i):
            if len(where):
                for line in sorted(set().union(*(lines[rank] for rank in group.ranks))):
                    spent = _spent_ns(job, group, [lines[rank].get(line) for rank in group.ranks], where)
                    waiting = group.waiting_ns[:, where]
                    in_time = waiting >= IN_TIME_FRAC * waiting.max(axis=0)
                    in_time[place] = False
                    usual = np.nanmedian(np.where(in_time, spent, np.nan), axis=0)
                    found[line] = found.get(line, 0.0) + float((spent[place] - usual).sum())
    if not found:
        return None
    line, longer_ns = max(found.items(), key=lambda one: one[1])
    waited_ns = max(job.waited_for_ns(i) for i in late_ones)
    return (line, round(longer_ns)) if longer_ns >= max(job.notable_ns, MOST_FRAC * waited_ns) else None


def line_words(job: OneJob, late_ones: Sequence[int], who: str) -> tuple[str, str]:
    """That line in a sentence, and what to do; both "" where none explains it.  who: the rank that was last."""
    found = late_line(job, late_ones)
    if found is None:
        return "", ""
    line, longer_ns = found
    than = job.than_others(late_ones[0])
    return f"on line {line} {who} spent {units.duration(longer_ns)} longer than {than}", f"Look at line {line} on {who}"


def _lines(job: OneJob, rank: int) -> dict[int, Intervals]:
    """When a rank's Python was on each line of the cell, and in no call that blocks it."""
    trace = job.all.traces[rank]
    marks, meta, found_syncs = trace.marks, trace.meta, syncs(trace)
    last_ns = meta.returned_ns or max(meta.end_ns, int(marks.at_ns[-1]))
    ends = np.append(marks.at_ns[1:], max(last_ns, int(marks.at_ns[-1])))
    blocked = union(found_syncs.start_ns, found_syncs.end_ns)
    found = {}
    for line in np.unique(marks.line[marks.line > 0]).tolist():
        on = (marks.line == line) & (ends > marks.at_ns)
        found[int(line)] = subtract(union(marks.at_ns[on], ends[on]), blocked)
    return found


def _spent_ns(job: OneJob, group: MatchedGroup, on_line: Sequence[Intervals | None], where: Int64) -> Int64:
    """How long each rank was on a line before each of some collectives; shape (ranks, collectives)."""
    rows = []
    for i, (rank, spans) in enumerate(zip(group.ranks, on_line, strict=True)):
        asked, free = _asked(job, group, i)
        before = np.concatenate(([min(job.all.began_ns(rank), int(asked[0]))], free[:-1]))
        rows.append(covered_ns(EMPTY if spans is None else spans, before, asked)[where])
    return np.array(rows)


def _asked(job: OneJob, group: MatchedGroup, i: int) -> tuple[Int64, Int64]:
    """When a rank asked for each collective of a group, and when its Python went on from there."""
    asked = job.summaries[group.ranks[i]].comm["launched"][group.places[i]]
    if (asked == NONE).any():  # on the CPU: it asks when the collective starts, and goes on when it ends
        return group.start_ns[i], group.end_ns[i]
    return asked, asked
