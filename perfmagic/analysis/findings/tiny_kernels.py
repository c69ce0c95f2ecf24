"""The finding "many tiny kernels" and its sentence."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.busy import NOTABLE_FRAC, TINY_NS, claim
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.timeline.compiled import can_compile, compiled
from perfmagic.trace.columns import OpKind

MANY_FRAC = 0.5  # of the kernels
MANY = 100  # fewer are no pattern
_FUSE = "torch.compile fuses neighbours, which saves starts and traffic between them"


def tiny_kernels(facts: Facts) -> list[Finding]:
    """A device that is busy with kernels too short to use it."""
    mine, ops = claim(facts, "tiny_kernels"), facts.trace.ops
    kernels = np.flatnonzero((ops.device == facts.device) & (ops.kind == OpKind.KERNEL))
    if (
        facts.trace.simulated
        or mine.ops_ns < NOTABLE_FRAC * max(1, facts.window_ns)
        or len(mine.rows) < max(MANY, MANY_FRAC * len(kernels))
    ):
        return []
    median_ns = float(np.median((ops.end_ns - ops.start_ns)[kernels]))
    few = f"{units.count(len(mine.rows))} of {units.plural(len(kernels), 'kernel')} took less than"
    time = f"{few} {units.duration(TINY_NS)}, {units.duration(mine.ops_ns)} in all"
    done = compiled(facts.trace)[mine.rows].any()
    return [
        Finding(
            rule="tiny_kernels",
            cost_ns=None,
            cause="many tiny kernels",
            detail=f"{facts.on_device}: {time}; half of all take {units.duration(median_ns)} or less",
            lines=(),
            start_ns=int(ops.start_ns[mine.rows].min()),
            end_ns=int(ops.end_ns[mine.rows].max()),
            device=facts.device,
            advice="" if done or not can_compile(facts.trace, facts.device) else _FUSE,
            where=mine.where,
        )
    ]
