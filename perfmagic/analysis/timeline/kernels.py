"""Which kernels took the time, and how they were laid out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.trace.columns import NONE, DeviceOps, Int64, OpKind
from perfmagic.trace.model import Trace, once_per_trace
from perfmagic.trace.names import OpClass, kernel_short_names, op_classes, uses_tensor_cores
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

    Percentiles: of the n sorted durations the one nearest to rank p · (n − 1). The median of an even number lies
    between the two in the middle. Of equally frequent launch shapes the first seen counts.
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


def _durations(ops: DeviceOps, group: Int64, n: Int64) -> tuple[Int64, Int64]:
    """The summed duration of each group, shape (groups,), and its percentiles, shape (groups, 4), in ns."""
    length = ops.end_ns - ops.start_ns
    length = length[np.lexsort((length, group))]
    begin = np.cumsum(n) - n
    ranks = begin[:, None] + np.rint(np.array(PERCENTILES) * (n[:, None] - 1)).astype(np.int64)
    ranked = length[ranks]
    ranked[:, PERCENTILES.index(0.5)] = (length[begin + (n - 1) // 2] + length[begin + n // 2]) // 2
    return np.add.reduceat(length, begin), ranked


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
