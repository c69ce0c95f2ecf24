"""Device ops as if they took less: faster kernels, fused ones, communication and copies that are hidden altogether."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.replay.changes.change import Change, leave_out, of_line, on_line, set_lengths
from perfmagic.analysis.replay.changes.launching import OneGraph
from perfmagic.analysis.replay.graph import Graph
from perfmagic.analysis.timeline.categories import Category, categories
from perfmagic.trace.columns import Int64, OpKind
from perfmagic.trace.names import OpClass, op_classes

# kernels of the simulated device have the names of torch's operators; these are the usual ones tagged "pointwise" there
_POINTWISE = re.compile(
    r"(?:add|sub|rsub|mul|div|neg|abs|exp|log|sqrt|rsqrt|reciprocal|pow|square|sin|cos|tanh|sigmoid|relu|gelu|silu|erf"
    r"|clamp|maximum|minimum|where|lerp|addcmul|addcdiv|threshold_backward|(?:sigmoid|tanh|gelu|silu)_backward)_?"
)
COPIES = (OpClass.HTOD, OpClass.DTOH, OpClass.DTOD, OpClass.PTOP)


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
class Overlapped(Change):
    """All ops of some classes of one line, or of all lines, hidden behind compute: a bound, see Hidden."""

    what: str
    classes: tuple[OpClass, ...]
    line: int | None = None

    @property
    def at_most(self) -> bool:
        return True

    @property
    def words(self) -> str:
        return f"hide the {self.what}{on_line(self.line)} behind compute"

    def refusal(self, graph: Graph) -> str:
        return "" if len(self.rows(graph)) else f"there is no time of {self.what}{on_line(self.line)}"

    def rows(self, graph: Graph) -> Int64:
        """The ops, rows of trace.ops."""
        trace = graph.trace
        return of_line(np.flatnonzero(np.isin(op_classes(trace), self.classes)), trace.ops.line, self.line)

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        return Hidden(self.words, tuple(self.rows(graph).tolist())).apply(graph, best=best)


@dataclass(frozen=True)
class Fused(Change):
    """Elementwise kernels that follow each other on a stream as one kernel, with one launch.

    line: those that this line queued.  At best the one kernel takes as long as the longest of them, as where each reads
    and writes the same memory, and Python does nothing between; else as long as all of them together, and Python stays.
    """

    line: int | None = None

    @property
    def assumes(self) -> bool:
        return True

    @property
    def words(self) -> str:
        return f"fuse the elementwise kernels{on_line(self.line)} that follow each other"

    def refusal(self, graph: Graph) -> str:
        return "" if self.runs(graph) else f"no two elementwise kernels{on_line(self.line)} follow each other"

    def runs(self, graph: Graph) -> list[Int64]:
        """Kernels that follow each other on a stream, two or more; rows of trace.ops."""
        trace, ops = graph.trace, graph.trace.ops
        of_operator = np.array([_POINTWISE.fullmatch(name) is not None for name in trace.names], bool)
        mine = (categories(trace) == Category.ELEMENTWISE) | of_operator[ops.name]
        mine &= ops.kind == OpKind.KERNEL
        if self.line is not None:
            mine &= ops.line == self.line
        order = np.lexsort((ops.start_ns, ops.stream, ops.device))
        new = (np.diff(ops.stream[order]) != 0) | (np.diff(ops.device[order]) != 0) | (np.diff(mine[order]) != 0)
        parts = np.split(order, np.flatnonzero(new) + 1)
        return [part for part in parts if len(part) > 1 and mine[part[0]]]

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        runs = self.runs(graph)
        stretches = tuple(tuple(rows.tolist()) for rows in runs)
        changed = OneGraph(stretches=stretches).apply(graph, best=best) if best else graph.copy()
        for rows in runs:
            length_ns = changed.length_ns[graph.op_node[rows]]
            leave_out(changed, rows[1:])
            set_lengths(changed, rows[:1], np.array([length_ns.max() if best else length_ns.sum()]))
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
