"""Exposed communication split into what it is: waiting for a late rank, or data on their way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.ranks.matching import MatchedGroup, Matching
from perfmagic.numerics.intervals import EMPTY, Intervals, intersect, merge, subtract, total_ns, union
from perfmagic.trace.columns import Int64


@dataclass(frozen=True, eq=False)
class Communication:
    """The matched communication of one rank, by its own clock.

    waiting: in a collective before the last rank came.  transfer: once all were there; the shortest time that any rank
    was in the collective.  unmatched: communication of which the other ranks say nothing. The three are disjoint and
    make up the rank's communication.
    """

    waiting: Intervals
    transfer: Intervals
    unmatched: Intervals
    exposed: Intervals

    @property
    def exposed_waiting_ns(self) -> int:
        return total_ns(intersect(self.waiting, self.exposed))

    @property
    def exposed_transfer_ns(self) -> int:
        return total_ns(intersect(self.transfer, self.exposed))

    @property
    def exposed_unmatched_ns(self) -> int:
        return total_ns(intersect(self.unmatched, self.exposed))


def communication(facts: Mapping[int, Facts], matching: Matching) -> dict[int, Communication]:
    """What the communication of each rank was, from the least time over the ranks of each collective. No clock of two
    ranks is compared: all leave together, so the last part of the time inside is the transfer.
    """
    return {rank: _of_rank(rank, mine, matching.groups) for rank, mine in facts.items()}


def _of_rank(rank: int, facts: Facts, groups: tuple[MatchedGroup, ...]) -> Communication:
    device = facts.trace.ops.device
    starts: list[Int64] = []
    middles: list[Int64] = []
    ends: list[Int64] = []
    for group in groups:
        if rank not in group.ranks:
            continue
        i = group.ranks.index(rank)
        here = device[group.rows[i]] == facts.device
        starts.append(group.start_ns[i][here])
        middles.append((group.end_ns[i] - group.transfer_ns)[here])
        ends.append(group.end_ns[i][here])
    sets = facts.breakdown.intervals
    if not starts:
        return Communication(EMPTY, EMPTY, sets["communication"], sets["exposed_communication"])
    start, middle, end = (np.concatenate(parts) for parts in (starts, middles, ends))
    transfer = union(middle, end)
    waiting = subtract(union(start, middle), transfer)
    unmatched = subtract(sets["communication"], merge(waiting, transfer))
    return Communication(waiting, transfer, unmatched, sets["exposed_communication"])
