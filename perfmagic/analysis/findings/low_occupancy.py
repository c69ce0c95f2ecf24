"""The finding "kernels that fill a part of the device" and its sentence."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.busy import LONG_KERNEL_NS, NOTABLE_FRAC, claim, in_kernels
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.numerics.intervals import intersect, subtract, total_ns, union
from perfmagic.trace.columns import Int64


def low_occupancy(facts: Facts) -> list[Finding]:
    """Long kernels with blocks for less than half of the multiprocessors, while nothing else ran beside them."""
    mine, n_sms = claim(facts, "low_occupancy"), facts.trace.device_info(facts.device).multiprocessors
    if n_sms is None or mine.ops_ns < NOTABLE_FRAC * max(1, facts.window_ns):
        return []
    ops = facts.trace.ops
    others = (ops.device == facts.device) & ~np.isin(np.arange(len(ops)), mine.rows)
    alone = subtract(mine.where, union(ops.start_ns[others], ops.end_ns[others]))
    if total_ns(alone) < NOTABLE_FRAC * max(1, facts.window_ns):
        return []
    blocks = np.array([np.prod(facts.trace.shapes[row].grid) for row in ops.shape[mine.rows].tolist()], np.int64)
    idle_ns = sum(
        total_ns(intersect(alone, _intervals(facts, mine.rows[blocks == n]))) * (1 - n / n_sms)
        for n in np.unique(blocks).tolist()
    )
    kernel, n_kernels = in_kernels(facts.trace, mine.rows)
    whose = kernel + (f" and {units.plural(n_kernels - 1, 'other')}" if n_kernels > 1 else "")
    few = f"{units.plural(len(mine.rows), 'kernel')} of {units.duration(LONG_KERNEL_NS)} and more ({whose})"
    least, most = int(blocks.min()), int(blocks.max())
    n_blocks = f"{least} to {most} blocks" if least < most else units.plural(least, "block")
    have = f"had {n_blocks} for {n_sms} multiprocessors, for {units.duration(total_ns(alone))} with nothing beside them"
    return [
        Finding(
            rule="low_occupancy",
            cost_ns=min(round(idle_ns), total_ns(alone)),
            cause="kernels that fill a part of the device",
            detail=f"{facts.on_device}: {sentences(f'{few} {have}')}",
            lines=tuple(int(n) for n in np.unique(ops.line[mine.rows])[:3] if n > 0),
            start_ns=int(ops.start_ns[mine.rows].min()),
            end_ns=int(ops.end_ns[mine.rows].max()),
            device=facts.device,
            advice="Larger batches give them more blocks, a second stream gives the rest of the device other work",
            where=alone,
        )
    ]


def _intervals(facts: Facts, rows: Int64) -> Int64:
    return union(facts.trace.ops.start_ns[rows], facts.trace.ops.end_ns[rows])
