"""How long a run would take with changes: an interval, or why nothing can be said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from perfmagic.analysis import verdict as kinds
from perfmagic.analysis.replay.build import graph_of
from perfmagic.analysis.replay.changes.change import Change, applied, set_lengths
from perfmagic.analysis.replay.changes.host import FasterPython
from perfmagic.analysis.replay.critical_path import CriticalPath, PathShare, critical_path, judge
from perfmagic.analysis.replay.device_ops import UNEXPLAINED_NS
from perfmagic.analysis.replay.graph import Edge, Graph, Links
from perfmagic.analysis.timeline.trust import Trust, cut_or_sampled, incomplete_graphs, missing_calls, trust
from perfmagic.base import units
from perfmagic.base.language import Words, counted, phrase
from perfmagic.base.numerics.intervals import total_ns, union
from perfmagic.base.numerics.longest import NO_NODE
from perfmagic.trace.columns import NONE, Int64, Remark
from perfmagic.trace.model import Trace, once_per_trace
from perfmagic.trace.names import OpClass, op_classes, unknown_operators
from perfmagic.trace.rows import Rows

# When a record does not carry a prediction, and why, in a sentence.

UNEXPLAINED_FRAC = 0.1  # it parts 35 of 42 real traces, below 8 %, from seven above 17 %
# An op of the simulated device lasts 1.4 to 3 times its pace below this length: threads of the host take turns
JITTER_NS = 300_000
JITTER_FRAC = 0.2


def not_predictable(graph: Graph) -> str:
    """Why no change of this record can be predicted; "" where it can."""
    return unreadable(graph) or _unsteady(graph.trace) or _jitter(graph)


def unreadable(graph: Graph) -> str:
    """Why the record does not even say what limited the run; "" where it does."""
    trace = graph.trace
    if not len(trace.ops):
        return phrase("no device op was recorded")
    if not (trace.ops.launch != NONE).any():
        return phrase("no launch was recorded: when ops were queued is unknown")
    return _incomplete(trace) or _missing(graph) or _unexplained(graph)


def _incomplete(trace: Trace) -> str:
    meta = trace.meta
    if meta.dropped_events:
        return counted(
            meta.dropped_events,
            "{n} event beyond the limit is missing from the record",
            "{n} events beyond the limit are missing from the record",
        )
    remark = incomplete_graphs(trace) or cut_or_sampled(trace)
    return remark.words if remark else ""


def _missing(graph: Graph) -> str:
    """That calls are missing from the record for so long that what Python did is not known."""
    missing_ns = total_ns(missing_calls(graph.trace).where)
    if missing_ns <= UNEXPLAINED_FRAC * graph.run_ns:
        return ""
    return phrase("calls are missing: for {time} nothing of the host is recorded", time=units.duration(missing_ns))


def _unsteady(trace: Trace) -> str:
    if trace.meta.predicted:
        return phrase("this is a prediction itself")
    if trace.meta.failed:
        return phrase("the cell failed")
    if trace.meta.races:
        return phrase("a wait between streams is missing: the cell computes something else each time")
    return ""


def _unexplained(graph: Graph) -> str:
    share = unexplained_frac(graph)
    if share <= UNEXPLAINED_FRAC:
        return ""
    return phrase(
        "{share} of the time is unexplained: ops began late for no recorded reason", share=units.percent(share)
    )


def unexplained_frac(graph: Graph) -> float:
    """The share of the run in which some op was late for reasons that the record does not show."""
    late_ns = graph.unexplained_ns
    rows = np.flatnonzero(late_ns > UNEXPLAINED_NS)
    start_ns = graph.trace.ops.start_ns[rows]
    return total_ns(union(start_ns - late_ns[rows], start_ns)) / graph.run_ns if graph.run_ns else 0.0


def _jitter(graph: Graph) -> str:
    """Ops of a simulated device on threads, too short for their lengths to be its own."""
    if not any(info.simulated and not info.virtual for info in graph.trace.meta.devices):
        return ""
    ops = graph.trace.ops
    length_ns = ops.end_ns - ops.start_ns
    if int(length_ns[length_ns < JITTER_NS].sum()) <= JITTER_FRAC * graph.run_ns:
        return ""
    return phrase(
        "ops of the simulated device below {time} depend on the host's threads: give them a longer pace",
        time=units.duration(JITTER_NS),
    )


# Ranks without a record here: a collective with them may end as it did, whatever changes.


def with_others(trace: Trace) -> Int64:
    """The ops that communicate with other ranks, rows of trace.ops; those of a group of one do not."""
    rows = np.flatnonzero(op_classes(trace) == OpClass.COMMUNICATION)
    alone = [i for i, collective in enumerate(trace.collectives) if collective.group_size == 1]
    collective = trace.ops.collective[rows]
    with_peers: Int64 = rows[(collective == NONE) | ~np.isin(collective, alone)]
    return with_peers


def not_earlier(graph: Graph, ops: Int64) -> Graph:
    """The graph with some ops that end no earlier than they did, as where other ranks come no earlier.

    ops: rows of trace.ops; those that a change lets take no time end when they may.
    """
    ops = ops[graph.length_ns[graph.op_node[ops]] > 0]
    n, more = len(graph), len(ops)
    ends = graph.op_node[ops]
    held, done = n + np.arange(more), n + more + np.arange(more)
    ended_ns = graph.trace.ops.end_ns[ops]
    # what held the op until now becomes an instant of its own, beside the one at which it ended
    first = _moved(graph.first, ends, ended_ns)
    second = _moved(graph.second, ends, np.zeros(more, np.int64))
    for links, before in ((first, held), (second, done)):
        links.node[ends], links.lag_ns[ends], links.kind[ends] = before, 0, Edge.OTHER_RANK
    order = None
    if not graph.reordered:
        place = np.empty(n, np.int64)
        place[graph.order] = np.arange(n)
        order = np.concatenate((done, np.insert(graph.order, place[ends], held)))
    return graph.with_joins(first, second, np.concatenate((ended_ns, ended_ns)), order)


def _moved(links: Links, ends: Int64, lag_ns: Int64) -> Links:
    """Links extended by two instants for each end: the links that it had, and none.  lag_ns: of those without."""
    return links.extended(
        np.concatenate((links.node[ends], np.full(len(ends), NO_NODE, np.int64))),
        np.concatenate((links.lag_ns[ends], lag_ns)),
        np.concatenate((links.kind[ends], np.full(len(ends), Edge.ORIGIN))).astype(np.int8),
    )


# The half of the pairs in benchmarks/what_if.py that chose it missed by less; the other half is its check
MARGIN_FRAC = 0.05
IF_OTHERS = phrase(", if the other ranks gain as much")
SMALL_FRAC = 0.05  # of the run: a smaller gain counts as almost nothing


@dataclass(frozen=True, eq=False)
class Readings:
    """A trace as two graphs: a delay that nothing explains is the op's own, or a wait for another op."""

    stays: Graph
    waits: Graph

    @classmethod
    def from_trace(cls, trace: Trace) -> Readings:
        """Both graphs; they are equal on the record, and one where it explains everything, or too little to predict."""
        stays = graph_of(trace)
        unclear = bool((stays.unexplained_ns > UNEXPLAINED_NS).any()) and not not_predictable(stays)
        return cls(stays, graph_of(trace, unseen=True) if unclear else stays)

    @property
    def each(self) -> tuple[Graph, ...]:
        return (self.stays,) if self.waits is self.stays else (self.stays, self.waits)

    @property
    def run_ns(self) -> int:
        return self.stays.run_ns


@dataclass(frozen=True, eq=False)
class Prediction:
    """What changes would make of a recorded run; times in ns.

    changes: in words.  recorded_ns: the run as it is.  low_ns, high_ns: between these it would take.  expected_ns: with
    the better end of each assumption; of a bound the least of all.
    at_most: a change removes what none can remove better: the gain is a bound, but not on another GPU.
    refused: why nothing is predicted, "" where something is; the times are then the recorded one.
    spread: the factor by which the model of another GPU may be off, which the interval has; 1 for all else.
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
    spread: float = 1.0

    @property
    def if_others(self) -> bool:
        """Whether the prediction holds only where the other ranks gain as much."""
        return self.alone_ns is not None and self.alone_ns > self.high_ns

    @property
    def gain_ns(self) -> tuple[int, int]:
        """The least and the most that the changes gain; below 0 where the run may take longer, but not of a bound."""
        return 0 if self.at_most else self.recorded_ns - self.high_ns, self.recorded_ns - self.low_ns

    @property
    def shown(self) -> Callable[[float], str]:
        """How its times are written: with two digits where a model's error is in them."""
        return units.duration if self.spread == 1 else units.rough_duration

    @property
    def won_ns(self) -> int:
        """What the changes are expected to gain, or at most gain; never below 0."""
        return max(0, self.recorded_ns - self.expected_ns)

    @property
    def small(self) -> bool:
        """Whether the run would take next to as long as it did."""
        return abs(self.recorded_ns - self.expected_ns) < SMALL_FRAC * self.recorded_ns


def if_others(prediction: Prediction) -> str:
    """On what a prediction for one rank rests; "" where it rests on nothing."""
    return IF_OTHERS if prediction.if_others else ""


def predict(readings: Readings, changes: Sequence[Change]) -> Prediction:
    """What some changes together would make of a run."""
    recorded_ns = readings.run_ns
    reasons = (change.not_applicable(readings.stays) for change in changes)
    why = not_predictable(readings.stays) or next(filter(None, reasons), "")
    words = tuple(change.description if why else change.described(readings.stays) for change in changes)
    if why or not changes:
        return Prediction(words, recorded_ns, recorded_ns, recorded_ns, recorded_ns, refused=why)
    spread = max(change.spread(readings.stays) for change in changes)
    bound = any(change.at_most for change in changes)
    replays: list[tuple[Graph, Int64]] = []
    bests = (True, False) if any(change.assumes for change in changes) else (True,)
    for end, graph, best in product(ends_of({0: changes}, spread), readings.each, bests):
        changed = applied(graph, end[0], best=best)
        replays.append((changed, changed.replayed_ns()))
    taken = [int(times.max()) - readings.stays.begins_ns for _, times in replays]
    prediction = interval(words, recorded_ns, taken, bound=bound, spread=spread)
    changed, times_ns = replays[0]
    others = with_others(readings.stays.trace)
    alone_ns = None
    if len(others):
        alone_ns = round(spread * (int(not_earlier(changed, others).replayed_ns().max()) - readings.stays.begins_ns))
    return replace(prediction, graph=changed, times_ns=times_ns, alone_ns=alone_ns)


def ends_of(changes: Mapping[int, Sequence[Change]], spread: float) -> list[dict[int, list[Change]]]:
    """The changes of each rank as expected, then what else they may come to.  spread: as of a prediction.

    An interval that a model's error makes has no bound in it: it reaches to the run without the change that is one.
    """
    ends = [{rank: list(of_rank) for rank, of_rank in changes.items()}]
    ends.append({rank: [change.otherwise() for change in of_rank] for rank, of_rank in changes.items()})
    if spread > 1:
        ends += [{rank: [c for c in of_rank if not c.at_most] for rank, of_rank in end.items()} for end in ends]
    return [end for at, end in enumerate(ends) if end not in ends[:at]]


def interval(
    words: tuple[str, ...], recorded_ns: int, taken_ns: Sequence[int], *, bound: bool, spread: float = 1.0
) -> Prediction:
    """What is predicted where a run would take one of several times, of which the first is the expected one.

    words: of the changes.  bound: a change removes what none can remove better.  spread: as of a prediction; it was
    measured on whole records, so that no margin of the replay is added, and a run may be shorter than a bound.
    """
    bound = bound and spread == 1
    margin_ns = 0 if bound or spread > 1 else int(MARGIN_FRAC * float(np.mean(taken_ns)))
    return Prediction(
        words,
        recorded_ns,
        expected_ns=min(taken_ns) if bound else taken_ns[0],
        low_ns=max(0, round(min(taken_ns) / spread) - margin_ns),
        high_ns=round(max(taken_ns) * spread) + margin_ns,
        at_most=bound,
        spread=spread,
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
    """The gain against how much faster something becomes: where it goes flat, something else limits the run.

    Raises ValueError, with the reason, where nothing is predicted. Source: Curtsinger and Berger, "Coz", SOSP 2015.
    """
    points = []
    for k in factors:
        prediction = predict(readings, [change_of(k)])
        if prediction.refused:
            raise ValueError(prediction.refused)
        points.append(CurvePoint(k, prediction.expected_ns, prediction.won_ns, prediction.low_ns, prediction.high_ns))
    return Rows(points, CurvePoint)


# The critical path of a trace for the pictures of it, and why a picture lacks it.

MOST_INSTANTS = 100_000  # of a graph: a larger one is built when somebody asks for its path, not for each picture
MOST_REPLAYED = 200_000  # for answers: there a replay of each takes some 0.1 s


def in_passing(trace: Trace) -> bool:
    """Whether the graph of a trace is small enough to be built for a picture of it."""
    return bool(len(trace.ops)) and _instants(trace) <= MOST_INSTANTS


def replayed_in_passing(trace: Trace) -> bool:
    """Whether the graph of a trace is small enough to be replayed for each answer."""
    return bool(len(trace.ops)) and _instants(trace) <= MOST_REPLAYED


def _instants(trace: Trace) -> int:
    return 2 * len(trace.calls) + len(trace.ops)


def path_shares(trace: Trace, comm_names: str | None = None) -> tuple[PathShare, ...]:
    """The kinds of what limited the run; empty where drawn_path gives None."""
    path = drawn_path(trace, comm_names)
    return path.shares if path else ()


def drawn_path(trace: Trace, comm_names: str | None = None) -> CriticalPath | None:
    """What limited the run; None where why_no_path says why not."""
    return _path_or_reason(trace, comm_names)[0]


def why_no_path(trace: Trace, comm_names: str | None = None) -> Words | None:
    """Why a trace with device ops has no critical path in its picture, or no gains, a sentence; None where it has."""
    return _path_or_reason(trace, comm_names)[1]


@once_per_trace
def _path_or_reason(trace: Trace, comm_names: str | None = None) -> tuple[CriticalPath | None, Words | None]:
    """What limited the run, and why that, or what a change would gain, is not known.

    A record has no path where it is too large, see in_passing, or leaves too much unexplained. Nor has a prediction,
    whose replay knows its own path, or a cell that failed: what held its beginning need not hold all of it.
    """
    if not len(trace.ops) or trace.meta.predicted or trace.meta.failed:
        return None, None
    if not in_passing(trace):
        if replayed_in_passing(trace):
            return None, phrase("the record is large: t.critical_path() gives its path")
        return None, phrase("the record is large: t.critical_path() and t.what_if() give its path and gains")
    graph = graph_of(trace)
    if why := unreadable(graph):
        return None, phrase("no critical path and no replay: {why}", why=why)
    why = not_predictable(graph)
    return critical_path(graph, graph.time_ns, comm_names), phrase("no gains: {why}", why=why) if why else None


def full_trust(trace: Trace, comm_names: str | None = None) -> Trust:
    """The trust counts of a trace, and why it has no critical path or no gains where it has none.

    comm_names: as in perfmagic.trace.names.op_classes.
    """
    why = why_no_path(trace, comm_names)
    return replace(trust(trace), untold=(Remark("untold", why),)) if why else trust(trace)


# What a GPU's model leaves open of a run that it predicted.

# Verdicts that name the same decider
_BY_DEVICE = frozenset({kinds.DEVICE_BOUND, kinds.COPY_BOUND, kinds.COMMUNICATION_BOUND})
_BY_HOST = frozenset({kinds.HOST_BOUND, kinds.START_UP, kinds.HOST_TAIL, kinds.LATENCY_BOUND})


@dataclass(frozen=True)
class Corners:
    """A predicted run with its device and its host as slow and as fast as they may be together: see PredictedFor.ends.

    low_ns, high_ns: between these it takes; the first is all that is known where an op has no model.
    kinds: of the verdicts, that with the slowest device and the fastest host first, its opposite next.
    unknown: names of operators without a model, whose ops take at least what the record has.
    """

    low_ns: int
    high_ns: int
    kinds: tuple[str, ...]
    unknown: tuple[str, ...] = ()

    def rivals(self, kind: str) -> tuple[str, str] | None:
        """Two verdicts that name different deciders; None where all agree.  kind: of the verdict as predicted."""
        known: dict[str, str] = {}
        for each in (*self.kinds, kind):
            known.setdefault(_decider(each), each)
        first, *others = known.values()
        return (first, others[0]) if others else None

    def is_open(self, kind: str) -> bool:
        """Whether the model cannot tell who decides: more time of unknown ops only ever speaks for the device."""
        return self.rivals(kind) is not None or bool(self.unknown and kind not in _BY_DEVICE)

    @property
    def words(self) -> str:
        """Between what the run takes: "1.1 to 1.9 ms in all"."""
        low, high = units.rough_duration(self.low_ns), units.rough_duration(self.high_ns)
        number, _, unit = low.partition(units.NBSP)
        return phrase("{low} to {high} in all", low=number if unit == high.partition(units.NBSP)[2] else low, high=high)


def _decider(kind: str) -> str:
    return "device" if kind in _BY_DEVICE else "host" if kind in _BY_HOST else kind


@once_per_trace
def corners(trace: Trace, device: int | None = None, comm_names: str | None = None) -> Corners | None:
    """The ends of a predicted run; None for a recorded one, and where its record cannot be replayed.

    device: the busiest.  comm_names: as in perfmagic.trace.names.op_classes.
    A run that was recorded and replayed on another GPU has its host as recorded.
    """
    models = [info.predicted for info in trace.meta.devices if info.predicted]
    if not models or not replayed_in_passing(trace):
        return None
    graph = graph_of(trace)
    if unreadable(graph):
        return None
    widest = max(models, key=lambda model: model.spread)
    points = widest.ends
    if trace.meta.predicted:
        points = (widest.spread, 1.0), (1 / widest.spread, 1.0)
    ends = [_judged(graph, by, host, device, comm_names) for by, host in points]
    taken = [run_ns for run_ns, _ in ends]
    return Corners(min(taken), max(taken), tuple(kind for _, kind in ends), unknown_operators(trace))


def _judged(
    graph: Graph, device_times: float, host_times: float, device: int | None, comm_names: str | None
) -> tuple[int, str]:
    """How long a run takes, and its verdict, where its ops and its host take so many times as long."""
    changed = graph.copy()
    rows = np.arange(len(graph.trace.ops))
    set_lengths(changed, rows, np.rint(graph.length_ns[graph.op_node] * device_times).astype(np.int64))
    if host_times != 1:
        changed = FasterPython(1 / host_times).apply(changed, best=True)
    times_ns = changed.replayed_ns()
    end_ns = times_ns[changed.op_node]
    start_ns = end_ns - changed.length_ns[changed.op_node]
    of_device: Int64 = rows if device is None else np.flatnonzero(graph.trace.ops.device == device)
    busy = union(start_ns[of_device], end_ns[of_device])
    judged = judge(critical_path(changed, times_ns, comm_names), busy, ran=(int(start_ns.min()), int(end_ns.max())))
    return judged.run_ns, judged.decided
