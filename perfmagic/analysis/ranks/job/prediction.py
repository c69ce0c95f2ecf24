"""How long a job would take with changes on its ranks: an interval, or why nothing can be said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from perfmagic import units
from perfmagic.analysis.findings.facts import listed
from perfmagic.analysis.ranks.job.graph import JobGraph, Met, absent, job_graph, meetings_of
from perfmagic.analysis.ranks.job.on_time import FEWEST, on_time
from perfmagic.analysis.ranks.job.path import JobPath, job_path
from perfmagic.analysis.ranks.summary import Ranks
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.changes.on_time import OnTime
from perfmagic.analysis.replay.changes.together import applied
from perfmagic.analysis.replay.graph import Graph
from perfmagic.analysis.replay.path_shares import MOST_INSTANTS
from perfmagic.analysis.replay.prediction import Prediction, Readings, hull
from perfmagic.analysis.replay.refusals import refusal, unreadable
from perfmagic.analysis.replay.unseen_ranks import with_others
from perfmagic.trace.columns import Int64
from perfmagic.trace.once import once_per_trace


@dataclass(frozen=True, eq=False)
class Job:
    """The ranks of a job, ready to be replayed."""

    all: Ranks
    readings: Mapping[int, Readings]
    met: tuple[Met, ...]

    @cached_property
    def unreadable(self) -> str:
        """Why the records do not even say what held the job; "" where they do."""
        return self._first(unreadable) or self._unmatched

    @cached_property
    def refusal(self) -> str:
        """Why no change can be predicted; "" where it can."""
        return self._first(refusal) or self._unmatched

    @cached_property
    def path(self) -> JobPath:
        """What held the recorded job."""
        job = self._joined({rank: one.stays for rank, one in self.readings.items()}, unseen=False)
        return job_path(job, job.replayed_ns(), self.all.comm_names)

    def predict(self, changes: Sequence[Change], on: Collection[int]) -> tuple[Prediction, JobPath | None]:
        """What changes would make of the job, and what would hold it then.  on: the ranks that they are made on."""
        own = [change for change in changes if not isinstance(change, OnTime)]
        nobody_late = len(own) < len(changes)
        numbers = [str(rank) for rank in sorted(set(on))]
        where = "" if len(numbers) == len(self.all.ranks) else f" on rank{'s' * (len(numbers) > 1)} {listed(numbers)}"
        words = tuple(change.words + (where if change in own else "") for change in changes)
        recorded_ns = 0 if self.unreadable else self.path.run_ns
        possible = {rank: [one for one in own if not one.refusal(self.readings[rank].stays)] for rank in on}
        why = self.refusal or self._impossible(own, on) or (self._too_few if nobody_late else "")
        if why:
            return Prediction(words, recorded_ns, recorded_ns, recorded_ns, recorded_ns, refused=why), None
        found: list[tuple[JobGraph, Int64]] = []
        alone: list[int] = []
        for unseen in self._each_reading:
            for best in (True, False) if any(change.assumes for change in own) else (True,):
                graphs = {rank: one.waits if unseen else one.stays for rank, one in self.readings.items()}
                for rank, some in possible.items():
                    graphs[rank] = applied(graphs[rank], some, best=best)
                job = self._joined(graphs, unseen=unseen)
                job = on_time(job) if nobody_late else job
                found.append((job, job.replayed_ns()))
                if not alone and self._others:
                    stay = self._joined(graphs, unseen=unseen, others_stay=True)
                    alone = [int((on_time(stay) if nobody_late else stay).replayed_ns().max()) - job.begins_ns]
        taken = [int(times.max()) - job.begins_ns for job, times in found]
        told = hull(words, recorded_ns, taken, bound=any(change.at_most for change in own))
        told = replace(told, alone_ns=next(iter(alone), None))
        return told, job_path(*found[0], self.all.comm_names)

    @cached_property
    def _others(self) -> bool:
        """Whether something is communicated with ranks of which there is no record."""
        n_met = sum(len(one.ops) for one in self.met)
        return absent(self.all) > 0 or n_met < sum(len(with_others(trace)) for trace in self.all.traces.values())

    @property
    def _each_reading(self) -> tuple[bool, ...]:
        return (False, True) if any(len(one.each) > 1 for one in self.readings.values()) else (False,)

    def _joined(self, graphs: Mapping[int, Graph], *, unseen: bool, others_stay: bool = False) -> JobGraph:
        recorded = {rank: one.waits if unseen else one.stays for rank, one in self.readings.items()}
        return job_graph(graphs, recorded, self.all, self.met, others_stay=others_stay)

    def _first(self, refusal_of: Callable[[Graph], str]) -> str:
        """The first rank of which something is refused, and why."""
        whys = ((rank, refusal_of(one.stays)) for rank, one in self.readings.items())
        return next((f"rank {rank}: {why}" for rank, why in whys if why), "")

    @property
    def _unmatched(self) -> str:
        refused = self.all.matching.refused
        return f"collectives do not match: {refused[0]}" if refused else ""

    def _impossible(self, changes: Sequence[Change], on: Collection[int]) -> str:
        """Why one of some changes changes nothing on any rank."""
        for change in changes:
            whys = [change.refusal(self.readings[rank].stays) for rank in on]
            if all(whys):
                return whys[0] if len(whys) == 1 else f"{whys[0]}, on none of {units.plural(len(whys), 'rank')}"
        return ""

    @property
    def _too_few(self) -> str:
        if any(len(one.ops) >= FEWEST for one in self.met):
            return ""
        return f"no collective of {FEWEST} ranks or more was matched: of two, none is the median one"


@once_per_trace
def job_of(ranks: Ranks) -> Job:
    """The job of ranks whose traces are at hand."""
    return Job(ranks, {rank: Readings.of(ranks.traces[rank]) for rank in ranks.ranks}, meetings_of(ranks))


def job_in_passing(ranks: Ranks) -> Job | None:
    """The job, where it is replayed for a picture of it: None where it is too large, or a trace is elsewhere."""
    sizes = [2 * len(trace.calls) + len(trace.ops) for trace in ranks.traces.values()]
    return job_of(ranks) if len(sizes) == len(ranks.ranks) and sum(sizes) <= MOST_INSTANTS else None
