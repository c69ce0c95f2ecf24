"""Changes of what Python does: faster, without a line, with batches fetched ahead, without blocking reads."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from perfmagic.analysis.replay.changes import change
from perfmagic.analysis.replay.device_ops import heads, last_before_on_thread
from perfmagic.analysis.replay.graph import Edge, Graph, Node
from perfmagic.analysis.timeline.activity import syncs
from perfmagic.base.language import phrase
from perfmagic.base.numerics.intervals import EMPTY, Intervals, union
from perfmagic.trace.columns import NONE, Int64, OpKind
from perfmagic.trace.names import OpClass, copy_direction, fetches

_VALUE_BYTES = 64  # a read of one number copies no more


@dataclass(frozen=True)
class FasterPython(change.Change):
    """Python and its calls k times as fast; waits for devices stay. k: math.inf for a host that takes no time."""

    k: float = math.inf
    stage = change.Stage.SPEED_OF_PYTHON

    @property
    def at_most(self) -> bool:
        return math.isinf(self.k)

    @property
    def description(self) -> str:
        if math.isinf(self.k):
            return phrase("Python takes no time at all")
        return phrase("make Python {k} × as fast", k=f"{self.k:g}")

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed, usual = graph.copy(), graph.usual
        left = 0.0 if math.isinf(self.k) else 1 / self.k
        first = changed.first
        of_host = change.host_lags(graph)
        first.lag_ns[of_host] = (first.lag_ns[of_host] * left).astype(np.int64)
        # before the first call of a thread
        begins, begins_ns = change.first_of_threads(graph), graph.begins_ns
        first.lag_ns[begins] = begins_ns + ((first.lag_ns[begins] - begins_ns) * left).astype(np.int64)
        ends = change.begun_in_call(graph)
        lag_ns = first.lag_ns[ends] - changed.length_ns[ends]
        change.shorten_launches(changed, ends, lag_ns - (lag_ns * left).astype(np.int64))
        joins = np.flatnonzero(graph.node == Node.JOIN)
        for links in (changed.first, changed.second):
            tails = joins[links.kind[joins] == Edge.PYTHON]
            links.lag_ns[tails] = (links.lag_ns[tails] * left).astype(np.int64)
            calls = joins[links.kind[joins] == Edge.CALL]
            links.lag_ns[calls] = np.minimum(
                links.lag_ns[calls], np.maximum((links.lag_ns[calls] * left).astype(np.int64), usual.call_ns)
            )
        return changed


@dataclass(frozen=True)
class WithoutPython(change.TakesPython):
    """Python without what it did in some intervals.

    what: description of the change.  where: intervals in ns of the trace.  bound: whether some of it may have to stay.
    """

    what: str
    where: Intervals = field(default_factory=lambda: EMPTY, repr=False, compare=False)
    bound: bool = False

    @property
    def at_most(self) -> bool:
        return self.bound

    @property
    def description(self) -> str:
        return self.what

    def not_applicable(self, graph: Graph) -> str:
        return "" if len(self.where) else phrase("Python spent no time on that")

    def during(self, graph: Graph) -> Intervals:
        return self.where


@dataclass(frozen=True)
class Prefetch(change.TakesPython):
    """Batches that are there when Python asks for them: a DataLoader's workers fetch ahead.

    A bound: workers hand batches over and share the cores. On a V100 a step took 126 ms with them, and this says 120.
    """

    @property
    def at_most(self) -> bool:
        return True

    @property
    def description(self) -> str:
        return phrase("let workers fetch the batches")

    def not_applicable(self, graph: Graph) -> str:
        return "" if len(fetches(graph.trace)) else phrase("no DataLoader fetched a batch in the record")

    def during(self, graph: Graph) -> Intervals:
        host = fetches(graph.trace)
        return union(host.start_ns, host.end_ns)


@dataclass(frozen=True)
class NoLine(change.TakesPython):
    """The cell without the Python time of a line; what the line queued stays."""

    line: int

    @property
    def description(self) -> str:
        return phrase("take away the Python time{line}", line=change.on_line(self.line))

    def not_applicable(self, graph: Graph) -> str:
        return "" if len(self.during(graph)) else phrase("Python was never on line {line}", line=self.line)

    def during(self, graph: Graph) -> Intervals:
        return change.time_on_line(graph.trace, self.line)


@dataclass(frozen=True)
class NoItem(change.Change):
    """No blocking read: no .item(), no print of a tensor, no .cpu() in the middle; the last wait of the cell stays.

    line: only what this line asked for.  calls: rows of trace.calls instead; a read's own copy of one number goes, too.
    """

    line: int | None = None
    calls: tuple[int, ...] | None = None

    stage = change.Stage.CALLS

    @property
    def description(self) -> str:
        line = change.on_line(self.line)
        return phrase("leave out the blocking reads{line}, or read once at the end", line=line)

    def not_applicable(self, graph: Graph) -> str:
        if len(self.rows(graph)):
            return ""
        return phrase("nothing{line} made Python wait for the device", line=change.on_line(self.line))

    def rows(self, graph: Graph) -> Int64:
        """The blocking calls, rows of trace.calls."""
        if self.calls is not None:
            return np.array(self.calls, np.int64)
        blocking = syncs(graph.trace)
        head, ops = heads(graph.trace), graph.trace.ops
        uploads = np.array([copy_direction(name) == OpClass.HTOD for name in graph.trace.names], bool)
        op = head[blocking.call]
        upload = uploads[ops.name[op]] & (op != NONE) if len(ops) else np.zeros(len(blocking), bool)
        rows = blocking.call[~blocking.after_cell & ~blocking.at_edge & ~upload]
        return change.queued_by(self.line, rows, graph.trace.calls.line)

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed, rows = graph.copy(), self.rows(graph)
        trace, ops = graph.trace, graph.trace.ops
        change.release(changed, rows, 0)
        head = heads(trace)
        own = head[rows]
        before = self._copy_before(graph, rows[own == NONE], head)
        copies = np.unique(np.concatenate((own[own != NONE], before)))
        small = (ops.kind[copies] == OpKind.MEMCPY) & (ops.size_bytes[copies] <= _VALUE_BYTES)
        copies = copies[small & (ops.size_bytes[copies] >= 0)]
        change.leave_out(changed, copies)
        change.release(changed, ops.launch[copies], 0)
        return changed

    def _copy_before(self, graph: Graph, calls: Int64, head: Int64) -> Int64:
        """The copy that each waiting call waits for, where it is that: queued last before it by its thread."""
        last = last_before_on_thread(graph.trace, calls, head)
        return np.asarray(last[last != NONE])
