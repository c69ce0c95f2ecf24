"""When each device op could begin: after its launch, after the op before it on its stream, after what it waits for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.replay.graph import Latencies
from perfmagic.analysis.replay.queues import Queues, heads, previous_of_stream
from perfmagic.analysis.timeline.syncs import blocking_copies
from perfmagic.numerics.longest import NEVER
from perfmagic.trace.columns import NONE, Bool, CallKind, Int64, OpKind
from perfmagic.trace.model import Trace

UNEXPLAINED_NS = 10_000  # as the latency of a launch in perfmagic.analysis.timeline.idle
CLOSE_NS = 20_000  # an op that begins so soon after another stream's op may have waited for it
WAIT_NS = 1_000  # from the end of an op to the start of one of another stream that waits for it, where few tell
FEW = 5  # fewer values have no usual one
_LAUNCH_NS, _STREAM_NS, _CALL_NS, _LONGEST_CALL_NS = 3_000, 1_000, 4_000, 50_000
_LONGEST_LAUNCH_NS = 30_000
_LONGEST_WAIT_NS = 30_000  # 14 to 19 µs on MI300
_FAR = -NEVER


@dataclass(frozen=True, eq=False)
class Starts:
    """What each op's start comes after, and how long after; shape of trace.ops, lags in ns.

    after_call: its launch call had returned when it began.  previous: the op before it on its stream.  within_call:
    it began before its launch call returned.  unseen: the op of another stream that it may have waited for, NONE.
    """

    launched: Bool
    after_call: Bool
    within_call: Bool
    previous: Int64
    launch_lag_ns: Int64
    stream_lag_ns: Int64
    wait_lag_ns: Int64
    unexplained_ns: Int64
    unseen: Int64


def usual_latencies(trace: Trace, queues: Queues, waits: Int64, sync_ns: int) -> Latencies:
    """The medians of this trace.  waits: as from stream_waits."""
    ops, head = trace.ops, heads(trace)
    launched, call_start_ns, end_ns = _launched(trace)
    previous = previous_of_stream(trace, queues.of_op)
    before_ns = np.where(previous != NONE, ops.end_ns[previous], NEVER)
    lead = ops.start_ns - end_ns
    is_head = np.zeros(len(ops), bool)
    is_head[head[head != NONE]] = True
    idle = launched & (lead >= 0) & is_head & (before_ns < call_start_ns)
    n_of_call = np.bincount(ops.launch[launched], minlength=len(trace.calls) + 1)
    of_graph = launched & (n_of_call[ops.launch] > 1)
    kind = np.where(of_graph, -1, ops.kind)
    launch_ns = np.full(len(ops), _LAUNCH_NS, np.int64)
    for one in (-1, *OpKind):
        launch_ns[kind == one] = min(_median(lead[idle & (kind == one)], _LAUNCH_NS), _LONGEST_LAUNCH_NS)
    gap = ops.start_ns - before_ns
    queued = (previous != NONE) & launched & (end_ns + launch_ns < before_ns) & (gap >= 0)
    calls = trace.calls
    quick = (calls.kind == CallKind.LAUNCH) & ~blocking_copies(trace)
    call_ns = (calls.end_ns - calls.start_ns)[quick]
    return Latencies(
        launch_ns=launch_ns,
        stream_ns=min(_median(gap[queued], _STREAM_NS), UNEXPLAINED_NS),
        wait_ns=_wait_ns(trace, waits, np.maximum(before_ns, end_ns)),
        sync_ns=sync_ns,
        call_ns=int(np.median(call_ns)) if len(call_ns) else _CALL_NS,
    )


def _wait_ns(trace: Trace, waits: Int64, ready_ns: Int64) -> int:
    """How long after the end of what they wait for ops begin that were ready by then.  ready_ns: shape of ops."""
    ops = trace.ops
    released_ns = _released_ns(trace, waits)
    gap_ns = ops.start_ns - released_ns
    held = (released_ns > ready_ns) & (gap_ns >= 0) & (gap_ns <= _LONGEST_WAIT_NS)
    return _median(gap_ns[held], WAIT_NS)


def _released_ns(trace: Trace, waits: Int64) -> Int64:
    """When the last op that each waits for ended, NEVER for those that wait for none."""
    released_ns = np.full(len(trace.ops), NEVER, np.int64)
    np.maximum.at(released_ns, waits[:, 0], trace.ops.end_ns[waits[:, 1]])
    return released_ns


def op_starts(trace: Trace, queues: Queues, waits: Int64, usual: Latencies, has_point: Bool, *, unseen: bool) -> Starts:
    """Of each op, what held it in the record gets the recorded lag, all else the usual one or less.

    waits: as from stream_waits.  has_point: which calls are instants of the graph; shape of trace.calls.
    unseen: read a delay that nothing explains as a wait for the op of another stream that ended just before.
    """
    ops = trace.ops
    launched, call_start_ns, call_end_ns = _launched(trace)
    launched &= has_point[ops.launch] if len(trace.calls) else False
    start_ns = ops.start_ns
    previous = previous_of_stream(trace, queues.of_op)
    has_previous = previous != NONE
    after_call = launched & (start_ns >= call_end_ns)
    within_call = launched & ~after_call
    lead = np.where(launched, start_ns - np.where(after_call, call_end_ns, call_start_ns), 0)
    gap = np.where(has_previous, start_ns - ops.end_ns[previous], 0)
    call_ns = min(_median(lead[within_call & (lead < _LONGEST_CALL_NS)], _CALL_NS), UNEXPLAINED_NS)
    usual_lead = np.where(within_call, call_ns, usual.launch_ns)
    late_launch = np.where(launched, np.maximum(lead - usual_lead, np.where(within_call, 0, NEVER)), _FAR)
    late_stream = np.where(has_previous, gap - usual.stream_ns, _FAR)
    released_ns = _released_ns(trace, waits)
    waited = released_ns > NEVER
    wait_gap = np.where(waited, start_ns - released_ns, 0)
    late_wait = np.where(waited, wait_gap - usual.wait_ns, _FAR)
    # an op that began within its call: the stream held it, and the call with it, if that explains it; else the call
    # took so long by itself, as where a module is loaded
    by_call = within_call & (np.minimum(late_stream, late_wait) > UNEXPLAINED_NS)
    late_launch = np.where(by_call, 0, late_launch)
    least = np.minimum(np.minimum(late_launch, late_stream), late_wait)
    unexplained_ns = np.where(least < _FAR, np.maximum(least, 0), 0)
    other = _ended_just_before(trace, queues, unexplained_ns) if unseen else np.full(len(ops), NONE, np.int64)
    known = other == NONE
    by_wait = known & waited & (late_wait <= np.minimum(late_launch, late_stream))
    by_stream = known & has_previous & ~by_wait & (late_stream <= late_launch)
    by_launch = known & launched & ~by_wait & ~by_stream
    return Starts(
        launched=launched,
        after_call=after_call,
        within_call=within_call,
        previous=previous,
        launch_lag_ns=np.where(by_launch | by_call, lead, np.minimum(usual_lead, lead)),
        stream_lag_ns=np.where(by_stream, gap, np.minimum(usual.stream_ns, gap)),
        wait_lag_ns=np.where(by_wait, wait_gap, np.minimum(usual.wait_ns, wait_gap)),
        unexplained_ns=unexplained_ns,
        unseen=other,
    )


def _launched(trace: Trace) -> tuple[Bool, Int64, Int64]:
    """Which ops have a launch call, and when it began and returned."""
    return trace.ops.launch != NONE, trace.launch_start_ns(), trace.launch_end_ns()


def _median(values: Int64, default: int) -> int:
    return int(np.median(values)) if len(values) >= FEW else default


def _ended_just_before(trace: Trace, queues: Queues, unexplained_ns: Int64) -> Int64:
    """For each op that began late without a known cause the op of another stream that ended just before, else NONE."""
    ops = trace.ops
    found = np.full(len(ops), NONE, np.int64)
    by_end = np.argsort(ops.end_ns, kind="stable")
    ends_ns = ops.end_ns[by_end]
    for op in np.flatnonzero(unexplained_ns > UNEXPLAINED_NS).tolist():
        start_ns = int(ops.start_ns[op])
        earliest_ns = start_ns - min(int(unexplained_ns[op]), CLOSE_NS)
        k = int(np.searchsorted(ends_ns, start_ns + WAIT_NS, side="right")) - 1
        while k >= 0 and ends_ns[k] > earliest_ns:
            if queues.of_op[by_end[k]] != queues.of_op[op]:
                found[op] = by_end[k]
                break
            k -= 1
    return found
