"""The graphs of all ranks as one: a collective moves data once its last rank has come.

Each matched collective or message gets an instant at which it begins on each of its ranks, and one at which the last of
them has begun. From there each rank takes as long as it did. Replayed without a change, that is every rank's record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from perfmagic.analysis.ranks.summary import Ranks
from perfmagic.analysis.replay.critical_path import run_begins_ns
from perfmagic.analysis.replay.graph import Edge, Graph, Links, Node
from perfmagic.analysis.replay.unseen_ranks import not_earlier, with_others
from perfmagic.numerics.longest import NO_NODE, longest, ordered
from perfmagic.trace.columns import NONE, Bool, CallKind, Int8, Int64
from perfmagic.trace.names import op_classes


@dataclass(frozen=True)
class Met:
    """One matched collective, or a message.

    ops: (rank, row of its trace.ops) of each rank.  errs_ns: how far it may be wrong who came when.
    """

    ops: tuple[tuple[int, int], ...]
    errs_ns: int


@dataclass(frozen=True, eq=False)
class JobGraph:
    """The instants of all ranks, one rank after the other, then those at which communication begins and is met.

    Times are on the common axis, in ns. graphs: of each rank, by rank.  base: of each the number of its first instant;
    op_base, call_base: of its first op and call, as `row` counts them.  rank: of each instant its place among the
    ranks, NONE where a collective is met.  begins_ns: of the job, known_from_ns: of each rank's record.  met: the
    collectives and messages; of each op in them begins, ends: the instants at which it begins and ends, and met_of:
    which of them it is; shape (n,).
    """

    ranks: tuple[int, ...]
    graphs: tuple[Graph, ...]
    base: Int64
    op_base: Int64
    call_base: Int64
    first: Links
    second: Links
    node: Int8
    row: Int64
    length_ns: Int64
    rank: Int64
    begins_ns: int
    known_from_ns: Int64
    met: tuple[Met, ...]
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

    @cached_property
    def unexplained_ns(self) -> Int64:
        """Of each op, as `row` counts them."""
        return np.concatenate([graph.unexplained_ns for graph in self.graphs])

    @cached_property
    def syncs(self) -> Bool:
        """Which calls wait, as `row` counts them."""
        found: Bool = np.concatenate([graph.trace.calls.kind == CallKind.SYNC for graph in self.graphs])
        return found

    def classes(self, comm_names: str | None) -> Int8:
        """Of each op, as `row` counts them."""
        return np.concatenate([op_classes(graph.trace, comm_names) for graph in self.graphs])


def meetings_of(ranks: Ranks) -> tuple[Met, ...]:
    """The matched collectives, and the messages where clocks tell who waited for whom."""
    rows = {rank: one.comm["row"] for rank, one in ranks.summaries.items()}
    found = []
    for group in ranks.matching.groups:
        of_rank = [rows[rank][places].tolist() for rank, places in zip(group.ranks, group.places, strict=True)]
        for *ops, errs_ns in zip(*of_rank, group.errs_ns.tolist(), strict=True):
            found.append(Met(tuple(zip(group.ranks, ops, strict=True)), errs_ns))
    if ranks.alignment.comparable:
        by = ranks.alignment.offset_ns
        for pair in ranks.passed:
            sent, got = rows[pair.source][pair.sent_places].tolist(), rows[pair.target][pair.got_places].tolist()
            # a send that was over before the receiver came was kept for it, and waited for nobody
            waited = pair.sent_end_ns + by[pair.source] >= pair.asked_ns + by[pair.target]
            for source, target, both in zip(sent, got, waited.tolist(), strict=True):
                if both:
                    found.append(Met(((pair.source, source), (pair.target, target)), ranks.alignment.bound_ns or 0))
    return tuple(found)


def job_graph(
    graphs: Mapping[int, Graph],
    recorded: Mapping[int, Graph],
    ranks: Ranks,
    met: tuple[Met, ...],
    *,
    others_stay: bool = False,
) -> JobGraph:
    """The graphs of all ranks as one.

    graphs: by rank, maybe changed.  recorded: the same without a change: they tell how long data moved.
    met: as from meetings_of. What a change lets take no time meets nobody.
    others_stay: ranks of which there is no record come no earlier: what is communicated with them ends no earlier.
    """
    if not others_stay:
        return _Builder(graphs, recorded, ranks).graph(met)
    known: dict[int, list[int]] = {rank: [] for rank in graphs}
    for one in met:
        for rank, row in one.ops:
            known[rank].append(row)
    held = {
        rank: not_earlier(graph, np.setdiff1d(with_others(graph.trace), np.array(known[rank], np.int64)))
        for rank, graph in graphs.items()
    }
    return _Builder(held, recorded, ranks, absent=bool(absent(ranks))).graph(met)


def absent(ranks: Ranks) -> int:
    """How many ranks of the job have no record here; 0 where no record says how many there are."""
    worlds = [one.meta.world_size or 0 for one in ranks.summaries.values()]
    return max(0, max(worlds, default=0) - len(ranks.ranks))


_NOTHING = (NO_NODE, 0, int(Edge.ORIGIN))


class _Builder:
    def __init__(
        self, graphs: Mapping[int, Graph], recorded: Mapping[int, Graph], ranks: Ranks, *, absent: bool = False
    ) -> None:
        self.graphs, self.recorded, self.absent = graphs, recorded, absent
        self.numbers = tuple(graphs)
        self.place = {rank: i for i, rank in enumerate(self.numbers)}
        self.offset_ns = ranks.alignment.offset_ns
        each = tuple(graphs.values())
        self.base = _bases([len(graph) for graph in each])
        self.op_base = _bases([len(graph.trace.ops) for graph in each])
        self.call_base = _bases([len(graph.trace.calls) for graph in each])
        self.n = int(self.base[-1])
        self.new: list[tuple[tuple[int, int, int], tuple[int, int, int], int, int, int]] = []  # see _add

    def graph(self, met: tuple[Met, ...]) -> JobGraph:
        each = tuple(self.graphs.values())
        first, second = self._linked("first"), self._linked("second")
        length_ns = np.concatenate([graph.length_ns for graph in each])
        begins, ends, of = [], [], []
        for number, some in enumerate(met):
            begun = list(self._begun(some, first, second))
            if not begun:
                continue
            last = begun[0][1]
            for _, other, *_ in begun[1:]:
                last = self._add((last, 0, Edge.OTHER_RANK), (other, 0, Edge.OTHER_RANK), Node.JOIN, NONE, NONE)
            for end, begin, moves_ns, ended_ns in begun:
                first.node[end], first.lag_ns[end], first.kind[end] = last, moves_ns, Edge.OTHER_RANK
                done = (
                    self._add((NO_NODE, ended_ns, Edge.ORIGIN), _NOTHING, Node.JOIN, NONE, NONE)
                    if self.absent
                    else NO_NODE
                )
                second.node[end], second.lag_ns[end], second.kind[end] = done, 0, Edge.OTHER_RANK
                length_ns[end] = moves_ns
                begins.append(begin)
                ends.append(end)
                of.append(number)
        one, two, *columns = zip(*self.new, strict=True) if self.new else ((), (), (), (), ())
        node, row, rank = (np.array(column, np.int64) for column in columns)
        return JobGraph(
            ranks=self.numbers,
            graphs=each,
            base=self.base,
            op_base=self.op_base,
            call_base=self.call_base,
            first=first.extended(*_columns(one)),
            second=second.extended(*_columns(two)),
            node=np.concatenate([*(graph.node for graph in each), node]).astype(np.int8),
            row=np.concatenate([*(self._rows(i, graph) for i, graph in enumerate(each)), row]),
            length_ns=np.concatenate([length_ns, np.zeros(len(node), np.int64)]),
            rank=np.concatenate([np.repeat(np.arange(len(each)), np.diff(self.base)), rank]),
            begins_ns=min(run_begins_ns(graph) + self.offset_ns[rank] for rank, graph in self.recorded.items()),
            known_from_ns=np.array([self._known_from_ns(rank) for rank in self.numbers], np.int64),
            met=met,
            begins=np.array(begins, np.int64),
            ends=np.array(ends, np.int64),
            met_of=np.array(of, np.int64),
        )

    def _known_from_ns(self, rank: int) -> int:
        """When a rank's record begins: with the cell, of a file with the first thing in it."""
        trace = self.recorded[rank].trace
        first = [int(some.start_ns.min()) for some in (trace.host_ops, trace.calls, trace.ops) if len(some)]
        of_cell = trace.meta.returned_ns is not None or not first
        return (trace.meta.start_ns if of_cell else min(first)) + self.offset_ns[rank]

    def _begun(self, some: Met, first: Links, second: Links) -> Iterator[tuple[int, int, int, int]]:
        """Of each op of a collective its end, a new instant at which it begins, how long it moves data, and when it
        ended.
        """
        met_ns = max(int(self.recorded[rank].trace.ops.start_ns[row]) + self.offset_ns[rank] for rank, row in some.ops)
        for rank, row in some.ops:
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

    def _add(self, one: tuple[int, int, int], two: tuple[int, int, int], node: Node, row: int, rank: int) -> int:
        """A new instant: its predecessors with lag (ns) and Edge, what it is, its row and rank; gives its number."""
        self.new.append((one, two, node, row, rank))
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
