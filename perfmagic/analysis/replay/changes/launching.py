"""Many launches as one: CUDA graphs, compiled regions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from perfmagic.analysis.replay.changes.change import Change, instants_of, on_line
from perfmagic.analysis.replay.device_ops import UNEXPLAINED_NS
from perfmagic.analysis.replay.graph import Edge, Graph, Node
from perfmagic.numerics.longest import NO_NODE
from perfmagic.trace.columns import NONE, Int64

CALL_NS = 10_000  # of a graph's launch: 5–20 µs on A100 and V100 (traces/)
GAP_NS = 1_000  # between two ops of one graph


@dataclass(frozen=True)
class OneGraph(Change):
    """Ops launched together, as a CUDA graph does: Python pays one call, and the ops follow each other.

    line: the ops that this line queued.  stretches: instead, rows of trace.ops, each a tuple.  A call that waits for
    the device ends a graph: what comes after it is another one. What else delays an op stays.
    """

    line: int | None = None
    stretches: tuple[tuple[int, ...], ...] | None = field(default=None, repr=False)

    @property
    def words(self) -> str:
        return f"launch the ops{on_line(self.line)} as one CUDA graph"

    def refusal(self, graph: Graph) -> str:
        return (
            "" if any(len(rows) > 1 for rows in self._stretches(graph)) else f"the ops{on_line(self.line)} are too few"
        )

    def _stretches(self, graph: Graph) -> list[Int64]:
        if self.stretches is not None:
            return [np.array(rows, np.int64) for rows in self.stretches]
        ops = graph.trace.ops
        return [np.flatnonzero((ops.launch != NONE) & ((ops.line == self.line) | (self.line is None)))]

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed = graph.copy()
        waits = np.flatnonzero((graph.second.kind == Edge.SYNC) & (graph.node == Node.CALL_END))
        cuts_ns = np.sort(graph.time_ns[waits])
        kinds = (Edge.PYTHON, Edge.CALL, Edge.OTHER_THREAD)
        host = np.flatnonzero(graph.on_host & np.isin(graph.first.kind, kinds) & (graph.first.node != NO_NODE))
        host = host[np.argsort(graph.time_ns[host], kind="stable")]
        for rows in self._stretches(graph):
            for calls in _parts(graph, rows, cuts_ns):
                _one_call(changed, calls, host)
            _close_up(changed, rows)
        return changed


def _parts(graph: Graph, rows: Int64, cuts_ns: Int64) -> list[Int64]:
    """The launch calls of some ops, cut where Python waits for the device, parts of one call left out."""
    calls = np.unique(graph.trace.ops.launch[rows])
    calls = calls[calls != NONE]
    start_ns = graph.trace.calls.start_ns
    calls = calls[np.argsort(start_ns[calls], kind="stable")]
    part = np.searchsorted(cuts_ns, start_ns[calls])
    return [calls[part == one] for one in np.unique(part).tolist() if (part == one).sum() > 1]


def _one_call(changed: Graph, calls: Int64, host: Int64) -> None:
    """Let all the Python from the first to the last of some launches take as long as one. Changes the graph.

    host: instants of the host by time.
    """
    table, times_ns = changed.trace.calls, changed.time_ns[host]
    begin_ns, end_ns = int(table.start_ns[calls[0]]), int(table.end_ns[calls].max())
    inside = host[np.searchsorted(times_ns, begin_ns, side="right") : np.searchsorted(times_ns, end_ns, side="right")]
    inside = inside[changed.time_ns[changed.first.node[inside]] >= begin_ns]
    changed.first.lag_ns[inside] = 0
    changed.second.node[inside[changed.second.kind[inside] == Edge.ROOM]] = NO_NODE
    changed.first.lag_ns[instants_of(changed.end_of, calls[:1])] = CALL_NS


def _close_up(changed: Graph, rows: Int64) -> None:
    """Let ops follow each other as those of a graph do. Changes the graph."""
    ends, usual = changed.op_node[rows], changed.usual
    first, second, length_ns = changed.first, changed.second, changed.length_ns[ends]
    lag_ns = first.lag_ns[ends] - length_ns
    launch_ns = usual.launch_ns[rows]
    kind = first.kind[ends]
    ordinary = (kind == Edge.CALL) | ((kind == Edge.LAUNCH) & (lag_ns <= UNEXPLAINED_NS + launch_ns))
    first.lag_ns[ends] = np.where(ordinary, length_ns + np.minimum(lag_ns, launch_ns), first.lag_ns[ends])
    gap_ns = second.lag_ns[ends] - length_ns
    inner = np.isin(second.node[ends], ends)
    ordinary = inner & (second.kind[ends] == Edge.STREAM) & (gap_ns <= UNEXPLAINED_NS)
    least_ns = np.minimum(gap_ns, min(GAP_NS, usual.stream_ns))
    second.lag_ns[ends] = np.where(ordinary, length_ns + least_ns, second.lag_ns[ends])
