"""Findings about the queue: fed too slowly, or full."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, on_lines
from perfmagic.analysis.findings.finding import Finding

LAUNCH_BOUND_FRAC = 0.05  # of the extent: as of the longest gap, less is not worth a rewrite of the step


def one_by_one(facts: Facts) -> list[Finding]:
    """Stretches in which the device had finished before Python launched the next op."""
    gaps, stretches = facts.gaps, facts.one_by_one
    lost_ns = int(gaps.host_ns[facts.in_stretches].sum())
    if not stretches or lost_ns < LAUNCH_BOUND_FRAC * facts.breakdown.extent_ns:
        return []
    n_ops, busy_ns = sum(s.n_ops for s in stretches), sum(s.busy_ns for s in stretches)
    length_ns = sum(s.end_ns - s.start_ns for s in stretches)
    mine = np.flatnonzero(facts.in_stretches & (gaps.host_ns > 0))
    lines = np.unique(gaps.line[mine])
    launched = facts.trace.launch_start_ns()[gaps.op[mine]]
    where = f" in {units.count(len(stretches))} stretches" if len(stretches) > 1 else ""
    return [
        Finding(
            rule="one_by_one",
            cost_ns=lost_ns,
            cause=f"{units.count(n_ops)} ops launched one by one",
            detail=f"{facts.on_device}{where}: one every {units.duration(length_ns / n_ops)}, and each executes "
            f"{units.duration(busy_ns / n_ops)}; Python was late by {units.duration(lost_ns)} in all"
            f"{on_lines(lines[:3])}{facts.in_steps(launched)}",
            lines=tuple(int(n) for n in lines[:3] if n > 0),
            start_ns=min(s.start_ns for s in stretches),
            end_ns=max(s.end_ns for s in stretches),
            device=facts.device,
            advice=f"CUDA graphs or torch.compile launch many at once and could win up to {units.duration(lost_ns)}",
        )
    ]


def queue_full(facts: Facts) -> list[Finding]:
    """Launch calls that waited for room in the queue: nothing is lost, the device has work."""
    calls, rows = facts.trace.calls, facts.launches.blocked
    if not len(rows):
        return []
    length_ns = int((calls.end_ns - calls.start_ns)[rows].sum())
    lines = np.unique(calls.line[rows])
    n = units.plural(len(rows), "launch", "launches")
    return [
        Finding(
            rule="queue_full",
            cost_ns=0,
            cause="the queue was full",
            detail=f": {n} blocked Python {units.duration(length_ns)} in all{on_lines(lines)}, "
            f"≤ {units.count(facts.launches.deepest)} launches queued",
            lines=tuple(int(line) for line in lines if line > 0),
            start_ns=int(calls.start_ns[rows].min()),
            end_ns=int(calls.end_ns[rows].max()),
            device=facts.device,
        )
    ]
