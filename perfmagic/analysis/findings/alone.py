"""The findings "start-up", "the device began late" and "Python went on alone", and their sentences."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.places import on_time_lines
from perfmagic.numerics.intervals import Intervals, clip, intersect, total_ns, union
from perfmagic.trace.columns import NO_LINE
from perfmagic.trace.correlate import lines_at

ALONE_FRAC = 0.1  # of the window; every cell begins and ends with a little Python


def began_late(facts: Facts, free: Intervals) -> list[Finding]:
    """A cell whose device ran nothing for long because Python had launched nothing."""
    meta, start_ns = facts.trace.meta, facts.breakdown.extent_start_ns
    where = clip(free, meta.start_ns, start_ns)
    if meta.returned_ns is None or not len(where) or total_ns(where) < ALONE_FRAC * facts.window_ns:
        return []  # a file has no beginning and end but its records
    return [_alone(facts, f"{facts.the_device} began late", "it ran no op for the first", where)]


def start_up(facts: Facts) -> list[Finding]:
    """Calls into the runtime or driver before the first op of a file, as long as they do not happen in its extent."""
    trace, first_ns = facts.trace, facts.breakdown.extent_start_ns
    calls, begun_ns = trace.calls, trace.meta.start_ns
    if trace.meta.returned_ns is not None or trace.simulated or not len(calls):
        return []
    held = np.minimum(calls.end_ns, first_ns) - np.maximum(calls.start_ns, begun_ns)
    before = np.flatnonzero(held > 0)
    in_calls_ns = total_ns(clip(union(calls.start_ns[before], calls.end_ns[before]), begun_ns, first_ns))
    if in_calls_ns < max(1, ALONE_FRAC * facts.window_ns):
        return []
    longest = int(before[held[before].argmax()])
    name, passed_ns = trace.names[calls.name[longest]], first_ns - begun_ns
    inside = f"{units.duration(int(held[longest]))} of it in one {name}"
    return [
        Finding(
            rule="alone",
            cost_ns=None,
            cause="start-up",
            detail=f": {units.duration(passed_ns)} of the record passed before the first op{facts.on_device}, {inside}",
            lines=(),
            start_ns=begun_ns,
            end_ns=first_ns,
            device=facts.device,
            advice="The first calls make the device ready: run the cell once before recording",
        )
    ]


def went_on_alone(facts: Facts, free: Intervals) -> list[Finding]:
    """A cell whose device had finished long before Python had; where that is the verdict, it is told there."""
    where = intersect(free, facts.cell_time.tail)
    if not len(where) or total_ns(where) < ALONE_FRAC * facts.window_ns:
        return []
    words = f"{facts.the_device} had done its last op, and Python worked for another"
    return [_alone(facts, "Python went on alone", words, where)]


def _alone(facts: Facts, cause: str, words: str, where: Intervals) -> Finding:
    cost_ns = total_ns(where)
    longest = where[(where[:, 1] - where[:, 0]).argmax()]
    line = int(lines_at(facts.trace.marks, np.array([longest.sum() // 2]))[0])
    place = on_time_lines(facts, where, [line])
    amount = f"{units.duration(cost_ns)}, {units.percent(cost_ns / facts.window_ns)} of the cell"
    return Finding(
        rule="alone",
        cost_ns=cost_ns,
        cause=cause,
        detail=f": {words} {amount}" + (f",{place}" if place else ""),
        lines=(line,) if line != NO_LINE else (),
        start_ns=int(where[0, 0]),
        end_ns=int(where[-1, 1]),
        device=facts.device,
        where=where,
    )
