"""That ranks wait for Python longer than for each other: then arriving together is not what would help most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import sentences
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.one_job import OneJob

MOST_FRAC = 0.5  # of the ranks: of fewer their own findings say it
NOTABLE_FRAC = 0.05  # of a rank's extent, as of the longest gap


def waited_for_python(job: OneJob, late: Sequence[RankFinding]) -> list[RankFinding]:
    """Where most devices waited longer for Python than ranks in time would win.  late: what says how much that is.

    Nothing without communication, where ranks do not depend on each other, nor of a CPU, which runs Python itself.
    """
    if not job.matching.n or any(d.kind == "cpu" for one in job.summaries.values() for d in one.meta.devices):
        return []
    won_ns = sum(finding.cost_ns or 0 for finding in late)
    rows = [(row, job.summaries[row.rank].totals.waited_for_host_ns) for row in job.all.table]
    found = [(row, ns) for row, ns in rows if ns > max(won_ns, NOTABLE_FRAC * row.extent_ns)]
    if len(found) <= MOST_FRAC * len(rows):
        return []
    waited = _range([ns for _, ns in found])
    shares = _range_of(
        [units.percent(ns / row.extent_ns) for row, ns in sorted(found, key=lambda f: f[1] / f[0].extent_ns)]
    )
    computed = _range([row.compute_ns for row, _ in found])
    left = _range([row.extent_ns - row.exposed_waiting_ns for row, _ in found])
    who = f"all {len(rows)}" if len(found) == len(rows) else f"{len(found)} of {len(rows)}"
    return [
        RankFinding(
            rule="ranks_wait_for_python",
            cost_ns=round(float(np.median([ns for _, ns in rows]))),
            cause=f"the devices of {who} ranks waited for Python",
            detail=": "
            + sentences(
                f"each {waited}, {shares} of its extent, and computed for {computed}",
                f"were all ranks in time, all would wait {units.duration(won_ns)} less for each other"
                if won_ns
                else "",
                f"without its exposed waiting for other ranks an extent is still {left}",
            ),
            ranks=tuple(row.rank for row, _ in found),
            advice="Shorten what Python does first: each rank's own findings say where it waited",
        )
    ]


def _range(values_ns: Sequence[int]) -> str:
    return _range_of([units.duration(ns) for ns in sorted(values_ns)])


def _range_of(words: Sequence[str]) -> str:
    """The least and the most of rising values in words, once where they read the same."""
    return words[0] if words[0] == words[-1] else f"{words[0]} to {words[-1]}"
