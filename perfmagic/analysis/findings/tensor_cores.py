"""The finding "tensor cores unused" and its sentence."""

from __future__ import annotations

import re

from perfmagic import units
from perfmagic.analysis.findings.busy import claim
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.timeline.kernels import tensor_core_share

UNUSED_FRAC = 0.2  # of the summed kernel time
# GPUs with tensor cores, by the names drivers give; those from Ampere on take float32 as TF32, the earlier ones do not
_TF32 = re.compile(
    r"\b(?:A(?:10|16|2|30|40|100|800)|H(?:20|100|200|800)|GH200|B(?:100|200|300)|GB\d00|L(?:4|20|40S?)"
    r"|RTX (?:[3-6]0\d0(?!\d)|A\d|PRO|[456]000 Ada))"
)
_HALF_ONLY = re.compile(r"\b(?:V100|TITAN (?:V|RTX)\b|T4\b|RTX (?:20\d0\b|[45678]000\b(?! Ada)))", re.IGNORECASE)


def tensor_cores(facts: Facts) -> list[Finding]:
    """Matrix kernels that by their names do without tensor cores, on a GPU that has them."""
    name = facts.trace.device_info(facts.device).label
    advice = _advice(name)
    share = tensor_core_share(facts.trace, facts.device, facts.comm_names)
    mine = claim(facts, "tensor_cores")
    unused_ns = mine.ops_ns
    if not advice or unused_ns < UNUSED_FRAC * max(1, share.kernel_ns):
        return []
    part = f"{units.percent(unused_ns / share.kernel_ns)} of the kernel time"
    return [
        Finding(
            rule="tensor_cores",
            cost_ns=None,
            cause="tensor cores unused",
            detail=f"{facts.on_device}: matrix kernels ran without them for {units.duration(unused_ns)}, {part}",
            lines=(),
            start_ns=facts.breakdown.extent_start_ns,
            end_ns=facts.breakdown.extent_end_ns,
            device=facts.device,
            advice=advice,
            where=mine.where,
        )
    ]


def _advice(device: str) -> str:
    if _TF32.search(device):
        return 'torch.set_float32_matmul_precision("high") or autocast uses them'
    return "autocast to float16 uses them" if _HALF_ONLY.search(device) else ""
