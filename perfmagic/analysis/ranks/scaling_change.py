"""Two sweeps over numbers of ranks beside each other: which is quicker on how many ranks, and in which part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfmagic import units
from perfmagic.analysis.ranks.scaling import MOST_FRAC, ScalingStat
from perfmagic.analysis.rows import Rows

PART_WORDS = {
    "compute_diff_ns": "compute",
    "exposed_transfer_diff_ns": "exposed communication with data moving",
    "exposed_waiting_diff_ns": "waiting for other ranks",
    "rest_diff_ns": "Python, copies and idle devices",
}


@dataclass(frozen=True)
class ScalingChange:
    """One number of ranks in the first sweep and in the second; ns.

    a_ns, b_ns: of the cell, the run of median time.  apart: every run of one is shorter than every run of the other;
    None where one has a single run.  *_diff_ns: how much more of a part the second has, the mean of the ranks; these
    add up to diff_ns.  efficiency_a_frac, efficiency_b_frac: each against its own fewest ranks.
    """

    ranks: int
    a_ns: int
    b_ns: int
    apart: bool | None
    efficiency_a_frac: float
    efficiency_b_frac: float
    compute_diff_ns: float
    exposed_waiting_diff_ns: float
    exposed_transfer_diff_ns: float
    rest_diff_ns: float

    @property
    def diff_ns(self) -> int:
        """How much longer it is in the second."""
        return self.b_ns - self.a_ns


def scaling_changes(
    first: Sequence[ScalingStat],
    second: Sequence[ScalingStat],
    times_ns: tuple[Mapping[int, Sequence[int]], Mapping[int, Sequence[int]]],
) -> Rows[ScalingChange]:
    """A row for each number of ranks that both have, rising.  times_ns: of every run of both, by number of ranks."""
    of_second = {row.ranks: row for row in second}
    rows = []
    for a in first:
        if a.ranks not in of_second:
            continue
        b = of_second[a.ranks]
        change = {f"{name}_diff_ns": getattr(b, f"{name}_ns") - getattr(a, f"{name}_ns") for name in _PARTS}
        rows.append(
            ScalingChange(
                ranks=a.ranks,
                a_ns=a.time_ns,
                b_ns=b.time_ns,
                apart=_apart(times_ns[0][a.ranks], times_ns[1][a.ranks]),
                efficiency_a_frac=a.efficiency_frac,
                efficiency_b_frac=b.efficiency_frac,
                **change,
            )
        )
    return Rows(rows, ScalingChange)


_PARTS = ("compute", "exposed_waiting", "exposed_transfer", "rest")


def _apart(first: Sequence[int], second: Sequence[int]) -> bool | None:
    if min(len(first), len(second)) < 2:
        return None
    return max(first) < min(second) or max(second) < min(first)


def change_words(rows: Sequence[ScalingChange], names: tuple[str, str]) -> str:
    """What changed on the most ranks, and in which part.  names: what sentences call the two."""
    last = rows[-1]
    both = f"{units.duration(last.a_ns)} → {units.duration(last.b_ns)}"
    on = f"On {units.plural(last.ranks, 'rank')}"
    if last.apart is False or not last.diff_ns:
        overlap = f"{on} the runs of {names[1]} and {names[0]} overlap ({both}): they show no difference"
        return overlap if last.diff_ns else f"{on} {names[1]} takes as long as {names[0]} ({both})"
    longer = "longer" if last.diff_ns > 0 else "shorter"
    share = units.signed_percent(last.diff_ns / last.a_ns)
    by = units.duration(abs(last.diff_ns))
    head = f"{on} {names[1]} is {by} {longer} than {names[0]} ({both}, {share})"
    parts = sorted(PART_WORDS, key=lambda name: -abs(getattr(last, name)))
    # the parts add up to the difference: those against it are none of its causes
    causes = [name for name in parts if getattr(last, name) * last.diff_ns > 0]
    named = causes[:1] if causes and getattr(last, causes[0]) / last.diff_ns >= MOST_FRAC else causes[:2]
    return f"{head}: {', '.join(f'{PART_WORDS[name]} {units.signed(getattr(last, name))}' for name in named)}"
