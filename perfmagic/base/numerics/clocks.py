"""Difference constraints between clocks: which offsets all facts allow, as intervals; and clocks that drift evenly.

A fact reads "the offset of clock j is at most `most` above that of clock i": o_j - o_i <= most. Shortest paths join
facts (Cormen et al., Introduction to Algorithms, "difference constraints and shortest paths"): what remains holds the
truth wherever every fact does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]

EXACT = 128  # clocks up to which every path is looked at; of more those through one clock are
UNKNOWN = int(np.iinfo(np.int64).max // 4)  # no fact bounds it; two of them can be added


@dataclass(frozen=True, eq=False)
class Bounds:
    """What facts leave of the offsets of n clocks, in the unit of the facts.

    most: the most that offset j can lie above offset i, UNKNOWN where nothing says so; shape (n, n).
    contradiction: clocks in a circle whose facts cannot all hold, none where they can; by: by how much they miss. With
    a contradiction `most` says nothing.
    """

    most: Int64
    contradiction: tuple[int, ...] = ()
    by: int = 0

    @property
    def n(self) -> int:
        return len(self.most)

    def interval(self, i: int, j: int) -> tuple[int, int] | None:
        """The least and the most of offset j less offset i; None where facts leave one side open."""
        low, high = -int(self.most[j, i]), int(self.most[i, j])
        return None if max(-low, high) >= UNKNOWN else (low, high)

    def half_width(self, i: int, j: int) -> int | None:
        """How far the middle of that interval can be from the truth, rounded up; None where one side is open."""
        bounds = self.interval(i, j)
        return None if bounds is None else (bounds[1] - bounds[0] + 1) // 2

    def farthest(self, offsets: Int64) -> int | None:
        """How far the difference of any two of these offsets can be from the truth; None where one pair is open.

        offsets: allowed by all facts, shape (n,).
        """
        if (self.most >= UNKNOWN).any():
            return None
        return int((self.most - (offsets[None, :] - offsets[:, None])).max())

    def middles(self, reference: int = 0) -> Int64 | None:
        """Offsets in the middle of their intervals beside one clock, which allow each other; None where one is open.

        shape (n,).
        """
        high, low = self.most[reference], -self.most[:, reference]
        if (np.maximum(high, -low) >= UNKNOWN).any():
            return None
        middles: Int64 = low + (high - low) // 2
        return middles

    def nearest(self, wanted: Int64) -> Int64:
        """Offsets that all facts allow, each as near to the wanted one as those before it leave it; shape (n,)."""
        chosen = np.array(wanted, np.int64)
        if self.n > EXACT:  # facts were not all joined: the highest offsets below the wanted ones that all allow
            return _settled(self.most, chosen)[0]
        for j in range(1, self.n):
            lowest = (chosen[:j] - self.most[j, :j]).max()
            highest = (chosen[:j] + self.most[:j, j]).min()
            chosen[j] = min(max(chosen[j], lowest), highest)
        return chosen


def no_facts(n: int) -> Int64:
    """The matrix to which facts are added: entry [i, j] is the most that offset j lies above offset i; shape (n, n)."""
    most = np.full((n, n), UNKNOWN, np.int64)
    np.fill_diagonal(most, 0)
    return most


def joined(facts: Int64) -> Bounds:
    """What all facts together leave: every path from clock to clock is a fact, too, and the shortest counts.

    facts: see no_facts(). Takes n³ steps. Of more than EXACT clocks only paths through the first clock are joined, in
    n² steps or a few times as many: bounds are as true, and may be wider.
    """
    most = np.minimum(facts, UNKNOWN)
    n = len(most)
    if n > EXACT:
        return _through_first(most)
    step = np.tile(np.arange(n), (n, 1))  # [i, j]: the next clock on the shortest path from i to j
    for k in range(n):
        through = np.minimum(most[:, k, None] + most[None, k, :], UNKNOWN)
        circles = np.diagonal(through)
        if (circles < 0).any():
            i = int(circles.argmin())
            way = [*_path(step, i, k), *_path(step, k, i)]
            return Bounds(most, tuple(dict.fromkeys(way)), -int(circles[i]))
        shorter = through < most
        most = np.where(shorter, through, most)
        step = np.where(shorter, step[:, k, None], step)
    return Bounds(most)


def _through_first(most: Int64) -> Bounds:
    """Facts joined by the shortest paths from the first clock and to it."""
    start = np.full(len(most), UNKNOWN, np.int64)
    start[0] = 0
    away, circle = _settled(most, start)
    back = away
    if not circle:
        back, circle = _settled(most.T, start)
        circle = circle[::-1]
    if circle:
        by = -sum(int(most[i, j]) for i, j in zip(circle, (*circle[1:], circle[0]), strict=True))
        return Bounds(most, circle, by)
    known = (back[:, None] < UNKNOWN) & (away[None, :] < UNKNOWN)
    through = np.where(known, back[:, None] + away[None, :], UNKNOWN)
    np.fill_diagonal(through, 0)
    return Bounds(np.minimum(most, through))


def _settled(most: Int64, offsets: Int64) -> tuple[Int64, tuple[int, ...]]:
    """The highest offsets that all facts allow, none above the given ones; clocks of a circle where there are none.

    Bellman and Ford's algorithm: as many rounds of n² steps as the longest of the shortest paths has clocks. What
    bounds each clock most is kept: a circle of these is one of facts that cannot all hold.
    """
    by = np.full(len(most), -1)
    while True:
        known = np.flatnonzero(offsets < UNKNOWN)  # a clock that nothing bounds yet bounds no other
        through = np.where(most[known] < UNKNOWN, offsets[known, None] + most[known], UNKNOWN)
        best = through.argmin(axis=0)
        lower = through[best, np.arange(len(most))]
        changed = lower < offsets
        if not changed.any():
            return offsets, ()
        offsets = np.where(changed, lower, offsets)
        by = np.where(changed, known[best], by)
        if circle := _circle(by.tolist(), int(np.flatnonzero(changed)[0])):
            return offsets, circle


def _circle(by: list[int], clock: int) -> tuple[int, ...]:
    """The circle that one comes to from a clock, in the direction of the facts; nothing where there is none."""
    way: dict[int, int] = {}
    while clock >= 0 and clock not in way:
        way[clock] = len(way)
        clock = by[clock]
    return tuple(list(way)[way[clock] :][::-1]) if clock >= 0 else ()


def _path(step: npt.NDArray[np.int64], i: int, j: int) -> list[int]:
    way = [i]
    while way[-1] != j:
        way.append(int(step[way[-1], j]))
    return way


# Clocks that drift: quartzes differ by some 10 ppm, which is 0.6 ms a minute.

MOST_RATE = 2e-3  # of one clock against another: what differs by more is no drift
FEWEST_POINTS = 9  # of which the first and the last third are compared
CLEAR_RATIO = 6  # of what a drift makes over all points to their spread around it
LEAST_GROWN = 50_000  # ns: what grows by less is no drift, see SHARED_CLOCK_NS in perfmagic.analysis.ranks.alignment


def interval_slope(at: Int64, low: Int64, high: Int64) -> float:
    """How fast an offset grows that lay in some intervals at some instants; 0 where one offset fits all of them."""
    if len(at) < 2 or low.max() <= high.min() or not np.ptp(at):
        return 0.0
    slope = float(np.polyfit(at - at.mean(), (low + high) / 2, 1)[0])
    return slope if abs(slope) <= MOST_RATE else 0.0


def even_slope(at: Int64, offset: Int64) -> float:
    """How fast an offset grows that was measured at some instants; 0 where it does not grow evenly.

    The medians of the first and the last third are compared. It has to grow by much more than it scatters, and than the
    second third lies off the line: a step is no drift.
    """
    n = len(at) // 3
    if len(at) < FEWEST_POINTS or np.median(at[-n:]) <= np.median(at[:n]):
        return 0.0
    run = float(np.median(at[-n:]) - np.median(at[:n]))
    slope = float(np.median(offset[-n:]) - np.median(offset[:n])) / run
    left = offset - slope * (at - at[0])
    scatter, grown = float(np.median(np.abs(left - np.median(left)))), abs(slope) * float(np.ptp(at))
    bent = abs(float(np.median(left[n:-n]) - np.median(left[:n])))
    clear = abs(slope) <= MOST_RATE and grown > max(LEAST_GROWN, CLEAR_RATIO * max(scatter, bent))
    return slope if clear else 0.0


def rates_of(slopes: Mapping[tuple[str, str], float], first: str) -> dict[str, float]:
    """The rate of each clock against the first one, through pairs of clocks; those that no pair joins are left out."""
    rates, found = {first: 0.0}, True
    while found:
        found = False
        for (one, other), slope in slopes.items():
            if one in rates and other not in rates:
                rates[other], found = rates[one] + slope, True
            elif other in rates and one not in rates:
                rates[one], found = rates[other] - slope, True
    return rates
