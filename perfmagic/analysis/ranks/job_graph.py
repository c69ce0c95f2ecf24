"""The graphs of all ranks as one: a collective moves data once its last rank has come.

Each matched collective or message gets an instant at which it begins on each of its ranks, and one at which the last of
them has begun. From there each rank takes as long as it did. Replayed without a change, that is every rank's record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmagic.analysis.replay.graph import Edge, Graph, Links, Node
from perfmagic.base.numerics.longest import NO_NODE, longest, ordered
from perfmagic.trace.columns import NONE, Int8, Int64
from perfmagic.trace.model import Trace


@dataclass(frozen=True)
class Rendezvous:
    """One matched collective, or a message.

    ops: (rank, row of its trace.ops) of each rank.  errs_ns: the error of the ranks' arrivals.
    """

    ops: tuple[tuple[int, int], ...]
    errs_ns: int


@dataclass(frozen=True, eq=False)
class JobGraph:
    """The instants of all ranks, one rank after the other, then those at which communication begins and is met.

    Times are on the common axis, in ns. ranks: their numbers.  traces: of each rank.  base: of each rank the number of
    its first instant.  row: counts the ops, or calls, of one rank after the other.  rank: of each instant its place
    among the ranks, NONE where a collective is met.  begins_ns: of the job.  known_from_ns: of each rank's record.
    met: the collectives and messages. Of each op in them, shape (n,): begins, ends: its instants; met_of: its row of
    met.
    """

    ranks: tuple[int, ...]
    traces: tuple[Trace, ...]
    base: Int64
    first: Links
    second: Links
    node: Int8
    row: Int64
    length_ns: Int64
    unexplained_ns: Int64
    rank: Int64
    begins_ns: int
    known_from_ns: Int64
    met: tuple[Rendezvous, ...]
    begins: Int64
    ends: Int64
    met_of: Int64

    def with_links(self, first: Links, second: Links) -> JobGraph:
        """The same instants with other lags."""
        return replace(self, first=first, second=second)

    def replayed_ns(self) -> Int64:
        """When each instant is reached. Raises ValueError where ranks wait for each other in a circle."""
        first, second = self.first, self.second
        order = ordered(first.node, second.node)
        return longest(order, first.node, first.lag_ns, second.node, second.lag_ns)


def job_graph(
    graphs: Mapping[int, Graph],
    recorded: Mapping[int, Graph],
    offset_ns: Mapping[int, int],
    met: tuple[Rendezvous, ...],
    *,
    ends_stay: bool = False,
) -> JobGraph:
    """The graphs of all ranks as one.

    graphs: by rank, maybe changed.  recorded: the same without a change: they tell how long data moved.
    offset_ns: by rank, to the common axis.  met: collectives and messages. An op without time waits for no rank.
    ends_stay: no collective ends before it did, as where some of its ranks have no record.
    """
    return _Builder(graphs, recorded, offset_ns, ends_stay=ends_stay).graph(met)


_NOTHING = (NO_NODE, 0, int(Edge.ORIGIN))


class _Builder:
    def __init__(
        self,
        graphs: Mapping[int, Graph],
        recorded: Mapping[int, Graph],
        offset_ns: Mapping[int, int],
        *,
        ends_stay: bool,
    ) -> None:
        self.graphs, self.recorded, self.ends_stay = graphs, recorded, ends_stay
        self.numbers = tuple(graphs)
        self.place = {rank: i for i, rank in enumerate(self.numbers)}
        self.offset_ns = offset_ns
        each = tuple(graphs.values())
        self.base = _bases([len(graph) for graph in each])
        self.op_base = _bases([len(graph.trace.ops) for graph in each])
        self.call_base = _bases([len(graph.trace.calls) for graph in each])
        self.n = int(self.base[-1])
        self.new: list[tuple[tuple[int, int, int], tuple[int, int, int], int, int, int]] = []  # see _add

    def graph(self, met: tuple[Rendezvous, ...]) -> JobGraph:
        each = tuple(self.graphs.values())
        first, second = self._linked("first"), self._linked("second")
        length_ns = np.concatenate([graph.length_ns for graph in each])
        begins, ends, met_of = [], [], []
        for number, rendezvous in enumerate(met):
            begun = list(self._begun(rendezvous, first, second))
            if not begun:
                continue
            last = begun[0][1]
            for _, other, *_ in begun[1:]:
                last = self._add((last, 0, Edge.OTHER_RANK), (other, 0, Edge.OTHER_RANK), Node.JOIN, NONE, NONE)
            for end, begin, moves_ns, ended_ns in begun:
                first.node[end], first.lag_ns[end], first.kind[end] = last, moves_ns, Edge.OTHER_RANK
                done = (
                    self._add((NO_NODE, ended_ns, Edge.ORIGIN), _NOTHING, Node.JOIN, NONE, NONE)
                    if self.ends_stay
                    else NO_NODE
                )
                second.node[end], second.lag_ns[end], second.kind[end] = done, 0, Edge.OTHER_RANK
                length_ns[end] = moves_ns
                begins.append(begin)
                ends.append(end)
                met_of.append(number)
        new_first, new_second, *columns = zip(*self.new, strict=True) if self.new else ((), (), (), (), ())
        node, row, rank = (np.array(column, np.int64) for column in columns)
        return JobGraph(
            ranks=self.numbers,
            traces=tuple(graph.trace for graph in each),
            base=self.base,
            first=first.extended(*_columns(new_first)),
            second=second.extended(*_columns(new_second)),
            node=np.concatenate([*(graph.node for graph in each), node]).astype(np.int8),
            row=np.concatenate([*(self._rows(i, graph) for i, graph in enumerate(each)), row]),
            length_ns=np.concatenate([length_ns, np.zeros(len(node), np.int64)]),
            unexplained_ns=np.concatenate([graph.unexplained_ns for graph in each]),
            rank=np.concatenate([np.repeat(np.arange(len(each)), np.diff(self.base)), rank]),
            begins_ns=min(graph.begins_ns + self.offset_ns[rank] for rank, graph in self.recorded.items()),
            known_from_ns=np.array([self._known_from_ns(rank) for rank in self.numbers], np.int64),
            met=met,
            begins=np.array(begins, np.int64),
            ends=np.array(ends, np.int64),
            met_of=np.array(met_of, np.int64),
        )

    def _known_from_ns(self, rank: int) -> int:
        """When a rank's record begins: with the cell, of a file with the first thing in it."""
        trace = self.recorded[rank].trace
        starts_ns = [int(table.start_ns.min()) for table in (trace.host_ops, trace.calls, trace.ops) if len(table)]
        of_cell = trace.meta.returned_ns is not None or not starts_ns
        return (trace.meta.start_ns if of_cell else min(starts_ns)) + self.offset_ns[rank]

    def _begun(self, rendezvous: Rendezvous, first: Links, second: Links) -> Iterator[tuple[int, int, int, int]]:
        """Of each op its end, a new instant at which it begins, how long it moves data, and when it ended (ns)."""
        met_ns = max(
            int(self.recorded[rank].trace.ops.start_ns[row]) + self.offset_ns[rank] for rank, row in rendezvous.ops
        )
        for rank, row in rendezvous.ops:
            graph, ops, i = self.graphs[rank], self.recorded[rank].trace.ops, self.place[rank]
            end = int(self.base[i] + graph.op_node[row])
            length_ns, was_ns = int(graph.length_ns[graph.op_node[row]]), int(ops.end_ns[row] - ops.start_ns[row])
            if was_ns and not length_ns:
                continue
            parts = [(int(x.node[end]), int(x.lag_ns[end]) - length_ns, int(x.kind[end])) for x in (first, second)]
            begin = self._add(parts[0], parts[1], Node.OP_END, int(self.op_base[i]) + row, i)
            ended_ns = int(ops.end_ns[row]) + self.offset_ns[rank]
            moves_ns = ended_ns - met_ns
            yield end, begin, moves_ns if length_ns == was_ns else moves_ns * length_ns // was_ns, ended_ns

    def _add(self, first: tuple[int, int, int], second: tuple[int, int, int], node: Node, row: int, rank: int) -> int:
        """Add an instant: predecessors with lag (ns) and Edge, what it is, its row and rank. Returns its number."""
        self.new.append((first, second, node, row, rank))
        return self.n + len(self.new) - 1

    def _linked(self, side: str) -> Links:
        """The predecessors of all ranks' instants, by their new numbers; what has none has its time on the axis."""
        nodes, lags, kinds = [], [], []
        for i, (rank, graph) in enumerate(self.graphs.items()):
            links: Links = getattr(graph, side)
            alone = (graph.first.node == NO_NODE) & (graph.second.node == NO_NODE)
            by = self.offset_ns[rank] if side == "first" else 0
            nodes.append(np.where(links.node == NO_NODE, NO_NODE, links.node + self.base[i]))
            lags.append(links.lag_ns + np.where(alone, by, 0))
            kinds.append(links.kind)
        return Links(np.concatenate(nodes), np.concatenate(lags), np.concatenate(kinds))

    def _rows(self, i: int, graph: Graph) -> Int64:
        by = np.where(graph.node == Node.OP_END, self.op_base[i], self.call_base[i])
        return np.where(graph.row == NO_NODE, NO_NODE, graph.row + by)


def _bases(lengths: Sequence[int]) -> Int64:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _columns(parts: Sequence[tuple[int, int, int]]) -> tuple[Int64, Int64, Int8]:
    node, lag_ns, kind = np.array(parts, np.int64).reshape(-1, 3).T
    return node, lag_ns, kind.astype(np.int8)
