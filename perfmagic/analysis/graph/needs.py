"""Which operator needs which: from the memory that each reads and writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from perfmagic.trace.needs import SeenOp, Use

DATA, MEMORY = "data", "memory"


@dataclass(frozen=True)
class Need:
    """Why an operator cannot begin before another one has ended.

    kind: DATA where it reads what that one wrote; MEMORY where it overwrites what that one reads or wrote.
    size_bytes: of the piece, an upper bound where views have gaps.
    """

    kind: str
    size_bytes: int


Needs = list[dict[int, Need]]  # for each node the nodes before it that it needs


@dataclass(frozen=True)
class _Touched:
    low: int
    high: int
    node: int


def needs_of(ops: Sequence[SeenOp]) -> Needs:
    """For each operator those before it that it needs, by their place in `ops`, which are in order of their start.

    Pieces of memory are ranges of bytes: two views of one storage whose ranges meet count as sharing memory, also where
    their elements lie between each other, as columns do.
    """
    writers: dict[int, list[_Touched]] = defaultdict(list)
    readers: dict[int, list[_Touched]] = defaultdict(list)
    found: Needs = []
    for node, op in enumerate(ops):
        mine: dict[int, Need] = {}
        for use in op.uses:
            if use.reads:
                _add(mine, DATA, use, writers[use.storage])
        for use in op.uses:
            if use.writes:
                _add(mine, MEMORY, use, readers[use.storage])
                _add(mine, MEMORY, use, writers[use.storage])
        for use in op.uses:
            piece = _Touched(use.low, use.high, node)
            if use.writes:
                for table in (writers, readers):  # what is overwritten as a whole nobody can need any more
                    table[use.storage] = [one for one in table[use.storage] if not _covers(use, one)]
                writers[use.storage].append(piece)
            elif use.reads:
                readers[use.storage].append(piece)
        found.append(mine)
    return found


def _covers(use: Use, one: _Touched) -> bool:
    return use.low <= one.low and one.high <= use.high


def _add(mine: dict[int, Need], kind: str, use: Use, touched: list[_Touched]) -> None:
    for one in touched:
        if use.meets(one.low, one.high):
            size = min(use.high, one.high) - max(use.low, one.low)
            old = mine.get(one.node)
            if old is None:
                mine[one.node] = Need(kind, size)
            elif old.kind == kind:
                mine[one.node] = Need(kind, max(size, old.size_bytes))


def without_implied(needs: Needs, most: int = 3000) -> Needs:
    """Without needs of memory that follow from others. Of more than `most` operators all are kept: it is squared."""
    if len(needs) > most:
        return needs
    before = ancestors(needs)
    kept: Needs = []
    for mine in needs:
        implied = 0
        for one in mine:
            implied |= before[one]
        kept.append({one: need for one, need in mine.items() if need.kind == DATA or not implied >> one & 1})
    return kept


def ancestors(needs: Sequence[dict[int, Need]]) -> list[int]:
    """For each node a number whose bits are all nodes that it needs, directly or not."""
    found: list[int] = []
    for mine in needs:
        bits = 0
        for one in mine:
            bits |= found[one] | 1 << one
        found.append(bits)
    return found
