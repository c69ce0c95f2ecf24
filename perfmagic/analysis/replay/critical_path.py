"""The critical path of a run or a job: at each instant, the one thing that all later work waited for.

The path is traced back from the last instant, each time along the edge that determined it. The parts tile the run, so
their lengths add up to it. Removing a part gains at most its length: another path may be nearly as long. Where a
collective waits for its last rank, the path of a job continues in that rank.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from perfmagic.analysis import verdict
from perfmagic.analysis.replay.device_ops import UNEXPLAINED_NS
from perfmagic.analysis.replay.graph import Edge, Links, Node
from perfmagic.base.language import phrase
from perfmagic.base.numerics.intervals import Intervals, total_ns
from perfmagic.base.numerics.longest import NO_NODE, way_back
from perfmagic.trace.columns import NO_LINE, NONE, Bool, CallKind, Int8, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.trace.rows import Rows, names_at


class Held(enum.IntEnum):
    """What a part of the path consists of, in the order of pictures."""

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
    FULL_QUEUE = 10
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
    Held.FULL_QUEUE: "a full queue",
    Held.OTHER_THREAD: "another thread",
    Held.UNEXPLAINED: "unexplained",
    Held.BEFORE: "before the record",
}
# the kinds of parts by Held; ops that compute or copy have the kinds of CLASS_WORDS
OTHER, BEFORE = "other", "before the record"
_KINDS_OF_HELD: dict[str, tuple[Held, ...]] = {
    "Python": (Held.PYTHON,),
    "launches and calls": (Held.CALL, Held.LAUNCH, Held.FULL_QUEUE),
    "communication": (Held.COMMUNICATION,),
    "memsets": (Held.MEMSET,),
    "between queued ops": (Held.STREAM,),
    "waits between streams": (Held.OTHER_STREAM,),
    "returns and hand-overs": (Held.SYNC, Held.OTHER_THREAD),
    "unexplained": (Held.UNEXPLAINED,),
    BEFORE: (Held.BEFORE,),
}
CLASS_WORDS = {
    OpClass.MATRIX: "matrix kernels",
    OpClass.COMPUTE: "other kernels",
    OpClass.UNKNOWN: "kernels of unknown time",
    OpClass.HTOD: "HtoD copies",
    OpClass.DTOH: "DtoH copies",
    OpClass.DTOD: "DtoD copies",
    OpClass.PTOP: "PtoP copies",
}
KINDS = (*_KINDS_OF_HELD, *CLASS_WORDS.values())
SMALL_FRAC = 0.005  # of the run: shorter kinds are "other"
SMALL_OF_JOB_FRAC = 0.01  # of a job, for a kind on one rank
_OF_CLASS = {
    OpClass.MATRIX: Held.COMPUTE,
    OpClass.COMPUTE: Held.COMPUTE,
    OpClass.UNKNOWN: Held.COMPUTE,
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
    Edge.FULL_QUEUE: Held.FULL_QUEUE,
}
_OP_EDGES = {Edge.LAUNCH: Held.LAUNCH, Edge.CALL: Held.CALL, Edge.STREAM: Held.STREAM}
_JOIN_EDGES = {Edge.LAUNCH: Held.LAUNCH, Edge.CALL: Held.CALL, Edge.SYNC: Held.SYNC, Edge.PYTHON: Held.PYTHON}


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


@dataclass(frozen=True)
class JobPathPart:
    """A part of the critical path of a job, times in ns on the common axis.

    rank: on which it is.  held: what it is, in words.  name: of the op or the call; of Python the call that ends it.
    line: of the cell, 0 for none.
    """

    start_ns: int
    end_ns: int
    rank: int
    held: str
    name: str
    line: int

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class PathShare:
    """A kind of path part, and its total length.  rank: where, on the path of a job."""

    name: str
    ns: int
    rank: int | None = None

    @property
    def words(self) -> str:
        """The kind, and where: "Python on rank 3"."""
        if self.rank is None:
            return phrase(self.name)
        if self.name == BEFORE:
            return phrase("before the record of rank {rank}", rank=self.rank)
        return phrase("{kind} on rank {rank}", kind=phrase(self.name), rank=self.rank)


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """The parts of a critical path, first to last; arrays of equal length, times in ns, for a job on the common axis.

    traces: the recorded run, or each rank of a job.  ranks: numbers of the ranks, empty if the run is not a job.
    rank: index of each part's trace.  held: Held.  op: row of that trace's ops that ran or was late, NONE on the host.
    call: row of that trace's calls, NONE on devices.  op_class: OpClass of op.
    """

    traces: tuple[Trace, ...]
    ranks: tuple[int, ...]
    start_ns: Int64
    end_ns: Int64
    rank: Int64
    held: Int8
    op: Int64
    call: Int64
    op_class: Int8

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
        """The length of each kind of part, longest first, without empty kinds."""
        sums = np.zeros(len(Held), np.int64)
        np.add.at(sums, self.held, self.length_ns)
        length_ns = {kind: int(sums[kind]) for kind in Held if sums[kind]}
        return dict(sorted(length_ns.items(), key=lambda item: -item[1]))

    @property
    def shares(self) -> tuple[PathShare, ...]:
        """The kinds of parts, by rank for a job, longest first; short kinds are merged into "other"."""
        return self._shares[0]

    @property
    def share(self) -> Int64:
        """Each part's row in shares."""
        return self._shares[1]

    @cached_property
    def _shares(self) -> tuple[tuple[PathShare, ...], Int64]:
        kinds = [PathShare(name, 0, rank) for rank in self.ranks or (None,) for name in KINDS]
        number = self.rank * len(KINDS) + self._kind()
        sums = np.zeros(len(kinds), np.int64)
        np.add.at(sums, number, self.length_ns)
        least_ns = (SMALL_OF_JOB_FRAC if self.ranks else SMALL_FRAC) * sums.sum()
        order = [i for i in np.argsort(-sums, kind="stable").tolist() if sums[i]]
        large = [i for i in order if sums[i] >= least_ns]
        shares = [replace(kinds[i], ns=int(sums[i])) for i in large]
        row = np.full(len(kinds), len(large), np.int64)
        row[large] = np.arange(len(large))
        if len(order) > len(large):
            shares.append(PathShare(OTHER, int(sums.sum()) - sum(share.ns for share in shares)))
        return tuple(shares), row[number]

    def _kind(self) -> Int64:
        """The kind of each part: its index in KINDS."""
        number = np.zeros(len(self), np.int64)
        for i, held in enumerate(_KINDS_OF_HELD.values()):
            number[np.isin(self.held, held)] = i
        is_of_class = np.isin(self.held, (Held.COMPUTE, Held.COPY))
        for i, op_class in enumerate(CLASS_WORDS, len(_KINDS_OF_HELD)):
            number[is_of_class & (self.op_class == op_class)] = i
        return number

    def rows(self) -> Rows[PathPart]:
        """The parts of a run, by start."""
        device, stream = (self._recorded(column, None) for column in ("device", "stream"))
        return Rows.of_columns({**self._columns(), "device": device, "stream": stream}, PathPart)

    def rows_of_job(self) -> Rows[JobPathPart]:
        """The parts of a job, by start."""
        return Rows.of_columns({**self._columns(), "rank": np.array(self.ranks, np.int64)[self.rank]}, JobPathPart)

    def _columns(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "held": names_at(tuple(HELD_WORDS.values()), self.held.astype(np.int64)),
            "name": self._recorded("name", ""),
            "line": self._recorded("line", NO_LINE).astype(np.int64),
            "length_ns": self.length_ns,
        }

    def _recorded(self, column: str, default: object) -> npt.NDArray[Any]:
        """A column of the ops and calls of the parts; `default` for parts whose table lacks it."""
        values = np.full(len(self), default, object)
        for place, trace in enumerate(self.traces):
            for table, row in ((trace.ops, self.op), (trace.calls, self.call)):
                if hasattr(table, column):
                    at = np.flatnonzero((self.rank == place) & (row != NONE))
                    recorded = getattr(table, column)[row[at]]
                    values[at] = names_at(trace.names, recorded.astype(np.int64)) if column == "name" else recorded
        return values


class Replayable(Protocol):
    """The graph that a path is traced back on: that of a trace, or of all ranks of a job.

    See perfmagic.analysis.replay.graph.Graph for the columns. Rows number the ops, or calls, of all traces
    consecutively.  rank: the index of each instant's trace.  known_from_ns: when each record begins; None if the run
    begins with it.
    """

    @property
    def traces(self) -> tuple[Trace, ...]: ...

    @property
    def ranks(self) -> tuple[int, ...]: ...

    @property
    def first(self) -> Links: ...

    @property
    def second(self) -> Links: ...

    @property
    def node(self) -> Int8: ...

    @property
    def row(self) -> Int64: ...

    @property
    def rank(self) -> Int64: ...

    @property
    def length_ns(self) -> Int64: ...

    @property
    def unexplained_ns(self) -> Int64: ...

    @property
    def begins_ns(self) -> int: ...

    @property
    def known_from_ns(self) -> Int64 | None: ...

    def held_by(self, times_ns: Int64) -> tuple[Int64, Bool]: ...


def critical_path(graph: Replayable, times_ns: Int64, comm_names: str | None = None) -> CriticalPath:
    """What determined the length of a run or a job, from its beginning to its last instant.

    times_ns: of the graph's instants: graph.time_ns as recorded, or from graph.replayed_ns().
    comm_names: as in perfmagic.trace.names.op_classes.
    """
    classes = np.concatenate([op_classes(trace, comm_names) for trace in graph.traces])
    syncs = np.concatenate([trace.calls.kind == CallKind.SYNC for trace in graph.traces])
    node, start_ns, end_ns, held, op, call = _tiles(graph, times_ns, classes, syncs)
    rank = graph.rank[node]
    op_class = np.where(op != NONE, classes[op], NONE) if len(classes) else np.full(len(op), NONE)
    op_base, call_base = (
        np.cumsum([0, *(len(table) for table in tables)])
        for tables in ([trace.ops for trace in graph.traces], [trace.calls for trace in graph.traces])
    )
    path = CriticalPath(
        graph.traces,
        graph.ranks,
        start_ns,
        end_ns,
        rank,
        held.astype(np.int8),
        np.where(op != NONE, op - op_base[rank], NONE),
        np.where(call != NONE, call - call_base[rank], NONE),
        op_class.astype(np.int8),
    )
    return path if graph.known_from_ns is None or not len(path) else _from_its_record(path, graph.known_from_ns)


def _from_its_record(path: CriticalPath, known_from_ns: Int64) -> CriticalPath:
    """The path of a job, with Held.BEFORE for time before the record of the rank where it begins."""
    known_ns = min(int(known_from_ns[path.rank[0]]), int(path.end_ns[0]))
    if known_ns <= path.start_ns[0]:
        return path
    twice = np.repeat(np.arange(len(path)), [2, *[1] * (len(path) - 1)])
    names = ("start_ns", "end_ns", "rank", "held", "op", "call", "op_class")
    columns = {name: getattr(path, name)[twice] for name in names}
    columns["start_ns"][1] = columns["end_ns"][0] = known_ns
    columns["held"][0], columns["op"][0], columns["call"][0] = Held.BEFORE, NONE, NONE
    kept = columns["end_ns"] > columns["start_ns"]  # the first part may be empty now
    return replace(path, **{name: column[kept] for name, column in columns.items()})


def _tiles(graph: Replayable, times: Int64, classes: Int8, syncs: Bool) -> tuple[Int64, ...]:
    """Instant, start, end, Held, op and call of the parts that tile the run from its beginning to its last instant."""
    node, start_ns, end_ns, held, op, call = _parts(graph, times, classes, syncs)
    reached_ns = np.maximum.accumulate(end_ns) if len(end_ns) else end_ns
    before_ns = np.concatenate(([graph.begins_ns], reached_ns[:-1]))[: len(end_ns)]
    kept = end_ns > np.maximum(start_ns, before_ns)
    node, end_ns, held, op, call = node[kept], end_ns[kept], held[kept], op[kept], call[kept]
    start_ns = np.concatenate(([graph.begins_ns], end_ns[:-1]))[: len(end_ns)]  # each begins where the one before ended
    return node, start_ns, end_ns, held, op, call


def _parts(graph: Replayable, times: Int64, classes: Int8, syncs: Bool) -> tuple[Int64, ...]:
    """Instant, start, end, Held, op and call of the parts along the path: for an op its wait, delay and execution."""
    node, before, kind, lag_ns = _walked_back(graph, times)
    end_ns, row, what = times[node], graph.row[node], graph.node[node]
    start_ns = np.where(before != NO_NODE, times[before], graph.begins_ns)
    is_op, is_join = what == Node.OP_END, what == Node.JOIN
    op = np.where(is_op, row, NONE)
    began_ns = end_ns - graph.length_ns[node]
    late_ns = np.where(is_op, graph.unexplained_ns[op], 0) if len(classes) else np.zeros(len(op), np.int64)
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
    held_of_class = _translated(_OF_CLASS, Held.COMPUTE)
    runs = held_of_class[classes[op]] if len(classes) else held
    unexplained = np.full(len(node), Held.UNEXPLAINED, np.int64)
    first_end_ns = np.where(is_op, began_ns - late_ns, end_ns)
    # three parts per step; steps that are not ops have only the first
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
    """The Held of each member of an enumeration."""
    translated = np.full(max(len(Edge), len(OpClass)), other, np.int64)
    for number, held in known.items():
        translated[number] = held
    return translated


def _walked_back(graph: Replayable, times: Int64) -> tuple[Int64, ...]:
    """Instant, its predecessor, Edge and lag in ns, from the first instant of the path to the last."""
    first, second = graph.first, graph.second
    before, by_second = graph.held_by(times)
    way = way_back(int(np.argmax(times)) if len(times) else NO_NODE, before)[::-1]
    kind, lag_ns = (
        np.where(by_second, getattr(second, name), getattr(first, name))[way] for name in ("kind", "lag_ns")
    )
    held = before[way] != NO_NODE
    return way, before[way], np.where(held, kind, Edge.ORIGIN).astype(np.int64), np.where(held, lag_ns, 0)


# Who decides how long a run takes: shares of its critical path.

DECIDES_FRAC = 0.55  # of the run: what takes this much of the path decides
PART_FRAC = 0.4  # of the run, for what is seldom most of it: start-up, copies, communication, the host's tail
SHORT_CELL_NS = 100_000  # Python takes 5–20 µs per eager operator; a launch takes 4–10 µs to start, a sync to return
KEPT_BUSY_FRAC = 0.8  # of the run: a device so busy keeps pace with Python, whichever of them the path follows

_HOST = (Held.PYTHON, Held.CALL, Held.OTHER_THREAD)
_DEVICE = (Held.COMPUTE, Held.MEMSET, Held.OTHER_STREAM, Held.FULL_QUEUE)
_LATENCY = (Held.LAUNCH, Held.STREAM, Held.SYNC)


@dataclass(frozen=True)
class Judgement:
    """What the critical path of a run is made of; times in ns, which add up to run_ns.

    start_up_ns: of the host before the first device op of a file; 0 for a cell, where it counts as Python.
    tail_ns: of the host after the last op.  python_ns: of the host otherwise.
    device_ns: compute, memsets, and waits for another stream.
    latency_ns: from a launch to its op, between queued ops, and from an op to the return of the call that waits for it.
    busy_ns: of the busiest device, not part of the sum.
    """

    run_ns: int
    start_up_ns: int
    tail_ns: int
    python_ns: int
    device_ns: int
    copies_ns: int
    communication_ns: int
    latency_ns: int
    unexplained_ns: int
    busy_ns: int

    @property
    def host_ns(self) -> int:
        return self.start_up_ns + self.python_ns + self.tail_ns

    @property
    def kind(self) -> str:
        """One of perfmagic.analysis.verdict.KINDS. Source: docs/verdict.md."""
        part_ns = PART_FRAC * self.run_ns
        on_device_ns = self.device_ns + self.copies_ns + self.communication_ns
        checks = (
            (verdict.START_UP, self.start_up_ns >= part_ns),
            (verdict.HOST_TAIL, self.tail_ns >= part_ns),
            (verdict.DEVICE_BOUND, self._decides(self.device_ns)),
            (verdict.COPY_BOUND, self.copies_ns >= max(part_ns, self.host_ns)),
            (verdict.COMMUNICATION_BOUND, self.communication_ns >= max(part_ns, self.host_ns)),
            (verdict.DEVICE_BOUND, self._decides(on_device_ns)),
            (verdict.HOST_BOUND, self._decides(self.host_ns) and self.busy_ns <= KEPT_BUSY_FRAC * self.run_ns),
            (verdict.LATENCY_BOUND, self._decides(self.latency_ns)),
            (verdict.STALLED, self._decides(self.unexplained_ns)),
        )
        return next((kind for kind, applies in checks if applies), verdict.MIXED)

    @property
    def decided(self) -> str:
        """The same of a cell, which may be so short that a launch and a wait are most of it."""
        kind = self.kind
        return verdict.LATENCY_BOUND if self.run_ns < SHORT_CELL_NS and kind != verdict.DEVICE_BOUND else kind

    def _decides(self, ns: int) -> bool:
        return ns >= DECIDES_FRAC * self.run_ns > 0


def judge(path: CriticalPath, busy: Intervals, ran: tuple[int, int] | None = None) -> Judgement:
    """What a run's critical path is made of.

    path: of one trace.  busy: when its busiest device executed anything, disjoint intervals in ns.  ran: from the first
    op to the last one, in ns; as recorded by default.
    """
    (trace,) = path.traces
    first_ns, last_ns = ran or (int(trace.ops.start_ns.min()), int(trace.ops.end_ns.max()))
    on_host = np.isin(path.held, _HOST)
    before, after = on_host & (path.start_ns < first_ns), on_host & (path.end_ns > last_ns)
    start_up_ns = 0
    if trace.meta.returned_ns is None:
        start_up_ns = int((np.minimum(path.end_ns, first_ns) - path.start_ns)[before].sum())
    tail_ns = int((path.end_ns - np.maximum(path.start_ns, last_ns))[after].sum())

    def length_ns(which: Bool) -> int:
        return int(path.length_ns[which].sum())

    return Judgement(
        run_ns=path.run_ns,
        start_up_ns=start_up_ns,
        tail_ns=tail_ns,
        python_ns=length_ns(on_host) - start_up_ns - tail_ns,
        device_ns=length_ns(np.isin(path.held, _DEVICE)),
        copies_ns=length_ns(path.held == Held.COPY),
        communication_ns=length_ns(path.held == Held.COMMUNICATION),
        latency_ns=length_ns(np.isin(path.held, _LATENCY)),
        unexplained_ns=length_ns(np.isin(path.held, (Held.UNEXPLAINED, Held.BEFORE))),
        busy_ns=total_ns(busy),
    )
