"""Device ops as if they took less: faster kernels, fused ones, communication and copies that are hidden altogether."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.replay.changes.change import (
    Change,
    Stage,
    hold_nobody,
    leave_out,
    of_line,
    on_line,
    release,
    set_lengths,
    waits_for,
)
from perfmagic.analysis.replay.changes.launching import OneGraph, waits_ns
from perfmagic.analysis.replay.graph import Graph
from perfmagic.analysis.timeline.categories import Category, categories
from perfmagic.trace.columns import NONE, Int64, OpKind
from perfmagic.trace.names import OpClass, op_classes

# kernels of the simulated device have the names of torch's operators; these are the usual ones tagged "pointwise" there
_POINTWISE = re.compile(
    r"(?:add|sub|rsub|mul|div|neg|abs|exp|log|sqrt|rsqrt|reciprocal|pow|square|sin|cos|tanh|sigmoid|relu|gelu|silu|erf"
    r"|clamp|maximum|minimum|where|lerp|addcmul|addcdiv|threshold_backward|(?:sigmoid|tanh|gelu|silu)_backward)_?"
)


@dataclass(frozen=True)
class FasterKernels(Change):
    """Kernels k times as fast. name: part of the kernel's name, "" for all but communication.  line: of the cell."""

    name: str = ""
    k: float = 2.0
    line: int | None = None

    stage = Stage.LENGTHS

    @property
    def words(self) -> str:
        which = f"kernels with {self.name!r}" if self.name else "kernels"
        if math.isinf(self.k):
            return f"{which}{on_line(self.line)} take no time at all"
        return f"make {which}{on_line(self.line)} {self.k:g} × as fast"

    def refusal(self, graph: Graph) -> str:
        if len(self.rows(graph)):
            return ""
        if not self.name:
            return f"there is no kernel{on_line(self.line)}"
        return f"no kernel{on_line(self.line)} has {self.name!r} in its name"

    def rows(self, graph: Graph) -> Int64:
        """The kernels, rows of trace.ops."""
        trace, ops = graph.trace, graph.trace.ops
        wanted = np.array([self.name.lower() in name.lower() for name in trace.names], bool)
        mine = (ops.kind == OpKind.KERNEL) & wanted[ops.name]
        if not self.name:
            mine &= op_classes(trace) != OpClass.COMMUNICATION
        return of_line(np.flatnonzero(mine), ops.line, self.line)

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed, rows = graph.copy(), self.rows(graph)
        left = 0.0 if math.isinf(self.k) else 1 / self.k
        set_lengths(changed, rows, (changed.length_ns[graph.op_node[rows]] * left).astype(np.int64))
        return changed


@dataclass(frozen=True)
class Overlapped(Change):
    """All ops of some classes hidden behind compute, as if they cost no time and waited for nobody: a bound.

    what: they in words.  line: of one line of the cell, None for all.  device: of one device, None for all.
    comm_names: as in perfmagic.trace.names.op_classes.
    """

    what: str
    classes: tuple[OpClass, ...]
    line: int | None = None
    device: int | None = None
    comm_names: str | None = None
    stage = Stage.LENGTHS

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
        trace, ops = graph.trace, graph.trace.ops
        mine = np.isin(op_classes(trace, self.comm_names), self.classes)
        if self.device is not None:
            mine &= ops.device == self.device
        return of_line(np.flatnonzero(mine), ops.line, self.line)

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed, rows = graph.copy(), self.rows(graph)
        hold_nobody(changed, rows)
        ops = graph.trace.ops
        copies = rows[ops.kind[rows] == OpKind.MEMCPY]
        # nor does Python wait for a copy: what pinned memory gains lies within the bound
        release(changed, ops.launch[copies][ops.launch[copies] != NONE], graph.usual.call_ns)
        release(changed, waits_for(graph, copies), 0)
        return changed


@dataclass(frozen=True)
class Fused(Change):
    """Elementwise kernels that follow each other on a stream as one kernel, with one launch.

    line: those that this line queued.  A wait for another stream, or of Python for the device, ends a kernel. At best
    the one kernel takes as long as the longest of them, as where each reads and writes the same memory, and Python does
    nothing between but what is long; else as long as all of them together, and Python stays.
    """

    line: int | None = None

    stage = Stage.LAUNCHES

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
        # what waits for another stream, or is queued after Python has waited, may need what came between
        waiting = np.zeros(len(ops), bool)
        waiting[[op for op, _ in graph.waits]] = True
        period = np.searchsorted(waits_ns(graph), trace.launch_start_ns()[order])
        new |= waiting[order[1:]] | (np.diff(period) != 0)
        parts = np.split(order, np.flatnonzero(new) + 1)
        return [part for part in parts if len(part) > 1 and mine[part[0]]]

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        runs = self.runs(graph)
        stretches = tuple(tuple(rows.tolist()) for rows in runs)
        changed = OneGraph(stretches=stretches).apply(graph, best=False) if best else graph.copy()
        for rows in runs:
            length_ns = changed.length_ns[graph.op_node[rows]]
            leave_out(changed, rows[1:])
            set_lengths(changed, rows[:1], np.array([length_ns.max() if best else length_ns.sum()]))
        return changed
