"""The findings about the ranks of one job: late ranks, exposed communication, outliers, unmatched collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median_low

import numpy as np

from perfmagic.analysis.findings.catalogue import action, headline
from perfmagic.analysis.findings.facts import ITS_EXTENT
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.job_prediction import FEWEST, job_replay_in_passing
from perfmagic.analysis.ranks.jobs import jobs, mixed_jobs
from perfmagic.analysis.ranks.late import late
from perfmagic.analysis.ranks.rank_summary import LEFT_ALONE, Totals
from perfmagic.analysis.ranks.ranks import Ranks, RankStat, ranks_of
from perfmagic.analysis.ranks.totals import cores, explains_lateness, totals
from perfmagic.analysis.replay.changes.change import OnTime
from perfmagic.analysis.replay.prediction import IF_OTHERS, Prediction
from perfmagic.base import units
from perfmagic.base.language import listed, phrase, sentences
from perfmagic.base.numerics.intervals import subtract, total_ns, union
from perfmagic.trace.columns import Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace

# What the exposed communication of the ranks is: waiting for late ranks, data on their way, or both.

MORE = 1.25  # times as much is more: what is about equal keeps its order from run to run
_ADVICE = {
    "waiting": "A faster network would hardly help: the ranks have to arrive together",
    "transfer": "Overlap it with compute, or move fewer bytes",
}
_BOTH = {  # in a sentence, the larger part first
    "waiting": "have the ranks arrive together",
    "transfer": "overlap the transfer with compute or move fewer bytes",
}


def exposed(job: Ranks) -> list[RankFinding]:
    """The parts of the exposed communication, the larger first, of about as much waiting; both where both are notable.

    Its cost is that of the transfer: the findings about late ranks give the cost of waiting.
    """
    table = job.table
    waiting_ns, transfer_ns, exposed_ns = (
        float(np.median([getattr(row, name) for row in table]))
        for name in ("exposed_waiting_ns", "exposed_transfer_ns", "exposed_communication_ns")
    )
    if exposed_ns < job.notable_ns or waiting_ns + transfer_ns < job.notable_ns:
        return []
    by_size = [("waiting", waiting_ns), ("transfer", transfer_ns)]
    if transfer_ns > MORE * waiting_ns:
        by_size.reverse()
    notable = [name for name, ns in by_size if ns >= job.notable_ns] or [by_size[0][0]]
    cause, advice = f"mostly {notable[0]}", _ADVICE[notable[0]]
    if len(notable) > 1:
        cause, advice = " and ".join(notable), ", and ".join(_BOTH[name] for name in notable)
    moved_ns = median_low([row.exposed_transfer_ns for row in table]) if "transfer" in notable else None
    of_rank = (
        sentences(*(_describe_rank(job, row) for row in table)) if len(table) == 2 else _describe_median(job, by_size)
    )
    return [
        RankFinding(
            rule="rank_exposed",
            cost_ns=moved_ns,
            cause=f"exposed communication is {cause}",
            detail=f": {of_rank}",
            ranks=tuple(job.ranks),
            advice=advice[0].upper() + advice[1:],
            headline="" if moved_ns is None else headline("transfer", time=units.duration(moved_ns)),
            action="" if moved_ns is None else action("overlap"),
        )
    ]


def _describe_median(job: Ranks, by_size: list[tuple[str, float]]) -> str:
    exposed_ns = float(np.median([row.exposed_communication_ns for row in job.table]))
    words = {"waiting": "waiting for the last rank", "transfer": "moving data"}
    parts = ", ".join(f"{units.duration(ns)} {words[name]}" for name, ns in by_size)
    return f"a rank has {units.duration(exposed_ns)} of it in the median, {parts}"


def _describe_rank(job: Ranks, row: RankStat) -> str:
    """Of two ranks each has its sentence: a median of two is neither's."""
    other = next(rank for rank in job.ranks if rank != row.rank)
    parts = [
        f"{units.duration(row.exposed_waiting_ns)} waiting for rank {other}",
        f"{units.duration(row.exposed_transfer_ns)} moving data",
    ]
    if row.exposed_unmatched_ns >= job.notable_ns:
        parts.append(f"{units.duration(row.exposed_unmatched_ns)} of which rank {other} has no record")
    return f"rank {row.rank} has {units.duration(row.exposed_communication_ns)} of it, {', '.join(parts)}"


# That ranks wait for Python longer than for each other: then arriving together is not what would help most.

MOST_FRAC = 0.5  # of the ranks: of fewer their own findings say it
NOTABLE_FRAC = 0.05  # of a rank's cell, else of its extent, as of the longest gap


def waited_for_python(job: Ranks) -> list[RankFinding]:
    """Where most devices waited longer for Python than they would wait less for ranks in time.

    Nothing without communication, where ranks do not depend on each other, nor of a CPU, which runs Python itself.
    """
    if not job.matching.n or any(d.kind == "cpu" for summary in job.summaries.values() for d in summary.meta.devices):
        return []
    won_ns = round(float(np.median(job.waits.costs_ns.sum(axis=0))))
    rows = [(row, job.summaries[row.rank].totals) for row in job.table]
    waiting = [
        (row, sums) for row, sums in rows if sums.waited_for_host_ns > max(won_ns, NOTABLE_FRAC * sums.window_ns)
    ]
    if len(waiting) <= MOST_FRAC * len(rows):
        return []
    waited = _range([sums.waited_for_host_ns for _, sums in waiting])
    shares = _range_of([units.percent(share) for share in sorted(_share(sums) for _, sums in waiting)])
    window = ITS_EXTENT if all(sums.window == ITS_EXTENT for _, sums in waiting) else "its cell"
    computed = _range([row.compute_ns for row, _ in waiting])
    left = _range([row.extent_ns - row.exposed_waiting_ns for row, _ in waiting])
    n = len(rows)
    who = phrase("{n} of {total} ranks", n=len(waiting), total=n)
    if len(waiting) == n:
        who = phrase("both ranks") if n == 2 else phrase("all {n} ranks", n=units.count(n))
    less = f"the median rank would wait {units.duration(won_ns)} less for others"
    if n == 2:
        less = " and ".join(
            f"rank {rank} would wait {units.duration(ns)} less"
            for rank, ns in zip(job.ranks, job.waits.costs_ns.sum(axis=0).tolist(), strict=True)
            if ns
        )
    median_ns = round(float(np.median([sums.waited_for_host_ns for _, sums in rows])))
    return [
        RankFinding(
            rule="ranks_wait_for_python",
            cost_ns=median_ns,
            cause=f"the devices of {who} waited for Python",
            detail=": "
            + sentences(
                f"each {waited}, {shares} of {window}, and computed for {computed}",
                f"were {units.every(n, 'rank')} in time, {less}" if won_ns else "",
                f"without its exposed waiting for other ranks an extent is still {left}",
            ),
            ranks=tuple(row.rank for row, _ in waiting),
            advice="Shorten what Python does first: each rank's own findings say where it waited",
            headline=headline("ranks_wait_for_python", ranks=who, time=units.duration(median_ns)),
        )
    ]


def _share(sums: Totals) -> float:
    return sums.waited_for_host_ns / sums.window_ns


def _range(values_ns: Sequence[int]) -> str:
    return _range_of([units.duration(ns) for ns in sorted(values_ns)])


def _range_of(words: Sequence[str]) -> str:
    """The least and the most of rising values in words, once where they read the same."""
    return words[0] if words[0] == words[-1] else f"{words[0]} to {words[-1]}"


# What the job would take if no rank were late: each collective begun when the median of its ranks had come.


def none_late(job: Ranks) -> list[RankFinding]:
    """How much shorter the job would be, from 2 % of the extent on; nothing of fewer than three ranks."""
    if len(job.ranks) < FEWEST or not job.matching.n:
        return []
    replayed = _replayed(job)
    if replayed is not None:
        return [_finding(job, *_predicted(replayed))] if replayed.won_ns >= job.notable_ns else []
    won_ns = round(float(np.median(won_by_rank_ns(job))))
    return [_finding(job, *_estimated(job, won_ns))] if won_ns >= job.notable_ns else []


def _finding(job: Ranks, outcome: str, detail: str) -> RankFinding:
    cause = f"were no rank later than the median, {outcome}"
    said = headline("none_late", outcome=outcome)
    return RankFinding(
        rule="none_late", cost_ns=None, cause=cause, detail=detail, ranks=tuple(job.ranks), headline=said
    )


def _replayed(job: Ranks) -> Prediction | None:
    """The job with no rank late; None where it cannot be predicted, or is too large to be replayed for a picture."""
    replay = job_replay_in_passing(job)
    prediction = replay.predict([OnTime()], on=job.ranks)[0] if replay else None
    return None if prediction is None or prediction.refused else prediction


def _predicted(prediction: Prediction) -> tuple[str, str]:
    span = f"{units.duration(prediction.low_ns)} to {units.duration(prediction.high_ns)}"
    others = f", {IF_OTHERS}" if prediction.if_others else ""
    less = units.percent(prediction.won_ns / prediction.recorded_ns)
    detail = (
        f" ({span}){others}, not {units.duration(prediction.recorded_ns)} ({less} less). All ranks are replayed, with "
        "what made one late to a collective no longer than on the median rank"
    )
    return phrase("the job would take about {time}", time=units.duration(prediction.expected_ns)), detail


def _estimated(job: Ranks, won_ns: int) -> tuple[str, str]:
    share = units.percent(won_ns / job.extent_ns)
    detail = (
        f", not {units.duration(job.extent_ns)} in the median ({share} less). This is an estimate without a replay. "
        f"Each of {job.n_collectives} but the first would begin when the median of its ranks had come; "
        "all else is assumed to take as long as it did"
    )
    return phrase("a rank's extent would be {time}", time=units.duration(job.extent_ns - won_ns)), detail


def won_by_rank_ns(job: Ranks) -> list[int]:
    """How much earlier each rank would be through, were no rank late to any matched collective; by rank.

    For each collective that is the time from when the median rank came to when the last one did: a rank that waits
    then goes on that much earlier, less what it computed beside; one that is late needs that much less before it.
    Collectives at one time count once. Left out are a rank's first one, to which ranks come as their records begin, and
    what is no longer than the waits may be wrong.
    """
    spans: dict[int, list[Int64]] = {rank: [] for rank in job.ranks}
    for group in job.matching.groups:
        late_ns = group.waits.median_ahead_ns
        late_ns = np.where(late_ns > group.waits.errs_ns, late_ns, 0)
        columns = (group.start_ns, group.end_ns, group.waits.waiting_ns)
        for rank, start, end, waiting in zip(group.ranks, *columns, strict=True):
            met = start + waiting
            spans[rank].append(np.stack([met - late_ns, start, met, end]))
    return [_won_ns(job, rank, spans[rank]) for rank in job.ranks]


def _won_ns(job: Ranks, rank: int, spans: list[Int64]) -> int:
    """Of one rank.  spans: of each group when its collectives would be met, were come to, met and left."""
    if not spans:
        return 0
    would, start, met, end = np.concatenate(spans, axis=1)
    after_ns = int(end[start.argmin()])
    would, start, met = (np.maximum(column, after_ns) for column in (would, start, met))
    hidden = subtract(union(start, met), job.summaries[rank].exposed_communication)
    return total_ns(subtract(union(would, met), hidden))


def rank_findings(traces: Sequence[Trace], comm_names: str | None = None) -> tuple[RankFinding, ...]:
    """What several ranks say together, a job after the other; where the files are of several, that comes first.

    comm_names: as in perfmagic.trace.names.op_classes. Jobs are analysed separately: see perfmagic.analysis.ranks.
    jobs. Of a job with fewer than two traces that have device ops there is nothing to say.
    """
    several = [ranks_of([traces[i] for i in job.members], comm_names) for job in jobs(traces)]
    return (*mixed_jobs(traces), *(finding for ranks in several if ranks is not None for finding in findings_of(ranks)))


@once_per_trace
def findings_of(ranks: Ranks) -> tuple[RankFinding, ...]:
    """What the ranks of one job say together: what could be won, then the rest, each by cost.

    Ranks that waited for a core come first where that may be why a rank is late, else last.
    """
    if ranks.idle:
        return ()
    if samples := _samples(ranks):
        return (*ranks.of_files, *samples)
    of_late = late(ranks)
    of_cores = cores(ranks, of_late)
    explained = bool(of_cores) and explains_lateness(ranks, of_late)
    if explained and of_late:  # nothing is said against its code
        of_late[0] = replace(of_late[0], advice="That it waited for a core may be why", action="")
    if left_alone := _left_alone(ranks):
        return (*ranks.of_files, left_alone, *of_cores, *of_late)
    of_exposed = exposed(ranks)
    won = [*waited_for_python(ranks), *of_late, *(row for row in of_exposed if row.cost_ns is not None)]
    # what a rank has more than others is not all to be won
    rest = [*(row for row in of_exposed if row.cost_ns is None), *none_late(ranks), *totals(ranks), *_unmatched(ranks)]
    first, last = (of_cores, ()) if explained else ((), of_cores)
    by_cost = (row for rows in (won, rest) for row in sorted(rows, key=lambda f: -(f.cost_ns or 0)))
    return (*ranks.of_files, *first, *by_cost, *last)


def _samples(ranks: Ranks) -> tuple[RankFinding, ...]:
    """That a file is a sample of a recording: collectives by order and totals then depend on what was kept."""
    samples = {rank: summary.sample for rank, summary in ranks.summaries.items() if summary.sample}
    if not samples:
        return ()
    first, *more = samples
    detail = f"of rank {first} {samples[first].removeprefix('the file ')}"
    also = [f"so {'do the files of ranks' if more[1:] else 'does that of rank'} {listed(list(map(str, more)))}"]
    return (
        RankFinding(
            rule="sample",
            cost_ns=None,
            cause="ranks are not compared",
            detail=": " + sentences(f"the file {detail}", *(also if more else [])),
            ranks=tuple(samples),
            advice="Open the whole recordings",
        ),
    )


def _left_alone(job: Ranks) -> RankFinding | None:
    """That ranks have a device, and communicated tensors on the CPU without a record of what computed them."""
    notes = [note for summary in job.summaries.values() for note in summary.meta.notes if note.kind == LEFT_ALONE]
    if len(notes) < len(job.ranks) or any(note.numbers["n_computed"] for note in notes):
        return None
    return RankFinding(
        rule="device_left_alone",
        cost_ns=None,
        cause=f"nothing ran on the {notes[0].words}",
        detail=": the ranks communicated tensors that are on the CPU, and what the CPU computed is not recorded",
        ranks=tuple(job.ranks),
        advice="Put tensors on perfmagic.device(), or start ranks that compute on the CPU with --device cpu",
    )


def _unmatched(job: Ranks) -> list[RankFinding]:
    """That collectives do not match, with the numbers."""
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
