"""The finding "the same gap", of pauses that come again before the same op, and its sentence."""

from __future__ import annotations

import re

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.data_loading import is_loader
from perfmagic.analysis.findings.facts import Facts, on_lines, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.longest_gap import LONG_GAP_FRAC, STEP_NAME
from perfmagic.numerics.intervals import Intervals, intersect, total_ns, union
from perfmagic.trace.columns import NONE, HostKind, Int64
from perfmagic.trace.hoststack import nested
from perfmagic.trace.names import short_name

REPEATED_GAP_NS = 50_000  # Python's part of a gap; shorter ones are the ordinary time between two launches
REPEATED = 3  # so many are a habit
REPEATED_FINDINGS = 2  # the dearest ones; a step with hundreds of kernels could fill the list with them
_COMPILED = re.compile(r"Torch-Compiled|CompiledFxGraph|CompiledFunction")  # torch.compile's own marks


def repeated_gap(facts: Facts, free: Intervals) -> list[Finding]:
    """Pauses of the device that come again before the same op, and what Python did in them.

    Those within stretches of ops launched one by one belong to another finding and are left out, as are those in which
    Python mostly fetched data.
    """
    gaps, ops = facts.gaps, facts.trace.ops
    rows = np.flatnonzero((gaps.for_python_ns >= REPEATED_GAP_NS) & ~facts.in_stretches)
    names, group = np.unique(ops.name[gaps.op[rows]], return_inverse=True)
    sums, n = np.zeros(len(names), np.int64), np.bincount(group, minlength=len(names))
    np.add.at(sums, group, gaps.for_python_ns[rows])
    found: list[Finding] = []
    for i in np.argsort(-sums, kind="stable").tolist():
        if sums[i] < LONG_GAP_FRAC * facts.breakdown.extent_ns or len(found) == REPEATED_FINDINGS:
            break
        if n[i] >= REPEATED:
            found += _repeated(facts, rows[group == i], free)
    return found


def _repeated(facts: Facts, rows: Int64, free: Intervals) -> list[Finding]:
    gaps, trace = facts.gaps, facts.trace
    where = intersect(free, union(gaps.start_ns[rows], gaps.end_ns[rows]))
    host_ns = total_ns(where)
    python_was, names = _python_was(facts, rows)
    if any(map(is_loader, names)):
        return []
    lines = np.unique(gaps.line[rows])
    launched = trace.launch_start_ns()[gaps.op[rows]]
    kernel = short_name(trace.names[trace.ops.name[gaps.op[rows[0]]]])
    each = f"{units.duration(host_ns / len(rows))} each on average"
    waited = f"{facts.the_device} waited {units.duration(host_ns)} for Python, {each}{on_lines(lines[:3])}"
    waited += facts.in_steps(launched)
    return [
        Finding(
            rule="repeated_gap",
            cost_ns=host_ns,
            cause=f"the same gap ×{units.count(len(rows))}",
            detail=f" before {kernel}: {sentences(waited, python_was)}",
            lines=tuple(int(n) for n in lines[:3] if n > 0),
            start_ns=int(gaps.start_ns[rows].min()),
            end_ns=int(gaps.end_ns[rows].max()),
            device=facts.device,
            where=where,
            advice=_advice(names),
        )
    ]


def _advice(names: tuple[str, str, str]) -> str:
    """What to do about Python's work by its operator, annotation and frame; nothing where none is known."""
    if any(_COMPILED.search(name) for name in names):
        return 'torch.compile(mode="reduce-overhead") runs it as CUDA graphs, without this Python work'
    if names[0]:
        return "torch.compile or CUDA graphs remove this Python work"
    return "Do this work ahead of time, or queue other ops before it" if any(names) else ""


def _python_was(facts: Facts, rows: Int64) -> tuple[str, tuple[str, str, str]]:
    """Where Python was in the middle of some gaps, in words, and what is named there, each "" where not known.

    Named are the operator, the annotation around it and the Python frame in which most of the time passed.
    """
    trace, host = facts.trace, facts.trace.host_ops
    if not trace.has_host_rows:
        return "", ("", "", "")
    calls = trace.ops.launch[facts.gaps.op[rows]]
    queued_from = trace.launch_start_ns()[facts.gaps.op[rows]]
    middle = (facts.gaps.start_ns[rows] + np.clip(queued_from, facts.gaps.start_ns[rows], facts.gaps.end_ns[rows])) // 2
    step = np.array([name.startswith(STEP_NAME) for name in trace.names], bool)[host.name]
    instants = np.sort(middle)
    around = np.searchsorted(instants, host.end_ns) > np.searchsorted(instants, host.start_ns)
    stacks = (
        ("in", nested(host, (host.kind == HostKind.OP) & around)),
        ("inside", nested(host, (host.kind == HostKind.ANNOTATION) & around & ~step)),
        ("at", nested(trace.python_frames.running_at(middle))),
    )
    words, names = [], []
    for preposition, stack in stacks:
        found = stack.innermost_at(trace.calls.thread[calls], middle)
        known = found != NONE
        most = _most(stack.host_ops.name[found[known]], facts.gaps.for_python_ns[rows[known]], len(rows))
        names.append(trace.names[most[0]] if most else "")
        if most:
            times = f" ×{units.count(most[1])}" if most[1] < len(rows) else ""
            words.append(f"{preposition} {short_name(names[-1])}{times}")
    return (f"Python was {', '.join(words)}" if words else ""), (names[0], names[1], names[2])


def _most(name: Int64, host_ns: Int64, n_all: int) -> tuple[int, int] | None:
    """The name with most of the time and how often it occurs; None where none holds a third of the gaps."""
    if not len(name):
        return None
    names, group, n = np.unique(name, return_inverse=True, return_counts=True)
    best = int(np.bincount(group, weights=host_ns).argmax())
    return (int(names[best]), int(n[best])) if 3 * n[best] >= n_all else None
