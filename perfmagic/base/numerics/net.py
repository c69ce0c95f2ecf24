"""The longest way to each node of a graph in which some nodes are met: they are reached with the last of several.

Where many nodes are reached at once, as of a thousand ranks, they are reached level by level; else one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perfmagic.base.numerics.longest import NEVER, NO_NODE, held_by, longest, ordered

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

WIDE = 25  # nodes that one level must have in the mean: a step of a loop takes 0.1 µs, a level 3 µs
TRIED = 50  # levels before that is judged


class _Level(NamedTuple):
    """What is reached at once: nodes and the heads of their predecessors, then what is met by which arrivals.

    starts: where among them those of each meeting begin.
    """

    nodes: Int64
    one: Int64
    two: Int64
    met: Int64
    arrivals: Int64
    starts: Int64


class Net:
    """A graph, prepared to be replayed with any lags. Raises ValueError where nodes wait for each other in a circle.

    first, second: the predecessors of each node, NO_NODE for none.  met, arrives: nodes that are reached with the last
    of what arrives, one row per arrival, by met. They have no other predecessors, and no lag.
    """

    def __init__(self, first: Int64, second: Int64, met: Int64, arrives: Int64) -> None:
        self.first, self.second, self.met, self.arrives = first, second, met, arrives
        chained = (second == NO_NODE) & (first != NO_NODE) & (first == np.arange(len(first)) - 1)
        self._chained, self._head = chained, np.maximum.accumulate(np.where(chained, 0, np.arange(len(first))))
        self._levels = self._made()
        if self._levels is None:
            self._one, self._two = self._joined()
            self._order = ordered(self._one, self._two)

    def reached(self, first_lag: Int64, second_lag: Int64) -> Int64:
        """When each node is reached: the later of its predecessors' times plus their lags, or with its last arrival."""
        if self._levels is None:
            one_lag, two_lag = np.zeros((2, len(self._one)), np.int64)
            for lag, given in ((one_lag, first_lag), (two_lag, second_lag)):
                lag[: len(given)] = given
                lag[self.met] = 0
            return longest(self._order, self._one, one_lag, self._two, two_lag)[: len(first_lag)]
        so_far = np.cumsum(np.where(self._chained, first_lag, 0))
        behind = so_far - so_far[self._head]
        has_one, has_two = self.first != NO_NODE, self.second != NO_NODE
        one_lag = np.where(has_two & ~has_one, NEVER, first_lag + np.where(has_one, behind[self.first], 0))
        two_lag = np.where(has_two, second_lag + behind[self.second], NEVER)
        times = np.zeros(len(first_lag) + 1, np.int64)  # the last one is the origin
        for nodes, one, two, met, arrivals, starts in self._levels:
            if len(nodes):
                times[nodes] = np.maximum(times[one] + one_lag[nodes], times[two] + two_lag[nodes])
            if len(met):
                times[met] = np.maximum.reduceat(times[self._head[arrivals]] + behind[arrivals], starts)
        reached: Int64 = times[self._head] + behind
        return reached

    def held_by(self, times: Int64, first_lag: Int64, second_lag: Int64) -> tuple[Int64, Bool]:
        """Of each node what held it, NO_NODE for none, and whether that is its second predecessor."""
        before, by_second = held_by(times, self.first, first_lag, self.second, second_lag)
        last = times[self.arrives] == times[self.met]
        before[self.met[last]] = self.arrives[last]
        return before, by_second

    def _made(self) -> list[_Level] | None:
        """What can be reached one after the other; None where that are too few nodes at once."""
        n, is_met = len(self.first), np.zeros(len(self.first), bool)
        is_met[self.met] = True
        one, two = (np.where(side == NO_NODE, n, self._head[side]) for side in (self.first, self.second))
        edges = [(side[at], at) for side in (one, two) for at in [np.flatnonzero(~self._chained & (side < n))]]
        edges.append((self._head[self.arrives], self.met))
        source, target = (np.concatenate(side) for side in zip(*edges, strict=True))
        found = _at_once(source, target, np.flatnonzero(~self._chained))
        if found is None:
            return None
        first = np.searchsorted(self.met, np.arange(n + 1))
        levels = []
        for nodes in found:
            met, others = nodes[is_met[nodes]], nodes[~is_met[nodes]]
            rows, starts = _slices(first, met)
            levels.append(_Level(others, one[others], two[others], met, self.arrives[rows], starts))
        return levels

    def _joined(self) -> tuple[Int64, Int64]:
        """The predecessors where what is met is joined of two at a time, by nodes behind the others."""
        met, arrives, n = self.met, self.arrives, len(self.first)
        goes_on, last = np.zeros(len(met), bool), np.ones(len(met), bool)
        goes_on[1:] = met[1:] == met[:-1]
        last[:-1] = ~goes_on[1:]
        inner = goes_on & ~last
        come = np.where(last, met, np.where(inner, n - 1 + np.cumsum(inner), arrives))
        one, two = (np.append(side, np.full(int(inner.sum()), NO_NODE)) for side in (self.first, self.second))
        one[come[goes_on]], two[come[goes_on]] = come[np.flatnonzero(goes_on) - 1], arrives[goes_on]
        alone = last & ~goes_on
        one[met[alone]] = arrives[alone]
        return one, two


def _at_once(source: Int64, target: Int64, nodes: Int64) -> list[Int64] | None:
    """Which nodes can be reached at once, one level after the other; None where they are too few in the mean."""
    n = int(nodes.max(initial=NO_NODE)) + 1
    missing = np.bincount(target, minlength=n)
    order = np.argsort(source, kind="stable")
    target, first = target[order], np.searchsorted(source[order], np.arange(n + 1))
    found: list[Int64] = []
    seen, ready = 0, nodes[missing[nodes] == 0]
    while len(ready):
        found.append(ready)
        seen += len(ready)
        if seen < WIDE * (len(found) - TRIED):
            return None
        freed, times = np.unique(target[_slices(first, ready)[0]], return_counts=True)
        missing[freed] -= times
        ready = freed[missing[freed] == 0]
    if seen < len(nodes):
        raise ValueError(f"{len(nodes) - seen} of {len(nodes)} nodes wait for each other in a circle")
    return found if seen >= WIDE * len(found) else None


def _slices(first: Int64, rows: Int64) -> tuple[Int64, Int64]:
    """The places of all that belongs to some rows, and where each row's begin among them."""
    counts = first[rows + 1] - first[rows]
    starts = np.cumsum(counts) - counts
    return np.repeat(first[rows] - starts, counts) + np.arange(int(counts.sum())), starts
