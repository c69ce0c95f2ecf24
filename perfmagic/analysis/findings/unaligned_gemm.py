"""The finding "unaligned matrix products" and its sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.busy import NOTABLE_FRAC, claim, in_kernels
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.timeline.categories import Category
from perfmagic.analysis.timeline.device_operators import DeviceOperator, device_operators
from perfmagic.trace.columns import Int64

MEASURED_FRAC = 0.5  # of the kernels' time
LIKE_FRAC = 0.5  # of the operations of a call: a much smaller product is slower for other reasons


def unaligned_gemm(facts: Facts) -> list[Finding]:
    """Matrix products whose operands are not aligned to what the kernels read at a time."""
    mine = claim(facts, "unaligned_gemm")
    if mine.ops_ns < NOTABLE_FRAC * max(1, facts.window_ns):
        return []
    ops, parts = facts.trace.ops, facts.breakdown
    ops_ns = int((ops.end_ns - ops.start_ns)[ops.device == facts.device].sum())
    kernel, n_kernels = in_kernels(facts.trace, mine.rows)
    share = f"{units.duration(mine.ops_ns)} of {units.duration(ops_ns)} of device ops"
    others = f" and {units.plural(n_kernels - 1, 'other')}" if n_kernels > 1 else ""
    names = f"{units.plural(len(mine.rows), 'kernel')} read one or two elements at a time ({kernel}{others})"
    rows = [r for r in device_operators(facts.trace, facts.device, facts.comm_names) if r.flop is not None]
    slow, fast = _split(facts, rows, mine.rows)
    cost_ns = _cost_ns(slow, fast)
    known_ns = sum(row.total_ns for row in slow)
    rates = shapes = ""
    if known_ns >= MEASURED_FRAC * mine.ops_ns:  # the rate and the shape of a few say nothing about the rest
        beside = f", aligned ones as large and of the same type {_rate(fast)}" if cost_ns else ""
        part = "they" if known_ns >= mine.ops_ns else f"those with known shapes, {units.duration(known_ns)} of it,"
        rates = f"{part} reached {_rate(slow)}{beside}"
        shapes = f"the longest is {slow[0].name} {slow[0].shapes}"
    return [
        Finding(
            rule="unaligned_gemm",
            cost_ns=None if cost_ns is None else min(cost_ns, int((mine.where[:, 1] - mine.where[:, 0]).sum())),
            cause="unaligned matrix products",
            detail=f"{facts.on_device}, {share}: {sentences(names, rates, shapes)}",
            lines=tuple(int(n) for n in np.unique(ops.line[mine.rows])[:3] if n > 0),
            start_ns=int(ops.start_ns[mine.rows].min()) if len(mine.rows) else parts.extent_start_ns,
            end_ns=int(ops.end_ns[mine.rows].max()) if len(mine.rows) else parts.extent_end_ns,
            device=facts.device,
            advice="Padding their sizes to multiples of 8 lets them read 16 bytes at a time",
            where=mine.where,
        )
    ]


def _split(facts: Facts, rows: Sequence[DeviceOperator], claimed: Int64) -> tuple[list[DeviceOperator], ...]:
    """The operators with known operations whose longest kernel is unaligned, and aligned ones of the same types."""
    names = {facts.trace.names[row] for row in np.unique(facts.trace.ops.name[claimed]).tolist()}
    slow = [row for row in rows if row.kernel in names and row.total_ns]
    types = {row.compute for row in slow}
    fast = [row for row in rows if row.kernel not in names and row.compute in types and row.total_ns]
    least = min((_flop_of_a_call(row) for row in slow), default=0.0) * LIKE_FRAC
    return slow, [row for row in fast if row.category == Category.GEMM and _flop_of_a_call(row) >= least]


def _flop_of_a_call(row: DeviceOperator) -> float:
    return (row.flop or 0) / row.n_calls


def _rate(rows: Sequence[DeviceOperator]) -> str:
    return units.rate(sum(row.flop or 0 for row in rows) / sum(row.total_ns for row in rows) * 1e9, "FLOP/s")


def _cost_ns(slow: Sequence[DeviceOperator], fast: Sequence[DeviceOperator]) -> int | None:
    """What the slow ones took longer than at the speed of the fast; None where no faster product tells that speed."""
    if not slow or not fast:
        return None
    per_ns = sum(row.flop or 0 for row in fast) / sum(row.total_ns for row in fast)
    lost = sum(row.total_ns for row in slow) - sum(row.flop or 0 for row in slow) / per_ns if per_ns else 0
    return round(lost) if lost > 0 else None
