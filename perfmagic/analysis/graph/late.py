"""Which nodes of a graph could have begun earlier, so that it mattered, and what kept them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from perfmagic.analysis.graph.graph import Graph
from perfmagic.analysis.graph.nodes import GraphNode
from perfmagic.analysis.replay.device_ops import Queues, heads, stream_waits
from perfmagic.analysis.timeline.activity import syncs
from perfmagic.base import units
from perfmagic.base.language import Words, chained, phrase
from perfmagic.base.numerics.intervals import Intervals, covered_ns, union
from perfmagic.trace.model import Trace
from perfmagic.trace.rows import Rows

LEAST_SHARE = 0.05  # of the elapsed time: below it a late begin is no news
HELD = phrase("it was queued in time, and its stream held it")
_MOST_OF = 0.5  # of a wait: what Python did meanwhile is named where it took so much


@dataclass(frozen=True)
class LateNode:
    """A node that could have begun earlier.

    earlier_ns: all that it needs had ended for so long, and its lane was free.  lost_ns: how much of that mattered:
    nothing ran at all, or a lane was idle that has work to do for what needs the node.  because: what kept it, as far
    as the record says.  number, name, lane, line, function: of the node, see GraphNode.
    """

    number: int
    name: str
    lane: str
    earlier_ns: int
    lost_ns: int
    because: str
    line: int
    function: str

    shown: ClassVar[tuple[str, ...]] = ("name", "lane", "earlier_ns", "lost_ns", "because", "line", "function")

    @property
    def sentence(self) -> str:
        """What, where, by how much, and why."""
        late = phrase(
            "{node} could have begun {time} earlier than it did",
            node=_name(self.name, self.lane, self.line, self.function),
            time=units.duration(self.earlier_ns),
        )
        return chained("{a}: {b}", (late, self.because))


def _name(name: str, lane: str, line: int, function: str) -> Words:
    """A node in a sentence: "`mm` on line 3 of f (sim)"."""
    if line and function:
        place = {"line": line, "function": function}
        return phrase("`{name}` on line {line} of {function} ({lane})", name=name, lane=lane, **place)
    if function:
        return phrase("`{name}` of {function} ({lane})", name=name, function=function, lane=lane)
    if line:
        return phrase("`{name}` on line {line} ({lane})", name=name, line=line, lane=lane)
    return phrase("`{name}` ({lane})", name=name, lane=lane)


def late_nodes(trace: Trace, graph: Graph) -> Rows[LateNode]:
    """The nodes that lost 5 % of the elapsed time or more by beginning late, those that lost most first."""
    least = max(1, LEAST_SHARE * graph.elapsed_ns)
    late = [node for node in graph.nodes if node.earlier_ns >= least]
    lost = dict(_lost(graph, late)) if late else {}
    late = sorted((node for node in late if lost[node.number] >= least), key=lambda node: -lost[node.number])
    rows = [
        LateNode(
            *(node.number, node.name, node.lane, node.earlier_ns, lost[node.number]),
            *(_because(trace, graph, node), node.line, node.function),
        )
        for node in late
    ]
    return Rows(rows, LateNode)


def _lost(graph: Graph, late: Iterable[GraphNode]) -> Iterable[tuple[int, int]]:
    """Of each node, in ns, how long nothing ran while it waited. If longer: how long a lane was idle that had work to
    do behind it.
    """
    busy = [_busy(graph, lane) for lane in range(len(graph.lanes))]
    anything = union(*(np.concatenate([of_lane[:, side] for of_lane in busy]) for side in (0, 1)))
    after: list[list[int]] = [[] for _ in graph.nodes]
    for number, needed in enumerate(graph.needs):
        for before in needed:
            after[before].append(number)
    for node in late:
        start, end = np.array([node.start_ns - node.earlier_ns]), np.array([node.start_ns])
        lost = node.earlier_ns - int(covered_ns(anything, start, end)[0])
        for lane, work_ns in _work_behind(graph, after, node.number).items():
            idle_ns = node.earlier_ns - int(covered_ns(busy[lane], start, end)[0])
            lost = max(lost, min(idle_ns, work_ns))
        yield node.number, lost


def _busy(graph: Graph, lane: int) -> Intervals:
    nodes = [node for node, on in zip(graph.nodes, graph.lane, strict=True) if on == lane]
    return union(np.array([n.start_ns for n in nodes], np.int64), np.array([n.end_ns for n in nodes], np.int64))


def _work_behind(graph: Graph, after: list[list[int]], node: int) -> dict[int, int]:
    """The time of a node and of all that needs it, directly or not, by lane."""
    work_ns: dict[int, int] = {}
    seen, left = {node}, [node]
    while left:
        number = left.pop()
        work_ns[graph.lane[number]] = work_ns.get(graph.lane[number], 0) + graph.nodes[number].duration_ns
        left += [behind for behind in after[number] if behind not in seen]
        seen |= set(after[number])
    return work_ns


def _because(trace: Trace, graph: Graph, node: GraphNode) -> str:
    """What kept a node: what Python did until it called it, or its stream."""
    ready = node.start_ns - node.earlier_ns
    python_ns = min(node.called_ns, node.start_ns) - ready
    if python_ns < _MOST_OF * node.earlier_ns:
        return _held_by_stream(trace, graph, node, ready) if node.n_ops else ""
    return (
        _in_operator(graph, node, ready, python_ns)
        or _in_wait(trace, node, ready, python_ns)
        or phrase("Python called it no earlier")
    )


def _held_by_stream(trace: Trace, graph: Graph, node: GraphNode, ready_ns: int) -> str:
    """Whether other ops of its stream kept a node that was queued in time."""
    ops, first = trace.ops, graph.placed[node.number].rows[0]
    same = np.flatnonzero((ops.stream == ops.stream[first]) & (ops.device == ops.device[first]))
    busy = union(ops.start_ns[same], ops.end_ns[same])
    held_ns = int(covered_ns(busy, np.array([ready_ns]), np.array([node.start_ns]))[0])
    if held_ns >= _MOST_OF * node.earlier_ns:
        return HELD
    if source := _waited_for(trace, graph, node):
        other = _name(source.name, source.lane, source.line, "")
        return phrase("it was queued in time, and its stream was told to wait for {node}", node=other)
    return phrase("it was queued in time, its stream had nothing to run, and nothing in the record says why")


def _waited_for(trace: Trace, graph: Graph, node: GraphNode) -> GraphNode | None:
    """The node of the op of another stream that a node's first op waited for last, None for none."""
    first = graph.placed[node.number].rows[0]
    pairs, _ = stream_waits(trace, Queues(trace), heads(trace))
    sources = pairs[pairs[:, 0] == first, 1]
    if not len(sources):
        return None
    last = int(sources[trace.ops.end_ns[sources].argmax()])
    return next((graph.nodes[i] for i, placed in enumerate(graph.placed) if last in placed.rows), None)


def _in_operator(graph: Graph, node: GraphNode, ready_ns: int, python_ns: int) -> str:
    """The operator that Python was in for most of the time, "" where there is none."""
    thread = graph.placed[node.number].op.thread
    calls = [
        (placed.op.start_ns, placed.op.end_ns) if placed.op.thread == thread else (0, 0) for placed in graph.placed
    ]
    inside = [min(end, node.called_ns) - max(start, ready_ns) for start, end in calls]
    at = max(range(len(inside)), key=lambda i: inside[i])
    if inside[at] < _MOST_OF * python_ns:
        return ""
    operator = graph.nodes[at]
    function = operator.function if operator.line and operator.function != node.function else ""
    called = _name(operator.name, operator.lane, operator.line, function)
    if operator.n_ops:
        return phrase("Python was waiting in {node}", node=called)
    return phrase("Python was busy with {node}", node=called)


def _in_wait(trace: Trace, node: GraphNode, ready_ns: int, python_ns: int) -> str:
    """The blocking call outside of operators that Python was in for most of the time, "" where there is none."""
    waits = syncs(trace)
    inside = np.minimum(waits.end_ns, node.called_ns) - np.maximum(waits.start_ns, ready_ns)
    if not len(waits) or int(inside.max()) < _MOST_OF * python_ns:
        return ""
    line = int(waits.line[int(inside.argmax())])
    if line:
        return phrase("Python was waiting for the device on line {line}", line=line)
    return phrase("Python was waiting for the device")
