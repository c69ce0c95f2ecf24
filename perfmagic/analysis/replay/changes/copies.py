"""Changes of copies and communication: pinned memory, streams of their own, fewer waits, no exposed time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from perfmagic.analysis.replay.changes import change
from perfmagic.analysis.replay.device_ops import previous_of_stream
from perfmagic.analysis.replay.graph import Edge, Graph, Node
from perfmagic.analysis.timeline.activity import stream_numbers
from perfmagic.analysis.timeline.copies import pinned_bus
from perfmagic.base.language import phrase
from perfmagic.base.numerics.longest import NEVER, NO_NODE
from perfmagic.trace.columns import NONE, Bool, Int64, OpKind
from perfmagic.trace.names import OpClass, copy_direction, is_pageable, op_classes

SLOWER = 1.25  # of what overlaps with compute: the 90th percentile of kernels during communication was 1.13–1.24
SLOWER_PINNED = 1.15  # than pinned copies seen elsewhere in the trace
LEAST_BYTES = 1 << 10  # what is smaller goes with its launch, pinned or not
UNKNOWN_WAITS = phrase("the record does not say which stream waits for which, so nothing can be moved between them")


@dataclass(frozen=True)
class Pin(change.Change):
    """pin_memory() and non_blocking=True together.

    line: only copies that this line of the cell queued.  A pinned copy runs at the rate of pinned ones in this trace,
    else at that of the device's bus. At worst it takes 1.15 times as long as the former, or as long as it took.
    """

    line: int | None = None

    stage = change.Stage.CALLS

    @property
    def assumes(self) -> bool:
        return True

    @property
    def description(self) -> str:
        line = change.on_line(self.line)
        return phrase("pin the memory of the copies{line} and copy with non_blocking=True", line=line)

    def not_applicable(self, graph: Graph) -> str:
        if len(self.rows(graph)):
            return ""
        return phrase("no copy{line} is from pageable memory to the device", line=change.on_line(self.line))

    def rows(self, graph: Graph) -> Int64:
        """The copies, rows of trace.ops."""
        trace, ops = graph.trace, graph.trace.ops
        names = [is_pageable(name) and copy_direction(name) == OpClass.HTOD for name in trace.names]
        pageable = np.array(names, bool)[ops.name] & (ops.kind == OpKind.MEMCPY)
        rows = np.flatnonzero(pageable & ((ops.size_bytes > LEAST_BYTES) | (ops.size_bytes == NONE)))
        return change.queued_by(self.line, rows, ops.line)

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed, rows, usual = graph.copy(), self.rows(graph), graph.usual
        calls = graph.trace.ops.launch[rows]
        change.release(changed, calls[calls != NONE], usual.call_ns)
        change.release(changed, change.waits_for(graph, rows), 0)
        first = changed.first
        ends = graph.op_node[rows]
        # staging takes as long as the copy at most: before that the call did something else, as a first one does
        before_ns = np.where(first.kind[ends] == Edge.CALL, first.lag_ns[ends] - changed.length_ns[ends], 0)
        else_ns = np.maximum(0, before_ns - graph.length_ns[ends] - usual.call_ns - usual.launch_ns[rows])
        returns = graph.end_of[calls]
        known = (calls != NONE) & (returns != NO_NODE)
        first.lag_ns[returns[known]] += else_ns[known]
        # it begins a launch after its call began, and not after Python has staged its bytes
        alone = (first.node[ends] != NO_NODE) & (graph.node[np.maximum(first.node[ends], 0)] != Node.JOIN)
        ends, op = ends[alone], rows[alone]
        begins = graph.begin_of[graph.trace.ops.launch[op]]
        lag_ns = first.lag_ns[ends] - changed.length_ns[ends]
        first.node[ends], first.kind[ends] = begins, Edge.LAUNCH
        usual_ns = usual.call_ns + usual.launch_ns[op] + else_ns[alone]
        first.lag_ns[ends] = changed.length_ns[ends] + np.minimum(lag_ns, usual_ns)
        change.set_lengths(changed, rows, self._pinned_ns(graph, rows, best=best))
        changed.pinned = tuple(sorted({*graph.pinned, *rows.tolist()}))
        return changed

    def _pinned_ns(self, graph: Graph, rows: Int64, *, best: bool) -> Int64:
        """How long each copy takes from pinned memory, as long as recorded where that is unknown."""
        ops = graph.trace.ops
        length_ns = graph.length_ns[graph.op_node[rows]].copy()
        for device in np.unique(ops.device[rows]).tolist():
            bus = pinned_bus(graph.trace, device)
            if bus is None:
                continue
            known = (ops.device[rows] == device) & (ops.size_bytes[rows] != NONE)
            pinned_ns = (ops.size_bytes[rows[known]] / bus.bytes_per_s * 1e9).astype(np.int64)
            if not best:
                pinned_ns = (pinned_ns * SLOWER_PINNED).astype(np.int64) if bus.measured else length_ns[known]
            length_ns[known] = np.minimum(length_ns[known], pinned_ns)
        return length_ns


@dataclass(frozen=True)
class Without(change.Change):
    """Some copies left out, and Python's waits for them.  what: description.  copies: rows of trace.ops."""

    what: str
    copies: tuple[int, ...] = field(repr=False)

    stage = change.Stage.CALLS

    @property
    def description(self) -> str:
        return self.what

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed, rows = graph.copy(), np.array(self.copies, np.int64)
        calls = graph.trace.ops.launch[rows]
        change.release(changed, np.concatenate((calls[calls != NONE], change.waits_for(graph, rows))), 0)
        change.leave_out(changed, rows)
        return changed


@dataclass(frozen=True)
class OwnStream(change.Change):
    """Copies on streams of their own, one a direction, with the waits that keep the results right.

    line: only what this line queued.  The next op of the old stream waits for a copy to the device, and a copy from
    the device waits for the op before it. Beside compute they take up to 1.25 times as long.
    """

    line: int | None = None

    stage = change.Stage.STREAMS

    @property
    def assumes(self) -> bool:
        return True

    @property
    def description(self) -> str:
        return phrase("put the copies{line} on a stream of their own", line=change.on_line(self.line))

    def not_applicable(self, graph: Graph) -> str:
        if not len(self.rows(graph)):
            return phrase("there are no copies{line}", line=change.on_line(self.line))
        return "" if graph.waits_known else UNKNOWN_WAITS

    def rows(self, graph: Graph) -> Int64:
        """The copies, rows of trace.ops."""
        ops = graph.trace.ops
        launched = np.isin(op_classes(graph.trace), change.COPIES) & (ops.launch != NONE)
        return change.queued_by(self.line, np.flatnonzero(launched), ops.line)

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        rows, ops = self.rows(graph), graph.trace.ops
        numbers = stream_numbers(ops)
        moved = numbers.copy()
        classes = op_classes(graph.trace)
        # what goes there does not wait behind what comes back
        direction = np.searchsorted(np.sort(change.COPIES), classes[rows])
        moved[rows] = numbers.max(initial=0) + 1 + len(change.COPIES) * ops.device[rows] + direction
        old, new = previous_of_stream(graph.trace, numbers), previous_of_stream(graph.trace, moved)
        changed = graph.copy()
        changed.stream = graph.stream.astype(np.int64)
        changed.stream[rows] = int(ops.stream.max(initial=0)) + 1 + direction
        if not best:
            change.set_lengths(changed, rows, (changed.length_ns[graph.op_node[rows]] * SLOWER).astype(np.int64))
        self._relink(changed, np.flatnonzero(old != new), new)
        is_moved = np.zeros(len(ops), bool)
        is_moved[rows] = True
        brought = is_moved & (classes != OpClass.DTOH)  # others need what it brings
        needs = is_moved & (classes != OpClass.HTOD)  # it needs what others made
        pairs = [*_last_before(old, ~is_moved, brought), *_last_before(old, needs, ~is_moved)]
        waiting, on = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
        return _with_waits(changed, waiting, on)

    def _relink(self, changed: Graph, ops: Int64, previous: Int64) -> None:
        """Make some ops follow another one on their stream. Changes the graph."""
        ends, before = changed.op_node[ops], previous[ops]
        has = before != NONE
        second = changed.second
        second.node[ends] = np.where(has, changed.op_node[np.maximum(before, 0)], NO_NODE)
        second.lag_ns[ends] = np.where(has, changed.length_ns[ends] + changed.usual.stream_ns, 0)
        second.kind[ends] = Edge.STREAM
        alone = (second.node[ends] == NO_NODE) & (changed.first.node[ends] == NO_NODE)
        changed.first.lag_ns[ends[alone]] = changed.time_ns[ends[alone]]


@dataclass(frozen=True)
class NoWaits(change.Change):
    """No stream waits for another. Right only where no op needs what the other stream's op makes."""

    stage = change.Stage.WAITS

    @property
    def description(self) -> str:
        return phrase("let no stream wait for another")

    def not_applicable(self, graph: Graph) -> str:
        if not graph.waits:
            return phrase("no stream waits for another")
        return "" if graph.waits_known else UNKNOWN_WAITS

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed = graph.copy()
        joins = np.flatnonzero(graph.node == Node.JOIN)
        for links in (changed.first, changed.second):
            links.lag_ns[joins[links.kind[joins] == Edge.WAIT]] = NEVER // 4
        return changed


def _last_before(old: Int64, waiting: Bool, on: Bool) -> list[tuple[int, int]]:
    """Pairs (waiting op, the last op before it on its old stream that it waits for), each such last op once.

    old: the op before each on its stream.  waiting: which ops wait, on: which are waited for. Shapes of ops.
    """
    pairs = []
    after = np.full(len(old), NONE, np.int64)
    after[old[old != NONE]] = np.flatnonzero(old != NONE)
    for head in np.flatnonzero(old == NONE).tolist():
        at, last = head, NONE
        while at != NONE:
            if waiting[at] and last != NONE:
                pairs.append((at, last))
                last = NONE
            if on[at]:
                last = at
            at = int(after[at])
    return pairs


def _with_waits(graph: Graph, ops: Int64, sources: Int64) -> Graph:
    """A graph in which each of `ops` also waits for the op in `sources`; rows of trace.ops."""
    n, ends = len(graph), graph.op_node[ops]
    first = graph.first
    joins = n + np.arange(len(ops))
    lag_ns = np.where(first.node[ends] != NO_NODE, first.lag_ns[ends] - graph.length_ns[ends], first.lag_ns[ends])
    extended = first.extended(first.node[ends], lag_ns, first.kind[ends])
    extended.node[ends], extended.lag_ns[ends], extended.kind[ends] = joins, graph.length_ns[ends], Edge.WAIT
    second = graph.second.extended(
        graph.op_node[sources], np.full(len(ops), graph.usual.wait_ns, np.int64), np.full(len(ops), Edge.WAIT, np.int8)
    )
    return graph.with_joins(extended, second, graph.time_ns[ends])


@dataclass(frozen=True)
class Overlapped(change.Change):
    """All ops of some classes hidden behind compute, as if they took no time and waited for nothing: a bound.

    what: the ops, in words.  line: of one line of the cell, None for all.  device: of one device, None for all.
    comm_names: as in perfmagic.trace.names.op_classes.
    """

    what: str
    classes: tuple[OpClass, ...]
    line: int | None = None
    device: int | None = None
    comm_names: str | None = None
    stage = change.Stage.LENGTHS

    @property
    def at_most(self) -> bool:
        return True

    @property
    def description(self) -> str:
        line = change.on_line(self.line)
        return phrase("hide the {what}{line} behind compute", what=phrase(self.what), line=line)

    def not_applicable(self, graph: Graph) -> str:
        if len(self.rows(graph)):
            return ""
        return phrase("there is no time of {what}{line}", what=phrase(self.what), line=change.on_line(self.line))

    def rows(self, graph: Graph) -> Int64:
        """The ops, rows of trace.ops."""
        trace, ops = graph.trace, graph.trace.ops
        chosen = np.isin(op_classes(trace, self.comm_names), self.classes)
        if self.device is not None:
            chosen &= ops.device == self.device
        return change.queued_by(self.line, np.flatnonzero(chosen), ops.line)

    def apply(self, graph: Graph, *, best: bool) -> Graph:
        changed, rows = graph.copy(), self.rows(graph)
        change.take_no_time(changed, rows)
        ops = graph.trace.ops
        copies = rows[ops.kind[rows] == OpKind.MEMCPY]
        # nor does Python wait for a copy: what pinned memory gains lies within the bound
        change.release(changed, ops.launch[copies][ops.launch[copies] != NONE], graph.usual.call_ns)
        change.release(changed, change.waits_for(graph, copies), 0)
        return changed
