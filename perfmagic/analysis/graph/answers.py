"""What decides how long the operators of a graph took, and what to do about it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from perfmagic.analysis.findings.answer import Conclusion, Proposal
from perfmagic.analysis.findings.catalogue import action, count_things, decides, headline
from perfmagic.analysis.graph.graph import Graph
from perfmagic.analysis.graph.late import HELD, LateNode
from perfmagic.analysis.graph.nodes import HOST, GraphNode
from perfmagic.analysis.replay.device_ops import Queues, heads, stream_waits
from perfmagic.analysis.timeline.activity import syncs
from perfmagic.base import units
from perfmagic.base.language import phrase
from perfmagic.base.numerics.intervals import covered_ns, union
from perfmagic.trace.columns import NONE
from perfmagic.trace.model import Trace

# The critical path as executed: from the last operator back to the first, and the delays on it.

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


class Delay(NamedTuple):
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
        before, end_ns = self._before, [each.end_ns for each in graph.nodes]
        node: int | None = end_ns.index(max(end_ns))
        seen: set[int] = set()
        delays: list[Delay] = []
        while node is not None and node not in seen:
            seen.add(node)
            known = {*graph.needs[node], *before[node]} - {node} if graph.needs[node] else before[node] - {node}
            last = max(known, key=end_ns.__getitem__, default=None)
            ready_ns = graph.start_ns if last is None else end_ns[last]
            delays += self._of_node(node, ready_ns)
            node = last
        return delays

    @cached_property
    def ns_of(self) -> Counter[Cause]:
        """The sum of the delays with each cause."""
        every = self.every
        return Counter({cause: sum(delay.ns for delay in every if delay.cause is cause) for cause in Cause})

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
    def _wait_times(self) -> tuple[list[int], list[int]]:
        """When each wait began, and the latest end until then."""
        return [wait.start_ns for wait in self.waits], [*accumulate((wait.end_ns for wait in self.waits), max)]

    @cached_property
    def _before(self) -> list[set[int]]:
        """Of each node those of its lane and its streams that ran before it, and those that its stream waited for."""
        graph, ops = self._graph, self._trace.ops
        before: list[set[int]] = [set() for _ in graph.nodes]
        last: dict[object, int] = {}
        for i in sorted(range(len(graph.nodes)), key=lambda i: graph.nodes[i].start_ns):
            first = graph.placed[i].rows[:1]
            for queue in (graph.lane[i], *((int(ops.device[row]), int(ops.stream[row])) for row in first)):
                if queue in last:
                    before[i].add(last[queue])
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
            ready_ns = queued_ns
        if node.start_ns > ready_ns:
            yield Delay(number, node.start_ns - ready_ns, Cause.LATENCY)

    def _queued_ns(self, number: int) -> int:
        """When Python launched the first device op of a node; without any, when it called it."""
        rows = self._graph.placed[number].rows
        launch = int(self._trace.ops.launch[rows[0]]) if rows else NONE
        called_ns = self._graph.nodes[number].called_ns
        return called_ns if launch == NONE else max(called_ns, int(self._trace.calls.start_ns[launch]))

    def _python(self, number: int, ready_ns: int, queued_ns: int) -> Delay:
        """What Python did until it queued a node: it waited, where that took most of the time."""
        called_ns = self._graph.nodes[number].called_ns
        start_ns, latest_ns = self._wait_times
        first, last = bisect_right(latest_ns, ready_ns), bisect_left(start_ns, min(called_ns, queued_ns))
        if first >= last:  # it waited for nothing
            return Delay(number, queued_ns - ready_ns, Cause.PYTHON)
        waits = [wait for wait in self.waits[first:last] if wait.end_ns > ready_ns]
        # without a wait Python would have come so much earlier
        waited_ns = sum(wait.end_ns - wait.start_ns for wait in waits)
        if waited_ns < _MOST_OF * (queued_ns - ready_ns):
            return Delay(number, queued_ns - ready_ns, Cause.PYTHON)
        longest = max(waits, key=lambda wait: wait.end_ns - wait.start_ns)
        return Delay(number, queued_ns - ready_ns, Cause.WAIT, longest)


MOST_ANSWERS = 3
LEAST_FRAC = 0.02  # of the elapsed time: what gains less is no answer
LOST_FRAC = 0.1  # of the elapsed time beyond what dependencies allow: from there on something else decides
CHAIN_FRAC = 0.9  # of the elapsed time: so long a critical path decides alone
SLOWED_NS = 200_000  # an operator: where they come so fast, recording them takes a good part of Python's time
MANY = 8  # delays by Python that ask for fewer ops
_CALL_CHARS = 28

_KEYS = {
    Cause.PYTHON: "graph_python",
    Cause.WAIT: "graph_waits",
    Cause.LATENCY: "graph_latency",
}


def conclude(trace: Trace, graph: Graph, late: Sequence[LateNode]) -> Conclusion:
    """What decides, and at most three answers."""
    found = _Answers(trace, graph, late)
    every = [*found.waits(), *found.python(), *found.streams(), *found.held()]
    worth = [answer for answer in every if _gain_ns(answer) >= LEAST_FRAC * graph.elapsed_ns]
    first = tuple(sorted(worth, key=_gain_ns, reverse=True)[:MOST_ANSWERS])
    slowed = found.cause is Cause.PYTHON and graph.elapsed_ns < SLOWED_NS * len(graph.nodes)
    warning = phrase("Recording each operator slows Python: compare with a timeline of the cell")
    return Conclusion(found.decides, first, (warning,) if slowed else ())


def _gain_ns(answer: Proposal) -> int:
    return (answer.before_ns or 0) - (answer.after_ns or 0)


class _Answers:
    def __init__(self, trace: Trace, graph: Graph, late: Sequence[LateNode]) -> None:
        self._graph, self._late = graph, late
        self._delays = Delays(trace, graph)
        self._is_slow = graph.elapsed_ns - graph.possible_ns >= LOST_FRAC * graph.elapsed_ns

    @property
    def decides(self) -> str:
        """Python, its waits, the order of a stream, the critical path, or a lane: one sentence."""
        graph = self._graph
        elapsed = units.duration(graph.elapsed_ns)
        if not self._is_slow:
            if graph.span_ns >= CHAIN_FRAC * graph.elapsed_ns:
                return decides("graph_path", time=units.duration(graph.span_ns), total=elapsed)
            lane, work_ns = self._fullest_lane()
            if work_ns >= CHAIN_FRAC * graph.elapsed_ns:
                return decides("graph_lane", lane=lane, time=units.duration(work_ns), total=elapsed)
            return decides("graph_both", total=elapsed, time=units.duration(graph.possible_ns))
        if self.cause is not None:
            return decides(_KEYS[self.cause], total=elapsed, time=units.duration(self._delays.ns_of[self.cause]))
        key = "graph_stream" if any(row.because == HELD for row in self._late) else "graph_order"
        return decides(key, total=elapsed, time=units.duration(graph.elapsed_ns - graph.possible_ns))

    @property
    def cause(self) -> Cause | None:
        """What most of the lost time is due to; None where little is lost, or to the order of ops in a lane."""
        cause = max(Cause, key=self._delays.ns_of.__getitem__)
        lost_ns = self._graph.elapsed_ns - self._graph.possible_ns
        return cause if self._is_slow and 2 * self._delays.ns_of[cause] >= lost_ns else None

    def waits(self) -> Iterator[Proposal]:
        """Each line whose waits keep Python from queueing what could run."""
        by_line: dict[tuple[int, str, str], list[Delay]] = defaultdict(list)
        for delay in self._delays.every:
            if delay.wait is not None:
                by_line[delay.wait.line, delay.wait.function, delay.wait.name].append(delay)
        for (line, function, name), delays in by_line.items():
            here = line, function, name
            same = [wait for wait in self._delays.waits if (wait.line, wait.function, wait.name) == here]
            call = _at(name, line, function)
            n, blocked = len(same), units.duration(sum(wait.end_ns - wait.start_ns for wait in same))
            said = (
                headline("sync", call=call, n=units.count(n))
                if n > 1
                else headline("sync_once", call=call, time=blocked)
            )
            yield self._proposal(said, self._instead(same, delays), line, function, sum(delay.ns for delay in delays))

    def _instead(self, waits: Sequence[Wait], delays: Sequence[Delay]) -> str:
        """What to do about the waits of a line."""
        lane, line = waits[0].lane, waits[0].line
        if lane.startswith(f"{HOST} →"):
            return action("pin")
        if "→" in lane and not lane.endswith(HOST):
            return action("non_blocking")
        if len(waits) > 1:
            return action("read_later") if lane else action("sync_later")
        later = self._graph.nodes[max(delays, key=lambda delay: delay.ns).node]
        if later.line and line and (later.function, later.line) != (waits[0].function, line):
            return action("queue_before", place=_place(later), line=line)
        return action("sync_later")

    def python(self) -> Iterator[Proposal]:
        """The line whose operators Python queues too late."""
        by_place: dict[tuple[int, str], list[Delay]] = defaultdict(list)
        for delay in self._delays.every:
            node = self._graph.nodes[delay.node]
            if delay.cause is Cause.PYTHON and node.line:
                by_place[node.line, node.function].append(delay)
        if not by_place:
            return
        (line, function), delays = max(by_place.items(), key=lambda item: sum(delay.ns for delay in item[1]))
        total_ns = sum(delay.ns for delay in delays)
        longest = max(delays, key=lambda delay: delay.ns)
        node = self._graph.nodes[longest.node]
        if 2 * longest.ns >= total_ns:
            name = _at(f"`{node.name}`", line, function)
            said = headline("called_late", name=name, time=units.duration(longest.ns))
            yield self._proposal(said, action("call_earlier"), line, function, longest.ns)
        elif len(delays) >= MANY:
            n = count_things(len(delays), "op")
            said = headline("many_called_late", n=n, place=_place(node), time=units.duration(total_ns))
            yield self._proposal(said, action("fewer_ops", line=line), line, function, total_ns)

    def streams(self) -> Iterator[Proposal]:
        """Two operators that share a lane of a device and do not depend on each other, where that lane decides."""
        graph = self._graph
        lane, work_ns = self._fullest_lane()
        is_device = lane != HOST and not lane.startswith(f"{HOST},") and "→" not in lane
        if self._is_slow or not is_device or work_ns < CHAIN_FRAC * graph.elapsed_ns:
            return
        pair = self._independent(lane)
        if pair is None:
            return
        gain_ns = min(node.duration_ns for node in pair)
        if gain_ns < LOST_FRAC * graph.elapsed_ns:
            return
        a, b = sorted(pair, key=lambda node: node.number)
        said = phrase("{a} and {b}", a=_at(f"`{a.name}`", a.line, a.function), b=_at(f"`{b.name}`", b.line, b.function))
        yield self._proposal(
            headline("independent", pair=said), action("two_streams"), b.line, b.function, gain_ns, graph.span_ns
        )

    def _independent(self, lane: str) -> tuple[GraphNode, GraphNode] | None:
        """The operator on the critical path and the one beside it that could overlap longest."""
        graph = self._graph
        # the user has no say in which stream autograd's threads queue an op
        thread = graph.placed[0].op.thread
        own = [node for node, placed in zip(graph.nodes, graph.placed, strict=True) if placed.op.thread == thread]
        beside = [node for node in own if node.lane == lane and not node.longest]
        best: tuple[GraphNode, GraphNode] | None = None
        for node in sorted(beside, key=lambda node: -node.duration_ns)[:MANY]:
            related = graph.related(node.number)
            free = [other for other in own if other.longest and other.lane == lane and other.number not in related]
            free = [other for other in free if (other.line, other.function) != (node.line, node.function)]
            if not free:
                continue
            pair = max(free, key=lambda other: other.duration_ns), node
            if best is None or min(n.duration_ns for n in pair) > min(n.duration_ns for n in best):
                best = pair
        return best

    def held(self) -> Iterator[Proposal]:
        """The operator that other ops of its stream delayed most."""
        row = next((row for row in self._late if row.because == HELD), None)
        if row is None:
            return
        said = headline("held", name=_at(f"`{row.name}`", row.line, row.function), time=units.duration(row.earlier_ns))
        do = action("prefetch") if row.lane.startswith(f"{HOST} →") else action("own_stream")
        yield self._proposal(said, do, row.line, row.function, row.lost_ns)

    def _proposal(
        self, fact: str, do: str, line: int, function: str, gain_ns: int, least_ns: int | None = None
    ) -> Proposal:
        """An answer whose gain is a bound: no less than the dependencies allow."""
        graph = self._graph
        after_ns = max(graph.possible_ns if least_ns is None else least_ns, graph.elapsed_ns - gain_ns)
        return Proposal(fact, do, line, function, before_ns=graph.elapsed_ns, after_ns=after_ns, at_most=True)

    def _fullest_lane(self) -> tuple[str, int]:
        work_ns: dict[str, int] = defaultdict(int)
        for node in self._graph.nodes:
            work_ns[node.lane] += node.duration_ns
        return max(work_ns.items(), key=lambda item: item[1])


def _at(name: str, line: int, function: str) -> str:
    """A name with its line."""
    short = name if len(name) <= _CALL_CHARS else name[: _CALL_CHARS - 2] + "…`"
    if not line:
        return short
    within = function.rpartition(".")[2]
    if within and len(within) <= _CALL_CHARS // 2:
        return phrase("{name} on line {line} of {function}", name=short, line=line, function=within)
    return phrase("{name} on line {line}", name=short, line=line)


def _place(node: GraphNode) -> str:
    """The line of an operator."""
    within = node.function.rpartition(".")[2]
    if within and len(within) <= _CALL_CHARS // 2:
        return phrase("line {line} of {function}", line=node.line, function=within)
    return phrase("line {line}", line=node.line)
