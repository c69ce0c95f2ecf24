"""The graph of a trace: its instants, and what each waits for. Replayed without a change it is the record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.replay import device_ops
from perfmagic.analysis.replay.graph import Edge, Graph, HostWait, Links, Node
from perfmagic.analysis.timeline.activity import blocking_copies
from perfmagic.analysis.timeline.host_time import main_thread
from perfmagic.base.numerics.longest import NEVER, NO_NODE, ordered
from perfmagic.trace.columns import NONE, Bool, CallKind, HostKind, Int64, waits_for_all
from perfmagic.trace.model import Trace

_SYNC_NS, _LONGEST_SYNC_NS = 2_000, 20_000
_STAGING_NS = 15_000  # of a blocking copy's call, beside its wait

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
        queues, head = device_ops.Queues(trace), device_ops.heads(trace)
        waits, known = device_ops.stream_waits(trace, queues, head)
        on_host = tuple(host_waits(trace, queues, head))
        usual = device_ops.usual_latencies(trace, queues, waits, self._sync_ns(on_host))
        starts = device_ops.op_starts(trace, queues, waits, usual, self.begin_of != NO_NODE, unseen=self.unseen)
        self._link_ops(starts)
        self._link_waits(starts, waits, usual.wait_ns)
        self._link_host_waits(on_host, usual.sync_ns)
        at = device_ops.Instants(self.begin_of, self.end_of, self.op_node, self.time_ns, self.first, self.second)
        n_full_queue = device_ops.link_full_queues(trace, queues, starts.launched, starts.previous, at)
        self._end_run(handed)
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
            n_full_queue=n_full_queue,
        )

    def _link_host(self) -> None:
        points = self.points
        follows = np.flatnonzero(points.follows)
        self.first.node[follows] = follows - 1
        self.first.lag_ns[follows] = points.time_ns[follows] - points.time_ns[follows - 1]
        self.first.kind[follows] = np.where(points.in_call[follows], Edge.CALL, Edge.PYTHON)

    def _link_hand_overs(self, pairs: list[tuple[int, int]]) -> None:
        first, second = self.first, self.second
        for at, other in pairs:
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
        return min(int(np.median(quick)), _LONGEST_SYNC_NS) if len(quick) >= device_ops.FEW else _SYNC_NS

    def _link_ops(self, starts: device_ops.Starts) -> None:
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

    def _link_waits(self, starts: device_ops.Starts, waits: Int64, wait_ns: int) -> None:
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

    def _end_run(self, handed: list[tuple[int, int]]) -> None:
        """A last join: the run ends when every thread has done its last work and every op has ended."""
        if not self.n:
            return
        points, end_ns = self.points, self.time_ns[self.op_node]
        last = np.flatnonzero(np.append(~points.follows[1:], len(points) > 0)) if len(points) else np.zeros(0, np.int64)
        tail_ns = np.maximum(0, _python_end_ns(self.trace, points, last, handed) - points.time_ns[last])
        parts: list[Part] = [(at, ns, Edge.PYTHON) for at, ns in zip(last.tolist(), tail_ns.tolist(), strict=True)]
        parts += [(node, 0, Edge.SYNC) for node in self.op_node[_last_to_end(self.trace.ops.stream, end_ns)].tolist()]
        at = self._joined(parts)
        left_ns = self.trace.meta.end_ns - self._time_of(at)
        if left_ns > 0:
            self._join((at, left_ns, Edge.SYNC), (NO_NODE, 0, Edge.ORIGIN))

    def _with_joins(self) -> tuple[Int64, Links, Links]:
        if not self.joins:
            return self.time_ns, self.first, self.second
        times = np.array([time_ns for time_ns, _, _ in self.joins], np.int64)
        a, b = (np.array([join[side] for join in self.joins], np.int64).T for side in (1, 2))
        first = self.first.extended(a[0], a[1], a[2])
        return np.concatenate((self.time_ns, times)), first, self.second.extended(b[0], b[1], b[2])


def _last_to_end(stream: Int64, end_ns: Int64) -> Int64:
    """Of each stream the op that ends last, of equal ones the first; rows, by stream."""
    rows = np.lexsort((-np.arange(len(stream)), end_ns, stream))
    is_last = np.ones(len(rows), bool)
    is_last[:-1] = np.diff(stream[rows]) != 0
    return rows[is_last]


# The instants of the host's threads: calls that launch or wait, and where one thread hands over to another.

LONG_CALL_NS = 10_000  # a shorter allocation, or question to the driver, is part of the Python around it
QUIET_NS = 20_000  # between two operators autograd's threads pause 5–15 µs (V100, A100 in traces/)


@dataclass(frozen=True, eq=False)
class HostPoints:
    """By thread and time; arrays of equal length. row: of trace.calls."""

    time_ns: Int64
    row: Int64
    is_end: Bool
    thread: Int64

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def in_call(self) -> Bool:
        """Whether the time before each was inside a call; shape of time_ns."""
        open_calls = np.cumsum(np.where(self.is_end, -1, 1))  # each thread closes what it opened
        return np.concatenate((np.zeros(min(1, len(self)), bool), open_calls[:-1] > 0))

    @property
    def follows(self) -> Bool:
        """Which are not the first of their thread; shape of time_ns."""
        same = np.zeros(len(self), bool)
        same[1:] = self.thread[1:] == self.thread[:-1]
        return same


def host_points(trace: Trace) -> HostPoints:
    """Begin and end of each launch, wait, event and other long call, on threads that launch or wait."""
    calls = trace.calls
    kept = np.isin(calls.kind, (CallKind.LAUNCH, CallKind.SYNC, CallKind.WAIT, CallKind.RECORD))
    long = calls.end_ns - calls.start_ns >= LONG_CALL_NS
    kept |= long & np.isin(calls.kind, (CallKind.MEMORY, CallKind.OTHER))
    active = np.isin(calls.kind, (CallKind.LAUNCH, CallKind.SYNC))
    kept &= np.isin(calls.thread, np.unique(calls.thread[active]))
    rows = np.flatnonzero(kept)
    time_ns = np.concatenate((calls.start_ns[rows], calls.end_ns[rows]))
    is_end = np.repeat((False, True), len(rows))
    row = np.concatenate((rows, rows))
    empty = (calls.end_ns == calls.start_ns)[row]
    # at one instant of a thread: ends of earlier calls, then beginnings, then ends of calls without length
    rank = np.where(is_end, np.where(empty, 2, 0), 1)
    order = np.lexsort((row, rank, time_ns, calls.thread[row]))
    return HostPoints(time_ns[order], row[order], is_end[order], calls.thread[row[order]])


def _python_end_ns(trace: Trace, points: HostPoints, last: Int64, handed: list[tuple[int, int]]) -> Int64:
    """When each thread was seen last: the thread of a cell as the cell returned; shape of last, its last instant."""
    ends_ns, threads = np.full(len(last), -(2**62), np.int64), points.thread[last]
    for table in (trace.host_ops, trace.calls):
        for place, thread in enumerate(threads.tolist()):
            ends_ns[place] = max(ends_ns[place], table.end_ns[table.thread == thread].max(initial=-(2**62)))
    if trace.meta.returned_ns is not None:
        ends_ns[threads == _last_thread(trace, points, last, handed)] = trace.meta.returned_ns
    return np.minimum(ends_ns, trace.meta.end_ns)  # an annotation of the profiler's own may end after the record


def _last_thread(trace: Trace, points: HostPoints, last: Int64, handed: list[tuple[int, int]]) -> int:
    """The thread that the cell returned on, or waited for: autograd's may launch most, yet others go on after it."""
    thread = main_thread(trace)
    goes_on = {int(points.thread[other]): int(points.thread[at]) for at, other in handed if other in last}
    while thread in goes_on:  # each time to a later instant, so that it ends
        thread = goes_on[thread]
    return thread


def hand_overs(trace: Trace, points: HostPoints) -> list[tuple[int, int]]:
    """(instant, instant of another thread it waited for), rows of points.

    A thread was quiet, with no operator running on it, and another fell quiet just before it went on: so do autograd's
    threads and the one in backward().
    """
    follows = points.follows
    if follows.sum() == len(points) - 1:
        return []
    before_ns = np.concatenate((points.time_ns[:1], points.time_ns[:-1]))
    paused = np.flatnonzero(follows & ~points.is_end & (points.time_ns - before_ns >= QUIET_NS))
    middle_ns = (points.time_ns[paused] + before_ns[paused]) // 2
    paused = paused[~_operator_runs(trace, points.thread[paused], middle_ns)]
    by_time = np.argsort(points.time_ns, kind="stable")
    waited = np.concatenate((paused, np.flatnonzero(~follows)))
    last = np.searchsorted(points.time_ns[by_time], points.time_ns[waited], side="right") - 1
    times, threads = points.time_ns[by_time].tolist(), points.thread[by_time].tolist()  # gone through one by one
    pairs = []
    for at, latest in zip(waited.tolist(), last.tolist(), strict=True):
        since_ns, k = int(before_ns[at]) if follows[at] else -1, latest
        while k >= 0 and threads[k] == points.thread[at] and times[k] > since_ns:
            k -= 1
        if k < 0 or threads[k] == points.thread[at] or times[k] <= since_ns:
            continue
        other = int(by_time[k])
        after = other + 1
        goes_on = after < len(points) and follows[after] and points.time_ns[after] - times[k] < QUIET_NS
        if not goes_on:
            pairs.append((at, other))
    return pairs


def _operator_runs(trace: Trace, thread: Int64, at_ns: Int64) -> Bool:
    ops = trace.host_ops
    running = np.zeros(len(at_ns), bool)
    for number in np.unique(thread).tolist():
        at = np.flatnonzero(thread == number)
        rows = np.flatnonzero((ops.kind == HostKind.OP) & (ops.thread == number))
        begun = np.searchsorted(np.sort(ops.start_ns[rows]), at_ns[at], side="right")
        ended = np.searchsorted(np.sort(ops.end_ns[rows]), at_ns[at], side="right")
        running[at] = begun > ended
    return running


# Which device ops each blocking call of the host waits for: as recorded, else by its name and by times.

RETURN_NS = 5_000  # the host's clock and the device's agree so far
COPY_RETURN_NS = 30_000  # a blocking copy may return before its op's last write is noted
STAGED_NS = 15_000  # a copy's call that was shorter only staged its bytes


def host_waits(trace: Trace, queues: device_ops.Queues, head: Int64) -> list[HostWait]:
    """The blocking calls with what they wait for; calls that wait for nothing known are left out."""
    if not len(trace.ops):
        return []
    return [*_copies(trace, head), *_synchronising(trace, queues, head)]


def _copies(trace: Trace, head: Int64) -> Iterator[HostWait]:
    ops, calls = trace.ops, trace.calls
    rows = np.flatnonzero(blocking_copies(trace) & (head != NONE) & (calls.kind == CallKind.LAUNCH))
    own, end_ns = head[rows], calls.end_ns[rows]
    long = end_ns - calls.start_ns[rows] >= STAGED_NS
    inside = ops.end_ns[own] <= end_ns + np.where(long, COPY_RETURN_NS, 0)
    inside &= ops.start_ns[own] < end_ns
    for call, op in zip(rows[inside].tolist(), own[inside].tolist(), strict=True):
        yield HostWait(call, (op,), own=True)


def _synchronising(trace: Trace, queues: device_ops.Queues, head: Int64) -> Iterator[HostWait]:
    calls = trace.calls
    rows = np.flatnonzero(calls.kind == CallKind.SYNC)
    recorded = _recorded(trace, queues, rows)
    recent = device_ops.last_before_on_thread(trace, rows, head)
    last = np.full(len(rows), NONE, np.int64)  # on the stream of the newest
    for k in np.unique(queues.of_op[recent[recent != NONE]]).tolist():
        at = np.flatnonzero((recent != NONE) & (queues.of_op[recent] == k))
        last[at] = queues.last_launched(k, calls.start_ns[rows[at]])
    marked_ns = np.sort(calls.start_ns[calls.kind == CallKind.RECORD])
    for call, newest, last_there in zip(rows.tolist(), recent.tolist(), last.tolist(), strict=True):
        ops = recorded.get(call)
        if ops is None:
            ops = _by_name(trace, queues, call, (newest, last_there), marked_ns)
        if ops:
            yield HostWait(call, ops, own=False)


def _recorded(trace: Trace, queues: device_ops.Queues, rows: Int64) -> dict[int, tuple[int, ...]]:
    """What the record itself says some calls wait for; empty where it had all ended or was never launched here."""
    waits, calls = trace.host_waits, trace.calls
    if not len(waits):
        return {}
    by_id = {int(calls.correlation[row]): row for row in rows.tolist()}
    by_start = {int(calls.start_ns[row]): row for row in rows.tolist()}
    waited_for: dict[int, set[int]] = {}
    columns = (waits.at_ns, waits.correlation, waits.device, waits.stream, waits.on_correlation)
    for at_ns, correlation, device, stream, on in zip(*(column.tolist() for column in columns), strict=True):
        call = by_id.get(correlation) if correlation != NONE else by_start.get(at_ns)
        if call is None:
            continue
        streams = [k for (d, s), k in queues.number.items() if d == device and stream in (NONE, s)]
        before_ns = calls.start_ns[call : call + 1]
        for k in streams:
            last = queues.last_launched(k, before_ns) if on == NONE else queues.up_to(k, np.array([on]))
            if int(last[0]) != NONE and trace.ops.end_ns[last[0]] <= calls.end_ns[call] + RETURN_NS:
                waited_for.setdefault(call, set()).add(int(last[0]))
        waited_for.setdefault(call, set())
    return {call: tuple(sorted(ops)) for call, ops in waited_for.items()}


def _by_name(
    trace: Trace, queues: device_ops.Queues, call: int, newest: tuple[int, int], marked_ns: Int64
) -> tuple[int, ...]:
    """newest: the op launched last before the call by its thread, and on that op's stream.

    marked_ns: when events were recorded.
    """
    ops, calls = trace.ops, trace.calls
    name = trace.names[calls.name[call]]
    start_ns, end_ns = calls.start_ns[call : call + 1], int(calls.end_ns[call])

    def fits(op: int) -> bool:
        return op != NONE and ops.end_ns[op] <= end_ns + RETURN_NS and ops.start_ns[op] < end_ns

    if waits_for_all(name):
        lasts = (int(queues.last_launched(k, start_ns)[0]) for k in range(len(queues)))
        return tuple(op for op in lasts if op != NONE)
    of_event = "Event" in name
    if not of_event and fits(newest[0]):
        return newest[1:] if fits(newest[1]) else newest[:1]
    # which stream, or which event, is not recorded: what was launched last, before some event was recorded, and ended
    before_ns = start_ns
    at = int(np.searchsorted(marked_ns, start_ns[0], side="left")) - 1
    if of_event and at >= 0:
        before_ns = marked_ns[at : at + 1] + 1
    by_ns = np.array([end_ns + RETURN_NS])
    ended = [int(queues.last_launched_and_ended(k, before_ns, by_ns)[0]) for k in range(len(queues))]
    ended = [op for op in ended if fits(op)]
    if ended and not of_event:
        ended = [max(ended, key=lambda op: int(ops.end_ns[op]))]
    return tuple(ended)


# The nodes in an order that predecessors lead, as near as can be to their recorded times.

_MOST_PASSES = 1000


def ordered_by_time(time: Int64, first: Int64, second: Int64) -> tuple[Int64, Bool, Bool]:
    """The nodes with predecessors first, by time, and which edges had to be given up for it; shape of time.

    time: of each node, as good as recorded: a predecessor may be a little later.  first, second: the predecessors,
    NO_NODE for none. An edge is given up only where edges go round in a circle.
    """
    key = time.copy()
    before, has = np.stack((first, second)), np.stack((first, second)) != NO_NODE
    at = np.maximum(before, 0)
    for _ in range(_MOST_PASSES):
        later = np.where(has, key[at], key).max(axis=0, initial=NEVER)
        if (later <= key).all():
            break
        key = np.maximum(key, later)
    depth = np.zeros(len(time), np.int64)
    at_once = has & (key[at] == key)
    for _ in range(_MOST_PASSES):
        deeper = np.where(at_once, depth[at] + 1, 0).max(axis=0, initial=0)
        if (deeper == depth).all():
            break
        depth = deeper
    order = np.lexsort((depth, key))
    place = np.empty(len(time), np.int64)
    place[order] = np.arange(len(time))
    given_up = has & (place[at] >= place)
    if given_up.any():  # the passes may have been too few
        with suppress(ValueError):
            return ordered(first, second), *np.zeros_like(given_up)
    return order, given_up[0], given_up[1]
