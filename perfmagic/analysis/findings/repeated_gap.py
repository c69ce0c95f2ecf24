"""The finding "the same gap", of pauses that come again between the same ops, and its sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmagic import units
from perfmagic.analysis.findings.ddp_copies import BUFFERS_ADVICE, FORWARD, UNFLATTEN
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.longest_gap import LONG_GAP_FRAC
from perfmagic.analysis.findings.places import on_time_lines
from perfmagic.analysis.findings.python_was import PythonWas, python_was
from perfmagic.analysis.timeline.compiled import can_compile, compiled, in_graphs, is_compiled_code
from perfmagic.analysis.timeline.idle import CAUSES
from perfmagic.analysis.timeline.origin import Source, origins
from perfmagic.numerics.intervals import Intervals, covered_ns, intersect, union
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.short_names import kernel_short_names
from perfmagic.trace.signatures import function_name

NEAR_FRAC = 0.25  # of the median: a gap of about that length
REPEATED_GAP_NS = 50_000  # of a gap that counts; shorter ones are the ordinary time between two launches
REPEATED = 3  # so many are a habit
REPEATED_FINDINGS = 2  # the dearest ones; a step with hundreds of kernels could fill the list with them
FAR_IQR = 3  # as of an outlier among samples: so far from the middle half,
FAR_RATIO = 3  # and so many times the median: where nearly all are alike, the middle half has no width
# The first part of an operator's name is of the library that registered it; these are torch's own, which torch.compile
# knows. It calls every other operator as it is (torch.library, "custom operators")
_TORCH = frozenset({"aten", "prim", "prims", "autograd", "torch", "c10d", "_c10d_functional", "inductor", "quantized"})
_COMPILED_ADVICE = 'torch.compile(mode="reduce-overhead") runs it as CUDA graphs, without this Python work'
_UNCOMPILED_ADVICE = "torch.compile or CUDA graphs remove this Python work"
_GRAPHS_ADVICE = "CUDA graphs remove this Python work"
# DDP's _sync_buffers: broadcast_coalesced puts them into one tensor and copies them back from slices of it
_BUFFERS = frozenset({UNFLATTEN, FORWARD})


def repeated_gap(facts: Facts, free: Intervals) -> list[Finding]:
    """Pauses of the device for Python that come again between the same ops, and what Python did in them.

    Only what no other finding explains counts: `free`. A gap far longer than the others of its group is no repetition
    and is left out; the longest of all is told by itself.
    """
    told = _again(facts, free, ~facts.in_stretches)
    return [_for_python(facts, mine, free, waited_ns) for mine, waited_ns in told]


def repeated_gap_queued(facts: Facts, free: Intervals) -> list[Finding]:
    """Pauses that come again between the same ops though work was queued: inside a graph, behind what is unrecorded."""
    unexplained = intersect(free, facts.cell_time.parts["unexplained"])
    told = _again(facts, unexplained, np.ones(len(facts.gaps), bool))
    return [_with_work_queued(facts, mine, unexplained, waited_ns) for mine, waited_ns in told]


def _again(facts: Facts, free: Intervals, asked: Bool) -> list[tuple[Int64, Int64]]:
    """The dearest groups of gaps that are alike, each with how much of each gap is free.  asked: which gaps count."""
    gaps = facts.gaps
    waited = covered_ns(free, gaps.start_ns, gaps.end_ns)
    rows = np.flatnonzero((waited >= REPEATED_GAP_NS) & asked)
    groups = _alike(facts, rows, waited) if len(rows) else []
    kept = [mine[~_far(waited[mine])] for mine in groups if len(mine) >= REPEATED]
    kept.sort(key=lambda mine: (-int(waited[mine].sum()), int(mine[0]) if len(mine) else 0))
    least_ns = LONG_GAP_FRAC * facts.breakdown.extent_ns
    told = [mine for mine in kept if len(mine) >= REPEATED and waited[mine].sum() >= least_ns]
    return [(mine, waited[mine]) for mine in told[:REPEATED_FINDINGS]]


def _alike(facts: Facts, rows: Int64, waited_ns: Int64) -> list[Int64]:
    """The gaps by the op that ended them, its operator, and what Python was in for most of the gap.

    Where these are of very different lengths they are of several causes: the op before tells these apart, then length.
    """
    ops, found, op = facts.trace.ops, origins(facts.trace), facts.gaps.op[rows]
    operator = np.where(found.source[op] == Source.OPERATOR, found.name[op], NONE)
    result = []
    for mine in _grouped(rows, ops.name[op], operator, facts.gaps.host_op[rows]):
        low, high = np.percentile(waited_ns[mine], (25, 75))
        result += [mine] if high <= FAR_RATIO * low else _grouped(mine, ops.name[_op_before(facts, mine)])
    return [near for mine in result for near in _of_one_size(mine, waited_ns[mine])]


def _of_one_size(rows: Int64, values_ns: Int64) -> list[Int64]:
    """The rows in parts, between which no value lies: each is many times the largest of the part before."""
    order = np.argsort(values_ns, kind="stable")
    ordered = values_ns[order]
    return [np.sort(part) for part in np.split(rows[order], np.flatnonzero(ordered[1:] > FAR_RATIO * ordered[:-1]) + 1)]


def _grouped(rows: Int64, *what: npt.NDArray[np.integer[Any]]) -> list[Int64]:
    """The rows with equal values together; what: shape of rows."""
    _, group = np.unique(np.column_stack(what), axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(group[order])) + 1)


def _op_before(facts: Facts, rows: Int64) -> Int64:
    """The op with whose end each gap begins, row of trace.ops."""
    ops = facts.trace.ops
    here = np.flatnonzero(ops.device == facts.device)
    by_end = here[np.argsort(ops.end_ns[here], kind="stable")]
    at = np.searchsorted(ops.end_ns[by_end], facts.gaps.start_ns[rows], side="right") - 1
    return by_end[np.maximum(at, 0)]


def _far(values_ns: Int64) -> Bool:
    """Which values are far longer than the others."""
    low, middle, high = np.percentile(values_ns, (25, 50, 75))
    far: Bool = (values_ns > high + FAR_IQR * (high - low)) & (values_ns > FAR_RATIO * middle)
    return far


def _for_python(facts: Facts, rows: Int64, free: Intervals, waited_ns: Int64) -> Finding:
    gaps = facts.gaps
    where = intersect(free, union(gaps.start_ns[rows], gaps.end_ns[rows]))
    was = python_was(facts, where)
    launched = facts.trace.launch_start_ns()[gaps.op[rows]]
    waited = f"{facts.the_device} waited {units.duration(int(waited_ns.sum()))} for Python, {_each(waited_ns)}"
    said = sentences(
        waited + on_time_lines(facts, where, np.unique(gaps.line[rows])[:3]) + facts.in_steps(launched), was.words
    )
    return replace(_finding(facts, rows, where, waited_ns, said), frames=was.frames, advice=_advice(facts, rows, was))


def _with_work_queued(facts: Facts, rows: Int64, free: Intervals, waited_ns: Int64) -> Finding:
    gaps = facts.gaps
    where = intersect(free, union(gaps.start_ns[rows], gaps.end_ns[rows]))
    waited = f"{facts.the_device} waited {units.duration(int(waited_ns.sum()))} {CAUSES['unexplained']}"
    return _finding(facts, rows, where, waited_ns, sentences(f"{waited}, {_each(waited_ns)}", _graph(facts, rows)))


def _graph(facts: Facts, rows: Int64) -> str:
    """That the gaps lie before a graph, or inside one, where the record says so of all that it knows the launch of."""
    ops, ended_by, before = facts.trace.ops, facts.gaps.op[rows], _op_before(facts, rows)
    known = in_graphs(facts.trace)[ended_by]
    if not known.any() or not (known | (ops.launch[ended_by] == NONE)).all():
        return ""
    _, first = np.unique(ops.launch, return_index=True)  # the ops are in the order of their starts
    if np.isin(ended_by[known], first).all():
        return "the op behind it is the first of a graph launch"
    return "both ops are of one graph launch" if (ops.launch[ended_by] == ops.launch[before])[known].all() else ""


def _finding(facts: Facts, rows: Int64, where: Intervals, waited_ns: Int64, said: str) -> Finding:
    gaps, ops = facts.gaps, facts.trace.ops
    lines = np.unique(gaps.line[rows])
    short = kernel_short_names(facts.trace)
    ahead = [short[facts.trace.names[name]] for name in np.unique(ops.name[_op_before(facts, rows)]).tolist()]
    between = f"between {ahead[0]} and" if len(ahead) == 1 else "before"
    return Finding(
        rule="repeated_gap",
        cost_ns=int(waited_ns.sum()),
        cause=f"the same gap ×{units.count(len(rows))}",
        detail=f" {between} {_ended_by(facts, rows)}: {said}",
        lines=tuple(int(n) for n in lines[:3] if n > 0),
        start_ns=int(gaps.start_ns[rows].min()),
        end_ns=int(gaps.end_ns[rows].max()),
        device=facts.device,
        where=where,
    )


def _each(waited_ns: Int64) -> str:
    """The median and the spread: "0.52 ms in the median (0.48 ms to 0.61 ms)"; the spread alone where it is wide.

    Half of the gaps have to lie near the median: of two groups it would be a length that no gap has.
    """
    median_ns = float(np.median(waited_ns))
    least, middle, most = (units.duration(int(value)) for value in (waited_ns.min(), median_ns, waited_ns.max()))
    if least == most:
        return f"{middle} each"
    near = np.abs(waited_ns - median_ns) <= NEAR_FRAC * median_ns
    return f"{middle} in the median ({least} to {most})" if 2 * near.sum() >= len(near) else f"{least} to {most} each"


def _ended_by(facts: Facts, rows: Int64) -> str:
    """The op that ended some gaps, and the operator that launched it where one did."""
    trace, op = facts.trace, int(facts.gaps.op[rows[0]])
    found, name = origins(trace), trace.names[trace.ops.name[op]]
    operator = found.names[found.name[op]] if found.host_op[op] != NONE else ""
    kernel = kernel_short_names(trace)[name]
    return f"{kernel} of {function_name(operator)}" if operator not in ("", name, kernel) else kernel


def _advice(facts: Facts, rows: Int64, was: PythonWas) -> str:
    """What to do about Python's work by what it was in; nothing where none is known, or where it is done already."""
    if was.around >= _BUFFERS:
        return BUFFERS_ADVICE
    operator = was.names[0]
    if "::" in operator and operator.split("::", 1)[0] not in _TORCH:
        custom = f"torch.compile does not look into the operator {function_name(operator)}"
        return f"{custom}. CUDA graphs, where they can capture it, launch its work without this Python"
    ended_by = facts.gaps.op[rows]
    if 2 * int(in_graphs(facts.trace)[ended_by].sum()) >= len(rows):
        return ""
    made = 2 * int(compiled(facts.trace)[ended_by].sum()) >= len(rows)
    if made or any(is_compiled_code(name) for name in was.names):
        return _COMPILED_ADVICE
    if operator:
        return _UNCOMPILED_ADVICE if can_compile(facts.trace, facts.device) else _GRAPHS_ADVICE
    return "Do this work ahead of time, or queue other ops before it" if any(was.names) else ""
