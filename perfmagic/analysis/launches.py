"""The calls that queue work: how many, how long, and when the queue was full."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.queueing import stream_queue
from perfmagic.analysis.streams import orphans, stream_rows
from perfmagic.analysis.syncs import blocking_copies
from perfmagic.trace.columns import NONE, Bool, CallKind, Int64
from perfmagic.trace.model import Trace

FULL_DEPTH = 900  # a stream takes about 1000 launches before the call blocks; 994 to 1024 were seen on V100 and A100
BLOCKED_NS = 50_000  # a launch call takes 3–10 µs; far longer, with the queue at its limit, it waited for room


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
    calls, n_ops = np.unique(trace.ops.launch[trace.ops.launch != NONE], return_counts=True)
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


def _full(trace: Trace) -> tuple[int, Bool]:
    """The most launches queued on one stream, and the calls that blocked while their stream was at its limit."""
    calls, ops = trace.calls, trace.ops
    long = (calls.kind == CallKind.LAUNCH) & (calls.end_ns - calls.start_ns >= BLOCKED_NS) & ~blocking_copies(trace)
    full = np.zeros(len(calls), bool)
    deepest, early = 0, orphans(trace)
    for device, stream, rows in stream_rows(ops):
        depth = stream_queue(trace, device, stream, early).depth_launches
        deepest = max(deepest, depth.max)
        if depth.max < FULL_DEPTH:
            continue
        mine = np.unique(ops.launch[rows][ops.launch[rows] != NONE])
        mine = mine[long[mine]]
        at = np.searchsorted(depth.times_ns, calls.start_ns[mine], side="right") - 1
        full[mine[depth.values[at] >= FULL_DEPTH]] = True
    return deepest, full
