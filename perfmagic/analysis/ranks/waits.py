"""Who waited for whom in collectives and messages, how long, and which of that waiting costs time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from perfmagic.base.numerics.intervals import Intervals, covered_ns, merge, subtract
from perfmagic.trace.columns import Bool, Int64

if TYPE_CHECKING:
    from perfmagic.analysis.ranks.rank_summary import RankSummary

ToAxis = Callable[[int, Int64], Int64]  # (rank, instants of its clock): what to add to each for the common axis


@dataclass(frozen=True, eq=False)
class Waits:
    """Who waited for whom in several collectives, or messages, of the same ranks; times in ns.

    ahead_ns: how long before the last rank each one came, waiting_ns: how long it waited inside; shape (r, n).
    last: place of the rank that came last, errs_ns: the error of waits, decided: whether one rank came last by more
    than that, transfer_ns: how long each takes once all ranks are there, as no rank was inside for less; shape (n,).
    """

    ahead_ns: Int64
    waiting_ns: Int64
    last: Int64
    errs_ns: Int64
    decided: Bool
    transfer_ns: Int64

    @property
    def known(self) -> Bool:
        """Which waits are longer than their error, for a rank that came last for certain; shape (r, n)."""
        return np.asarray((self.waiting_ns > self.errs_ns) & self.decided)


def who_waited(start_ns: Int64, end_ns: Int64, offset_ns: Int64 | None = None, bound_ns: int | None = None) -> Waits:
    """Who waited for whom, of two ranks or more.

    start_ns, end_ns: when each rank came and left, by its own clock; shape (r, n).  offset_ns: what puts each rank's
    times on a common axis, shape (r,) or, where clocks drift, (r, n); None before that is known.  bound_ns: the largest
    distance of two clocks on that axis; None where the axis rests on the collectives themselves. With it a rank waits
    until the last one comes. Without it all ranks leave together, so that the one that was inside for the shortest time
    came last; no clocks are compared, and the error is the distance of the ranks' ends on the axis.
    """
    duration_ns = end_ns - start_ns
    axis_ns = np.zeros((len(start_ns), 1), np.int64) if offset_ns is None else offset_ns.reshape(len(start_ns), -1)
    came_ns = -duration_ns if bound_ns is None else start_ns + axis_ns
    ahead_ns = came_ns.max(axis=0) - came_ns
    if bound_ns is not None or offset_ns is None:
        errs_ns = np.full(start_ns.shape[1], bound_ns or 0, np.int64)
    else:
        errs_ns = np.ptp(end_ns + axis_ns, axis=0)
    waiting_ns = np.minimum(ahead_ns, duration_ns)
    return Waits(
        ahead_ns=ahead_ns,
        waiting_ns=waiting_ns,
        last=came_ns.argmax(axis=0),
        errs_ns=errs_ns,
        decided=np.asarray(np.partition(ahead_ns, 1, axis=0)[1] > errs_ns),
        transfer_ns=(duration_ns - waiting_ns).min(axis=0),
    )


@dataclass(frozen=True, eq=False)
class MatchedGroup:
    """The collectives of one group that all its ranks recorded.

    name: for people.  ranks: rising, shape (r,).  kinds: of each collective, n of them.  places: in the communication
    of each rank, start_ns, end_ns: of those, by each rank's own clock; shape (r, n). A rank that arrives early waits
    inside.  offset_ns, bound_ns: as in who_waited.
    """

    name: str
    ranks: tuple[int, ...]
    kinds: tuple[str, ...]
    places: Int64
    start_ns: Int64
    end_ns: Int64
    offset_ns: Int64 | None = None
    bound_ns: int | None = None

    @property
    def duration_ns(self) -> Int64:
        return self.end_ns - self.start_ns

    @cached_property
    def waits(self) -> Waits:
        """Who waited for whom in each collective."""
        return who_waited(self.start_ns, self.end_ns, self.offset_ns, self.bound_ns)


@dataclass(frozen=True, eq=False)
class Matching:
    """The groups that match, and why others do not, a sentence each."""

    groups: tuple[MatchedGroup, ...]
    refused: tuple[str, ...]

    @property
    def n(self) -> int:
        return sum(len(group.kinds) for group in self.groups)

    def on_axis(self, to_axis: ToAxis, bound_ns: int | None) -> Matching:
        """The groups on a common axis.  bound_ns: of clocks known without the collectives."""
        groups = []
        for group in self.groups:
            by = [to_axis(rank, start_ns) for rank, start_ns in zip(group.ranks, group.start_ns, strict=True)]
            groups.append(replace(group, offset_ns=np.array(by, np.int64), bound_ns=bound_ns))
        return Matching(tuple(groups), self.refused)


@dataclass(frozen=True, eq=False)
class MatchedMessages:
    """The messages from one rank to another, in order; columns of shape (n,).

    sent_places, got_places: in the communication of source and target.  sent_ns, sent_end_ns: of the sends, by the
    source's own clock.  asked_ns, arrived_ns: of the receives, by the target's.
    """

    source: int
    target: int
    sent_places: Int64
    got_places: Int64
    sent_ns: Int64
    sent_end_ns: Int64
    asked_ns: Int64
    arrived_ns: Int64

    def __len__(self) -> int:
        return len(self.sent_ns)

    def waits(self, to_axis: ToAxis) -> Waits:
        """Who waited for whom in each message; the sender is the first rank."""
        by = np.stack([to_axis(self.source, self.sent_ns), to_axis(self.target, self.asked_ns)])
        starts, ends = (self.sent_ns, self.asked_ns), (self.sent_end_ns, self.arrived_ns)
        return who_waited(np.stack(starts), np.stack(ends), by, bound_ns=0)


# The waiting that costs a rank time: in a collective, for the rank that came last, not overlapped with compute.


@dataclass(frozen=True, eq=False)
class CostlyWaits:
    """The costly waits of one group; by rank of the group and collective, shape (r, n).

    from_ns: when each begins, by the rank's own clock.  met_ns: when it ends.  free: by rank of the group when it
    communicates with neither compute nor data moving beside.  hidden: when with compute and no data moving.
    """

    from_ns: Int64
    met_ns: Int64
    free: tuple[Intervals, ...]
    hidden: tuple[Intervals, ...]

    @property
    def hidden_ns(self) -> Int64:
        """How long each rank waits in each collective while it computes, which costs no time; shape (r, n)."""
        rows = zip(self.hidden, self.from_ns, self.met_ns, strict=True)
        return np.array([covered_ns(hidden, start, met) for hidden, start, met in rows], np.int64)

    @property
    def ns(self) -> Int64:
        """How long each rank waits in each collective; shape (r, n)."""
        rows = zip(self.free, self.from_ns, self.met_ns, strict=True)
        return np.array([covered_ns(free, start, met) for free, start, met in rows], np.int64)


def costly_waits(
    groups: Sequence[MatchedGroup], ranks: Mapping[int, RankSummary], transfer: Mapping[int, Intervals]
) -> tuple[CostlyWaits, ...]:
    """The costly waits of each group, on the compared device.  transfer: when each rank moves data.

    Waits within their error, in the start-up, and collectives without a certain last rank, are left out. Where a rank
    waits in two collectives at once, an instant counts for the one it came to first.
    """
    counts = [_counts(group, ranks) for group in groups]
    starts = [group.start_ns + began for group, began in zip(groups, waits_for_start(groups, ranks), strict=True)]
    mets = [group.start_ns + group.waits.waiting_ns for group in groups]
    free, hidden = {}, {}
    for rank in sorted({rank for group in groups for rank in group.ranks}):
        exposed, moving = ranks[rank].exposed_communication, transfer[rank]
        free[rank] = subtract(exposed, moving)
        hidden[rank] = subtract(ranks[rank].communication, merge(exposed, moving))
        rows = [(i, group.ranks.index(rank)) for i, group in enumerate(groups) if rank in group.ranks]
        _count_once([(starts[i][row], mets[i][row], counts[i][row]) for i, row in rows])
    return tuple(
        CostlyWaits(
            start,
            np.where(count, met, start),
            tuple(free[rank] for rank in group.ranks),
            tuple(hidden[rank] for rank in group.ranks),
        )
        for group, start, met, count in zip(groups, starts, mets, counts, strict=True)
    )


def _counts(group: MatchedGroup, ranks: Mapping[int, RankSummary]) -> Bool:
    """Which waits of a group are known, and on the compared device; shape (r, n)."""
    here = np.zeros(group.places.shape, bool)
    for row, (rank, places) in enumerate(zip(group.ranks, group.places, strict=True)):
        here[row, ranks[rank].here(places)] = True
    return np.asarray(here & group.waits.known & judged(group, ranks))


def judged(group: MatchedGroup, ranks: Mapping[int, RankSummary]) -> Bool:
    """Which collectives of a group no rank came to in its start-up; shape (n,)."""
    since_ns = np.array([ranks[rank].start.since_ns for rank in group.ranks])
    return np.asarray((group.start_ns >= since_ns[:, None]).all(axis=0))


def waits_for_start(groups: Sequence[MatchedGroup], ranks: Mapping[int, RankSummary]) -> list[Int64]:
    """How long each rank waits only because ranks of files began apart; of each group, shape (r, n).

    That is all waiting in the start-up. Where the ranks of a group meet first after it, a wait is judged by how long
    each worked since its own beginning. A rank that waited so began later for those that it meets next.
    """
    began = {rank: max(summary.began_ns, summary.start.since_ns) for rank, summary in ranks.items()}
    waited = [np.where(judged(group, ranks), 0, group.waits.waiting_ns) for group in groups]
    if not all(summary.start.is_file for summary in ranks.values()):
        return waited
    firsts = [(i, np.flatnonzero(judged(group, ranks))) for i, group in enumerate(groups)]
    first = [(int(groups[i].start_ns[:, where[0]].max()), i, int(where[0])) for i, where in firsts if len(where)]
    for _, i, k in sorted(first):
        group = groups[i]
        worked_ns = group.start_ns[:, k] - np.array([began[rank] for rank in group.ranks])
        own_ns = np.maximum(worked_ns[group.waits.last[k]] - worked_ns, 0)
        waited[i][:, k] = np.maximum(group.waits.waiting_ns[:, k] - own_ns, 0)
        for rank, ns in zip(group.ranks, waited[i][:, k].tolist(), strict=True):
            began[rank] += ns
    return waited


def _count_once(waits: Sequence[tuple[Int64, Int64, Bool]]) -> None:
    """Move the starts of a rank's waits behind the ends of those that began before.  waits: starts, ends, which count.

    The starts are changed in place.
    """
    start, met = (np.concatenate([wait[i] for wait in waits]) for i in (0, 1))
    counts = np.concatenate([wait[2] for wait in waits])
    order = np.flatnonzero(counts)[np.argsort(start[counts], kind="stable")]
    before = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(met[order])[:-1]))[: len(order)]
    start[order] = np.maximum(start[order], before)
    at = 0
    for starts, *_ in waits:
        starts[:] = start[at : at + len(starts)]
        at += len(starts)


@dataclass(frozen=True, eq=False)
class JobWaits:
    """How long the ranks of a job waited for each other in matched collectives; times in ns.

    groups: the matched collectives.  summaries: by rank, rising.  transfer: by rank, when it moves data.
    A rank is known by its place among the ranks.
    """

    groups: tuple[MatchedGroup, ...]
    summaries: Mapping[int, RankSummary]
    transfer: Mapping[int, Intervals]

    @cached_property
    def ranks(self) -> list[int]:
        return list(self.summaries)

    @cached_property
    def waits_ns(self) -> Int64:
        """[last, waiting]: how long each rank waited in collectives for each rank that came last; shape (ranks, ranks).

        Also while computing. Waits within their error, and collectives without a certain last rank, are left out.
        """
        certain = [np.where(group.waits.known, group.waits.waiting_ns, 0) for group in self.groups]
        return self._by_last(certain)

    @cached_property
    def costly_waits(self) -> tuple[tuple[MatchedGroup, CostlyWaits], ...]:
        """Each group with its waits that did not overlap with compute."""
        return tuple(zip(self.groups, costly_waits(self.groups, self.summaries, self.transfer), strict=True))

    @cached_property
    def costs_ns(self) -> Int64:
        """[last, waiting]: the part of waits_ns that did not overlap with compute; shape (ranks, ranks).

        The sum of a column is at most that rank's exposed waiting in the table.
        """
        return self._by_last([costly.ns for _, costly in self.costly_waits])

    @cached_property
    def hidden_ns(self) -> Int64:
        """[last, waiting]: the part of waits_ns that overlapped with compute; shape (ranks, ranks)."""
        return self._by_last([costly.hidden_ns for _, costly in self.costly_waits])

    def _by_last(self, waits: Sequence[Int64]) -> Int64:
        """Waits summed by who came last and who waited.  waits: of each group, by rank and collective."""
        place = {rank: i for i, rank in enumerate(self.ranks)}
        summed = np.zeros((len(place), len(place)), np.int64)
        for group, of_group in zip(self.groups, waits, strict=True):
            last = np.array([place[rank] for rank in group.ranks])[group.waits.last]
            for rank, ns in zip(group.ranks, of_group, strict=True):
                np.add.at(summed[:, place[rank]], last, ns)
        return summed
