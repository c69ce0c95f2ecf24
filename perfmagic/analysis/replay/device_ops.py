"""When each device op could begin: after its launch, after the op before it on its stream, after what it waits for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.replay.graph import Edge, Latencies, Links
from perfmagic.analysis.timeline.activity import BLOCKED_NS, FULL_DEPTH, blocking_copies, order_of, orphans
from perfmagic.base.numerics.intervals import coded
from perfmagic.base.numerics.longest import NEVER, NO_NODE
from perfmagic.trace.columns import NONE, Bool, CallKind, Int64, OpKind
from perfmagic.trace.model import Trace


class Queues:
    """The ops of each stream by launch. Streams are numbered as in of_op; rows are of trace.ops, NONE for none."""

    def __init__(self, trace: Trace) -> None:
        ops = trace.ops
        early = orphans(trace)
        launched_ns = np.where(early, NEVER, trace.launch_start_ns())
        (devices, of_device), (streams, of_stream) = coded(ops.device), coded(ops.stream)
        keys, self.of_op = coded(of_device * len(streams) + of_stream)
        self.device: list[int] = devices[keys // max(1, len(streams))].tolist()
        names = streams[keys % max(1, len(streams))].tolist()
        self.number = {key: k for k, key in enumerate(zip(self.device, names, strict=True))}
        self.rows: list[Int64] = []
        self._launched_ns: list[Int64] = []
        self._ends_ns: list[Int64] = []
        self._correlation: list[Int64] = []
        known = np.flatnonzero((ops.launch != NONE) | early)
        of_known = self.of_op[known]
        by_stream = known[np.lexsort((ops.start_ns[known], launched_ns[known], of_known))]
        ends = np.cumsum(np.bincount(of_known, minlength=len(keys)))
        for rows in np.split(by_stream, ends)[: len(keys)]:
            self.rows.append(rows)
            self._launched_ns.append(launched_ns[rows])
            self._ends_ns.append(np.maximum.accumulate(ops.end_ns[rows]) if len(rows) else ops.end_ns[rows])
            self._correlation.append(
                np.maximum.accumulate(ops.correlation[rows]) if len(rows) else ops.correlation[rows]
            )

    def __len__(self) -> int:
        return len(self.rows)

    def last_launched(self, stream: int, before_ns: Int64) -> Int64:
        """The op launched last before each instant."""
        return self._row(stream, np.searchsorted(self._launched_ns[stream], before_ns, side="left") - 1)

    def last_launched_and_ended(self, stream: int, before_ns: Int64, by_ns: Int64) -> Int64:
        """Of the ops launched before each instant and ended by another, the last."""
        launched = np.searchsorted(self._launched_ns[stream], before_ns, side="left")
        ended = np.searchsorted(self._ends_ns[stream], by_ns, side="right")
        return self._row(stream, np.minimum(launched, ended) - 1)

    def up_to(self, stream: int, correlation: Int64) -> Int64:
        """The last op whose launch has at most that correlation id; ids rise with launches."""
        return self._row(stream, np.searchsorted(self._correlation[stream], correlation, side="right") - 1)

    def after(self, stream: int, correlation: Int64) -> Int64:
        """The first op whose launch has a larger correlation id."""
        at = np.searchsorted(self._correlation[stream], correlation, side="right")
        return self._row(stream, np.where(at < len(self.rows[stream]), at, NONE))

    def _row(self, stream: int, at: Int64) -> Int64:
        rows = self.rows[stream]
        if not len(rows):
            return np.full(len(at), NONE, np.int64)
        return np.where(at >= 0, rows[np.maximum(at, 0)], NONE)


def heads(trace: Trace) -> Int64:
    """For each call the op it launched that began first, NONE for none; shape of trace.calls."""
    ops = trace.ops
    head = np.full(len(trace.calls), NONE, np.int64)
    rows = np.flatnonzero(ops.launch != NONE)
    rows = rows[np.argsort(-ops.start_ns[rows], kind="stable")]
    head[ops.launch[rows]] = rows
    return head


def previous_of_stream(trace: Trace, stream_of: Int64) -> Int64:
    """The op before each on its stream by start, NONE for the first. stream_of: numbers of streams; shape of ops."""
    ops = trace.ops
    order = np.lexsort((ops.end_ns, ops.start_ns, stream_of))
    same = stream_of[order][1:] == stream_of[order][:-1]
    previous = np.full(len(ops), NONE, np.int64)
    previous[order[1:]] = np.where(same, order[:-1], NONE)
    return previous


def first_after_on_thread(trace: Trace, calls: Int64, head: Int64) -> Int64:
    """For each call the op launched next by the same thread, NONE for none."""
    return _on_thread(trace, calls, head, 0, "right")


def last_before_on_thread(trace: Trace, calls: Int64, head: Int64) -> Int64:
    """For each call the op launched last before it by the same thread, NONE for none."""
    return _on_thread(trace, calls, head, -1, "left")


def _on_thread(trace: Trace, calls: Int64, head: Int64, step: int, side: str) -> Int64:
    table = trace.calls
    launching = np.flatnonzero(head != NONE)
    ops = np.full(len(calls), NONE, np.int64)
    for thread in np.unique(table.thread[calls]).tolist():
        rows = np.flatnonzero(table.thread[calls] == thread)
        of_thread = launching[table.thread[launching] == thread]
        at = np.searchsorted(table.start_ns[of_thread], table.start_ns[calls[rows]], side=side) + step  # type: ignore[call-overload]
        inside = (at >= 0) & (at < len(of_thread))
        ops[rows[inside]] = head[of_thread[at[inside]]]
    return ops


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
    for k in (-1, *OpKind):
        launch_ns[kind == k] = min(_median(lead[idle & (kind == k)], _LAUNCH_NS), _LONGEST_LAUNCH_NS)
    gap = ops.start_ns - before_ns
    queued = (previous != NONE) & launched & (end_ns + launch_ns < before_ns) & (gap >= 0)
    calls = trace.calls
    quick = (calls.kind == CallKind.LAUNCH) & ~blocking_copies(trace)
    call_ns = (calls.end_ns - calls.start_ns)[quick]
    return Latencies(
        launch_ns=launch_ns,
        stream_ns=min(_median(gap[queued], 0 if _at_once(trace) else _STREAM_NS), UNEXPLAINED_NS),
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
    return _median(gap_ns[held], 0 if _at_once(trace) else WAIT_NS)


def _at_once(trace: Trace) -> bool:
    """Whether an op begins the moment what it waits for ends, as on a virtual clock."""
    return any(info.virtual for info in trace.meta.devices)


def _released_ns(trace: Trace, waits: Int64) -> Int64:
    """When the last op that each waits for ended, NEVER for those that wait for none."""
    released_ns = np.full(len(trace.ops), NEVER, np.int64)
    np.maximum.at(released_ns, waits[:, 0], trace.ops.end_ns[waits[:, 1]])
    return released_ns


def op_starts(trace: Trace, queues: Queues, waits: Int64, usual: Latencies, has_point: Bool, *, unseen: bool) -> Starts:
    """Of each op, what held it in the record gets the recorded lag, all else the usual one or less.

    waits: as from stream_waits.  has_point: which calls are instants of the graph; shape of trace.calls.
    unseen: read a delay that nothing explains as a wait for the op of another stream that ended just before; of ops
    launched before the record, or on a virtual clock, it always is.
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
    # what an op of before the record waits for was asked for before it: another stream's op explains its delay
    # on a virtual clock it is known: ops that fill the device take turns
    early = orphans(trace) | _at_once(trace)
    other = _ended_just_before(trace, queues, unexplained_ns if unseen else np.where(early, unexplained_ns, 0))
    unexplained_ns = np.where(early & (other != NONE), 0, unexplained_ns)
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
    before = np.full(len(ops), NONE, np.int64)
    by_end = np.argsort(ops.end_ns, kind="stable")
    ends_ns = ops.end_ns[by_end]
    slack_ns = 0 if _at_once(trace) else WAIT_NS
    for op in np.flatnonzero(unexplained_ns > UNEXPLAINED_NS).tolist():
        start_ns = int(ops.start_ns[op])
        earliest_ns = start_ns - min(int(unexplained_ns[op]), CLOSE_NS)
        k = int(np.searchsorted(ends_ns, start_ns + slack_ns, side="right")) - 1
        while k >= 0 and ends_ns[k] > earliest_ns:
            if queues.of_op[by_end[k]] != queues.of_op[op]:
                before[op] = by_end[k]
                break
            k -= 1
    return before


# Launches that waited for a full queue: each returned when an op queued long before it began.

LIMIT = 1024  # launches that a stream takes, where fewer were queued; 994 to 1024 were seen on V100 and A100
_FREE_NS = 2_000  # of an edge that held nothing
_LAUNCH_CALL_NS = 10_000  # of a launch call, beside its wait


@dataclass(frozen=True, eq=False)
class Instants:
    """Of a graph that is being built: which instants belong to calls and ops, when they were, what each waits for."""

    begin_of: Int64
    end_of: Int64
    op_node: Int64
    time_ns: Int64
    first: Links
    second: Links


def link_full_queues(trace: Trace, queues: Queues, launched: Bool, previous: Int64, at: Instants) -> int:
    """Link the end of each launch into a full queue to the op that left it. Changes `at`; returns how many."""
    ops, first, second = trace.ops, at.first, at.second
    is_head = np.zeros(len(ops), bool)
    head = heads(trace)
    is_head[head[head != NONE]] = True
    n_links = 0
    for rows_of_stream in queues.rows:
        rows = rows_of_stream[is_head[rows_of_stream] & launched[rows_of_stream]]
        if len(rows) <= FULL_DEPTH:
            continue
        begun = np.searchsorted(np.sort(ops.start_ns[rows]), at.time_ns[at.begin_of[ops.launch[rows]]], side="right")
        deepest = int((np.arange(1, len(rows) + 1) - begun).max())
        # the launch that waits is counted itself: on a V100 888 of 936 returned when op k − (deepest − 1), or the one
        # before it, had started (v100_float_epoch_ns in traces/)
        limit = deepest - 1 if deepest >= FULL_DEPTH else LIMIT
        later, freeing = rows[limit:], previous[rows[:-limit]]
        end = at.end_of[ops.launch[later]]
        free = (second.node[end] == NO_NODE) & (freeing != NONE)
        end, freeing = end[free], freeing[free]
        lag_ns = at.time_ns[end] - ops.end_ns[freeing]
        end, freeing, lag_ns = end[lag_ns >= 0], freeing[lag_ns >= 0], lag_ns[lag_ns >= 0]
        held = (first.lag_ns[end] >= BLOCKED_NS) & (ops.end_ns[freeing] > at.time_ns[first.node[end]])
        second.node[end], second.kind[end] = at.op_node[freeing], Edge.FULL_QUEUE
        second.lag_ns[end] = np.where(held, lag_ns, np.minimum(_FREE_NS, lag_ns))
        first.lag_ns[end] = np.where(held, np.minimum(first.lag_ns[end], _LAUNCH_CALL_NS), first.lag_ns[end])
        n_links += len(end)
    return n_links


# Which op waited for which op of another stream: as recorded, else inferred from times.

CLOCK_NS = 1_000  # ops of two streams are timed by one clock; older records round to microseconds


def stream_waits(trace: Trace, queues: Queues, head: Int64) -> tuple[Int64, bool]:
    """Pairs (op, op of another stream that it waits for), shape (n, 2), and whether the record names them.

    Without recorded waits a call that asks for one is assigned to the op that its thread launched next. That op waits
    for the op of another stream that was launched before and ended last before it began. Only a wait that held
    something can be found so. Pairs against time are left out.
    """
    ops = trace.ops
    known = bool(len(trace.waits)) or not (trace.calls.kind == CallKind.WAIT).any()
    pairs = _recorded(trace, queues) if len(trace.waits) else _inferred(trace, queues, head)
    possible = (ops.end_ns[pairs[:, 1]] <= ops.start_ns[pairs[:, 0]] + CLOCK_NS) & (pairs[:, 0] != pairs[:, 1])
    return np.unique(pairs[possible], axis=0), known


def _recorded(trace: Trace, queues: Queues) -> Int64:
    waits = trace.waits
    asked = order_of(trace, waits.correlation, waits.at_ns)
    recorded = order_of(trace, waits.on_correlation, waits.at_ns)
    on_device = np.where(waits.on_device == NONE, waits.device, waits.on_device)
    target, source = np.full(len(waits), NONE, np.int64), np.full(len(waits), NONE, np.int64)
    for (device, stream), k in queues.number.items():
        rows = np.flatnonzero((waits.device == device) & (waits.stream == stream))
        target[rows] = queues.after(k, asked[rows])
        rows = np.flatnonzero((on_device == device) & (waits.on_stream == stream))
        source[rows] = queues.up_to(k, recorded[rows])
    both = (target != NONE) & (source != NONE)
    pairs: Int64 = np.column_stack((target, source))[both]
    return pairs


def _inferred(trace: Trace, queues: Queues, head: Int64) -> Int64:
    ops, calls = trace.ops, trace.calls
    rows = np.flatnonzero(calls.kind == CallKind.WAIT)
    target = first_after_on_thread(trace, rows, head)
    rows, target = rows[target != NONE], target[target != NONE]
    if not len(rows) or len(queues) < 2:
        return np.zeros((0, 2), np.int64)
    at_ns = calls.start_ns[rows]
    source = np.full((len(rows), len(queues)), NONE, np.int64)
    ended_ns = np.full((len(rows), len(queues)), NEVER, np.int64)
    for k in range(len(queues)):
        source[:, k] = ended = queues.last_launched_and_ended(k, at_ns, ops.start_ns[target] + CLOCK_NS)
        ended_ns[:, k] = np.where(ended != NONE, ops.end_ns[ended], NEVER)
    each = np.arange(len(rows))
    ended_ns[each, queues.of_op[target]] = NEVER
    # of several waits before one launch each is for another stream, the latest end first
    by_target = np.lexsort((at_ns, target))
    first = np.concatenate(([True], target[by_target][1:] != target[by_target][:-1]))
    place = np.arange(len(rows))
    rank = np.empty(len(rows), np.int64)
    rank[by_target] = np.minimum(place - np.maximum.accumulate(np.where(first, place, 0)), len(queues) - 1)
    stream = np.argsort(-ended_ns, axis=1, kind="stable")[each, rank]
    held = ended_ns[each, stream] > NEVER
    pairs: Int64 = np.column_stack((target, source[each, stream]))[held]
    return pairs
