"""The ranks of two jobs beside each other: which of them stands for all, and which changed differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic import units
from perfmagic.analysis.diff.comparable import repeats_of
from perfmagic.analysis.diff.side import Side
from perfmagic.analysis.diff.times import TimeChange, totals
from perfmagic.analysis.rows import Rows

OTHERWISE_FRAC = 0.05  # of the median whole of the first job, as where the totals of ranks stand out


@dataclass(frozen=True)
class RankChange:
    """One rank in the first job and in the second; times in ns, of one step where its steps are compared.

    a_ns, b_ns: the whole, as in ComparedTrace.  *_diff_ns: how much more of that class the second has; these overlap.
    median: whether it is the rank whose change is the median.  otherwise: whether its change is far from that.
    """

    rank: int
    a_ns: int
    b_ns: int
    diff_ns: int
    compute_diff_ns: int
    communication_diff_ns: int
    copy_diff_ns: int
    idle_diff_ns: int
    median: bool
    otherwise: bool


def rank_changes(first: Mapping[int, Side], second: Mapping[int, Side]) -> Rows[RankChange]:
    """The ranks that both jobs have, rising.

    The median rank is that whose whole changed by the median, of an even number of ranks by the lower one. A rank whose
    change is a twentieth of the median whole or more away from it changed otherwise.
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
    return Rows((_change(rank, of[rank], of[median], far_ns) for rank in ranks), RankChange)


def _change(rank: int, mine: Mapping[str, TimeChange], median: Mapping[str, TimeChange], far_ns: float) -> RankChange:
    whole = mine["whole"]
    return RankChange(
        rank=rank,
        a_ns=whole.a_ns,
        b_ns=whole.b_ns,
        diff_ns=whole.diff_ns,
        compute_diff_ns=mine["compute"].diff_ns,
        communication_diff_ns=mine["communication"].diff_ns,
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
