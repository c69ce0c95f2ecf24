"""The ranks of one job as its findings look at them: who waits for whom, and how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from perfmagic import units
from perfmagic.analysis.ranks.costly_waits import CostlyWaits, costly_waits
from perfmagic.analysis.ranks.matching import MatchedGroup, Matching
from perfmagic.analysis.ranks.rank_summary import RankSummary
from perfmagic.analysis.ranks.summary import Ranks
from perfmagic.trace.columns import Bool, Int64

NOTABLE_FRAC = 0.02  # of the median cell, of files of the extent, as of an exposed copy


@dataclass(frozen=True, eq=False)
class OneJob:
    """The ranks of one job, each with what it says of itself."""

    all: Ranks

    @property
    def summaries(self) -> Mapping[int, RankSummary]:
        return self.all.summaries

    @property
    def matching(self) -> Matching:
        return self.all.matching

    @cached_property
    def ranks(self) -> list[int]:
        return self.all.ranks

    @cached_property
    def extent_ns(self) -> int:
        return int(np.median([one.totals.extent_ns for one in self.summaries.values()]))

    @property
    def notable_ns(self) -> float:
        return NOTABLE_FRAC * float(np.median([one.totals.window_ns for one in self.summaries.values()]))

    @cached_property
    def waits_ns(self) -> npt.NDArray[np.int64]:
        """[last, waiting]: how long each rank waited in collectives for each rank that came last; shape (ranks, ranks).

        Also beside compute. Left out are waits that are no longer than they may be wrong, and collectives to which no
        rank came last for certain.
        """
        certain = [
            np.where(group.decided & (group.waiting_ns > group.errs_ns), group.waiting_ns, 0)
            for group in self.matching.groups
        ]
        return self._by_last(certain)

    @cached_property
    def costly_waits(self) -> tuple[tuple[MatchedGroup, CostlyWaits], ...]:
        """Each group with its waits that had no compute beside them."""
        groups = self.matching.groups
        return tuple(zip(groups, costly_waits(groups, self.summaries, self.all.communication), strict=True))

    @cached_property
    def costs_ns(self) -> npt.NDArray[np.int64]:
        """[last, waiting]: the same as waits_ns with no compute beside; shape (ranks, ranks).

        The sum of a column is at most that rank's exposed waiting in the table.
        """
        return self._by_last([costly.ns for _, costly in self.costly_waits])

    @cached_property
    def hidden_ns(self) -> npt.NDArray[np.int64]:
        """[last, waiting]: the same beside compute; shape (ranks, ranks)."""
        return self._by_last([costly.hidden_ns for _, costly in self.costly_waits])

    def _by_last(self, waits: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
        """Waits summed by who came last and who waited.  waits: of each group, by rank and collective."""
        place = {rank: i for i, rank in enumerate(self.ranks)}
        found = np.zeros((len(place), len(place)), np.int64)
        for group, of_group in zip(self.matching.groups, waits, strict=True):
            last = np.array([place[rank] for rank in group.ranks])[group.last]
            for rank, ns in zip(group.ranks, of_group, strict=True):
                np.add.at(found[:, place[rank]], last, ns)
        return found

    def last_at(self, i: int) -> list[tuple[MatchedGroup, int, Int64]]:
        """By group of a rank: the group, the rank's place in it, and the collectives to which it came last."""
        rank = self.ranks[i]
        return [
            (group, mine, np.flatnonzero((group.last == mine) & group.decided))
            for group in self.matching.groups
            if rank in group.ranks
            for mine in (group.ranks.index(rank),)
        ]

    def errs_ns(self, late_ones: Sequence[int]) -> int:
        """How far the waiting for some ranks may be wrong, over all collectives to which one of them came last."""
        return sum(int(group.errs_ns[where].sum()) for i in late_ones for group, _, where in self.last_at(i))

    def peers(self, i: int) -> list[int]:
        """The places of the other ranks that share a group with a rank."""
        shared: npt.NDArray[np.bool_] = np.array(self._members[self._members[:, i]].any(axis=0))
        shared[i] = False
        return [int(j) for j in np.flatnonzero(shared)]

    @cached_property
    def _members(self) -> Bool:
        """Which ranks each matched group has; shape (groups, ranks)."""
        members = np.zeros((len(self.matching.groups), len(self.ranks)), bool)
        for i, group in enumerate(self.matching.groups):
            members[i, np.searchsorted(self.ranks, group.ranks)] = True
        return members

    def waited_for_ns(self, i: int) -> int:
        """How long the median of its peers waited for a rank that came last, with no compute beside."""
        peers = self.peers(i)
        return round(float(np.median(self.costs_ns[i, peers]))) if peers else 0

    def others(self, i: int, values: Sequence[int] | npt.NDArray[np.int64]) -> float:
        """The median of the ranks but one."""
        return float(np.median(np.delete(np.asarray(values), i)))

    def than_others(self, i: int) -> str:
        """Whom a rank is compared with: of two ranks the other one."""
        return "the others in the median" if len(self.ranks) > 2 else f"rank {self.ranks[1 - i]}"

    @property
    def n_collectives(self) -> str:
        return units.plural(self.matching.n, "matched collective")
