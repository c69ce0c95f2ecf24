"""How long a run would take with changes: an interval, or why nothing can be said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmagic.analysis.replay.build import graph_of
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.changes.together import applied
from perfmagic.analysis.replay.critical_path import run_begins_ns
from perfmagic.analysis.replay.device_ops import UNEXPLAINED_NS
from perfmagic.analysis.replay.graph import Graph
from perfmagic.analysis.replay.refusals import refusal
from perfmagic.analysis.replay.unseen_ranks import not_earlier, with_others
from perfmagic.analysis.rows import Rows
from perfmagic.trace.columns import Int64
from perfmagic.trace.model import Trace

# The half of the pairs in benchmarks/what_if.py that chose it missed by less; the other half is its check
MARGIN_FRAC = 0.05
IF_OTHERS = "if the other ranks gain as much"
SMALL_FRAC = 0.05  # of the run: what gains less gains next to nothing


@dataclass(frozen=True, eq=False)
class Readings:
    """A trace as graphs: what nothing explains is the op's own, or a wait for the op that ended just before."""

    stays: Graph
    waits: Graph

    @classmethod
    def of(cls, trace: Trace) -> Readings:
        """Both graphs; they are equal on the record, and one where it explains everything."""
        stays = graph_of(trace)
        unclear = bool((stays.unexplained_ns > UNEXPLAINED_NS).any())
        return cls(stays, graph_of(trace, unseen=True) if unclear else stays)

    @property
    def each(self) -> tuple[Graph, ...]:
        return (self.stays,) if self.waits is self.stays else (self.stays, self.waits)

    @property
    def run_ns(self) -> int:
        """How long the recorded run took, until the last op and the last call."""
        return self.stays.end_ns - run_begins_ns(self.stays)


@dataclass(frozen=True, eq=False)
class Prediction:
    """What changes would make of a recorded run; times in ns.

    changes: in words.  recorded_ns: the run as it is.  low_ns, high_ns: between these it would take.  expected_ns: with
    the better end of each assumption; of a bound the least of all.
    at_most: a change removes what none can remove better: the gain is a bound.
    refused: why nothing is predicted, "" where something is; the times are then the recorded one.
    alone_ns: what it would take at most where the other ranks, which are not in the record, do not change; None where
    nothing is communicated. All other times are of ranks that gain as much.
    graph, times_ns: the changed graph and when its instants would be, None where refused.
    """

    changes: tuple[str, ...]
    recorded_ns: int
    expected_ns: int
    low_ns: int
    high_ns: int
    at_most: bool = False
    refused: str = ""
    graph: Graph | None = None
    times_ns: Int64 | None = None
    alone_ns: int | None = None

    @property
    def if_others(self) -> bool:
        """Whether the prediction holds only where the other ranks gain as much."""
        return self.alone_ns is not None and self.alone_ns > self.high_ns

    @property
    def gain_ns(self) -> tuple[int, int]:
        """The least and the most that the changes gain; never below 0."""
        least = 0 if self.at_most else max(0, self.recorded_ns - self.high_ns)
        return least, max(0, self.recorded_ns - self.low_ns)

    @property
    def won_ns(self) -> int:
        """What the changes are expected to gain, or at most gain; never below 0."""
        return max(0, self.recorded_ns - self.expected_ns)

    @property
    def small(self) -> bool:
        """Whether the run would take next to as long as it did."""
        return abs(self.recorded_ns - self.expected_ns) < SMALL_FRAC * self.recorded_ns


def predict(readings: Readings, changes: Sequence[Change]) -> Prediction:
    """What some changes together would make of a run."""
    recorded_ns = readings.run_ns
    words = tuple(change.words for change in changes)
    why = refusal(readings.stays) or next(filter(None, (change.refusal(readings.stays) for change in changes)), "")
    if why or not changes:
        return Prediction(words, recorded_ns, recorded_ns, recorded_ns, recorded_ns, refused=why)
    found: list[tuple[Graph, Int64]] = []
    for graph in readings.each:
        for best in (True, False) if any(change.assumes for change in changes) else (True,):
            changed = applied(graph, changes, best=best)
            found.append((changed, changed.replayed_ns()))
    taken = [int(times.max()) - run_begins_ns(readings.stays) for _, times in found]
    told = hull(words, recorded_ns, taken, bound=any(change.at_most for change in changes))
    changed, times_ns = found[0]
    others = with_others(readings.stays.trace)
    alone_ns = (
        int(not_earlier(changed, others).replayed_ns().max()) - run_begins_ns(readings.stays) if len(others) else None
    )
    return replace(told, graph=changed, times_ns=times_ns, alone_ns=alone_ns)


def hull(words: tuple[str, ...], recorded_ns: int, taken_ns: Sequence[int], *, bound: bool) -> Prediction:
    """What is predicted where a run would take one of several times, of which the first is the expected one.

    words: of the changes.  bound: a change removes what none can remove better.
    """
    margin_ns = 0 if bound else int(MARGIN_FRAC * float(np.mean(taken_ns)))
    return Prediction(
        words,
        recorded_ns,
        expected_ns=min(taken_ns) if bound else taken_ns[0],
        low_ns=max(0, min(taken_ns) - margin_ns),
        high_ns=max(taken_ns) + margin_ns,
        at_most=bound,
    )


@dataclass(frozen=True)
class CurvePoint:
    """What a run would take with something k times as fast; times in ns. In JSON k is null where it takes no time.

    won_ns: what that gains.  low_ns, high_ns: between these the run would take.
    """

    k: float
    predicted_ns: int
    won_ns: int
    low_ns: int
    high_ns: int


def curve(readings: Readings, change_of: Callable[[float], Change], factors: Sequence[float]) -> Rows[CurvePoint]:
    """The gain against how much faster something becomes: where it goes flat, something else holds the run.

    Raises ValueError, with the reason, where nothing is predicted. Source: Curtsinger and Berger, "Coz", SOSP 2015.
    """
    points = []
    for k in factors:
        found = predict(readings, [change_of(k)])
        if found.refused:
            raise ValueError(found.refused)
        points.append(CurvePoint(k, found.expected_ns, found.won_ns, found.low_ns, found.high_ns))
    return Rows(points, CurvePoint)
