"""What several ranks of one job say together, and in which sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfmagic import units
from perfmagic.analysis.findings.facts import listed, sentences
from perfmagic.analysis.ranks.cores import cores, explains_lateness
from perfmagic.analysis.ranks.exposed_words import exposed
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.host_as_device import LEFT_ALONE
from perfmagic.analysis.ranks.jobs import OfJob, jobs, jobs_words
from perfmagic.analysis.ranks.late import late
from perfmagic.analysis.ranks.none_late import none_late
from perfmagic.analysis.ranks.one_job import OneJob
from perfmagic.analysis.ranks.summary import Ranks, ranks_of
from perfmagic.analysis.ranks.totals import totals
from perfmagic.analysis.ranks.waited_for_python import waited_for_python
from perfmagic.trace.model import Trace

MOST_JOBS = 4  # that a sentence lists


def rank_findings(traces: Sequence[Trace], comm_names: str | None = None) -> tuple[RankFinding, ...]:
    """What several ranks say together, a job after the other; where the files are of several, that comes first.

    comm_names: as in perfmagic.trace.names.op_classes. Each job is looked at by itself: see perfmagic.analysis.ranks.
    jobs. Of a job with fewer than two traces that have device ops there is nothing to say.
    """
    several = [ranks_of([traces[i] for i in job.members], comm_names) for job in jobs(traces)]
    return (*mixed_jobs(traces), *(finding for ranks in several if ranks is not None for finding in findings_of(ranks)))


def findings_of(ranks: Ranks) -> tuple[RankFinding, ...]:
    """What the ranks of one job say together: what could be won, then the rest, each by cost.

    Who had no core comes before all else where that may be why a rank is late, and after all else where it cannot.
    """
    if ranks.idle:
        return ()
    if samples := _samples(ranks):
        return (*ranks.of_files, *samples)
    job = OneJob(ranks)
    of_late = late(job)
    of_cores = cores(job, of_late)
    explained = bool(of_cores) and explains_lateness(job, of_late)
    if explained and of_late:  # nothing is said against its code
        of_late[0] = replace(of_late[0], advice="That it waited for a core may be why")
    if found := _left_alone(job):
        return (*ranks.of_files, found, *of_cores, *of_late)
    of_exposed = exposed(job)
    won = [*waited_for_python(job), *of_late, *(one for one in of_exposed if one.cost_ns is not None)]
    # what a rank has more than others is not all to be won
    rest = [*(one for one in of_exposed if one.cost_ns is None), *none_late(job), *totals(job), *_unmatched(job)]
    first, last = (of_cores, ()) if explained else ((), of_cores)
    by_cost = (one for some in (won, rest) for one in sorted(some, key=lambda f: -(f.cost_ns or 0)))
    return (*ranks.of_files, *first, *by_cost, *last)


def _samples(ranks: Ranks) -> tuple[RankFinding, ...]:
    """That a file is a sample of a recording: collectives by order and totals then depend on what was kept."""
    found = {rank: one.sample for rank, one in ranks.summaries.items() if one.sample}
    if not found:
        return ()
    first, *more = found
    detail = f"of rank {first} {found[first].removeprefix('the file ')}"
    also = [f"so {'do the files of ranks' if more[1:] else 'does that of rank'} {listed(list(map(str, more)))}"]
    return (
        RankFinding(
            rule="sample",
            cost_ns=None,
            cause="ranks are not compared",
            detail=": " + sentences(f"the file {detail}", *(also if more else [])),
            ranks=tuple(found),
            advice="Open the whole recordings",
        ),
    )


def mixed_jobs(traces: Sequence[OfJob]) -> tuple[RankFinding, ...]:
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


def _left_alone(job: OneJob) -> RankFinding | None:
    """That ranks have a device, and communicated tensors on the CPU without a record of what computed them."""
    notes = [note for one in job.summaries.values() for note in one.meta.notes if note.kind == LEFT_ALONE]
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


def _unmatched(job: OneJob) -> list[RankFinding]:
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
