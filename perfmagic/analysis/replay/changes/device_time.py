"""Device ops as if they took less: faster kernels, communication that is hidden altogether."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.replay.changes.change import Change, on_line, set_lengths
from perfmagic.analysis.replay.graph import Graph
from perfmagic.trace.columns import Int64, OpKind
from perfmagic.trace.names import OpClass, op_classes


@dataclass(frozen=True)
class FasterKernels(Change):
    """Kernels k times as fast. name: part of the kernel's name, "" for all but communication.  line: of the cell."""

    name: str = ""
    k: float = 2.0
    line: int | None = None

    @property
    def words(self) -> str:
        which = f"kernels with {self.name!r}" if self.name else "kernels"
        return f"make {which}{on_line(self.line)} {self.k:g} × as fast"

    def refusal(self, graph: Graph) -> str:
        return "" if len(self.rows(graph)) else f"no kernel{on_line(self.line)} has {self.name!r} in its name"

    def rows(self, graph: Graph) -> Int64:
        """The kernels, rows of trace.ops."""
        trace, ops = graph.trace, graph.trace.ops
        wanted = np.array([self.name.lower() in name.lower() for name in trace.names], bool)
        mine = (ops.kind == OpKind.KERNEL) & wanted[ops.name]
        if not self.name:
            mine &= op_classes(trace) != OpClass.COMMUNICATION
        if self.line is not None:
            mine &= ops.line == self.line
        return np.flatnonzero(mine)

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed, rows = graph.copy(), self.rows(graph)
        left = 0.0 if math.isinf(self.k) else 1 / self.k
        set_lengths(changed, rows, (changed.length_ns[graph.op_node[rows]] * left).astype(np.int64))
        return changed


@dataclass(frozen=True)
class Hidden(Change):
    """Some ops as if they cost no time: no overlap of them can gain more. ops: rows of trace.ops."""

    what: str
    ops: tuple[int, ...]

    @property
    def at_most(self) -> bool:
        return True

    @property
    def words(self) -> str:
        return self.what

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed, rows = graph.copy(), np.array(self.ops, np.int64)
        set_lengths(changed, rows, np.zeros(len(rows), np.int64))
        return changed
