"""Groups of nodes where there are too many to draw: by the lines that called them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np

from perfmagic.analysis.graph.graph import Graph
from perfmagic.base.numerics.intervals import Intervals, merge, overlap_ns, total_ns, union
from perfmagic.trace.columns import Int64
from perfmagic.trace.names import OpClass

FEWEST_GROUPS = 8  # fewer lines show too little of many operators
MIXED = "stretch of several lanes"


@dataclass(frozen=True)
class Grouped:
    """Groups of nodes. No two need each other.  by: what one is, in words.  name: that of a group."""

    groups: list[list[int]]
    by: str
    name: Callable[[list[int]], str]


def grouped(graph: Graph, most: int) -> Grouped:
    """The finest groups of which there are at most `most`.

    By the innermost line that called them, by the line of the cell, by its statement, a loop being one; or several
    statements together. Where a line or two do it all, a few operators that follow each other. A group lies in one
    lane, unless data goes back and forth so often that this gives too many: then groups are stretches of time.
    """
    code = _Code(graph)
    n = range(len(graph.nodes))
    levels: list[tuple[str, Callable[[int], object], Callable[[list[int]], str]]] = [
        ("line", code.place, code.innermost),
        ("line of the cell", code.cell_line, code.of_cell),
        ("statement of the cell", code.top, code.of_statement),
    ]
    for by, key, name in levels:
        visits = _runs([key(i) for i in n])
        candidate = Grouped(_by_lane(graph, visits, most), by, name)
        if len(candidate.groups) < FEWEST_GROUPS:
            candidate = Grouped(_few_operators(graph, visits, most), "few operators", code.operators)
        if len(candidate.groups) <= most:
            return candidate
    groups = _several(graph, _runs([code.top(i) for i in n]), most)
    if len(groups) <= most:
        return Grouped(groups, "stretch of lines", code.stretch)
    size = -(-len(n) // most)
    return Grouped([list(n[at : at + size]) for at in range(0, len(n), size)], MIXED, code.stretch)


class _Code:
    """What nodes are grouped by, and what their groups are called."""

    def __init__(self, graph: Graph) -> None:
        self._nodes, self._placed = graph.nodes, graph.placed

    def place(self, i: int) -> tuple[str, int]:
        return self._nodes[i].function, self._nodes[i].line

    def cell_line(self, i: int) -> int:
        return self._placed[i].cell_line

    def top(self, i: int) -> int:
        return self._placed[i].top_line

    def innermost(self, group: list[int]) -> str:
        function, line = self.place(group[0])
        return f"{function.rpartition('.')[2]} {line}" if function else _line(line)

    def of_cell(self, group: list[int]) -> str:
        return _line(self.cell_line(group[0]))

    def of_statement(self, group: list[int]) -> str:
        return _line(self.top(group[0]))

    def operators(self, group: list[int]) -> str:
        """The name of the first, and "…" where there are others."""
        names = {self._nodes[i].name for i in group}
        return self._nodes[group[0]].name + (" …" if len(names) > 1 else "")

    def stretch(self, group: list[int]) -> str:
        first, last = min(map(self.top, group)), max(map(self.top, group))
        return f"lines {first}–{last}" if first != last else _line(first)


def _line(number: int) -> str:
    return f"line {number}" if number else "no line"


def _runs(keys: Sequence[object]) -> Int64:
    """For each key the number of the run of equal keys that it is in."""
    return np.array([number for number, (_, run) in enumerate(groupby(keys)) for _ in run], np.int64)


def _several(graph: Graph, visits: Int64, most: int) -> list[list[int]]:
    """Groups of as few neighbouring visits as give at most `most` groups; more groups where no number does."""
    n_visits = int(visits[-1]) + 1
    return _finest(
        lambda at_once: _by_lane(graph, visits // at_once, most),
        max(2, -(-n_visits // most)),
        n_visits,
        most,
    )


def _few_operators(graph: Graph, visits: Int64, most: int) -> list[list[int]]:
    """Groups of as few neighbouring operators of one visit as give at most `most` groups."""
    inside = np.arange(len(visits)) - np.searchsorted(visits, visits)

    def of_size(at_once: int) -> list[list[int]]:
        return _by_lane(graph, visits * len(inside) + inside // at_once, most)

    return _finest(of_size, max(2, -(-len(visits) // most)), len(visits), most)


def _finest(of_size: Callable[[int], list[list[int]]], smallest: int, largest: int, most: int) -> list[list[int]]:
    """The groups of about the smallest size, to an eighth, that gives at most `most`; else those of the largest size.

    Larger groups are fewer, with rare exceptions, which cost fineness alone. Each try reads all nodes, so the logarithm
    of the size is bisected.
    """
    best = of_size(smallest)
    if len(best) <= most:
        return best
    too_small, enough = smallest, max(largest, smallest + 1)
    best = of_size(enough)
    while len(best) <= most and enough > too_small + 1 + too_small // 8:
        size = math.isqrt(too_small * enough)
        size = min(max(size, too_small + 1), enough - 1)
        groups = of_size(size)
        if len(groups) <= most:
            best, enough = groups, size
        else:
            too_small = size
    return best


def _by_lane(graph: Graph, visits: Int64, most: int) -> list[list[int]]:
    """Nodes of one visit and lane together, as far as no two groups then need each other.

    Visits follow each other, so only groups of one visit could. It stops after `most` + 1 groups, which are not drawn:
    data that goes back and forth would make as many groups as nodes.
    """
    if len(graph.lanes) == 1:
        edges = [0, *(np.flatnonzero(np.diff(visits)) + 1).tolist(), len(visits)]
        return [list(range(*edge)) for edge in pairwise(edges[: most + 2])]
    lanes, needs = graph.lane, graph.needs
    groups: list[list[int]] = []
    where: dict[int, int] = {}
    visit, first, of_lane = -1, 0, dict[int, int]()
    below = dict[int, set[int]]()  # of the groups of this visit: which of them each needs, directly or not
    for node, number in enumerate(visits.tolist()):
        if number != visit:
            visit, first, of_lane, below = number, node, {}, {}
        group = of_lane.get(lanes[node])
        needed = {where[before] for before in needs[node] if before >= first}
        if needed <= {group} and group is not None:
            groups[group].append(node)  # nothing new, as for most nodes
            where[node] = group
            continue
        if group is None or any(group in below[other] for other in needed - {group}):
            if len(groups) > most:
                break
            group = of_lane[lanes[node]] = len(groups)
            groups.append([])
            below[group] = set()
        for other in needed - {group}:
            below[group] |= {other} | below[other]
        for others in below.values():
            if group in others:
                others.update(below[group])
        groups[group].append(node)
        where[node] = group
    return groups


# What a picture of a graph draws: its nodes, or groups of them where there are too many.

MOST_UNITS = 60  # that a reader can follow
AT_ONCE_SHARE, APART_SHARE = 0.5, 0.05  # of the shorter one's time: more ran at once, less ran one after the other
IDLE_SHARE = 0.5  # of one op's time in which the lane of the other was idle
LEAST_SHARE = 0.01  # of the elapsed time: shorter boxes are not compared
LEAST_LANE_SHARE = 0.10  # of the elapsed time: nor are those of lanes that worked less


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
        """Whether a box is compared with others: it and its lane worked long enough."""
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
    """The boxes: single operators, or the finest groups where there are more than `most` operators."""
    if len(graph.nodes) <= most:
        groups: list[list[int]] = [[node.number] for node in graph.nodes]
        return _drawn(graph, groups, "operator", lambda group: graph.nodes[group[0]].name)
    groups_of_lines = grouped(graph, most)
    return _in_order(_drawn(graph, groups_of_lines.groups, groups_of_lines.by, groups_of_lines.name))


def _drawn(graph: Graph, groups: list[list[int]], by: str, name: Callable[[list[int]], str]) -> Drawn:
    where = {node: at for at, group in enumerate(groups) for node in group}
    on_chain = set(graph.chain)
    start_ns, end_ns, duration_ns = (
        np.array([getattr(node, name) for node in graph.nodes], np.int64)
        for name in ("start_ns", "end_ns", "duration_ns")
    )
    units = []
    for at, group in enumerate(groups):
        rows = np.array(group)
        longest = group[int(duration_ns[rows].argmax())]
        units.append(
            Unit(
                name=name(group),
                lane=graph.lane[longest],
                colour=graph.placed[longest].colour,
                duration_ns=int(duration_ns[rows].sum()),
                busy=union(start_ns[rows], end_ns[rows]),
                nodes=tuple(group),
                needs=frozenset(where[before] for i in group for before in graph.needs[i]) - {at},
                longest=not on_chain.isdisjoint(group),
            )
        )
    pairs = frozenset((where[a], where[b]) for a, b in pairwise(graph.chain) if where[a] != where[b])
    return Drawn(tuple(units), by, pairs, graph.elapsed_ns)


def _in_order(drawn: Drawn) -> Drawn:
    """Every box after what it needs: a group of a line begins before all that it needs has."""
    order: list[int] = []
    while len(order) < len(drawn.units):
        done = set(order)
        ready = [i for i, unit in enumerate(drawn.units) if i not in done and unit.needs <= done]
        if not ready:
            raise ValueError("two groups need each other")
        order += ready
    new = {old: at for at, old in enumerate(order)}
    units = [
        replace(drawn.units[old], needs=frozenset(new[before] for before in drawn.units[old].needs)) for old in order
    ]
    return replace(drawn, units=tuple(units), chain=frozenset((new[a], new[b]) for a, b in drawn.chain))
