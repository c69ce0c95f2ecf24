"""How long the ranks of a job waited for each other, and which of that waiting costs them time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfmagic.analysis.ranks.rank_summary import RankSummary
from perfmagic.analysis.ranks.who_waited import MatchedGroup
from perfmagic.base.numerics.intervals import Intervals, covered_ns, merge, subtract
from perfmagic.trace.columns import Bool, Int64

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

    def after_ns(self, since_ns: Int64) -> Int64:
        """How long each rank waits in each collective after an instant of its own clock; shape (r, n)."""
        rows = zip(self.free, np.maximum(self.from_ns, since_ns), self.met_ns, strict=True)
        return np.array([covered_ns(free, start, met) for free, start, met in rows], np.int64)

    @property
    def hidden_ns(self) -> Int64:
        """How long each rank waits in each collective while it computes, which costs no time; shape (r, n)."""
        rows = zip(self.hidden, self.from_ns, self.met_ns, strict=True)
        return np.array([covered_ns(hidden, start, met) for hidden, start, met in rows], np.int64)

    @property
    def ns(self) -> Int64:
        """How long each rank waits in each collective; shape (r, n)."""
        return self.after_ns(self.from_ns)


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

    def last_at(self, i: int) -> list[tuple[MatchedGroup, int, Int64]]:
        """By group of a rank: the group, the rank's place in it, and the collectives to which it came last.

        Those of the start-up are left out.
        """
        rank = self.ranks[i]
        return [
            (
                group,
                row,
                np.flatnonzero((group.waits.last == row) & group.waits.decided & judged(group, self.summaries)),
            )
            for group in self.groups
            if rank in group.ranks
            for row in (group.ranks.index(rank),)
        ]

    def errs_ns(self, late: Sequence[int]) -> int:
        """The error of the waiting for some ranks, over all collectives to which one of them came last."""
        return sum(int(group.waits.errs_ns[where].sum()) for i in late for group, _, where in self.last_at(i))

    def peers(self, i: int) -> list[int]:
        """The places of the other ranks that share a group with a rank."""
        shared: Bool = np.array(self._members[self._members[:, i]].any(axis=0))
        shared[i] = False
        return [int(j) for j in np.flatnonzero(shared)]

    @cached_property
    def _members(self) -> Bool:
        """Which ranks each matched group has; shape (groups, ranks)."""
        members = np.zeros((len(self.groups), len(self.ranks)), bool)
        for i, group in enumerate(self.groups):
            members[i, np.searchsorted(self.ranks, group.ranks)] = True
        return members

    def waited_for_ns(self, i: int) -> int:
        """How long the median of its peers waited for a rank that came last, without overlapping with compute."""
        peers = self.peers(i)
        return round(float(np.median(self.costs_ns[i, peers]))) if peers else 0
