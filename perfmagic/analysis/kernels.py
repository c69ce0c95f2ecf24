"""Which kernels took the time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.trace.columns import OpKind
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes


@dataclass(frozen=True)
class KernelStat:
    """The runs of one kernel on a device. share_frac: of the summed duration of all the device's kernels."""

    name: str
    op_class: OpClass
    n: int
    total_ns: int
    mean_ns: float
    share_frac: float


def top_kernels(trace: Trace, device: int, limit: int = 10, comm_names: str | None = None) -> tuple[KernelStat, ...]:
    """The kernels with the largest summed duration, the first seen first where they tie."""
    mine = (trace.ops.device == device) & (trace.ops.kind == OpKind.KERNEL)
    ops = trace.ops.take(mine)
    if not len(ops):
        return ()
    classes = op_classes(trace, comm_names)[mine]
    names, first, inverse, n = np.unique(ops.name, return_index=True, return_inverse=True, return_counts=True)
    total = np.zeros(len(names), np.int64)
    np.add.at(total, inverse, ops.end_ns - ops.start_ns)
    all_ns = max(1, int(total.sum()))
    order = np.lexsort((first, -total))[:limit]
    return tuple(
        KernelStat(
            name=trace.names[names[i]],
            op_class=OpClass(int(classes[first[i]])),
            n=int(n[i]),
            total_ns=int(total[i]),
            mean_ns=float(total[i] / n[i]),
            share_frac=float(total[i] / all_ns),
        )
        for i in order
    )
