"""The critical path as executed: from the last operator back to the first, and the delays on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from perfmagic.analysis.graph.graph import Graph
from perfmagic.analysis.replay.device_ops import Queues, heads, stream_waits
from perfmagic.analysis.timeline.activity import syncs
from perfmagic.base.numerics.intervals import covered_ns, union
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.model import Trace

_MOST_OF = 0.5  # of a delay: Python waited for so much of it


class Cause(Enum):
    """What kept an operator whose dependencies and lane were ready."""

    PYTHON = "Python had not queued it"
    WAIT = "Python waited for the device"
    LATENCY = "queued, and its stream had nothing to run"


@dataclass(frozen=True)
class Wait:
    """One call that blocks Python.

    line, function: that made it, 0 and "" where not known.  name: of the call, as people write it.  lane: of the
    operator that it is a part of, "" where it is none.
    """

    start_ns: int
    end_ns: int
    line: int
    function: str
    name: str
    lane: str


@dataclass(frozen=True)
class Delay:
    """A time on the executed critical path before an operator.

    node: its number.  ns: how long it lasts.  wait: the longest that Python was in, None for none.
    """

    node: int
    ns: int
    cause: Cause
    wait: Wait | None = None


class Delays:
    """The delays on the executed critical path.

    An operator waits for its dependencies, its lane, the op before it in its stream, and what its stream waits for.
    """

    def __init__(self, trace: Trace, graph: Graph) -> None:
        self._trace, self._graph = trace, graph

    @cached_property
    def every(self) -> list[Delay]:
        """All of them, the last one first."""
        graph = self._graph
        node: int | None = max(range(len(graph.nodes)), key=lambda i: graph.nodes[i].end_ns)
        before = self._before
        seen: set[int] = set()
        delays: list[Delay] = []
        while node is not None and node not in seen:
            seen.add(node)
            known = {*graph.needs[node], *before[node]} - {node}
            last = max(known, key=lambda i: graph.nodes[i].end_ns, default=None)
            ready_ns = graph.start_ns if last is None else graph.nodes[last].end_ns
            delays += self._of_node(node, ready_ns)
            node = last
        return delays

    def ns_of(self, cause: Cause) -> int:
        """The sum of the delays with a cause."""
        return sum(delay.ns for delay in self.every if delay.cause is cause)

    @cached_property
    def waits(self) -> list[Wait]:
        """The calls that blocked Python: operators that return when their device op has ended, and synchronisation."""
        graph, blocking = self._graph, syncs(self._trace)
        waits = [
            Wait(placed.op.start_ns, placed.op.end_ns, node.line, node.function, f"`{node.name}`", node.lane)
            for placed, node in zip(graph.placed, graph.nodes, strict=True)
            if node.n_ops and placed.op.end_ns >= node.end_ns
        ]
        inside = covered_ns(
            union(*(np.array([getattr(wait, at) for wait in waits], np.int64) for at in ("start_ns", "end_ns"))),
            blocking.start_ns,
            blocking.end_ns,
        )
        outside = np.flatnonzero((inside == 0) & ~blocking.after_cell & ~blocking.at_edge).tolist()
        waits += [
            Wait(
                *(int(blocking.start_ns[row]), int(blocking.end_ns[row]), int(blocking.line[row])),
                *("", f"`{blocking.asker_name(row)}`", ""),
            )
            for row in outside
        ]
        return sorted(waits, key=lambda wait: wait.start_ns)

    @cached_property
    def _wait_times(self) -> tuple[Int64, Int64]:
        starts, ends = ([getattr(wait, at) for wait in self.waits] for at in ("start_ns", "end_ns"))
        return np.array(starts, np.int64), np.array(ends, np.int64)

    @cached_property
    def _before(self) -> list[set[int]]:
        """Of each node those of its lane and its streams that ran before it, and those that its stream waited for."""
        graph, ops = self._graph, self._trace.ops
        before: list[set[int]] = [set() for _ in graph.nodes]
        last: dict[object, int] = {}
        for i in sorted(range(len(graph.nodes)), key=lambda i: (graph.nodes[i].start_ns, i)):
            rows = graph.placed[i].rows
            for queue in {graph.lane[i], *((int(ops.device[row]), int(ops.stream[row])) for row in rows[:1])}:
                before[i] |= {last[queue]} if queue in last else set()
                last[queue] = i
        node_of = {row: i for i, placed in enumerate(graph.placed) for row in placed.rows}
        pairs, _ = stream_waits(self._trace, Queues(self._trace), heads(self._trace))
        for row, source in pairs.tolist():
            if row in node_of and source in node_of:
                before[node_of[row]].add(node_of[source])
        return before

    def _of_node(self, number: int, ready_ns: int) -> Iterator[Delay]:
        node = self._graph.nodes[number]
        queued_ns = min(self._queued_ns(number), node.start_ns)
        if queued_ns > ready_ns:
            yield self._python(number, ready_ns, queued_ns)
        late_ns = node.start_ns - max(ready_ns, queued_ns)
        if late_ns > 0:
            yield Delay(number, late_ns, Cause.LATENCY)

    def _queued_ns(self, number: int) -> int:
        """When Python launched the first device op of a node; without any, when it called it."""
        rows = self._graph.placed[number].rows
        launch = int(self._trace.ops.launch[rows[0]]) if rows else NONE
        called_ns = self._graph.nodes[number].called_ns
        return called_ns if launch == NONE else max(called_ns, int(self._trace.calls.start_ns[launch]))

    def _python(self, number: int, ready_ns: int, queued_ns: int) -> Delay:
        """What Python did until it queued a node: it waited, where that took most of the time."""
        called_ns = self._graph.nodes[number].called_ns
        start_ns, end_ns = self._wait_times
        near = np.flatnonzero((end_ns > ready_ns) & (start_ns < min(called_ns, queued_ns)))
        waits = [self.waits[i] for i in near.tolist()]
        # without a wait Python would have come so much earlier
        waited_ns = sum(wait.end_ns - wait.start_ns for wait in waits)
        if waited_ns < _MOST_OF * (queued_ns - ready_ns):
            return Delay(number, queued_ns - ready_ns, Cause.PYTHON)
        longest = max(waits, key=lambda wait: wait.end_ns - wait.start_ns)
        return Delay(number, queued_ns - ready_ns, Cause.WAIT, longest)
