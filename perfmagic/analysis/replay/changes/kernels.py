"""Changes of kernels: faster, fused, or launched together as one CUDA graph."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from perfmagic.analysis.replay.changes import change
from perfmagic.analysis.replay.device_ops import UNEXPLAINED_NS
from perfmagic.analysis.replay.graph import Edge, Graph, Node
from perfmagic.analysis.timeline.device_operators import categories
from perfmagic.base.language import phrase
from perfmagic.base.numerics.intervals import covered_ns
from perfmagic.base.numerics.longest import NO_NODE
from perfmagic.trace.columns import NONE, Bool, Int64, OpKind
from perfmagic.trace.families import Category
from perfmagic.trace.names import OpClass, is_pageable, op_classes

CALL_NS = 10_000  # of a graph's launch: 5–20 µs on A100 and V100 (traces/)
GAP_NS = 1_000  # between two ops of one graph
LONG_PYTHON_NS = 200_000  # between two launches: an operator's own Python is 5 to 50 µs, so there is something else
# kernels of the simulated device have torch's names of operators; these are the usual ones tagged "pointwise" there,
# and softmax, which torch.compile fuses with them
_POINTWISE = re.compile(
    r"(?:add|sub|rsub|mul|div|neg|abs|exp|log|sqrt|rsqrt|reciprocal|pow|square|sin|cos|tanh|sigmoid|relu|gelu|silu|erf"
    r"|clamp|maximum|minimum|where|lerp|addcmul|addcdiv|threshold_backward|(?:sigmoid|tanh|gelu|silu)_backward|_(?:log_)?softmax(?:_backward_data)?)_?"
)


@dataclass(frozen=True)
class FasterKernels(change.Change):
    """Kernels k times as fast. name: part of the kernel's name, "" for all but communication.  line: of the cell."""

    name: str = ""
    k: float = 2.0
    line: int | None = None

    stage = change.Stage.LENGTHS

    @property
    def description(self) -> str:
        named, line = phrase("kernels with {name}", name=repr(self.name)), change.on_line(self.line)
        which = named if self.name else phrase("kernels")
        if math.isinf(self.k):
            return phrase("{kernels}{line} take no time at all", kernels=which, line=line)
        return phrase("make {kernels}{line} {k} × as fast", kernels=which, line=line, k=f"{self.k:g}")

    def not_applicable(self, graph: Graph) -> str:
        if len(self.rows(graph)):
            return ""
        line = change.on_line(self.line)
        if not self.name:
            return phrase("there is no kernel{line}", line=line)
        return phrase("no kernel{line} has {name} in its name", line=line, name=repr(self.name))

    def rows(self, graph: Graph) -> Int64:
        """The kernels, rows of trace.ops."""
        trace, ops = graph.trace, graph.trace.ops
        wanted = np.array([self.name.lower() in name.lower() for name in trace.names], bool)
        chosen = (ops.kind == OpKind.KERNEL) & wanted[ops.name]
        if not self.name:
            chosen &= op_classes(trace) != OpClass.COMMUNICATION
        return change.queued_by(self.line, np.flatnonzero(chosen), ops.line)

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        return _scaled(graph, self.rows(graph), 0.0 if math.isinf(self.k) else 1 / self.k)


@dataclass(frozen=True)
class ShorterOps(change.Change):
    """Some ops that take a part of their time.

    what: description of the change.  ops: rows of trace.ops.  left: what is left of their time, of all or of each.
    bound: whether no change can make them shorter.
    """

    what: str
    ops: tuple[int, ...] = field(repr=False)
    left: float | tuple[float, ...] = 0.0
    bound: bool = True

    stage = change.Stage.LENGTHS

    @property
    def at_most(self) -> bool:
        return self.bound

    @property
    def assumes(self) -> bool:
        return not self.bound

    @property
    def description(self) -> str:
        return self.what

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        left = np.asarray(self.left)
        return _scaled(graph, np.array(self.ops, np.int64), left if best else (1 + left) / 2)


def _scaled(graph: Graph, rows: Int64, left: npt.ArrayLike) -> Graph:
    """A graph in which some ops take a part of their time."""
    changed = graph.copy()
    change.set_lengths(changed, rows, (changed.length_ns[graph.op_node[rows]] * np.asarray(left)).astype(np.int64))
    return changed


@dataclass(frozen=True)
class OneGraph(change.Change):
    """Ops launched together, as a CUDA graph does: Python pays one call, and the ops follow each other.

    line: the ops that this line queued; what Python did on other lines stays.  stretches: instead, rows of trace.ops,
    each a tuple.  A call that waits for the device ends a graph: what comes after it is another one. So does a copy
    from pageable memory, which no graph holds, and another thread has graphs of its own. At best nothing is left of
    Python between the launches, else what is longer than a launch and the Python around it ever is. What else delays
    an op stays.
    """

    line: int | None = None
    stretches: tuple[tuple[int, ...], ...] | None = field(default=None, repr=False)
    stage = change.Stage.LAUNCHES

    @property
    def assumes(self) -> bool:
        return True

    @property
    def description(self) -> str:
        return phrase("launch the ops{line} as one CUDA graph", line=change.on_line(self.line))

    def not_applicable(self, graph: Graph) -> str:
        if any(len(rows) > 1 for rows in self._stretches(graph)):
            return ""
        return phrase("the ops{line} are too few", line=change.on_line(self.line))

    def _stretches(self, graph: Graph) -> list[Int64]:
        if self.stretches is not None:
            copies = _reads_host(graph)
            stretches = (np.array(rows, np.int64) for rows in self.stretches)
            return [rows[~copies[rows]] for rows in stretches]
        ops = graph.trace.ops
        return [change.queued_by(self.line, np.flatnonzero((ops.launch != NONE) & ~_reads_host(graph)), ops.line)]

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed, trace = graph.copy(), graph.trace
        copies = trace.ops.launch[_reads_host(graph)]
        cuts_ns = np.sort(np.concatenate((_waits_ns(graph), trace.calls.start_ns[copies[copies != NONE]])))
        host = np.flatnonzero(change.host_lags(graph))
        left_ns = np.zeros(len(graph), np.int64)
        if not best:
            long = host[(graph.first.kind[host] == Edge.PYTHON) & (graph.first.lag_ns[host] >= LONG_PYTHON_NS)]
            left_ns[long] = graph.first.lag_ns[long]
        if self.line is not None:
            before_ns, lag_ns = graph.time_ns[graph.first.node[host]], graph.first.lag_ns[host]
            elsewhere_ns = lag_ns - covered_ns(change.time_on_line(trace, self.line), before_ns, graph.time_ns[host])
            left_ns[host] = np.maximum(left_ns[host], elsewhere_ns)
        stretches = self._stretches(graph)
        rows = np.concatenate([*stretches, np.zeros(0, np.int64)])
        of_stretch = np.repeat(np.arange(len(stretches)), [len(stretch) for stretch in stretches])
        host = host[np.argsort(graph.time_ns[host], kind="stable")]
        _as_one_call(changed, _parts(graph, rows, of_stretch, cuts_ns), host, left_ns)
        _close_up(changed, rows, of_stretch)
        return changed


def _reads_host(graph: Graph) -> Bool:
    """Which ops are copies from pageable memory: no graph can hold them."""
    names = np.array([is_pageable(name) for name in graph.trace.names], bool)
    return np.asarray(names[graph.trace.ops.name] & (graph.trace.ops.kind == OpKind.MEMCPY))


def _waits_ns(graph: Graph) -> Int64:
    """When Python had waited for the device, rising."""
    return np.sort(graph.time_ns[(graph.second.kind == Edge.SYNC) & (graph.node == Node.CALL_END)])


@dataclass(frozen=True, eq=False)
class _Parts:
    """Launch calls that become one each, in order.  first: the first call of each part."""

    first: Int64
    begin_ns: Int64
    end_ns: Int64


def _parts(graph: Graph, rows: Int64, of_stretch: Int64, cuts_ns: Int64) -> _Parts:
    """The launch calls of each stretch of ops by thread, cut where Python waits; what is one call is left out."""
    table, launch = graph.trace.calls, graph.trace.ops.launch[rows]
    n = len(table) + 1
    keys = np.unique(of_stretch[launch != NONE] * n + launch[launch != NONE])
    stretch, calls = keys // n, keys % n
    order = np.lexsort((table.start_ns[calls], table.thread[calls], stretch))
    stretch, calls = stretch[order], calls[order]
    part = np.stack((stretch, table.thread[calls], np.searchsorted(cuts_ns, table.start_ns[calls])))
    begins = np.flatnonzero(np.concatenate((np.ones(min(1, len(calls)), bool), (np.diff(part) != 0).any(axis=0))))
    end_ns = np.maximum.reduceat(table.end_ns[calls], begins) if len(calls) else calls
    several = np.diff(begins, append=len(calls)) > 1
    first = calls[begins[several]]
    return _Parts(first, table.start_ns[first], end_ns[several])


def _as_one_call(changed: Graph, parts: _Parts, host: Int64, left_ns: Int64) -> None:
    """Make all the Python from the first to the last launch of each part as long as one launch. Changes the graph.

    host: instants of threads, by time.  left_ns: what of Python stays before each instant.
    """
    first, second = changed.first, changed.second
    covered = np.full(len(changed), NONE, np.int64)  # by which part, the last one
    thread = changed.trace.calls.thread[parts.first]
    for number in np.unique(thread).tolist():
        at, of_thread = np.flatnonzero(thread == number), host[changed.thread[host] == number]
        low, high = (
            np.searchsorted(changed.time_ns[of_thread], ns[at], side="right") for ns in (parts.begin_ns, parts.end_ns)
        )
        n = high - low
        part = np.repeat(at, n)
        inside = of_thread[np.arange(len(part)) + np.repeat(low - np.cumsum(n) + n, n)]
        kept = changed.time_ns[first.node[inside]] >= parts.begin_ns[part]
        covered[inside[kept]] = part[kept]
    inside = np.flatnonzero(covered != NONE)
    first.lag_ns[inside] = np.minimum(first.lag_ns[inside], left_ns[inside])
    second.node[inside[second.kind[inside] == Edge.FULL_QUEUE]] = NO_NODE
    ends = changed.end_of[parts.first]
    launched = np.full(len(changed) + 1, NONE, np.int64)  # the last one stands for NO_NODE
    launched[ends] = np.arange(len(ends))
    ends = np.flatnonzero(launched[:-1] != NONE)
    # another part may begin before the launch of one has returned
    left = np.where(covered[ends] > launched[ends], np.minimum(CALL_NS, left_ns[ends]), CALL_NS)
    first.lag_ns[ends] = left


def _close_up(changed: Graph, rows: Int64, of_stretch: Int64) -> None:
    """Make the ops of each stretch follow each other as the ops of a CUDA graph do. Changes the graph."""
    ends, usual = changed.op_node[rows], changed.usual
    first, second, length_ns = changed.first, changed.second, changed.length_ns[ends]
    lag_ns = first.lag_ns[ends] - length_ns
    launch_ns = usual.launch_ns[rows]
    kind = first.kind[ends]
    ordinary = (kind == Edge.CALL) | ((kind == Edge.LAUNCH) & (lag_ns <= UNEXPLAINED_NS + launch_ns))
    first.lag_ns[ends] = np.where(ordinary, length_ns + np.minimum(lag_ns, launch_ns), first.lag_ns[ends])
    gap_ns = second.lag_ns[ends] - length_ns
    stretch_of = np.full(len(changed) + 1, NONE, np.int64)  # the last one stands for NO_NODE
    stretch_of[ends] = of_stretch
    ordinary = (stretch_of[second.node[ends]] == of_stretch) & (second.kind[ends] == Edge.STREAM)
    ordinary &= gap_ns <= UNEXPLAINED_NS
    least_ns = np.minimum(gap_ns, min(GAP_NS, usual.stream_ns))
    second.lag_ns[ends] = np.where(ordinary, length_ns + least_ns, second.lag_ns[ends])


@dataclass(frozen=True)
class Fused(change.Change):
    """Elementwise kernels that follow each other on a stream as one kernel, with one launch.

    line: those that this line queued.  A wait for another stream, or of Python for the device, ends a kernel. At best
    the one kernel takes as long as the longest of them, as if each reads and writes the same memory. Python then does
    only long work between; else as long as all of them together, and Python stays.
    """

    line: int | None = None

    stage = change.Stage.LAUNCHES

    @property
    def assumes(self) -> bool:
        return True

    @property
    def description(self) -> str:
        return phrase("fuse the elementwise kernels{line} that follow each other", line=change.on_line(self.line))

    def not_applicable(self, graph: Graph) -> str:
        if self.runs(graph):
            return ""
        return phrase("no two elementwise kernels{line} follow each other", line=change.on_line(self.line))

    def runs(self, graph: Graph) -> list[Int64]:
        """Kernels that follow each other on a stream, two or more; rows of trace.ops."""
        trace, ops = graph.trace, graph.trace.ops
        of_operator = np.array([_POINTWISE.fullmatch(name) is not None for name in trace.names], bool)
        elementwise = (categories(trace) == Category.ELEMENTWISE) | of_operator[ops.name]
        elementwise &= ops.kind == OpKind.KERNEL
        if self.line is not None:
            elementwise &= ops.line == self.line
        order = np.lexsort((ops.start_ns, ops.stream, ops.device))
        new = (np.diff(ops.stream[order]) != 0) | (np.diff(ops.device[order]) != 0) | (np.diff(elementwise[order]) != 0)
        # what waits for another stream, or is queued after Python has waited, may need what came between
        waiting = np.zeros(len(ops), bool)
        waiting[[op for op, _ in graph.waits]] = True
        period = np.searchsorted(_waits_ns(graph), trace.launch_start_ns(order))
        new |= waiting[order[1:]] | (np.diff(period) != 0)
        parts = np.split(order, np.flatnonzero(new) + 1)
        return [part for part in parts if len(part) > 1 and elementwise[part[0]]]

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        runs = self.runs(graph)
        stretches = tuple(tuple(rows.tolist()) for rows in runs)
        changed = OneGraph(stretches=stretches).apply(graph, best=False) if best else graph.copy()
        for rows in runs:
            length_ns = changed.length_ns[graph.op_node[rows]]
            change.leave_out(changed, rows[1:])
            change.set_lengths(changed, rows[:1], np.array([length_ns.max() if best else length_ns.sum()]))
        return changed
