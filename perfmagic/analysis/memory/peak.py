"""What was alive when the most was allocated, by line, function and reason; the rows add up to the peak."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from perfmagic.analysis.memory.ledger import Ledger
from perfmagic.analysis.memory.reasons import Reason, Why
from perfmagic.analysis.memory.stack import kind_of
from perfmagic.analysis.memory.visits import NOT_VISITED
from perfmagic.analysis.rows import Rows
from perfmagic.trace.columns import NONE, Bool
from perfmagic.trace.model import SNAPSHOT
from perfmagic.trace.paths import NOWHERE, UserFunction

BEFORE = "before the cell"
_PLURALS = {
    Why.PARAMETER: "parameters",
    Why.BUFFER: "buffers",
    Why.GRADIENT: "gradients",
    Why.OPTIMIZER: "optimizer state",
}


@dataclass(frozen=True)
class HeldBytes:
    """Blocks of one line with one reason.

    line: that allocated them, 0 where no line did.  function: its qualified name, "" for the cell.  code: the line's
    text.  reason: in words.  kind: of the reason, as pictures stack them.  n_blocks, size_bytes: of all, as the
    allocator gave them.  share_frac: of all rows.
    """

    line: int
    code: str
    reason: str
    n_blocks: int
    size_bytes: int
    share_frac: float
    function: str
    kind: str

    shown: ClassVar[tuple[str, ...]] = ("size_bytes", "share_frac", "n_blocks", "reason", "line", "code", "function")


@dataclass(frozen=True)
class MemoryBlock:
    """One block.

    size_bytes: as the allocator gave it.  line, function: that allocated it; 0 and "" where no line of the user's did.
    reason: why it was alive.  alloc_ns, free_ns: when; free_ns is None for what is alive at the end.  at_peak: whether
    it was alive when the most was.
    """

    size_bytes: int
    line: int
    function: str
    reason: str
    alloc_ns: int
    free_ns: int | None
    free_line: int
    before: bool
    at_peak: bool


class Words:
    """Lines and reasons of a ledger in words."""

    def __init__(self, ledger: Ledger, why: Sequence[Reason]) -> None:
        self._ledger, self.why = ledger, why
        self._paths = ledger.paths

    def line(self, path: int) -> int:
        return int(self._paths.line[path])

    def function(self, path: int) -> str:
        """The qualified name of the function a line is in; "" for the cell."""
        found = self._function(path)
        return "" if found is None or found.is_cell else found.name

    def code(self, path: int) -> str:
        found = self._function(path)
        if found is None:
            return ""
        cell = self._ledger.trace.cell
        return cell.text(self.line(path)) if found.is_cell and cell is not None else found.text(self.line(path))

    @property
    def before(self) -> str:
        """When what was there first came: before the cell, or the record."""
        return BEFORE if self._ledger.trace.cell is not None else "before the record"

    def reason(self, row: int) -> str:
        """Why a block was alive, after the fact that it was there before."""
        reason, path = self.why[row], int(self._ledger.path[row])
        if self._ledger.before[row]:
            named = self._words(reason, path) if reason.why in (*_PLURALS, Why.GRAPH, Why.HELD) else ""
            return f"{self.before}: {named}" if named else self.before
        words = self._words(reason, path)
        return f"{words}, of an earlier round" if self._is_earlier(row) else words

    def place(self, path: int, seen_from: int = NOWHERE) -> str:
        """A line's number, and its function where that is another one: line 4 of train_step."""
        of = self.function(path)
        same = seen_from != NOWHERE and self._paths.function[path] == self._paths.function[seen_from]
        if same or path == NOWHERE:
            return f"line {self.line(path)}"
        return f"line {self.line(path)} of {of}" if of else f"line {self.line(path)} of the cell"

    def _function(self, path: int) -> UserFunction | None:
        return None if path == NOWHERE else self._paths.functions[self._paths.function[path]]

    def _words(self, reason: Reason, path: int) -> str:
        if reason.why in _PLURALS:
            return _PLURALS[reason.why]
        place = self.place(reason.path, path) if reason.path != NOWHERE else ""
        if reason.why is Why.KEPT:
            return f"kept for the backward of {place}" if place else "kept for the backward pass"
        if reason.why is Why.BACKWARD:
            return f"backward of {place}" if place else "backward pass"
        if reason.why in (Why.UNTIL, Why.OUTLIVED):
            kept = "" if reason.why is Why.UNTIL else f"{reason.why.value}, "
            return f"{kept}until {place or 'later'}"
        if reason.why is Why.GRAPH:
            return f"kept by the graph of {_shared(reason.holder)}"
        if reason.why is Why.HELD:
            return f"held by {_shared(reason.holder)}"
        return str(reason.why.value)

    def _is_earlier(self, row: int) -> bool:
        """Whether the cell had come to its line again before the peak."""
        ledger = self._ledger
        visit = int(ledger.visit[row])
        if ledger.trace.meta.origin == SNAPSHOT:  # which does not say how long a line ran
            return False
        if visit == NOT_VISITED or not ledger.at_peak[row]:
            return False
        again = ledger.visits.next_of_line(int(ledger.visits.root[visit]))
        return again != NOT_VISITED and bool(ledger.visits.begin_ns[again] <= ledger.peak_ns)


def held(ledger: Ledger, words: Words, mask: Bool) -> Rows[HeldBytes]:
    """The blocks of a mask by line and reason, the largest first."""
    path = ledger.path
    groups: dict[tuple[int, str, str], list[int]] = {}
    for row in np.flatnonzero(mask).tolist():
        at = NOWHERE if ledger.before[row] else int(path[row])
        key = (words.line(at), words.function(at), words.reason(row))
        groups.setdefault(key, []).append(row)
    total = int(ledger.blocks.size_bytes[mask].sum())
    found = [
        _row(key, words.code(int(path[rows[0]])) if key[0] else "", rows, ledger, total, words.why)
        for key, rows in groups.items()
    ]
    return Rows(sorted(found, key=lambda one: (-one.size_bytes, one.line)), HeldBytes)


def blocks(ledger: Ledger, words: Words) -> Rows[MemoryBlock]:
    """Every block, in the order of allocation."""
    return Rows(_blocks(ledger, words), MemoryBlock)


def _blocks(ledger: Ledger, words: Words) -> Iterable[MemoryBlock]:
    table, at_peak = ledger.blocks, ledger.at_peak
    free_path = ledger.visits.path[ledger.free_visit]
    for row in range(len(table)):
        path = int(ledger.path[row])
        yield MemoryBlock(
            size_bytes=int(table.size_bytes[row]),
            line=words.line(path),
            function=words.function(path),
            reason=words.reason(row),
            alloc_ns=int(table.alloc_ns[row]),
            free_ns=None if table.free_order[row] == NONE else int(table.free_ns[row]),
            free_line=words.line(int(free_path[row])),
            before=bool(ledger.before[row]),
            at_peak=bool(at_peak[row]),
        )


def _row(
    key: tuple[int, str, str], code: str, rows: list[int], ledger: Ledger, total: int, why: Sequence[Reason]
) -> HeldBytes:
    line, function, reason = key
    size = int(ledger.blocks.size_bytes[rows].sum())
    kind = kind_of(why[rows[0]], before=bool(ledger.before[rows[0]])).value
    return HeldBytes(line, code, reason, len(rows), size, size / total if total else 0.0, function, kind)


def _shared(holder: str) -> str:
    """The variable that a holder is or is part of, and where a function that failed has left it."""
    name, opened, where = holder.rpartition(" (") if holder.endswith(")") else (holder, "", "")
    return f"`{name if name.startswith('Out[') else name.split('[', maxsplit=1)[0]}`{opened}{where}"
