"""The finding "gradients set to zero" and its sentence."""

from __future__ import annotations

import re

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.places import on_time_lines
from perfmagic.numerics.intervals import Intervals, covered_ns, intersect, total_ns, union
from perfmagic.trace.columns import NONE

_ZERO_GRAD = re.compile(r"^Optimizer\.zero_grad#")  # what torch.optim records around the call
_ADVICE = (
    "zero_grad(set_to_none=True), torch's default since 2.0, drops the gradients: nothing is filled, "
    "and the next backward writes them instead of adding to zeros"
)


def zero_grad(facts: Facts, free: Intervals) -> list[Finding]:
    """Gradients filled with zeros, one op for each parameter. Source: torch.optim.Optimizer.zero_grad, set_to_none."""
    trace, host = facts.trace, facts.trace.host_ops
    named = np.array([_ZERO_GRAD.match(name) is not None for name in trace.names], bool)
    rows = np.flatnonzero(named[host.name]) if len(host) else np.zeros(0, np.int64)
    inside = union(host.start_ns[rows], host.end_ns[rows])
    ops, launched = trace.ops, trace.launch_start_ns()
    filled = (ops.device == facts.device) & (ops.launch != NONE) & (covered_ns(inside, launched, launched + 1) > 0)
    where = intersect(free, inside)
    cost_ns, busy_ns = total_ns(where), int((ops.end_ns - ops.start_ns)[filled].sum())
    if not filled.any() or not len(where) or cost_ns + busy_ns < facts.notable_ns:
        return []
    lines = np.unique(ops.line[filled])
    steps = facts.in_steps(host.start_ns[rows])
    place = on_time_lines(facts, where, lines[:3])
    held = f"{facts.the_device} waited {units.duration(cost_ns)} for Python meanwhile{place}{steps}"
    n = int(filled.sum())
    fills = f"{units.plural(n, 'op')} of {units.duration(busy_ns)} {'fills' if n == 1 else 'fill'} them"
    return [
        Finding(
            rule="zero_grad",
            cost_ns=cost_ns,
            cause="gradients set to zero",
            detail=f"{facts.on_device}: {sentences(fills, held)}",
            lines=tuple(int(line) for line in lines[:3] if line > 0),
            start_ns=int(where[0, 0]),
            end_ns=int(where[-1, 1]),
            device=facts.device,
            advice=_ADVICE,
            where=where,
        )
    ]
