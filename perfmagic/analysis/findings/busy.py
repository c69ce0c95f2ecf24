"""What the findings about a busy device look at: which of its ops each of them is about.

An op belongs to one of them at most, the first in the order of CLAIMS that takes it, and an instant too: so that their
times can be added.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.timeline.categories import Category, categories
from perfmagic.analysis.timeline.device_operators import DeviceOperator
from perfmagic.analysis.timeline.origin import Source, origins
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.numerics.grouped import coded
from perfmagic.numerics.intervals import Intervals, merge, subtract, union
from perfmagic.trace.columns import NONE, Bool, Int64, OpKind
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes, uses_tensor_cores
from perfmagic.trace.once import once_per_trace
from perfmagic.trace.short_names import kernel_short_names

NOTABLE_FRAC = 0.05  # of the window: as of the longest gap, less is not worth a rewrite
# CUTLASS names the alignment of operands in elements. Its kernels read 16 bytes at a time where they can: 8 halves,
# 4 floats. With 1 or 2 they cannot, for any type (its documentation, functionality.md)
_UNALIGNED = re.compile(r"align[12](?!\d)")
_DOUBLE = re.compile(r"dgemm|_f64|d884|zgemm", re.IGNORECASE)
# Between the two products of attention in torch operators stand a scale, a mask, casts, dropout and copies
BETWEEN_PRODUCTS = 8
_PRODUCTS = frozenset({"aten::bmm", "aten::baddbmm"})
_SOFTMAX = frozenset({"aten::_softmax", "aten::_softmax_backward_data", "aten::_masked_softmax"})
# A kernel that does nothing takes 1 to 3 µs in these records: below 5 µs that is a large part of it
TINY_NS = 5_000
# Ten times what a launch takes to begin: a shorter kernel is over before it matters how much of the device it fills
LONG_KERNEL_NS = 20_000
# With blocks for half of the multiprocessors at least half stand still. Just below all of them is a choice: 120 blocks
# on the 132 of an H100 are whole clusters of a matrix product
FEW_BLOCKS_FRAC = 0.5


@dataclass(frozen=True, eq=False)
class Claim:
    """The ops that one finding is about. rows: of trace.ops.  ops_ns: their summed duration.  where: when they ran."""

    rows: Int64
    ops_ns: int
    where: Intervals


def claim(facts: Facts, rule: str) -> Claim:
    """The ops that a finding is about: those that no earlier one has."""
    return _claims(facts.trace, facts.device, facts.comm_names)[rule]


def in_short(operator: DeviceOperator) -> str:
    """An operator with what it worked on: "aten::mm [64, 128] [128, 32] bf16"."""
    words = f"kernel {operator.name}" if operator.source in (Source.KERNEL, Source.UNKNOWN) else operator.name
    return " ".join(filter(None, (words, operator.shapes, operator.dtypes)))


def in_kernels(trace: Trace, rows: Int64) -> tuple[str, int]:
    """The kernel with most of some ops' time by its short name, and how many different kernels there are."""
    names, inverse = coded(trace.ops.name[rows])
    length = (trace.ops.end_ns - trace.ops.start_ns)[rows]
    longest = trace.names[names[np.argmax(np.bincount(inverse, weights=length))]]
    return kernel_short_names(trace)[longest], len(names)


@once_per_trace
def _claims(trace: Trace, device: int, comm_names: str | None) -> dict[str, Claim]:
    mine = trace.ops.device == device
    sets = breakdown(trace, device, comm_names).intervals
    told = merge(sets["exposed_communication"], sets["exposed_copy"])
    free = mine.copy()
    found = {}
    length = trace.ops.end_ns - trace.ops.start_ns
    for rule, of in CLAIMS.items():
        rows = np.flatnonzero(of(trace, device, comm_names) & free)
        free[rows] = False
        where = subtract(union(trace.ops.start_ns[rows], trace.ops.end_ns[rows]), told)
        told = merge(told, where)
        found[rule] = Claim(rows, int(length[rows].sum()), where)
    return found


def _kernels_named(trace: Trace, says: Callable[[str], bool]) -> Bool:
    """Which ops are kernels with such names; shape of ops."""
    used, inverse = coded(trace.ops.name)
    named = np.array([says(trace.names[row]) for row in used.tolist()], bool)
    result: Bool = (trace.ops.kind == OpKind.KERNEL) & named[inverse]
    return result


def _unaligned(trace: Trace, _device: int, _comm_names: str | None) -> Bool:
    return _kernels_named(trace, lambda name: _UNALIGNED.search(name) is not None)


def _without_tensor_cores(trace: Trace, _device: int, comm_names: str | None) -> Bool:
    """Matrix kernels that by their names do without tensor cores; those for float64 have no faster kind to choose."""
    plain = _kernels_named(trace, lambda name: uses_tensor_cores(name) is False and not _DOUBLE.search(name))
    result: Bool = plain & (op_classes(trace, comm_names) == OpClass.MATRIX)
    return result


def _eager_attention(trace: Trace, device: int, _comm_names: str | None) -> Bool:
    """The ops from a batched product over a softmax to the next batched product, in the order of a stream."""
    origin, ops = origins(trace), trace.ops
    found = np.zeros(len(ops), bool)
    named = [name in _PRODUCTS for name in origin.names], [name in _SOFTMAX for name in origin.names]
    by_operator = origin.source == Source.OPERATOR
    product, softmax = (by_operator & np.array(one, bool)[origin.name] for one in named)
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
                found[rows[first : last + 1]] = True
    return found


def _few_blocks(trace: Trace, device: int, comm_names: str | None) -> Bool:
    """Long kernels with few blocks for the device's multiprocessors; of communication that is how it is made."""
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


# by the findings' rules, those first whose cause is certain whatever the others say
CLAIMS: dict[str, Callable[[Trace, int, str | None], Bool]] = {
    "unaligned_gemm": _unaligned,
    "eager_attention": _eager_attention,
    "tensor_cores": _without_tensor_cores,
    "low_occupancy": _few_blocks,
    "tiny_kernels": _tiny,
}
