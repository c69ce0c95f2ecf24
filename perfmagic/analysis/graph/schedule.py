"""How long a graph of needs takes at least: its longest chain, and one op at a time in each lane."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence


def longest_chain(needs: Sequence[Iterable[int]], duration_ns: Sequence[int]) -> tuple[int, list[int]]:
    """The longest chain of needs, in ns, and its nodes in order; (0, []) without nodes.

    needs: for each node nodes before it.  Also called the span, or the critical path of the graph.
    """
    best: list[int] = []
    by: list[int] = []
    for node, mine in enumerate(needs):
        last = max(mine, key=lambda one: best[one], default=-1)
        by.append(last)
        best.append(duration_ns[node] + (best[last] if last >= 0 else 0))
    if not best:
        return 0, []
    at = max(range(len(best)), key=lambda node: best[node])
    length, chain = best[at], []
    while at >= 0:
        chain.append(at)
        at = by[at]
    return length, chain[::-1]


def schedule(needs: Sequence[Iterable[int]], duration_ns: Sequence[int], lane: Sequence[int]) -> tuple[list[int], int]:
    """When each node begins, and when the last has ended, if lanes do one node at a time and wait for needs alone.

    List scheduling (R. L. Graham 1966: at most twice as long as the best for lanes that are alike), with two rules for
    the node that comes first of those that are ready in a lane: the longest rest of a chain, or the order of calls. The
    first sends short nodes behind long ones, so that in a pipeline the next lane starts late; the second does not. The
    shorter schedule is given. Times in ns from 0.
    """
    rest = list(duration_ns)
    for node in range(len(rest) - 1, -1, -1):
        for one in needs[node]:
            rest[one] = max(rest[one], duration_ns[one] + rest[node])
    by_rest = _scheduled(needs, duration_ns, lane, [-one for one in rest])
    by_call = _scheduled(needs, duration_ns, lane, range(len(rest)))
    return min(by_rest, by_call, key=lambda found: found[1])


def _scheduled(
    needs: Sequence[Iterable[int]], duration_ns: Sequence[int], lane: Sequence[int], order: Sequence[int]
) -> tuple[list[int], int]:
    work = _Waiting(needs, lane, order)
    start = [0] * len(needs)
    ends: list[tuple[int, int]] = []  # of what runs
    now = 0
    while True:
        for node in work.begun():
            start[node] = now
            heapq.heappush(ends, (now + duration_ns[node], node))
        if not ends:
            return start, now
        now = ends[0][0]
        while ends and ends[0][0] == now:
            work.end(heapq.heappop(ends)[1])


class _Waiting:
    """The nodes that have not begun, and which lanes are free; the least of `order` comes first."""

    def __init__(self, needs: Sequence[Iterable[int]], lane: Sequence[int], order: Sequence[int]) -> None:
        self._lane = lane
        self._order = order
        self._after: list[list[int]] = [[] for _ in needs]
        self._missing = [len(set(mine)) for mine in needs]
        for node, mine in enumerate(needs):
            for one in set(mine):
                self._after[one].append(node)
        self._ready: dict[int, list[tuple[int, int]]] = {one: [] for one in lane}
        self._busy: set[int] = set()
        for node, n in enumerate(self._missing):
            if not n:
                self._add(node)

    def begun(self) -> Iterable[int]:
        """One node for each lane that is free and has one that is ready."""
        for lane, ready in self._ready.items():
            if ready and lane not in self._busy:
                self._busy.add(lane)
                yield heapq.heappop(ready)[1]

    def end(self, node: int) -> None:
        """A node has ended: its lane is free, and what needed it lacks one less."""
        self._busy.discard(self._lane[node])
        for one in self._after[node]:
            self._missing[one] -= 1
            if not self._missing[one]:
                self._add(one)

    def _add(self, node: int) -> None:
        heapq.heappush(self._ready[self._lane[node]], (self._order[node], node))


def earlier_by(
    needs: Sequence[Iterable[int]], start_ns: Sequence[int], end_ns: Sequence[int], lane: Sequence[int]
) -> list[int]:
    """By how much each node could have begun earlier: all that it needs had ended, and its lane was free.

    Counted from the first node's start. In ns; the others stay where they were.
    """
    found = [0] * len(start_ns)
    if not found:
        return found
    first = min(start_ns)
    free: dict[int, int] = {}
    for node in sorted(range(len(found)), key=lambda one: start_ns[one]):
        ready = max((end_ns[one] for one in needs[node]), default=first)
        ready = max(ready, free.get(lane[node], first))
        found[node] = max(0, start_ns[node] - ready)
        free[lane[node]] = max(free.get(lane[node], first), end_ns[node])
    return found
