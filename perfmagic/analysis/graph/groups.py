"""Groups of nodes where there are too many to draw: by the lines that called them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from perfmagic.analysis.graph.graph import Graph

FEWEST_GROUPS = 8  # fewer lines show nothing of so many operators
MIXED = "stretch of several lanes"


@dataclass(frozen=True)
class Grouped:
    """Groups of nodes. No two need each other.  by: what one is, in words.  name: that of a group."""

    groups: list[list[int]]
    by: str
    name: Callable[[list[int]], str]


def grouped(graph: Graph, most: int) -> Grouped:
    """The finest groups of which there are at most so many.

    By the innermost line that called them, by the line of the cell, by its statement, a loop being one; or several
    statements together. Where a line or two do it all, a few operators that follow each other. A group lies in one
    lane, unless data goes to and fro so often that this gives too many: then groups are stretches of time.
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
        found = Grouped(_by_lane(graph, visits, most), by, name)
        if len(found.groups) < FEWEST_GROUPS:
            found = Grouped(_few_operators(graph, visits, most), "few operators", code.operators)
        if len(found.groups) <= most:
            return found
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


def _runs(keys: Sequence[object]) -> list[int]:
    """For each key the number of the run of equal keys that it is in."""
    return [number for number, (_, run) in enumerate(groupby(keys)) for _ in run]


def _several(graph: Graph, visits: Sequence[int], most: int) -> list[list[int]]:
    """As few neighbouring visits in one group as give so many groups; too many where no number of them does."""
    n_visits = visits[-1] + 1
    return _finest(
        lambda at_once: _by_lane(graph, [number // at_once for number in visits], most),
        max(2, -(-n_visits // most)),
        n_visits,
        most,
    )


def _few_operators(graph: Graph, visits: Sequence[int], most: int) -> list[list[int]]:
    """As few neighbouring operators of one visit in one group as give so many groups."""
    first: dict[int, int] = {}
    inside = [i - first.setdefault(number, i) for i, number in enumerate(visits)]

    def of_size(at_once: int) -> list[list[int]]:
        keys = [(number, i // at_once) for number, i in zip(visits, inside, strict=True)]
        return _by_lane(graph, _runs(keys), most)

    return _finest(of_size, max(2, -(-len(visits) // most)), len(visits), most)


def _finest(of_size: Callable[[int], list[list[int]]], smallest: int, largest: int, most: int) -> list[list[int]]:
    """The groups of about the smallest size, to an eighth, that gives at most so many; those of the largest if none.

    Larger groups are fewer, but for rare exceptions, which cost fineness alone. So the logarithm of the size is
    bisected: each try reads all nodes.
    """
    found = of_size(smallest)
    if len(found) <= most:
        return found
    too_small, enough = smallest, max(largest, smallest + 1)
    found = of_size(enough)
    while len(found) <= most and enough > too_small + 1 + too_small // 8:
        size = math.isqrt(too_small * enough)
        size = min(max(size, too_small + 1), enough - 1)
        groups = of_size(size)
        if len(groups) <= most:
            found, enough = groups, size
        else:
            too_small = size
    return found


def _by_lane(graph: Graph, visits: Sequence[int], most: int) -> list[list[int]]:
    """Nodes of one visit and lane together, as far as no two groups then need each other.

    Visits follow each other, so only groups of one visit could. Of more than `most` groups it gives the first ones, one
    too many: nobody draws them, and data that goes to and fro would make as many as there are nodes.
    """
    groups: list[list[int]] = []
    where: dict[int, int] = {}
    visit, of_lane = -1, dict[int, int]()
    below = dict[int, set[int]]()  # of the groups of this visit: which of them each needs, directly or not
    for node, number in enumerate(visits):
        if number != visit:
            visit, of_lane, below = number, {}, {}
        needed = {where[one] for one in graph.needs[node]} & below.keys()
        mine = of_lane.get(graph.lane[node])
        if mine is None or any(mine in below[one] for one in needed - {mine}):
            if len(groups) > most:
                break
            mine = of_lane[graph.lane[node]] = len(groups)
            groups.append([])
            below[mine] = set()
        for one in needed - {mine}:
            below[mine] |= {one} | below[one]
        for theirs in below.values():
            if mine in theirs:
                theirs.update(below[mine])
        groups[mine].append(node)
        where[node] = mine
    return groups
