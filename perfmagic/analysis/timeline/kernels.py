"""Which kernels took the time, how they were laid out, how much of it was on tensor cores; what each op is for.

perfmagic.trace.families has the table: a gemm that a convolution launched is convolution. Every op has one category, so
that their times add up to the summed time of the device's ops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from perfmagic.analysis.timeline.origin import Source, origins
from perfmagic.base.numerics.intervals import coded
from perfmagic.trace.columns import NONE, Bool, DeviceOps, HostKind, Int8, Int64, OpKind
from perfmagic.trace.families import Category
from perfmagic.trace.hoststack import host_stack
from perfmagic.trace.model import Trace
from perfmagic.trace.names import (
    OpClass,
    find_family,
    is_of_library,
    kernel_short_names,
    op_classes,
    shown_names,
    uses_tensor_cores,
)
from perfmagic.trace.once import once_per_trace
from perfmagic.trace.rows import Rows

Dim3 = tuple[int, int, int]
PERCENTILES = (0.0, 0.5, 0.9, 1.0)


@dataclass(frozen=True)
class KernelStat:
    """All runs of one kernel.

    name: the kernel's name, whole.
    short_name: the name in at most 48 characters, by its structure; no other kernel of the trace has the same.
    op_class: what it works on.
    n_ops: its runs.
    total_ns: their summed duration.
    mean_ns: their mean duration.
    share_frac: its share of the summed duration of all kernels of the device.
    min_ns: the shortest run.
    median_ns: the median run.
    p90_ns: the 90th percentile of the runs.
    max_ns: the longest run.
    grid: blocks of the grid of the most frequent launch shape. By (x, y, z); None where the record has no shapes.
    block: threads of a block of the most frequent launch shape. By (x, y, z); None where the record has no shapes.
    n_shapes: distinct pairs of grid and block.
    tensor_cores: whether it uses tensor cores, by its name; None where the name does not say.

    Percentiles: of the n sorted durations the one nearest to rank p · (n − 1). Of equally frequent launch shapes
    the first seen counts.
    """

    device: int
    name: str
    short_name: str
    op_class: OpClass
    n_ops: int
    total_ns: int
    mean_ns: float
    share_frac: float
    min_ns: int
    median_ns: int
    p90_ns: int
    max_ns: int
    grid: Dim3 | None
    block: Dim3 | None
    n_shapes: int
    tensor_cores: bool | None


@dataclass(frozen=True)
class TensorCoreShare:
    """How much of the kernels' summed duration was on tensor cores, by the kernels' names.

    tensor_ns: kernels that use them.
    undecided_ns: matrix kernels whose name does not say.
    matrix_ns: matrix kernels, and whatever else uses them.
    kernel_ns: all kernels.
    frac_of_matrix: `tensor_ns` by `matrix_ns`, 0 to 1.
    frac_of_kernels: `tensor_ns` by `kernel_ns`, 0 to 1.
    """

    left_out: ClassVar[tuple[str, ...]] = ("device",)  # of JSON: the key above says which
    computed: ClassVar[tuple[str, ...]] = ("frac_of_matrix", "frac_of_kernels")

    device: int
    tensor_ns: int
    undecided_ns: int
    matrix_ns: int
    kernel_ns: int

    @property
    def frac_of_matrix(self) -> float:
        return self.tensor_ns / self.matrix_ns if self.matrix_ns else 0.0

    @property
    def frac_of_kernels(self) -> float:
        return self.tensor_ns / self.kernel_ns if self.kernel_ns else 0.0


@once_per_trace
def kernels(trace: Trace, device: int, comm_names: str | None = None) -> Rows[KernelStat]:
    """Every kernel of a device by name, the largest summed duration first, the first seen first where they tie.

    comm_names: what is communication, as in perfmagic.trace.names.op_classes.
    """
    is_kernel = (trace.ops.device == device) & (trace.ops.kind == OpKind.KERNEL)
    ops = trace.ops.select(is_kernel)
    if not len(ops):
        return Rows((), KernelStat)
    classes = op_classes(trace, comm_names)[is_kernel]
    names, first, inverse, n = np.unique(ops.name, return_index=True, return_inverse=True, return_counts=True)
    total, ranked = _durations(ops, inverse, n)
    grid_block, n_shapes = _shapes(trace, ops, inverse, len(names))
    short = kernel_short_names(trace)
    all_ns = max(1, int(total.sum()))
    return Rows(
        (
            KernelStat(
                device,
                name=trace.names[names[i]],
                short_name=short[trace.names[names[i]]],
                op_class=OpClass(int(classes[first[i]])),
                n_ops=int(n[i]),
                total_ns=int(total[i]),
                mean_ns=float(total[i] / n[i]),
                share_frac=float(total[i] / all_ns),
                **dict(zip(("min_ns", "median_ns", "p90_ns", "max_ns"), ranked[i].tolist(), strict=True)),
                grid=grid_block[i][0],
                block=grid_block[i][1],
                n_shapes=int(n_shapes[i]),
                tensor_cores=uses_tensor_cores(trace.names[names[i]]),
            )
            for i in np.lexsort((first, -total)).tolist()
        ),
        KernelStat,
    )


def tensor_core_share(trace: Trace, device: int, comm_names: str | None = None) -> TensorCoreShare:
    """How much of a device's kernel time was on tensor cores (AMD: matrix cores), by the kernels' names."""
    rows = (trace.ops.device == device) & (trace.ops.kind == OpKind.KERNEL)
    name, classes = trace.ops.name[rows], op_classes(trace, comm_names)[rows]
    length = (trace.ops.end_ns - trace.ops.start_ns)[rows]
    used, inverse = coded(name)
    says = [uses_tensor_cores(trace.names[i]) for i in used.tolist()]
    yes: Bool = np.array([answer is True for answer in says], bool)[inverse]
    unknown: Bool = np.array([answer is None for answer in says], bool)[inverse]
    matrix = classes == OpClass.MATRIX
    return TensorCoreShare(
        device,
        tensor_ns=int(length[yes].sum()),
        undecided_ns=int(length[unknown & matrix].sum()),
        matrix_ns=int(length[yes | matrix].sum()),
        kernel_ns=int(length.sum()),
    )


def _durations(ops: DeviceOps, group: Int64, n: Int64) -> tuple[Int64, Int64]:
    """The summed duration of each group, shape (groups,), and its percentiles, shape (groups, 4), in ns."""
    length = ops.end_ns - ops.start_ns
    length = length[np.lexsort((length, group))]
    begin = np.cumsum(n) - n
    ranks = begin[:, None] + np.rint(np.array(PERCENTILES) * (n[:, None] - 1)).astype(np.int64)
    return np.add.reduceat(length, begin), length[ranks]


def _shapes(trace: Trace, ops: DeviceOps, group: Int64, n_groups: int) -> tuple[list[tuple[Dim3 | None, ...]], Int64]:
    """Of each group the most frequent (grid, block), (None, None) where none is known, and how many there are."""
    codes: dict[tuple[Dim3 | None, ...], int] = {}
    code_of = np.array([codes.setdefault((s.grid, s.block), len(codes)) for s in trace.shapes], np.int64)
    most: list[tuple[Dim3 | None, ...]] = [(None, None)] * n_groups
    known = np.flatnonzero(ops.shape != NONE)
    if not len(known):
        return most, np.zeros(n_groups, np.int64)
    key = group[known] * len(codes) + code_of[ops.shape[known]]
    keys, first, n = np.unique(key, return_index=True, return_counts=True)
    pairs = list(codes)
    for i in np.lexsort((-first, n)).tolist():  # the most frequent comes last and stays
        most[int(keys[i]) // len(codes)] = pairs[int(keys[i]) % len(codes)]
    return most, np.bincount(keys // len(codes), minlength=n_groups)


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
