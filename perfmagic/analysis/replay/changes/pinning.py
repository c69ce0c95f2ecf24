"""Copies to the device as if their memory were pinned: faster, and Python does not wait for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.replay.changes.change import Change, Stage, of_line, on_line, release, set_lengths, waits_for
from perfmagic.analysis.replay.graph import Edge, Graph, Node
from perfmagic.analysis.timeline.bus import pinned_bus
from perfmagic.numerics.longest import NO_NODE
from perfmagic.trace.columns import NONE, Int64, OpKind
from perfmagic.trace.names import OpClass, copy_direction, is_pageable

SLOWER = 1.15  # than pinned copies seen elsewhere in the trace
LEAST_BYTES = 1 << 10  # what is smaller goes with its launch, pinned or not


@dataclass(frozen=True)
class Pin(Change):
    """pin_memory() and non_blocking=True together.

    line: only copies that this line of the cell queued.  A pinned copy runs at the rate of pinned ones in this trace,
    else at that of the device's bus. At worst it takes 1.15 times as long as the former, or as long as it took.
    """

    line: int | None = None

    stage = Stage.CALLS

    @property
    def assumes(self) -> bool:
        return True

    @property
    def words(self) -> str:
        return f"pin the memory of the copies{on_line(self.line)} and copy with non_blocking=True"

    def refusal(self, graph: Graph) -> str:
        return "" if len(self.rows(graph)) else f"no copy{on_line(self.line)} is from pageable memory to the device"

    def rows(self, graph: Graph) -> Int64:
        """The copies, rows of trace.ops."""
        trace, ops = graph.trace, graph.trace.ops
        names = [is_pageable(name) and copy_direction(name) == OpClass.HTOD for name in trace.names]
        mine = np.array(names, bool)[ops.name] & (ops.kind == OpKind.MEMCPY)
        rows = np.flatnonzero(mine & ((ops.size_bytes > LEAST_BYTES) | (ops.size_bytes == NONE)))
        return of_line(rows, ops.line, self.line)

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed, rows, usual = graph.copy(), self.rows(graph), graph.usual
        calls = graph.trace.ops.launch[rows]
        release(changed, calls[calls != NONE], usual.call_ns)
        release(changed, waits_for(graph, rows), 0)
        first = changed.first
        ends = graph.op_node[rows]
        # staging takes as long as the copy at most: before that the call did something else, as a first one does
        before_ns = np.where(first.kind[ends] == Edge.CALL, first.lag_ns[ends] - changed.length_ns[ends], 0)
        else_ns = np.maximum(0, before_ns - graph.length_ns[ends] - usual.call_ns - usual.launch_ns[rows])
        returns = graph.end_of[calls]
        known = (calls != NONE) & (returns != NO_NODE)
        first.lag_ns[returns[known]] += else_ns[known]
        # it begins a launch after its call began, and not after Python has staged its bytes
        alone = (first.node[ends] != NO_NODE) & (graph.node[np.maximum(first.node[ends], 0)] != Node.JOIN)
        ends, op = ends[alone], rows[alone]
        begins = graph.begin_of[graph.trace.ops.launch[op]]
        lag_ns = first.lag_ns[ends] - changed.length_ns[ends]
        first.node[ends], first.kind[ends] = begins, Edge.LAUNCH
        usual_ns = usual.call_ns + usual.launch_ns[op] + else_ns[alone]
        first.lag_ns[ends] = changed.length_ns[ends] + np.minimum(lag_ns, usual_ns)
        set_lengths(changed, rows, self._pinned_ns(graph, rows, best=best))
        changed.pinned = tuple(sorted({*graph.pinned, *rows.tolist()}))
        return changed

    def _pinned_ns(self, graph: Graph, rows: Int64, *, best: bool) -> Int64:
        """How long each copy takes from pinned memory, as long as it did where nobody knows."""
        ops = graph.trace.ops
        length_ns = graph.length_ns[graph.op_node[rows]].copy()
        for device in np.unique(ops.device[rows]).tolist():
            bus = pinned_bus(graph.trace, device)
            if bus is None:
                continue
            mine = (ops.device[rows] == device) & (ops.size_bytes[rows] != NONE)
            pinned_ns = (ops.size_bytes[rows[mine]] / bus.bytes_per_s * 1e9).astype(np.int64)
            if not best:
                pinned_ns = (pinned_ns * SLOWER).astype(np.int64) if bus.measured else length_ns[mine]
            length_ns[mine] = np.minimum(length_ns[mine], pinned_ns)
        return length_ns
