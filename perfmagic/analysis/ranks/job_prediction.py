"""How long a job would take with changes on its ranks: an interval, or why nothing can be said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from perfmagic.analysis.ranks.job_graph import Meetings, TracedJob, meetings_of, traced_job
from perfmagic.analysis.ranks.ranks import Ranks
from perfmagic.analysis.ranks.waits import waits_for_start
from perfmagic.analysis.replay.changes.change import Change, OnTime, applied
from perfmagic.analysis.replay.changes.gpu import OnGpu
from perfmagic.analysis.replay.critical_path import CriticalPath, critical_path
from perfmagic.analysis.replay.graph import Graph, Links
from perfmagic.analysis.replay.prediction import (
    MOST_INSTANTS,
    Prediction,
    Readings,
    ends_of,
    interval,
    not_earlier,
    not_predictable,
    unreadable,
    with_others,
)
from perfmagic.base import units
from perfmagic.base.language import chained, counted, listed, phrase
from perfmagic.base.numerics.longest import NO_NODE
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.model import once_per_trace

FEWEST = 3  # the median of two ranks lies between them: neither came then


@dataclass(frozen=True, eq=False)
class JobReplay:
    """The ranks of a job, ready to be replayed."""

    ranks: Ranks
    readings: Mapping[int, Readings]
    meetings: Meetings

    @cached_property
    def unreadable(self) -> str:
        """Why the records do not even say what limited the job; "" where they do."""
        return self._first_reason(unreadable) or self._unmatched

    @cached_property
    def not_predictable(self) -> str:
        """Why no change can be predicted; "" where it can."""
        return self._first_reason(not_predictable) or self._unmatched

    @cached_property
    def path(self) -> CriticalPath:
        """What held the recorded job."""
        job = self._joined(self._graphs(unseen=False), unseen=False)
        return critical_path(job, job.replayed_ns(), self.ranks.comm_names)

    def predict(self, changes: Sequence[Change], on: Collection[int]) -> tuple[Prediction, CriticalPath | None]:
        """What changes would make of the job, and what would limit it then.  on: the ranks that they are made on."""
        of_ranks = [change for change in changes if not isinstance(change, OnTime)]
        with_on_time = len(of_ranks) < len(changes)
        numbers = [str(rank) for rank in sorted(set(on))]
        some = counted(len(numbers), " on rank {ranks}", " on ranks {ranks}", ranks=listed(numbers))
        where = "" if len(numbers) == len(self.ranks.ranks) else some
        words = tuple(
            chained("{a}{b}", (change.description, where if change in of_ranks else "")) for change in changes
        )
        recorded_ns = 0 if self.unreadable else self.path.run_ns
        why = self.not_predictable or self._not_applicable(of_ranks, on) or (self._too_few if with_on_time else "")
        if why:
            return Prediction(words, recorded_ns, recorded_ns, recorded_ns, recorded_ns, refused=why), None
        in_time = self.ranks.ranks if with_on_time else ()
        prediction, replay = self._replayed(words, dict.fromkeys(on, of_ranks), in_time)
        return prediction, critical_path(*replay, self.ranks.comm_names)

    def predict_by_rank(self, changes: Mapping[int, Sequence[Change]], in_time: Collection[int] = ()) -> Prediction:
        """What changes of its own on each rank would make of the job.  in_time: ranks that are not late then."""
        words = tuple(dict.fromkeys(change.description for of_rank in changes.values() for change in of_rank))
        recorded_ns = 0 if self.unreadable else self.path.run_ns
        if why := self.not_predictable or (self._too_few if in_time else ""):
            return Prediction(words, recorded_ns, recorded_ns, recorded_ns, recorded_ns, refused=why)
        return self._replayed(words, changes, in_time)[0]

    def _replayed(
        self, words: tuple[str, ...], changes: Mapping[int, Sequence[Change]], in_time: Collection[int]
    ) -> tuple[Prediction, tuple[TracedJob, Int64]]:
        """The job replayed with the changes of each rank, and the replay that is expected."""
        every = [change for of_rank in changes.values() for change in of_rank]
        places = [self.ranks.ranks.index(rank) for rank in in_time]
        spread = max((c.spread(self.readings[rank].stays) for rank, of in changes.items() for c in of), default=1.0)
        replays: list[tuple[TracedJob, Int64]] = []
        alone_ns = None
        both_readings = (False, True) if any(len(each.each) > 1 for each in self.readings.values()) else (False,)
        bests = (True, False) if any(change.assumes for change in every) else (True,)
        for end, unseen, best in product(ends_of(changes, spread), both_readings, bests):
            graphs = self._changed(end, unseen=unseen, best=best)
            job = self._joined(graphs, unseen=unseen)
            job = on_time(job, places, self._errs_ns) if in_time else job
            replays.append((job, job.replayed_ns()))
            if alone_ns is None and self._has_others:
                others_stay = self._joined(graphs, unseen=unseen, others_stay=True)
                others_stay = on_time(others_stay, places, self._errs_ns) if in_time else others_stay
                alone_ns = round(spread * (int(others_stay.replayed_ns().max()) - job.begins_ns))
        taken_ns = [int(times.max()) - job.begins_ns for job, times in replays]
        bound = any(change.at_most for change in every)
        prediction = interval(words, self.path.run_ns, taken_ns, bound=bound, spread=spread)
        return replace(prediction, alone_ns=alone_ns), replays[0]

    def _graphs(self, *, unseen: bool) -> dict[int, Graph]:
        return {rank: each.waits if unseen else each.stays for rank, each in self.readings.items()}

    def _changed(self, changes: Mapping[int, Sequence[Change]], *, unseen: bool, best: bool) -> dict[int, Graph]:
        """The graph of each rank, with those of its changes that apply to it."""
        graphs = self._graphs(unseen=unseen)
        for rank, of_rank in changes.items():
            applicable = [change for change in of_rank if not change.not_applicable(self.readings[rank].stays)]
            graphs[rank] = applied(graphs[rank], applicable, best=best)
        return graphs

    def _joined(self, graphs: Mapping[int, Graph], *, unseen: bool, others_stay: bool = False) -> TracedJob:
        """The graphs of all ranks as one.

        others_stay: ranks without a record come no earlier: what is communicated with them ends no earlier.
        """
        recorded, offset_ns = self._graphs(unseen=unseen), self.ranks.alignment.offset_ns
        if not others_stay:
            return traced_job(graphs, recorded, offset_ns, self.meetings)
        matched = self.meetings.matched[:, 1]
        of_rank = self.meetings.op_rank[matched]
        held = {
            rank: not_earlier(graph, np.setdiff1d(with_others(graph.trace), self.meetings.row[matched[of_rank == i]]))
            for i, (rank, graph) in enumerate(graphs.items())
        }
        return traced_job(held, recorded, offset_ns, self.meetings, ends_stay=n_absent(self.ranks) > 0)

    @cached_property
    def _has_others(self) -> bool:
        """Whether something is communicated with ranks without a record."""
        n_with_others = sum(len(with_others(trace)) for trace in self.ranks.traces.values())
        return n_absent(self.ranks) > 0 or len(self.meetings.matched) < n_with_others

    @cached_property
    def _errs_ns(self) -> Int64:
        """Of each matched meeting the error of its ranks' arrivals, with what the start-up is to blame for."""
        groups, n = self.ranks.matching.groups, int((self.meetings.alike != NONE).sum())
        starts = waits_for_start(groups, self.ranks.summaries)
        of_groups = [group.waits.errs_ns + of.max(axis=0) for group, of in zip(groups, starts, strict=True)]
        messages = np.full(n - sum(map(len, of_groups)), self.ranks.alignment.bound_ns or 0, np.int64)
        return np.concatenate([*of_groups, messages])

    def _first_reason(self, reason: Callable[[Graph], str]) -> str:
        """Why the first rank that has a reason cannot be replayed."""
        reasons = ((rank, reason(each.stays)) for rank, each in self.readings.items())
        return next((phrase("rank {rank}: {why}", rank=rank, why=why) for rank, why in reasons if why), "")

    @property
    def _unmatched(self) -> str:
        unmatched = self.ranks.matching.refused
        return phrase("collectives do not match: {why}", why=unmatched[0]) if unmatched else ""

    def _not_applicable(self, changes: Sequence[Change], on: Collection[int]) -> str:
        """Why one of the changes applies to no rank; "" where each applies to some."""
        for change in changes:
            reasons = [change.not_applicable(self.readings[rank].stays) for rank in on]
            if isinstance(change, OnGpu) and any(reasons):  # a job on two kinds of GPU is not what was asked
                return next(filter(None, reasons))
            if all(reasons):
                if len(reasons) == 1:
                    return reasons[0]
                return phrase("{why}, on none of {n} ranks", why=reasons[0], n=units.count(len(reasons)))
        return ""

    @property
    def _too_few(self) -> str:
        if np.bincount(self.meetings.matched[:, 0]).max(initial=0) >= FEWEST:
            return ""
        return phrase("no collective of {n} ranks or more was matched: of two, none is the median one", n=FEWEST)


@once_per_trace
def job_replay(ranks: Ranks) -> JobReplay:
    """The job of ranks whose traces are at hand."""
    readings = {rank: Readings.from_trace(ranks.traces[rank]) for rank in ranks.ranks}
    return JobReplay(ranks, readings, meetings_of(ranks))


def job_replay_in_passing(ranks: Ranks) -> JobReplay | None:
    """The job, ready to be replayed for its picture; None where it is too large, lacks a trace, or has failed."""
    if any(summary.meta.failed for summary in ranks.summaries.values()):
        return None
    most = max((summary.n_instants for summary in ranks.summaries.values()), default=0)
    all_here = len(ranks.traces) == len(ranks.ranks)
    return job_replay(ranks) if all_here and most <= most_instants(len(ranks.ranks)) else None


def most_instants(n_ranks: int) -> int:
    """Of a rank's record, in a job that is replayed for its picture."""
    return MOST_INSTANTS // max(1, n_ranks)


def n_absent(ranks: Ranks) -> int:
    """How many ranks of the job have no record here; 0 where no record says how many there are."""
    worlds = [summary.meta.world_size or 0 for summary in ranks.summaries.values()]
    return max(0, max(worlds, default=0) - len(ranks.ranks))


# A job in which no rank is later to a collective than the median of its ranks.

_MOST_ROUNDS = 8  # what held a rank less may hold it now
_LEFT_FRAC = 0.01  # of the lateness: a round that takes away less is the last


def on_time(job: TracedJob, places: Collection[int], errs_ns: Int64) -> TracedJob:
    """The job with the time that made some ranks late cut until they come with the median of a collective's ranks.

    places: theirs. A rank's first collective stays: ranks come to it as their records begin. So does lateness within
    the error of a meeting, errs_ns.
    """
    changed, before_ns = job, None
    for _ in range(_MOST_ROUNDS):
        times = changed.replayed_ns()
        late = list(_late(changed, times, places, errs_ns))
        left_ns = sum(sum(late_ns.values()) for late_ns in late)
        if not left_ns or (before_ns is not None and left_ns > (1 - _LEFT_FRAC) * before_ns):
            break
        cuts = _Cuts(changed, times)
        for late_ns in late:
            cuts.cut(late_ns)
        changed, before_ns = changed.with_links(*cuts.links), left_ns
    return changed


def _late(job: TracedJob, times: Int64, places: Collection[int], errs_ns: Int64) -> Iterator[dict[int, int]]:
    """Of each collective, by time, how late some ranks are, by the instant at which each begins there; ns."""
    edges = np.flatnonzero(np.diff(job.met_of)) + 1
    several = np.split(job.begins, edges) if len(job.begins) else []
    errs = errs_ns[job.met_of[np.concatenate(([0], edges))]].tolist() if several else []
    seen: set[int] = set()
    for begins, err_ns in sorted(zip(several, errs, strict=True), key=lambda met: int(times[met[0]].max())):
        ranks = set(job.rank[begins].tolist())
        first, seen = not ranks <= seen, seen | ranks
        if first or len(begins) < FEWEST:
            continue
        late_ns = times[begins] - int(np.median(times[begins]))
        late = (late_ns > err_ns) & np.isin(job.rank[begins], list(places))
        yield dict(zip(begins.tolist(), np.where(late, late_ns, 0).tolist(), strict=True))


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
    """What is cut from the ways to collectives."""

    def __init__(self, job: TracedJob, times: Int64) -> None:
        self._links = (job.first, job.second)
        self._at = times.tolist()
        self._lags, self._left = ([links.lag_ns.tolist() for links in self._links] for _ in range(2))
        before, by_second = job.held_by(times)
        self._before, self._side = before.tolist(), by_second.tolist()
        self._ends = set(job.ends.tolist())
        self._known: dict[int, tuple[int, int]] = {}  # of instants on a way: since_ns, and what is cut up to them

    @property
    def links(self) -> tuple[Links, Links]:
        """What is left."""
        first, second = (
            Links(side.node, np.array(left, np.int64), side.kind)
            for side, left in zip(self._links, self._left, strict=True)
        )
        return first, second

    def cut(self, late_ns: dict[int, int]) -> None:
        """Make ranks come earlier to a collective by as much as their own way there made them late."""
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
            if node in self._ends or self._before[node] == NO_NODE:
                return _Way(tuple(reversed(steps)), self._at[node], 0)
            steps.append((node, self._side[node]))
            node = self._before[node]

    def _shorten(self, begin: int, way: _Way, less_ns: int) -> None:
        """Take less_ns from a way, of each step in proportion."""
        took_ns = sum(max(0, self._lags[side][node]) for node, side in way.steps)
        cut_ns, done_ns = way.cut_ns, 0
        for node, side in way.steps:
            lag_ns = max(0, self._lags[side][node])
            done_ns += lag_ns
            # from sums, so that what rounds off is not lost
            until_ns = way.cut_ns + (min(less_ns, took_ns) * done_ns // took_ns if took_ns else 0)
            for left in self._left:
                left[node] -= min(until_ns - cut_ns, max(0, left[node]))
            cut_ns = until_ns
            self._known[node] = (way.since_ns, cut_ns)
