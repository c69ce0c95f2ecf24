"""The table of a graph's needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perfmagic.analysis.graph.graph import Graph
from perfmagic.analysis.rows import Rows


@dataclass(frozen=True)
class GraphEdge:
    """One need: the node `of` cannot begin before `needs` has ended; both are numbers of nodes.

    kind: "data" where it reads what that one wrote, "memory" where it overwrites what that one reads or wrote.
    size_bytes: of the piece of memory, at most.
    """

    needs: int
    of: int
    kind: str
    size_bytes: int
    needs_name: str
    of_name: str

    shown: ClassVar[tuple[str, ...]] = ("needs", "needs_name", "of", "of_name", "kind", "size_bytes")


def edges(graph: Graph) -> Rows[GraphEdge]:
    """Every need of every node."""
    names = [node.name for node in graph.nodes]
    found = [
        GraphEdge(before, of, need.kind, need.size_bytes, names[before], names[of])
        for of, mine in enumerate(graph.needs)
        for before, need in sorted(mine.items())
    ]
    return Rows(found, GraphEdge)
