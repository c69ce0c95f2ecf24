"""What several ranks of one job say together, and in which sentences: stragglers, and ranks whose totals stand out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.ranks.jobs import jobs, jobs_words
from perfmagic.analysis.ranks.matching import Matching
from perfmagic.analysis.ranks.summary import Ranks, ranks_of
from perfmagic.trace.model import Trace

NOTABLE_FRAC = 0.02  # of the median extent, as of an exposed copy
LATE_SHARE = 2 / 3  # of all waiting in collectives: of two ranks one always has half of it or more
OUTLIER_FRAC = 0.05  # of the median extent, as of the longest gap
OUTLIER_RATIO = 1.25  # to the median of the other ranks
BEGAN_FRAC = 0.5  # of what the others wait for it: then its late beginning is the reason
MOST_JOBS = 4  # that a sentence lists


@dataclass(frozen=True)
class RankFinding:
    """One thing worth knowing about several ranks.

    rule: the stable name of what found it.  cost_ns: time of a rank that could be won, None where that is not the
    point.  cause, detail: the sentence, in two parts.  ranks: that the sentence is about.  advice: what to do, in a
    sentence of its own.
    """

    shown: ClassVar[tuple[str, ...]] = ("cost_ns", "sentence")  # in a table of findings

    rule: str
    cost_ns: int | None
    cause: str
    detail: str
    ranks: tuple[int, ...]
    advice: str = ""

    @property
    def sentence(self) -> str:
        return self.cause + self.detail + (f". {self.advice}" if self.advice else "")

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON, the whole sentence included."""
        return {**asdict(self), "ranks": list(self.ranks), "sentence": self.sentence}


@dataclass(frozen=True)
class _Total:
    """One total by which ranks are compared."""

    rule: str
    did: str
    of: Callable[[Facts], int]
    advice: str


_TOTALS = (
    _Total(
        "rank_compute",
        "computed",
        lambda facts: facts.breakdown.compute_ns,
        "Compare its kernels with another rank's: more of them mean an uneven share of the work, "
        "longer ones a slower device",
    ),
    _Total(
        "rank_idle",
        "waited for Python",
        lambda facts: facts.cell_time.waited_for_host_ns,
        "Look at its own findings, and at what else runs on its host",
    ),
    _Total(
        "rank_copies",
        "copied",
        lambda facts: facts.breakdown.copy_ns,
        "Compare its copies with another rank's: only it may load or save data, or use pageable memory",
    ),
)


@dataclass(frozen=True, eq=False)
class _Job:
    """The ranks of one job, each with its facts."""

    all: Ranks

    @property
    def facts(self) -> Mapping[int, Facts]:
        return self.all.facts

    @property
    def matching(self) -> Matching:
        return self.all.matching

    @cached_property
    def ranks(self) -> list[int]:
        return self.all.ranks

    @cached_property
    def extent_ns(self) -> int:
        return int(np.median([facts.breakdown.extent_ns for facts in self.facts.values()]))

    @cached_property
    def waits_ns(self) -> npt.NDArray[np.int64]:
        """[last, waiting]: how long each rank waited in collectives for each rank that came last; shape (ranks, ranks).

        Inside one collective all ranks end together, so the rank that was in it for the shortest time came last, and
        what the others spent longer is their waiting. No clock of two ranks is compared.
        """
        place = {rank: i for i, rank in enumerate(self.ranks)}
        waits = np.zeros((len(place), len(place)), np.int64)
        for group in self.matching.groups:
            rows = np.array([place[rank] for rank in group.ranks])
            last = rows[group.last]
            for row, ns in zip(rows, group.duration_ns - group.transfer_ns, strict=True):
                np.add.at(waits[:, row], last, ns)
        return waits

    def others(self, i: int, values: Sequence[int] | npt.NDArray[np.int64]) -> float:
        """The median of the ranks but one."""
        return float(np.median(np.delete(np.asarray(values), i)))


def rank_findings(traces: Sequence[Trace], comm_names: str | None = None) -> tuple[RankFinding, ...]:
    """What several ranks say together, the costliest first; where the files are of several jobs, that comes first.

    comm_names: as in perfmagic.trace.names.op_classes. Each job is looked at by itself: see perfmagic.analysis.ranks.
    jobs. Of a job with fewer than two traces that have device ops there is nothing to say.
    """
    found_jobs = jobs(traces)
    found = [
        finding
        for job in found_jobs
        if (all_ranks := ranks_of([traces[i] for i in job.members], comm_names)) is not None
        for finding in findings_of(all_ranks)
    ]
    found.sort(key=lambda f: -(f.cost_ns or 0))
    return (*mixed_jobs(traces), *found)


def findings_of(ranks: Ranks) -> tuple[RankFinding, ...]:
    """What the ranks of one job say together, the costliest first."""
    job = _Job(ranks)
    found = [*_late(job), *_exposed(job), *_totals(job), *_unmatched(job)]
    return tuple(sorted(found, key=lambda f: -(f.cost_ns or 0)))


def mixed_jobs(traces: Sequence[Trace]) -> tuple[RankFinding, ...]:
    """Files of several jobs, which nobody should compare as ranks; nothing where they are of one."""
    words = jobs_words(traces, [trace.meta.origin for trace in traces])
    if len(words) < 2:
        return ()
    shown = "; ".join(words[:MOST_JOBS]) + (f"; and {len(words) - MOST_JOBS} more" if len(words) > MOST_JOBS else "")
    cause = f"these files are of {units.count(len(words))} jobs"
    return (
        RankFinding(
            rule="mixed_jobs",
            cost_ns=None,
            cause=cause,
            detail=f", which are not compared: {shown}",
            ranks=(),
            advice="Open the ranks of one job together",
        ),
    )


def _exposed(job: _Job) -> list[RankFinding]:
    """What the exposed communication of the ranks is: waiting for a late rank, or data on their way."""
    table = job.all.table
    exposed_ns, waiting_ns, transfer_ns = (
        round(float(np.median([getattr(row, name) for row in table])))
        for name in ("exposed_communication_ns", "exposed_waiting_ns", "exposed_transfer_ns")
    )
    if exposed_ns < NOTABLE_FRAC * job.extent_ns or not waiting_ns + transfer_ns:
        return []
    waits = waiting_ns > transfer_ns
    parts = f"{units.duration(waiting_ns)} until the last rank came and {units.duration(transfer_ns)} with data moving"
    return [
        RankFinding(
            rule="rank_exposed",
            cost_ns=None,
            cause=f"exposed communication is mostly {'waiting' if waits else 'transfer'}",
            detail=f": the median rank is exposed for {units.duration(exposed_ns)}, {parts}",
            ranks=tuple(job.ranks),
            advice="A faster network would not help: the ranks have to arrive together"
            if waits
            else "Overlap it with compute, or move fewer bytes",
        )
    ]


def _late(job: _Job) -> list[RankFinding]:
    """The straggler that the others wait for in collectives, or that they wait for each other in turn."""
    waits, everything = job.waits_ns, int(job.waits_ns.sum())
    if not everything:
        return []
    by_last = waits.sum(axis=1)
    i = int(by_last.argmax())
    rank, cost_ns = job.ranks[i], round(job.others(i, waits[i]))
    share = by_last[i] / everything
    if share >= LATE_SHARE:
        return _straggler(job, i, cost_ns) if cost_ns >= NOTABLE_FRAC * job.extent_ns else []
    each_ns = round(float(np.median(waits.sum(axis=0))))
    if each_ns < NOTABLE_FRAC * job.extent_ns:
        return []
    median = f"the median rank waits {units.duration(each_ns)} in {_collectives(job)}"
    no_straggler = f"no rank causes most of it (rank {rank} causes {units.percent(share)})"
    return [
        RankFinding(
            rule="ranks_in_turn",
            cost_ns=each_ns,
            cause="ranks wait for each other in turn",
            detail=": " + sentences(median, no_straggler),
            ranks=tuple(job.ranks),
            advice="The work of a step varies from rank to rank: sequence lengths, experts, or Python's pauses",
        )
    ]


def _straggler(job: _Job, i: int, cost_ns: int) -> list[RankFinding]:
    longest = int(job.waits_ns[i].argmax())
    n_last = sum(
        int((group.duration_ns.argmin(axis=0) == group.ranks.index(job.ranks[i])).sum())
        for group in job.matching.groups
        if job.ranks[i] in group.ranks
    )
    waited = f"rank {job.ranks[longest]} waits {units.duration(int(job.waits_ns[i, longest]))} for it"
    others_ns = np.median(np.delete(job.waits_ns[i], [i, longest])) if len(job.ranks) > 2 else 0
    median = f", the other ranks {units.duration(int(others_ns))} in the median" if len(job.ranks) > 2 else ""
    why, advice = _why_late(job, i)
    return [
        RankFinding(
            rule="straggler",
            cost_ns=cost_ns,
            cause=f"rank {job.ranks[i]} is a straggler",
            detail=": "
            + sentences(f"it arrives last at {units.count(n_last)} of {_collectives(job)}", waited + median, why),
            ranks=(job.ranks[i],),
            advice=advice,
        )
    ]


def _why_late(job: _Job, i: int) -> tuple[str, str]:
    """Whether the late rank began later, else by which total it exceeds the others the most, and what to do."""
    facts = [job.facts[rank] for rank in job.ranks]
    began = [job.all.alignment.offset_ns[rank] + job.all.began_ns(rank) for rank in job.ranks]
    later_ns = began[i] - job.others(i, began)
    if job.all.alignment.residual_ns is not None and later_ns >= BEGAN_FRAC * job.others(i, job.waits_ns[i]):
        whom = "the others in the median" if len(job.ranks) > 2 else f"rank {job.ranks[1 - i]}"
        return (
            f"it began {units.duration(later_ns)} after {whom}",
            "Look at what it did before: data loading, a checkpoint, or a profiler that started later",
        )
    excess = [values[i] - job.others(i, values) for values in ([total.of(f) for f in facts] for total in _TOTALS)]
    best = int(np.argmax(excess))
    if excess[best] < NOTABLE_FRAC * job.extent_ns:
        return "", f"Look at what rank {job.ranks[i]} does before its collectives"
    others = "the others in the median" if len(job.ranks) > 2 else f"rank {job.ranks[1 - i]}"
    return f"it {_TOTALS[best].did} {units.duration(excess[best])} longer than {others}", _TOTALS[best].advice


def _totals(job: _Job) -> list[RankFinding]:
    """The rank whose compute, idle time or copies stand out, where the files hold the same work."""
    steps = {rank: tuple(step.number for step in facts.steps) for rank, facts in job.facts.items()}
    if len(set(steps.values())) > 1:
        return [_other_steps(steps)]
    if not any(steps.values()) and (job.matching.refused or not job.matching.n):
        return []  # nothing says that the files cover the same time of the job
    found = []
    for total in _TOTALS:
        values = [total.of(job.facts[rank]) for rank in job.ranks]
        i = int(np.argmax(values))
        others_ns = job.others(i, values)
        if values[i] - others_ns >= OUTLIER_FRAC * job.extent_ns and values[i] >= OUTLIER_RATIO * others_ns:
            found.append(_outlier(job, total, i, values))
    return found


def _outlier(job: _Job, total: _Total, i: int, values: list[int]) -> RankFinding:
    rest = np.delete(np.array(values), i)
    spread = f" ({units.duration(int(rest.min()))} to {units.duration(int(rest.max()))})" if len(rest) > 1 else ""
    others = f"the others {units.duration(float(np.median(rest)))} in the median{spread}"
    if len(rest) == 1:
        others = f"rank {job.ranks[1 - i]} {units.duration(int(rest[0]))}"
    return RankFinding(
        rule=total.rule,
        cost_ns=round(values[i] - float(np.median(rest))),
        cause=f"rank {job.ranks[i]} {total.did} longer",
        detail=f": {units.duration(values[i])}, {others}",
        ranks=(job.ranks[i],),
        advice=total.advice,
    )


def _other_steps(steps: Mapping[int, tuple[int, ...]]) -> RankFinding:
    least, most = min(steps, key=lambda r: len(steps[r])), max(steps, key=lambda r: len(steps[r]))
    if least == most:  # as many, but others
        most = next(rank for rank in steps if steps[rank] != steps[least])
    return RankFinding(
        rule="other_steps",
        cost_ns=None,
        cause="ranks recorded different steps",
        detail=f": rank {most} has {_numbers(steps[most])}, rank {least} {_numbers(steps[least])}. "
        "Their totals are not compared",
        ranks=(most, least),
        advice="Give every rank the same torch.profiler.schedule",
    )


def _numbers(steps: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, steps[:3])) + (", …" if len(steps) > 3 else "")
    return f"{units.plural(len(steps), 'step')} ({shown})" if steps else "none"


def _unmatched(job: _Job) -> list[RankFinding]:
    """Collectives of which nothing can be said, with the numbers."""
    refused = job.matching.refused
    if not refused:
        return []
    more = f", and so in {units.plural(len(refused) - 1, 'more group')}" if len(refused) > 1 else ""
    nothing = "" if job.matching.n else "no rank can be called a straggler"
    return [
        RankFinding(
            rule="unmatched",
            cost_ns=None,
            cause="collectives do not match",
            detail=": " + sentences(refused[0] + more, nothing),
            ranks=tuple(job.ranks),
            advice="Record the same steps on every rank",
        )
    ]


def _collectives(job: _Job) -> str:
    return units.plural(job.matching.n, "matched collective")
