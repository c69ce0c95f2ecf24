"""The critical path of a run: for each instant the one thing that everything after it waited for.

From the instant that came last one goes back along the edge that held each. The parts tile the run, so their lengths
add up to it. To remove a part gains at most its length: another path may be nearly as long.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from perfmagic.analysis.replay.device_ops import UNEXPLAINED_NS
from perfmagic.analysis.replay.graph import Edge, Graph, Links, Node
from perfmagic.analysis.rows import Rows, names_at
from perfmagic.numerics.longest import NO_NODE
from perfmagic.trace.columns import NO_LINE, NONE, Bool, CallKind, Int8, Int32, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes


class Held(enum.IntEnum):
    """What a part of the path is; in pictures in this order."""

    PYTHON = 0
    CALL = 1
    LAUNCH = 2
    COMPUTE = 3
    COMMUNICATION = 4
    COPY = 5
    MEMSET = 6
    STREAM = 7
    OTHER_STREAM = 8
    SYNC = 9
    ROOM = 10
    OTHER_THREAD = 11
    UNEXPLAINED = 12
    BEFORE = 13


HELD_WORDS = {
    Held.PYTHON: "Python",
    Held.CALL: "calls into the driver",
    Held.LAUNCH: "launch latency",
    Held.COMPUTE: "compute",
    Held.COMMUNICATION: "communication",
    Held.COPY: "copies",
    Held.MEMSET: "memsets",
    Held.STREAM: "gaps between queued ops",
    Held.OTHER_STREAM: "waits for another stream",
    Held.SYNC: "returns from waits",
    Held.ROOM: "a full queue",
    Held.OTHER_THREAD: "another thread",
    Held.UNEXPLAINED: "unexplained",
    Held.BEFORE: "before the record",
}
_OF_CLASS = {
    OpClass.MATRIX: Held.COMPUTE,
    OpClass.COMPUTE: Held.COMPUTE,
    OpClass.COMMUNICATION: Held.COMMUNICATION,
    OpClass.HTOD: Held.COPY,
    OpClass.DTOH: Held.COPY,
    OpClass.DTOD: Held.COPY,
    OpClass.PTOP: Held.COPY,
    OpClass.MEMSET: Held.MEMSET,
}
_HOST_EDGES = {
    Edge.CALL: Held.CALL,
    Edge.SYNC: Held.SYNC,
    Edge.OTHER_THREAD: Held.OTHER_THREAD,
    Edge.ROOM: Held.ROOM,
}
_OP_EDGES = {Edge.LAUNCH: Held.LAUNCH, Edge.CALL: Held.CALL, Edge.STREAM: Held.STREAM}
_JOIN_EDGES = {Edge.LAUNCH: Held.LAUNCH, Edge.CALL: Held.CALL, Edge.SYNC: Held.SYNC}


@dataclass(frozen=True)
class PathPart:
    """A part of the critical path, times in ns.

    held: what it is, in words.  name: of the op or the call; of Python the call that ends it.  line: of the cell, 0 for
    none.  device, stream: None on the host.
    """

    start_ns: int
    end_ns: int
    held: str
    name: str
    line: int
    device: int | None
    stream: int | None

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """The parts of a critical path, first to last; arrays of equal length, times in ns.

    held: Held.  op: row of trace.ops of what ran or was late, NONE on the host.  call: row of trace.calls of what the
    host did, NONE on devices.  line: of the cell, NO_LINE where none is known.
    """

    trace: Trace
    start_ns: Int64
    end_ns: Int64
    held: Int8
    op: Int64
    call: Int64
    line: Int32

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def length_ns(self) -> Int64:
        return self.end_ns - self.start_ns

    @property
    def run_ns(self) -> int:
        """How long the run took: the sum of all parts."""
        return int(self.length_ns.sum())

    @property
    def by_kind_ns(self) -> dict[Held, int]:
        """The length of the path by what held it, the longest first, kinds without length left out."""
        sums = np.zeros(len(Held), np.int64)
        np.add.at(sums, self.held, self.length_ns)
        found = {kind: int(sums[kind]) for kind in Held if sums[kind]}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def rows(self) -> Rows[PathPart]:
        """The parts one by one, by start."""
        ops, calls, names = self.trace.ops, self.trace.calls, self.trace.names
        is_op, is_call = self.op != NONE, self.call != NONE
        name = np.full(len(self), NONE, np.int64)
        name[is_op] = ops.name[self.op[is_op]]
        name[is_call] = calls.name[self.call[is_call]]
        device, stream = np.full(len(self), None, object), np.full(len(self), None, object)
        device[is_op], stream[is_op] = ops.device[self.op[is_op]], ops.stream[self.op[is_op]]
        columns = {
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "held": names_at(tuple(HELD_WORDS.values()), self.held.astype(np.int64)),
            "name": names_at((*names, ""), np.where(name == NONE, len(names), name)),
            "line": self.line,
            "device": device,
            "stream": stream,
            "length_ns": self.length_ns,
        }
        return Rows.of_columns(columns, PathPart)


def run_begins_ns(graph: Graph) -> int:
    """When the run begins: with the cell, of a file with the first instant that the graph has."""
    meta = graph.trace.meta
    if meta.returned_ns is not None or not len(graph):
        return meta.start_ns
    first = int(np.argmin(graph.time_ns - graph.length_ns))
    return int(graph.time_ns[first] - graph.length_ns[first])


class Instants(Protocol):
    """What a path is walked back on: the graph of a trace, or that of all ranks. See Graph for the columns."""

    @property
    def first(self) -> Links: ...

    @property
    def second(self) -> Links: ...

    @property
    def node(self) -> Int8: ...

    @property
    def row(self) -> Int64: ...

    @property
    def length_ns(self) -> Int64: ...

    @property
    def unexplained_ns(self) -> Int64: ...


@dataclass(frozen=True, eq=False)
class Tiles:
    """The parts of a path as the rows of its instants have them; see CriticalPath for the columns.

    node: the instant that each part leads to.
    """

    node: Int64
    start_ns: Int64
    end_ns: Int64
    held: Int8
    op: Int64
    call: Int64


def critical_path(graph: Graph, times_ns: Int64 | None = None, comm_names: str | None = None) -> CriticalPath:
    """What held the run, from its beginning to the instant that came last.

    times_ns: of the graph's instants, as from graph.replayed_ns(); the recorded ones by default.
    comm_names: as in perfmagic.trace.names.op_classes.
    """
    times = graph.time_ns if times_ns is None else times_ns
    trace = graph.trace
    tiles = tiles_back(
        graph, times, op_classes(trace, comm_names), trace.calls.kind == CallKind.SYNC, run_begins_ns(graph)
    )
    op, call = tiles.op, tiles.call
    line = np.full(len(op), NO_LINE, np.int32)
    line[op != NONE] = trace.ops.line[op[op != NONE]]
    line[call != NONE] = trace.calls.line[call[call != NONE]]
    return CriticalPath(trace, tiles.start_ns, tiles.end_ns, tiles.held, op, call, line)


def tiles_back(on: Instants, times: Int64, classes: Int8, syncs: Bool, begins_ns: int) -> Tiles:
    """What held a run from begins_ns to the instant that came last.

    times: of the instants.  classes: of the ops, syncs: which calls wait; by the rows of the instants.
    """
    node, start_ns, end_ns, held, op, call = _parts(on, times, classes, syncs, begins_ns)
    reached_ns = np.maximum.accumulate(end_ns) if len(end_ns) else end_ns
    before_ns = np.concatenate(([begins_ns], reached_ns[:-1]))[: len(end_ns)]
    kept = end_ns > np.maximum(start_ns, before_ns)
    node, end_ns, held, op, call = node[kept], end_ns[kept], held[kept], op[kept], call[kept]
    start_ns = np.concatenate(([begins_ns], end_ns[:-1]))[: len(end_ns)]  # each begins where the one before ended
    return Tiles(node, start_ns, end_ns, held.astype(np.int8), op, call)


def _parts(on: Instants, times: Int64, classes: Int8, syncs: Bool, begins_ns: int) -> tuple[Int64, ...]:
    """Instant, start, end, Held, op and call of what lies along the path: of an op its wait, its delay and itself."""
    steps = np.array(_backwards(on, times)[::-1], np.int64).reshape(-1, 4)
    node, before, kind, lag_ns = steps.T
    end_ns, row, what = times[node], on.row[node], on.node[node]
    start_ns = np.where(before != NO_NODE, times[before], begins_ns)
    is_op, is_join = what == Node.OP_END, what == Node.JOIN
    op = np.where(is_op, row, NONE)
    began_ns = end_ns - on.length_ns[node]
    late_ns = np.where(is_op, on.unexplained_ns[op], 0) if len(classes) else np.zeros(len(op), np.int64)
    late_ns = np.where(late_ns > UNEXPLAINED_NS, np.minimum(late_ns, np.maximum(0, began_ns - start_ns)), 0)
    waited = _translated(_OP_EDGES, Held.OTHER_STREAM)[kind]
    waited[before == NO_NODE] = Held.BEFORE
    joined = _translated(_JOIN_EDGES, Held.OTHER_STREAM)[kind]
    joined[(lag_ns > UNEXPLAINED_NS) & np.isin(kind, (Edge.LAUNCH, Edge.WAIT))] = Held.UNEXPLAINED
    on_host = _translated(_HOST_EDGES, Held.PYTHON)[kind]
    call = np.where(is_op | is_join, NONE, row)
    if len(syncs):
        on_host[(on_host == Held.CALL) & syncs[call]] = Held.SYNC
    held = np.where(is_op, waited, np.where(is_join, joined, on_host))
    of_class = _translated(_OF_CLASS, Held.COMPUTE)
    runs = of_class[classes[op]] if len(classes) else held
    unexplained = np.full(len(node), Held.UNEXPLAINED, np.int64)
    first_end_ns = np.where(is_op, began_ns - late_ns, end_ns)
    # three parts a step, of which those that are no op's have the first only
    columns = (
        (node, node, node),
        (start_ns, first_end_ns, np.where(is_op, began_ns, end_ns)),
        (first_end_ns, np.where(is_op, began_ns, end_ns), end_ns),
        (held, unexplained, runs),
        (op, op, op),
        (call, call, call),
    )
    return tuple(np.column_stack(column).ravel() for column in columns)


def _translated(known: Mapping[Any, Held], other: Held) -> Int64:
    """For each number of an enumeration what it stands for."""
    found = np.full(max(len(Edge), len(OpClass)), other, np.int64)
    for number, held in known.items():
        found[number] = held
    return found


def _backwards(on: Instants, times: Int64) -> list[tuple[int, int, int, int]]:
    """(instant, the one that held it, Edge, lag in ns) from the instant that came last to one that waits for none."""
    if not len(times):
        return []
    node, at = int(np.argmax(times)), times.tolist()
    sides = [(x.node.tolist(), x.lag_ns.tolist(), x.kind.tolist()) for x in (on.second, on.first)]
    steps = []
    while node != NO_NODE:
        for nodes, lags, kinds in sides:
            before = nodes[node]
            if before != NO_NODE and at[before] + lags[node] == at[node]:
                steps.append((node, before, kinds[node], lags[node]))
                break
        else:
            before = NO_NODE
            steps.append((node, before, int(Edge.ORIGIN), 0))
        node = before
    return steps
