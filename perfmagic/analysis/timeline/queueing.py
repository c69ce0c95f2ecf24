"""The queue between Python and the device: how deep it was, when it was full or empty, how long ops waited."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.timeline import activity
from perfmagic.base.numerics.intervals import coded, covered_ns, depths, distinct
from perfmagic.trace.columns import NONE, Bool, CallKind, Int64
from perfmagic.trace.model import Trace, once_per_trace, stream_rows
from perfmagic.trace.rows import Rows


@dataclass(frozen=True, eq=False)
class CountOverTime:
    """A count over time: values[i] holds from times_ns[i] until times_ns[i + 1].

    times_ns: int64, rising, may repeat; of several at one instant the last one's value holds.
    values: int64, same shape.
    """

    times_ns: Int64
    values: Int64

    @property
    def max(self) -> int:
        return int(self.values.max()) if len(self.values) else 0

    @property
    def mean(self) -> float:
        """The time-weighted mean from the first change to the last."""
        if len(self.times_ns) < 2 or self.times_ns[-1] == self.times_ns[0]:
            return 0.0
        length_ns = np.diff(self.times_ns)
        return float((self.values[:-1] * length_ns).sum() / length_ns.sum())


@dataclass(frozen=True, eq=False)
class StreamQueue:
    """The queue of one stream over the window.

    depth_ops, depth_launches: launched and not started, counted in ops and in launches (a graph is one launch).
    in_flight: ops launched and not ended.  run_ahead_max_ns: the longest time since the launch of an op that was still
    executing, counted from the call's return where the call held Python until the op ran; 0 where nothing was queued.
    run_ahead_at_least: that op was launched before the record began, and its time counts from there.
    n_orphans: ops launched before the window, queued from its start on.
    """

    device: int
    stream: int
    depth_ops: CountOverTime
    depth_launches: CountOverTime
    in_flight: CountOverTime
    run_ahead_max_ns: int
    run_ahead_at_least: bool
    n_orphans: int


@dataclass(frozen=True)
class QueueStat:
    """The queue of a stream: ops launched and not started. Ops launched before the window count from its start.

    stream: the number of the stream.
    ops_max: the most ops queued at one instant, a count.
    ops_mean: the mean number of ops queued, over time from the first launch to the last start, a count.
    launches_max: the most launches queued at one instant, a count; a graph is one launch.
    run_ahead_max_ns: the longest time from an op's launch to its end.
    run_ahead_at_least: whether that op was launched before the record began: its time counts from there and was
    longer.
    """

    device: int
    stream: int
    ops_max: int
    ops_mean: float
    launches_max: int
    run_ahead_max_ns: int
    run_ahead_at_least: bool


@dataclass(frozen=True, eq=False)
class Delays:
    """How long each op was queued, and what it waited for; int64 ns arrays of the length of trace.ops.

    in_call_ns: until the launch call returned.  behind_ns: after that, until the op before it on the stream ended.
    waiting_ns: the rest, for another stream or the launch itself.  Zero for ops without a launch record, and for ops
    that started before their launch.
    """

    in_call_ns: Int64
    behind_ns: Int64
    waiting_ns: Int64

    @property
    def queued_ns(self) -> Int64:
        return self.in_call_ns + self.behind_ns + self.waiting_ns

    def sums_ns(self, rows: Bool | Int64 | None = None) -> dict[str, int]:
        """The total of each part, by its name, of the given ops or of all."""
        which = slice(None) if rows is None else rows
        parts = {"in_call_ns": self.in_call_ns, "behind_ns": self.behind_ns, "waiting_ns": self.waiting_ns}
        return {name: int(values[which].sum()) for name, values in parts.items()}


def count_over_time(up_ns: Int64, down_ns: Int64) -> CountOverTime:
    """How many of the intervals [up, down) hold at each instant; at one instant falls come before rises."""
    times = np.concatenate((down_ns, up_ns))
    change = np.repeat(np.array([-1, 1], np.int64), (len(down_ns), len(up_ns)))
    order = np.argsort(times, kind="stable")  # stable: the falls, which come first here, stay before rises
    return CountOverTime(times[order], np.cumsum(change[order]))


def depth_within(up_ns: Int64, down_ns: Int64, start_ns: int, end_ns: int) -> tuple[int, float]:
    """The most, and the mean over time, of the intervals [up, down) that hold at once inside a window.

    down_ns: rising, none before its up_ns. At one instant falls come before rises, as in count_over_time, whose
    history is not made.
    """
    up = np.sort(up_ns, kind="stable")
    first, last = np.searchsorted(up, start_ns, side="right"), np.searchsorted(up, end_ns, side="left")
    entering = int(first - np.searchsorted(down_ns, start_ns, side="right"))
    level = np.arange(first + 1, last + 1)  # after each rise
    level -= np.searchsorted(down_ns, up[first:last], side="right")
    held_ns = np.clip(down_ns, start_ns, end_ns)
    held_ns -= np.clip(up, start_ns, end_ns, out=up)
    return int(level.max(initial=entering)), float(held_ns.sum() / max(1, end_ns - start_ns))


def stream_queue(trace: Trace, device: int, stream: int, early: Bool | None = None) -> StreamQueue:
    """How many ops and launches waited for a stream at each instant, and how far Python ran ahead of it.

    early: the result of orphans(trace), where it is at hand.
    Source: docs/words.md, "queue depth", "in flight", "run-ahead". Ops whose launch record is
    missing inside the window are left out: when they were queued is not known.
    """
    ops = trace.ops
    rows, orphan = _queued_on(trace, device, stream, early)
    start, end = ops.start_ns[rows], ops.end_ns[rows]
    up = _queued_from(trace, rows, orphan, np.zeros(len(rows), np.int64))
    first = _first_of_launch(ops.launch[rows])
    ahead = end - _python_left(trace, rows, up)
    longest = int(ahead.max(initial=0))
    return StreamQueue(
        device=device,
        stream=stream,
        depth_ops=count_over_time(up, start),
        depth_launches=count_over_time(up[first], start[first]),
        in_flight=count_over_time(up, end),
        run_ahead_max_ns=longest,
        run_ahead_at_least=longest > 0 and bool((ahead[orphan] == longest).any()),
        n_orphans=int(orphan.sum()),
    )


def launches_queued_at(trace: Trace, device: int, stream: int, at_ns: Int64) -> Int64:
    """depth_launches of stream_queue at some instants, without its history; shape of at_ns."""
    rows, orphan = _queued_on(trace, device, stream)
    first = _first_of_launch(trace.ops.launch[rows])
    rows, orphan = rows[first], orphan[first]
    up = np.sort(_queued_from(trace, rows, orphan, np.zeros(len(rows), np.int64)), kind="stable")
    started = np.searchsorted(trace.ops.start_ns[rows], at_ns, side="right")
    return np.searchsorted(up, at_ns, side="right") - started


def _queued_on(trace: Trace, device: int, stream: int, early: Bool | None = None) -> tuple[Int64, Bool]:
    """The ops of a stream of which it is known since when they were queued, rows of trace.ops; which are orphans."""
    ops = trace.ops
    on_stream = (ops.device == device) & (ops.stream == stream)
    orphan = on_stream & (activity.orphans(trace) if early is None else early)
    rows = np.flatnonzero(on_stream & (ops.launch != NONE) | orphan)
    return rows, orphan[rows]


@once_per_trace
def queues(trace: Trace, device: int) -> Rows[QueueStat]:
    """The queues of all streams of a device, by stream; the numbers of stream_queue for all streams at once.

    Streams with neither an op with a launch record nor an orphan are left out.
    """
    ops, orphan = trace.ops, activity.orphans(trace)
    rows = np.flatnonzero((ops.device == device) & ((ops.launch != NONE) | orphan))
    if not len(rows):
        return Rows((), QueueStat)
    streams_, group = coded(ops.stream[rows])
    group = group.astype(np.int64)
    start = ops.start_ns[rows]
    up = _queued_from(trace, rows, orphan[rows], group)
    in_ops = depths(group, up, start)
    first = _first_on_streams(group, orphan[rows], ops.launch[rows], len(trace.calls))
    in_launches = depths(group[first], up[first], start[first])
    ahead = np.zeros(len(streams_), np.int64)
    since_ns = ops.end_ns[rows] - _python_left(trace, rows, up)
    np.maximum.at(ahead, group, since_ns)
    of_orphans = np.zeros(len(streams_), np.int64)
    np.maximum.at(of_orphans, group[orphan[rows]], since_ns[orphan[rows]])
    at_least = (of_orphans == ahead) & (ahead > 0)
    columns = (streams_, in_ops.max, in_ops.mean, in_launches.max, ahead, at_least)
    return Rows((QueueStat(device, *values) for values in zip(*(c.tolist() for c in columns), strict=True)), QueueStat)


def delays(trace: Trace) -> Delays:
    """How long each op was queued: in the call, behind its stream, waiting.

    A launch call that returns after the op started counts until the start. Source: docs/words.md, "queued".
    """
    start = trace.ops.start_ns
    launch = np.minimum(trace.launch_start_ns(), start)
    returned = np.clip(trace.launch_end_ns(), launch, start)
    free = np.clip(activity.previous_end_ns(trace.ops), returned, start)
    return Delays(in_call_ns=returned - launch, behind_ns=free - returned, waiting_ns=start - free)


def _queued_from(trace: Trace, rows: Int64, orphan: Bool, group: Int64) -> Int64:
    """When each op was queued: at its launch, at the latest when it started; an orphan at the beginning of the window.

    rows: of trace.ops, rising.  group: of each row the number of its stream: an op may start before the window does.
    """
    start = trace.ops.start_ns[rows]
    first = np.full(int(group.max(initial=0)) + 1, trace.meta.start_ns, np.int64)
    np.minimum.at(first, group, start)
    queued: Int64 = np.where(orphan, first[group], np.minimum(trace.launch_start_ns(rows), start))
    return queued


def _python_left(trace: Trace, rows: Int64, up: Int64) -> Int64:
    """From when on Python was ahead of each op: its launch; of a copy whose call held Python, the call's return."""
    blocking, launch = activity.blocking_copies(trace), trace.ops.launch[rows]
    held = (launch != NONE) & (blocking[launch] if len(blocking) else False)
    returned = np.minimum(trace.launch_end_ns(rows), trace.ops.end_ns[rows])
    left: Int64 = np.where(held, np.maximum(returned, up), up)
    return left


def _first_on_streams(group: Int64, orphan: Bool, launch: Int64, n_calls: int) -> Int64:
    """Of rows in start order: the first of each launch on each stream, and all orphans.  group: the stream."""
    launched = np.flatnonzero(~orphan)
    key = group[launched] * (n_calls + 1) + launch[launched]
    _, first_of_launch = np.unique(key, return_index=True)
    return np.sort(np.concatenate((np.flatnonzero(orphan), launched[first_of_launch])), kind="stable")


def _first_of_launch(launch: Int64) -> Int64:
    """Of rows in start order: those that are the first of their launch; each without a launch counts for itself."""
    row = np.arange(len(launch), dtype=np.int32)
    first = np.empty(int(launch.max(initial=NONE)) + 2, np.int32)  # of each launch; the last entry stands for NONE
    first[launch[::-1]] = row[::-1]  # of several rows the one written last stays
    return np.flatnonzero((launch == NONE) | (first[launch] == row))


# An eager operator takes 5–20 µs of Python, under the profiler with stacks up to 0.2 ms: half of the gaps that Python
# made were shorter than 96 µs on an A100, 62 µs on a B200, 98 µs on a V100 (traces/). Far longer, it did something else
SHORT_GAP_NS = 200_000
STRETCH_OPS = 10  # fewer ops one by one are no stretch: every loop begins with an empty queue


@dataclass(frozen=True)
class LaunchBound:
    """A stretch of a device's time in which it waited for each launch.

    start_ns: the first op's start.
    end_ns: the last op's end.
    n_ops: ops in it.
    busy_ns: when they executed.
    lost_ns: the gaps between them.
    lost_frac: the share of the stretch that was lost.
    """

    device: int
    start_ns: int
    end_ns: int
    n_ops: int
    busy_ns: int
    lost_ns: int

    @property
    def lost_frac(self) -> float:
        return self.lost_ns / (self.end_ns - self.start_ns)


@dataclass(frozen=True, eq=False)
class Launches:
    """The launch calls of a trace.

    n_calls: launch calls with device ops; n_ops: those ops.  mean_call_ns: the mean time Python spent in one.
    n_graphs: launches of more than one op; largest_graph: the most ops of one launch.
    blocked: rows of trace.calls that waited for room in a full queue.  deepest: the most launches queued on one stream.
    """

    n_calls: int
    n_ops: int
    mean_call_ns: float
    n_graphs: int
    largest_graph: int
    blocked: Int64
    deepest: int


def launches(trace: Trace) -> Launches:
    """How many launches, how long each held Python, and which waited for room in the queue."""
    of_call = np.bincount(trace.ops.launch[trace.ops.launch != NONE], minlength=len(trace.calls))
    calls = np.flatnonzero(of_call)
    n_ops = of_call[calls]
    length = (trace.calls.end_ns - trace.calls.start_ns)[calls]
    deepest, full = _full(trace)
    return Launches(
        n_calls=len(calls),
        n_ops=int(n_ops.sum()),
        mean_call_ns=float(length.mean()) if len(calls) else 0.0,
        n_graphs=int((n_ops > 1).sum()),
        largest_graph=int(n_ops.max()) if len(calls) else 0,
        blocked=np.flatnonzero(full),
        deepest=deepest,
    )


@once_per_trace
def launch_bound(
    trace: Trace, device: int, least_ops: int = STRETCH_OPS, longest_gap_ns: int = SHORT_GAP_NS
) -> Rows[LaunchBound]:
    """The stretches of a device's time bound by launches, by start.

    A stretch is as many ops of the device as possible, at least least_ops, one after the other over all streams. Each
    but the first was launched after all before it had ended: the queue was empty. It started less than longest_gap_ns
    after that. Python was not blocked by a synchronising call for most of the time until the launch.
    Source: docs/words.md, the *host* part of "idle gap".
    """
    rows = np.flatnonzero(trace.ops.device == device)
    ops = trace.ops.select(rows)
    if not len(ops):
        return Rows((), LaunchBound)
    free = np.maximum.accumulate(ops.end_ns)
    gap = np.zeros(len(ops), np.int64)
    gap[1:] = ops.start_ns[1:] - free[:-1]
    late = _launched_late(trace, rows, free) & (gap > 0) & (gap < longest_gap_ns)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], late, [False])).astype(np.int8)))
    first, after = edges[::2] - 1, edges[1::2]  # an op that is late belongs to one before it
    long = after - first >= least_ops
    lost = np.concatenate(([0], np.cumsum(np.where(late, gap, 0))))
    return Rows(
        (
            LaunchBound(
                device,
                start_ns=int(ops.start_ns[i]),
                end_ns=int(free[j - 1]),
                n_ops=j - i,
                busy_ns=int(free[j - 1] - ops.start_ns[i] - (lost[j] - lost[i + 1])),
                lost_ns=int(lost[j] - lost[i + 1]),
            )
            for i, j in zip(first[long].tolist(), after[long].tolist(), strict=True)
        ),
        LaunchBound,
    )


def _launched_late(trace: Trace, rows: Int64, free_ns: Int64) -> Bool:
    """Which ops were launched after all before them had ended, by a host that was not waiting; free_ns: until then."""
    launched = trace.launch_start_ns(rows)
    before = np.concatenate((launched[:1], free_ns[:-1]))
    held = covered_ns(activity.blocked_intervals(activity.syncs(trace)), before, launched)
    # launched earlier, held is 0 and the difference below it
    late: Bool = (trace.ops.launch[rows] != NONE) & (2 * held <= launched - before)
    return late


def _blocked_ns(trace: Trace) -> Int64:
    """How long each call has to last to have waited for room; shape of trace.calls.

    A graph's launch takes the longer the more ops it has: twice its usual length.
    """
    calls = trace.calls
    least_ns = np.full(len(calls), activity.BLOCKED_NS, np.int64)
    for name in np.unique(calls.name).tolist():
        if "GraphLaunch" in trace.names[name]:
            graph_calls = calls.name == name
            usual = np.median((calls.end_ns - calls.start_ns)[graph_calls])
            least_ns[graph_calls] = max(activity.BLOCKED_NS, int(2 * usual))
    return least_ns


def _full(trace: Trace) -> tuple[int, Bool]:
    """The most launches queued on one stream, and the calls that blocked while their stream was at its limit."""
    calls, ops = trace.calls, trace.ops
    length = calls.end_ns - calls.start_ns
    long = (calls.kind == CallKind.LAUNCH) & (length >= _blocked_ns(trace)) & ~activity.blocking_copies(trace)
    full = np.zeros(len(calls), bool)
    stats = {(q.device, q.stream): q.launches_max for device in trace.device_ids for q in queues(trace, device)}
    for device, stream, rows in stream_rows(ops):
        if stats.get((device, stream), 0) < activity.FULL_DEPTH:
            continue
        launched = distinct(ops.launch[rows][ops.launch[rows] != NONE])
        launched = launched[long[launched]]
        if not len(launched):
            continue
        depth = launches_queued_at(trace, device, stream, calls.start_ns[launched])
        full[launched[depth >= activity.FULL_DEPTH]] = True
    return max(stats.values(), default=0), full
