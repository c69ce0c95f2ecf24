"""The longest way to each node of a graph without circles, where a node has at most two predecessors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

NO_NODE = -1
NEVER = -(2**60)  # a lag that holds nothing


def ordered(first: Int64, second: Int64) -> Int64:
    """The nodes with predecessors first, whatever their times. Raises ValueError for a circle."""
    n = len(first)
    targets = np.concatenate([np.flatnonzero(side != NO_NODE) for side in (first, second)])
    sources = np.concatenate([side[side != NO_NODE] for side in (first, second)])
    by_source = np.argsort(sources, kind="stable")
    after = targets[by_source].tolist()
    starts = np.searchsorted(sources[by_source], np.arange(n + 1)).tolist()
    missing = np.bincount(targets, minlength=n).tolist()
    order = [node for node, count in enumerate(missing) if not count]
    for node in order:  # it grows meanwhile
        for follower in after[starts[node] : starts[node + 1]]:
            missing[follower] -= 1
            if not missing[follower]:
                order.append(follower)
    if len(order) != n:
        raise ValueError(f"{n - len(order)} of {n} nodes wait for each other in a circle")
    return np.array(order, np.int64)


def longest(order: Int64, first: Int64, first_lag: Int64, second: Int64, second_lag: Int64) -> Int64:
    """When each node is reached: the later of its predecessors' times plus their lags.

    order: as from ordered.  A node without predecessors is reached at first_lag. Shape of first.
    """
    n = len(order)
    # most instants of a host thread only follow the one before them: sums, without a step of the loop
    chained = (second == NO_NODE) & (first != NO_NODE) & (first == np.arange(n) - 1)
    head = np.maximum.accumulate(np.where(chained, 0, np.arange(n)))
    so_far = np.cumsum(np.where(chained, first_lag, 0))
    behind = so_far - so_far[head]
    heads = order[~chained[order]]
    result = np.empty(n, np.int64)
    result[heads] = _reached(heads, head, behind, (first, first_lag), (second, second_lag))
    reached: Int64 = result[head] + behind
    return reached


def _reached(heads: Int64, head: Int64, behind: Int64, *sides: tuple[Int64, Int64]) -> list[int]:
    """When each head of a chain is reached.  head, behind: of each node its chain's head and how long after it."""
    place = np.zeros(len(head) + 1, np.int64)  # the origin, at time 0, is that of NO_NODE
    place[heads] = np.arange(1, len(heads) + 1)
    (one, lag_one), (two, lag_two) = ((node[heads], lag[heads]) for node, lag in sides)
    lag_one = np.where((one == NO_NODE) & (two != NO_NODE), NEVER, lag_one + np.where(one == NO_NODE, 0, behind[one]))
    lag_two = np.where(two == NO_NODE, NEVER, lag_two + behind[two])
    at_one, at_two = (place[np.where(node == NO_NODE, NO_NODE, head[node])] for node in (one, two))
    times = [0]
    reach = times.append
    for i, a, j, b in zip(at_one.tolist(), lag_one.tolist(), at_two.tolist(), lag_two.tolist(), strict=True):
        u, v = times[i] + a, times[j] + b
        reach(u if u > v else v)  # noqa: FURB136 - max() takes three times as long, and this is the whole replay
    return times[1:]


def held_by(times: Int64, first: Int64, first_lag: Int64, second: Int64, second_lag: Int64) -> tuple[Int64, Bool]:
    """Of each node the predecessor that held it, NO_NODE for none, and whether that is the second one."""
    by_first, by_second = (
        (node != NO_NODE) & (times[node] + lag == times) for node, lag in ((first, first_lag), (second, second_lag))
    )
    return np.where(by_second, second, np.where(by_first, first, NO_NODE)), by_second


def way_back(node: int, before: Int64) -> Int64:
    """The nodes that held a node, itself first, back to one that waits for none.  before: as from held_by."""
    way = []
    while node != NO_NODE:
        way.append(node)
        node = int(before[node])
    return np.array(way, np.int64)
