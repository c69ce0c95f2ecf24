"""The calls that queue work: how many, how long, when the queue was full, and when it ran empty at every op."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.queueing import launches_queued_at, queues
from perfmagic.analysis.timeline.streams import stream_rows
from perfmagic.analysis.timeline.syncs import blocked_intervals, blocking_copies, syncs
from perfmagic.numerics.grouped import distinct
from perfmagic.numerics.intervals import covered_ns
from perfmagic.trace.columns import NONE, Bool, CallKind, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace

FULL_DEPTH = 900  # a stream takes about 1000 launches before the call blocks; 994 to 1024 were seen on V100 and A100
BLOCKED_NS = 50_000  # a launch call takes 3–10 µs; far longer, with the queue at its limit, it waited for room
# An eager operator takes 5–20 µs of Python, under the profiler with stacks up to 0.2 ms: half of the gaps that Python
# made were shorter than 96 µs on an A100, 62 µs on a B200, 98 µs on a V100 (traces/). Far longer, it did something else
SHORT_GAP_NS = 200_000
STRETCH_OPS = 10  # fewer ops one by one are no stretch: every loop begins with an empty queue


@dataclass(frozen=True)
class LaunchBound:
    """A stretch of a device's time in which it waited for each launch; times in ns.

    n_ops: ops from start_ns to end_ns.  busy_ns: what they executed.  lost_ns: the gaps between them.
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

    A stretch is as many ops of the device as possible, at least least_ops, one after the other over all streams, where
    each but the first was launched after all before it had ended (the queue was empty), started less than
    longest_gap_ns after that, and Python was not held by a synchronising call for most of the time until the launch.
    Source: docs/words.md, the *host* part of "idle gap".
    """
    rows = np.flatnonzero(trace.ops.device == device)
    ops = trace.ops.take(rows)
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
    launched = trace.launch_start_ns()[rows]
    before = np.concatenate((launched[:1], free_ns[:-1]))
    held = covered_ns(blocked_intervals(syncs(trace)), before, launched)
    # launched earlier, held is 0 and the difference below it
    late: Bool = (trace.ops.launch[rows] != NONE) & (2 * held <= launched - before)
    return late


def _blocked_ns(trace: Trace) -> Int64:
    """How long each call has to last to have waited for room; shape of trace.calls.

    A graph's launch takes the longer the more ops it has: twice its usual length.
    """
    calls = trace.calls
    found = np.full(len(calls), BLOCKED_NS, np.int64)
    for name in np.unique(calls.name).tolist():
        if "GraphLaunch" in trace.names[name]:
            mine = calls.name == name
            usual = np.median((calls.end_ns - calls.start_ns)[mine])
            found[mine] = max(BLOCKED_NS, int(2 * usual))
    return found


def _full(trace: Trace) -> tuple[int, Bool]:
    """The most launches queued on one stream, and the calls that blocked while their stream was at its limit."""
    calls, ops = trace.calls, trace.ops
    length = calls.end_ns - calls.start_ns
    long = (calls.kind == CallKind.LAUNCH) & (length >= _blocked_ns(trace)) & ~blocking_copies(trace)
    full = np.zeros(len(calls), bool)
    stats = {(q.device, q.stream): q.launches_max for device in trace.device_ids for q in queues(trace, device)}
    for device, stream, rows in stream_rows(ops):
        if stats.get((device, stream), 0) < FULL_DEPTH:
            continue
        mine = distinct(ops.launch[rows][ops.launch[rows] != NONE])
        mine = mine[long[mine]]
        if not len(mine):
            continue
        depth = launches_queued_at(trace, device, stream, calls.start_ns[mine])
        full[mine[depth >= FULL_DEPTH]] = True
    return max(stats.values(), default=0), full
