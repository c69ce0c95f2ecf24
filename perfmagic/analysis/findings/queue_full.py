"""The finding "the queue was full" and its sentence."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.places import on_call_lines


def queue_full(facts: Facts) -> list[Finding]:
    """Launch calls that waited for room in the queue: nothing is lost, the device has work."""
    calls, rows = facts.trace.calls, facts.launches.blocked
    if not len(rows):
        return []
    length_ns = int((calls.end_ns - calls.start_ns)[rows].sum())
    lines = np.unique(calls.line[rows])
    n = units.plural(len(rows), "launch", "launches")
    held = f"{n} blocked Python for {units.duration(length_ns)}{on_call_lines(facts, rows)}"
    return [
        Finding(
            rule="queue_full",
            cost_ns=0,
            cause="the queue was full",
            detail=f": {sentences(held, f'up to {units.count(facts.launches.deepest)} launches were queued')}",
            lines=tuple(int(line) for line in lines if line > 0),
            start_ns=int(calls.start_ns[rows].min()),
            end_ns=int(calls.end_ns[rows].max()),
            device=facts.device,
        )
    ]
