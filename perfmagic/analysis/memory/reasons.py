"""Why was a block alive: the first of these reasons that holds.

1. A parameter, buffer, gradient or an optimizer's state: found through a module or an optimizer. Whole parameters or
   gradients of a sharded layer: allocated inside of fully_shard().
2. Kept for the backward of a line: allocated in the forward pass, freed inside a backward node, which that line made.
3. Backward of a line: made inside a backward node.
4. Kept by the graph of a variable: saved in it at the end, with no backward pass; then blocks like those, of earlier
   rounds.
5. Held by a variable, an output, the traceback of the last error.
6. Kept by a graph or a result: of a cell without a backward pass, allocated by an op that made a node, and freed after
   its function had returned.
7. Temporary: freed while the visit of its line lasted. Until its function returned, or until line M: later.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.memory.ledger import Ledger
from perfmagic.analysis.memory.visits import NOT_VISITED
from perfmagic.analysis.timeline.paths import forward_paths
from perfmagic.base.language import chained, phrase
from perfmagic.trace.columns import NONE, BlockRole, Bool
from perfmagic.trace.model import SNAPSHOT
from perfmagic.trace.paths import NOWHERE, UserFunction


class Why(enum.Enum):
    """The reasons, in the order in which they are tried."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    GRADIENT = "gradient"
    OPTIMIZER = "optimizer state"
    GATHERED = "gathered"
    KEPT = "kept for the backward"
    BACKWARD = "backward"
    GRAPH = "kept by the graph"
    HELD = "held"
    OUTLIVED = "kept by a graph or a result"
    TEMPORARY = "temporary"
    RETURNED = "until its function returned"
    UNTIL = "until a later line"
    ALIVE = "alive at the end"


_BY_ROLE = {
    BlockRole.PARAMETER: Why.PARAMETER,
    BlockRole.BUFFER: Why.BUFFER,
    BlockRole.GRADIENT: Why.GRADIENT,
    BlockRole.OPTIMIZER: Why.OPTIMIZER,
    BlockRole.GATHERED: Why.GATHERED,
}


@dataclass(frozen=True)
class Reason:
    """Why a block was alive.

    path: of the line that the reason names, NOWHERE where it names none.  holder: what holds it, or its name.
    """

    why: Why
    path: int = NOWHERE
    holder: str = ""


def reasons(ledger: Ledger) -> list[Reason]:
    """The reason of each block; in the order of the ledger's blocks."""
    rules, temporary = _Reasons(ledger), Reason(Why.TEMPORARY)
    is_temporary = _is_temporary(ledger).tolist()  # most are
    return rules.with_graphs([temporary if plain else rules.of_block(row) for row, plain in enumerate(is_temporary)])


def _is_temporary(ledger: Ledger) -> Bool:
    """Which blocks were freed while the visit of their line lasted: none that is held, or of a backward node."""
    blocks, visit = ledger.blocks, ledger.visit
    alone = (blocks.role == BlockRole.UNKNOWN) & (blocks.node == NONE) & (blocks.free_node == NONE)
    freed = (blocks.free_order != NONE) & (blocks.free_ns < ledger.visits.end_ns[visit])
    return np.asarray(alone & freed & (visit != NOT_VISITED))


class ForwardLines:
    """The lines that made the nodes of autograd, by the numbers that it gave them.

    A node takes the next number of its thread just before its op runs: the first block with that number is the op's.
    Two forward threads number their nodes separately: of two nodes the latest before counts.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._of: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        blocks, path = ledger.blocks, ledger.path
        made = (blocks.newest_sequence != NONE) & (blocks.node == NONE) & ~ledger.before
        seen: set[tuple[int, int]] = set()
        for row in np.flatnonzero(made).tolist():
            key = int(blocks.thread[row]), int(blocks.newest_sequence[row])
            if key not in seen:
                seen.add(key)
                self._of[key[1]].append((int(blocks.order[row]), int(path[row])))

    def path(self, sequence: int, before: int) -> int:
        """The line of a node that ran at a place in the sequence; NOWHERE where it is not known."""
        known = [path for order, path in self._of.get(sequence, ()) if order < before]
        return known[-1] if known else NOWHERE


def _made_nodes(ledger: Ledger) -> frozenset[int]:
    """The blocks of ops that made nodes of autograd: the first with each number.

    Not with the first number of a thread: that node may be older than the record.
    """
    blocks = ledger.blocks
    newest: dict[int, int] = {}
    rows = []
    recorded = np.flatnonzero((blocks.newest_sequence != NONE) & ~ledger.before)
    by = recorded[np.argsort(ledger.order[recorded], kind="stable")]
    columns = (by, blocks.thread[by], blocks.newest_sequence[by])
    for row, thread, number in zip(*(column.tolist() for column in columns), strict=True):
        if number > newest.setdefault(thread, number):
            newest[thread] = number
            rows.append(row)
    return frozenset(rows)


class BackwardOps:
    """The forward lines of backward ops, for nodes whose op allocated nothing, as one in place does not."""

    def __init__(self, ledger: Ledger) -> None:
        trace = ledger.trace
        path = forward_paths(trace)
        known = np.flatnonzero(path != NOWHERE)
        launched = trace.launch_start_ns(known)
        by = np.argsort(launched, kind="stable")
        self._at, self._path = launched[by], path[known][by]
        launch = trace.ops.launch[known][by]
        thread = trace.calls.thread
        self._thread = np.where(launch != NONE, thread[launch], NONE) if len(thread) else np.full(len(by), NONE)

    def path_before(self, thread: int, at_ns: int) -> int:
        """The forward line of the last backward op that a thread had queued; NOWHERE where there is none."""
        return self._path_from(int(np.searchsorted(self._at, at_ns, side="right")) - 1, -1, thread)

    def path_after(self, thread: int, at_ns: int) -> int:
        """The same of the next one: memory is allocated just before the op that writes it is queued."""
        return self._path_from(int(np.searchsorted(self._at, at_ns, side="left")), 1, thread)

    def _path_from(self, row: int, step: int, thread: int) -> int:
        while 0 <= row < len(self._at):
            if self._thread[row] == thread:
                return int(self._path[row])
            row += step
        return NOWHERE


class _Reasons:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._lines, self._ops = ledger, ForwardLines(ledger), BackwardOps(ledger)
        self._blocks = ledger.blocks
        self._names = ledger.trace.names
        self._makers = frozenset() if (ledger.blocks.node != NONE).any() else _made_nodes(ledger)

    def of_block(self, row: int) -> Reason:
        blocks = self._blocks
        role = BlockRole(int(blocks.role[row]))
        holder = self._names[blocks.holder[row]] if blocks.holder[row] != NONE else ""
        if role in _BY_ROLE:
            return Reason(_BY_ROLE[role], holder=holder)
        in_backward = blocks.node[row] != NONE
        if not in_backward and blocks.free_node[row] != NONE:
            path = self._lines.path(int(blocks.free_sequence[row]), int(blocks.free_order[row]))
            return Reason(
                Why.KEPT, path or self._ops.path_before(int(blocks.free_thread[row]), int(blocks.free_ns[row]))
            )
        if in_backward:
            path = self._lines.path(int(blocks.node_sequence[row]), int(blocks.order[row]))
            if path == NOWHERE and blocks.node_sequence[row] != NONE:  # NONE: of a parameter, which no line has made
                path = self._ops.path_after(int(blocks.thread[row]), int(blocks.alloc_ns[row]))
            return Reason(Why.BACKWARD, path)
        if role is BlockRole.GRAPH:
            return Reason(Why.GRAPH, holder=holder)
        if role is BlockRole.HELD:
            return Reason(Why.HELD, holder=holder)
        return self._by_lifetime(row)

    def _by_lifetime(self, row: int) -> Reason:
        ledger = self._ledger
        if self._blocks.free_order[row] == NONE:
            return Reason(Why.ALIVE)
        visit = int(ledger.visit[row])
        freed = int(ledger.free_visit[row])
        outlived = visit != NOT_VISITED and row in self._makers and self._has_returned(row, visit)
        if freed == NOT_VISITED:
            return Reason(Why.OUTLIVED if outlived else Why.UNTIL)
        if outlived:
            return Reason(Why.OUTLIVED, self._seen_from(int(ledger.visits.root[visit]), freed))
        if visit != NOT_VISITED and freed == int(ledger.visits.caller[visit]):
            return Reason(Why.RETURNED)
        return Reason(Why.UNTIL, self._seen_from(int(ledger.visits.root[visit]) if visit else NOT_VISITED, freed))

    def _has_returned(self, row: int, visit: int) -> bool:
        """Whether the function that made a block had returned when it came back."""
        visits = self._ledger.visits
        in_function = int(visits.caller[visit]) != NOT_VISITED
        return in_function and bool(visits.call_end_ns[visit] < self._blocks.free_ns[row])

    def _seen_from(self, root: int, freed: int) -> int:
        """The line that gave a block back, as the cell sees it where that is another statement of the cell's."""
        visits = self._ledger.visits
        outermost = int(visits.root[freed])
        return int(visits.path[freed if outermost == root else outermost])

    def with_graphs(self, first: list[Reason]) -> list[Reason]:
        """The reasons, with blocks of earlier iterations kept by graphs as those of the last one, by line and size."""
        path, size = self._ledger.path, self._blocks.size_bytes
        kept = {
            (int(path[row]), int(size[row])): reason
            for row, reason in enumerate(first)
            if reason.why is Why.GRAPH and not self._ledger.before[row]
        }
        if not kept:
            return first
        lived = (Why.OUTLIVED, Why.RETURNED, Why.UNTIL, Why.ALIVE)
        return [
            kept.get((int(path[row]), int(size[row])), reason) if reason.why in lived else reason
            for row, reason in enumerate(first)
        ]


# Lines and reasons as text.

BEFORE = phrase("before the cell")
_PLURALS = {
    Why.PARAMETER: phrase("parameters"),
    Why.BUFFER: phrase("buffers"),
    Why.GRADIENT: phrase("gradients"),
    Why.OPTIMIZER: phrase("optimizer state"),
    Why.GATHERED: phrase("whole parameters or gradients of a sharded layer"),
}


class Descriptions:
    """The lines and reasons of a ledger as text."""

    def __init__(self, ledger: Ledger, why: Sequence[Reason]) -> None:
        self._ledger, self.why = ledger, why
        self._paths = ledger.paths

    def line(self, path: int) -> int:
        return int(self._paths.line[path])

    def function(self, path: int) -> str:
        """The qualified name of the function a line is in; "" for the cell."""
        function = self._function(path)
        return "" if function is None or function.is_cell else function.name

    def code(self, path: int) -> str:
        function = self._function(path)
        if function is None:
            return ""
        cell = self._ledger.trace.cell
        return (cell if function.is_cell and cell is not None else function).text(self.line(path))

    @property
    def before(self) -> str:
        """Since when blocks existed that the recording did not see: before the cell, or the record."""
        return BEFORE if self._ledger.trace.cell is not None else phrase("before the record")

    def reason(self, row: int, *, rounds: bool = True) -> str:
        """Why a block was alive, and whether it is from before the recording.  rounds: or from an earlier round."""
        reason, path = self.why[row], int(self._ledger.path[row])
        if self._ledger.before[row]:
            named = self._describe(reason, path) if reason.why in (*_PLURALS, Why.GRAPH, Why.HELD) else ""
            return chained("{a}: {b}", (self.before, named))
        described = self._describe(reason, path)
        return (
            phrase("{why}, of an earlier iteration", why=described) if rounds and self._is_earlier(row) else described
        )

    def place(self, path: int, seen_from: int = NOWHERE) -> str:
        """A line's number, and its function unless `seen_from` is in the same one: line 4 of train_step."""
        function = self.function(path)
        same = seen_from != NOWHERE and self._paths.function[path] == self._paths.function[seen_from]
        if same or path == NOWHERE:
            return phrase("line {line}", line=self.line(path))
        if function:
            return phrase("line {line} of {function}", line=self.line(path), function=function)
        return phrase("line {line} of the cell", line=self.line(path))

    def _function(self, path: int) -> UserFunction | None:
        return None if path == NOWHERE else self._paths.functions[self._paths.function[path]]

    def _describe(self, reason: Reason, path: int) -> str:
        if reason.why in _PLURALS:
            return _PLURALS[reason.why]
        place = self.place(reason.path, path) if reason.path != NOWHERE else ""
        if reason.why is Why.KEPT:
            kept = phrase("kept for the backward of {place}", place=place)
            return kept if place else phrase("kept for the backward pass")
        if reason.why is Why.BACKWARD:
            return phrase("backward of {place}", place=place) if place else phrase("backward pass")
        if reason.why in (Why.UNTIL, Why.OUTLIVED):
            until = phrase("until {place}", place=place) if place else phrase("until later")
            return until if reason.why is Why.UNTIL else phrase("kept by a graph or a result, {until}", until=until)
        if reason.why is Why.GRAPH:
            return phrase("kept by the graph of {name}", name=_variable(reason.holder))
        if reason.why is Why.HELD:
            return phrase("held by {name}", name=_variable(reason.holder))
        return phrase(reason.why.value)

    def _is_earlier(self, row: int) -> bool:
        """Whether the cell visited its line again before the peak."""
        ledger = self._ledger
        visit = int(ledger.visit[row])
        if ledger.trace.meta.origin == SNAPSHOT:  # which does not say how long a line ran
            return False
        if visit == NOT_VISITED or not ledger.at_peak[row]:
            return False
        again = ledger.visits.next_of_line(int(ledger.visits.root[visit]))
        return again != NOT_VISITED and bool(ledger.visits.begin_ns[again] <= ledger.peak_ns)


def _variable(holder: str) -> str:
    """The variable of a holder, and the function that failed, whose frame holds it."""
    name, opened, where = holder.rpartition(" (") if holder.endswith(")") else (holder, "", "")
    return f"`{name if name.startswith('Out[') else name.split('[', maxsplit=1)[0]}`{opened}{where}"
