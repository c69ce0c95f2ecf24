"""The finding "ops launched one by one" and its sentence."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.ddp_copies import ddp_advice
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.places import on_time_lines
from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.compiled import can_compile, compiled, fused
from perfmagic.analysis.timeline.launches import LaunchBound
from perfmagic.numerics.intervals import Intervals, covered_ns, intersect, total_ns, union
from perfmagic.trace.columns import Bool

LAUNCH_BOUND_FRAC = 0.05  # of the extent: as of the longest gap, less is not worth a rewrite of the step


def one_by_one(facts: Facts, free: Intervals) -> list[Finding]:
    """Stretches in which the device had finished before Python launched the next op."""
    gaps, stretches = facts.gaps, facts.one_by_one
    mine = np.flatnonzero(facts.in_stretches & (gaps.for_python_ns > 0))
    where = intersect(free, union(gaps.start_ns[mine], gaps.end_ns[mine]))
    lost_ns = total_ns(where)
    if not stretches or lost_ns < LAUNCH_BOUND_FRAC * facts.breakdown.extent_ns:
        return []
    n_ops, median_ns = sum(s.n_ops for s in stretches), _median_ns(facts, stretches)
    length_ns = sum(s.end_ns - s.start_ns for s in stretches)
    lines = np.unique(gaps.line[mine])
    launched = facts.trace.launch_start_ns()[gaps.op[mine]]
    several = f" in {units.count(len(stretches))} stretches" if len(stretches) > 1 else ""
    each = f"half of them no longer than {units.duration(median_ns)}"
    pace = f"one every {units.duration(length_ns / n_ops)} on average, {each}"
    where_words = f"{on_time_lines(facts, where, lines[:3])}{facts.in_steps(launched)}"
    late = (
        f"{facts.the_device} had finished what was queued before each, and waited {units.duration(lost_ns)} for Python"
    )
    # what a library's option leaves out needs neither graph nor compiler, which do not reach it
    mine_of_ops = (facts.trace.ops.device == facts.device) & _inside(facts, stretches)
    advice = ddp_advice(facts, mine_of_ops) or _how(facts, stretches)
    return [
        Finding(
            rule="one_by_one",
            cost_ns=lost_ns,
            cause=f"{units.count(n_ops)} ops launched one by one",
            detail=f"{facts.on_device}{several}: {sentences(pace, late)}{where_words}",
            lines=tuple(int(n) for n in lines[:3] if n > 0),
            start_ns=min(s.start_ns for s in stretches),
            end_ns=max(s.end_ns for s in stretches),
            device=facts.device,
            where=where,
            advice=advice,
        )
    ]


def _how(facts: Facts, stretches: Rows[LaunchBound]) -> str:
    """What launches many ops at once, without what the trace has for most of them already."""
    ops = facts.trace.ops
    mine = (ops.device == facts.device) & _inside(facts, stretches)
    if 2 * int((mine & compiled(facts.trace)).sum()) < int(mine.sum()):
        either = "CUDA graphs or torch.compile" if can_compile(facts.trace, facts.device) else "CUDA graphs"
        return f"{either} launch many at once"
    if not fused(facts.trace)[mine].any():
        unfused = "Compiled code made most of these launches, with no fused kernel among them: torch.compile's default"
        return f"{unfused} backend (inductor) fuses neighbours. CUDA graphs launch many at once"
    return "Compiled code made most of these launches already. CUDA graphs launch many at once"


def _median_ns(facts: Facts, stretches: Rows[LaunchBound]) -> int:
    """The median duration of the ops in some stretches: one long collective would move the mean."""
    ops = facts.trace.ops
    mine = (ops.device == facts.device) & _inside(facts, stretches)
    return int(np.median((ops.end_ns - ops.start_ns)[mine]))


def _inside(facts: Facts, stretches: Rows[LaunchBound]) -> Bool:
    """Which ops ran in some stretches; shape of ops."""
    ops = facts.trace.ops
    spans = union(*(np.array(column) for column in zip(*((s.start_ns, s.end_ns) for s in stretches), strict=True)))
    inside: Bool = covered_ns(spans, ops.start_ns, ops.end_ns) > 0
    return inside
