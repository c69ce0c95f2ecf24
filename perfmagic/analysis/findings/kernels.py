"""The findings about the kernels of a busy device: which are slow, short, unaligned or small, and their sentences.

An op belongs to at most one of them, the first in the order of CLAIMS that matches, and so does an instant: their
times can be added.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmagic.analysis.findings.advice import can_compile, compiled, fused_attention, without_fused_bf16
from perfmagic.analysis.findings.catalogue import action, count_things, headline
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding, Outcome, Silent, on_lines, too_few, too_short
from perfmagic.analysis.replay.changes.gpu import as_float32
from perfmagic.analysis.timeline.device_operators import DeviceOperator, categories, device_operators, tensor_core_share
from perfmagic.analysis.timeline.origin import Source, origins
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.base import units
from perfmagic.base.language import counted, phrase, sentences
from perfmagic.base.numerics.intervals import Intervals, coded, intersect, merge, subtract, total_ns, union
from perfmagic.trace.columns import NONE, Bool, Int64, OpKind
from perfmagic.trace.families import Category
from perfmagic.trace.model import DeviceInfo, Trace, once_per_trace
from perfmagic.trace.names import OpClass, kernel_short_names, op_classes, uses_tensor_cores

NOTABLE_FRAC = 0.05  # of the window, as for the longest gap: less is not worth a rewrite


# CUTLASS names the alignment of operands in elements. Its kernels read 16 bytes at a time where they can: 8 halves,
# 4 floats. With 1 or 2 they cannot, for any type (its documentation, functionality.md)
_UNALIGNED = re.compile(r"align[12](?!\d)")
_DOUBLE = re.compile(r"dgemm|_f64|d884|zgemm", re.IGNORECASE)


# In attention made of torch operators, a scale, a mask, casts, dropout and copies lie between the two products
BETWEEN_PRODUCTS = 8
_PRODUCTS = frozenset({"aten::bmm", "aten::baddbmm"})
_SOFTMAX = frozenset(f"aten::_{kind}softmax" for kind in ("", "safe_", "masked_")) | {"aten::_softmax_backward_data"}


# A kernel that does nothing takes 1 to 3 µs in these records: below 5 µs that is a large part of a kernel
TINY_NS = 5_000


# Ten times the launch latency: how much of the device a shorter kernel fills hardly matters
LONG_KERNEL_NS = 20_000


# With fewer blocks than this, at least half of the multiprocessors are idle. Slightly fewer blocks than multiprocessors
# may be intended: 120 blocks on the 132 of an H100 are whole clusters of a matrix product
FEW_BLOCKS_FRAC = 0.5


@dataclass(frozen=True, eq=False)
class Claim:
    """The ops that one finding is about. rows: of trace.ops.  ops_ns: their summed duration.  where: when they ran."""

    rows: Int64
    ops_ns: int
    where: Intervals


def claim(facts: Facts, rule: str) -> Claim:
    """The ops that a finding is about: those that no earlier finding claimed."""
    return _claims(facts.trace, facts.device, facts.comm_names)[rule]


def not_notable(facts: Facts, claimed: Claim, kernels: str) -> Silent | None:
    """Why the ops of a finding are too few or too short to report; None where they are not.  kernels: a plural noun."""
    least_ns = NOTABLE_FRAC * max(1, facts.window_ns)
    if not len(claimed.rows):
        return Silent(phrase("no {kernels} were recorded", kernels=kernels))
    if claimed.ops_ns < least_ns:
        took = phrase("{kernels} took", kernels=kernels)
        return too_short(took, claimed.ops_ns, least_ns, facts.describe_share(NOTABLE_FRAC))
    return None


def in_kernels(trace: Trace, rows: Int64) -> tuple[str, int]:
    """The short name of the kernel with the most time among some ops, and how many different kernels there are."""
    names, inverse = coded(trace.ops.name[rows])
    length = (trace.ops.end_ns - trace.ops.start_ns)[rows]
    longest = trace.names[names[np.argmax(np.bincount(inverse, weights=length))]]
    return kernel_short_names(trace)[longest], len(names)


@once_per_trace
def _claims(trace: Trace, device: int, comm_names: str | None) -> dict[str, Claim]:
    here = trace.ops.device == device
    sets = breakdown(trace, device, comm_names).intervals
    taken, where = sets["exposed_communication"], sets["exposed_copy"]
    free = here.copy()
    claims = {}
    for rule, which in CLAIMS.items():
        rows = np.flatnonzero(which(trace, device, comm_names) & free)
        free[rows] = False
        taken = merge(taken, where)
        start_ns, end_ns = trace.ops.start_ns[rows], trace.ops.end_ns[rows]
        where = subtract(union(start_ns, end_ns), taken)
        claims[rule] = Claim(rows, int((end_ns - start_ns).sum()), where)
    return claims


def _kernels_named(trace: Trace, matches: Callable[[str], bool]) -> Bool:
    """Which ops are kernels with such names; shape of ops."""
    used, inverse = coded(trace.ops.name)
    named = np.array([matches(trace.names[row]) for row in used.tolist()], bool)
    result: Bool = (trace.ops.kind == OpKind.KERNEL) & named[inverse]
    return result


def _unaligned(trace: Trace, _device: int, _comm_names: str | None) -> Bool:
    return _kernels_named(trace, lambda name: _UNALIGNED.search(name) is not None)


def _without_tensor_cores(trace: Trace, device: int, comm_names: str | None) -> Bool:
    """Matrix kernels that, by their names, do not use tensor cores; for float64 there is no faster kind.

    Of a device that a model predicts, those that take the time of float32.
    """
    if trace.device_info(device).simulated:
        return as_float32(trace, device)
    plain = _kernels_named(trace, lambda name: uses_tensor_cores(name) is False and not _DOUBLE.search(name))
    result: Bool = plain & (op_classes(trace, comm_names) == OpClass.MATRIX)
    return result


def _eager_attention(trace: Trace, device: int, _comm_names: str | None) -> Bool:
    """The ops from a batched product through a softmax to the next batched product, in the order of a stream."""
    origin, ops = origins(trace), trace.ops
    attention = np.zeros(len(ops), bool)
    named = [name in _PRODUCTS for name in origin.names], [name in _SOFTMAX for name in origin.names]
    by_operator = origin.source == Source.OPERATOR
    product, softmax = (by_operator & np.array(flags, bool)[origin.name] for flags in named)
    for stream in np.unique(ops.stream[softmax & (ops.device == device)]).tolist():
        rows = np.flatnonzero((ops.device == device) & (ops.stream == stream))
        products = np.flatnonzero(product[rows])
        if len(products) < 2:
            continue
        for at in np.flatnonzero(softmax[rows]).tolist():
            after = int(np.searchsorted(products, at))
            if not 0 < after < len(products):
                continue
            first, last = int(products[after - 1]), int(products[after])
            if last - first - 1 <= BETWEEN_PRODUCTS:
                attention[rows[first : last + 1]] = True
    return attention


def _few_blocks(trace: Trace, device: int, comm_names: str | None) -> Bool:
    """Long kernels with few blocks for the device's multiprocessors; not communication, which uses few by design."""
    n = trace.device_info(device).multiprocessors
    if n is None or not trace.shapes:
        return np.zeros(len(trace.ops), bool)
    ops = trace.ops
    few = np.array([np.prod(shape.grid, dtype=float) < FEW_BLOCKS_FRAC * n for shape in trace.shapes], bool)
    long = ops.end_ns - ops.start_ns >= LONG_KERNEL_NS
    kernel = (ops.kind == OpKind.KERNEL) & (op_classes(trace, comm_names) != OpClass.COMMUNICATION)
    result: Bool = kernel & long & (ops.shape != NONE) & few[ops.shape]
    return result


def _tiny(trace: Trace, _device: int, comm_names: str | None) -> Bool:
    """Short kernels that compute."""
    ops = trace.ops
    computes = (ops.kind == OpKind.KERNEL) & (categories(trace, comm_names) != Category.COMMUNICATION)
    result: Bool = computes & (ops.end_ns - ops.start_ns < TINY_NS)
    return result


# by rule; rules come first whose cause is certain, whatever the others find. One kernel of attention takes the place
# of its products too, aligned or not
CLAIMS: dict[str, Callable[[Trace, int, str | None], Bool]] = {
    "eager_attention": _eager_attention,
    "unaligned_gemm": _unaligned,
    "tensor_cores": _without_tensor_cores,
    "low_occupancy": _few_blocks,
    "tiny_kernels": _tiny,
}


# The finding "attention in separate kernels" and its sentence.


def eager_attention(facts: Facts) -> Outcome:
    """Attention as two batched products with a softmax between, where one fused kernel would do."""
    claimed = claim(facts, "eager_attention")
    silent = not_notable(facts, claimed, phrase("batched products with a softmax between them"))
    if silent is not None:
        return silent
    ops, without_bf16 = facts.trace.ops, without_fused_bf16(facts.trace, facts.device)
    ops_ns = int((ops.end_ns - ops.start_ns)[ops.device == facts.device].sum())
    is_product = categories(facts.trace, facts.comm_names)[claimed.rows] == Category.GEMM
    unaligned = is_product & _unaligned(facts.trace, facts.device, facts.comm_names)[claimed.rows]
    # a fused kernel computes the products too, aligned, but keeps the scores on the chip: the ops between are saved
    between_ns = total_ns(intersect(_intervals(facts, claimed.rows[~is_product]), claimed.where))
    products_ns = total_ns(intersect(_intervals(facts, claimed.rows[unaligned]), claimed.where))
    slow, fast = _split(facts, claimed.rows[unaligned])
    lost_ns = min(_cost_ns(slow, fast, products_ns) or 0, products_ns)
    between = phrase(
        "softmax, masks and casts between the batched products account for {time}", time=units.duration(between_ns)
    )
    products = counted(int(unaligned.sum()), "{n} unaligned product", "{n} unaligned products")
    longer = phrase(
        "{products} took {time} longer than aligned ones would", products=products, time=units.duration(lost_ns)
    )
    lines = np.unique(ops.line[claimed.rows])[:3]
    return [
        Finding(
            rule="eager_attention",
            cost_ns=between_ns + lost_ns,
            cause=phrase("attention in separate kernels"),
            detail=phrase(
                "{where}: {facts}",
                where=_share_of(facts, claimed.ops_ns, ops_ns, on_lines(lines)),
                facts=sentences(between, longer if lost_ns else ""),
            ),
            lines=tuple(int(n) for n in lines if n > 0),
            start_ns=int(ops.start_ns[claimed.rows].min()),
            end_ns=int(ops.end_ns[claimed.rows].max()),
            device=facts.device,
            advice=fused_attention(without_bf16),
            headline=headline("eager_attention", time=units.duration(claimed.ops_ns)),
            action=action("autocast_half" if without_bf16 else "sdpa"),
            where=claimed.where,
        )
    ]


def _share_of(facts: Facts, part_ns: int, ops_ns: int, lines: str = "") -> str:
    """How much of a device's time some kernels took: " on device 3, 59.3 ms of 218 ms of device time on line 4"."""
    return phrase(
        "{where}, {time} of {total} of device time{lines}",
        where=facts.on_device,
        time=units.duration(part_ns),
        total=units.duration(ops_ns),
        lines=lines,
    )


# The finding "kernels that fill only part of the device" and its sentence.


def low_occupancy(facts: Facts) -> Outcome:
    """Long kernels with blocks for less than half of the multiprocessors, while nothing else ran."""
    claimed, n_sms = claim(facts, "low_occupancy"), facts.trace.device_info(facts.device).multiprocessors
    if n_sms is None:
        return Silent(phrase("the record does not say how many multiprocessors the device has"))
    silent = not_notable(facts, claimed, phrase("long kernels with few blocks"))
    if silent is not None:
        return silent
    ops = facts.trace.ops
    others = (ops.device == facts.device) & ~np.isin(np.arange(len(ops)), claimed.rows)
    alone = subtract(claimed.where, union(ops.start_ns[others], ops.end_ns[others]))
    least_ns = NOTABLE_FRAC * max(1, facts.window_ns)
    if total_ns(alone) < least_ns:
        ran_alone = phrase("long kernels with few blocks ran alone for")
        return too_short(ran_alone, total_ns(alone), least_ns, facts.describe_share(NOTABLE_FRAC))
    blocks = np.array([np.prod(facts.trace.shapes[row].grid) for row in ops.shape[claimed.rows].tolist()], np.int64)
    idle_ns = sum(
        total_ns(intersect(alone, _intervals(facts, claimed.rows[blocks == n]))) * (1 - n / n_sms)
        for n in np.unique(blocks).tolist()
    )
    kernel, n_kernels = in_kernels(facts.trace, claimed.rows)
    least, most = int(blocks.min()), int(blocks.max())
    n_blocks = phrase("{n} blocks", n=units.count(least)) if most > 1 else phrase("{n} block", n=1)
    if least < most:
        n_blocks = phrase("{least} to {most} blocks", least=least, most=most)
    ran_alone = phrase(
        "{kernels} of {least} or more ({names}) had {blocks} for {n} multiprocessors and ran alone for {time}",
        kernels=count_things(len(claimed.rows), "kernel"),
        least=units.duration(LONG_KERNEL_NS),
        names=_with_others(kernel, n_kernels),
        blocks=n_blocks,
        n=n_sms,
        time=units.duration(total_ns(alone)),
    )
    return [
        Finding(
            rule="low_occupancy",
            cost_ns=min(round(idle_ns), total_ns(alone)),
            cause=phrase("kernels that fill only part of the device"),
            detail=phrase("{where}: {facts}", where=facts.on_device, facts=ran_alone),
            lines=tuple(int(n) for n in np.unique(ops.line[claimed.rows])[:3] if n > 0),
            start_ns=int(ops.start_ns[claimed.rows].min()),
            end_ns=int(ops.end_ns[claimed.rows].max()),
            device=facts.device,
            advice=phrase(
                "Larger batches give them more blocks; a second stream gives the idle multiprocessors other work"
            ),
            headline=headline("low_occupancy", time=units.duration(total_ns(alone))),
            where=alone,
        )
    ]


def _with_others(kernel: str, n_kernels: int) -> str:
    """A kernel, and how many others there are."""
    if n_kernels == 1:
        return kernel
    return phrase("{a} and {b}", a=kernel, b=counted(n_kernels - 1, "{n} other", "{n} others"))


def _intervals(facts: Facts, rows: Int64) -> Int64:
    return union(facts.trace.ops.start_ns[rows], facts.trace.ops.end_ns[rows])


# The finding "tensor cores unused" and its sentence.

UNUSED_FRAC = 0.2  # of the summed kernel time
_WITHOUT = phrase("matrix kernels without tensor cores")
PART_FRAC = 0.05  # of the time without tensor cores; a smaller part gets no advice


# GPUs with tensor cores, by their names in the driver; Ampere and later compute float32 as TF32, earlier ones cannot
_TF32 = re.compile(
    r"\b(?:A(?:10|16|2|30|40|100|800)|H(?:20|100|200|800)|GH200|B(?:100|200|300)|GB\d00|L(?:4|20|40S?)"
    r"|RTX (?:[3-6]0\d0(?!\d)|A\d|PRO|[456]000 Ada))"
)
_TF32_MAJOR = 8  # of the compute capability, where the name is another: CUDA C++ Programming Guide, table of features
_HALF_ONLY = re.compile(r"\b(?:V100|TITAN (?:V|RTX)\b|T4\b|RTX (?:20\d0\b|[45678]000\b(?! Ada)))", re.IGNORECASE)


# PyTorch, "CUDA semantics", TensorFloat-32: one setting for matrix products, another for cuDNN's convolutions. cuDNN's
# kernels for tensor cores need NHWC: its "Developer Guide", tensor core operations
_PRODUCTS_TF32 = phrase('torch.set_float32_matmul_precision("high") or autocast lets matrix products use them')
_CONVOLUTIONS_TF32 = phrase(
    "For convolutions, torch.backends.cudnn.allow_tf32 decides, which is on by default; "
    "autocast with memory_format=torch.channels_last is fastest"
)
_PRODUCTS_HALF = phrase("Matrix products use them under autocast to float16")
_CONVOLUTIONS_HALF = phrase(
    "Convolutions use them under autocast to float16, fastest with memory_format=torch.channels_last"
)


def tensor_cores(facts: Facts) -> Outcome:
    """Matrix kernels that, by their names, do not use tensor cores, on a GPU that has them."""
    claimed = claim(facts, "tensor_cores")
    unused_ns = claimed.ops_ns
    silent = not_notable(facts, claimed, _WITHOUT)
    if silent is not None:
        return silent
    share = tensor_core_share(facts.trace, facts.device, facts.comm_names)
    if unused_ns < (least_ns := UNUSED_FRAC * max(1, share.kernel_ns)):
        share_words = phrase("{share} of the kernel time", share=units.percent(UNUSED_FRAC))
        return too_short(phrase("{kernels} took", kernels=_WITHOUT), unused_ns, least_ns, share_words)
    ops = facts.trace.ops
    length = (ops.end_ns - ops.start_ns)[claimed.rows]
    convolves = categories(facts.trace, facts.comm_names)[claimed.rows] == Category.CONVOLUTION
    convolutions_ns = int(length[convolves].sum())
    device = facts.trace.device_info(facts.device)
    tf32 = _takes_tf32(device)
    if not tf32 and not _HALF_ONLY.search(device.label):
        return Silent(phrase("{device} is not known to have tensor cores", device=device.label))
    advice = _tensor_core_advice(unused_ns - convolutions_ns, convolutions_ns, tf32=tf32)
    frac = convolutions_ns / unused_ns
    which = phrase("convolutions") if frac > 1 - PART_FRAC else phrase("matrix kernels")
    both = PART_FRAC <= frac <= 1 - PART_FRAC
    kinds = phrase(", {time} of that in convolutions", time=units.duration(convolutions_ns)) if both else ""
    ran = phrase(
        "{what} ran without them for {time}, {share} of the kernel time{kinds}",
        what=which,
        time=units.duration(unused_ns),
        share=units.percent(unused_ns / share.kernel_ns),
        kinds=kinds,
    )
    finding = facts.finding(
        rule="tensor_cores",
        cause=phrase("tensor cores unused"),
        detail=phrase("{where}: {facts}", where=facts.on_device, facts=ran),
        advice=advice,
        where=claimed.where,
    )
    remedy = "tf32" if tf32 else "autocast_half"
    fact = headline("tensor_cores", time=units.duration(unused_ns), what=which)
    by_layout = frac > 1 / 2 and not device.simulated  # a prediction knows no layout of convolutions
    return [replace(finding, headline=fact, action=action("channels_last" if by_layout else remedy))]


def _takes_tf32(device: DeviceInfo) -> bool:
    """Whether a GPU computes float32 on tensor cores, by its name or its compute capability."""
    of_capability = device.kind == "cuda" and (device.compute_major or 0) >= _TF32_MAJOR
    return of_capability or _TF32.search(device.label) is not None


def _tensor_core_advice(products_ns: int, convolutions_ns: int, *, tf32: bool) -> str:
    """How both kinds of matrix kernels use tensor cores, each if it takes long enough."""
    least_ns = PART_FRAC * (products_ns + convolutions_ns)
    products = (_PRODUCTS_TF32 if tf32 else _PRODUCTS_HALF) if products_ns >= least_ns else ""
    convolutions = (_CONVOLUTIONS_TF32 if tf32 else _CONVOLUTIONS_HALF) if convolutions_ns >= least_ns else ""
    return sentences(products, convolutions)


# The finding "unaligned matrix products" and its sentence.

MEASURED_FRAC = 0.5  # of the kernels' time
LIKE_FRAC = 0.5  # of the operations of a call: much smaller products are slower for other reasons


def unaligned_gemm(facts: Facts) -> Outcome:
    """Matrix products whose operands are not aligned to the width of the kernels' reads."""
    claimed = claim(facts, "unaligned_gemm")
    silent = not_notable(facts, claimed, phrase("unaligned matrix products"))
    if silent is not None:
        return silent
    ops, parts = facts.trace.ops, facts.breakdown
    ops_ns = int((ops.end_ns - ops.start_ns)[ops.device == facts.device].sum())
    kernel, n_kernels = in_kernels(facts.trace, claimed.rows)
    names = phrase(
        "{kernels} read one or two elements at a time ({names})",
        kernels=count_things(len(claimed.rows), "kernel"),
        names=_with_others(kernel, n_kernels),
    )
    slow, fast = _split(facts, claimed.rows)
    cost_ns = _cost_ns(slow, fast, claimed.ops_ns)
    known_ns = sum(row.total_ns for row in slow)
    rates: str = ""
    shapes: str = ""
    if known_ns >= MEASURED_FRAC * claimed.ops_ns:  # a few rates and shapes say nothing about the rest
        aligned = phrase(", aligned ones of similar size and the same type {rate}", rate=_rate(fast)) if cost_ns else ""
        part = phrase("those with known shapes, {time} of that,", time=units.duration(known_ns))
        part = phrase("they") if known_ns >= claimed.ops_ns else part
        rates = phrase("{kernels} reached {rate}{aligned}", kernels=part, rate=_rate(slow), aligned=aligned)
        shapes = phrase("the longest is {name}", name=f"{slow[0].name} {slow[0].shapes}")
    return [
        Finding(
            rule="unaligned_gemm",
            cost_ns=None if cost_ns is None else min(cost_ns, int((claimed.where[:, 1] - claimed.where[:, 0]).sum())),
            cause=phrase("unaligned matrix products"),
            detail=phrase(
                "{where}: {facts}",
                where=_share_of(facts, claimed.ops_ns, ops_ns),
                facts=sentences(names, rates, shapes),
            ),
            lines=tuple(int(n) for n in np.unique(ops.line[claimed.rows])[:3] if n > 0),
            start_ns=int(ops.start_ns[claimed.rows].min()) if len(claimed.rows) else parts.extent_start_ns,
            end_ns=int(ops.end_ns[claimed.rows].max()) if len(claimed.rows) else parts.extent_end_ns,
            device=facts.device,
            advice=phrase("With sizes padded to multiples of 8, they read 16 bytes at a time"),
            headline=headline("unaligned_gemm", time=units.duration(claimed.ops_ns)),
            action=action("pad"),
            where=claimed.where,
        )
    ]


def _split(facts: Facts, claimed: Int64) -> tuple[list[DeviceOperator], ...]:
    """The operators with known operations whose longest kernel is unaligned, and aligned ones of the same types.

    claimed: unaligned kernels, rows of trace.ops.
    """
    rows = [r for r in device_operators(facts.trace, facts.device, facts.comm_names) if r.flop is not None]
    names = {facts.trace.names[row] for row in np.unique(facts.trace.ops.name[claimed]).tolist()}
    slow = [row for row in rows if row.kernel in names and row.total_ns]
    types = {row.compute for row in slow}
    fast = [r for r in rows if not _UNALIGNED.search(r.kernel) and r.compute in types and r.total_ns]
    least = min((_flop_of_a_call(row) for row in slow), default=0.0) * LIKE_FRAC
    return slow, [row for row in fast if row.category == Category.GEMM and _flop_of_a_call(row) >= least]


def _flop_of_a_call(row: DeviceOperator) -> float:
    return (row.flop or 0) / row.n_calls


def _rate(rows: Sequence[DeviceOperator]) -> str:
    return units.rate(sum(row.flop or 0 for row in rows) / sum(row.total_ns for row in rows) * 1e9, "FLOP/s")


def _cost_ns(slow: Sequence[DeviceOperator], fast: Sequence[DeviceOperator], claimed_ns: int) -> int | None:
    """How much longer the slow ones took than at the rate of the fast ones; None where no faster product is known.

    claimed_ns: how long the kernels in question took; others of the same names may be among the slow ones.
    """
    if not slow or not fast:
        return None
    known_ns = sum(row.total_ns for row in slow)
    per_ns = sum(row.flop or 0 for row in fast) / sum(row.total_ns for row in fast)
    lost = known_ns - sum(row.flop or 0 for row in slow) / per_ns if per_ns else 0
    return round(lost * min(1.0, claimed_ns / known_ns)) if lost > 0 else None


# The finding "many tiny kernels" and its sentence.

MANY_FRAC = 0.5  # of the kernels
MANY = 100  # fewer do not matter
_FUSE = phrase("torch.compile fuses adjacent kernels, which saves launches and memory traffic")


def tiny_kernels(facts: Facts) -> Outcome:
    """A device that is busy with kernels too short to use it."""
    claimed, ops = claim(facts, "tiny_kernels"), facts.trace.ops
    kernels = np.flatnonzero((ops.device == facts.device) & (ops.kind == OpKind.KERNEL))
    if facts.trace.paced:
        return Silent(phrase("the device is simulated: how long its ops take says nothing about a GPU"))
    silent = not_notable(facts, claimed, phrase("kernels of less than {time}", time=units.duration(TINY_NS)))
    if silent is not None:
        return silent
    least = max(MANY, MANY_FRAC * len(kernels))
    if len(claimed.rows) < least:
        n, of = units.count(len(claimed.rows)), count_things(len(kernels), "kernel")
        short = phrase("{n} of {kernels} took less than {time}", n=n, kernels=of, time=units.duration(TINY_NS))
        return too_few(short, len(claimed.rows), least)
    median_ns = float(np.median((ops.end_ns - ops.start_ns)[kernels]))
    took = phrase(
        "{n} of {kernels} took less than {time}, {total} in all; half of all kernels take {median} or less",
        n=units.count(len(claimed.rows)),
        kernels=count_things(len(kernels), "kernel"),
        time=units.duration(TINY_NS),
        total=units.duration(claimed.ops_ns),
        median=units.duration(median_ns),
    )
    fuses = can_compile(facts.trace, facts.device) and not compiled(facts.trace)[claimed.rows].any()
    return [
        Finding(
            rule="tiny_kernels",
            cost_ns=None,
            cause=phrase("many tiny kernels"),
            headline=headline("tiny_kernels", n=count_things(len(kernels), "kernel"), time=units.duration(median_ns)),
            action=action("fuse") if fuses else "",
            detail=phrase("{where}: {facts}", where=facts.on_device, facts=took),
            lines=(),
            start_ns=int(ops.start_ns[claimed.rows].min()),
            end_ns=int(ops.end_ns[claimed.rows].max()),
            device=facts.device,
            advice=_FUSE if fuses else "",
            where=claimed.where,
        )
    ]
