"""The finding "attention in separate kernels" and its sentence."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.busy import NOTABLE_FRAC, claim
from perfmagic.analysis.findings.facts import Facts, on_lines, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.timeline.categories import Category, categories
from perfmagic.numerics.intervals import intersect, total_ns, union


def eager_attention(facts: Facts) -> list[Finding]:
    """Attention as two batched products with a softmax between, where one fused kernel would do."""
    mine = claim(facts, "eager_attention")
    if mine.ops_ns < NOTABLE_FRAC * max(1, facts.window_ns):
        return []
    ops = facts.trace.ops
    ops_ns = int((ops.end_ns - ops.start_ns)[ops.device == facts.device].sum())
    between = mine.rows[categories(facts.trace, facts.comm_names)[mine.rows] != Category.GEMM]
    # a fused kernel computes the products too, and keeps the scores on the chip: what stands between them goes away
    cost_ns = total_ns(intersect(union(ops.start_ns[between], ops.end_ns[between]), mine.where))
    share = f"{units.duration(mine.ops_ns)} of {units.duration(ops_ns)} of device ops"
    parts = f"softmax, masks and casts between the batched products took {units.duration(cost_ns)} of it"
    lines = np.unique(ops.line[mine.rows])[:3]
    return [
        Finding(
            rule="eager_attention",
            cost_ns=cost_ns,
            cause="attention in separate kernels",
            detail=f"{facts.on_device}, {share}{on_lines(lines)}: {sentences(parts)}",
            lines=tuple(int(n) for n in lines if n > 0),
            start_ns=int(ops.start_ns[mine.rows].min()),
            end_ns=int(ops.end_ns[mine.rows].max()),
            device=facts.device,
            advice="torch.nn.functional.scaled_dot_product_attention runs it as one fused kernel",
            where=mine.where,
        )
    ]
