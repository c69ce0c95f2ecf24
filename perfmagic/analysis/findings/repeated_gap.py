"""The finding "the same gap", of pauses that come again before the same op, and its sentence."""

from __future__ import annotations

import re

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, on_lines, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.longest_gap import LONG_GAP_FRAC
from perfmagic.analysis.findings.python_was import PythonWas, python_was
from perfmagic.analysis.timeline.origin import origins
from perfmagic.numerics.intervals import Intervals, covered_ns, intersect, union
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.short_names import kernel_short_names
from perfmagic.trace.signatures import function_name

REPEATED_GAP_NS = 50_000  # Python's part of a gap; shorter ones are the ordinary time between two launches
REPEATED = 3  # so many are a habit
REPEATED_FINDINGS = 2  # the dearest ones; a step with hundreds of kernels could fill the list with them
FAR_IQR = 3  # as of an outlier among samples: so far from the middle half,
FAR_RATIO = 3  # and so many times the median: where nearly all are alike, the middle half has no width
_COMPILED = re.compile(r"Torch-Compiled|CompiledFxGraph|CompiledFunction")  # torch.compile's own marks


def repeated_gap(facts: Facts, free: Intervals) -> list[Finding]:
    """Pauses of the device that come again before the same kernel of the same operator, and what Python did in them.

    Only what no other finding explains counts: `free`. A gap far longer than the others of its group is no repetition
    and is left out; the longest of all is told by itself.
    """
    gaps = facts.gaps
    waited = covered_ns(free, gaps.start_ns, gaps.end_ns)
    rows = np.flatnonzero((waited >= REPEATED_GAP_NS) & ~facts.in_stretches)
    groups = _alike(facts, rows)
    kept = [mine[~_far(waited[mine])] for mine in groups if len(mine) >= REPEATED]
    kept.sort(key=lambda mine: (-int(waited[mine].sum()), int(mine[0]) if len(mine) else 0))
    least_ns = LONG_GAP_FRAC * facts.breakdown.extent_ns
    told = [mine for mine in kept if len(mine) >= REPEATED and waited[mine].sum() >= least_ns]
    return [_repeated(facts, mine, free, waited[mine]) for mine in told[:REPEATED_FINDINGS]]


def _alike(facts: Facts, rows: Int64) -> list[Int64]:
    """The gaps by what ended them: the whole name of the op, and the operator that launched it."""
    op, found = facts.gaps.op[rows], origins(facts.trace)
    key = np.column_stack((facts.trace.ops.name[op], found.source[op], found.name[op]))
    _, group = np.unique(key, axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(group[order])) + 1)


def _far(values_ns: Int64) -> Bool:
    """Which values are far longer than the others."""
    low, middle, high = np.percentile(values_ns, (25, 50, 75))
    far: Bool = (values_ns > high + FAR_IQR * (high - low)) & (values_ns > FAR_RATIO * middle)
    return far


def _repeated(facts: Facts, rows: Int64, free: Intervals, waited_ns: Int64) -> Finding:
    gaps, trace = facts.gaps, facts.trace
    where = intersect(free, union(gaps.start_ns[rows], gaps.end_ns[rows]))
    was = python_was(facts, where)
    lines = np.unique(gaps.line[rows])
    launched = trace.launch_start_ns()[gaps.op[rows]]
    host_ns = int(waited_ns.sum())
    waited = f"{facts.the_device} waited {units.duration(host_ns)} for Python, {_each(waited_ns)}{on_lines(lines[:3])}"
    return Finding(
        rule="repeated_gap",
        cost_ns=host_ns,
        cause=f"the same gap ×{units.count(len(rows))}",
        detail=f" before {_ended_by(facts, rows)}: {sentences(waited + facts.in_steps(launched), was.words)}",
        lines=tuple(int(n) for n in lines[:3] if n > 0),
        start_ns=int(gaps.start_ns[rows].min()),
        end_ns=int(gaps.end_ns[rows].max()),
        device=facts.device,
        where=where,
        frames=was.frames,
        advice=_advice(was),
    )


def _each(waited_ns: Int64) -> str:
    """The median and the spread: "0.52 ms in the median (0.48 ms to 0.61 ms)"."""
    least, middle, most = (units.duration(int(value)) for value in np.percentile(waited_ns, (0, 50, 100)))
    return f"{middle} each" if least == most else f"{middle} in the median ({least} to {most})"


def _ended_by(facts: Facts, rows: Int64) -> str:
    """The op that ended some gaps, and the operator that launched it where one did."""
    trace, op = facts.trace, int(facts.gaps.op[rows[0]])
    found, name = origins(trace), trace.names[trace.ops.name[op]]
    operator = found.names[found.name[op]] if found.host_op[op] != NONE else ""
    kernel = kernel_short_names(trace)[name]
    return f"{kernel} of {function_name(operator)}" if operator not in ("", name, kernel) else kernel


def _advice(was: PythonWas) -> str:
    """What to do about Python's work by its operator, annotation and frame; nothing where none is known."""
    if any(_COMPILED.search(name) for name in was.names):
        return 'torch.compile(mode="reduce-overhead") runs it as CUDA graphs, without this Python work'
    if was.names[0]:
        return "torch.compile or CUDA graphs remove this Python work"
    return "Do this work ahead of time, or queue other ops before it" if any(was.names) else ""
