"""Which operator needs which, by the memory each reads and writes; what could have run at once, and what did."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from perfmagic.analysis.graph.nodes import DISPLAY_NAMES, GraphNode, Placed, place_of, placed_nodes
from perfmagic.trace.columns import SeenOp, Use
from perfmagic.trace.model import Trace
from perfmagic.trace.rows import Rows

DATA, MEMORY = "data", "memory"


class Need(NamedTuple):
    """A dependency: an operator cannot start before another one has ended.

    kind: DATA if it reads what the other wrote; MEMORY if it overwrites what the other reads or wrote.
    size_bytes: of the shared memory, an upper bound if views have gaps.
    """

    kind: str
    size_bytes: int


Needs = list[dict[int, Need]]  # for each node the earlier nodes that it depends on


_FEW = 8  # ranges that are looked through one by one


class _Ranges:
    """Byte ranges of one storage and the nodes that touched them.

    Where there are more than a few, they are grouped by the bit length of their size and sorted by first byte. A range
    of a group that overlaps some bytes starts at most 2 ** bits before them.
    """

    __slots__ = ("_few", "_kinds")

    def __init__(self) -> None:
        self._few: list[tuple[int, int, int]] | None = []  # low, high, node
        self._kinds: dict[int, tuple[list[int], list[tuple[int, int]]]] = {}  # first bytes; high and node

    def add(self, low: int, high: int, node: int) -> None:
        if self._few is None:
            self._sort_in(low, high, node)
            return
        self._few.append((low, high, node))
        if len(self._few) > _FEW:
            few, self._few = self._few, None
            for each in few:
                self._sort_in(*each)

    def _sort_in(self, low: int, high: int, node: int) -> None:
        kind = self._kinds.get((high - low).bit_length())
        if kind is None:
            kind = self._kinds[(high - low).bit_length()] = [], []
        lows, rest = kind
        at = bisect_right(lows, low)
        lows.insert(at, low)
        rest.insert(at, (high, node))

    def overlapping(self, low: int, high: int) -> list[tuple[int, int]]:
        """The nodes that touched bytes of a range, and how many bytes overlap."""
        if self._few is not None:
            return sorted(
                (node, min(high, end) - max(low, begin)) for begin, end, node in self._few if low < end and begin < high
            )
        touched = []
        for bits, (lows, rest) in self._kinds.items():
            for at in range(bisect_right(lows, low - (1 << bits)), bisect_left(lows, high)):
                end, node = rest[at]
                if low < end and lows[at] < high:
                    touched.append((node, min(high, end) - max(low, lows[at])))
        return sorted(touched)

    def drop_within(self, low: int, high: int) -> None:
        """Forget the ranges that a range covers."""
        if self._few is not None:
            self._few = [each for each in self._few if each[0] < low or each[1] > high]
            return
        for lows, rest in self._kinds.values():
            first, last = bisect_left(lows, low), bisect_right(lows, high)
            kept = [i for i in range(first, last) if rest[i][0] > high]
            if len(kept) < last - first:
                lows[first:last], rest[first:last] = [lows[i] for i in kept], [rest[i] for i in kept]


def needs_of(ops: Sequence[SeenOp]) -> Needs:
    """For each operator the earlier ones that it depends on, as indices into `ops`, which are in order of their start.

    Memory is compared as byte ranges: two views of one storage with overlapping ranges count as sharing memory, even if
    their elements interleave, as columns do.
    """
    writers: dict[int, _Ranges] = {}
    readers: dict[int, _Ranges] = {}
    needs: Needs = []
    for node, op in enumerate(ops):
        needed: dict[int, Need] = {}
        for storage, low, high, reads, _ in op.uses:
            if reads and storage in writers:
                _add(needed, DATA, writers[storage].overlapping(low, high))
        written = [(storage, low, high) for storage, low, high, _, writes in op.uses if writes]
        for storage, low, high in written:
            for table in (readers, writers):
                if storage in table:
                    _add(needed, MEMORY, table[storage].overlapping(low, high))
        _note(writers, readers, op.uses, node)
        needs.append(needed)
    return needs


def _note(writers: dict[int, _Ranges], readers: dict[int, _Ranges], uses: Iterable[Use], node: int) -> None:
    """Note what a node touched. No later one depends on what it has completely overwritten."""
    for storage, low, high, reads, writes in uses:
        if writes:
            for table in (writers, readers):
                if storage in table:
                    table[storage].drop_within(low, high)
        if writes or reads:
            table = writers if writes else readers
            ranges = table.get(storage)
            if ranges is None:
                ranges = table[storage] = _Ranges()
            ranges.add(low, high, node)


def _add(needed: dict[int, Need], kind: str, touched: Iterable[tuple[int, int]]) -> None:
    for node, size in touched:
        old = needed.get(node)
        if old is None:
            needed[node] = Need(kind, size)
        elif old.kind == kind:
            needed[node] = Need(kind, max(size, old.size_bytes))


MOST_REDUCED = 3000  # operators: the time is quadratic


def without_implied(needs: Needs) -> Needs:
    """The needs without MEMORY needs that others imply; unchanged above MOST_REDUCED operators."""
    if len(needs) > MOST_REDUCED:
        return needs
    before = ancestors(needs)
    kept: Needs = []
    for needed in needs:
        implied = 0
        for node in needed:
            implied |= before[node]
        kept.append({node: need for node, need in needed.items() if need.kind == DATA or not implied >> node & 1})
    return kept


def ancestors(needs: Sequence[dict[int, Need]]) -> list[int]:
    """For each node an integer with a bit for every node that it depends on, directly or not."""
    bits_of: list[int] = []
    for needed in needs:
        bits = 0
        for node in needed:
            bits |= bits_of[node] | 1 << node
        bits_of.append(bits)
    return bits_of


# How long a graph of needs takes at least: its longest chain, and one op at a time in each lane.


def longest_chain(needs: Sequence[Iterable[int]], duration_ns: Sequence[int]) -> tuple[int, list[int]]:
    """The longest chain of needs, in ns, and its nodes in order; (0, []) without nodes.

    needs: for each node nodes before it.  Also called the span, or the critical path of the graph.
    """
    best: list[int] = []
    by: list[int] = []
    for node, needed in enumerate(needs):
        last = max(needed, key=best.__getitem__, default=-1) if needed else -1
        by.append(last)
        best.append(duration_ns[node] + (best[last] if last >= 0 else 0))
    if not best:
        return 0, []
    at = max(range(len(best)), key=lambda node: best[node])
    length, chain = best[at], []
    while at >= 0:
        chain.append(at)
        at = by[at]
    return length, chain[::-1]


def schedule(needs: Sequence[Iterable[int]], duration_ns: Sequence[int], lane: Sequence[int]) -> tuple[list[int], int]:
    """When each node begins, and when the last has ended, if lanes do one node at a time and wait for needs alone.

    List scheduling (R. L. Graham 1966: at most twice as long as the best for lanes that are alike), with two rules for
    the node that comes first of those that are ready in a lane: the longest rest of a chain, or the order of calls. The
    first sends short nodes behind long ones, so that in a pipeline the next lane starts late; the second does not. The
    shorter schedule is given. Times in ns from 0.
    """
    rest = list(duration_ns)
    for node in range(len(rest) - 1, -1, -1):
        for before in needs[node]:
            rest[before] = max(rest[before], duration_ns[before] + rest[node])
    work = Counter[int]()
    for number, ns in zip(lane, duration_ns, strict=True):
        work[number] += ns
    by_rest = _scheduled(needs, duration_ns, lane, [-rest_ns for rest_ns in rest])
    if by_rest[1] == max([0, *rest, *work.values()]):
        return by_rest  # as long as a chain or a lane takes: none is shorter
    by_call = _scheduled(needs, duration_ns, lane, range(len(rest)))
    return min(by_rest, by_call, key=lambda scheduled: scheduled[1])


def _scheduled(
    needs: Sequence[Iterable[int]], duration_ns: Sequence[int], lane: Sequence[int], order: Sequence[int]
) -> tuple[list[int], int]:
    if len(set(lane)) == 1:
        return _one_by_one(needs, duration_ns, order)
    work = _Waiting(needs, lane, order)
    start = [0] * len(needs)
    ends: list[tuple[int, int]] = []  # of what runs
    now = 0
    while True:
        for node in work.begun():
            start[node] = now
            heapq.heappush(ends, (now + duration_ns[node], node))
        if not ends:
            return start, now
        now = ends[0][0]
        while ends and ends[0][0] == now:
            work.end(heapq.heappop(ends)[1])


def _one_by_one(
    needs: Sequence[Iterable[int]], duration_ns: Sequence[int], order: Sequence[int]
) -> tuple[list[int], int]:
    """The same where all nodes share a lane."""
    missing, after = _links(needs)
    ready = [(order[node], node) for node, n in enumerate(missing) if not n]
    heapq.heapify(ready)
    start, now = [0] * len(after), 0
    while ready:
        node = heapq.heappop(ready)[1]
        start[node] = now
        now += duration_ns[node]
        for waiting in after[node]:
            missing[waiting] -= 1
            if not missing[waiting]:
                heapq.heappush(ready, (order[waiting], waiting))
    return start, now


def _links(needs: Sequence[Iterable[int]]) -> tuple[list[int], list[list[int]]]:
    """Of each node how many it needs, and which need it."""
    missing: list[int] = []
    after: list[list[int]] = [[] for _ in needs]
    for node, needed in enumerate(map(set, needs)):
        missing.append(len(needed))
        for before in needed:
            after[before].append(node)
    return missing, after


class _Waiting:
    """The nodes that have not begun, and which lanes are free; the least of `order` comes first."""

    def __init__(self, needs: Sequence[Iterable[int]], lane: Sequence[int], order: Sequence[int]) -> None:
        self._lane = lane
        self._order = order
        self._missing, self._after = _links(needs)
        self._ready: dict[int, list[tuple[int, int]]] = {number: [] for number in lane}
        self._busy: set[int] = set()
        for node, n in enumerate(self._missing):
            if not n:
                self._add(node)

    def begun(self) -> Iterable[int]:
        """One node for each lane that is free and has one that is ready."""
        for lane, ready in self._ready.items():
            if ready and lane not in self._busy:
                self._busy.add(lane)
                yield heapq.heappop(ready)[1]

    def end(self, node: int) -> None:
        """A node has ended: its lane is free, and what needed it lacks one less."""
        self._busy.discard(self._lane[node])
        for waiting in self._after[node]:
            self._missing[waiting] -= 1
            if not self._missing[waiting]:
                self._add(waiting)

    def _add(self, node: int) -> None:
        heapq.heappush(self._ready[self._lane[node]], (self._order[node], node))


def earlier_by(
    needs: Sequence[Iterable[int]], start_ns: Sequence[int], end_ns: Sequence[int], lane: Sequence[int]
) -> list[int]:
    """By how much each node could have begun earlier: all that it needs had ended, and its lane was free.

    Counted from the first node's start. In ns; the others stay where they were.
    """
    earlier_ns = [0] * len(start_ns)
    if not earlier_ns:
        return earlier_ns
    first = min(start_ns)
    free: dict[int, int] = {}
    for node in sorted(range(len(earlier_ns)), key=start_ns.__getitem__):
        lane_ns = ready_ns = free.get(lane[node], first)
        for before in needs[node]:
            ready_ns = max(ready_ns, end_ns[before])
        earlier_ns[node] = max(0, start_ns[node] - ready_ns)
        free[lane[node]] = max(lane_ns, end_ns[node])
    return earlier_ns


@dataclass(frozen=True, eq=False)
class Graph:
    """The operators of a record and what each needs.

    nodes: in order of their calls.  needs: of each node the nodes before it.  placed: what the nodes were made from.
    lanes: in the order of pictures.  lane: of each node, row of lanes.
    work_ns: the time of all nodes.  span_ns: of the longest chain of needs, `chain`.  elapsed_ns: from the first start
    to the last end.  possible_ns: as long it takes where needs alone are waited for, one op at a time in each lane;
    planned_ns: when each node begins then, from 0.  n_unseen: device ops that no operator launched.
    Source: docs/words.md, "work", "span", "lane".
    """

    nodes: tuple[GraphNode, ...]
    needs: Needs
    placed: tuple[Placed, ...]
    lanes: tuple[str, ...]
    lane: tuple[int, ...]
    work_ns: int
    span_ns: int
    chain: tuple[int, ...]
    elapsed_ns: int
    possible_ns: int
    planned_ns: tuple[int, ...]
    n_unseen: int

    @property
    def start_ns(self) -> int:
        """When the first node began."""
        return min(node.start_ns for node in self.nodes)

    def related(self, node: int) -> set[int]:
        """The nodes that a node depends on, directly or not, and those that depend on it."""
        after = {node}
        for number in range(node + 1, len(self.needs)):  # a node comes after what it depends on
            if not after.isdisjoint(self.needs[number]):
                after.add(number)
        before, left = {node}, [node]
        while left:
            new = set(self.needs[left.pop()]) - before
            before |= new
            left += new
        return before | after


def graph_of(trace: Trace, seen: Sequence[SeenOp]) -> Graph:
    """The graph of a recording. What was executed is one possible order: possible_ns is never more than elapsed_ns."""
    placed_ops = placed_nodes(trace, seen)
    placed = placed_ops.nodes
    needs = without_implied(needs_of([node.op for node in placed]))
    lanes = sorted({node.lane for node in placed}, key=_rank)
    rank = {name: number for number, name in enumerate(lanes)}
    lane = [rank[node.lane] for node in placed]
    duration = [node.duration_ns for node in placed]
    start, end = [node.start_ns for node in placed], [node.end_ns for node in placed]
    span, chain = longest_chain(needs, duration)
    planned, possible = schedule(needs, duration, lane)
    elapsed = max(end, default=0) - min(start, default=0)
    if possible > elapsed:
        planned, possible = [start_ns - min(start) for start_ns in start], elapsed
    earlier = earlier_by(needs, start, end, lane)
    return Graph(
        nodes=tuple(_nodes(trace, placed, duration, earlier, chain)),
        needs=needs,
        placed=placed,
        lanes=tuple(lanes),
        lane=tuple(lane),
        work_ns=sum(duration),
        span_ns=span,
        chain=tuple(chain),
        elapsed_ns=elapsed,
        possible_ns=possible,
        planned_ns=tuple(planned),
        n_unseen=placed_ops.n_unseen,
    )


def _nodes(
    trace: Trace, placed: Sequence[Placed], duration_ns: Sequence[int], earlier_ns: Sequence[int], chain: Sequence[int]
) -> Iterator[GraphNode]:
    on_chain = set(chain)
    places: dict[tuple[int, int], tuple[int, str]] = {}
    for number, node in enumerate(placed):
        op, here = node.op, (node.path, node.cell_line)
        if here not in places:
            places[here] = place_of(trace, node)
        yield GraphNode(
            number,
            DISPLAY_NAMES.get(op.name) or op.name.lstrip("_"),
            op.name,
            node.lane,
            duration_ns[number],
            node.start_ns,
            node.end_ns,
            op.start_ns,
            len(node.rows),
            op.shape,
            *places[here],
            earlier_ns[number],
            number in on_chain,
        )


def _rank(lane: str) -> tuple[bool, str, int, str]:
    """The host first, then each device: copies to it, its own ops, copies from it."""
    ends = lane.partition(",")[0].split(" → ")
    device = next((end for end in ends if end != "cpu"), "")
    way = 1 if len(ends) == 1 else 0 if ends[0] == "cpu" else 2
    return device != "", device, way, lane


# The table of a graph's needs.


@dataclass(frozen=True)
class GraphEdge:
    """One need: the node `of` cannot begin before `needs` has ended; both are numbers of nodes.

    kind: "data" where it reads what that one wrote, "memory" where it overwrites what that one reads or wrote.
    size_bytes: of the piece of memory, at most.
    """

    needs: int
    of: int
    kind: str
    size_bytes: int
    needs_name: str
    of_name: str

    shown: ClassVar[tuple[str, ...]] = ("needs", "needs_name", "of", "of_name", "kind", "size_bytes")


def edges(graph: Graph) -> Rows[GraphEdge]:
    """Every need of every node."""
    names = [node.name for node in graph.nodes]
    rows = [
        GraphEdge(before, of, need.kind, need.size_bytes, names[before], names[of])
        for of, needed in enumerate(graph.needs)
        for before, need in sorted(needed.items())
    ]
    return Rows(rows, GraphEdge)
