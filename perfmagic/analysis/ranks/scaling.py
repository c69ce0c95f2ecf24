"""One cell on several numbers of ranks: how much of what more ranks could win is lost, and to what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from perfmagic.analysis.findings.answer import Conclusion, Proposal
from perfmagic.analysis.findings.catalogue import action, decides, headline
from perfmagic.analysis.ranks.rank_summary import LEFT_ALONE
from perfmagic.analysis.ranks.ranks import Ranks
from perfmagic.base import units
from perfmagic.base.errors import OptionError
from perfmagic.base.language import counted, phrase
from perfmagic.trace.rows import Rows

# How well more ranks pay off: the time of the same work, or of so much more, on more ranks.

Scaling = Literal["weak", "strong"]


@dataclass(frozen=True)
class EfficiencyStat:
    """One number of ranks. Source: docs/words.md, "efficiency".

    time_ns: of the work.  speedup: how many times the work per second of the fewest ranks is done.  efficiency_frac:
    that over how many times the ranks there are.
    """

    ranks: int
    time_ns: float
    speedup: float
    efficiency_frac: float


def efficiency(times_ns: Mapping[int, float], scaling: Scaling) -> Rows[EfficiencyStat]:
    """A row for each number of ranks, compared with the fewest.

    times_ns: by number of ranks.  scaling: "weak" where each rank has the same work whatever their number, "strong"
    where all share one. Raises OptionError for another word, no times, or times that are not above 0.
    """
    if scaling not in ("weak", "strong"):
        raise OptionError(f"scaling {scaling!r}: weak or strong", hint="weak: each rank has the same work")
    if not times_ns or min(times_ns.values()) <= 0:
        raise OptionError("efficiency needs a time above 0 for each number of ranks")
    fewest = min(times_ns)
    rows = []
    for ranks, time_ns in sorted(times_ns.items()):
        more = ranks / fewest
        speedup = times_ns[fewest] / time_ns * (more if scaling == "weak" else 1)
        rows.append(EfficiencyStat(ranks, time_ns, speedup, speedup / more))
    return Rows(rows, EfficiencyStat)


LOST_FRAC = 0.05  # of the ideal time; a smaller difference is not worth a cause
MOST_FRAC = 0.5  # of what is lost: one cause then stands for all of it
# the parts of the time of a run, and what they are called where time is lost to them
PARTS = {
    "exposed_transfer_ns": "exposed communication with data moving",
    "exposed_waiting_ns": "waiting for other ranks",
    "compute_ns": "longer compute",
    "rest_ns": "time with neither compute nor communication: Python, copies, idle devices",
}
NOT_SHARED = "compute that more ranks do not shorten"  # of work that all share
NOT_RECORDED = "time of which nothing is recorded: the ranks computed on the CPU beside a device"


@dataclass(frozen=True)
class RunOfRanks:
    """One recorded run of a cell on all its ranks; ns.

    time_ns: until the last rank was done, from when all began.  compute_ns, exposed_waiting_ns, exposed_transfer_ns:
    the mean of the ranks, each instant of a rank in one of them at most. waited_for_core_ns: the mean too, all threads
    of a rank added up; None where the system does not say.  cores: that the ranks of one host may use, None likewise.
    compute_known: False where the ranks computed on what was not recorded.
    """

    time_ns: int
    compute_ns: float
    exposed_waiting_ns: float
    exposed_transfer_ns: float
    waited_for_core_ns: float | None
    cores: int | None
    compute_known: bool


@dataclass(frozen=True)
class ScalingStat:
    """One number of ranks; ns. Source: docs/words.md, "efficiency".

    time_ns: of the cell.  ideal_ns: what it would take if nothing were lost.  speedup: how many times the work per
    second of the fewest ranks is done.  efficiency_frac: that over how many times the ranks there are.
    compute_ns, exposed_waiting_ns, exposed_transfer_ns, rest_ns: the mean of the ranks; they add up to time_ns.
    Waiting: for other ranks, without overlapping with compute.  Transfer: the rest of the exposed communication.
    waited_for_core_ns: the mean of the ranks, all threads of one added up; None where not known.  cores: of the host.
    """

    shown = (
        "ranks", "time_ns", "ideal_ns", "speedup", "efficiency_frac", "exposed_communication_ns",
        "exposed_waiting_ns", "waited_for_core_ns",
    )  # fmt: skip

    ranks: int
    time_ns: int
    ideal_ns: float
    speedup: float
    efficiency_frac: float
    compute_ns: float
    exposed_waiting_ns: float
    exposed_transfer_ns: float
    waited_for_core_ns: float | None
    cores: int | None

    @property
    def exposed_communication_ns(self) -> float:
        return self.exposed_waiting_ns + self.exposed_transfer_ns

    @property
    def rest_ns(self) -> float:
        return max(0.0, self.time_ns - self.compute_ns - self.exposed_communication_ns)

    @property
    def lost_ns(self) -> float:
        """How much longer it takes than ideally; below 0 where it takes less."""
        return self.time_ns - self.ideal_ns

    @property
    def crowded(self) -> bool:
        """Whether there are more ranks than cores."""
        return self.cores is not None and self.ranks > self.cores


def run_of(ranks: Ranks) -> RunOfRanks:
    """What a sweep needs of one run."""
    traces, offset_ns = ranks.traces, ranks.alignment.offset_ns
    starts = [offset_ns[rank] + trace.meta.start_ns for rank, trace in traces.items()]
    ends = [offset_ns[rank] + int(t.ops.end_ns.max(initial=t.meta.end_ns)) for rank, t in traces.items()]
    waited = [trace.meta.waited_for_core_ns for trace in traces.values()]
    table = ranks.table
    exposed = np.mean([row.exposed_communication_ns for row in table])
    waiting = np.mean([row.exposed_waiting_ns for row in table])
    left_alone = any(note.kind == LEFT_ALONE for trace in traces.values() for note in trace.meta.notes)
    return RunOfRanks(
        time_ns=max(ends) - min(starts),
        compute_ns=float(np.mean([row.compute_ns for row in table])),
        exposed_waiting_ns=float(waiting),
        exposed_transfer_ns=float(exposed - waiting),
        waited_for_core_ns=None if None in waited else float(np.mean([ns or 0 for ns in waited])),
        cores=next((trace.meta.cores for trace in traces.values()), None),
        compute_known=not left_alone,
    )


def scaling_table(runs: Mapping[int, RunOfRanks], scaling: Scaling) -> Rows[ScalingStat]:
    """A row for each number of ranks, compared with the fewest.  runs: one by number of ranks.

    Raises OptionError for no runs, and for a scaling that is neither "weak" nor "strong".
    """
    rows = []
    for row in efficiency({ranks: float(run.time_ns) for ranks, run in runs.items()}, scaling):
        run = runs[row.ranks]
        rows.append(
            ScalingStat(
                ranks=row.ranks,
                time_ns=run.time_ns,
                ideal_ns=run.time_ns * row.efficiency_frac,
                speedup=row.speedup,
                efficiency_frac=row.efficiency_frac,
                compute_ns=run.compute_ns,
                exposed_waiting_ns=run.exposed_waiting_ns,
                exposed_transfer_ns=run.exposed_transfer_ns,
                waited_for_core_ns=run.waited_for_core_ns,
                cores=run.cores,
            )
        )
    return Rows(rows, ScalingStat)


def describe_scaling(rows: Sequence[ScalingStat], scaling: Scaling, *, compute_known: bool = True) -> str:
    """How well the most ranks pay off, what is lost and to what; with fewer cores than ranks, the wait for a core."""
    first, last = rows[0], rows[-1]
    if first.ranks == last.ranks:
        took = f"The cell takes {units.duration(last.time_ns)} on {units.plural(last.ranks, 'rank')}"
        return f"{took}; another number of ranks is needed to compare" + _describe_crowding(last)
    head = (
        f"{scaling.capitalize()} scaling from {first.ranks} to {units.plural(last.ranks, 'rank')} is "
        f"{units.percent(last.efficiency_frac)} efficient: the cell takes {units.duration(last.time_ns)}"
    )
    ideal = units.duration(last.ideal_ns)
    if abs(last.lost_ns) < LOST_FRAC * last.ideal_ns:
        return f"{head}, ideally {ideal}" + _describe_crowding(last)
    if last.lost_ns < 0:
        return f"{head}, less than the ideal {ideal}" + _describe_crowding(last)
    lost = lost_parts(first, last)
    if not compute_known:
        shown = [(NOT_RECORDED, lost["compute_ns"] + lost["rest_ns"])]
        shown += [(PARTS[name], lost[name]) for name in ("exposed_transfer_ns", "exposed_waiting_ns")]
    else:
        words = PARTS | ({"compute_ns": NOT_SHARED} if scaling == "strong" else {})
        shown = [(words[name], ns) for name, ns in lost.items()]
    shown.sort(key=lambda part: -part[1])
    named = shown[:1] if shown[0][1] >= MOST_FRAC * last.lost_ns else shown[:2]
    causes = "; ".join(f"{units.duration(ns)} is {words}" for words, ns in named if ns > 0)
    return f"{head} and not {ideal}, and of the {units.duration(last.lost_ns)} lost {causes}" + _describe_crowding(last)


def lost_parts(first: ScalingStat, row: ScalingStat) -> dict[str, float]:
    """How much longer each part of the time takes than ideally, ns: as they add up to the time, these do to the loss.

    first: the fewest ranks, of whose parts the ideal ones are the same share as the ideal time is of their time.
    """
    share = row.ideal_ns / first.time_ns
    return {name: getattr(row, name) - share * getattr(first, name) for name in PARTS}


def _describe_crowding(row: ScalingStat) -> str:
    """That ranks shared too few cores, and what each waited for one; "" where each had its own."""
    if not row.crowded:
        return ""
    where = f"{row.ranks} ranks on {units.plural(row.cores or 0, 'core')}"
    if row.waited_for_core_ns is None:
        return f". {where}: how long they waited for one is not known here"
    waited = f"a rank waited {units.duration(row.waited_for_core_ns)} for a core, all its threads added up"
    may = ", which may be all that is lost" if row.waited_for_core_ns >= MOST_FRAC * row.lost_ns > 0 else ""
    return f". {where}: {waited}{may}"


# The same as answers: the efficiency, and what to do about the largest parts of the loss.


def conclude_scaling(
    rows: Sequence[ScalingStat], scaling: Scaling, *, compute_known: bool = True, failed: str = ""
) -> Conclusion:
    """How efficient the most ranks are, and an answer for each part of the loss that has a remedy."""
    first, last = rows[0], rows[-1]
    said = describe_scaling(rows, scaling, compute_known=compute_known)
    crowded = _describe_crowding(last).removeprefix(". ")
    warnings = tuple(filter(None, (crowded, failed)))
    if first.ranks == last.ranks:
        return Conclusion(said.removesuffix(f". {crowded}") if crowded else said, (), warnings)
    decided = decides(
        "scaling",
        kind=phrase("Weak") if scaling == "weak" else phrase("Strong"),
        first=first.ranks,
        ranks=counted(last.ranks, "{n} rank", "{n} ranks"),
        share=units.percent(last.efficiency_frac),
        time=units.duration(last.time_ns),
        ideal=units.duration(last.ideal_ns),
    )
    lost = lost_parts(first, last)
    answers = [
        Proposal(
            headline(key, time=units.duration(lost[part])),
            action(remedy),
            before_ns=last.time_ns,
            after_ns=round(last.time_ns - lost[part]),
            at_most=True,
        )
        for part, key, remedy in (
            ("exposed_transfer_ns", "lost_to_transfer", "overlap"),
            ("exposed_waiting_ns", "lost_to_waiting", "balance"),
        )
        if min(lost[part], last.lost_ns) >= LOST_FRAC * last.ideal_ns
    ]
    answers.sort(key=lambda answer: answer.after_ns or 0)
    return Conclusion(decided, tuple(answers), warnings)


# Two sweeps over numbers of ranks beside each other: which is quicker on how many ranks, and in which part.

PART_WORDS = {
    "compute_diff_ns": "compute",
    "exposed_transfer_diff_ns": "exposed communication with data moving",
    "exposed_waiting_diff_ns": "waiting for other ranks",
    "rest_diff_ns": "Python, copies and idle devices",
}


@dataclass(frozen=True)
class ScalingChange:
    """One number of ranks in the first sweep and in the second; ns.

    a_ns, b_ns: of the cell, the run of median time.  apart: every run of one is shorter than every run of the other;
    None where one has a single run.  *_diff_ns: how much more of a part the second has, the mean of the ranks; these
    add up to diff_ns.  efficiency_a_frac, efficiency_b_frac: each against its own fewest ranks.
    """

    ranks: int
    a_ns: int
    b_ns: int
    apart: bool | None
    efficiency_a_frac: float
    efficiency_b_frac: float
    compute_diff_ns: float
    exposed_waiting_diff_ns: float
    exposed_transfer_diff_ns: float
    rest_diff_ns: float

    @property
    def diff_ns(self) -> int:
        """How much longer it is in the second."""
        return self.b_ns - self.a_ns


def scaling_changes(
    first: Sequence[ScalingStat],
    second: Sequence[ScalingStat],
    times_ns: tuple[Mapping[int, Sequence[int]], Mapping[int, Sequence[int]]],
) -> Rows[ScalingChange]:
    """A row for each number of ranks that both have, rising.  times_ns: of every run of both, by number of ranks."""
    of_second = {row.ranks: row for row in second}
    rows = []
    for a in first:
        if a.ranks not in of_second:
            continue
        b = of_second[a.ranks]
        change = {f"{name}_diff_ns": getattr(b, f"{name}_ns") - getattr(a, f"{name}_ns") for name in _PARTS}
        rows.append(
            ScalingChange(
                ranks=a.ranks,
                a_ns=a.time_ns,
                b_ns=b.time_ns,
                apart=_apart(times_ns[0][a.ranks], times_ns[1][a.ranks]),
                efficiency_a_frac=a.efficiency_frac,
                efficiency_b_frac=b.efficiency_frac,
                **change,
            )
        )
    return Rows(rows, ScalingChange)


_PARTS = ("compute", "exposed_waiting", "exposed_transfer", "rest")


def _apart(first: Sequence[int], second: Sequence[int]) -> bool | None:
    if min(len(first), len(second)) < 2:
        return None
    return max(first) < min(second) or max(second) < min(first)


def describe_scaling_change(rows: Sequence[ScalingChange], names: tuple[str, str]) -> str:
    """What changed on the most ranks, and in which part.  names: what sentences call the two."""
    last = rows[-1]
    both = f"{units.duration(last.a_ns)} → {units.duration(last.b_ns)}"
    on = f"On {units.plural(last.ranks, 'rank')}"
    if last.apart is False or not last.diff_ns:
        overlap = f"{on} the runs of {names[1]} and {names[0]} overlap ({both}): they show no difference"
        return overlap if last.diff_ns else f"{on} {names[1]} takes as long as {names[0]} ({both})"
    longer = "longer" if last.diff_ns > 0 else "shorter"
    share = units.signed_percent(last.diff_ns / last.a_ns)
    by = units.duration(abs(last.diff_ns))
    head = f"{on} {names[1]} is {by} {longer} than {names[0]} ({both}, {share})"
    parts = sorted(PART_WORDS, key=lambda name: -abs(getattr(last, name)))
    # the parts add up to the difference: those against it are none of its causes
    causes = [name for name in parts if getattr(last, name) * last.diff_ns > 0]
    named = causes[:1] if causes and getattr(last, causes[0]) / last.diff_ns >= MOST_FRAC else causes[:2]
    return f"{head}: {', '.join(f'{PART_WORDS[name]} {units.signed(getattr(last, name))}' for name in named)}"
