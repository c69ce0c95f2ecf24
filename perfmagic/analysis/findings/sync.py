"""The finding "Python blocked", one for each thing that asked for it, and its sentence."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, listed, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.places import on_sync_lines
from perfmagic.analysis.findings.python_was import frame_words
from perfmagic.analysis.timeline.host_time import is_own_frame
from perfmagic.numerics.intervals import Intervals, intersect, merge, subtract, total_ns, union
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.names import OpClass, copy_direction

_PROFILER = re.compile(r"(?:^|[\\/])torch[\\/](?:profiler|autograd[\\/]profiler\.py)")  # frames of torch.profiler
SEVERAL = 3  # so many waits are a habit
QUEUED_FRAC = 0.1  # of a wait; less is the way of a launch
NO_COST_FRAC = 0.95  # a device so busy while Python was blocked lost nothing that could be won


def sync(facts: Facts, free: Intervals) -> list[Finding]:
    """Calls that blocked Python, one finding for each thing that asked for them."""
    found = facts.syncs
    mine = ~uploads(facts) & ~waits_for_uploads(facts) & ~found.after_cell
    result = []
    for asked_by, at_edge in np.unique(np.column_stack((found.asked_by, found.at_edge))[mine], axis=0).tolist():
        rows = np.flatnonzero(mine & (found.asked_by == asked_by) & (found.at_edge == at_edge))
        blocked_ns = int(found.blocked_ns[rows].sum())
        if blocked_ns < facts.notable_ns:
            continue
        times = f" ×{units.count(found.n_asked(rows))}" if found.n_asked(rows) > 1 else ""
        where = f" in {found.words(int(rows[0]))}{times}{on_sync_lines(facts, rows)}"
        cause = f"Python blocked {units.duration(blocked_ns)}"
        edge = _edge(facts, rows) if at_edge else ""
        meanwhile, afterwards = device_meanwhile(facts, rows), _queue_afterwards(facts, rows)
        detail = sentences(where + edge, meanwhile, _queued_meanwhile(facts, rows), *afterwards)
        one = waiting(facts, free, "sync", rows, cause, detail)
        # what it left the device without is lost, and told where that time is
        result.append(replace(one, cost_ns=None) if one.cost_ns == 0 and afterwards else one)
        free = subtract(free, result[-1].where)
    return result


def waiting(
    facts: Facts,
    free: Intervals,
    rule: str,
    rows: Int64,
    cause: str,
    detail: str,
    advice: str = "",
    *,
    less_ns: int = 0,
) -> Finding:
    """A finding about calls that blocked Python; it costs the part of `free`, idle time, that they made.

    That is time in which nothing was queued: what a device is idle for beside, with ops queued, has other causes.
    less_ns: what of it would be lost all the same.
    """
    found, parts = facts.syncs, facts.cell_time.parts
    blocked_ns = int(found.blocked_ns[rows].sum())
    idle = intersect(free, merge(parts["blocked"], parts["other_device"]))
    where = intersect(idle, union(found.start_ns[rows], found.end_ns[rows]))
    idle_ns = max(0, total_ns(where) - less_ns)
    return Finding(
        rule=rule,
        cost_ns=_cost_ns(idle_ns, blocked_ns, int(found.busy_ns[rows].sum())),
        cause=cause,
        detail=detail,
        lines=tuple(int(n) for n in np.unique(found.line[rows]) if n > 0),
        start_ns=int(found.start_ns[rows].min()),
        end_ns=int(found.end_ns[rows].max()),
        device=facts.device,
        advice=advice,
        where=where,
    )


def _cost_ns(idle_ns: int, blocked_ns: int, busy_ns: int) -> int | None:
    """What calls cost: nothing only where the device was busy all the while, not where it was idle for other causes."""
    if idle_ns > (1 - NO_COST_FRAC) * blocked_ns:
        return idle_ns
    return 0 if busy_ns >= NO_COST_FRAC * blocked_ns else None


def device_meanwhile(facts: Facts, rows: Int64) -> str:
    """How busy the device was while some calls blocked Python."""
    blocked_ns, busy_ns = int(facts.syncs.blocked_ns[rows].sum()), int(facts.syncs.busy_ns[rows].sum())
    return f"{_device(facts, rows)} was busy {units.percent(busy_ns / blocked_ns)} of that time"


def _queued_meanwhile(facts: Facts, rows: Int64) -> str:
    """How long the device was idle meanwhile though work was queued: that time the calls did not cost."""
    parts = facts.cell_time.parts
    queued = merge(parts["other_stream"], parts["unexplained"], parts["between_ops"], parts["launching"])
    queued_ns = total_ns(intersect(queued, union(facts.syncs.start_ns[rows], facts.syncs.end_ns[rows])))
    if queued_ns < max(facts.notable_ns, QUEUED_FRAC * int(facts.syncs.blocked_ns[rows].sum())):
        return ""
    return f"for {units.duration(queued_ns)} of it {facts.the_device} had work queued and did not execute"


def _device(facts: Facts, rows: Int64) -> str:
    """The device whose busy time the calls have: of several that of the calls, where they name one."""
    if len(facts.trace.device_ids) == 1:
        return facts.the_device
    devices = np.unique(facts.syncs.device[rows])
    return f"device {devices[0]}" if len(devices) == 1 and devices[0] != NONE else "some device"


def _edge(facts: Facts, rows: Int64) -> str:
    """Where in the record the calls are that begin or end it, and who made them, where Python's stacks say so."""
    first = facts.trace.launch_start_ns()[facts.trace.ops.launch != NONE].min()
    begins = facts.syncs.end_ns[rows] <= first
    ends = [" begins"] * bool(begins.any()) + [" ends"] * bool((~begins).any())
    where = f", where the record{' and'.join(ends)}"
    callers = [_caller(facts, int(row)) for row in rows]
    if not all(callers):  # a profiler's own cannot be told from the user's
        return f"{where}: profilers wait for the device there themselves"
    if len(set(callers)) == 1:
        return f"{where}: {callers[0]} called it"
    held = dict.fromkeys(callers, 0)
    for one, ns in zip(callers, facts.syncs.blocked_ns[rows].tolist(), strict=True):
        held[one] += ns
    (one, ns), *others = held.items()
    words = [f"{one} called {units.duration(ns)} of it", *(f"{one} {units.duration(ns)}" for one, ns in others)]
    return f"{where}: {listed(words)}"


def _caller(facts: Facts, row: int) -> str:
    """Whose Python made a blocking call: the profiler, or the innermost function outside torch; "" where not known."""
    calls, names = facts.trace.calls, facts.trace.names
    call = int(facts.syncs.call[row])
    at = calls.start_ns[[call]]
    around = facts.trace.python_frames.running_at(at)
    mine = around.take(around.thread == calls.thread[call])
    order = np.lexsort((-mine.end_ns, mine.start_ns))  # the outermost first
    stack = [names[name] for name in mine.name[order].tolist()]
    if any(_PROFILER.search(name) for name in stack):
        return "the profiler"
    return next((frame_words(name) for name in reversed(stack) if is_own_frame(name)), "")


def _queue_afterwards(facts: Facts, rows: Int64) -> list[str]:
    """What several waits cost that no wait shows: after each the device has nothing until Python queues again."""
    gaps = facts.gaps
    ends = np.sort(facts.syncs.end_ns[rows])
    if len(rows) < SEVERAL or not len(gaps):
        return []
    last = np.searchsorted(ends, gaps.end_ns, side="left") - 1  # the latest wait that ended before the gap did
    emptied = (last >= 0) & (ends[np.maximum(last, 0)] >= gaps.start_ns)
    lost_ns = int(np.minimum(gaps.end_ns - ends[np.maximum(last, 0)], gaps.for_python_ns)[emptied].sum())
    if lost_ns < facts.notable_ns:
        return []
    return ["each left the queue empty", f"{facts.the_device} then waited {units.duration(lost_ns)} for Python"]


def uploads(facts: Facts) -> Bool:
    """Which blocking calls are copies from pageable memory to the device."""
    trace, found = facts.trace, facts.syncs
    htod = np.array([copy_direction(name) == OpClass.HTOD for name in trace.names], bool)
    is_htod = np.zeros(len(trace.calls), bool)
    launched = trace.ops.launch != NONE
    is_htod[trace.ops.launch[launched]] = htod[trace.ops.name[launched]]
    uploads: Bool = found.pageable & is_htod[found.call]
    return uploads


def waits_for_uploads(facts: Facts) -> Bool:
    """Which blocking calls only end such a copy, which is the call before them on their thread.

    torch waits for the stream after each copy without non_blocking.
    """
    found, calls = facts.syncs, facts.trace.calls
    upload = uploads(facts)
    if not upload.any():
        return upload
    order = np.lexsort((calls.start_ns, calls.thread))
    before = np.full(len(calls), NONE, np.int64)
    same_thread = calls.thread[order[1:]] == calls.thread[order[:-1]]
    before[order[1:][same_thread]] = order[:-1][same_thread]
    waits: Bool = ~upload & np.isin(before[found.call], found.call[upload])
    return waits
