"""The pauses of a device, and what each instant of them waited for: the one partition that all numbers come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.timeline.dependencies import released_ns
from perfmagic.analysis.timeline.overlap import busy_intervals, extent
from perfmagic.analysis.timeline.streams import orphans
from perfmagic.analysis.timeline.syncs import blocked_intervals, blocking_copies, syncs
from perfmagic.numerics.intervals import EMPTY, Intervals, complement, intersect, merge, subtract, union
from perfmagic.trace.columns import NONE, Bool, CallKind, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace

LAUNCH_LATENCY_NS = 10_000  # a typical launch takes 4–9 µs to start on V100…B200, queue empty
LONG_CALL_NS = 50_000  # a launch call takes 3–10 µs, under a profiler up to 30; far longer, the driver did more


@dataclass(frozen=True, eq=False)
class Pauses:
    """The times in which a device executed nothing before an op of its own, by start; arrays of equal length, in ns.

    op: row of trace.ops that ended the pause.  launch: row of trace.calls that queued it, NONE where not recorded.
    launched_ns: when that call began, released_ns: until when a stream wait held the op, returned_ns: when the call had
    returned; each within the pause and none before the other.  known: whether it is recorded when the op was queued:
    an op that was launched before the record began was queued all the time.
    """

    start_ns: Int64
    end_ns: Int64
    op: Int64
    launch: Int64
    launched_ns: Int64
    released_ns: Int64
    returned_ns: Int64
    known: Bool

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, eq=False)
class Causes:
    """What a device waited for in its pauses: interval sets that never overlap and add up to the pauses.

    in_python: nothing is queued and Python works on what it will launch.
    one_by_one: an op is on its way while Python works, and the device runs dry again after it; on a simulated device,
    whose threads share Python's lock, every op that is late while Python works.
    in_call: the thread that launches is inside a runtime or driver call for 50 µs or longer that waits for no device,
    and no other op has arrived.
    launching: the op that ends the pause was launched in it and is on its way: its call has not returned, or did so
    less than 10 µs before it starts (simulated: however long); before its launch, an op of another stream likewise.
    between_ops: the next op was queued before the last one ended, and starts within 10 µs (simulated: at any time).
    blocked: Python is in a blocking call, and nothing is queued; or it launched the next op, a copy that has not begun.
    other_device: nothing is queued here, and Python waits while another device executes.
    other_stream: queued, held by a recorded stream wait.  unexplained: queued, and the record does not say why not run.
    """

    in_python: Intervals
    one_by_one: Intervals
    in_call: Intervals
    launching: Intervals
    between_ops: Intervals
    blocked: Intervals
    other_device: Intervals
    other_stream: Intervals
    unexplained: Intervals

    @property
    def sets(self) -> dict[str, Intervals]:
        """The interval sets by name."""
        return dict(vars(self))


@once_per_trace
def gap_pauses(trace: Trace, device: int) -> Pauses:
    """The gaps between the ops of a device: they add up to its idle time."""
    rows = np.flatnonzero(trace.ops.device == device)
    ops = trace.ops.take(rows)
    gaps = complement(busy_intervals(trace, device), *extent(ops)) if len(rows) else EMPTY
    return _pauses(trace, device, gaps)


def pauses_from(trace: Trace, device: int, start_ns: int) -> Pauses:
    """The gaps between the ops of a device, and the time from start_ns to the first of them."""
    mine = trace.ops.start_ns[trace.ops.device == device]
    if not len(mine) or mine[0] <= start_ns:
        return gap_pauses(trace, device)
    idle = complement(busy_intervals(trace, device), *extent(trace.ops.take(trace.ops.device == device)))
    return _pauses(trace, device, np.concatenate((np.array([[start_ns, mine[0]]]), idle)))


def _pauses(trace: Trace, device: int, gaps: Intervals) -> Pauses:
    start, end = gaps[:, 0], gaps[:, 1]
    op = _ended_by(trace, device, end)
    orphan = orphans(trace)[op]
    matched = trace.ops.launch[op] != NONE
    launched = np.where(matched, np.clip(trace.launch_start_ns()[op], start, end), start)
    released = np.clip(released_ns(trace)[op], launched, end)
    returned = np.where(matched, np.clip(trace.launch_end_ns()[op], released, end), released)
    return Pauses(start, end, op, trace.ops.launch[op], launched, released, returned, matched | orphan)


def _ended_by(trace: Trace, device: int, end_ns: Int64) -> Int64:
    """Row of the op that starts where a pause ends: of several, one with a length, launched first."""
    rows = np.flatnonzero(trace.ops.device == device)
    if not len(end_ns):
        return np.zeros(0, np.int64)
    ops = trace.ops.take(rows)
    order = np.lexsort((trace.launch_start_ns()[rows], ops.end_ns == ops.start_ns, ops.start_ns))
    return rows[order[np.searchsorted(ops.start_ns[order], end_ns, side="left")]]


def causes(trace: Trace, device: int, pauses: Pauses, waits: Intervals) -> Causes:
    """What a device waited for in some pauses. Source: docs/verdict.md.

    A device waits for Python only while nothing that Python launched is still to start on any of its streams.
    waits: when Python was in a blocking call, or done.
    """
    idle = union(pauses.start_ns, pauses.end_ns)
    unknown = union(pauses.start_ns[~pauses.known], pauses.end_ns[~pauses.known])
    underway = merge(intersect(idle, _pending(trace, device)), union(pauses.launched_ns, pauses.end_ns), unknown)
    empty = subtract(idle, underway)
    elsewhere = intersect(empty, waits)
    other_device = intersect(elsewhere, busy_elsewhere(trace, device))
    working = subtract(empty, waits)
    in_calls = _in_long_calls(trace, pauses, working)
    parts = _underway(trace, device, pauses, underway, waits, in_calls)
    copying = parts.pop("copying")
    return Causes(
        in_python=subtract(working, in_calls),
        **parts,
        blocked=merge(subtract(elsewhere, other_device), copying),
        other_device=other_device,
    )


def python_waits(trace: Trace) -> Intervals:
    """When Python was in a blocking call, or done with the cell's last line."""
    blocked, returned_ns = blocked_intervals(syncs(trace)), trace.meta.returned_ns
    if returned_ns is None:
        return blocked
    end_ns = max(trace.meta.end_ns, int(trace.ops.end_ns.max(initial=returned_ns)))
    return merge(blocked, complement(EMPTY, returned_ns, end_ns))


def before_dry_ns(trace: Trace, device: int, pauses: Pauses, first_ns: int) -> tuple[Int64, Int64]:
    """When the device ran dry, with nothing queued, and the start of the last op before each such time."""
    start = trace.ops.start_ns[trace.ops.device == device]
    dry = pauses.start_ns[(pauses.launched_ns > pauses.start_ns) & (pauses.start_ns >= first_ns)]
    return dry, start[np.maximum(np.searchsorted(start, dry, side="left") - 1, 0)]


def long_calls(trace: Trace) -> Int64:
    """Rows of the calls that held Python for long and waited for no device: first use of a kernel, an allocation.

    None on a simulated device: its calls are Python's own.
    """
    calls = trace.calls
    if trace.simulated:
        return np.zeros(0, np.int64)
    plain = (calls.kind != CallKind.SYNC) & ~blocking_copies(trace)
    return np.flatnonzero(plain & (calls.end_ns - calls.start_ns >= LONG_CALL_NS))


def _pending(trace: Trace, device: int) -> Intervals:
    """When at least one op of a device was launched and had not started."""
    return _until_ops_start(trace, device, trace.launch_start_ns())


def _arrived(trace: Trace, device: int) -> Intervals:
    """When the call that launched an op had returned, and the op had not started."""
    return _until_ops_start(trace, device, trace.launch_end_ns())


def _waits_to_start(trace: Trace, device: int) -> Intervals:
    """When an op had arrived; a blocking copy, whose call returns after it, from the start of its call."""
    copies = np.isin(trace.ops.launch, np.flatnonzero(blocking_copies(trace)))
    return _until_ops_start(trace, device, np.where(copies, trace.launch_start_ns(), trace.launch_end_ns()))


def _until_ops_start(trace: Trace, device: int, since_ns: Int64) -> Intervals:
    """The time from an instant of each op to its start; of an op that was launched before the record, all before it."""
    ops, orphan = trace.ops, orphans(trace)
    rows = np.flatnonzero((ops.device == device) & ((ops.launch != NONE) | orphan))
    start = ops.start_ns[rows]
    since = np.where(orphan[rows], min(trace.meta.start_ns, int(start.min(initial=0))), since_ns[rows])
    return union(np.minimum(since, start), start)


def _in_long_calls(trace: Trace, pauses: Pauses, where: Intervals) -> Intervals:
    """The part of some time in which the thread that ends the pause is in a long call."""
    rows = long_calls(trace)
    if not len(rows) or not len(pauses):
        return EMPTY
    known = pauses.launch != NONE
    thread = np.where(known, trace.calls.thread[pauses.launch], NONE)
    found = []
    for one in np.unique(thread[known]).tolist():
        mine = rows[trace.calls.thread[rows] == one]
        own = union(pauses.start_ns[known & (thread == one)], pauses.end_ns[known & (thread == one)])
        found.append(intersect(own, union(trace.calls.start_ns[mine], trace.calls.end_ns[mine])))
    return intersect(merge(*found), where)


def _underway(
    trace: Trace, device: int, pauses: Pauses, underway: Intervals, waits: Intervals, in_calls: Intervals
) -> dict[str, Intervals]:
    """The time in which something is queued and nothing runs, in the parts that Causes has of it."""
    other_stream = union(pauses.launched_ns, pauses.released_ns)
    rest = subtract(underway, other_stream)
    first_ns, _ = extent(trace.ops.take(trace.ops.device == device))
    queued = pauses.launched_ns == pauses.start_ns
    runs_dry = np.isin(pauses.end_ns, before_dry_ns(trace, device, pauses, first_ns)[1])
    # threads of a simulated device share Python's lock: what they start late while Python works, Python delayed
    delayed = pauses.known & (trace.simulated | (~queued & runs_dry))
    late = union(pauses.released_ns[delayed], pauses.end_ns[delayed])
    rows = np.flatnonzero((trace.ops.device == device) & (trace.ops.launch != NONE))
    launch = trace.ops.launch[rows]
    # only where the copy is the next op: one that other ops are queued before waits for these
    next_is_copy = np.isin(pauses.launch, np.flatnonzero(blocking_copies(trace))) & (pauses.launch != NONE)
    copying = intersect(rest, union(pauses.released_ns[next_is_copy], pauses.returned_ns[next_is_copy]))
    rest = subtract(rest, copying)
    # a call that is long because the queue is full holds up nothing: other ops have arrived
    long = _until_start(trace, rows[np.isin(launch, long_calls(trace))])
    in_launch = intersect(rest, subtract(long, _waits_to_start(trace, device)))
    rest = subtract(rest, in_launch)
    one_by_one = subtract(intersect(rest, late), waits)
    rest = subtract(rest, one_by_one)
    # before the launch of the op that ends a pause, ops of other streams are under way
    before = union(pauses.start_ns, pauses.launched_ns)
    calls = subtract(_until_start(trace, rows[~blocking_copies(trace)[launch]]), _arrived(trace, device))
    short_calls = intersect(rest, merge(union(pauses.released_ns, pauses.returned_ns), intersect(before, calls)))
    rest = subtract(rest, short_calls)
    # from here on each piece lies between the return of a call and the start of an op
    others, own = intersect(rest, before), subtract(rest, before)
    unknown = union(pauses.start_ns[~pauses.known], pauses.end_ns[~pauses.known])
    soon, own_soon = _is_short(trace, others), _is_short(trace, own) & ~_starts_within(own, unknown)
    was_queued = _starts_within(own, union(pauses.start_ns[queued], pauses.end_ns[queued]))
    return {
        "one_by_one": one_by_one,
        "in_call": merge(in_calls, in_launch),
        "copying": copying,
        "launching": merge(short_calls, others[soon], own[own_soon & ~was_queued]),
        "between_ops": own[own_soon & was_queued],
        "other_stream": other_stream,
        "unexplained": merge(others[~soon], own[~own_soon]),
    }


def _is_short(trace: Trace, pieces: Intervals) -> Bool:
    """Which delays are a launch's; on a simulated device every one. Shape (n,)."""
    short: Bool = (pieces[:, 1] - pieces[:, 0] < LAUNCH_LATENCY_NS) | trace.simulated
    return short


def _until_start(trace: Trace, rows: Int64) -> Intervals:
    """When the calls that launched some ops ran, until the op started."""
    start, end = trace.launch_start_ns()[rows], trace.launch_end_ns()[rows]
    return union(start, np.clip(end, start, np.maximum(start, trace.ops.start_ns[rows])))


def _starts_within(pieces: Intervals, where: Intervals) -> Bool:
    """Which intervals begin inside some others; shape (n,)."""
    if not len(where) or not len(pieces):
        return np.zeros(len(pieces), bool)
    last = np.searchsorted(where[:, 0], pieces[:, 0], side="right") - 1
    inside: Bool = (last >= 0) & (pieces[:, 0] < where[np.maximum(last, 0), 1])
    return inside


def busy_elsewhere(trace: Trace, device: int) -> Intervals:
    """When any other device executed an op."""
    return merge(*(busy_intervals(trace, other) for other in trace.device_ids if other != device))
