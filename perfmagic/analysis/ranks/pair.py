"""What two ranks of one job, compared, wait for each other."""

from __future__ import annotations

from perfmagic import units
from perfmagic.analysis.ranks.jobs import difference
from perfmagic.analysis.ranks.one_job import OneJob
from perfmagic.analysis.ranks.summary import ranks_of
from perfmagic.trace.model import Trace

ONE_FRAC = 0.9  # of the waiting: then one collective tells the story, and how many others there are does not


def waiting_words(
    first: Trace, second: Trace, names: tuple[str, str], comm_names: str | None = None
) -> tuple[str, ...]:
    """Of two ranks of one job how long each waits inside collectives for the other, in sentences; none else.

    names: what sentences call the two. Other ranks may come later still: of more than two the waiting is longer.
    """
    if difference(first, second):
        return ()
    ranks = ranks_of((first, second), comm_names)
    if ranks is None or not ranks.matching.n:
        return ()
    job = OneJob(ranks)
    called = {first.meta.rank: names[0], second.meta.rank: names[1]}
    late, early = max(((i, 1 - i) for i in (0, 1)), key=lambda pair: job.waits_ns[pair])
    waited_ns, back_ns = int(job.waits_ns[late, early]), int(job.waits_ns[early, late])
    if waited_ns < job.notable_ns:
        return ()
    a, b = called[job.ranks[late]], called[job.ranks[early]]
    of = f"the {job.n_collectives}"
    waits_by_time = _waits_by_time_ns(job, early)
    most, most_ns = max(enumerate(waits_by_time), key=lambda one: one[1])
    if most_ns >= ONE_FRAC * waited_ns:
        which = "the first" if most == 0 else f"number {units.count(most + 1)}"
        inside = f"{units.duration(most_ns)} ({units.percent(most_ns / waited_ns)}) of it in one, {which} of {of}"
        waits = f"{b} waits {units.duration(waited_ns)} inside collectives for {a}, {inside}"
        said = f"{waits}. {a} waits {units.duration(back_ns)} for {b}"
    else:
        comes = f"{a} comes later than {b} to {units.count(sum(ns > 0 for ns in waits_by_time))} of {of}"
        waits = f"{b} waits {units.duration(waited_ns)} inside them, {a} {units.duration(back_ns)} inside the others"
        said = f"{comes}, and {waits}"
    counts = "It counts as communication, and nothing is transferred in it"
    return (f"{a} and {b} are ranks of one job: {said}. {counts}",)


def _waits_by_time_ns(job: OneJob, i: int) -> list[int]:
    """How long a rank waited in each collective, by when it came to it."""
    rank = job.ranks[i]
    found: list[tuple[int, int]] = []
    for group in job.matching.groups:
        mine = group.ranks.index(rank)
        found += zip(group.start_ns[mine].tolist(), group.waiting_ns[mine].tolist(), strict=True)
    return [waited_ns for _, waited_ns in sorted(found)]
