"""Whether ranks had a core to run on: the first suspect where several share a few, before any code is."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.one_job import OneJob
from perfmagic.trace.model import TraceMeta


def cores(job: OneJob) -> list[RankFinding]:
    """The rank that waited longest for a core, where the system's scheduler was asked; nothing below 2 % of the extent.

    What a rank waited is that of all its threads added up, so that it may be more than the time that passed.
    """
    metas = {rank: job.summaries[rank].meta for rank in job.ranks}
    waited = {rank: meta.waited_for_core_ns for rank, meta in metas.items() if meta.waited_for_core_ns is not None}
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
    crowded = n_cores is not None and n_here > n_cores
    advice = "Run no more ranks than cores" if crowded else "Give each rank fewer threads, or see what else runs there"
    return [
        RankFinding(
            rule="waited_for_core",
            cost_ns=None,
            cause=f"{where}rank {most} waited {units.duration(waited[most])} for a core",
            detail=f"{beside}; all threads of a rank added up",
            ranks=(most,),
            advice=f"{advice}, before you look for a cause in the code",
        )
    ]


def _beside(one: TraceMeta, other: TraceMeta) -> bool:
    """Whether two ranks ran on one host, as far as their records say."""
    return one.boot == other.boot
