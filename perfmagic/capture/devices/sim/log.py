"""What the simulated device did, as the columns of a trace.

Rows come from every thread that launches and from every stream's thread. They are appended to plain lists, whose append
is one step of the interpreter, so that no lock is held where an interrupt could strike. Nothing is kept unless asked.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmagic.capture.devices.sim.clock import now_ns
from perfmagic.trace.backward import forward_rows
from perfmagic.trace.columns import NONE, CallKind, HostKind, OpKind
from perfmagic.trace.model import Collective

if TYPE_CHECKING:
    from perfmagic.capture.devices.sim.blocks import Block, BlockLog, Held

LIMIT_OPS = 300_000  # Source: docs/traces.md, "Limits"
_ROWS_PER_OP = 2  # calls and operators kept for each device op: a blocking copy has two calls

_OPS = ("start_ns", "end_ns", "kind", "device", "stream", "name", "correlation", "size_bytes")
_CALLS = ("start_ns", "end_ns", "kind", "name", "thread", "correlation")
_HOST_OPS = ("start_ns", "end_ns", "kind", "name", "thread")
_WAITS = ("at_ns", "correlation", "device", "stream", "on_stream", "on_correlation", "on_device")
_HOST_WAITS = ("at_ns", "device", "stream", "on_correlation")
_COUNTERS = ("at_ns", "series", "device", "value")

Columns = dict[str, Any]


@dataclass(frozen=True)
class SimRecords:
    """What was recorded since a mark: columns by name as perfmagic.trace.model.make_trace takes them, times in unix ns.

    races: (correlation, correlation of the writer) of ops that used data another stream writes, with no wait between.
    collectives: what the column of that name in ops counts; without operations between ranks there is no such column.
    blocks: see BlockLog.since; empty where memory was not recorded.
    dropped: rows beyond the limit, counted and not kept.  full_ns: when the first of them began, None for none.
    """

    names: tuple[str, ...]
    ops: Columns
    calls: Columns
    host_ops: Columns
    waits: Columns
    counters: Columns
    host_waits: Columns
    races: list[tuple[int, int]] = field(default_factory=list)
    dropped: int = 0
    full_ns: int | None = None
    collectives: tuple[Collective, ...] = ()
    blocks: Columns = field(default_factory=dict)


@dataclass(frozen=True)
class _Mark:
    ops: int
    calls: int
    host_ops: int
    waits: int
    counters: int
    host_waits: int
    races: int
    dropped: int
    collectives: int
    nodes: int
    blocks: int = 0


class SimLog:
    """The log. Rows are kept only between start() and stop(), which nest; they stay readable until the next start().

    depth: how many recordings are open.
    limit: device ops kept after a mark; what comes later is counted (SimRecords.dropped).
    """

    def __init__(self, limit: int = LIMIT_OPS) -> None:
        self.limit = limit
        self.recording = False
        self.memories: list[Any] = []  # of the devices: they note what happens, and write it here when asked to
        self._with_memory = False
        self._open: list[object] = []  # who is recording
        self.clear()

    def clear(self) -> None:
        """Forget all rows and marks."""
        self._ops: list[tuple[Any, ...]] = []
        self._calls: list[tuple[Any, ...]] = []
        self._host_ops: list[tuple[Any, ...]] = []
        self._waits: list[tuple[Any, ...]] = []
        self._counters: list[tuple[Any, ...]] = []
        self._host_waits: list[tuple[Any, ...]] = []
        self._races: list[tuple[int, int]] = []
        self._dropped: list[int] = []  # when each of them began
        self._collectives: list[tuple[int, Collective, int]] = []
        self._ledger: BlockLog | None = None
        self._given_up: set[int] = set()
        self._nodes: list[tuple[int, int, int, int, int]] = []
        self._marks: list[_Mark] = []
        self._room(0, 0, 0)

    @property
    def depth(self) -> int:
        return len(self._open)

    def start(self, by: object = None, *, memory: bool = False) -> None:
        """Record from now on, with memory if asked to. A start while recording only deepens the nesting.

        by: who records, for stop().
        """
        if not self._open:
            self.clear()
            self._with_memory = False
        self._open.append(by)
        self._with_memory = self._with_memory or memory
        self.recording = True
        if memory and self._ledger is None:
            from perfmagic.capture.devices.sim.blocks import BlockLog  # needs torch, which this module does not

            self._ledger = BlockLog()
            for one in self.memories:
                one.record(self._ledger)

    def stop(self, by: object = None) -> None:
        """Undo the start() of the same caller; harmless where there was none."""
        if by in self._open:
            self._open.remove(by)
        self.recording = bool(self._open)

    def mark(self) -> int:
        """A point to read from later."""
        for memory in self.memories:
            memory.settle()
        ledger = 0 if self._ledger is None else self._ledger.mark()
        at = replace(_Mark(*(len(rows) for rows in self._tables())), blocks=ledger)
        self._room(at.ops, at.calls, at.host_ops)
        self._marks.append(at)
        for memory in self.memories:
            memory.tell()
        return len(self._marks) - 1

    def since(self, mark: int) -> SimRecords:
        """All rows added after mark() returned that number. Raises IndexError for a mark of an earlier recording."""
        for memory in self.memories:
            memory.settle()
        at = self._marks[mark]
        names: dict[str, int] = {}
        ops = _columns(_OPS, self._ops[at.ops :], names)
        calls = _columns(_CALLS, self._calls[at.calls :], names)
        calls["kind"][np.isin(calls["correlation"], list(self._given_up))] = CallKind.OTHER
        host_ops = _columns(_HOST_OPS, self._host_ops[at.host_ops :], names)
        waits = _columns(_WAITS, self._waits[at.waits :], names)
        counters = _columns(_COUNTERS, self._counters[at.counters :], names)
        host_waits = _columns(_HOST_WAITS, self._host_waits[at.host_waits :], names)
        races = self._races[at.races :]
        dropped = self._dropped[at.dropped :]
        full_ns = min(dropped, default=None)
        collectives = _add_collectives(ops, self._collectives[at.collectives :])
        blocks = {} if self._ledger is None else self._ledger.since(at.blocks)
        for key in ("node", "free_node"):
            blocks[key] = [names.setdefault(name, len(names)) if name else NONE for name in blocks.get(key, ())]
        _add_forward(ops, self._nodes[at.nodes :])
        return SimRecords(
            *(
                tuple(names),
                ops,
                calls,
                host_ops,
                waits,
                counters,
                host_waits,
                races,
                len(dropped),
                full_ns,
                collectives,
            ),
            blocks=blocks,
        )

    def add_op(
        self,
        start_ns: int,
        end_ns: int,
        kind: OpKind,
        device: int,
        stream: int,
        name: str,
        correlation: int,
        size_bytes: int,
        *,
        raced: int,
    ) -> None:
        """One device op, from the stream's thread.  raced: the launch whose data it used without a wait, 0 for none."""
        if len(self._ops) >= self._ops_end:
            self._dropped.append(start_ns)
            return
        self._ops.append((start_ns, end_ns, int(kind), device, stream, name, correlation, size_bytes))
        if raced:
            self._races.append((correlation, raced))

    def add_collective(self, correlation: int, what: Collective, sequence: int) -> None:
        """The launch of that number is an operation between ranks.  sequence: of those of its group."""
        if len(self._collectives) < self._ops_end:
            self._collectives.append((correlation, what, sequence))

    def give_up(self, correlation: int) -> None:
        """The launch of that number was an operation between ranks that never came about: its op is not missing."""
        self._given_up.add(correlation)

    def add_node(self, correlation: int, at_ns: int, made: int, running: int) -> None:
        """Of a launch the numbers of two autograd nodes: the one that was made last, and the one that runs.

        running: -1 outside of a backward, and for a node without a number.
        """
        if len(self._nodes) < self._ops_end:
            self._nodes.append((correlation, at_ns, threading.get_native_id(), made, running))

    def add_call(self, start_ns: int, end_ns: int, kind: CallKind, name: str, correlation: int) -> None:
        """One call of the host into the device, from the thread that made it."""
        if len(self._calls) >= self._calls_end:
            self._dropped.append(start_ns)
            return
        self._calls.append((start_ns, end_ns, int(kind), name, threading.get_native_id(), correlation))

    def add_host_op(self, start_ns: int, end_ns: int, name: str) -> None:
        """One operator, from call to return."""
        if len(self._host_ops) >= self._host_ops_end:
            self._dropped.append(start_ns)
            return
        self._host_ops.append((start_ns, end_ns, int(HostKind.OP), name, threading.get_native_id()))

    def add_wait(
        self,
        at_ns: int,
        correlation: int,
        device: int,
        stream: int,
        on_stream: int,
        on_correlation: int,
        on_device: int,
    ) -> None:
        """stream goes on only after what on_stream, of on_device, had been given up to on_correlation."""
        if len(self._waits) < self._calls_end:
            self._waits.append((at_ns, correlation, device, stream, on_stream, on_correlation, on_device))
        else:
            self._dropped.append(at_ns)

    def add_host_wait(self, at_ns: int, device: int, stream: int, on_correlation: int) -> None:
        """The call that began at_ns returned only after what a stream had been given up to on_correlation."""
        if len(self._host_waits) < self._calls_end:
            self._host_waits.append((at_ns, device, stream, on_correlation))
        else:
            self._dropped.append(at_ns)

    def add_memory(self, at_ns: int, device: int, allocated: int, reserved: int) -> None:
        """What a device holds from then on, in bytes; under the names of Kineto's counters."""
        if not self.recording or not self._with_memory:
            return
        if len(self._counters) >= self._host_ops_end:
            self._dropped.append(at_ns)
            return
        self._counters.append((at_ns, "Total Allocated", device, allocated))
        self._counters.append((at_ns, "Total Reserved", device, reserved))

    def noted(self, held: Held, device: int) -> Block | None:
        """The row of a block that is allocated now; None where memory is not recorded."""
        ledger = self._ledger
        if ledger is None or not self.recording:
            return None
        if ledger.full:
            self._dropped.append(now_ns())
            return None
        return ledger.block(held, device)

    def _tables(self) -> tuple[list[Any], ...]:
        return (
            self._ops,
            self._calls,
            self._host_ops,
            self._waits,
            self._counters,
            self._host_waits,
            self._races,
            self._dropped,
            self._collectives,
            self._nodes,
        )

    def _room(self, ops: int, calls: int, host_ops: int) -> None:
        self._ops_end = ops + self.limit
        self._calls_end = calls + _ROWS_PER_OP * self.limit
        self._host_ops_end = host_ops + _ROWS_PER_OP * self.limit


class SimRecording:
    """The rows of one recording, as a resource (perfmagic.capture.owner)."""

    def __init__(self, log: SimLog, *, memory: bool) -> None:
        self._log, self._memory = log, memory
        self._mark = 0

    def take(self) -> None:
        self._log.start(self, memory=self._memory)
        self._mark = self._log.mark()

    def read(self) -> SimRecords:
        """What was recorded so far. Raises IndexError after give_back(), once another recording has begun."""
        return self._log.since(self._mark)

    def give_back(self) -> None:
        self._log.stop(self)


def _columns(keys: tuple[str, ...], rows: list[tuple[Any, ...]], names: dict[str, int]) -> Columns:
    """Rows as one array a key, names interned."""
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(keys)
    columns: Columns = {}
    for key, values in zip(keys, cells, strict=True):
        plain = [names.setdefault(name, len(names)) for name in values] if key in ("name", "series") else values
        columns[key] = np.asarray(plain, dtype=np.float64 if key == "value" else np.int64)
    return columns


def _add_collectives(ops: Columns, noted: list[tuple[int, Collective, int]]) -> tuple[Collective, ...]:
    """Give ops the columns of what is known of operations between ranks, where there were any."""
    if not noted:
        return ()
    known: dict[Collective, int] = {}
    of = {correlation: (known.setdefault(what, len(known)), sequence) for correlation, what, sequence in noted}
    rows = [of.get(correlation, (NONE, NONE)) for correlation in ops["correlation"].tolist()]
    for place, key in enumerate(("collective", "sequence")):
        ops[key] = np.asarray([row[place] for row in rows], dtype=np.int64)
    return tuple(known)


def _add_forward(ops: Columns, nodes: list[tuple[int, int, int, int, int]]) -> None:
    """Give ops of a backward the instant and the thread of their forward: the first launch after its node was made."""
    if not any(running != NONE for *_, running in nodes):
        return
    correlation, at_ns, thread, made, running = (np.array(column, np.int64) for column in zip(*nodes, strict=True))
    _, first = np.unique(np.column_stack((thread, made)), axis=0, return_index=True)  # in the order of launches
    backward = np.flatnonzero(running != NONE)
    found = forward_rows(made[first], at_ns[first], running[backward], at_ns[backward])
    has = found != NONE
    of = dict(zip(correlation[backward[has]].tolist(), first[found[has]].tolist(), strict=True))
    rows = [of.get(one, NONE) for one in ops["correlation"].tolist()]
    ops["forward_ns"] = np.array([NONE if row == NONE else at_ns[row] for row in rows], np.int64)
    ops["forward_thread"] = np.array([0 if row == NONE else thread[row] for row in rows], np.int64)


LOG = SimLog()
