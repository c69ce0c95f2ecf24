"""What was copied, where to, and how fast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.rows import Rows
from perfmagic.trace.columns import NONE, OpKind
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, copy_direction, is_pageable


@dataclass(frozen=True)
class CopyStat:
    """The copies of one kind, as the record names it.

    n_ops: copies.  total_ns: their summed duration.  size_bytes, sized_ns: size and duration of those whose size is
    recorded. bandwidth_bytes_per_s: of these, while copying; None without any, or without a duration.
    """

    device: int
    name: str
    direction: OpClass
    pageable: bool
    n_ops: int
    total_ns: int
    size_bytes: int
    sized_ns: int

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        return self.size_bytes / self.sized_ns * 1e9 if self.sized_ns else None


def copies(trace: Trace, device: int) -> Rows[CopyStat]:
    """The copies of a device by kind, the longest in sum first."""
    ops = trace.ops.take((trace.ops.device == device) & (trace.ops.kind == OpKind.MEMCPY))
    stats = []
    for name in np.unique(ops.name).tolist():
        rows = ops.name == name
        length, sized = (ops.end_ns - ops.start_ns)[rows], ops.size_bytes[rows] != NONE
        words = trace.names[name]
        stats.append(
            CopyStat(
                device,
                name=words,
                direction=copy_direction(words),
                pageable=is_pageable(words),
                n_ops=int(rows.sum()),
                total_ns=int(length.sum()),
                size_bytes=int(ops.size_bytes[rows][sized].sum()),
                sized_ns=int(length[sized].sum()),
            )
        )
    return Rows(sorted(stats, key=lambda s: (-s.total_ns, s.name)), CopyStat)
