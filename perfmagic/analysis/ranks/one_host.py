"""Whether one host ran all ranks, as far as their records tell."""

from __future__ import annotations

from perfmagic.analysis.ranks.alignment import SHARED_CLOCK_NS
from perfmagic.analysis.ranks.one_job import OneJob


def on_one_host(job: OneJob) -> bool:
    """Whether the ranks say so, or one process after the other started them and they read one clock."""
    clocks = job.all.alignment
    if clocks.how == "one host":
        return True
    residual_ns = clocks.residual_ns
    one_clock = not clocks.moved_ns and residual_ns is not None and residual_ns[1] <= SHARED_CLOCK_NS
    # the first thread of a process has its number; a launcher's processes have one after the other
    first = [one.first_thread for one in job.summaries.values()]
    return one_clock and min(first) > 0 and sorted(first) == list(range(min(first), min(first) + len(first)))


def what_else_runs(job: OneJob) -> str:
    """Where to look for what takes time from one rank's Python and not from the others'."""
    return "what else runs on its cores or NUMA node" if on_one_host(job) else "what else runs on its host"
