"""The finding "the same gap", of pauses that come again before the same op, and its sentence."""

from __future__ import annotations

import re

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, on_lines, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.longest_gap import LONG_GAP_FRAC
from perfmagic.analysis.findings.python_was import python_was
from perfmagic.analysis.timeline.origin import origins
from perfmagic.numerics.intervals import Intervals, covered_ns, intersect, total_ns, union
from perfmagic.numerics.stats import OUTER_FENCE
from perfmagic.trace.columns import Int64
from perfmagic.trace.short_names import kernel_short_names

REPEATED_GAP_NS = 50_000  # Python's part of a gap; shorter ones are the ordinary time between two launches
REPEATED = 3  # so many are a habit
REPEATED_FINDINGS = 2  # the dearest ones; a step with hundreds of kernels could fill the list with them
_COMPILED = re.compile(r"Torch-Compiled|CompiledFxGraph|CompiledFunction")  # torch.compile's own marks


def repeated_gap(facts: Facts, free: Intervals) -> list[Finding]:
    """Pauses of the device that come again before the same op, and what Python did in them.

    The same op is a kernel of one name that one operator launches. Pauses that other findings explain are left out, as
    are those within stretches of ops launched one by one, and of each group the outliers: such a gap is one of its own.
    """
    gaps, origin = facts.gaps, origins(facts.trace)
    own_ns = covered_ns(free, gaps.start_ns, gaps.end_ns)
    rows = np.flatnonzero((own_ns >= REPEATED_GAP_NS) & ~facts.in_stretches)
    ended_by = gaps.op[rows]
    key = facts.trace.ops.name[ended_by].astype(np.int64) * (len(origin.names) + 1) + origin.name[ended_by]
    keys, group = np.unique(key, return_inverse=True)
    groups = [_usual(rows[group == i], own_ns) for i in range(len(keys))]
    groups = sorted((one for one in groups if len(one) >= REPEATED), key=lambda one: -int(own_ns[one].sum()))
    least_ns = LONG_GAP_FRAC * facts.breakdown.extent_ns
    return [_repeated(facts, one, free) for one in groups[:REPEATED_FINDINGS] if own_ns[one].sum() >= least_ns]


def _usual(rows: Int64, own_ns: Int64) -> Int64:
    """The gaps of a group without those that are far longer than the rest. Source: docs/words.md, "outlier"."""
    if len(rows) <= REPEATED:
        return rows
    low, high = np.percentile(own_ns[rows], (25, 75))
    usual: Int64 = rows[own_ns[rows] <= high + OUTER_FENCE * (high - low)]
    return usual


def _repeated(facts: Facts, rows: Int64, free: Intervals) -> Finding:
    gaps, trace = facts.gaps, facts.trace
    where = intersect(free, union(gaps.start_ns[rows], gaps.end_ns[rows]))
    host_ns, each_ns = total_ns(where), covered_ns(where, gaps.start_ns[rows], gaps.end_ns[rows])
    was = python_was(facts, where)
    lines = np.unique(gaps.line[rows])
    launched = trace.launch_start_ns()[gaps.op[rows]]
    kernel = kernel_short_names(trace)[trace.names[trace.ops.name[gaps.op[rows[0]]]]]
    spread = f"from {units.duration(int(each_ns.min()))} to {units.duration(int(each_ns.max()))}"
    each = f"{spread} each, half of them {units.duration(float(np.median(each_ns)))} or less"
    waited = f"{facts.the_device} waited {units.duration(host_ns)} for Python{on_lines(lines[:3])}"
    waited += facts.in_steps(launched)
    return Finding(
        rule="repeated_gap",
        cost_ns=host_ns,
        cause=f"the same gap ×{units.count(len(rows))}",
        detail=f" before {kernel}: {sentences(waited, each, was.words)}",
        lines=tuple(int(n) for n in lines[:3] if n > 0),
        start_ns=int(gaps.start_ns[rows].min()),
        end_ns=int(gaps.end_ns[rows].max()),
        device=facts.device,
        where=where,
        advice=_advice(was.names),
        frames=was.frames,
    )


def _advice(names: tuple[str, str, str]) -> str:
    """What to do about Python's work by its operator, annotation and frame; nothing where none is known."""
    if any(_COMPILED.search(name) for name in names):
        return 'torch.compile(mode="reduce-overhead") runs it as CUDA graphs, without this Python work'
    if names[0]:
        return "torch.compile or CUDA graphs remove this Python work"
    return "Do this work ahead of time, or queue other ops before it" if any(names) else ""
