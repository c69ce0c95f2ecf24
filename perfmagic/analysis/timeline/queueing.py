"""The queue between Python and the device: how deep it was, how long ops waited in it, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.streams import StreamStat, orphans, previous_end_ns, streams
from perfmagic.analysis.timeline.syncs import blocking_copies
from perfmagic.numerics.grouped import coded, depths
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace

__all__ = [
    "CountOverTime",
    "Delays",
    "QueueStat",
    "StreamQueue",
    "StreamStat",
    "count_over_time",
    "delays",
    "launches_queued_at",
    "queues",
    "stream_queue",
    "streams",
]


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
    """The queue of one stream in numbers, as StreamQueue has them over time."""

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
    up = np.sort(_queued_from(trace, rows, orphan, np.zeros(len(rows), np.int64)))
    started = np.searchsorted(trace.ops.start_ns[rows], at_ns, side="right")
    return np.searchsorted(up, at_ns, side="right") - started


def _queued_on(trace: Trace, device: int, stream: int, early: Bool | None = None) -> tuple[Int64, Bool]:
    """The ops of a stream of which it is known since when they were queued, rows of trace.ops; which are orphans."""
    ops = trace.ops
    mine = (ops.device == device) & (ops.stream == stream)
    orphan = mine & (orphans(trace) if early is None else early)
    rows = np.flatnonzero(mine & (ops.launch != NONE) | orphan)
    return rows, orphan[rows]


@once_per_trace
def queues(trace: Trace, device: int) -> Rows[QueueStat]:
    """The queues of all streams of a device, by stream; the numbers of stream_queue for all streams at once.

    Streams with neither an op with a launch record nor an orphan are left out.
    """
    ops, orphan = trace.ops, orphans(trace)
    rows = np.flatnonzero((ops.device == device) & ((ops.launch != NONE) | orphan))
    if not len(rows):
        return Rows((), QueueStat)
    streams_, group = coded(ops.stream[rows])
    group = group.astype(np.int64)
    start = ops.start_ns[rows]
    up = _queued_from(trace, rows, orphan[rows], group)
    in_ops = depths(group, up, start)
    # a launch with ops on several streams counts for each
    key = group * (len(trace.calls) + 1) + np.where(orphan[rows], NONE, ops.launch[rows])
    first = np.sort(np.concatenate((np.flatnonzero(orphan[rows]), _first_of(key, ~orphan[rows]))))
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
    free = np.clip(previous_end_ns(trace.ops), returned, start)
    return Delays(in_call_ns=returned - launch, behind_ns=free - returned, waiting_ns=start - free)


def _queued_from(trace: Trace, rows: Int64, orphan: Bool, group: Int64) -> Int64:
    """When each op was queued: at its launch, at the latest when it started; an orphan at the beginning of the window.

    rows: of trace.ops, rising.  group: of each row the number of its stream: an op may start before the window does.
    """
    start = trace.ops.start_ns[rows]
    first = np.full(int(group.max(initial=0)) + 1, trace.meta.start_ns, np.int64)
    np.minimum.at(first, group, start)
    queued: Int64 = np.where(orphan, first[group], np.minimum(trace.launch_start_ns()[rows], start))
    return queued


def _python_left(trace: Trace, rows: Int64, up: Int64) -> Int64:
    """From when on Python was ahead of each op: its launch; of a copy whose call held Python, the call's return."""
    blocking, launch = blocking_copies(trace), trace.ops.launch[rows]
    held = (launch != NONE) & (blocking[launch] if len(blocking) else False)
    returned = np.minimum(trace.launch_end_ns()[rows], trace.ops.end_ns[rows])
    left: Int64 = np.where(held, np.maximum(returned, up), up)
    return left


def _first_of(key: Int64, wanted: Bool) -> Int64:
    """The first place of each key among the wanted ones."""
    places = np.flatnonzero(wanted)
    _, first = np.unique(key[places], return_index=True)
    found: Int64 = places[first]
    return found


def _first_of_launch(launch: Int64) -> Int64:
    """Of rows in start order: those that are the first of their launch; each without a launch counts for itself."""
    without = np.flatnonzero(launch == NONE)
    with_launch = np.flatnonzero(launch != NONE)
    _, first = np.unique(launch[with_launch], return_index=True)
    return np.sort(np.concatenate((without, with_launch[first])))
