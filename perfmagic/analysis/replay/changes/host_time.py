"""Python as if it took less: faster as a whole, or without what it did at some time."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np

from perfmagic.analysis.replay.changes.change import Change, Stage, host_lags, on_line, time_on_line
from perfmagic.analysis.replay.graph import Edge, Graph, Node
from perfmagic.analysis.timeline.loaders import fetches
from perfmagic.numerics.intervals import EMPTY, Intervals, covered_ns, union
from perfmagic.numerics.longest import NO_NODE
from perfmagic.trace.columns import Int64


@dataclass(frozen=True)
class FasterPython(Change):
    """Python and its calls k times as fast; what they wait for stays. k: math.inf for a host that takes no time."""

    k: float = math.inf
    stage = Stage.SPEED_OF_PYTHON

    @property
    def at_most(self) -> bool:
        return math.isinf(self.k)

    @property
    def words(self) -> str:
        return "Python takes no time at all" if math.isinf(self.k) else f"make Python {self.k:g} × as fast"

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed, usual = graph.copy(), graph.usual
        left = 0.0 if math.isinf(self.k) else 1 / self.k
        first = changed.first
        mine = host_lags(graph)
        first.lag_ns[mine] = (first.lag_ns[mine] * left).astype(np.int64)
        # before the first call of a thread in a cell
        meta = graph.trace.meta
        begins = graph.on_host & (first.node == NO_NODE) & (graph.second.node == NO_NODE)
        if meta.returned_ns is not None:
            first.lag_ns[begins] = meta.start_ns + ((first.lag_ns[begins] - meta.start_ns) * left).astype(np.int64)
        ends = _begun_in_call(graph)
        lag_ns = first.lag_ns[ends] - changed.length_ns[ends]
        _shorten_launches(changed, ends, lag_ns - (lag_ns * left).astype(np.int64))
        joins = np.flatnonzero(graph.node == Node.JOIN)
        for links in (changed.first, changed.second):
            calls = joins[links.kind[joins] == Edge.CALL]
            links.lag_ns[calls] = np.minimum(
                links.lag_ns[calls], np.maximum((links.lag_ns[calls] * left).astype(np.int64), usual.call_ns)
            )
        return changed


def _begun_in_call(graph: Graph) -> Int64:
    """The ends of ops that began while Python was still in the call that launched them."""
    ends = graph.op_node
    found: Int64 = ends[(graph.first.kind[ends] == Edge.CALL) & (graph.first.node[ends] != NO_NODE)]
    return found


def _shorten_launches(changed: Graph, ends: Int64, less_ns: Int64) -> None:
    """Let ops that began in their launch call begin earlier, as after an ordinary launch at best. Changes the graph."""
    usual_ns = changed.usual.launch_ns[np.searchsorted(changed.op_node, ends)]
    lag_ns = changed.first.lag_ns[ends] - changed.length_ns[ends]
    shorter_ns = np.maximum(lag_ns - less_ns, np.minimum(lag_ns, usual_ns))
    changed.first.lag_ns[ends] = changed.length_ns[ends] + np.minimum(lag_ns, shorter_ns)


class TakesPython(Change):
    """Python without what it did in some intervals. Several together take each instant once: see applied."""

    stage = Stage.PYTHON

    @abstractmethod
    def during(self, graph: Graph) -> Intervals:
        """What is taken away; intervals in ns of the trace."""

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        return without_python(graph, self.during(graph))


@dataclass(frozen=True)
class WithoutPython(TakesPython):
    """Python without what it did in some intervals: a loader that fetches ahead, a line left out.

    what: it in words.  where: intervals in ns of the trace.
    """

    what: str
    where: Intervals = field(default_factory=lambda: EMPTY, repr=False, compare=False)

    @property
    def words(self) -> str:
        return self.what

    def refusal(self, graph: Graph) -> str:
        return "" if len(self.where) else "Python spent no time on that"

    def during(self, graph: Graph) -> Intervals:
        return self.where


def without_python(graph: Graph, during: Intervals) -> Graph:
    """The graph without what Python did in some intervals of the record, in ns; its lags are the recorded ones."""
    changed = graph.copy()
    rows = np.flatnonzero(host_lags(graph) & (graph.second.kind != Edge.SYNC))
    covered = covered_ns(during, graph.time_ns[graph.first.node[rows]], graph.time_ns[rows])
    changed.first.lag_ns[rows] = np.maximum(0, changed.first.lag_ns[rows] - covered)
    ends = _begun_in_call(graph)
    began_ns = graph.time_ns[ends] - graph.length_ns[ends]
    _shorten_launches(changed, ends, covered_ns(during, graph.time_ns[graph.first.node[ends]], began_ns))
    meta = graph.trace.meta
    alone = np.flatnonzero(graph.on_host & (graph.first.node == NO_NODE) & (graph.second.node == NO_NODE))
    if meta.returned_ns is not None and len(alone):
        begun = np.full(len(alone), meta.start_ns, np.int64)
        changed.first.lag_ns[alone] -= covered_ns(during, begun, graph.time_ns[alone])
    return changed


@dataclass(frozen=True)
class Prefetch(TakesPython):
    """Batches that are there when Python asks for them: a DataLoader's workers fetch ahead."""

    @property
    def words(self) -> str:
        return "let workers fetch the batches"

    def refusal(self, graph: Graph) -> str:
        return "" if len(fetches(graph.trace)) else "no DataLoader fetched a batch in the record"

    def during(self, graph: Graph) -> Intervals:
        host = fetches(graph.trace)
        return union(host.start_ns, host.end_ns)


@dataclass(frozen=True)
class NoLine(TakesPython):
    """The cell without the Python time of a line; what the line queued stays."""

    line: int

    @property
    def words(self) -> str:
        return f"take away the Python time{on_line(self.line)}"

    def refusal(self, graph: Graph) -> str:
        return "" if len(self.during(graph)) else f"Python was never on line {self.line}"

    def during(self, graph: Graph) -> Intervals:
        return time_on_line(graph.trace, self.line)
