"""The finding "ops launched one by one" and its sentence."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, on_lines, sentences
from perfmagic.analysis.findings.finding import Finding

LAUNCH_BOUND_FRAC = 0.05  # of the extent: as of the longest gap, less is not worth a rewrite of the step


def one_by_one(facts: Facts) -> list[Finding]:
    """Stretches in which the device had finished before Python launched the next op."""
    gaps, stretches = facts.gaps, facts.one_by_one
    lost_ns = int(gaps.for_python_ns[facts.in_stretches].sum())
    if not stretches or lost_ns < LAUNCH_BOUND_FRAC * facts.breakdown.extent_ns:
        return []
    n_ops, busy_ns = sum(s.n_ops for s in stretches), sum(s.busy_ns for s in stretches)
    length_ns = sum(s.end_ns - s.start_ns for s in stretches)
    mine = np.flatnonzero(facts.in_stretches & (gaps.for_python_ns > 0))
    lines = np.unique(gaps.line[mine])
    launched = facts.trace.launch_start_ns()[gaps.op[mine]]
    where = f" in {units.count(len(stretches))} stretches" if len(stretches) > 1 else ""
    pace = f"one every {units.duration(length_ns / n_ops)} on average, each {units.duration(busy_ns / n_ops)} long"
    late = f"{facts.the_device} had finished each before, and waited {units.duration(lost_ns)} for Python"
    return [
        Finding(
            rule="one_by_one",
            cost_ns=lost_ns,
            cause=f"{units.count(n_ops)} ops launched one by one",
            detail=f"{facts.on_device}{where}: {sentences(pace, late)}{on_lines(lines[:3])}{facts.in_steps(launched)}",
            lines=tuple(int(n) for n in lines[:3] if n > 0),
            start_ns=min(s.start_ns for s in stretches),
            end_ns=max(s.end_ns for s in stretches),
            device=facts.device,
            advice=f"CUDA graphs or torch.compile launch many at once and could save up to {units.duration(lost_ns)}",
        )
    ]
