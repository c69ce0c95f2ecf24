"""Exposed communication split into what it is: waiting for a late rank, or data on their way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.ranks.matching import Matching
from perfmagic.analysis.ranks.meetings import Parts, parts_of
from perfmagic.analysis.ranks.messages import Passed
from perfmagic.numerics.intervals import EMPTY, Intervals, intersect, merge, subtract, total_ns, union


@dataclass(frozen=True, eq=False)
class Communication:
    """The matched communication of one rank, by its own clock.

    waiting: in a collective before the last rank came, in a message before the other end did.  transfer: once all were
    there.  unmatched: communication of which the other ranks say nothing. The three are disjoint and
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


def communication(
    facts: Mapping[int, Facts],
    matching: Matching,
    messages: Sequence[Passed] = (),
    offset_ns: Mapping[int, int] | None = None,
) -> dict[int, Communication]:
    """What the communication of each rank was.

    messages: those whose clocks are known by offset_ns: by rank, to be added to its times. A send waits until it is
    asked for, and a receive until it is sent.
    """
    parts = parts_of(matching, messages, offset_ns or {})
    return {rank: _of_rank(mine, parts.get(rank, ())) for rank, mine in facts.items()}


def _of_rank(facts: Facts, parts: Sequence[Parts]) -> Communication:
    device, sets = facts.trace.ops.device, facts.breakdown.intervals
    here = [(part, device[part.rows] == facts.device) for part in parts]
    if not here:
        return Communication(EMPTY, EMPTY, sets["communication"], sets["exposed_communication"])
    start, middle, end = (
        np.concatenate([getattr(part, name)[mine] for part, mine in here]) for name in ("start_ns", "met_ns", "end_ns")
    )
    transfer = union(middle, end)
    waiting = subtract(union(start, middle), transfer)
    unmatched = subtract(sets["communication"], merge(waiting, transfer))
    return Communication(waiting, transfer, unmatched, sets["exposed_communication"])
