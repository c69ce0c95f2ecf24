"""The graph of a trace. Replayed without a change it is the record, to the nanosecond."""

from __future__ import annotations

import numpy as np

from perfmagic.analysis.replay.device_ops import Starts, op_starts, usual_latencies
from perfmagic.analysis.replay.graph import Edge, Graph, HostWait, Links, Node
from perfmagic.analysis.replay.host_points import hand_overs, host_points
from perfmagic.analysis.replay.host_waits import host_waits
from perfmagic.analysis.replay.queues import Queues, heads
from perfmagic.analysis.replay.room import Instants, link_room
from perfmagic.analysis.replay.stream_waits import stream_waits
from perfmagic.numerics.longest import NO_NODE, ordered_by_time
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.model import Trace

_SYNC_NS, _LONGEST_SYNC_NS = 2_000, 20_000
_STAGING_NS = 15_000  # of a blocking copy's call, beside its wait
_FEW = 5

Part = tuple[int, int, int]  # of a join: predecessor, lag in ns, Edge


def graph_of(trace: Trace, *, unseen: bool = False) -> Graph:
    """What held each instant of a trace.

    unseen: read a delay that nothing explains as a wait for another stream's op that ended just before, not as the
    op's own. Both are exact on the record; where a change gains differently by them, its gain is an interval.
    Source: docs/replay.md.
    """
    return _Builder(trace, unseen=unseen).graph()


class _Builder:
    def __init__(self, trace: Trace, *, unseen: bool) -> None:
        self.trace, self.points = trace, host_points(trace)
        n_points, n_ops = len(self.points), len(trace.ops)
        self.begin_of, self.end_of = (np.full(len(trace.calls), NO_NODE, np.int64) for _ in range(2))
        rows, is_end = self.points.row, self.points.is_end
        self.begin_of[rows[~is_end]] = np.flatnonzero(~is_end)
        self.end_of[rows[is_end]] = np.flatnonzero(is_end)
        self.op_node = n_points + np.arange(n_ops)
        self.n = n_points + n_ops
        self.time_ns = np.concatenate((self.points.time_ns, trace.ops.end_ns))
        self.first, self.second = Links.none(self.n), Links.none(self.n)
        self.joins: list[tuple[int, Part, Part]] = []  # time, parts
        self.unseen = unseen

    def graph(self) -> Graph:
        trace, points = self.trace, self.points
        self._link_host()
        handed = hand_overs(trace, points)
        self._link_hand_overs(handed)
        queues, head = Queues(trace), heads(trace)
        waits, known = stream_waits(trace, queues, head)
        on_host = tuple(host_waits(trace, queues, head))
        usual = usual_latencies(trace, queues, waits, self._sync_ns(on_host))
        starts = op_starts(trace, queues, waits, usual, self.begin_of != NO_NODE, unseen=self.unseen)
        self._link_ops(starts)
        self._link_waits(starts, waits, usual.wait_ns)
        self._link_host_waits(on_host, usual.sync_ns)
        at = Instants(self.begin_of, self.end_of, self.op_node, self.time_ns, self.first, self.second)
        n_room = link_room(trace, queues, starts.launched, starts.previous, at)
        time_ns, first, second = self._with_joins()
        alone = (first.node == NO_NODE) & (second.node == NO_NODE)
        first.lag_ns[alone] = time_ns[alone]
        order, bad_first, bad_second = ordered_by_time(time_ns, first.node, second.node)
        first.node[bad_first], second.node[bad_second] = NO_NODE, NO_NODE
        n_joins = len(self.joins)
        none = np.full(n_joins, NO_NODE, np.int64)
        call_end = np.where(points.is_end, Node.CALL_END, Node.CALL_BEGIN)
        length_ns = trace.ops.end_ns - trace.ops.start_ns
        return Graph(
            trace=trace,
            time_ns=time_ns,
            first=first,
            second=second,
            node=np.concatenate((call_end, np.full(len(trace.ops), Node.OP_END), np.full(n_joins, Node.JOIN))).astype(
                np.int8
            ),
            row=np.concatenate((points.row, np.arange(len(trace.ops)), none)),
            thread=np.concatenate((points.thread, np.full(len(trace.ops) + n_joins, NONE, np.int64))),
            length_ns=np.concatenate((np.zeros(len(points), np.int64), length_ns, np.zeros(n_joins, np.int64))),
            begin_of=self.begin_of,
            end_of=self.end_of,
            op_node=self.op_node,
            stream=trace.ops.stream,
            order=order,
            usual=usual,
            unexplained_ns=starts.unexplained_ns,
            host_waits=on_host,
            waits=tuple((int(a), int(b)) for a, b in waits.tolist()),
            waits_known=known,
            given_up=int(bad_first.sum() + bad_second.sum()),
            n_hand_overs=len(handed),
            n_room=n_room,
        )

    def _link_host(self) -> None:
        points = self.points
        follows = np.flatnonzero(points.follows)
        self.first.node[follows] = follows - 1
        self.first.lag_ns[follows] = points.time_ns[follows] - points.time_ns[follows - 1]
        self.first.kind[follows] = np.where(points.in_call[follows], Edge.CALL, Edge.PYTHON)

    def _link_hand_overs(self, found: list[tuple[int, int]]) -> None:
        first, second = self.first, self.second
        for at, other in found:
            if first.node[at] != NO_NODE:  # its own thread was free long before
                second.node[at], second.lag_ns[at], second.kind[at] = first.node[at], 0, Edge.PYTHON
            first.node[at], first.kind[at] = other, Edge.OTHER_THREAD
            first.lag_ns[at] = self.time_ns[at] - self.time_ns[other]

    def _sync_ns(self, waits: tuple[HostWait, ...]) -> int:
        """How long a call takes that waits for what has ended already."""
        calls, ops = self.trace.calls, self.trace.ops
        quick = [
            int(calls.end_ns[wait.call] - calls.start_ns[wait.call])
            for wait in waits
            if not wait.own and max(ops.end_ns[list(wait.ops)]) <= calls.start_ns[wait.call]
        ]
        return min(int(np.median(quick)), _LONGEST_SYNC_NS) if len(quick) >= _FEW else _SYNC_NS

    def _link_ops(self, starts: Starts) -> None:
        ops = self.trace.ops
        length_ns = ops.end_ns - ops.start_ns
        launched = np.flatnonzero(starts.launched)
        call = ops.launch[launched]
        end = self.op_node[launched]
        self.first.node[end] = np.where(starts.after_call[launched], self.end_of[call], self.begin_of[call])
        self.first.lag_ns[end] = (starts.launch_lag_ns + length_ns)[launched]
        self.first.kind[end] = np.where(starts.within_call[launched], Edge.CALL, Edge.LAUNCH)
        behind = np.flatnonzero(starts.previous != NONE)
        end = self.op_node[behind]
        self.second.node[end] = self.op_node[starts.previous[behind]]
        self.second.lag_ns[end] = (starts.stream_lag_ns + length_ns)[behind]
        self.second.kind[end] = Edge.STREAM

    def _link_waits(self, starts: Starts, waits: Int64, wait_ns: int) -> None:
        """A join of the launch and all that is waited for takes the place of the launch."""
        ops = self.trace.ops
        sources: dict[int, list[int]] = {}
        for op, source in waits.tolist():
            sources.setdefault(op, []).append(source)
        unseen = np.flatnonzero(starts.unseen != NONE).tolist()
        for op in sorted({*sources, *unseen}):
            end = int(self.op_node[op])
            length_ns = int(ops.end_ns[op] - ops.start_ns[op])
            parts: list[Part] = []
            if starts.launched[op]:
                lag_ns = int(starts.launch_lag_ns[op])
                parts.append((int(self.first.node[end]), lag_ns, int(self.first.kind[end])))
            released_ns = max((int(ops.end_ns[source]) for source in sources.get(op, ())), default=0)
            for source in sources.get(op, ()):
                gap_ns = int(ops.start_ns[op] - ops.end_ns[source])
                held = int(ops.end_ns[source]) == released_ns
                lag_ns = int(starts.wait_lag_ns[op]) if held else min(wait_ns, gap_ns)
                parts.append((int(self.op_node[source]), lag_ns, Edge.WAIT))
            if starts.unseen[op] != NONE:
                source = int(starts.unseen[op])
                gap_ns = int(ops.start_ns[op] - ops.end_ns[source])
                parts.append((int(self.op_node[source]), gap_ns, Edge.UNSEEN))
            self.first.node[end] = self._joined(parts)
            self.first.lag_ns[end], self.first.kind[end] = length_ns, Edge.WAIT

    def _joined(self, parts: list[Part]) -> int:
        """The instant at which the last of several things is done."""
        nothing: Part = (NO_NODE, 0, Edge.ORIGIN)
        a, *others = parts
        at = self._join(a, others.pop(0) if others else nothing)
        for part in others:
            at = self._join(part, (at, 0, Edge.ORIGIN))
        return at

    def _join(self, a: Part, b: Part) -> int:
        reached = [self._time_of(node) + lag_ns for node, lag_ns, _ in (a, b) if node != NO_NODE]
        self.joins.append((max(reached), a, b))
        return self.n + len(self.joins) - 1

    def _time_of(self, node: int) -> int:
        return int(self.time_ns[node]) if node < self.n else self.joins[node - self.n][0]

    def _link_host_waits(self, waits: tuple[HostWait, ...], sync_ns: int) -> None:
        ops = self.trace.ops
        first, second = self.first, self.second
        for wait in waits:
            end = int(self.end_of[wait.call])
            if end == NO_NODE:
                continue
            by_end = sorted(wait.ops, key=lambda op: int(ops.end_ns[op]))
            ended_ns = int(ops.end_ns[by_end[-1]])
            source = int(self.op_node[by_end[0]])
            if len(by_end) > 1:
                source = self._joined([(int(self.op_node[op]), 0, Edge.SYNC) for op in by_end])
            lag_ns = int(self.time_ns[end]) - ended_ns
            held = ended_ns > int(self.time_ns[first.node[end]])
            if held:
                first.lag_ns[end] = min(int(first.lag_ns[end]), _STAGING_NS if wait.own else sync_ns)
            second.node[end], second.kind[end] = source, Edge.SYNC
            second.lag_ns[end] = lag_ns if held else min(sync_ns, lag_ns)

    def _with_joins(self) -> tuple[Int64, Links, Links]:
        if not self.joins:
            return self.time_ns, self.first, self.second
        times = np.array([time_ns for time_ns, _, _ in self.joins], np.int64)
        a, b = (np.array([join[side] for join in self.joins], np.int64).T for side in (1, 2))
        first = self.first.extended(a[0], a[1], a[2])
        return np.concatenate((self.time_ns, times)), first, self.second.extended(b[0], b[1], b[2])
