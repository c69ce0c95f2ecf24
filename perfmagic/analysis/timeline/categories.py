"""What each device op is for: matrix products, attention, convolution, elementwise work and so on.

perfmagic.trace.families has the table: a gemm that a convolution launched is convolution. Every op has one category, so
that their times add up to the summed time of the device's ops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.timeline.origin import Source, origins
from perfmagic.base.numerics.intervals import coded
from perfmagic.trace.category import Category
from perfmagic.trace.columns import NONE, Bool, HostKind, Int8, OpKind
from perfmagic.trace.families import find_family, is_of_library
from perfmagic.trace.hoststack import host_stack
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes, shown_names
from perfmagic.trace.once import once_per_trace
from perfmagic.trace.rows import Rows


@dataclass(frozen=True)
class CategoryTime:
    """The ops of one category; of custom kernels, those of one kernel.

    category: what they are for; fused: several operators in one kernel of a compiler; custom: no family knows the
    kernel, and no operator of torch launched it.
    kernel: the name of a custom kernel; empty for the other categories.
    n_ops: how many.
    total_ns: their summed duration.
    share_frac: its share of the summed duration of all ops of the device.
    """

    device: int
    category: Category
    kernel: str
    n_ops: int
    total_ns: int
    share_frac: float


_STEP = "Optimizer.step#"  # torch's annotation around the step of every optimizer
# An optimizer's step is elementwise work: what it multiplies or sends stays what it is
_OF_A_STEP = (Category.ELEMENTWISE, Category.REDUCTION, Category.FUSED, Category.CUSTOM, Category.OTHER)


@once_per_trace
def categories(trace: Trace, comm_names: str | None = None) -> Int8:
    """The Category of every device op; shape of trace.ops. comm_names: as in perfmagic.trace.names.op_classes."""
    ops, origin = trace.ops, origins(trace)
    classes = op_classes(trace, comm_names)
    operator = np.where(origin.source == Source.OPERATOR, origin.name, NONE) + 1
    key = (ops.name.astype(np.int64) * (len(origin.names) + 1) + operator) * len(OpClass) + classes
    unique, inverse = coded(key)
    names = ("", *origin.names)
    category_of_key = []
    for code in unique.tolist():
        rest, op_class = divmod(code, len(OpClass))
        name, operator_row = divmod(rest, len(names))
        kernel = trace.names[name]
        # an op of the simulated device has its operator's name: graphs record no operators
        launched_by = names[operator_row] or (f"aten::{kernel.split('.')[0]}" if trace.simulated else "")
        category_of_key.append(category_of(kernel, OpClass(op_class), launched_by))
    result = np.array(category_of_key, np.int8)[inverse]
    step = _in_optimizer(trace) & np.isin(result, _OF_A_STEP)
    result[step] = Category.OPTIMIZER
    result.flags.writeable = False
    return result


def category_of(kernel: str, op_class: OpClass, operator: str = "") -> Category:
    """The category of a device op by its name, its class, and the name of the operator that launched it ("": none).

    >>> category_of("ampere_sgemm_128x64_nn", OpClass.MATRIX, "aten::cudnn_convolution").name
    'CONVOLUTION'
    """
    fixed = {OpClass.COMMUNICATION: Category.COMMUNICATION, OpClass.MEMSET: Category.MEMSET}
    if op_class in fixed:
        return fixed[op_class]
    if op_class in (OpClass.HTOD, OpClass.DTOH, OpClass.DTOD, OpClass.PTOP):
        return Category.COPY
    family = find_family(kernel, operator)
    if family is not None:
        return family.category
    return Category.OTHER if is_of_library(kernel, operator) else Category.CUSTOM


def category_times(trace: Trace, device: int, comm_names: str | None = None) -> Rows[CategoryTime]:
    """How long a device worked on what, the longest first; the times add up to the summed time of its ops."""
    here = trace.ops.device == device
    category = categories(trace, comm_names)[here].astype(np.int64)
    kernel = np.where(category == Category.CUSTOM, trace.ops.name[here], NONE)
    length = (trace.ops.end_ns - trace.ops.start_ns)[here]
    n_names = len(trace.names) + 1
    keys, group = coded(category * n_names + kernel + 1)
    n = np.bincount(group, minlength=len(keys))
    total = np.zeros(len(keys), np.int64)
    np.add.at(total, group, length)
    whole = max(1, int(total.sum()))
    shown = shown_names(trace)
    rows = []
    for key, n_ops, total_ns in zip(keys.tolist(), n.tolist(), total.tolist(), strict=True):
        kind, name = divmod(key, n_names)
        custom = shown[name - 1] if name else ""
        rows.append(CategoryTime(device, Category(kind), custom, n_ops, total_ns, total_ns / whole))
    return Rows(sorted(rows, key=lambda row: -row.total_ns), CategoryTime)


def _in_optimizer(trace: Trace) -> Bool:
    """Which ops were launched inside an optimizer's step; shape of ops."""
    ops, calls, host = trace.ops, trace.calls, trace.host_ops
    steps = np.array([name.startswith(_STEP) for name in trace.names], bool)
    none = np.zeros(len(ops), bool)
    if not steps.any() or not len(calls) or not len(host):
        return none
    stack = host_stack(trace, steps[host.name] & (host.kind != HostKind.PYTHON))
    inside = stack.outermost_at(calls.thread, calls.start_ns) != NONE
    in_step: Bool = (ops.launch != NONE) & inside[ops.launch] & (ops.kind == OpKind.KERNEL)
    return in_step
