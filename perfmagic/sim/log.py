"""What the simulated device did, as columns of which capture makes a trace.

Rows come from every thread that launches and from every stream's thread. They are appended to plain lists. An append is
one step of the interpreter, so no lock is held where an interrupt could strike. Nothing is kept unless asked.
Rows are tuples of numbers and texts, which Python's collector skips: objects would start it once in three recordings.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfmagic.base.clock import HOST, VIRTUAL, now_ns, thread_reader
from perfmagic.base.kinds import NONE, CallKind, Hazard, HostKind, OpKind, PredictedFor
from perfmagic.base.work import Inputs

if TYPE_CHECKING:
    from perfmagic.sim.beside import BesideRecords
    from perfmagic.sim.blocks import Block, BlockLog, Held

LIMIT_OPS = 300_000  # Source: docs/traces.md, "Limits"
_ROWS_PER_OP = 2  # calls and operators kept for each device op: a blocking copy has two calls

_OPS = ("start_ns", "end_ns", "kind", "device", "stream", "name", "correlation", "size_bytes")
_CALLS = ("start_ns", "end_ns", "kind", "name", "thread", "correlation")
_HOST_OPS = ("start_ns", "end_ns", "kind", "name", "thread", "inputs")
_WAITS = ("at_ns", "correlation", "device", "stream", "on_stream", "on_correlation", "on_device")
_HOST_WAITS = ("at_ns", "device", "stream", "on_correlation")
_OP, _LAUNCH = int(HostKind.OP), int(CallKind.LAUNCH)
_COUNTERS = ("at_ns", "series", "device", "value")
_NODES = ("correlation", "at_ns", "thread", "made", "running")

Columns = dict[str, Any]


@dataclass(frozen=True, eq=False)
class CallInputs:
    """The inputs of a call: `read`, and the JSON texts of their shapes, types and plain values.

    values: "" for operators whose values decide no work.
    """

    read: Inputs
    shapes: str
    dtypes: str
    values: str


class SimCollective(NamedTuple):
    """An operation between ranks: its kind ("allreduce"), elements put in and got out, their type, and its group.

    ranks: of the group, in the whole job.
    """

    name: str
    in_elements: int
    out_elements: int
    dtype: str
    group_size: int
    group: str
    ranks: tuple[int, ...]


class SimRace(NamedTuple):
    """Two ops of different streams that use the same memory, with no wait between.

    later, earlier: their correlations, in the order of their launches.  kind: what each does with the memory.
    """

    later: int
    earlier: int
    kind: Hazard


@dataclass(frozen=True)
class SimRecords:
    """Rows added since a mark. Each table is a dict of columns; times are unix ns, and names are rows of `names`.

    collectives: what the column of that name in ops counts; without operations between ranks there is no such column.
    blocks: see BlockLog.since; empty where memory was not recorded.
    nodes: of each launch, where autograd is at work: the autograd node that its thread `made` last, and the `running`
    one, by their numbers; NONE outside of a backward pass, and for a node without a number.
    paced: name, asked_ns and needed_ns of each op that had a pace.  pace: in words.  pace_json: "" for several.
    predicted: the model that gave the times, None for a pace.
    given: what was left out, and what Python got instead of values, each as (kind, number): see add_given.
    dropped: rows beyond the limit, counted and not kept.  full_ns: when the first of them began, None for none.
    limit_ops: device ops that are kept.
    beside: what the same run does on further GPUs.
    inputs: of operators, each once.  input_rows: of each row of host_ops its row there, NONE where none was recorded.
    """

    names: tuple[str, ...]
    ops: Columns
    calls: Columns
    host_ops: Columns
    waits: Columns
    counters: Columns
    host_waits: Columns
    races: list[SimRace]
    collectives: tuple[SimCollective, ...]
    blocks: Columns
    nodes: Columns
    paced: list[tuple[str, int, int]]
    given: list[tuple[str, float]]
    dropped: int
    full_ns: int | None
    limit_ops: int
    pace: str = ""
    pace_json: str = ""
    predicted: PredictedFor | None = None
    beside: tuple[BesideRecords, ...] = ()
    inputs: tuple[CallInputs, ...] = ()
    input_rows: Any = ()


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
    paced: int
    given: int
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
        self.with_inputs = False  # of operators: always on a virtual clock, where that costs no time
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
        self._races: list[SimRace] = []
        self._dropped: list[int] = []  # when each of them began
        self._collectives: list[tuple[int, SimCollective, int]] = []
        self._ledger: BlockLog | None = None
        self._given_up: set[int] = set()
        self._nodes: list[tuple[int, ...]] = []
        self._inputs: defaultdict[CallInputs, int] = defaultdict(itertools.count().__next__)
        self._paced: list[tuple[str, int, int]] = []
        self._given: list[tuple[str, float]] = []
        self._marks: list[_Mark] = []
        self._set_ends(0, 0, 0)

    @property
    def depth(self) -> int:
        return len(self._open)

    def start(self, by: object = None, *, memory: bool = False, inputs: bool = False) -> None:
        """Record from now on, with what was asked for. A start while recording only deepens the nesting.

        by: who records, for stop().
        """
        if not self._open:
            self.clear()
            HOST.measure(HOST.measured)  # an interrupt may have left it standing
            self._with_memory, self.with_inputs = False, bool(VIRTUAL)
        self._open.append(by)
        self.with_inputs = self.with_inputs or inputs
        self._with_memory = self._with_memory or memory
        self.recording = True
        if memory and self._ledger is None:
            from perfmagic.sim.blocks import BlockLog  # needs torch, which this module does not

            self._ledger = BlockLog()
            for device_memory in self.memories:
                device_memory.record(self._ledger)

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
        self._set_ends(at.ops, at.calls, at.host_ops)
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
        # by launch: threads of streams, and answers of other ranks, add them in an order that changes
        ops = _columns(_OPS, sorted(self._ops[at.ops :], key=itemgetter(_OPS.index("correlation"))), names)
        calls = _columns(_CALLS, self._calls[at.calls :], names)
        calls["kind"][np.isin(calls["correlation"], list(self._given_up))] = CallKind.OTHER
        inputs: dict[int, int] = {}
        # a row is added at the return: reversed, an operator stands before one it called that took all of its time
        host_ops = _columns(_HOST_OPS, self._host_ops[at.host_ops :][::-1], names, inputs)
        all_inputs = list(self._inputs)
        waits = _columns(_WAITS, self._waits[at.waits :], names)
        counters = _columns(_COUNTERS, self._counters[at.counters :], names)
        host_waits = _columns(_HOST_WAITS, self._host_waits[at.host_waits :], names)
        dropped = self._dropped[at.dropped :]
        collectives = _add_collectives(ops, self._collectives[at.collectives :])
        blocks = {} if self._ledger is None else self._ledger.since(at.blocks)
        for key in ("node", "free_node"):
            blocks[key] = [names.setdefault(name, len(names)) if name else NONE for name in blocks.get(key, ())]
        return SimRecords(
            tuple(names),
            ops,
            calls,
            host_ops,
            waits,
            counters,
            host_waits,
            self._races[at.races :],
            collectives,
            blocks,
            _columns(_NODES, self._nodes[at.nodes :], names),
            self._paced[at.paced :],
            self._given[at.given :],
            dropped=len(dropped),
            full_ns=min(dropped, default=None),
            limit_ops=self.limit,
            inputs=tuple(all_inputs[number] for number in inputs),
            input_rows=host_ops.pop("inputs"),
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
        raced: tuple[int, Hazard] | None,
    ) -> None:
        """One device op, from the stream's thread.  raced: see Job."""
        if len(self._ops) >= self._ops_end:
            self._dropped.append(start_ns)
            return
        self._ops.append((start_ns, end_ns, int(kind), device, stream, name, correlation, size_bytes))
        if raced:
            self._races.append(SimRace(correlation, *raced))

    def add_paced(self, name: str, asked_ns: int, needed_ns: int) -> None:
        """An op with a pace: the least time asked for, and the time that this host needed."""
        if len(self._paced) < self._ops_end:
            self._paced.append((name, asked_ns, needed_ns))

    def add_given(self, kind: str, number: float) -> None:
        """What a device without a GPU or without values leaves out.

        kind: "item", a read that device(item=…) answered; "copy", a copy to the host; "finite", a check for inf;
        "channels_last", a convolution that a model times as if its tensor had another layout.
        """
        if self.recording:
            self._given.append((kind, number))

    def add_collective(self, correlation: int, what: SimCollective, sequence: int) -> None:
        """A launch that is an operation between ranks.  sequence: its number among those of its group."""
        if len(self._collectives) < self._ops_end:
            self._collectives.append((correlation, what, sequence))

    def give_up(self, correlation: int) -> None:
        """Note a launch whose operation between ranks failed: its op is not missing."""
        self._given_up.add(correlation)

    def add_call(self, start_ns: int, end_ns: int, kind: CallKind, name: str, correlation: int) -> None:
        """One call of the host into the device, from the thread that made it."""
        if len(self._calls) >= self._calls_end:
            self._dropped.append(start_ns)
            return
        self._calls.append((start_ns, end_ns, int(kind), name, thread_reader()(), correlation))

    def add_launch(self, start_ns: int, end_ns: int, name: str, correlation: int, nodes: tuple[int, int]) -> None:
        """A call that launched.  nodes: of autograd, made last and running: see SimRecords."""
        thread = thread_reader()()
        if len(self._calls) < self._calls_end:
            self._calls.append((start_ns, end_ns, _LAUNCH, name, thread, correlation))
        else:
            self._dropped.append(start_ns)
        if len(self._nodes) < self._ops_end:
            self._nodes.append((correlation, start_ns, thread, *nodes))

    def add_host_op(
        self, start_ns: int, end_ns: int, name: str, inputs: CallInputs | None = None, thread: int | None = None
    ) -> None:
        """One operator, from call to return.  thread: None for the one that asks."""
        if len(self._host_ops) >= self._host_ops_end:
            self._dropped.append(start_ns)
            return
        thread = thread_reader()() if thread is None else thread
        number = None if inputs is None else self._inputs[inputs]
        self._host_ops.append((start_ns, end_ns, _OP, name, thread, number))

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
        """stream waits until on_stream, of on_device, has done its launches up to on_correlation."""
        if len(self._waits) < self._calls_end:
            self._waits.append((at_ns, correlation, device, stream, on_stream, on_correlation, on_device))
        else:
            self._dropped.append(at_ns)

    def add_host_wait(self, at_ns: int, device: int, stream: int, on_correlation: int) -> None:
        """The call that began at_ns returned only after a stream had done its launches up to on_correlation."""
        if len(self._host_waits) < self._calls_end:
            self._host_waits.append((at_ns, device, stream, on_correlation))
        else:
            self._dropped.append(at_ns)

    def add_memory(self, at_ns: int, device: int, allocated: int, reserved: int) -> None:
        """Bytes that a device holds from then on, under the names of Kineto's counters."""
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
            self._paced,
            self._given,
        )

    def _set_ends(self, ops: int, calls: int, host_ops: int) -> None:
        self._ops_end = ops + self.limit
        self._calls_end = calls + _ROWS_PER_OP * self.limit
        self._host_ops_end = host_ops + _ROWS_PER_OP * self.limit


def _columns(
    keys: tuple[str, ...], rows: list[tuple[Any, ...]], names: dict[str, int], inputs: dict[int, int] | None = None
) -> Columns:
    """One array for each key, with names and inputs as rows of those books."""
    books: dict[str, Any] = {"name": names, "series": names, "inputs": inputs}
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(keys)
    columns: Columns = {}
    for key, values in zip(keys, cells, strict=True):
        book = books.get(key)
        plain = values if book is None else [NONE if v is None else book.setdefault(v, len(book)) for v in values]
        columns[key] = np.asarray(plain, dtype=np.float64 if key == "value" else np.int64)
    return columns


def _add_collectives(ops: Columns, noted: list[tuple[int, SimCollective, int]]) -> tuple[SimCollective, ...]:
    """Add the columns `collective` and `sequence` to ops, where there were operations between ranks."""
    if not noted:
        return ()
    known: dict[SimCollective, int] = {}
    of = {correlation: (known.setdefault(what, len(known)), sequence) for correlation, what, sequence in noted}
    rows = [of.get(correlation, (NONE, NONE)) for correlation in ops["correlation"].tolist()]
    for place, key in enumerate(("collective", "sequence")):
        ops[key] = np.asarray([row[place] for row in rows], dtype=np.int64)
    return tuple(known)


LOG = SimLog()
