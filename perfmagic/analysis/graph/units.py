"""What a picture of a graph draws: its nodes, or groups of them where there are too many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from perfmagic.analysis.graph.graph import Graph
from perfmagic.analysis.graph.groups import MIXED, grouped
from perfmagic.numerics.intervals import Intervals, merge, overlap_ns, total_ns, union
from perfmagic.trace.names import OpClass

MOST_UNITS = 60  # that a reader can follow
AT_ONCE_SHARE, APART_SHARE = 0.5, 0.05  # of the shorter one's time: more ran at once, less ran one after the other
IDLE_SHARE = 0.5  # of one's time: the lane of the other had nothing to do for so long
LEAST_SHARE = 0.01  # of the elapsed time: of shorter ones it is not told
LEAST_LANE_SHARE = 0.10  # of the elapsed time: nor of lanes that worked less


@dataclass(frozen=True, eq=False)
class Unit:
    """A box of the picture.  nodes: it stands for.  needs: boxes before it.  busy: when its nodes ran."""

    name: str
    lane: int
    colour: OpClass | None
    duration_ns: int
    busy: Intervals
    nodes: tuple[int, ...]
    needs: frozenset[int]
    longest: bool


@dataclass(frozen=True, eq=False)
class Drawn:
    """The boxes of a picture in an order in which each comes after what it needs.

    by: what one box is: "operator", or what they are grouped by.  chain: pairs of boxes that follow each other on the
    longest chain.
    """

    units: tuple[Unit, ...]
    by: str
    chain: frozenset[tuple[int, int]]
    elapsed_ns: int

    def matters(self, unit: Unit) -> bool:
        """Whether what ran beside it is worth telling: it and its lane worked long enough."""
        if self.by == MIXED or total_ns(unit.busy) < max(1, LEAST_SHARE * self.elapsed_ns):
            return False
        return total_ns(self._busy[unit.lane]) >= LEAST_LANE_SHARE * self.elapsed_ns

    def side_by_side(self, a: Unit, b: Unit) -> bool | None:
        """Of two boxes in different lanes that do not need each other, whether they ran at once.

        False where they ran one after the other, and meanwhile the lane of one had nothing to do. None for neither.
        """
        share = overlap_ns(a.busy, b.busy) / max(1, min(total_ns(a.busy), total_ns(b.busy)))
        if share >= AT_ONCE_SHARE:
            return True
        idle = max(self._idle_share(a, b.lane), self._idle_share(b, a.lane))
        return False if share < APART_SHARE and idle >= IDLE_SHARE else None

    def _idle_share(self, unit: Unit, lane: int) -> float:
        """For how much of its time another lane had nothing to do."""
        return 1 - overlap_ns(unit.busy, self._busy[lane]) / max(1, total_ns(unit.busy))

    @cached_property
    def _busy(self) -> dict[int, Intervals]:
        """When each lane worked."""
        lanes = {unit.lane for unit in self.units}
        return {lane: merge(*(unit.busy for unit in self.units if unit.lane == lane)) for lane in lanes}


def drawn(graph: Graph, most: int = MOST_UNITS) -> Drawn:
    """The boxes: single operators where there are at most so many, else the finest groups of which there are."""
    if len(graph.nodes) <= most:
        groups: list[list[int]] = [[node.number] for node in graph.nodes]
        return _drawn(graph, groups, "operator", lambda group: graph.nodes[group[0]].name)
    found = grouped(graph, most)
    return _in_order(_drawn(graph, found.groups, found.by, found.name))


def _drawn(graph: Graph, groups: list[list[int]], by: str, name: Callable[[list[int]], str]) -> Drawn:
    where = {node: at for at, group in enumerate(groups) for node in group}
    on_chain = set(graph.chain)
    units = []
    for at, group in enumerate(groups):
        nodes = [graph.nodes[i] for i in group]
        longest = max(group, key=lambda i: graph.nodes[i].duration_ns)
        units.append(
            Unit(
                name=name(group),
                lane=graph.lane[longest],
                colour=graph.placed[longest].colour,
                duration_ns=sum(node.duration_ns for node in nodes),
                busy=union(np.array([n.start_ns for n in nodes]), np.array([n.end_ns for n in nodes])),
                nodes=tuple(group),
                needs=frozenset(where[one] for i in group for one in graph.needs[i]) - {at},
                longest=any(i in on_chain for i in group),
            )
        )
    pairs = frozenset((where[a], where[b]) for a, b in pairwise(graph.chain) if where[a] != where[b])
    return Drawn(tuple(units), by, pairs, graph.elapsed_ns)


def _in_order(found: Drawn) -> Drawn:
    """Every box after what it needs: a group of a line begins before all that it needs has."""
    order: list[int] = []
    while len(order) < len(found.units):
        done = set(order)
        ready = [i for i, unit in enumerate(found.units) if i not in done and unit.needs <= done]
        if not ready:
            raise ValueError("two groups need each other")
        order += ready
    new = {old: at for at, old in enumerate(order)}
    units = [replace(found.units[old], needs=frozenset(new[one] for one in found.units[old].needs)) for old in order]
    return replace(found, units=tuple(units), chain=frozenset((new[a], new[b]) for a, b in found.chain))
