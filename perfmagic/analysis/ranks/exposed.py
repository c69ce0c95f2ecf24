"""Exposed communication split into what it is: waiting for a late rank, or data on their way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.ranks.meetings import Parts
from perfmagic.analysis.ranks.rank_summary import RankSummary
from perfmagic.numerics.intervals import EMPTY, Intervals, intersect, merge, subtract, total_ns, union


@dataclass(frozen=True, eq=False)
class Communication:
    """The matched communication of one rank, by its own clock.

    waiting: in a collective before the last rank came, in a message before the other end did.  transfer: once all were
    there.  unmatched: communication of which the other ranks say nothing. The three are disjoint and
    make up the rank's communication.
    receives, others: of receives, and of sends and collectives, the waiting and the transfer each by itself.
    """

    waiting: Intervals
    transfer: Intervals
    unmatched: Intervals
    exposed: Intervals
    receives: tuple[Intervals, Intervals] = (EMPTY, EMPTY)
    others: tuple[Intervals, Intervals] = (EMPTY, EMPTY)

    @property
    def exposed_waiting_ns(self) -> int:
        return total_ns(intersect(self.waiting, self.exposed))

    @property
    def exposed_transfer_ns(self) -> int:
        return total_ns(intersect(self.transfer, self.exposed))

    @property
    def exposed_unmatched_ns(self) -> int:
        return total_ns(intersect(self.unmatched, self.exposed))


def communication(ranks: Mapping[int, RankSummary], parts: Mapping[int, Sequence[Parts]]) -> dict[int, Communication]:
    """What the communication of each rank was.  parts: by rank, see perfmagic.analysis.ranks.meetings.parts_of."""
    return {rank: _of_rank(mine, parts.get(rank, ())) for rank, mine in ranks.items()}


def _of_rank(mine: RankSummary, parts: Sequence[Parts]) -> Communication:
    asked, got = _split(mine, [part for part in parts if part.receives])
    waiting, transfer = _split(mine, [part for part in parts if not part.receives])
    moving = merge(transfer, got)
    idle = subtract(merge(waiting, asked), moving)
    unmatched = subtract(mine.communication, merge(idle, moving))
    return Communication(idle, moving, unmatched, mine.exposed_communication, (asked, got), (waiting, transfer))


def _split(mine: RankSummary, parts: Sequence[Parts]) -> tuple[Intervals, Intervals]:
    """The waiting and the transfer of some communication on the device that is looked at."""
    if not parts:
        return EMPTY, EMPTY
    here = [(part, mine.here(part.places)) for part in parts]
    start, middle, end = (
        np.concatenate([getattr(part, name)[kept] for part, kept in here]) for name in ("start_ns", "met_ns", "end_ns")
    )
    transfer = union(middle, end)
    return subtract(union(start, middle), transfer), transfer
