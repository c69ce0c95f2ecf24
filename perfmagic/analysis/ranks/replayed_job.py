"""A job replayed at its meetings: each rank's own work, and collectives and messages that wait for their last rank.

It is made of summaries, so that a thousand ranks are replayed as a few are. Replayed without a change it is the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from perfmagic.analysis.timeline.own_work import COMES, ENDS, JOINS
from perfmagic.base.numerics.longest import NEVER
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.once import once_per_trace

if TYPE_CHECKING:
    from perfmagic.analysis.ranks.ranks import Ranks


class Points(NamedTuple):
    """The points of all lanes, one rank after the other; see own_work.Lane.  rank, op: places in the job."""

    rank: Int64
    kind: Int64
    op: Int64
    at_ns: Int64
    own_ns: Int64


class Refs(NamedTuple):
    """Where a lane last went on before something: the join, or the lane's begin, and how much own work is between.

    slot: of the join, else the number of joins plus the rank.  since, until: of summed own work.
    """

    slot: Int64
    since: Int64
    until: Int64

    def at(self, rows: Int64) -> Refs:
        return Refs(self.slot[rows], self.since[rows], self.until[rows])


class _Level(NamedTuple):
    """What can be reached at once: ops come to, meetings met (with their arrivals), joins."""

    ops: Int64
    met: Int64
    arrivals: Int64
    first: Int64
    joins: Int64


@dataclass(frozen=True, eq=False)
class Replay:
    """When a replayed job came to each op and met, went on after each join, and when its ranks ended; ns."""

    came_ns: Int64
    met_ns: Int64
    lane_ns: Int64
    end_ns: int


@dataclass(frozen=True, eq=False)
class ReplayedJob:
    """The ops, meetings and lanes of a job; times in ns on the common axis.

    points: of all lanes.  Of each op: op_rank, meeting (that it ends with), behind (the op it is queued behind, NONE
    for none), lag_ns (after that), moves_ns (from when its meeting is met to its end), came: its point.
    arrivals: (meeting, op), by meeting.  alike: of each meeting a number that those of one kind and size share, NONE
    for what is matched with nothing.  kinds: by that number.  began_ns: of each lane.
    """

    ranks: Ranks
    points: Points
    op_base: Int64
    op_rank: Int64
    start_ns: Int64
    end_ns: Int64
    behind: Int64
    lag_ns: Int64
    meeting: Int64
    moves_ns: Int64
    arrivals: Int64
    alike: Int64
    kinds: tuple[str, ...]
    began_ns: Int64

    @property
    def n_met(self) -> int:
        return len(self.alike)

    @cached_property
    def joins(self) -> Int64:
        return np.flatnonzero(self.points.kind == JOINS)

    @cached_property
    def came(self) -> Int64:
        """The point at which each op is come to."""
        rows = np.flatnonzero(self.points.kind == COMES)
        return rows[np.argsort(self.points.op[rows], kind="stable")]

    @cached_property
    def joined(self) -> Int64:
        """The point at which the lane of each op's rank has waited for it, NONE where it does not."""
        joined = np.full(len(self.op_rank), NONE, np.int64)
        joined[self.points.op[self.joins]] = self.joins
        return joined

    @cached_property
    def ends(self) -> Int64:
        return np.flatnonzero(self.points.kind == ENDS)

    @cached_property
    def refs(self) -> Refs:
        """Of each point what its lane last went on from."""
        n = len(self.points.rank)
        number = np.cumsum(self.points.kind == JOINS) - (self.points.kind == JOINS)  # of joins before each point
        first = np.searchsorted(self.points.rank, np.arange(len(self.began_ns)))
        of_rank = number - number[first][self.points.rank]
        slot = np.where(of_rank > 0, number - 1, len(self.joins) + self.points.rank)
        since = np.where(of_rank > 0, np.append(self.joins, 0)[number - 1] + 1, first[self.points.rank])
        return Refs(slot, since, np.arange(1, n + 1))

    @cached_property
    def levels(self) -> list[_Level] | None:
        """What can be reached one after the other; None where ranks wait for each other in a circle."""
        return _levels(self)

    @cached_property
    def recorded(self) -> Replay:
        return self.replayed(self.points.own_ns, self.began_ns, self.moves_ns)

    def replayed(self, own_ns: Int64, began_ns: Int64, moves_ns: Int64) -> Replay:
        """The job with other work before its points, lanes that begin at other times, or other transfers; ns."""
        sums = np.concatenate(([0], np.cumsum(own_ns)))
        work = sums[self.refs.until] - sums[self.refs.since]
        n_joins = len(self.joins)
        lane = np.concatenate((np.zeros(n_joins, np.int64), began_ns))
        came, met = np.zeros(len(self.op_rank), np.int64), np.zeros(self.n_met + 1, np.int64)
        behind, meeting, slot = self.behind, self.meeting, self.refs.slot
        op_of_join, at_come = self.points.op[self.joins], self.came
        queue_lag = np.where(behind != NONE, moves_ns[behind] + self.lag_ns, NEVER)
        for level in self.levels or ():
            if len(level.ops):
                at, ops = at_come[level.ops], level.ops
                came[ops] = np.maximum(lane[slot[at]] + work[at], met[meeting[behind[ops]]] + queue_lag[ops])
            if len(level.met):
                met[level.met] = np.maximum.reduceat(came[level.arrivals], level.first)
            if len(level.joins):
                at, ops = self.joins[level.joins], op_of_join[level.joins]
                lane[level.joins] = np.maximum(lane[slot[at]] + work[at], met[meeting[ops]] + moves_ns[ops])
        ends = lane[slot[self.ends]] + work[self.ends]
        left = met[meeting] + moves_ns
        return Replay(came, met, lane, int(max(ends.max(), left.max(initial=NEVER))))

    def op_waits_ns(self, replay: Replay) -> Int64:
        """How long each op waited for other ranks, of those that their rank waited for."""
        ops = self.points.op[self.joins]
        waits = np.zeros(len(self.op_rank), np.int64)
        waits[ops] = np.maximum(0, replay.met_ns[self.meeting[ops]] - replay.came_ns[ops])
        return waits

    def waits_ns(self, replay: Replay) -> Int64:
        """How long each rank waited for others while it did nothing else, shape (ranks,)."""
        waits = self.op_waits_ns(replay)
        return np.bincount(self.op_rank, weights=waits, minlength=len(self.began_ns)).astype(np.int64)

    def path(self, replay: Replay, own_ns: Int64, moves_ns: Int64, meeting: int = NONE, since_ns: int = NEVER) -> Int64:
        """The points before which own work held the job, or a meeting.  since_ns: from when on."""
        sums = np.concatenate(([0], np.cumsum(own_ns)))
        lane, n_joins, refs = replay.lane_ns, len(self.joins), self.refs
        held: list[Int64] = []
        point = NONE
        if meeting == NONE:
            ends = lane[refs.slot[self.ends]] + sums[refs.until[self.ends]] - sums[refs.since[self.ends]]
            left = replay.met_ns[self.meeting] + moves_ns
            if ends.max() >= left.max(initial=NEVER):
                point = int(self.ends[ends.argmax()])
            else:
                meeting = int(self.meeting[left.argmax()])
        while True:
            if point == NONE:  # of a meeting its last rank
                some = self.arrivals[self._first[meeting] : self._first[meeting + 1], 1]
                op = int(some[replay.came_ns[some].argmax()])
                if replay.came_ns[op] <= since_ns:
                    break
                point = int(self.came[op])
                own = int(lane[refs.slot[point]] + sums[refs.until[point]] - sums[refs.since[point]])
                if own < replay.came_ns[op]:
                    meeting, point = int(self.meeting[self.behind[op]]), NONE
                    continue
            held.append(np.arange(refs.since[point], refs.until[point]))
            slot = int(refs.slot[point])
            if slot >= n_joins or lane[slot] <= since_ns:
                break
            at = int(self.joins[slot])
            op = int(self.points.op[at])
            left_ns = int(replay.met_ns[self.meeting[op]] + moves_ns[op])
            point, meeting = (at, NONE) if left_ns < lane[slot] else (NONE, int(self.meeting[op]))
        return np.concatenate(held) if held else np.zeros(0, np.int64)

    @cached_property
    def _first(self) -> Int64:
        return np.searchsorted(self.arrivals[:, 0], np.arange(self.n_met + 1))


@once_per_trace
def replayed_job(ranks: Ranks) -> ReplayedJob | None:
    """The job of some ranks; None where nothing of them matches, or they wait for each other in a circle."""
    if ranks.idle or not (ranks.matching.n or ranks.message_pairs):
        return None
    numbers, summaries = ranks.ranks, ranks.summaries
    op_base = _bases([len(summaries[rank].comm["start"]) for rank in numbers])
    start, end = (
        np.concatenate([_on_axis(ranks, rank, summaries[rank].comm[name]) for rank in numbers])
        for name in ("start", "end")
    )
    points, behind = _points_of(ranks, op_base)
    op_rank = np.repeat(np.arange(len(numbers)), np.diff(op_base))
    meeting, arrivals, alike, kinds = _meetings_of(ranks, op_base, start, end)
    met = np.full(len(alike), NEVER, np.int64)
    np.maximum.at(met, arrivals[:, 0], start[arrivals[:, 1]])
    job = ReplayedJob(
        ranks=ranks,
        points=points,
        op_base=op_base,
        op_rank=op_rank,
        start_ns=start,
        end_ns=end,
        behind=behind,
        lag_ns=np.where(behind != NONE, start - end[behind], 0) if len(start) else start,
        meeting=meeting,
        moves_ns=end - met[meeting],
        arrivals=arrivals,
        alike=alike,
        kinds=kinds,
        began_ns=np.concatenate([_on_axis(ranks, rank, [summaries[rank].lane.began_ns]) for rank in numbers]),
    )
    return None if job.levels is None else job


def _on_axis(ranks: Ranks, rank: int, at_ns: npt.ArrayLike) -> Int64:
    at = np.asarray(at_ns, np.int64)
    return at + ranks.alignment.to_axis(rank, at)


def _bases(lengths: Sequence[int]) -> Int64:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


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
        columns.append((np.full(len(kind), i), kind, number, _on_axis(ranks, rank, lane.points["at"]), own))
    return Points(*(np.concatenate(column) for column in zip(*columns, strict=True))), behind


def _meetings_of(ranks: Ranks, op_base: Int64, start: Int64, end: Int64) -> tuple[Int64, Int64, Int64, tuple[str, ...]]:
    """Of each op the meeting that it ends with; who arrives at each meeting, (meeting, op); which meetings are alike,
    and of what kind these are.

    What is matched with nothing meets nobody. So does what ended before the others had come: it was buffered.
    """
    meeting = np.full(len(start), NONE, np.int64)
    pairs: list[Int64] = []
    numbers: dict[tuple[str, int, int], int] = {}
    alike: list[int] = []
    sizes = np.concatenate([ranks.summaries[rank].comm["bytes"] for rank in ranks.ranks])
    for ops, kinds, least_ns in _matched(ranks, op_base):
        number = len(alike) + np.arange(ops.shape[1])
        met = start[ops].max(axis=0)
        meeting[ops] = np.where(end[ops] >= met + least_ns, number, NONE)
        pairs.append(np.stack((np.broadcast_to(number, ops.shape).ravel(), ops.ravel()), axis=1))
        for kind, size in zip(kinds, sizes[ops[0]].tolist(), strict=True):
            alike.append(numbers.setdefault((kind, len(ops), size), len(numbers)))
    alone = np.flatnonzero(meeting == NONE)
    meeting[alone] = len(alike) + np.arange(len(alone))
    pairs.append(np.stack((meeting[alone], alone), axis=1))
    arrivals = np.concatenate(pairs)
    of_all = np.concatenate((np.array(alike, np.int64), np.full(len(alone), NONE, np.int64)))
    return meeting, arrivals[np.argsort(arrivals[:, 0], kind="stable")], of_all, tuple(kind for kind, *_ in numbers)


def _matched(ranks: Ranks, op_base: Int64) -> Iterator[tuple[Int64, Sequence[str], int]]:
    """Matched ops, shape (ranks, n), their kinds, and how long after the last came they end at least, in ns."""
    place = {rank: i for i, rank in enumerate(ranks.ranks)}
    err_ns = ranks.alignment.bound_ns or 0
    for group in ranks.matching.groups:
        rows = [op_base[place[rank]] + of_rank for rank, of_rank in zip(group.ranks, group.places, strict=True)]
        yield np.array(rows), group.kinds, -err_ns
    if ranks.alignment.comparable:
        for pair in ranks.message_pairs:
            sent, got = op_base[place[pair.source]] + pair.sent_places, op_base[place[pair.target]] + pair.got_places
            yield np.stack((sent, got)), ["message"] * len(pair), 1


def _levels(job: ReplayedJob) -> list[_Level] | None:
    """Nodes are ops come to, then meetings, then joins."""
    n_ops, n_joins = len(job.op_rank), len(job.joins)
    met_at, join_at = n_ops, n_ops + job.n_met
    edges: list[tuple[Int64, Int64]] = []
    for nodes, at in ((np.arange(n_ops), job.came), (join_at + np.arange(n_joins), job.joins)):
        slot = job.refs.slot[at]
        edges.append((join_at + slot[slot < n_joins], nodes[slot < n_joins]))
    queued = np.flatnonzero(job.behind != NONE)
    edges.append((met_at + job.meeting[job.behind[queued]], queued))
    edges.append((job.arrivals[:, 1], met_at + job.arrivals[:, 0]))
    edges.append((met_at + job.meeting[job.points.op[job.joins]], join_at + np.arange(n_joins)))
    source, target = (np.concatenate(side) for side in zip(*edges, strict=True))
    n = join_at + n_joins
    missing = np.bincount(target, minlength=n)
    order = np.argsort(source, kind="stable")
    target, first = target[order], np.searchsorted(source[order], np.arange(n + 1))
    at_first = np.searchsorted(job.arrivals[:, 0], np.arange(job.n_met + 1))
    levels, seen = [], 0
    ready = np.flatnonzero(missing == 0)
    while len(ready):
        seen += len(ready)
        met = ready[(ready >= met_at) & (ready < join_at)] - met_at
        arrivals, starts = _slices(at_first, met)
        levels.append(
            _Level(ready[ready < met_at], met, job.arrivals[arrivals, 1], starts, ready[ready >= join_at] - join_at)
        )
        freed, times = np.unique(target[_slices(first, ready)[0]], return_counts=True)
        missing[freed] -= times
        ready = freed[missing[freed] == 0]
    return levels if seen == n else None


def _slices(first: Int64, rows: Int64) -> tuple[Int64, Int64]:
    """The places of all that belongs to some rows, and where each row's begin among them."""
    counts = first[rows + 1] - first[rows]
    starts = np.cumsum(counts) - counts
    return np.repeat(first[rows] - starts, counts) + np.arange(int(counts.sum())), starts
