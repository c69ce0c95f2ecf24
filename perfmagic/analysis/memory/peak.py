"""The memory alive at the peak, by line, function and reason; the rows add up to the peak."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from perfmagic.analysis.memory.ledger import Ledger, ledger
from perfmagic.analysis.memory.reasons import Descriptions, Reason
from perfmagic.analysis.memory.stack import kind_of
from perfmagic.analysis.timeline.paths import sites
from perfmagic.base import units
from perfmagic.base.language import phrase
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.model import Trace, once_per_trace
from perfmagic.trace.paths import NOWHERE
from perfmagic.trace.rows import Rows


@dataclass(frozen=True)
class HeldBytes:
    """Blocks of one line with one reason.

    line: that allocated them, 0 where no line did.  function: its qualified name, "" for the cell.  code: the line's
    text.  reason: in text.  kind: of the reason, as pictures stack them.  n_blocks, size_bytes: of all, as the
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


def held(ledger: Ledger, text: Descriptions, mask: Bool) -> Rows[HeldBytes]:
    """The blocks of a mask by line and reason, the largest first."""
    path = ledger.path
    groups: dict[tuple[int, str, str], list[int]] = {}
    for row in np.flatnonzero(mask).tolist():
        at = NOWHERE if ledger.before[row] else int(path[row])
        key = (text.line(at), text.function(at), text.reason(row))
        groups.setdefault(key, []).append(row)
    total = int(ledger.blocks.size_bytes[mask].sum())
    held_rows = [
        _row(key, text.code(int(path[rows[0]])) if key[0] else "", rows, ledger, total, text.why)
        for key, rows in groups.items()
    ]
    return Rows(sorted(held_rows, key=lambda row: (-row.size_bytes, row.line)), HeldBytes)


def blocks(ledger: Ledger, text: Descriptions) -> Rows[MemoryBlock]:
    """Every block, in the order of allocation."""
    return Rows(_blocks(ledger, text), MemoryBlock)


def _blocks(ledger: Ledger, text: Descriptions) -> Iterable[MemoryBlock]:
    table, at_peak = ledger.blocks, ledger.at_peak
    free_path = ledger.visits.path[ledger.free_visit]
    for row in range(len(table)):
        path = int(ledger.path[row])
        yield MemoryBlock(
            size_bytes=int(table.size_bytes[row]),
            line=text.line(path),
            function=text.function(path),
            reason=text.reason(row),
            alloc_ns=int(table.alloc_ns[row]),
            free_ns=None if table.free_order[row] == NONE else int(table.free_ns[row]),
            free_line=text.line(int(free_path[row])),
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


# The memory alive at the peak by the lines that allocated it, innermost lines and callers.


@dataclass(frozen=True, eq=False)
class PeakByLine:
    """Bytes alive at the peak of the device with the highest one.

    cell_bytes: by line of the cell, callees included.  site_bytes: of each line of a function, shape of sites().
    before_bytes: allocated before the cell.  elsewhere_bytes: during it, by no line of the cell's.  These add up to
    peak_bytes: cell_bytes, before_bytes and elsewhere_bytes.
    """

    cell_bytes: dict[int, int]
    site_bytes: Int64
    before_bytes: int
    elsewhere_bytes: int
    peak_bytes: int
    peak_ns: int

    def of_cell_line(self, line: int) -> int:
        return self.cell_bytes.get(line, 0)

    def closing(self) -> list[tuple[str, int]]:
        """What comes below the lines of the cell, in words and bytes: the rest of the peak, then the peak."""
        elsewhere = [("no line of the cell", self.elsewhere_bytes)] if self.elsewhere_bytes else []
        return [*elsewhere, ("before the cell", self.before_bytes), ("the peak", self.peak_bytes)]


@once_per_trace
def peak_by_line(trace: Trace) -> PeakByLine | None:
    """None where blocks were not recorded."""
    devices = np.unique(trace.blocks.device).tolist()
    ledgers = [known for device in devices if (known := ledger(trace, device)) is not None]
    return _by_line(max(ledgers, key=lambda known: known.peak_bytes)) if ledgers else None


def _by_line(ledger: Ledger) -> PeakByLine:
    size = np.where(ledger.at_peak, ledger.blocks.size_bytes, 0)
    made = np.where(ledger.before, 0, size)
    root = ledger.visits.path[ledger.visits.root[ledger.visit]]
    is_cell = np.array([function.is_cell for function in ledger.paths.functions], bool)
    in_cell = (root != NOWHERE) & np.append(is_cell, False)[
        np.where(root == NOWHERE, NONE, ledger.paths.function[root])
    ]
    by_line = np.bincount(ledger.paths.line[root[in_cell]], weights=made[in_cell]).astype(np.int64)
    followed = ledger.trace.paths is not None
    return PeakByLine(
        cell_bytes={line: int(n) for line, n in enumerate(by_line.tolist()) if n},
        site_bytes=sites(ledger.trace).charged(ledger.path, made) if followed else np.zeros(0, np.int64),
        before_bytes=int(size[ledger.before].sum()),
        elsewhere_bytes=int(made[~in_cell].sum()),
        peak_bytes=ledger.peak_bytes,
        peak_ns=ledger.peak_ns,
    )


# What is left of each round when the same cell runs several times.

FEWEST_ROUNDS = 3  # two that have a next one: what is made once, an optimizer's state, is no growth
_TWICE = 2


@dataclass(frozen=True)
class Growth:
    """Blocks of one line that were alive when the round after theirs had ended, in two rounds or more.

    bytes_per_round: the mean of those rounds.  n_rounds: how many of them.  reason: of the latest.
    """

    line: int
    code: str
    bytes_per_round: float
    n_rounds: int
    reason: str
    function: str

    shown: ClassVar[tuple[str, ...]] = ("bytes_per_round", "n_rounds", "reason", "line", "code", "function")

    @property
    def sentence(self) -> str:
        """In text."""
        place = phrase("line {line}", line=self.line)
        if self.function:
            place = phrase("line {line} of {function}", line=self.line, function=self.function)
        size = units.size(self.bytes_per_round)
        return phrase("{place} leaves {size} a round: {reason}", place=place, size=size, reason=self.reason)


def growth(ledger: Ledger, text: Descriptions, rounds_ns: Sequence[int]) -> Rows[Growth]:
    """What survives each round, by line; the largest first.

    rounds_ns: when each round began, and when the last one ended; in trace time.
    """
    blocks = ledger.blocks
    end = np.where(blocks.free_order == NONE, np.iinfo(np.int64).max, blocks.free_ns)
    by_path: dict[int, dict[int, list[int]]] = {}
    for number in range(len(rounds_ns) - 2):
        begin, after, next_end = rounds_ns[number : number + 3]
        inside = (blocks.alloc_ns >= begin) & (blocks.alloc_ns < after) & (end >= next_end) & ~ledger.before
        for row in np.flatnonzero(inside).tolist():
            by_path.setdefault(int(ledger.path[row]), {}).setdefault(number, []).append(row)
    lines = [_growth_row(path, rounds, ledger, text) for path, rounds in by_path.items() if len(rounds) >= _TWICE]
    return Rows(sorted(lines, key=lambda row: -row.bytes_per_round), Growth)


def _growth_row(path: int, rounds: dict[int, list[int]], ledger: Ledger, text: Descriptions) -> Growth:
    rows = [row for of_round in rounds.values() for row in of_round]
    latest = max(rows, key=lambda row: (int(ledger.blocks.size_bytes[row]), int(ledger.order[row])))
    size = float(ledger.blocks.size_bytes[rows].sum()) / len(rounds)
    reason = text.reason(latest, rounds=False)
    return Growth(text.line(path), text.code(path), size, len(rounds), reason, text.function(path))
