"""The ranks of two jobs beside each other: which of them stands for all, and which changed differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from perfmagic import units
from perfmagic.analysis.diff.comparable import repeats_of
from perfmagic.analysis.diff.side import Side
from perfmagic.analysis.diff.times import TimeChange, totals
from perfmagic.analysis.rows import Rows

Waiting: TypeAlias = tuple[Mapping[int, int], Mapping[int, int]]
OTHERWISE_FRAC = 0.05  # of the median whole of the first job, as where the totals of ranks stand out


@dataclass(frozen=True)
class RankChange:
    """One rank in the first job and in the second; times in ns, of one step where its steps are compared.

    a_ns, b_ns: the whole, as in ComparedTrace.  *_diff_ns: how much more of that class the second has; these overlap.
    exposed_waiting_diff_ns: for other ranks, a part of the exposed communication; None where it is not known of both.
    median: whether it is the rank whose change is the median.  otherwise: whether its change is far from that.
    """

    rank: int
    a_ns: int
    b_ns: int
    diff_ns: int
    compute_diff_ns: int
    communication_diff_ns: int
    exposed_communication_diff_ns: int
    exposed_waiting_diff_ns: int | None
    copy_diff_ns: int
    idle_diff_ns: int
    median: bool
    otherwise: bool


def rank_changes(
    first: Mapping[int, Side], second: Mapping[int, Side], waiting_ns: Waiting = ({}, {})
) -> Rows[RankChange]:
    """The ranks that both jobs have, rising.

    The median rank is that whose whole changed by the median, of an even number of ranks by the lower one. A rank whose
    change is a twentieth of the median whole or more away from it changed otherwise.
    waiting_ns: of both jobs the exposed waiting of the whole recording, by rank, where it is known.
    """
    ranks = sorted(first.keys() & second.keys())
    of = {
        rank: {row.name: row for row in totals(first[rank], second[rank], repeats_of(first[rank], second[rank]))}
        for rank in ranks
    }
    if not ranks:
        return Rows((), RankChange)
    order = sorted(ranks, key=lambda rank: of[rank]["whole"].diff_ns)
    median = order[(len(order) - 1) // 2]
    far_ns = OTHERWISE_FRAC * float(np.median([of[rank]["whole"].a_ns for rank in ranks]))
    waiting = {rank: _per_step(rank, waiting_ns, repeats_of(first[rank], second[rank])) for rank in ranks}
    return Rows((_change(rank, of[rank], of[median], far_ns, waiting[rank]) for rank in ranks), RankChange)


def _per_step(rank: int, waiting_ns: Waiting, repeats: tuple[int, int]) -> int | None:
    """How much longer a rank waits in the second job, of one step where steps are compared; None where not known."""
    a, b = (waited.get(rank) for waited in waiting_ns)
    return None if a is None or b is None else b // repeats[1] - a // repeats[0]


def _change(
    rank: int,
    mine: Mapping[str, TimeChange],
    median: Mapping[str, TimeChange],
    far_ns: float,
    waiting_diff_ns: int | None,
) -> RankChange:
    whole = mine["whole"]
    return RankChange(
        rank=rank,
        a_ns=whole.a_ns,
        b_ns=whole.b_ns,
        diff_ns=whole.diff_ns,
        compute_diff_ns=mine["compute"].diff_ns,
        communication_diff_ns=mine["communication"].diff_ns,
        exposed_communication_diff_ns=mine["exposed_communication"].diff_ns,
        exposed_waiting_diff_ns=waiting_diff_ns,
        copy_diff_ns=mine["copy"].diff_ns,
        idle_diff_ns=mine["idle"].diff_ns,
        median=mine is median,
        otherwise=abs(whole.diff_ns - median["whole"].diff_ns) >= far_ns,
    )


def rank_notes(found: Rows[RankChange], missing: Sequence[int]) -> tuple[str, ...]:
    """What the ranks say together, in sentences.  missing: ranks that only one job has."""
    median = next(row for row in found if row.median)
    stands_for = f"the median of {units.plural(len(found), 'rank')} is rank {median.rank}"
    said = [f"{stands_for}: its whole changed by {units.signed(median.diff_ns)}; parts and tables are of that rank"]
    others = [row for row in found if row.otherwise]
    words = ", ".join(f"rank {row.rank} by {units.signed(row.diff_ns)}" for row in others)
    said += [f"changed differently: {words}"] if others else ["no rank changed much differently"]
    said += [f"only one has rank {', '.join(map(str, missing))}"] if missing else []
    return tuple(said)
