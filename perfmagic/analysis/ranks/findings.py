"""The findings about the ranks of one job: late ranks, exposed communication, outliers, unmatched collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median_low

import numpy as np

from perfmagic.analysis.findings.catalogue import action, headline
from perfmagic.analysis.findings.facts import ITS_EXTENT
from perfmagic.analysis.ranks.finding import RankFinding, RankStat
from perfmagic.analysis.ranks.jobs import jobs, mixed_jobs
from perfmagic.analysis.ranks.late import late
from perfmagic.analysis.ranks.rank_summary import LEFT_ALONE, Totals
from perfmagic.analysis.ranks.ranks import Ranks, ranks_of
from perfmagic.analysis.ranks.totals import cores, explains_lateness, is_crowded, start_up, totals, uneven
from perfmagic.base import units
from perfmagic.base.language import Words, chained, counted, listed, phrase, sentences
from perfmagic.trace.model import Trace, once_per_trace

# What the exposed communication of the ranks is: waiting for late ranks, data on their way, or both.

MORE = 1.25  # times as much is more: what is about equal keeps its order from run to run
_ADVICE = {
    "waiting": phrase("A faster network would hardly help: see what keeps the ranks waiting"),
    "transfer": phrase("Overlap it with compute, or move fewer bytes"),
}
_BOTH = {  # in a sentence, the larger part first
    "waiting": phrase("see what keeps the ranks waiting"),
    "transfer": phrase("overlap the transfer with compute or move fewer bytes"),
}
_PARTS = {"waiting": phrase("waiting"), "transfer": phrase("transfer")}


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
    cause, advice = phrase("mostly {part}", part=_PARTS[notable[0]]), _ADVICE[notable[0]]
    if len(notable) > 1:
        cause = phrase("{a} and {b}", a=_PARTS[notable[0]], b=_PARTS[notable[1]])
        advice = phrase("{a}, and {b}", a=_BOTH[notable[0]], b=_BOTH[notable[1]]).capitalised()
    moved_ns = median_low([row.exposed_transfer_ns for row in table]) if "transfer" in notable else None
    if moved_ns is not None and is_crowded(job):
        return [_crowded(job, waiting_ns, transfer_ns)]
    of_rank = (
        sentences(*(_describe_rank(job, row) for row in table))
        if len(table) == 2
        else _describe_ranks(job, [name for name, _ in by_size])
    )
    return [
        RankFinding(
            rule="rank_exposed",
            cost_ns=moved_ns,
            cause=phrase("exposed communication is {parts}", parts=cause),
            detail=phrase(": {detail}", detail=of_rank),
            ranks=tuple(job.ranks),
            advice=advice if job.computes else "",
            headline=headline("transfer", time=units.duration(moved_ns)) if moved_ns and job.computes else "",
            action=action("overlap") if moved_ns and job.computes else "",
        )
    ]


def _crowded(job: Ranks, waiting_ns: float, transfer_ns: float) -> RankFinding:
    """Of ranks that wait for cores it is unknown how long transfers took."""
    waiting, transfer = units.duration(waiting_ns), units.duration(transfer_ns)
    both = {"waiting": waiting, "transfer": transfer}
    detail = phrase(": {waiting} waiting for the last rank, {transfer} moving data or waiting for a core", **both)
    return RankFinding(
        rule="rank_exposed",
        cost_ns=None,
        cause=phrase("exposed communication is of unknown cause"),
        detail=detail,
        ranks=tuple(job.ranks),
    )


def _describe_ranks(job: Ranks, order: list[str]) -> str:
    """The parts in this order, by their means: medians do not add up."""
    exposed, *parts = (
        units.duration(float(np.mean([getattr(row, f"exposed_{name}_ns") for row in job.table])))
        for name in ("communication", *order)
    )
    words = {"waiting": phrase("waiting for the last rank"), "transfer": phrase("moving data")}
    told = [phrase("{time} {cause}", time=time, cause=words[name]) for name, time in zip(order, parts, strict=True)]
    return phrase("a rank has {time} of it on average, {parts}", time=exposed, parts=chained("{a}, {b}", told))


def _describe_rank(job: Ranks, row: RankStat) -> str:
    """Of two ranks each has its sentence: a median of two is neither's."""
    other = next(rank for rank in job.ranks if rank != row.rank)
    parts = [
        phrase("{time} waiting for rank {rank}", time=units.duration(row.exposed_waiting_ns), rank=other),
        phrase("{time} moving data", time=units.duration(row.exposed_transfer_ns)),
    ]
    if row.exposed_unmatched_ns >= job.notable_ns:
        unmatched = units.duration(row.exposed_unmatched_ns)
        parts.append(phrase("{time} for which rank {rank} has no record", time=unmatched, rank=other))
    return phrase(
        "rank {rank} has {time} of it, {parts}",
        rank=row.rank,
        time=units.duration(row.exposed_communication_ns),
        parts=chained("{a}, {b}", parts),
    )


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
    window = ITS_EXTENT if all(sums.window == ITS_EXTENT for _, sums in waiting) else phrase("its cell")
    computed = _range([row.compute_ns for row, _ in waiting])
    left = _range([row.extent_ns - row.exposed_waiting_ns for row, _ in waiting])
    n = len(rows)
    every_rank = phrase("both ranks") if n == 2 else phrase("all {n} ranks", n=units.count(n))
    who = every_rank if len(waiting) == n else phrase("{n} of {total} ranks", n=len(waiting), total=n)
    less: str = phrase("the median rank would wait {time} less for others", time=units.duration(won_ns))
    if n == 2:
        each = zip(job.ranks, job.waits.costs_ns.sum(axis=0).tolist(), strict=True)
        rows_less = [(rank, units.duration(ns)) for rank, ns in each if ns]
        less = listed([phrase("rank {rank} would wait {time} less", rank=rank, time=time) for rank, time in rows_less])
    median_ns = round(float(np.median([sums.waited_for_host_ns for _, sums in rows])))
    return [
        RankFinding(
            rule="ranks_wait_for_python",
            cost_ns=median_ns,
            cause=phrase("the devices of {who} waited for Python", who=who),
            detail=phrase(
                ": {detail}",
                detail=sentences(
                    phrase(
                        "each {time}, {share} of {window}, and computed for {compute}",
                        time=waited,
                        share=shares,
                        window=window,
                        compute=computed,
                    ),
                    phrase("if {ranks} were on time, {outcome}", ranks=every_rank, outcome=less) if won_ns else "",
                    phrase("without its exposed waiting for other ranks an extent is still {time}", time=left),
                ),
            ),
            ranks=tuple(row.rank for row, _ in waiting),
            advice=phrase("Shorten what Python does first: each rank's own findings say where it waited"),
            headline=headline("ranks_wait_for_python", ranks=who, time=units.duration(median_ns)),
        )
    ]


def _share(sums: Totals) -> float:
    return sums.waited_for_host_ns / sums.window_ns


def _range(values_ns: Sequence[int]) -> str:
    return _range_of([units.duration(ns) for ns in sorted(values_ns)])


def _range_of(words: Sequence[str]) -> str:
    """The least and the most of rising values in words, once where they read the same."""
    return words[0] if words[0] == words[-1] else phrase("{a} to {b}", a=words[0], b=words[-1])


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
    from perfmagic.analysis.ranks.pipelines.words import bubbles  # few jobs have any

    if ranks.idle:
        return ()
    if samples := _samples(ranks):
        return (*ranks.of_files, *samples)
    of_late = late(ranks)
    of_cores = cores(ranks, of_late)
    explained = bool(of_cores) and explains_lateness(ranks, of_late)
    if explained and of_late:  # nothing is said against its code
        of_late[0] = replace(of_late[0], advice=phrase("That it waited for a core may be why"), action="")
    if left_alone := _left_alone(ranks):
        return (*ranks.of_files, left_alone, *of_cores, *of_late)
    of_exposed, of_pipelines = exposed(ranks), bubbles(ranks)
    if of_pipelines:  # who waits in turn waits for micro-batches
        of_late = [row for row in of_late if row.rule != "ranks_in_turn"]
    of_late += [*(row for row in of_pipelines if row.cost_ns is not None), *uneven(ranks)]
    won = [*waited_for_python(ranks), *of_late, *(row for row in of_exposed if row.cost_ns is not None)]
    # what a rank has more than others is not all to be won
    rest = [*(row for row in of_exposed if row.cost_ns is None), *_not_named(totals(ranks), of_late)]
    rest += [*start_up(ranks), *_unmatched(ranks), *(row for row in of_pipelines if row.cost_ns is None)]
    first, last = (of_cores, ()) if explained else ((), of_cores)
    by_cost = (row for rows in (won, rest) for row in sorted(rows, key=lambda f: -(f.cost_ns or 0)))
    return (*ranks.of_files, *first, *by_cost, *last)


def _not_named(of_totals: Sequence[RankFinding], of_late: Sequence[RankFinding]) -> list[RankFinding]:
    """The outliers among totals of which no cause names the rank."""
    named = {finding.ranks for finding in of_late}
    return [finding for finding in of_totals if finding.rule == "other_steps" or finding.ranks not in named]


def _samples(ranks: Ranks) -> tuple[RankFinding, ...]:
    """That a file is a sample of a recording: collectives by order and totals then depend on what was kept."""
    samples = {rank: summary.sample for rank, summary in ranks.summaries.items() if summary.sample}
    if not samples:
        return ()
    first, *more = samples
    said = samples[first]
    looks = said.values["looks"] if isinstance(said, Words) else said.removeprefix("the file ")
    of_first = phrase("the file of rank {rank} {looks}", rank=first, looks=looks)
    also = counted(
        len(more),
        "so does that of rank {ranks}",
        "so do the files of ranks {ranks}",
        ranks=listed(list(map(str, more))),
    )
    return (
        RankFinding(
            rule="sample",
            cost_ns=None,
            cause=phrase("ranks are not compared"),
            detail=phrase(": {detail}", detail=sentences(of_first, also if more else "")),
            ranks=tuple(samples),
            advice=phrase("Open the whole recordings"),
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
        cause=phrase("nothing ran on the {devices}", devices=notes[0].words),
        detail=phrase(
            ": the ranks communicated tensors that are on the CPU, and what the CPU computed is not recorded"
        ),
        ranks=tuple(job.ranks),
        advice=phrase("Put tensors on perfmagic.device(), or start ranks that compute on the CPU with --device cpu"),
    )


def _unmatched(job: Ranks) -> list[RankFinding]:
    """That collectives do not match, with the numbers."""
    refused = job.matching.refused
    if not refused:
        return []
    why: str = refused[0]
    if len(refused) > 1:
        n = len(refused) - 1
        why = counted(n, "{why}, and so in {n} more group", "{why}, and so in {n} more groups", why=why)
    nothing = "" if job.matching.n else phrase("no rank can be called a straggler")
    return [
        RankFinding(
            rule="unmatched",
            cost_ns=None,
            cause=phrase("collectives do not match"),
            detail=phrase(": {detail}", detail=sentences(why, nothing)),
            ranks=tuple(job.ranks),
            advice=phrase("Record the same steps on every rank"),
        )
    ]
