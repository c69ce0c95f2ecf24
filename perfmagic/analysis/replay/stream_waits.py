"""Which op waited for which op of another stream: as recorded, else inferred from times."""

from __future__ import annotations

import numpy as np

from perfmagic.analysis.replay.queues import Queues, first_after_on_thread
from perfmagic.analysis.timeline.dependencies import order_of
from perfmagic.numerics.longest import NEVER
from perfmagic.trace.columns import NONE, CallKind, Int64
from perfmagic.trace.model import Trace

CLOCK_NS = 1_000  # ops of two streams are timed by one clock; older records round to microseconds


def stream_waits(trace: Trace, queues: Queues, head: Int64) -> tuple[Int64, bool]:
    """Pairs (op, op of another stream that it waits for), shape (n, 2), and whether the record names them.

    Without recorded waits a call that asks for one is given to the op that its thread launched next; it waits for the
    op of another stream that was launched before and ended last before it began. Only a wait that held something can be
    found so. Pairs against time are left out.
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
        mine = np.flatnonzero((waits.device == device) & (waits.stream == stream))
        target[mine] = queues.after(k, asked[mine])
        mine = np.flatnonzero((on_device == device) & (waits.on_stream == stream))
        source[mine] = queues.up_to(k, recorded[mine])
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
        source[:, k] = found = queues.last_launched_and_ended(k, at_ns, ops.start_ns[target] + CLOCK_NS)
        ended_ns[:, k] = np.where(found != NONE, ops.end_ns[found], NEVER)
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
