"""What could have run side by side, and what did: the numbers of a graph of needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfmagic.analysis.graph.needs import Needs, needs_of, without_implied
from perfmagic.analysis.graph.nodes import AS_PEOPLE_SAY, GraphNode, Placed, place_of, placed_nodes
from perfmagic.analysis.graph.schedule import earlier_by, longest_chain, schedule
from perfmagic.trace.model import Trace
from perfmagic.trace.needs import SeenOp


@dataclass(frozen=True, eq=False)
class Graph:
    """The operators of a record and what each needs.

    nodes: in order of their calls.  needs: of each node the nodes before it.  placed: what the nodes were made from.
    lanes: in the order of pictures.  lane: of each node, row of lanes.
    work_ns: the time of all nodes.  span_ns: of the longest chain of needs, `chain`.  elapsed_ns: from the first start
    to the last end.  possible_ns: as long it takes where needs alone are waited for, one op at a time in each lane;
    planned_ns: when each node begins then, from 0.  n_unseen: device ops that no operator launched.
    Source: docs/words.md, "work", "span", "lane".
    """

    nodes: tuple[GraphNode, ...]
    needs: Needs
    placed: tuple[Placed, ...]
    lanes: tuple[str, ...]
    lane: tuple[int, ...]
    work_ns: int
    span_ns: int
    chain: tuple[int, ...]
    elapsed_ns: int
    possible_ns: int
    planned_ns: tuple[int, ...]
    n_unseen: int

    @property
    def start_ns(self) -> int:
        """When the first node began."""
        return min(node.start_ns for node in self.nodes)


def graph_of(trace: Trace, seen: Sequence[SeenOp]) -> Graph:
    """The graph of a recording. What was executed is one possible order: possible_ns is never more than elapsed_ns."""
    found = placed_nodes(trace, seen)
    placed = found.nodes
    needs = without_implied(needs_of([node.op for node in placed]))
    lanes = sorted({node.lane for node in placed}, key=_rank)
    lane = [lanes.index(node.lane) for node in placed]
    duration = [node.duration_ns for node in placed]
    start, end = [node.start_ns for node in placed], [node.end_ns for node in placed]
    span, chain = longest_chain(needs, duration)
    planned, possible = schedule(needs, duration, lane)
    elapsed = max(end, default=0) - min(start, default=0)
    if possible > elapsed:
        planned, possible = [one - min(start) for one in start], elapsed
    earlier = earlier_by(needs, start, end, lane)
    on_chain = set(chain)
    nodes = [
        replace(_node(trace, i, node), earlier_ns=earlier[i], longest=i in on_chain) for i, node in enumerate(placed)
    ]
    return Graph(
        nodes=tuple(nodes),
        needs=needs,
        placed=placed,
        lanes=tuple(lanes),
        lane=tuple(lane),
        work_ns=sum(duration),
        span_ns=span,
        chain=tuple(chain),
        elapsed_ns=elapsed,
        possible_ns=possible,
        planned_ns=tuple(planned),
        n_unseen=found.n_unseen,
    )


def _node(trace: Trace, number: int, node: Placed) -> GraphNode:
    op = node.op
    line, function = place_of(trace, node)
    return GraphNode(
        number=number,
        name=AS_PEOPLE_SAY.get(op.name, op.name.lstrip("_")),
        operator=op.name,
        lane=node.lane,
        duration_ns=node.duration_ns,
        start_ns=node.start_ns,
        end_ns=node.end_ns,
        called_ns=op.start_ns,
        n_ops=len(node.rows),
        shape=op.shape,
        line=line,
        function=function,
    )


def _rank(lane: str) -> tuple[bool, str, int, str]:
    """The host first, then each device: copies to it, its own ops, copies from it."""
    ends = lane.partition(",")[0].split(" → ")
    device = next((end for end in ends if end != "cpu"), "")
    way = 1 if len(ends) == 1 else 0 if ends[0] == "cpu" else 2
    return device != "", device, way, lane
