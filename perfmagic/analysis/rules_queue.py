"""Findings about the queue: fed too slowly, or full."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.facts import Facts, on_lines
from perfmagic.analysis.finding import Finding
from perfmagic.analysis.idle import LAUNCH_LATENCY_NS
from perfmagic.trace.columns import OpKind

MANY_KERNELS = 50
LAUNCH_BOUND_GAP_NS = 50_000  # gaps up to a few launches long; longer ones have another cause
LAUNCH_BOUND_FRAC = 0.2  # of the extent


def small_kernels(facts: Facts) -> list[Finding]:
    """Kernels so short that Python cannot queue them as fast as they run."""
    ops, gaps, extent_ns = facts.trace.ops, facts.gaps, facts.breakdown.extent_ns
    rows = np.flatnonzero((ops.device == facts.device) & (ops.kind == OpKind.KERNEL))
    short = gaps.length_ns < LAUNCH_BOUND_GAP_NS
    lost_ns = int(gaps.host_ns[short].sum())
    if len(rows) < MANY_KERNELS or lost_ns < LAUNCH_BOUND_FRAC * extent_ns:
        return []
    mean_ns = float((ops.end_ns - ops.start_ns)[rows].mean())
    if mean_ns >= LAUNCH_LATENCY_NS:
        return []
    lines = np.unique(gaps.line[short & (gaps.host_ns > 0)])
    each = f" of {units.duration(mean_ns)} on average, one every {units.duration(extent_ns / len(rows))}"
    return [
        Finding(
            rule="small_kernels",
            cost_ns=lost_ns,
            cause=f"{units.count(len(rows))} small kernels",
            detail=f"{each}: Python queues them slower than the device runs them{on_lines(lines[:3])}",
            lines=tuple(int(n) for n in lines[:3] if n > 0),
            start_ns=facts.breakdown.extent_start_ns,
            end_ns=facts.breakdown.extent_end_ns,
            device=facts.device,
            advice="CUDA graphs or torch.compile launch many at once",
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
