"""What two ranks of one job, compared, wait for each other."""

from __future__ import annotations

from perfmagic import units
from perfmagic.analysis.ranks.jobs import difference
from perfmagic.analysis.ranks.one_job import OneJob
from perfmagic.analysis.ranks.summary import ranks_of
from perfmagic.trace.model import Trace


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
    waiting = [group.waiting_ns[group.ranks.index(job.ranks[early])] for group in ranks.matching.groups]
    n_last = sum(int((ns > 0).sum()) for ns in waiting)
    comes = f"{a} comes later than {b} to {units.count(n_last)} of the {job.n_collectives}"
    waits = f"{b} waits {units.duration(waited_ns)} inside them, {a} {units.duration(back_ns)} inside the others"
    counts = "It counts as communication, and nothing is transferred in it"
    return (f"{a} and {b} are ranks of one job: {comes}, and {waits}. {counts}",)
