"""The findings "Python blocked", "pageable HtoD copies" and "copied again": their cost, and who made them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from perfmagic.analysis.findings.catalogue import action, count_things, headline
from perfmagic.analysis.findings.facts import Facts, indexing_calls, uploads, waits_for_uploads
from perfmagic.analysis.findings.finding import Finding, Outcome, Silent, name_frame, on_call_lines, on_sync_lines
from perfmagic.analysis.timeline.activity import ASSIGNED, NO_COST_FRAC, PRINTED
from perfmagic.analysis.timeline.copies import pinned_bus
from perfmagic.analysis.timeline.host_time import is_own_frame
from perfmagic.analysis.timeline.idle import LAUNCH_LATENCY_NS
from perfmagic.analysis.timeline.overlap import HostCopies
from perfmagic.base import units
from perfmagic.base.language import counted, listed, phrase, sentences
from perfmagic.base.numerics.intervals import Intervals, intersect, merge, subtract, total_ns, union
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.names import OpClass, op_classes

_PROFILER = re.compile(r"(?:^|[\\/])torch[\\/](?:profiler|autograd[\\/]profiler\.py)")  # frames of torch.profiler
_READS = frozenset(
    {".item()", "bool()", PRINTED, ".to()", ".cpu()", ".tolist()", ".copy_()", ASSIGNED}
)  # which can wait until after a loop
SEVERAL = 3  # waits at least, before the gaps after them are reported
QUEUED_FRAC = 0.1  # of a wait; less is ordinary launch latency


def sync(facts: Facts, free: Intervals) -> Outcome:
    """Calls that blocked Python, one finding per kind of caller."""
    blocking = facts.syncs
    counts = ~uploads(facts) & ~waits_for_uploads(facts) & ~blocking.after_cell
    result: list[Finding] = []
    longest_ns = 0
    groups = np.unique(np.column_stack((blocking.asked_by, blocking.at_edge))[counts], axis=0)
    for asked_by, at_edge in groups.tolist():
        rows = np.flatnonzero(counts & (blocking.asked_by == asked_by) & (blocking.at_edge == at_edge))
        blocked_ns = int(blocking.blocked_ns[rows].sum())
        longest_ns = max(longest_ns, blocked_ns)
        if blocked_ns < facts.notable_ns:
            continue
        times = f" ×{units.count(blocking.n_asked(rows))}" if blocking.n_asked(rows) > 1 else ""
        made = phrase(
            " in {call}{times}{where}{edge}",
            call=blocking.asker_name(int(rows[0])),
            times=times,
            where=on_sync_lines(facts.trace, rows),
            edge=_edge(facts, rows) if at_edge else "",
        )
        cause = phrase("Python blocked {time}", time=units.duration(blocked_ns))
        meanwhile, afterwards = device_meanwhile(facts, rows), _queue_afterwards(facts, rows)
        detail = sentences(made, meanwhile, _queued_meanwhile(facts, rows), *afterwards)
        finding = waiting(facts, free, "sync", rows, cause, detail)
        # another finding has the time in which the device had nothing to run
        finding = replace(finding, cost_ns=None) if finding.cost_ns == 0 and afterwards else finding
        fact, remedy = ("", "") if at_edge else _answer(facts, rows, blocked_ns)
        result.append(replace(finding, headline=fact, action=remedy))
        free = subtract(free, result[-1].where)
    if not counts.any():
        return Silent(phrase("no call other than pageable copies blocked Python"))
    return result or facts.below_notable(phrase("the longest group of calls blocked Python for"), longest_ns)


def _answer(facts: Facts, rows: Int64, blocked_ns: int) -> tuple[str, str]:
    """Headline and action for calls that read values or wait in the middle of the record."""
    asker, n = facts.syncs.asker_name(int(rows[0])), facts.syncs.n_asked(rows)
    if n < 2:
        return headline("sync_once", call=asker, time=units.duration(blocked_ns)), ""
    reads = asker in _READS and 2 * int(_reads_values(facts, rows).sum()) > len(rows)
    return headline("sync", call=asker, n=units.count(n)), action("read_later") if reads else ""


def _reads_values(facts: Facts, rows: Int64) -> Bool:
    """Which blocking calls come from an operator that copies nothing to the device: `.to()` copies both ways."""
    trace, asker = facts.trace, facts.syncs.asker[rows]
    uploading = (trace.ops.launch != NONE) & (op_classes(trace) == OpClass.HTOD)
    at_ns = np.sort(trace.calls.start_ns[trace.ops.launch[uploading]])
    known, reads = asker != NONE, np.ones(len(rows), bool)
    begin_ns, end_ns = trace.host_ops.start_ns[asker[known]], trace.host_ops.end_ns[asker[known]]
    reads[known] = np.searchsorted(at_ns, begin_ns) == np.searchsorted(at_ns, end_ns, side="right")
    return reads


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
    """A finding about calls that blocked Python; its cost is the part of `free`, idle time, that they caused.

    Nothing was queued in that time: idle time with queued ops has other causes.
    less_ns: the part that would also be lost without these calls.
    """
    blocking, parts = facts.syncs, facts.cell_time.waiting
    blocked_ns = int(blocking.blocked_ns[rows].sum())
    idle = intersect(free, merge(parts["blocked"], parts["other_device"]))
    where = intersect(idle, union(blocking.start_ns[rows], blocking.end_ns[rows]))
    idle_ns = max(0, total_ns(where) - less_ns)
    return Finding(
        rule=rule,
        cost_ns=_cost_ns(idle_ns, blocked_ns, int(blocking.busy_ns[rows].sum())),
        cause=cause,
        detail=detail,
        lines=tuple(int(n) for n in np.unique(blocking.line[rows]) if n > 0),
        start_ns=int(blocking.start_ns[rows].min()),
        end_ns=int(blocking.end_ns[rows].max()),
        device=facts.device,
        advice=advice,
        where=where,
    )


def _cost_ns(idle_ns: int, blocked_ns: int, busy_ns: int) -> int | None:
    """The cost of calls: 0 if the device stayed busy, None if it was idle for other reasons."""
    if idle_ns > (1 - NO_COST_FRAC) * blocked_ns:
        return idle_ns
    return 0 if busy_ns >= NO_COST_FRAC * blocked_ns else None


def device_meanwhile(facts: Facts, rows: Int64) -> str:
    """How busy the device was while some calls blocked Python."""
    blocked_ns, busy_ns = int(facts.syncs.blocked_ns[rows].sum()), int(facts.syncs.busy_ns[rows].sum())
    share = units.percent(busy_ns / blocked_ns)
    return phrase("{device} was busy {share} of that time", device=_device(facts, rows), share=share)


def _queued_meanwhile(facts: Facts, rows: Int64) -> str:
    """How long the device was idle meanwhile although work was queued: not because of these calls."""
    parts = facts.cell_time.waiting
    queued = merge(parts["other_stream"], parts["unexplained"], parts["between_ops"], parts["launching"])
    queued_ns = total_ns(intersect(queued, union(facts.syncs.start_ns[rows], facts.syncs.end_ns[rows])))
    if queued_ns < max(facts.notable_ns, QUEUED_FRAC * int(facts.syncs.blocked_ns[rows].sum())):
        return ""
    return phrase(
        "for {time} of that time, {device} had work queued but ran nothing",
        time=units.duration(queued_ns),
        device=facts.the_device,
    )


def _device(facts: Facts, rows: Int64) -> str:
    """The device whose busy time is reported: of several, the one that the calls name, if any."""
    if len(facts.trace.device_ids) == 1:
        return facts.the_device
    devices = np.unique(facts.syncs.device[rows])
    if len(devices) == 1 and devices[0] != NONE:
        return phrase("device {n}", n=int(devices[0]))
    return phrase("some device")


def _edge(facts: Facts, rows: Int64) -> str:
    """That the record begins or ends with these calls, and who made them, if Python's stacks show it."""
    first = facts.trace.launch_start_ns(facts.trace.ops.launch != NONE).min()
    begins = facts.syncs.end_ns[rows] <= first
    where = phrase("begins and ends")
    if begins.all():
        where = phrase("begins")
    elif not begins.any():
        where = phrase("ends")
    callers = [_caller(facts, int(row)) for row in rows]
    if not all(callers):  # the profiler's own calls look like the user's
        return phrase(", where the record {begins}: profilers synchronize there themselves", begins=where)
    if len(set(callers)) == 1:
        return phrase(", where the record {begins}: {caller} made the call", begins=where, caller=callers[0])
    blocked_ns = dict.fromkeys(callers, 0)
    for caller, ns in zip(callers, facts.syncs.blocked_ns[rows].tolist(), strict=True):
        blocked_ns[caller] += ns
    by_caller = listed([phrase("{a} ({b})", a=caller, b=units.duration(ns)) for caller, ns in blocked_ns.items()])
    return phrase(", where the record {begins}: the calls are from {callers}", begins=where, callers=by_caller)


def _caller(facts: Facts, row: int) -> str:
    """Who made a blocking call: the profiler, or the innermost function outside torch; "" where not known."""
    calls, names = facts.trace.calls, facts.trace.names
    call = int(facts.syncs.call[row])
    at = calls.start_ns[[call]]
    around = facts.trace.python_frames.running_at(at)
    on_thread = around.select(around.thread == calls.thread[call])
    order = np.lexsort((-on_thread.end_ns, on_thread.start_ns))  # the outermost first
    stack = [names[name] for name in on_thread.name[order].tolist()]
    if any(_PROFILER.search(name) for name in stack):
        return phrase("the profiler")
    return next((name_frame(name) for name in reversed(stack) if is_own_frame(name)), "")


def _queue_afterwards(facts: Facts, rows: Int64) -> list[str]:
    """The cost after several waits: each time, the device has nothing to run until Python queues again."""
    gaps = facts.gaps
    ends = np.sort(facts.syncs.end_ns[rows])
    if len(rows) < SEVERAL or not len(gaps):
        return []
    last = np.searchsorted(ends, gaps.end_ns, side="left") - 1  # the latest wait that ended before the gap did
    emptied = (last >= 0) & (ends[np.maximum(last, 0)] >= gaps.start_ns)
    lost_ns = int(np.minimum(gaps.end_ns - ends[np.maximum(last, 0)], gaps.for_python_ns)[emptied].sum())
    if lost_ns < facts.notable_ns:
        return []
    time = units.duration(lost_ns)
    return [
        phrase("each left the queue empty"),
        phrase("{device} then waited {time} for Python", device=facts.the_device, time=time),
    ]


FAR_RATIO = 3  # times the longest of the others, as for gaps


def pageable(facts: Facts, free: Intervals) -> Outcome:
    """Copies from pageable memory to the device that blocked Python.

    Their cost is the time that the device was idle because they blocked Python, less a launch each: a pinned copy
    blocks Python for that long, too. How much longer they take than pinned ones is a part of exposed copies: see
    slower_copies. The device's first op is left out if its call took far longer than the others: it initialized the
    device.
    """
    syncs = facts.syncs
    start_up = _start_up(facts)
    counts = ~syncs.after_cell & ~np.isin(np.arange(len(syncs)), start_up)
    copied = uploads(facts) & counts
    calls = np.flatnonzero(copied)
    rows = np.flatnonzero(copied | (waits_for_uploads(facts, copied) & counts))
    blocked_ns = int(syncs.blocked_ns[rows].sum())
    launches_ns = LAUNCH_LATENCY_NS * len(calls)
    if not len(calls):
        return Silent(phrase("no copy from pageable memory blocked Python"))
    if blocked_ns - launches_ns < facts.notable_ns:
        apart = phrase("apart from a launch each, pageable copies blocked Python for")
        return facts.below_notable(apart, blocked_ns - launches_ns)
    copies = _copies(facts, calls)
    waited_ns = blocked_ns - int(syncs.blocked_ns[calls].sum())
    waited = phrase(", {time} of that in the wait for the stream after each", time=units.duration(waited_ns))
    blocked = phrase(
        " blocked Python for {time}{where}{waited}",
        time=units.duration(blocked_ns),
        where=on_sync_lines(facts.trace, rows),
        waited=waited if waited_ns else "",
    )
    cause = counted(len(calls), "{n} pageable HtoD copy", "{n} pageable HtoD copies")
    first = phrase(
        "another copy, the first op of {device}, blocked Python for {time} and is not counted",
        device=facts.the_device,
        time=units.duration(int(syncs.blocked_ns[start_up].sum())),
    )
    detail = sentences(blocked, device_meanwhile(facts, rows), first if len(start_up) else "", copies.overlap_reason)
    advice = _pageable_advice(facts, calls, rows, copies)
    finding = waiting(facts, free, "pageable", rows, cause, detail, advice, less_ns=launches_ns)
    indexing = indexing_calls(facts, rows)
    launches = facts.trace.ops.launch[_repeated(facts, 0)]
    repeated = copied & np.isin(syncs.call, launches)
    again = np.flatnonzero(repeated | (waits_for_uploads(facts, repeated) & counts))
    # by time: a few of thousands may be most of it
    is_indexed, is_again = (2 * int(syncs.blocked_ns[some].sum()) > blocked_ns for some in (indexing, again))
    if is_again:
        return [replace(finding, headline=_copied_headline(facts), action=action("copy_once"), advice="")]
    n_tensors = count_things(int(np.isin(calls, indexing).sum()), "tensor")
    fact = headline("indexing", n=n_tensors) if is_indexed else headline("pageable", n=count_things(len(calls), "copy"))
    return [replace(finding, headline=fact, action=action("keep_indices" if is_indexed else "pin"))]


def repeated_copy(facts: Facts, free: Intervals) -> Outcome:
    """Exposed copies of tensors that a loop copies to the device in each iteration; the first copy of each is free."""
    tensors, ops = facts.copied_again, facts.trace.ops
    where, again = (
        intersect(free, union(ops.start_ns[rows], ops.end_ns[rows]))
        for rows in (_repeated(facts, 0), _repeated(facts, 1))
    )
    if not tensors:
        return Silent(phrase("no loop of the cell copies an unchanged tensor again"))
    if total_ns(again) < facts.notable_ns:
        return facts.below_notable(phrase("copying the same tensors again took"), total_ns(again))
    which = [
        phrase("{name} {times} on line {line}", name=t.name, times=count_things(len(t.rows), "time"), line=t.line)
        for t in tensors
    ]
    finding = facts.finding(
        rule="repeated_copy",
        cause=phrase("the same tensor is copied again"),
        detail=phrase(": the cell copies {tensors}, and its loop neither binds nor changes it", tensors=listed(which)),
        where=where,
    )
    return [
        replace(
            finding,
            cost_ns=total_ns(again),
            headline=_copied_headline(facts),
            action=action("copy_once"),
            lines=tuple(tensor.line for tensor in tensors),
            start_ns=int(where[0, 0]),
            end_ns=int(where[-1, 1]),
        )
    ]


def _repeated(facts: Facts, first: int) -> Int64:
    """The copies of tensors that a loop copies again, rows of trace.ops.  first: of each, 0 or 1."""
    tensors = facts.copied_again
    return np.concatenate([np.zeros(0, np.int64), *(tensor.rows[first:] for tensor in tensors)])


def _copied_headline(facts: Facts) -> str:
    most = max(facts.copied_again, key=lambda tensor: len(tensor.rows))
    return headline("repeated_copy", name=most.name, n=units.count(len(most.rows)))


def slower_copies(facts: Facts, exposed_copy: Callable[[], Outcome]) -> Outcome:
    """How much longer copies from pageable memory take than pinned ones would, as a part of the exposed copies.

    Silent if the bandwidth of the bus is unknown, or if they are already as fast.  exposed_copy: called only if there
    are such copies.
    """
    calls = np.flatnonzero(uploads(facts) & ~facts.syncs.after_cell)
    if not len(calls):
        return Silent(phrase("no pageable copy to the device was recorded"))
    copies, bus, ops = _copies(facts, calls), pinned_bus(facts.trace, facts.device), facts.trace.ops
    sized = copies.rows[(ops.size_bytes[copies.rows] != NONE) & ~np.isin(copies.rows, _repeated(facts, 0))]
    if bus is None or not len(sized):
        return Silent(phrase("the size of the pageable copies or the bandwidth of the bus is not known"))
    exposed = exposed_copy()
    if isinstance(exposed, Silent):
        return exposed
    where = intersect(copies.exposed, exposed[0].where)
    length_ns = (ops.end_ns - ops.start_ns)[sized]
    pinned_ns = ops.size_bytes[sized] / bus.bytes_per_s * 1e9
    less_ns = min(int(np.maximum(length_ns - pinned_ns, 0).sum()), total_ns(where))
    if less_ns < facts.notable_ns:
        return facts.below_notable(phrase("pinning would speed up the exposed copies by"), less_ns)
    lines, launches = ops.line[sized], ops.launch[sized]
    return [
        Finding(
            rule="pageable",
            cost_ns=less_ns,
            cause=phrase("copies from pageable memory are slow"),
            detail=phrase(
                "{where}: pinned, they would take {time} less, at {rate} ({source})",
                where=on_call_lines(facts.trace, launches[launches != NONE]),
                time=units.duration(less_ns),
                rate=units.bandwidth(bus.bytes_per_s, 1e9),
                source=bus.source,
            ),
            headline=headline("slow_copies", time=units.duration(less_ns)),
            action=action("pin"),
            lines=tuple(int(n) for n in np.unique(lines) if n > 0),
            start_ns=int(ops.start_ns[sized].min()),
            end_ns=int(ops.end_ns[sized].max()),
            device=facts.device,
            where=where,
        )
    ]


def _start_up(facts: Facts) -> Int64:
    """The call of the device's first op, a row of facts.syncs, if it is such a copy and far longer than all others."""
    syncs, trace = facts.syncs, facts.trace
    first = int(np.argmax(trace.ops.device == facts.device))  # the ops are in the order of their starts
    copies = np.flatnonzero(uploads(facts) & ~syncs.after_cell)
    of_first = copies[syncs.call[copies] == trace.ops.launch[first]]
    others = np.setdiff1d(copies, of_first)
    if trace.simulated or not len(of_first) or not len(others):
        return copies[:0]
    longest_ns = int(syncs.blocked_ns[others].max())
    far: Int64 = of_first[syncs.blocked_ns[of_first] > FAR_RATIO * longest_ns]
    return far


def _copies(facts: Facts, calls: Int64) -> HostCopies:
    """The copies that some blocking calls launched; calls: rows of facts.syncs."""
    ops = facts.trace.ops
    rows = np.flatnonzero((ops.launch != NONE) & np.isin(ops.launch, facts.syncs.call[calls]))
    return facts.host_copies(rows, pageable=True)


def _pageable_advice(facts: Facts, calls: Int64, rows: Int64, copies: HostCopies) -> str:
    """How to keep the copies from blocking Python.  calls: their launches.  rows: these and the waits after them."""
    indexed = np.isin(rows, indexing_calls(facts, rows))
    n_indexed = int(np.isin(calls, rows[indexed]).sum())
    if not n_indexed:
        return _pinning(copies)
    blocked = units.duration(int(facts.syncs.blocked_ns[rows[indexed]].sum()))
    some = phrase("{n} of them, {time},", n=units.count(n_indexed), time=blocked)
    keep = phrase(
        "{tensors} are tensors on the CPU that indexing copies to {device}: keep indices and values there",
        tensors=some if n_indexed < len(calls) else phrase("They"),
        device=facts.the_device,
    )
    others = phrase("for the others, {advice}", advice=_pinning(copies))
    return sentences(keep, others if n_indexed < len(calls) else "")


def _pinning(copies: HostCopies) -> str:
    """A copy from pinned memory without non_blocking waits for its stream, too (ATen/native/cuda/Copy.cu)."""
    if copies.own_stream:
        return phrase("pin_memory() and non_blocking=True let them overlap with compute")
    return phrase(
        "pin_memory() together with non_blocking=True keeps Python from blocking, pinning alone does not; to overlap "
        "with compute, they also need a stream of their own"
    )
