"""What a change is, and the small steps that changes are made of."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from perfmagic.analysis.replay.graph import Edge, Graph
from perfmagic.numerics.intervals import Intervals, union
from perfmagic.numerics.longest import NEVER, NO_NODE
from perfmagic.trace.columns import NONE, Bool, Int32, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass

COPIES = (OpClass.HTOD, OpClass.DTOH, OpClass.DTOD, OpClass.PTOP)


class Stage(enum.IntEnum):
    """When a change is made, of several: what takes recorded time away comes before what scales the rest."""

    PYTHON = 0
    WAITS = 1
    CALLS = 2
    STREAMS = 3
    LAUNCHES = 4
    LENGTHS = 5
    SPEED_OF_PYTHON = 6


class Change(ABC):
    """Something done differently. An assumption that it stands on has two ends: the `best` and the other."""

    stage: ClassVar[Stage]

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


def time_on_line(trace: Trace, line: int) -> Intervals:
    """When Python was on a line of the cell; intervals in ns."""
    marks = trace.marks
    until = np.append(marks.at_ns[1:], trace.meta.end_ns)
    mine = marks.line == line
    return union(marks.at_ns[mine], until[mine])


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


def waits_for(graph: Graph, ops: Int64) -> Int64:
    """The calls that wait for some ops alone, and did not launch them: torch's behind a copy without non_blocking."""
    some = set(ops.tolist())
    return np.array([wait.call for wait in graph.host_waits if not wait.own and some.issuperset(wait.ops)], np.int64)


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
    hold_nobody(graph, ops)
    calls = graph.trace.ops.launch[ops]
    graph.first.lag_ns[instants_of(graph.end_of, calls)] = 0


def hold_nobody(graph: Graph, ops: Int64) -> None:
    """Let some ops take no time and wait for nothing but the op before them on their stream. Changes the graph."""
    ends = graph.op_node[ops]
    behind = graph.second.node[ends] != NO_NODE
    graph.second.lag_ns[ends[behind]] = 0
    graph.length_ns[ends] = 0
    first = graph.first
    # an op that is not there holds nobody who does not wait for what is before it
    first.lag_ns[ends[behind]] = NEVER // 4
    alone, launch = ends[~behind], graph.trace.ops.launch[ops[~behind]]
    first.lag_ns[alone] = 0
    begin = np.where(launch != NONE, graph.begin_of[launch], NO_NODE) if len(graph.begin_of) else launch
    waited = (begin != NO_NODE) & (first.node[alone] != NO_NODE)
    first.node[alone[waited]] = begin[waited]


def host_lags(graph: Graph) -> Bool:
    """Which instants come after Python or a call on the host."""
    kinds = (Edge.PYTHON, Edge.CALL, Edge.OTHER_THREAD)
    found: Bool = graph.on_host & np.isin(graph.first.kind, kinds) & (graph.first.node != NO_NODE)
    return found
