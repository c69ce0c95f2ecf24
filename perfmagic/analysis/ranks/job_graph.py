"""A job as one graph: the instants of all ranks, where communication continues once its last rank has arrived.

There are two forms. TracedJob has all instants of the ranks' traces, so that any change can be replayed.
replayed_job.ReplayedJob has those where the ranks' summaries meet, so that it handles a thousand ranks. Replayed
without a change, both reproduce the record. A change sets other lags.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from perfmagic.analysis.replay.graph import Edge, Graph, Links, Node
from perfmagic.base.numerics.longest import NEVER, NO_NODE
from perfmagic.base.numerics.net import Net
from perfmagic.trace.columns import NONE, Bool, Int8, Int64
from perfmagic.trace.model import Trace, once_per_trace

if TYPE_CHECKING:
    from perfmagic.analysis.ranks.ranks import Ranks

Job = TypeVar("Job", bound="JobGraph")


@dataclass(frozen=True, eq=False)
class JobGraph:
    """Instants of all ranks and what each waits for; times on the common axis, in ns.

    net: what waits for what, and the instants where several ranks meet; these have no other predecessors.
    """

    first: Links
    second: Links
    net: Net

    def with_links(self: Job, first: Links, second: Links) -> Job:
        """The same instants with other lags."""
        return replace(self, first=first, second=second)

    def replayed_ns(self) -> Int64:
        """When each instant is reached."""
        return self.net.reached(self.first.lag_ns, self.second.lag_ns)

    def held_by(self, times_ns: Int64) -> tuple[Int64, Bool]:
        """The predecessor that determined each instant, NO_NODE for none, and whether by the second link."""
        return self.net.held_by(times_ns, self.first.lag_ns, self.second.lag_ns)


# Which ops of different ranks meet.


@dataclass(frozen=True, eq=False)
class Meetings:
    """The matched collectives and messages of a job, and the unmatched ones; times in ns on the common axis.

    op_base: of each rank the number of its first op; ops are its communication.  Of each op: op_rank, row (of its
    trace.ops), start_ns, end_ns, meeting (that it ends with).  arrivals: (meeting, op), by meeting.  alike: a number
    shared by meetings of the same kind and size, NONE for unmatched ones.  kinds: by that number.  met_ns: when the
    last op of each meeting had begun.
    """

    op_base: Int64
    op_rank: Int64
    row: Int64
    start_ns: Int64
    end_ns: Int64
    meeting: Int64
    arrivals: Int64
    alike: Int64
    kinds: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.alike)

    @cached_property
    def met_ns(self) -> Int64:
        met = np.full(len(self), NEVER, np.int64)
        np.maximum.at(met, self.arrivals[:, 0], self.start_ns[self.arrivals[:, 1]])
        return met

    @cached_property
    def matched(self) -> Int64:
        """The matched arrivals."""
        matched: Int64 = self.arrivals[self.alike[self.arrivals[:, 0]] != NONE]
        return matched


@once_per_trace
def meetings_of(ranks: Ranks) -> Meetings:
    """Which ops of different ranks meet.

    An unmatched op meets no other. Neither does one that ended before the others had arrived: it was buffered. The
    others still wait for it.
    """
    comms = [ranks.summaries[rank].comm for rank in ranks.ranks]
    op_base = bases([len(comm["start"]) for comm in comms])
    row, size = (np.concatenate([comm[name] for comm in comms]).astype(np.int64) for name in ("row", "bytes"))
    start, end = (
        np.concatenate([on_axis(ranks, rank, comm[name]) for rank, comm in zip(ranks.ranks, comms, strict=True)])
        for name in ("start", "end")
    )
    meeting = np.full(len(start), NONE, np.int64)
    pairs: list[Int64] = []
    numbers: dict[tuple[str, int, int], int] = {}
    alike: list[int] = []
    for ops, kinds, least_ns in _matched(ranks, op_base):
        number = len(alike) + np.arange(ops.shape[1])
        met = start[ops].max(axis=0)
        meeting[ops] = np.where(end[ops] >= met + least_ns, number, NONE)
        pairs.append(np.stack((np.broadcast_to(number, ops.shape).ravel(), ops.ravel()), axis=1))
        for kind, n_bytes in zip(kinds, size[ops[0]].tolist(), strict=True):
            alike.append(numbers.setdefault((kind, len(ops), n_bytes), len(numbers)))
    alone = np.flatnonzero(meeting == NONE)
    meeting[alone] = len(alike) + np.arange(len(alone))
    pairs.append(np.stack((meeting[alone], alone), axis=1))
    arrivals = np.concatenate(pairs)
    return Meetings(
        op_base=op_base,
        op_rank=np.repeat(np.arange(len(comms)), np.diff(op_base)),
        row=row,
        start_ns=start,
        end_ns=end,
        meeting=meeting,
        arrivals=arrivals[np.argsort(arrivals[:, 0], kind="stable")],
        alike=np.concatenate((np.array(alike, np.int64), np.full(len(alone), NONE, np.int64))),
        kinds=tuple(kind for kind, *_ in numbers),
    )


def _matched(ranks: Ranks, op_base: Int64) -> Iterator[tuple[Int64, Sequence[str], int]]:
    """Matched ops, shape (ranks, n), their kinds, and their least time from the last arrival to the end, in ns."""
    place = {rank: i for i, rank in enumerate(ranks.ranks)}
    err_ns = ranks.alignment.bound_ns or 0
    for group in ranks.matching.groups:
        rows = [op_base[place[rank]] + of_rank for rank, of_rank in zip(group.ranks, group.places, strict=True)]
        yield np.array(rows), group.kinds, -err_ns
    if ranks.alignment.comparable:
        for pair in ranks.message_pairs:
            sent, got = op_base[place[pair.source]] + pair.sent_places, op_base[place[pair.target]] + pair.got_places
            yield np.stack((sent, got)), ["message"] * len(pair), 1


def on_axis(ranks: Ranks, rank: int, at_ns: npt.ArrayLike) -> Int64:
    """Instants of a rank's clock on the common axis."""
    at = np.asarray(at_ns, np.int64)
    return at + ranks.alignment.to_axis(rank, at)


def bases(lengths: Sequence[int]) -> Int64:
    """The number of the first row of each of several tables, one after the other, and how many rows there are."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


# All instants of the ranks' traces.


@dataclass(frozen=True, eq=False)
class TracedJob(JobGraph):
    """The instants of all ranks' traces, one rank after the other, then those at which communication begins and is met.

    ranks: their numbers.  traces: of each rank.  base: of each rank the number of its first instant.  row: numbers the
    ops, or calls, of all ranks consecutively.  rank: index of each instant's rank, NONE where a collective's ranks
    meet.  begins_ns: of the job.  known_from_ns: of each rank's record.  Of each op that meets others, by meeting:
    begins (its instant), met_of (its meeting).  ends: the instants of those that wait for the others.
    """

    ranks: tuple[int, ...]
    traces: tuple[Trace, ...]
    base: Int64
    node: Int8
    row: Int64
    length_ns: Int64
    unexplained_ns: Int64
    rank: Int64
    begins_ns: int
    known_from_ns: Int64
    begins: Int64
    ends: Int64
    met_of: Int64


def traced_job(
    graphs: Mapping[int, Graph],
    recorded: Mapping[int, Graph],
    offset_ns: Mapping[int, int],
    meetings: Meetings,
    *,
    ends_stay: bool = False,
) -> TracedJob:
    """The graphs of all ranks as one. Raises ValueError if ranks wait for each other in a cycle.

    graphs: by rank, possibly changed.  recorded: the same without a change: they show how long data moved.
    offset_ns: by rank, to the common axis.  An op of zero length waits for no rank.  ends_stay: no collective ends
    earlier than recorded, since some of its ranks have no record.
    """
    return _Builder(graphs, recorded, offset_ns).job(meetings, ends_stay=ends_stay)


class _Builder:
    """The instants of all ranks, to which communication adds some."""

    def __init__(
        self, graphs: Mapping[int, Graph], recorded: Mapping[int, Graph], offset_ns: Mapping[int, int]
    ) -> None:
        self.numbers, self.each, self.recorded = tuple(graphs), tuple(graphs.values()), tuple(recorded.values())
        self.by_ns = [offset_ns[rank] for rank in self.numbers]
        self.base = bases([len(graph) for graph in self.each])
        self.op_base = bases([len(graph.trace.ops) for graph in self.each])
        self.call_base = bases([len(graph.trace.calls) for graph in self.each])
        self.first, self.second = self._linked("first"), self._linked("second")
        self.node = np.concatenate([graph.node for graph in self.each])
        self.row = np.concatenate([self._rows(i, graph) for i, graph in enumerate(self.each)])
        self.rank = np.repeat(np.arange(len(self.each)), np.diff(self.base))
        self.length_ns = np.concatenate([graph.length_ns for graph in self.each])

    def job(self, meetings: Meetings, *, ends_stay: bool) -> TracedJob:
        met_of, op = meetings.matched.T
        place = meetings.op_rank[op]
        row = self.op_base[place] + meetings.row[op]
        start, end = self._recorded_ns("start_ns")[row], self._recorded_ns("end_ns")[row]
        met = np.full(len(meetings), NEVER, np.int64)
        np.maximum.at(met, met_of, start)
        at = np.concatenate([graph.op_node + base for graph, base in zip(self.each, self.base, strict=False)])[row]
        kept = (start == end) | (self.length_ns[at] > 0)
        begins = self._begins(at[kept], row[kept], place[kept])
        meets = np.unique(met_of[kept])  # none where all are changed to take no time
        met_at = np.full(len(meetings), NO_NODE, np.int64)
        met_at[meets] = self._add(*_nothing(len(meets)), Node.JOIN, NONE, NONE)
        waits = kept & (meetings.meeting[op] == met_of)
        moves_ns = _scaled(end - met[met_of], self.length_ns[at], end - start)[waits]
        done: Int64 | int = NO_NODE
        if ends_stay:
            origin, nothing = _nothing(int(waits.sum()))
            origin.lag_ns[:] = end[waits]
            done = self._add(origin, nothing, Node.JOIN, NONE, NONE)
        for links, before, lag_ns in ((self.first, met_at[met_of[waits]], moves_ns), (self.second, done, 0)):
            links.node[at[waits]], links.lag_ns[at[waits]], links.kind[at[waits]] = before, lag_ns, Edge.OTHER_RANK
        self.length_ns[at[waits]] = moves_ns
        return self._made(begins, at[waits], met_of[kept], met_at)

    def _made(self, begins: Int64, ends: Int64, met_of: Int64, met_at: Int64) -> TracedJob:
        recorded = zip(self.recorded, self.by_ns, strict=True)
        return TracedJob(
            first=self.first,
            second=self.second,
            net=Net(self.first.node, self.second.node, met_at[met_of], begins),
            ranks=self.numbers,
            traces=tuple(graph.trace for graph in self.each),
            base=self.base,
            node=self.node,
            row=self.row,
            length_ns=self.length_ns,
            unexplained_ns=np.concatenate([graph.unexplained_ns for graph in self.each]),
            rank=self.rank,
            begins_ns=min(graph.begins_ns + by for graph, by in zip(self.recorded, self.by_ns, strict=True)),
            known_from_ns=np.array([_known_from_ns(graph.trace) + by for graph, by in recorded], np.int64),
            begins=begins,
            ends=ends,
            met_of=met_of,
        )

    def _linked(self, side: str) -> Links:
        """The predecessors of all ranks' instants, by their new numbers; what has none has its time on the axis."""
        nodes, lags, kinds = [], [], []
        for graph, base, by_ns in zip(self.each, self.base.tolist(), self.by_ns, strict=False):
            links: Links = getattr(graph, side)
            alone = (graph.first.node == NO_NODE) & (graph.second.node == NO_NODE) & (side == "first")
            nodes.append(np.where(links.node == NO_NODE, NO_NODE, links.node + base))
            lags.append(links.lag_ns + np.where(alone, by_ns, 0))
            kinds.append(links.kind)
        return Links(np.concatenate(nodes), np.concatenate(lags), np.concatenate(kinds))

    def _rows(self, i: int, graph: Graph) -> Int64:
        by = np.where(graph.node == Node.OP_END, self.op_base[i], self.call_base[i])
        return np.where(graph.row == NO_NODE, NO_NODE, graph.row + by)

    def _recorded_ns(self, column: str) -> Int64:
        """A column of the recorded ops of all ranks, on the common axis."""
        recorded = zip(self.recorded, self.by_ns, strict=True)
        return np.concatenate([getattr(graph.trace.ops, column) + by for graph, by in recorded])

    def _begins(self, ends: Int64, row: Int64, place: Int64) -> Int64:
        """Add the instants at which some ops begin.  ends: at which they end."""
        first, second = (
            Links(side.node[ends], side.lag_ns[ends] - self.length_ns[ends], side.kind[ends])
            for side in (self.first, self.second)
        )
        return self._add(first, second, Node.OP_END, row, place)

    def _add(self, first: Links, second: Links, node: Node, row: Int64 | int, rank: Int64 | int) -> Int64:
        """Add instants: what they wait for, what they are, their rows and ranks. Returns their numbers."""
        n, more = len(self.node), len(first.node)
        self.first = self.first.extended(first.node, first.lag_ns, first.kind)
        self.second = self.second.extended(second.node, second.lag_ns, second.kind)
        self.node = np.concatenate((self.node, np.full(more, node, np.int8)))
        self.row = np.concatenate((self.row, np.broadcast_to(row, more)))
        self.rank = np.concatenate((self.rank, np.broadcast_to(rank, more)))
        self.length_ns = np.concatenate((self.length_ns, np.zeros(more, np.int64)))
        return np.arange(n, n + more)


def _nothing(n: int) -> tuple[Links, Links]:
    return Links.none(n), Links.none(n)


def _scaled(moves_ns: Int64, length_ns: Int64, was_ns: Int64) -> Int64:
    """How long data moves in ops whose length has changed."""
    return np.where((length_ns == was_ns) | (was_ns == 0), moves_ns, moves_ns * length_ns // np.maximum(1, was_ns))


def _known_from_ns(trace: Trace) -> int:
    """When a rank's record begins: with the cell, or with the first event of a file."""
    starts_ns = [int(table.start_ns.min()) for table in (trace.host_ops, trace.calls, trace.ops) if len(table)]
    of_cell = trace.meta.returned_ns is not None or not starts_ns
    return trace.meta.start_ns if of_cell else min(starts_ns)
