"""The nodes of a graph: every operator with the device ops that it launched, in its lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from perfmagic.base.numerics.intervals import union
from perfmagic.trace.columns import NO_LINE, NONE, Int64, SeenOp, lines_at
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.trace.paths import NOWHERE

HOST = "cpu"
DISPLAY_NAMES = {"_to_copy": "copy", "copy_": "copy", "_local_scalar_dense": ".item()"}
NEAR_NS = 20_000  # a launch this close to an operator belongs to it: clocks of profilers differ by some µs
_READS_FOR_PYTHON = frozenset({"_local_scalar_dense", "equal", "is_nonzero"})  # results are Python's own values


@dataclass(frozen=True)
class GraphNode:
    """One operator that ran.

    number: in the order of the calls.  name: "copy" for a copy, ".item()" for a read by Python, else torch's name.
    operator: torch's own name.  lane: what executed it: "cpu", a device, or a direction of copies.
    duration_ns: how long its device ops ran; without any, its call.  start_ns, end_ns: of the first and the last of
    them.  called_ns: when Python called it.  earlier_ns: how much earlier it could have started, with its
    dependencies done and its lane free.  longest: whether it is on the longest chain of dependencies.
    n_ops: its device ops.  shape: of its first result.  line: the line that called it, of the cell or of `function`.
    """

    number: int
    name: str
    operator: str
    lane: str
    duration_ns: int
    start_ns: int
    end_ns: int
    called_ns: int
    n_ops: int
    shape: tuple[int, ...]
    line: int
    function: str
    earlier_ns: int = 0
    longest: bool = False

    shown: ClassVar[tuple[str, ...]] = (
        *("number", "name", "lane", "duration_ns", "start_ns", "earlier_ns", "longest", "shape", "line", "function"),
    )


class Placed(NamedTuple):
    """A node before it is numbered: the operator, the rows of its device ops, its lane, and the lines that called it.

    busy_ns: start and end of each stretch in which they ran.
    colour: the OpClass of its longest device op, None on the host.  path: row of trace.paths.  cell_line, top_line: the
    cell's innermost and top-level statement; 0 without a cell.
    """

    op: SeenOp
    rows: tuple[int, ...]
    lane: str
    colour: OpClass | None
    busy_ns: tuple[tuple[int, int], ...]
    path: int
    cell_line: int
    top_line: int

    @property
    def start_ns(self) -> int:
        """When its first op began."""
        return self.busy_ns[0][0]

    @property
    def end_ns(self) -> int:
        """When its last op ended."""
        return self.busy_ns[-1][1]

    @property
    def duration_ns(self) -> int:
        """How long its ops ran."""
        return sum(end_ns - start_ns for start_ns, end_ns in self.busy_ns)


@dataclass(frozen=True)
class PlacedNodes:
    """All nodes in the order of their calls.  n_unseen: device ops that were launched outside of every operator."""

    nodes: tuple[Placed, ...]
    n_unseen: int


def placed_nodes(trace: Trace, seen: Sequence[SeenOp]) -> PlacedNodes:
    """Every operator that read or wrote data within the record, joined to its device ops by time and thread."""
    seen = [op for op in seen if trace.meta.start_ns <= op.start_ns < trace.meta.end_ns]
    owner = _owners(trace, seen)
    rows: dict[int, list[int]] = {}
    for row, node in enumerate(owner.tolist()):
        if node != NONE:
            rows.setdefault(node, []).append(row)
    kept = [i for i, op in enumerate(seen) if op.has_result or i in rows or op.name in _READS_FOR_PYTHON]
    lanes = _Lanes(trace, [seen[i] for i in kept], [rows.get(i, []) for i in kept])
    start = np.array([seen[i].start_ns for i in kept], np.int64)
    thread = np.array([seen[i].thread for i in kept], np.int64)
    path = trace.paths.at(thread, start) if trace.paths is not None else np.zeros(len(kept), np.int64)
    places = np.column_stack((path, lines_at(trace.marks, start), _top_lines_at(trace, start))).tolist()
    nodes = []
    for at, i in enumerate(kept):
        op, own_rows = seen[i], rows.get(i, [])
        busy_ns: tuple[tuple[int, int], ...] = ((op.start_ns, op.end_ns),)
        if own_rows:
            busy = union(trace.ops.start_ns[own_rows], trace.ops.end_ns[own_rows]).tolist()
            busy_ns = tuple((start_ns, end_ns) for start_ns, end_ns in busy)
        nodes.append(Placed(op, tuple(own_rows), lanes.lanes[at], lanes.classes[at], busy_ns, *places[at]))
    return PlacedNodes(tuple(nodes), int((owner == NONE).sum()))


def place_of(trace: Trace, node: Placed) -> tuple[int, str]:
    """The user's line that called a node, 0 for none, and the function of that line, "" for the cell."""
    if trace.paths is not None and node.path != NOWHERE:
        function = trace.paths.functions[trace.paths.function[node.path]]
        return int(trace.paths.line[node.path]), "" if function.is_cell else function.name
    return node.cell_line, ""


def _owners(trace: Trace, seen: Sequence[SeenOp]) -> Int64:
    """The operator that launched each device op, NONE for none; shape of trace.ops.

    Operators of one thread do not nest here: torch does not report the operators that an operator calls.
    """
    ops, calls = trace.ops, trace.calls
    owner = np.full(len(ops), NONE, np.int64)
    known = np.flatnonzero(ops.launch != NONE)
    if not len(known) or not len(seen):
        return owner
    at_ns, on = calls.start_ns[ops.launch[known]], calls.thread[ops.launch[known]]
    thread = np.array([op.thread for op in seen], np.int64)
    begin = np.array([op.start_ns for op in seen], np.int64)
    end = np.array([op.end_ns for op in seen], np.int64)
    for number in np.unique(on).tolist():
        operators = np.flatnonzero(thread == number)
        launches = np.flatnonzero(on == number)
        if not len(operators):
            continue
        last = np.searchsorted(begin[operators], at_ns[launches], side="right") - 1
        before, after = np.maximum(last, 0), np.minimum(last + 1, len(operators) - 1)
        # distance of a launch to the call before it and to the one after it; 0 inside
        late = np.where(last >= 0, np.maximum(0, at_ns[launches] - end[operators][before]), NEAR_NS + 1)
        soon = np.where(after > last, np.maximum(0, begin[operators][after] - at_ns[launches]), NEAR_NS + 1)
        nearest = np.where(late <= soon, operators[before], operators[after])
        owner[known[launches]] = np.where(np.minimum(late, soon) <= NEAR_NS, nearest, NONE)
    return owner


def _top_lines_at(trace: Trace, at_ns: Int64) -> Int64:
    marks = trace.marks
    if not len(marks):
        return np.full(len(at_ns), NO_LINE, np.int64)
    row = np.searchsorted(marks.at_ns, at_ns, side="right") - 1
    return np.where(row >= 0, marks.top_line[np.maximum(row, 0)], NO_LINE).astype(np.int64)


class _Lanes:
    """What executes one op at a time: a stream of a device, a direction of copies, a thread of the host.

    lanes: of each node.  classes: of what it did there.
    """

    def __init__(self, trace: Trace, seen: Sequence[SeenOp], rows: Sequence[Sequence[int]]) -> None:
        self._trace, self._seen, self._rows = trace, seen, rows
        self._classes = op_classes(trace)
        infos = {info.index: info for info in trace.meta.devices}
        kinds = [info.kind for info in infos.values()]
        first = {kind: min(i for i, info in infos.items() if info.kind == kind) for kind in kinds}
        self._names = {
            i: info.name
            if info.simulated
            else (info.kind if kinds.count(info.kind) == 1 else f"{info.kind}:{i - first[info.kind]}")
            for i, info in infos.items()
        }
        self.classes = [self._class(at) if of_node else None for at, of_node in enumerate(rows)]
        self._keys = [self._key(at) if rows[at] else (HOST, op.thread) for at, op in enumerate(seen)]
        self._streams: dict[str, set[int]] = {}
        for name, number in self._keys:
            self._streams.setdefault(name, set()).add(number)
        if not self._overlaps_on_host():
            self._streams[HOST] = {0}
        lanes = {key: self._lane(*key) for key in set(self._keys)}
        self.lanes = [lanes[key] for key in self._keys]

    def _lane(self, name: str, number: int) -> str:
        several = len(self._streams[name]) > 1
        unit = "thread" if name == HOST else "stream"
        place = sorted(self._streams[name]).index(number) if several else 0
        return f"{name}, {unit} {place}" if several and place else name

    def _class(self, at: int) -> OpClass:
        """The class of the longest device op of a node."""
        return OpClass(int(self._classes[self._longest(at)]))

    def _longest(self, at: int) -> int:
        ops = self._trace.ops
        return max(self._rows[at], key=lambda row: int(ops.end_ns[row] - ops.start_ns[row]))

    def _key(self, at: int) -> tuple[str, int]:
        ops, op_class, row = self._trace.ops, self.classes[at], self._longest(at)
        here = self._names.get(int(ops.device[row]), f"device {int(ops.device[row])}")
        directions = {OpClass.HTOD: f"{HOST} → {here}", OpClass.DTOH: f"{here} → {HOST}"}
        directions[OpClass.PTOP] = f"{here} → {self._seen[at].device}"
        return directions.get(op_class, here) if op_class is not None else here, int(ops.stream[row])

    def _overlaps_on_host(self) -> bool:
        """Whether calls of several threads overlapped; otherwise they share one lane."""
        spans = sorted(
            (op.start_ns, op.end_ns) for op, key in zip(self._seen, self._keys, strict=True) if key[0] == HOST
        )
        last = 0
        for start, end in spans:
            if start < last:
                return True
            last = max(last, end)
        return False
