"""Ops on a stream of their own, and streams that wait for fewer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.replay.changes.change import COPIES, Change, Stage, of_line, on_line, set_lengths
from perfmagic.analysis.replay.graph import Edge, Graph, Node
from perfmagic.analysis.replay.queues import previous_of_stream
from perfmagic.analysis.timeline.streams import stream_numbers
from perfmagic.numerics.longest import NEVER, NO_NODE
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.names import OpClass, op_classes

SLOWER = 1.25  # of what runs beside compute: the 90th percentile of kernels beside communication was 1.13–1.24
UNKNOWN_WAITS = "the record does not say which stream waits for which, so that nothing can be moved between them"


@dataclass(frozen=True)
class OwnStream(Change):
    """Copies on streams of their own, one a direction, with the waits that keep the results right.

    line: only what this line queued.  The next op of the old stream waits for a copy to the device, and a copy from
    the device waits for the op before it. Beside compute they take up to 1.25 times as long.
    """

    line: int | None = None

    stage = Stage.STREAMS

    @property
    def assumes(self) -> bool:
        return True

    @property
    def words(self) -> str:
        return f"put the copies{on_line(self.line)} on a stream of their own"

    def refusal(self, graph: Graph) -> str:
        if not len(self.rows(graph)):
            return f"there are no copies{on_line(self.line)}"
        return "" if graph.waits_known else UNKNOWN_WAITS

    def rows(self, graph: Graph) -> Int64:
        """The copies, rows of trace.ops."""
        ops = graph.trace.ops
        mine = np.isin(op_classes(graph.trace), COPIES) & (ops.launch != NONE)
        return of_line(np.flatnonzero(mine), ops.line, self.line)

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        rows, ops = self.rows(graph), graph.trace.ops
        numbers = stream_numbers(ops)
        moved = numbers.copy()
        classes = op_classes(graph.trace)
        # what goes there does not wait behind what comes back
        direction = np.searchsorted(np.sort(COPIES), classes[rows])
        moved[rows] = numbers.max(initial=0) + 1 + len(COPIES) * ops.device[rows] + direction
        old, new = previous_of_stream(graph.trace, numbers), previous_of_stream(graph.trace, moved)
        changed = graph.copy()
        changed.stream = graph.stream.copy()
        changed.stream[rows] = ops.stream.max(initial=0) + 1 + direction
        if not best:
            set_lengths(changed, rows, (changed.length_ns[graph.op_node[rows]] * SLOWER).astype(np.int64))
        self._relink(changed, np.flatnonzero(old != new), new)
        is_moved = np.zeros(len(ops), bool)
        is_moved[rows] = True
        brought = is_moved & (classes != OpClass.DTOH)  # others need what it brings
        needs = is_moved & (classes != OpClass.HTOD)  # it needs what others made
        pairs = [*_last_before(old, ~is_moved, brought), *_last_before(old, needs, ~is_moved)]
        waiting, on = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
        return with_waits(changed, waiting, on)

    def _relink(self, changed: Graph, ops: Int64, previous: Int64) -> None:
        """Let some ops follow another one on their stream. Changes the graph."""
        ends, before = changed.op_node[ops], previous[ops]
        has = before != NONE
        second = changed.second
        second.node[ends] = np.where(has, changed.op_node[np.maximum(before, 0)], NO_NODE)
        second.lag_ns[ends] = np.where(has, changed.length_ns[ends] + changed.usual.stream_ns, 0)
        second.kind[ends] = Edge.STREAM
        alone = (second.node[ends] == NO_NODE) & (changed.first.node[ends] == NO_NODE)
        changed.first.lag_ns[ends[alone]] = changed.time_ns[ends[alone]]


@dataclass(frozen=True)
class NoWaits(Change):
    """No stream waits for another. Right only where no op needs what the other stream's op makes."""

    stage = Stage.WAITS

    @property
    def words(self) -> str:
        return "let no stream wait for another"

    def refusal(self, graph: Graph) -> str:
        if not graph.waits:
            return "no stream waits for another"
        return "" if graph.waits_known else UNKNOWN_WAITS

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed = graph.copy()
        joins = np.flatnonzero(graph.node == Node.JOIN)
        for links in (changed.first, changed.second):
            links.lag_ns[joins[links.kind[joins] == Edge.WAIT]] = NEVER // 4
        return changed


def _last_before(old: Int64, waiting: Bool, on: Bool) -> list[tuple[int, int]]:
    """For each waiting op the last of some ops before it on its old stream, where the waiting one before had not it.

    old: the op before each on its stream.  waiting, on: which ops. Shapes of ops.
    """
    found = []
    after = np.full(len(old), NONE, np.int64)
    after[old[old != NONE]] = np.flatnonzero(old != NONE)
    for head in np.flatnonzero(old == NONE).tolist():
        at, last = head, NONE
        while at != NONE:
            if waiting[at] and last != NONE:
                found.append((at, last))
                last = NONE
            if on[at]:
                last = at
            at = int(after[at])
    return found


def with_waits(graph: Graph, ops: Int64, sources: Int64) -> Graph:
    """A graph in which each of some ops waits for another one, too; rows of trace.ops."""
    n, ends = len(graph), graph.op_node[ops]
    first = graph.first
    joins = n + np.arange(len(ops))
    lag_ns = np.where(first.node[ends] != NO_NODE, first.lag_ns[ends] - graph.length_ns[ends], first.lag_ns[ends])
    extended = first.extended(first.node[ends], lag_ns, first.kind[ends])
    extended.node[ends], extended.lag_ns[ends], extended.kind[ends] = joins, graph.length_ns[ends], Edge.WAIT
    second = graph.second.extended(
        graph.op_node[sources], np.full(len(ops), graph.usual.wait_ns, np.int64), np.full(len(ops), Edge.WAIT, np.int8)
    )
    return graph.with_joins(extended, second, graph.time_ns[ends])
