"""Launches that waited for room in a full queue: each returned when an op that was queued long before it began."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.replay.graph import Edge, Links
from perfmagic.analysis.replay.queues import Queues, heads
from perfmagic.analysis.timeline.launches import BLOCKED_NS, FULL_DEPTH
from perfmagic.numerics.longest import NO_NODE
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.model import Trace

LIMIT = 1024  # launches that a stream takes, where fewer were queued; 994 to 1024 were seen on V100 and A100
_FREE_NS = 2_000  # of an edge that held nothing
_CALL_NS = 10_000  # of a launch call, beside its wait


@dataclass(frozen=True, eq=False)
class Instants:
    """Of a graph that is being built: which instants belong to calls and ops, when they were, what each waits for."""

    begin_of: Int64
    end_of: Int64
    op_node: Int64
    time_ns: Int64
    first: Links
    second: Links


def link_room(trace: Trace, queues: Queues, launched: Bool, previous: Int64, at: Instants) -> int:
    """Let the end of each launch wait until its stream has room; changes at.first and at.second. Gives how many."""
    ops, first, second = trace.ops, at.first, at.second
    is_head = np.zeros(len(ops), bool)
    head = heads(trace)
    is_head[head[head != NONE]] = True
    linked = 0
    for of_stream in queues.rows:
        rows = of_stream[is_head[of_stream] & launched[of_stream]]
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
        second.node[end], second.kind[end] = at.op_node[freeing], Edge.ROOM
        second.lag_ns[end] = np.where(held, lag_ns, np.minimum(_FREE_NS, lag_ns))
        first.lag_ns[end] = np.where(held, np.minimum(first.lag_ns[end], _CALL_NS), first.lag_ns[end])
        linked += len(end)
    return linked
