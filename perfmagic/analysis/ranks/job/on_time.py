"""A job in which no rank is later to a collective than the median of its ranks.

What a rank does between two collectives then takes no longer than what the median rank does there. The question is that
of Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.ranks.job.graph import JobGraph
from perfmagic.analysis.replay.graph import Links
from perfmagic.numerics.longest import NO_NODE
from perfmagic.trace.columns import Int64

FEWEST = 3  # of two ranks the median lies between them: nobody came then
_MOST_ROUNDS = 8  # what held a rank less may hold it now
_LEFT_FRAC = 0.01  # of the lateness: a round that takes away less is the last


def on_time(job: JobGraph) -> JobGraph:
    """The job with what made ranks late cut down, so far that they come with the median of a collective's ranks.

    A rank's first collective stays: ranks come to it as their records begin. So does lateness that may be a clock's.
    """
    changed, before_ns = job, None
    for _ in range(_MOST_ROUNDS):
        times = changed.replayed_ns()
        late = list(_late(changed, times))
        left_ns = sum(sum(one.values()) for one in late)
        if not left_ns or (before_ns is not None and left_ns > (1 - _LEFT_FRAC) * before_ns):
            break
        cuts = _Cuts(changed, times)
        for late_ns in late:
            cuts.cut(late_ns)
        changed, before_ns = changed.with_links(*cuts.links), left_ns
    return changed


def _late(job: JobGraph, times: Int64) -> Iterator[dict[int, int]]:
    """Of each collective, by time, how late each rank is, by the instant at which it begins there; ns."""
    edges = np.flatnonzero(np.diff(job.met_of)) + 1
    several = np.split(job.begins, edges) if len(job.begins) else []
    errs_ns = [job.met[int(number)].errs_ns for number in job.met_of[np.concatenate(([0], edges))]] if several else []
    seen: set[int] = set()
    for begins, err_ns in sorted(zip(several, errs_ns, strict=True), key=lambda one: int(times[one[0]].max())):
        ranks = set(job.rank[begins].tolist())
        first, seen = not ranks <= seen, seen | ranks
        if first or len(begins) < FEWEST:
            continue
        late_ns = times[begins] - int(np.median(times[begins]))
        yield dict(zip(begins.tolist(), np.where(late_ns > err_ns, late_ns, 0).tolist(), strict=True))


@dataclass(frozen=True)
class _Way:
    """What held an instant since the collective before it on its rank.

    steps: first to last, each an instant and which of its links held it.  since_ns: when that collective ended.
    cut_ns: what is cut already before the first step.
    """

    steps: tuple[tuple[int, int], ...]
    since_ns: int
    cut_ns: int


class _Cuts:
    """What is cut from the ways to collectives. links: what is left."""

    def __init__(self, job: JobGraph, times: Int64) -> None:
        self.links: tuple[Links, Links] = (job.first.copy(), job.second.copy())
        self._at = times.tolist()
        self._nodes = [links.node.tolist() for links in self.links]
        self._lags = [links.lag_ns.tolist() for links in self.links]
        self._ends = set(job.ends.tolist())
        self._known: dict[int, tuple[int, int]] = {}  # of instants on a way: since_ns, and what is cut up to them

    def cut(self, late_ns: dict[int, int]) -> None:
        """Let ranks come earlier to a collective by as much as they are late, where their own way there is why."""
        ways = {begin: self._way(begin) for begin in late_ns}
        usual_ns = int(np.median([self._at[begin] - way.since_ns for begin, way in ways.items()]))
        for begin, way in ways.items():
            own_ns = self._at[begin] - way.since_ns
            self._shorten(begin, way, max(0, min(late_ns[begin], own_ns - usual_ns) - way.cut_ns))

    def _way(self, begin: int) -> _Way:
        steps: list[tuple[int, int]] = []
        node = begin
        while True:
            if node in self._known:
                since_ns, cut_ns = self._known[node]
                return _Way(tuple(reversed(steps)), since_ns, cut_ns)
            side = self._held_by(node)
            if node in self._ends or side is None:
                return _Way(tuple(reversed(steps)), self._at[node], 0)
            steps.append((node, side))
            node = self._nodes[side][node]

    def _held_by(self, node: int) -> int | None:
        for side in (1, 0):
            before = self._nodes[side][node]
            if before != NO_NODE and self._at[before] + self._lags[side][node] == self._at[node]:
                return side
        return None

    def _shorten(self, begin: int, way: _Way, less_ns: int) -> None:
        """Take less_ns from a way, of each step in proportion."""
        took_ns = sum(max(0, self._lags[side][node]) for node, side in way.steps)
        cut_ns, done_ns = way.cut_ns, 0
        for node, side in way.steps:
            lag_ns = max(0, self._lags[side][node])
            done_ns += lag_ns
            # from sums, so that what rounds off is not lost
            until_ns = way.cut_ns + (min(less_ns, took_ns) * done_ns // took_ns if took_ns else 0)
            for links in self.links:
                links.lag_ns[node] -= np.minimum(until_ns - cut_ns, np.maximum(0, links.lag_ns[node]))
            cut_ns = until_ns
            self._known[node] = (way.since_ns, cut_ns)
