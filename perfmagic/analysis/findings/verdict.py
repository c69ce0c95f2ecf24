"""Who was the bottleneck, Python or the device?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.verdict import DEVICE_BOUND_FRAC, NO_VERDICT, Verdict
from perfmagic.trace.columns import NO_LINE
from perfmagic.trace.hoststack import operator_stack
from perfmagic.trace.model import Trace

# a verdict turns on a tenth of the time, see above: where so much of what the device executed rests on lengths that the
# reader had to make up, these alone could turn it
REPAIRED_FRAC = 1 - DEVICE_BOUND_FRAC
CAUSE_WORDS = {
    "host": "Python",
    "sync_drain": "a sync to return",
    "dependency": "another stream",
    "launch_latency": "launches to arrive",
    "unknown": "causes the record does not show",
}
SIM_UNKNOWN = "the simulated device itself, whose threads share Python's lock"


def verdict(trace: Trace, done_ns: int | None = None) -> Verdict:
    """Who was the bottleneck of this cell?

    done_ns: from the cell's start until the device was done, by default the length of the window.
    Source: docs/words.md, "verdict". Time before the first op and after the last counts as the host's: nothing
    was queued then.
    """
    return verdict_of(Facts(trace, done_ns=done_ns))


def verdict_of(facts: Facts) -> Verdict:
    """The verdict, from analyses that are at hand."""
    if not len(facts.trace.ops):
        return Verdict("no device records", 0.0, *_host_only(facts.trace))
    if too_much_repaired(facts):
        return Verdict(NO_VERDICT, 0.0, f"{repaired_words(facts)}, too many to say who waited for whom")
    judged = _of_times(facts)
    repaired = repaired_words(facts)
    return replace(judged, detail="; ".join(filter(None, (judged.detail, repaired)))) if repaired else judged


def _of_times(facts: Facts) -> Verdict:
    done_ns = facts.window_ns if facts.done_ns is None else facts.done_ns
    busy_frac = facts.breakdown.busy_ns / done_ns if done_ns > 0 else 0.0
    if busy_frac >= DEVICE_BOUND_FRAC:
        return Verdict("device-bound", min(busy_frac, 1.0), _device_bound(facts, min(busy_frac, 1.0)))
    parts, gaps = facts.breakdown, facts.gaps
    outside_ns = max(0, done_ns - parts.extent_ns)
    for_python_ns = gaps.for_python_ns + outside_ns
    if for_python_ns > gaps.total_ns - gaps.for_python_ns:
        return _host_bound(facts, busy_frac, outside_ns)
    return Verdict("gaps", busy_frac, _gaps(facts), cost_ns=gaps.total_ns)


def _device_bound(facts: Facts, busy_frac: float) -> str:
    several = len(facts.trace.device_ids) > 1
    parts = [f"{facts.the_busiest} was busy {units.percent(busy_frac)} of the time"] if several else []
    deepest = max((q.ops_max for q in facts.queues), default=0)
    ahead_ns = max((q.run_ahead_max_ns for q in facts.queues), default=0)
    if deepest:
        parts.append(f"Python ran up to {units.plural(deepest, 'op')} and {units.duration(ahead_ns)} ahead")
    if waits_for_device(facts):
        parts.append(
            f"{'Python' if facts.trace.meta.returned_ns is None else 'the cell'} waits for {facts.the_device} itself"
        )
    if facts.breakdown.idle_ns:
        parts.append(f"{units.duration(facts.breakdown.idle_ns)} idle in all")
    return "; ".join(parts)


def waits_for_device(facts: Facts) -> bool:
    """Whether a blocking call of the cell itself lasted until the device had finished."""
    found = facts.syncs
    lasted = (found.end_ns >= facts.breakdown.extent_end_ns) & ~found.after_cell
    return bool((lasted & (2 * found.busy_ns > found.blocked_ns)).any())


def _host_bound(facts: Facts, busy_frac: float, outside_ns: int) -> Verdict:
    gaps = facts.gaps
    by_line = sorted(((ns, line) for line, ns in gaps.by_line_ns.items() if line != NO_LINE), reverse=True)
    named = [(ns, line) for ns, line in by_line[:2] if ns >= facts.notable_ns]
    parts = []
    if gaps.for_python_ns:
        where = ", ".join(
            f"{units.duration(ns)} {'of it ' if i == 0 else ''}on line {line}" for i, (ns, line) in enumerate(named)
        )
        waited = f"the queue was empty and {facts.the_busiest} waited {units.duration(gaps.for_python_ns)} for Python"
        parts.append(f"{waited}, {where}" if where else waited)
    parts += _outside(facts, outside_ns)
    lost_ns = gaps.for_python_ns or outside_ns or None
    parts += _exposed_beside(facts, lost_ns or 0)
    return Verdict("host-bound", busy_frac, "; ".join(parts), tuple(n for _, n in named), lost_ns)


def _outside(facts: Facts, outside_ns: int) -> list[str]:
    """What passed before the device's first op, and where Python was then, and what passed after its last."""
    start_ns, first_ns = facts.trace.meta.start_ns, facts.breakdown.extent_start_ns
    head_ns = min(outside_ns, max(0, first_ns - start_ns))
    parts = []
    if head_ns >= facts.notable_ns:
        ns, line = _main_line(facts.trace, start_ns, first_ns)
        where = f", {units.duration(ns)} of it on line {line}" if line != NO_LINE else ""
        parts.append(f"{units.duration(head_ns)} passed before {facts.the_device}'s first op{where}")
    if outside_ns - head_ns >= facts.notable_ns:
        parts.append(f"{units.duration(outside_ns - head_ns)} passed after its last op")
    return parts


def _main_line(trace: Trace, start_ns: int, end_ns: int) -> tuple[int, int]:
    """The line Python was on longest in a stretch of time, and for how long; (0, NO_LINE) without marks."""
    marks = trace.marks
    if not len(marks):
        return 0, NO_LINE
    begin = np.clip(marks.at_ns, start_ns, end_ns)
    sums = np.bincount(marks.line, weights=np.append(begin[1:], end_ns) - begin)
    line = int(sums.argmax())
    return int(sums[line]), line


def _gaps(facts: Facts) -> str:
    total = facts.gaps.total_ns
    cause, ns = max(facts.gaps.by_cause_ns.items(), key=lambda item: item[1])
    words = cause_words(cause, simulated=facts.trace.simulated)
    idle = f"{facts.the_busiest} was idle {units.duration(total)}, {units.duration(ns)} of it waiting for {words}"
    return "; ".join((idle, *_exposed_beside(facts, total)))


def _exposed_beside(facts: Facts, lost_ns: int) -> list[str]:
    """What the device did alone for longer than it was idle: the finding that comes first is announced here."""
    parts = facts.breakdown
    both = ((parts.exposed_communication_ns, "communication"), (parts.exposed_copy_ns, "copies"))
    exposed_ns, what = max(both)
    if exposed_ns <= lost_ns:
        return []
    return [f"while busy, it spent {units.duration(exposed_ns)} in {what} with no compute beside"]


def repaired_words(facts: Facts) -> str:
    """How many durations the verdict rests on were repaired by the reader; nothing where none were."""
    meta = facts.trace.meta
    counts = (
        (meta.repaired_ops, len(facts.trace.ops), "device op"),
        (meta.repaired_calls, len(facts.trace.calls), "call"),
    )
    words = [f"{units.count(min(n, of))} of {units.plural(of, name)}" for n, of, name in counts if n and of]
    return f"it rests on repaired durations, of {' and '.join(words)}" if words else ""


def too_much_repaired(facts: Facts) -> bool:
    """Whether repaired durations of device ops could turn the verdict, by their number or by their time.

    By number too: a duration that was missing is 0 now, and nobody knows what it was.
    """
    meta = facts.trace.meta
    executed_ns = int((facts.trace.ops.end_ns - facts.trace.ops.start_ns).sum())
    return bool(meta.repaired_ops) and (
        meta.repaired_ops >= REPAIRED_FRAC * len(facts.trace.ops) or meta.repaired_ns >= REPAIRED_FRAC * executed_ns
    )


def cause_words(cause: str, *, simulated: bool) -> str:
    """What an idle device waited for, in words. cause: one of perfmagic.analysis.timeline.idle.CAUSES."""
    return SIM_UNKNOWN if cause == "unknown" and simulated else CAUSE_WORDS[cause]


def _host_only(trace: Trace) -> tuple[str, tuple[int, ...]]:
    """What the host did: its outermost operators with the largest sums."""
    ops = trace.host_ops
    levels = operator_stack(trace).levels.values()
    rows = np.concatenate([level[0] for level in levels]) if levels else np.zeros(0, np.int64)
    if not len(rows):
        return "the device ran nothing that was recorded", ()
    names, inverse, n = np.unique(ops.name[rows], return_inverse=True, return_counts=True)
    sums = np.zeros(len(names), np.int64)
    np.add.at(sums, inverse, ops.end_ns[rows] - ops.start_ns[rows])
    top = np.argsort(-sums, kind="stable")[:3]
    words = [f"{trace.names[names[i]]} {units.duration(int(sums[i]))} in all (×{units.count(int(n[i]))})" for i in top]
    return f"the host ran {', '.join(words)}", ()
