"""The finding "tensor cores unused" and its sentence."""

from __future__ import annotations

import re

from perfmagic import units
from perfmagic.analysis.findings.busy import NOTABLE_FRAC, claim
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.timeline.categories import Category, categories
from perfmagic.analysis.timeline.kernels import tensor_core_share

UNUSED_FRAC = 0.2  # of the summed kernel time
PART_FRAC = 0.05  # of that; a smaller part is not told how to use them
# GPUs with tensor cores, by the names drivers give; those from Ampere on take float32 as TF32, the earlier ones do not
_TF32 = re.compile(
    r"\b(?:A(?:10|16|2|30|40|100|800)|H(?:20|100|200|800)|GH200|B(?:100|200|300)|GB\d00|L(?:4|20|40S?)"
    r"|RTX (?:[3-6]0\d0(?!\d)|A\d|PRO|[456]000 Ada))"
)
_HALF_ONLY = re.compile(r"\b(?:V100|TITAN (?:V|RTX)\b|T4\b|RTX (?:20\d0\b|[45678]000\b(?! Ada)))", re.IGNORECASE)
# PyTorch, "CUDA semantics", TensorFloat-32: one setting for matrix products, another for cuDNN's convolutions. cuDNN's
# kernels for tensor cores take NHWC: its "Developer Guide", tensor core operations
_PRODUCTS_TF32 = 'torch.set_float32_matmul_precision("high") or autocast lets matrix products use them'
_CONVOLUTIONS_TF32 = (
    "For convolutions torch.backends.cudnn.allow_tf32 decides, which is on by default, "
    "and autocast with memory_format=torch.channels_last serves them best"
)
_PRODUCTS_HALF = "Matrix products use them under autocast to float16"
_CONVOLUTIONS_HALF = "Convolutions use them under autocast to float16, best with memory_format=torch.channels_last"


def tensor_cores(facts: Facts) -> list[Finding]:
    """Matrix kernels that by their names do without tensor cores, on a GPU that has them."""
    share = tensor_core_share(facts.trace, facts.device, facts.comm_names)
    mine = claim(facts, "tensor_cores")
    unused_ns = mine.ops_ns
    if unused_ns < NOTABLE_FRAC * max(1, facts.window_ns) or unused_ns < UNUSED_FRAC * max(1, share.kernel_ns):
        return []
    ops = facts.trace.ops
    length = (ops.end_ns - ops.start_ns)[mine.rows]
    convolves = categories(facts.trace, facts.comm_names)[mine.rows] == Category.CONVOLUTION
    convolutions_ns = int(length[convolves].sum())
    advice = _advice(facts.trace.device_info(facts.device).label, unused_ns - convolutions_ns, convolutions_ns)
    if not advice:
        return []
    part = f"{units.percent(unused_ns / share.kernel_ns)} of the kernel time"
    frac = convolutions_ns / unused_ns
    which = "convolutions" if frac > 1 - PART_FRAC else "matrix kernels"
    both = PART_FRAC <= frac <= 1 - PART_FRAC
    kinds = f", {units.duration(convolutions_ns)} of it in convolutions" if both else ""
    return [
        Finding(
            rule="tensor_cores",
            cost_ns=None,
            cause="tensor cores unused",
            detail=f"{facts.on_device}: {which} ran without them for {units.duration(unused_ns)}, {part}{kinds}",
            lines=(),
            start_ns=facts.breakdown.extent_start_ns,
            end_ns=facts.breakdown.extent_end_ns,
            device=facts.device,
            advice=advice,
            where=mine.where,
        )
    ]


def _advice(device: str, products_ns: int, convolutions_ns: int) -> str:
    """What makes the two kinds of matrix kernels use them, each where it is a part worth it; "" for other devices."""
    tf32, half = _TF32.search(device), _HALF_ONLY.search(device)
    if not tf32 and not half:
        return ""
    least_ns = PART_FRAC * (products_ns + convolutions_ns)
    products = (_PRODUCTS_TF32 if tf32 else _PRODUCTS_HALF) if products_ns >= least_ns else ""
    convolutions = (_CONVOLUTIONS_TF32 if tf32 else _CONVOLUTIONS_HALF) if convolutions_ns >= least_ns else ""
    return sentences(products, convolutions)
