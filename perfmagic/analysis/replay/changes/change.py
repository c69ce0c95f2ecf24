"""What a change is, and the small steps that changes are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from perfmagic.analysis.replay.graph import Edge, Graph
from perfmagic.numerics.longest import NEVER, NO_NODE
from perfmagic.trace.columns import NONE, Bool, Int32, Int64


class Change(ABC):
    """Something done differently. An assumption that it stands on has two ends: the `best` and the other."""

    @property
    def at_most(self) -> bool:
        """Whether its gain is a bound: it removes what no change can remove better."""
        return False

    @property
    def assumes(self) -> bool:
        """Whether it stands on an assumption: its `best` end then differs from the other."""
        return False

    @property
    @abstractmethod
    def words(self) -> str:
        """What would be done: "pin the copies of line 3"."""

    @abstractmethod
    def apply(self, graph: Graph, *, best: bool) -> Graph:
        """The graph with the change, which has the instants of the one given and maybe more; that stays as it is."""

    def refusal(self, graph: Graph) -> str:
        """Why nothing can be said of this change here, "" where something can."""
        return ""


def on_line(line: int | None) -> str:
    """Which line's, behind what is changed: "of line 3" after a space; nothing for all lines."""
    return "" if line is None else f" of line {line}"


def of_line(rows: Int64, line_of: Int32, line: int | None) -> Int64:
    """Those of some rows that a line made; all for None."""
    return rows if line is None else rows[line_of[rows] == line]


def instants_of(nodes: Int64, rows: Int64) -> Int64:
    """The instants of some calls, without those that have none."""
    known = nodes[rows[rows != NONE]]
    found: Int64 = known[known != NO_NODE]
    return found


def release(graph: Graph, calls: Int64, cost_ns: int) -> None:
    """Let some calls wait for no device op and take cost_ns at most. Changes the graph."""
    ends = instants_of(graph.end_of, calls)
    waiting = ends[graph.second.kind[ends] == Edge.SYNC]
    graph.second.node[waiting] = NO_NODE
    graph.first.lag_ns[ends] = np.minimum(graph.first.lag_ns[ends], cost_ns)


def set_lengths(graph: Graph, ops: Int64, length_ns: Int64) -> None:
    """Let some ops take so long. Changes the graph."""
    ends = graph.op_node[ops]
    more = length_ns - graph.length_ns[ends]
    graph.first.lag_ns[ends] += more
    graph.second.lag_ns[ends] = np.where(
        graph.second.node[ends] != NO_NODE, graph.second.lag_ns[ends] + more, graph.second.lag_ns[ends]
    )
    graph.length_ns[ends] = length_ns


def leave_out(graph: Graph, ops: Int64) -> None:
    """Let some ops, and the calls that launched them, take no time. Changes the graph."""
    ends = graph.op_node[ops]
    behind = graph.second.node[ends] != NO_NODE
    graph.second.lag_ns[ends[behind]] = 0
    graph.length_ns[ends] = 0
    # an op that is not there holds nobody who does not wait for what is before it
    graph.first.lag_ns[ends] = np.where(behind, NEVER // 4, 0)
    calls = graph.trace.ops.launch[ops]
    graph.first.lag_ns[instants_of(graph.end_of, calls)] = 0


def host_lags(graph: Graph) -> Bool:
    """Which instants come after Python or a call on the host."""
    kinds = (Edge.PYTHON, Edge.CALL, Edge.OTHER_THREAD)
    found: Bool = graph.on_host & np.isin(graph.first.kind, kinds) & (graph.first.node != NO_NODE)
    return found
