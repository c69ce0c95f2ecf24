"""That ranks wait for Python longer than for each other: then arriving together is not what would help most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.cell_time import ITS_EXTENT
from perfmagic.analysis.findings.facts import sentences
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.one_job import OneJob
from perfmagic.analysis.ranks.rank_summary import Totals

MOST_FRAC = 0.5  # of the ranks: of fewer their own findings say it
NOTABLE_FRAC = 0.05  # of a rank's cell, else of its extent, as of the longest gap


def waited_for_python(job: OneJob) -> list[RankFinding]:
    """Where most devices waited longer for Python than they would wait less for ranks in time.

    Nothing without communication, where ranks do not depend on each other, nor of a CPU, which runs Python itself.
    """
    if not job.matching.n or any(d.kind == "cpu" for one in job.summaries.values() for d in one.meta.devices):
        return []
    won_ns = round(float(np.median(job.costs_ns.sum(axis=0))))
    rows = [(row, job.summaries[row.rank].totals) for row in job.all.table]
    found = [(row, of) for row, of in rows if of.waited_for_host_ns > max(won_ns, NOTABLE_FRAC * of.window_ns)]
    if len(found) <= MOST_FRAC * len(rows):
        return []
    waited = _range([of.waited_for_host_ns for _, of in found])
    shares = _range_of([units.percent(share) for share in sorted(_share(of) for _, of in found)])
    window = ITS_EXTENT if all(of.window == ITS_EXTENT for _, of in found) else "its cell"
    computed = _range([row.compute_ns for row, _ in found])
    left = _range([row.extent_ns - row.exposed_waiting_ns for row, _ in found])
    n = len(rows)
    who = units.every(n, "rank") if len(found) == n else f"{len(found)} of {n} ranks"
    less = f"the median rank would wait {units.duration(won_ns)} less for others"
    if n == 2:
        less = " and ".join(
            f"rank {rank} would wait {units.duration(ns)} less"
            for rank, ns in zip(job.ranks, job.costs_ns.sum(axis=0).tolist(), strict=True)
            if ns
        )
    return [
        RankFinding(
            rule="ranks_wait_for_python",
            cost_ns=round(float(np.median([of.waited_for_host_ns for _, of in rows]))),
            cause=f"the devices of {who} waited for Python",
            detail=": "
            + sentences(
                f"each {waited}, {shares} of {window}, and computed for {computed}",
                f"were {units.every(n, 'rank')} in time, {less}" if won_ns else "",
                f"without its exposed waiting for other ranks an extent is still {left}",
            ),
            ranks=tuple(row.rank for row, _ in found),
            advice="Shorten what Python does first: each rank's own findings say where it waited",
        )
    ]


def _share(of: Totals) -> float:
    return of.waited_for_host_ns / of.window_ns


def _range(values_ns: Sequence[int]) -> str:
    return _range_of([units.duration(ns) for ns in sorted(values_ns)])


def _range_of(words: Sequence[str]) -> str:
    """The least and the most of rising values in words, once where they read the same."""
    return words[0] if words[0] == words[-1] else f"{words[0]} to {words[-1]}"
