"""Difference constraints between clocks: which offsets all facts allow, as intervals.

A fact reads "the offset of clock j is at most `most` above that of clock i": o_j - o_i <= most. Shortest paths join
facts (Cormen et al., Introduction to Algorithms, "difference constraints and shortest paths"): what remains holds the
truth wherever every fact does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]

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
        found = self.interval(i, j)
        return None if found is None else (found[1] - found[0] + 1) // 2

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

    facts: see no_facts(). Takes n³ steps of numpy, a second for 500 clocks.
    """
    most = np.minimum(facts, UNKNOWN)
    n = len(most)
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


def _path(step: npt.NDArray[np.int64], i: int, j: int) -> list[int]:
    way = [i]
    while way[-1] != j:
        way.append(int(step[way[-1], j]))
    return way
