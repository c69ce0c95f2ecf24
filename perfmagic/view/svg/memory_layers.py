"""What every picture of memory shares: the colours of its layers, and which steps its columns show."""

from __future__ import annotations

import numpy as np

from perfmagic.analysis.memory.stack import Kind
from perfmagic.trace.columns import Int64

TOKENS = {
    Kind.PARAMETERS: "mem_parameters",
    Kind.OPTIMIZER: "mem_optimizer",
    Kind.BEFORE: "mem_before",
    Kind.GRADIENTS: "mem_gradients",
    Kind.HELD: "mem_held",
    Kind.GRAPH: "mem_graph",
    Kind.KEPT: "mem_kept",
    Kind.BACKWARD: "mem_backward",
    Kind.PASSING: "mem_passing",
}


def columns_of(total: Int64, most: int) -> tuple[Int64, Int64]:
    """Where each column of steps begins, and the step of it that is drawn: that with the most memory."""
    n = min(len(total), most)
    first = np.arange(n, dtype=np.int64) * len(total) // n
    shown = [
        int(total[a:b].argmax()) + a for a, b in zip(first.tolist(), [*first[1:].tolist(), len(total)], strict=True)
    ]
    return first, np.array(shown, np.int64)
