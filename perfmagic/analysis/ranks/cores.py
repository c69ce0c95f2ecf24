"""Whether ranks had a core to run on: the first suspect where several share a few, before any code is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmagic import units
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.one_job import OneJob
from perfmagic.trace.model import TraceMeta

EXPLAINS_FRAC = 0.5  # of what others wait for a late rank: waiting for a core so much longer may be why
LENGTHENS_FRAC = 0.1  # of the extent: shorter waits do not explain how long it took


def explains_lateness(job: OneJob, of_late: Sequence[RankFinding]) -> bool:
    """Whether waiting for a core may be why ranks are late, half of what others wait for them, or why all take long.

    of_late: what says who is late. A rank whose own code sleeps is late for longer than it waited for a core.
    """
    waited = _waited_ns(job)
    if not of_late:
        return max(waited.values(), default=0) >= LENGTHENS_FRAC * job.extent_ns
    first = of_late[0]
    late_ns = first.cost_ns or 0 if len(first.ranks) > 1 else job.waited_for_ns(job.ranks.index(first.ranks[0]))
    in_time = [ns for rank, ns in waited.items() if rank not in first.ranks]
    usual_ns = float(np.median(in_time)) if in_time else 0.0  # what all wait makes none late
    return max(waited.get(rank, 0) for rank in first.ranks) - usual_ns >= EXPLAINS_FRAC * late_ns


def _waited_ns(job: OneJob) -> dict[int, int]:
    """By rank how long it waited for a core, of those whose scheduler was asked."""
    found = {rank: job.summaries[rank].meta.waited_for_core_ns for rank in job.ranks}
    return {rank: ns for rank, ns in found.items() if ns is not None}


def cores(job: OneJob, of_late: Sequence[RankFinding] = ()) -> list[RankFinding]:
    """The rank that waited longest for a core, where the system's scheduler was asked; nothing below 2 % of the extent.

    What a rank waited is that of all its threads added up, so that it may be more than the time that passed.
    of_late: what says who is late.
    """
    metas = {rank: job.summaries[rank].meta for rank in job.ranks}
    waited = _waited_ns(job)
    if not waited:
        return []
    most = max(waited, key=lambda rank: waited[rank])
    if waited[most] < max(1, job.notable_ns):
        return []
    n_here = sum(_beside(meta, metas[most]) for meta in metas.values())
    n_cores = metas[most].cores
    where = f"{units.plural(n_here, 'rank')} on {units.plural(n_cores, 'core')}: " if n_cores else ""
    others = [ns for rank, ns in waited.items() if rank != most]
    beside = f", the others {units.duration(float(np.median(others)))} in the median" if len(others) > 1 else ""
    beside = beside or "".join(f", rank {rank} {units.duration(ns)}" for rank, ns in waited.items() if rank != most)
    advice = _advice([meta for meta in metas.values() if _beside(meta, metas[most])], n_cores)
    before = ", before you look for a cause in the code" if explains_lateness(job, of_late) else ""
    return [
        RankFinding(
            rule="waited_for_core",
            cost_ns=None,
            cause=f"{where}rank {most} waited {units.duration(waited[most])} for a core",
            detail=f"{beside}; all threads of a rank added up",
            ranks=(most,),
            advice=advice + before,
        )
    ]


def _advice(here: Sequence[TraceMeta], n_cores: int | None) -> str:
    """What to do for ranks of one host: fewer threads only where they have more than their share of the cores."""
    fit = max(1, (n_cores or 1) // len(here))
    most = max(meta.threads or 1 for meta in here)
    if n_cores is not None and most > fit:
        share = f"torch.set_num_threads({fit}) in each rank, or OMP_NUM_THREADS={fit} before it starts"
        fewer = f"A rank computes with {most} threads: {share}, gives it its share of the cores"
        return f"{fewer}; and run no more ranks than cores" if len(here) > n_cores else fewer
    if n_cores is not None and len(here) > n_cores:
        return "Run no more ranks than cores"
    if any(device.simulated for meta in here for device in meta.devices):
        return "Each stream of a simulated device is a thread beside Python: fewer ranks leave them cores"
    return "See what else runs there"


def _beside(one: TraceMeta, other: TraceMeta) -> bool:
    """Whether two ranks ran on one host, as far as their records say."""
    return one.boot == other.boot
