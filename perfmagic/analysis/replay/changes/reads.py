"""Reads that make Python wait, as if they were left out or moved behind the last line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.replay.changes.change import Change, Stage, leave_out, of_line, on_line, release
from perfmagic.analysis.replay.graph import Graph
from perfmagic.analysis.replay.queues import heads, last_before_on_thread
from perfmagic.analysis.timeline.syncs import syncs
from perfmagic.trace.columns import NONE, Int64, OpKind
from perfmagic.trace.names import OpClass, copy_direction

_VALUE_BYTES = 64  # a read of one number copies no more


@dataclass(frozen=True)
class NoItem(Change):
    """No blocking read: no .item(), no print of a tensor, no .cpu() in the middle; the last wait of the cell stays.

    line: only what this line asked for.  calls: rows of trace.calls instead; a read's own copy of one number goes, too.
    """

    line: int | None = None
    calls: tuple[int, ...] | None = None

    stage = Stage.CALLS

    @property
    def words(self) -> str:
        return f"leave out the blocking reads{on_line(self.line)}, or read once at the end"

    def refusal(self, graph: Graph) -> str:
        return "" if len(self.rows(graph)) else f"nothing{on_line(self.line)} made Python wait for the device"

    def rows(self, graph: Graph) -> Int64:
        """The blocking calls, rows of trace.calls."""
        if self.calls is not None:
            return np.array(self.calls, np.int64)
        found = syncs(graph.trace)
        head, ops = heads(graph.trace), graph.trace.ops
        uploads = np.array([copy_direction(name) == OpClass.HTOD for name in graph.trace.names], bool)
        op = head[found.call]
        upload = uploads[ops.name[op]] & (op != NONE) if len(ops) else np.zeros(len(found), bool)
        rows = found.call[~found.after_cell & ~found.at_edge & ~upload]
        return of_line(rows, graph.trace.calls.line, self.line)

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed, rows = graph.copy(), self.rows(graph)
        trace, ops = graph.trace, graph.trace.ops
        release(changed, rows, 0)
        head = heads(trace)
        own = head[rows]
        before = self._copy_before(graph, rows[own == NONE], head)
        copies = np.unique(np.concatenate((own[own != NONE], before)))
        small = (ops.kind[copies] == OpKind.MEMCPY) & (ops.size_bytes[copies] <= _VALUE_BYTES)
        copies = copies[small & (ops.size_bytes[copies] >= 0)]
        leave_out(changed, copies)
        release(changed, ops.launch[copies], 0)
        return changed

    def _copy_before(self, graph: Graph, calls: Int64, head: Int64) -> Int64:
        """The copy that each waiting call waits for, where it is that: queued last before it by its thread."""
        found = last_before_on_thread(graph.trace, calls, head)
        known: Int64 = found[found != NONE]
        return known
