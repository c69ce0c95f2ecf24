"""A job replayed from summaries: each rank's own work, and collectives and messages that wait for their last rank.

A thousand ranks are replayed so as a few are. See perfmagic.analysis.ranks.job_graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfmagic.analysis.ranks.job_graph import JobGraph, Meetings, meetings_of, on_axis
from perfmagic.analysis.replay.graph import Links
from perfmagic.analysis.timeline.own_work import COMES, ENDS, JOINS
from perfmagic.base.numerics.longest import NO_NODE, way_back
from perfmagic.base.numerics.net import Net
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.model import once_per_trace

if TYPE_CHECKING:
    from perfmagic.analysis.ranks.ranks import Ranks


class Points(NamedTuple):
    """The points of all lanes, one rank after the other; see own_work.Lane.  rank, op: places in the job."""

    rank: Int64
    kind: Int64
    op: Int64
    at_ns: Int64
    own_ns: Int64


@dataclass(frozen=True, eq=False)
class Replay:
    """When a replayed job reached its instants, came to each op, and met; ns."""

    graph: JobGraph
    times_ns: Int64
    came_ns: Int64
    met_ns: Int64

    @property
    def end_ns(self) -> int:
        return int(self.times_ns.max())


@dataclass(frozen=True, eq=False)
class ReplayedJob:
    """The points, ops and meetings of a job; times in ns on the common axis.

    graph: its instants: the points, then the end of each op, then the meetings. What a lane does before a point, and
    how long an op takes once it is met, are lags of its first links.
    moves_ns: of each op from when its meeting is met to its end.  began_ns: of each lane.
    """

    ranks: Ranks
    graph: JobGraph
    points: Points
    meetings: Meetings
    moves_ns: Int64
    began_ns: Int64

    @cached_property
    def joins(self) -> Int64:
        return np.flatnonzero(self.points.kind == JOINS)

    @cached_property
    def came(self) -> Int64:
        """The point at which each op is come to."""
        return _came(self.points)

    @cached_property
    def joined(self) -> Int64:
        """The point at which the lane of each op's rank has waited for it, NONE where it does not."""
        joined = np.full(len(self.moves_ns), NONE, np.int64)
        joined[self.points.op[self.joins]] = self.joins
        return joined

    @cached_property
    def ends(self) -> Int64:
        return np.flatnonzero(self.points.kind == ENDS)

    @cached_property
    def recorded(self) -> Replay:
        return self.replayed(self.points.own_ns, self.moves_ns)

    def replayed(self, own_ns: Int64, moves_ns: Int64) -> Replay:
        """The job with other work before its points, or other transfers; ns."""
        first, n = self.graph.first, len(own_ns) + len(moves_ns)
        lag_ns = np.concatenate((own_ns, moves_ns, first.lag_ns[n:]))
        lag_ns[_begins(self.points.rank, len(self.began_ns))] += self.began_ns
        graph = self.graph.with_links(Links(first.node, lag_ns, first.kind), self.graph.second)
        times = graph.replayed_ns()
        return Replay(graph, times, times[self.came], times[len(lag_ns) - len(self.meetings) :])

    def op_waits_ns(self, replay: Replay) -> Int64:
        """How long each op waited for other ranks, of those that their rank waited for."""
        ops = self.points.op[self.joins]
        waits = np.zeros(len(self.moves_ns), np.int64)
        waits[ops] = np.maximum(0, replay.met_ns[self.meetings.meeting[ops]] - replay.came_ns[ops])
        return waits

    def waits_ns(self, replay: Replay) -> Int64:
        """How long each rank waited for others while it did nothing else, shape (ranks,)."""
        waits = self.op_waits_ns(replay)
        return np.bincount(self.meetings.op_rank, weights=waits, minlength=len(self.began_ns)).astype(np.int64)

    def path(self, replay: Replay) -> Int64:
        """The points before which own work limited the job."""
        before, by_second = replay.graph.held_by(replay.times_ns)
        way = way_back(int(replay.times_ns.argmax()), before)
        return way[(way < len(self.points.rank)) & ~by_second[way]]


@once_per_trace
def replayed_job(ranks: Ranks) -> ReplayedJob | None:
    """The job of some ranks; None where none of their operations match, or they wait for each other in a circle."""
    if ranks.idle or not (ranks.matching.n or ranks.message_pairs):
        return None
    meetings = meetings_of(ranks)
    points, behind = _points_of(ranks, meetings.op_base)
    moves_ns = meetings.end_ns - meetings.met_ns[meetings.meeting]
    began_ns = [on_axis(ranks, rank, [ranks.summaries[rank].lane.began_ns]) for rank in ranks.ranks]
    try:
        graph = _graph(points, behind, meetings)
    except ValueError:
        return None
    return ReplayedJob(ranks, graph, points, meetings, moves_ns, np.concatenate(began_ns))


def _graph(points: Points, behind: Int64, meetings: Meetings) -> JobGraph:
    """The instants of a job without their own work. Raises ValueError for a circle.

    behind: of each op the one that it is queued behind, NONE for none.
    """
    n, came, (met_of, op) = len(points.rank), _came(points), meetings.arrivals.T
    met_at = n + len(behind) + np.arange(len(meetings))
    first, second = Links.none(n + len(behind) + len(meetings)), Links.none(n + len(behind) + len(meetings))
    first.node[:n] = np.arange(-1, n - 1)
    first.node[_begins(points.rank, len(meetings.op_base) - 1)] = NO_NODE
    first.node[n : n + len(behind)] = met_at[meetings.meeting]
    joins = np.flatnonzero(points.kind == JOINS)
    second.node[joins] = n + points.op[joins]
    queued = np.flatnonzero(behind != NONE)
    second.node[came[queued]] = n + behind[queued]
    second.lag_ns[came[queued]] = meetings.start_ns[queued] - meetings.end_ns[behind[queued]]
    return JobGraph(first, second, Net(first.node, second.node, met_at[met_of], came[op]))


def _came(points: Points) -> Int64:
    """The point at which each op is come to."""
    rows = np.flatnonzero(points.kind == COMES)
    return rows[np.argsort(points.op[rows], kind="stable")]


def _begins(rank: Int64, n_ranks: int) -> Int64:
    """The first point of each lane."""
    return np.searchsorted(rank, np.arange(n_ranks))


def _points_of(ranks: Ranks, op_base: Int64) -> tuple[Points, Int64]:
    """The points of all lanes, and of each op the one that it is queued behind."""
    columns: list[tuple[Int64, ...]] = []
    behind = np.full(int(op_base[-1]), NONE, np.int64)
    for i, rank in enumerate(ranks.ranks):
        lane = ranks.summaries[rank].lane
        kind, op, queued = lane.points["kind"], lane.points["op"], lane.points["behind"]
        own = np.bincount(lane.pieces["point"], weights=lane.pieces["ns"], minlength=len(kind)).astype(np.int64)
        number = np.where(op != NONE, op + op_base[i], NONE)
        comes = (kind == COMES) & (queued != NONE)
        behind[number[comes]] = queued[comes] + op_base[i]
        columns.append((np.full(len(kind), i), kind, number, on_axis(ranks, rank, lane.points["at"]), own))
    return Points(*(np.concatenate(column) for column in zip(*columns, strict=True))), behind
