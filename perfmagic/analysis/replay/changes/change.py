"""What a change of a program is, several of them together, and the steps that changes are made of."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from perfmagic.analysis.replay.graph import Edge, Graph, Node
from perfmagic.base.language import phrase
from perfmagic.base.numerics.intervals import Intervals, covered_ns, union
from perfmagic.base.numerics.longest import NEVER, NO_NODE
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
    def description(self) -> str:
        """What would be done: "pin the copies of line 3"."""

    def described(self, graph: Graph) -> str:
        """The description, with what is known of it for this graph."""
        return self.description

    def otherwise(self) -> Change:
        """The change with what its model leaves open taken the other way; itself where nothing is."""
        return self

    def spread(self, graph: Graph) -> float:
        """The factor by which the whole run may be shorter or longer than predicted, for a model's own error."""
        return 1.0

    @abstractmethod
    def apply(self, graph: Graph, *, best: bool) -> Graph:
        """The changed graph: the instants of `graph`, which is not changed, and maybe more."""

    def not_applicable(self, graph: Graph) -> str:
        """Why the change does not apply to this graph; "" where it does."""
        return ""


def on_line(line: int | None) -> str:
    """The end of a description: " of line 3"; "" for all lines."""
    return "" if line is None else phrase(" of line {line}", line=line)


def time_on_line(trace: Trace, line: int) -> Intervals:
    """When Python was on a line of the cell; intervals in ns."""
    marks = trace.marks
    until = np.append(marks.at_ns[1:], trace.meta.end_ns)
    on = marks.line == line
    return union(marks.at_ns[on], until[on])


def queued_by(line: int | None, rows: Int64, line_of: Int32) -> Int64:
    """The rows that a line queued; all for None.  line_of: the column of the table."""
    return rows if line is None else rows[line_of[rows] == line]


def instants_of(nodes: Int64, rows: Int64) -> Int64:
    """The instants of some calls, without those that have none."""
    nodes = nodes[rows[rows != NONE]]
    return np.asarray(nodes[nodes != NO_NODE])


def release(graph: Graph, calls: Int64, cost_ns: int) -> None:
    """Make some calls wait for no device op and take cost_ns at most. Changes the graph."""
    ends = instants_of(graph.end_of, calls)
    waiting = ends[graph.second.kind[ends] == Edge.SYNC]
    graph.second.node[waiting] = NO_NODE
    graph.first.lag_ns[ends] = np.minimum(graph.first.lag_ns[ends], cost_ns)


def waits_for(graph: Graph, ops: Int64) -> Int64:
    """The calls that wait for some ops alone, and did not launch them: torch's behind a copy without non_blocking."""
    among = set(ops.tolist())
    return np.array([wait.call for wait in graph.host_waits if not wait.own and among.issuperset(wait.ops)], np.int64)


def set_lengths(graph: Graph, ops: Int64, length_ns: Int64) -> None:
    """Set how long some ops take. Changes the graph."""
    ends = graph.op_node[ops]
    more = length_ns - graph.length_ns[ends]
    graph.first.lag_ns[ends] += more
    graph.second.lag_ns[ends] = np.where(
        graph.second.node[ends] != NO_NODE, graph.second.lag_ns[ends] + more, graph.second.lag_ns[ends]
    )
    graph.length_ns[ends] = length_ns


def leave_out(graph: Graph, ops: Int64) -> None:
    """Make some ops, and the calls that launched them, take no time. Changes the graph."""
    take_no_time(graph, ops)
    calls = graph.trace.ops.launch[ops]
    graph.first.lag_ns[instants_of(graph.end_of, calls)] = 0


def take_no_time(graph: Graph, ops: Int64) -> None:
    """Make some ops take no time and wait only for the op before them on their stream. Changes the graph."""
    ends = graph.op_node[ops]
    behind = graph.second.node[ends] != NO_NODE
    graph.second.lag_ns[ends[behind]] = 0
    graph.length_ns[ends] = 0
    first = graph.first
    # an op that is removed holds only what waits for the op before it
    first.lag_ns[ends[behind]] = NEVER // 4
    alone, launch = ends[~behind], graph.trace.ops.launch[ops[~behind]]
    first.lag_ns[alone] = 0
    begin = np.where(launch != NONE, graph.begin_of[launch], NO_NODE) if len(graph.begin_of) else launch
    waited = (begin != NO_NODE) & (first.node[alone] != NO_NODE)
    first.node[alone[waited]] = begin[waited]


def host_lags(graph: Graph) -> Bool:
    """Which instants come after Python or a call on the host."""
    kinds = (Edge.PYTHON, Edge.CALL, Edge.OTHER_THREAD)
    return np.asarray(graph.on_host & np.isin(graph.first.kind, kinds) & (graph.first.node != NO_NODE))


def first_of_threads(graph: Graph) -> Int64:
    """The instants of host threads that come after nothing known: before them the thread worked since the run began."""
    return np.flatnonzero(graph.on_host & (graph.first.node == NO_NODE) & (graph.second.node == NO_NODE))


def begun_in_call(graph: Graph) -> Int64:
    """The ends of ops that began while Python was still in the call that launched them."""
    ends = graph.op_node
    return np.asarray(ends[(graph.first.kind[ends] == Edge.CALL) & (graph.first.node[ends] != NO_NODE)])


def shorten_launches(changed: Graph, ends: Int64, less_ns: Int64) -> None:
    """Make ops that began in their launch call begin earlier, at best as after a usual launch. Changes the graph."""
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


def without_python(graph: Graph, during: Intervals) -> Graph:
    """The graph without what Python did in some intervals of the record, in ns; its lags are the recorded ones."""
    changed = graph.copy()
    rows = np.flatnonzero(host_lags(graph) & (graph.second.kind != Edge.SYNC))
    covered = covered_ns(during, graph.time_ns[graph.first.node[rows]], graph.time_ns[rows])
    changed.first.lag_ns[rows] = np.maximum(0, changed.first.lag_ns[rows] - covered)
    ends = begun_in_call(graph)
    began_ns = graph.time_ns[ends] - graph.length_ns[ends]
    shorten_launches(changed, ends, covered_ns(during, graph.time_ns[graph.first.node[ends]], began_ns))
    first = first_of_threads(graph)
    begun = np.full(len(first), graph.begins_ns, np.int64)
    changed.first.lag_ns[first] -= covered_ns(during, begun, graph.time_ns[first])
    joins = np.flatnonzero(graph.node == Node.JOIN)
    for links in (changed.first, changed.second):
        tails = joins[links.kind[joins] == Edge.PYTHON]
        begun = graph.time_ns[links.node[tails]]
        links.lag_ns[tails] -= covered_ns(during, begun, begun + links.lag_ns[tails])
    return changed


def applied(graph: Graph, changes: Sequence[Change], *, best: bool) -> Graph:
    """The graph with several changes, by stage. Time that several of them take from Python is taken once."""
    taking = [change for change in changes if isinstance(change, TakesPython)]
    changed = graph
    if taking:
        spans = np.concatenate([change.during(graph) for change in taking])
        changed = without_python(graph, union(spans[:, 0], spans[:, 1]))
    others = (change for change in changes if not isinstance(change, TakesPython))
    for change in sorted(others, key=lambda change: (change.stage, type(change).__name__)):
        changed = change.apply(changed, best=best)
    return changed


@dataclass(frozen=True)
class OnTime(Change):
    """No rank comes later to a collective than the median of its ranks. See perfmagic.analysis.ranks.job_prediction."""

    stage = Stage.LENGTHS

    @property
    def description(self) -> str:
        return phrase("no rank comes later to a collective than the median of its ranks")

    def not_applicable(self, graph: Graph) -> str:
        return phrase("this is the record of one rank: only the records of all ranks show who was late")

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        return graph
