"""A device's busy time charged to its ops: each instant to one of them, so that their times add up."""

from __future__ import annotations

import numpy as np

from perfmagic.analysis.timeline.overlap import CLASS_SETS, PARTED
from perfmagic.numerics.grouped import running_max
from perfmagic.numerics.intervals import EMPTY, covered_ns, merge, union
from perfmagic.trace.columns import Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.names import op_classes
from perfmagic.trace.once import once_per_trace


@once_per_trace
def charged_ns(trace: Trace, device: int, comm_names: str | None = None) -> Int64:
    """How much of a device's busy time each op is charged with; shape of trace.ops, 0 for ops of other devices.

    Of several ops that run at one instant the instant belongs to compute, else to communication, else to a copy, else
    to a memset; of several of one class to the one that started first, the first row where they tie. The sum is the
    busy time to the nanosecond. Source: docs/words.md, "charged".
    """
    ops, classes = trace.ops, op_classes(trace, comm_names)
    result = np.zeros(len(ops), np.int64)
    above = EMPTY  # where an op of a class that comes first runs
    for name in PARTED:
        rows = np.flatnonzero((ops.device == device) & np.isin(classes, CLASS_SETS[name]))
        start, end = ops.start_ns[rows], ops.end_ns[rows]
        # rows are sorted by start: until the latest end so far, an op that started earlier runs
        latest = np.concatenate(([np.iinfo(np.int64).min], running_max(np.zeros(len(rows), np.int64), end)))[:-1]
        begin = np.maximum(start, latest[: len(rows)])
        result[rows] = np.maximum(end - begin, 0) - covered_ns(above, begin, np.maximum(end, begin))
        above = merge(above, union(start, end))
    result.flags.writeable = False
    return result
