"""The waiting that costs a rank something: in a collective, for the rank that came last, with no compute beside it.

It is part of the exposed waiting in the table of the ranks, so that what is said of late ranks never exceeds that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.ranks.exposed import Communication
from perfmagic.analysis.ranks.matching import MatchedGroup
from perfmagic.analysis.ranks.rank_summary import RankSummary
from perfmagic.numerics.intervals import Intervals, covered_ns, merge, subtract
from perfmagic.trace.columns import Bool, Int64


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
        """How long each rank waits in each collective beside compute, which costs nothing; shape (r, n)."""
        rows = zip(self.hidden, self.from_ns, self.met_ns, strict=True)
        return np.array([covered_ns(hidden, start, met) for hidden, start, met in rows], np.int64)

    @property
    def ns(self) -> Int64:
        """How long each rank waits in each collective; shape (r, n)."""
        return self.after_ns(self.from_ns)


def costly_waits(
    groups: Sequence[MatchedGroup], ranks: Mapping[int, RankSummary], of_comm: Mapping[int, Communication]
) -> tuple[CostlyWaits, ...]:
    """The costly waits of each group, on the device that is looked at.

    Left out are waits that are no longer than they may be wrong, and collectives to which no rank came last for
    certain. Of a rank that waits in two collectives at once an instant counts for the one it came to first.
    """
    counts = [_counts(group, ranks) for group in groups]
    starts = [group.start_ns.copy() for group in groups]
    mets = [group.start_ns + group.waiting_ns for group in groups]
    free, hidden = {}, {}
    for rank in sorted({rank for group in groups for rank in group.ranks}):
        exposed, moving = ranks[rank].exposed_communication, of_comm[rank].transfer
        free[rank] = subtract(exposed, moving)
        hidden[rank] = subtract(ranks[rank].communication, merge(exposed, moving))
        mine = [(i, group.ranks.index(rank)) for i, group in enumerate(groups) if rank in group.ranks]
        _once([(starts[i][row], mets[i][row], counts[i][row]) for i, row in mine])
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
    """Which waits of a group are known well enough, and on the device that is looked at; shape (r, n)."""
    here = np.zeros(group.places.shape, bool)
    for row, (rank, places) in enumerate(zip(group.ranks, group.places, strict=True)):
        here[row, ranks[rank].here(places)] = True
    return np.asarray(here & group.decided & (group.waiting_ns > group.errs_ns))


def _once(waits: Sequence[tuple[Int64, Int64, Bool]]) -> None:
    """Move the starts of a rank's waits behind the ends of those that began before.  waits: starts, ends, which count.

    The starts are changed in place.
    """
    start, met = (np.concatenate([wait[i] for wait in waits]) for i in (0, 1))
    counts = np.concatenate([wait[2] for wait in waits])
    order = np.flatnonzero(counts)[np.argsort(start[counts], kind="stable")]
    before = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(met[order])[:-1]))[: len(order)]
    start[order] = np.maximum(start[order], before)
    at = 0
    for own, *_ in waits:
        own[:] = start[at : at + len(own)]
        at += len(own)
