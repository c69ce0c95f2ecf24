"""The graph that a trace is replayed on: instants, and what each waits for.

An instant is the beginning or end of a call on the host, or the end of a device op. It may also be a join, the latest
of several things. Its time is the later of two predecessors' times, each plus a lag. On the edge that held it in the
record the
lag is the recorded one; the other has what is usual, or less. So a replay without a change is the record.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from perfmagic.base.numerics.longest import NO_NODE, held_by, longest, ordered
from perfmagic.predict.gpus import Gpu
from perfmagic.trace.columns import Bool, Int8, Int64
from perfmagic.trace.model import Trace


class Node(enum.IntEnum):
    """What happens at an instant."""

    CALL_BEGIN = 0
    CALL_END = 1
    OP_END = 2
    JOIN = 3


class Edge(enum.IntEnum):
    """Why an instant comes after another."""

    ORIGIN = 0  # nothing before it is known
    PYTHON = 1  # the same thread, between calls
    CALL = 2  # the same thread, within a call
    LAUNCH = 3  # an op comes after the call that launched it
    STREAM = 4  # after the op before it on its stream
    WAIT = 5  # after an op of another stream that its stream waits for
    SYNC = 6  # a call returns after what it waits for
    OTHER_THREAD = 7  # a thread goes on when another has reached a point
    FULL_QUEUE = 8  # a launch returns when an op leaves the full queue
    UNSEEN = 9  # after an op of another stream, for a reason that the record does not name
    OTHER_RANK = 10  # a collective moves data once its last rank has come; in the graph of a job only


@dataclass(eq=False)
class Links:
    """Of each instant one predecessor, the lag behind it in ns and why; NO_NODE for none."""

    node: Int64
    lag_ns: Int64
    kind: Int8

    @classmethod
    def none(cls, n: int) -> Links:
        return cls(np.full(n, NO_NODE, np.int64), np.zeros(n, np.int64), np.full(n, Edge.ORIGIN, np.int8))

    def copy(self) -> Links:
        return Links(self.node.copy(), self.lag_ns.copy(), self.kind.copy())

    def extended(self, node: Int64, lag_ns: Int64, kind: Int8) -> Links:
        return Links(
            np.concatenate((self.node, node)),
            np.concatenate((self.lag_ns, lag_ns)),
            np.concatenate((self.kind, kind)).astype(np.int8),
        )


@dataclass(frozen=True, eq=False)
class Latencies:
    """What is usual in this trace, in ns.

    launch_ns: from the end of a launch call to the start of its op on an idle stream; shape of trace.ops.
    stream_ns: between two ops that are queued.  wait_ns: from the end of an op to the start of one of another stream
    that waits for it.  sync_ns: a wait for what has ended already.  call_ns: a launch call.
    """

    launch_ns: Int64
    stream_ns: int
    wait_ns: int
    sync_ns: int
    call_ns: int


@dataclass(frozen=True, eq=False)
class HostWait:
    """A call that returns only after some device ops.

    call: its row of trace.calls.  ops: rows of trace.ops.  own: it waits for the op that it launched itself.
    """

    call: int
    ops: tuple[int, ...]
    own: bool


@dataclass(eq=False)
class Graph:
    """The instants of a trace and what each waits for. Changes work on a copy().

    time_ns: recorded.  node: Node of each.  row: of trace.calls or trace.ops, NO_NODE for joins.  thread: of the host.
    length_ns: of an op's end how long the op took, which both lags contain; else 0.
    begin_of, end_of: of each call its instants, NO_NODE for calls that are none; op_node: of each op its end.
    stream: of each op.
    unexplained_ns: of each op how long it began after everything known that it waits for.
    pinned: ops that a change copies from pinned memory, rows of trace.ops.  gpu: that a change runs all on.
    given_up: edges that would go back in time.  waits: stream waits, (op, op it waits for).  waits_known: whether the
    record names them, or they were inferred from times.
    """

    trace: Trace
    time_ns: Int64
    first: Links
    second: Links
    node: Int8
    row: Int64
    thread: Int64
    length_ns: Int64
    begin_of: Int64
    end_of: Int64
    op_node: Int64
    stream: Int64
    order: Int64
    usual: Latencies
    unexplained_ns: Int64
    host_waits: tuple[HostWait, ...] = ()
    waits: tuple[tuple[int, int], ...] = ()
    waits_known: bool = True
    pinned: tuple[int, ...] = ()
    gpu: Gpu | None = None
    given_up: int = 0
    n_hand_overs: int = 0
    n_full_queue: int = 0
    reordered: bool = field(default=False, repr=False)

    def __len__(self) -> int:
        return len(self.time_ns)

    def copy(self) -> Graph:
        """A copy that a change may modify."""
        return replace(self, first=self.first.copy(), second=self.second.copy(), length_ns=self.length_ns.copy())

    def with_joins(self, first: Links, second: Links, time_ns: Int64, order: Int64 | None = None) -> Graph:
        """The graph with joins behind its instants.

        first, second: of all instants then.  time_ns: of the joins.  order: of all instants, predecessors first; worked
        out at the replay if left out.
        """
        n = len(time_ns)
        none = np.full(n, NO_NODE, np.int64)
        return replace(
            self,
            first=first,
            second=second,
            time_ns=np.concatenate((self.time_ns, time_ns)),
            node=np.concatenate((self.node, np.full(n, Node.JOIN, np.int8))),
            row=np.concatenate((self.row, none)),
            thread=np.concatenate((self.thread, none)),
            length_ns=np.concatenate((self.length_ns, np.zeros(n, np.int64))),
            order=self.order if order is None else order,
            reordered=order is None,
        )

    @property
    def on_host(self) -> Bool:
        """Which instants are of a host thread."""
        return np.asarray((self.node == Node.CALL_BEGIN) | (self.node == Node.CALL_END))

    @property
    def begins_ns(self) -> int:
        """When the run begins: with the cell, or with the first thing in a file."""
        first_op_ns = self.trace.ops.start_ns.min(initial=self.trace.meta.start_ns)  # whatever a change made of it
        return int(self.time_ns.min(initial=first_op_ns))

    @property
    def run_ns(self) -> int:
        """How long the recorded run took, with what the host did before the first op and after the last one."""
        return self.end_ns - self.begins_ns

    # what the graph of a job has for each rank

    @property
    def traces(self) -> tuple[Trace, ...]:
        return (self.trace,)

    @property
    def ranks(self) -> tuple[int, ...]:
        return ()

    @property
    def rank(self) -> Int64:
        return np.zeros(len(self), np.int64)

    @property
    def known_from_ns(self) -> None:
        return None

    @cached_property
    def end_ns(self) -> int:
        """When the last instant was recorded."""
        return int(self.time_ns.max(initial=0))

    def replayed_ns(self) -> Int64:
        """When each instant is reached with the lags as they are now. Raises ValueError for a circle."""
        order = ordered(self.first.node, self.second.node) if self.reordered else self.order
        return longest(order, self.first.node, self.first.lag_ns, self.second.node, self.second.lag_ns)

    def held_by(self, times_ns: Int64) -> tuple[Int64, Bool]:
        """Of each instant the one that held it, NO_NODE for none, and whether by the second link.  times_ns: of all."""
        return held_by(times_ns, self.first.node, self.first.lag_ns, self.second.node, self.second.lag_ns)
