"""The finding "host and device clocks disagree" and its sentence."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.incomplete import about_the_record

NOTABLE_FRAC = 0.01  # of the ops


def clocks(facts: Facts) -> list[Finding]:
    """Ops that start before their launch: the clocks of host and device disagree."""
    trace = facts.trace
    ahead = trace.launch_start_ns() - trace.ops.start_ns
    rows = np.flatnonzero(ahead > 0)
    if len(rows) < NOTABLE_FRAC * max(1, len(trace.ops)) or not len(rows):
        return []
    most_ns = int(ahead.max())
    n = units.plural(len(rows), "op starts", "ops start")
    early = f"{n} before the launch, by up to {units.duration(most_ns)}"
    words = f": {sentences(early, 'times in the queue are off by as much')}"
    return [about_the_record(facts, "clocks", "host and device clocks disagree", words)]
