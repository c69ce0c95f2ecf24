"""Findings about the record itself: what is missing or cannot be, where it is so much that other numbers suffer."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.timeline.trust import trust
from perfmagic.trace.columns import CallKind

NOTABLE_FRAC = 0.01  # of the launches, or ops


def clocks(facts: Facts) -> list[Finding]:
    """Ops that start before their launch: the clocks of host and device disagree."""
    trace = facts.trace
    ahead = trace.launch_start_ns() - trace.ops.start_ns
    rows = np.flatnonzero(ahead > 0)
    if len(rows) < NOTABLE_FRAC * max(1, len(trace.ops)) or not len(rows):
        return []
    most_ns = int(ahead.max())
    n = units.plural(len(rows), "op starts", "ops start")
    words = f": {n} before the launch, by up to {units.duration(most_ns)}; times in the queue are off by as much"
    return [_finding(facts, "clocks", "host and device clocks disagree", words)]


def incomplete(facts: Facts) -> list[Finding]:
    """Launches without a device record: work that was executed and is not seen."""
    trace = facts.trace
    lost = trust(trace).n_launches_without_op
    launches = int((trace.calls.kind == CallKind.LAUNCH).sum())
    if not lost or lost < NOTABLE_FRAC * launches:
        return []
    n = units.plural(launches, "launch", "launches")
    words = f": {units.count(lost)} of {n} have no device record; busy times are too low"
    return [_finding(facts, "incomplete", "the record is incomplete", words)]


def _finding(facts: Facts, rule: str, cause: str, detail: str) -> Finding:
    parts = facts.breakdown
    return Finding(
        rule=rule,
        cost_ns=None,
        cause=cause,
        detail=detail,
        lines=(),
        start_ns=parts.extent_start_ns,
        end_ns=parts.extent_end_ns,
        device=facts.device,
    )
