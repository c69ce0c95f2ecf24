"""The dependencies between operators, from the memory that each reads and writes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from perfmagic.trace.columns import SeenOp, Use

DATA, MEMORY = "data", "memory"


@dataclass(frozen=True)
class Need:
    """A dependency: an operator cannot start before another one has ended.

    kind: DATA if it reads what the other wrote; MEMORY if it overwrites what the other reads or wrote.
    size_bytes: of the shared memory, an upper bound if views have gaps.
    """

    kind: str
    size_bytes: int


Needs = list[dict[int, Need]]  # for each node the earlier nodes that it depends on


class _Ranges:
    """Byte ranges of one storage and the nodes that touched them.

    Ranges are grouped by the bit length of their size and sorted by first byte. A range of a group that overlaps some
    bytes starts at most 2 ** bits before them.
    """

    def __init__(self) -> None:
        self._kinds: dict[int, tuple[list[int], list[tuple[int, int]]]] = {}  # first bytes; high and node

    def add(self, use: Use, node: int) -> None:
        lows, rest = self._kinds.setdefault((use.high - use.low).bit_length(), ([], []))
        at = bisect_right(lows, use.low)
        lows.insert(at, use.low)
        rest.insert(at, (use.high, node))

    def overlapping(self, use: Use) -> list[tuple[int, int]]:
        """The nodes that touched bytes of a range, and how many bytes overlap."""
        touched = []
        for bits, (lows, rest) in self._kinds.items():
            for at in range(bisect_right(lows, use.low - (1 << bits)), bisect_left(lows, use.high)):
                high, node = rest[at]
                if use.meets(lows[at], high):
                    touched.append((node, min(use.high, high) - max(use.low, lows[at])))
        return sorted(touched)

    def drop_within(self, use: Use) -> None:
        """Forget the ranges that a range covers."""
        for lows, rest in self._kinds.values():
            first, last = bisect_left(lows, use.low), bisect_right(lows, use.high)
            kept = [i for i in range(first, last) if rest[i][0] > use.high]
            if len(kept) < last - first:
                lows[first:last], rest[first:last] = [lows[i] for i in kept], [rest[i] for i in kept]


def needs_of(ops: Sequence[SeenOp]) -> Needs:
    """For each operator the earlier ones that it depends on, as indices into `ops`, which are in order of their start.

    Memory is compared as byte ranges: two views of one storage with overlapping ranges count as sharing memory, even if
    their elements interleave, as columns do.
    """
    writers: dict[int, _Ranges] = defaultdict(_Ranges)
    readers: dict[int, _Ranges] = defaultdict(_Ranges)
    needs: Needs = []
    for node, op in enumerate(ops):
        needed: dict[int, Need] = {}
        for use in op.uses:
            if use.reads:
                _add(needed, DATA, writers[use.storage].overlapping(use))
        for use in op.uses:
            if use.writes:
                _add(needed, MEMORY, readers[use.storage].overlapping(use))
                _add(needed, MEMORY, writers[use.storage].overlapping(use))
        for use in op.uses:
            if use.writes:
                for table in (writers, readers):  # no later operator depends on what is completely overwritten
                    table[use.storage].drop_within(use)
                writers[use.storage].add(use, node)
            elif use.reads:
                readers[use.storage].add(use, node)
        needs.append(needed)
    return needs


def _add(needed: dict[int, Need], kind: str, touched: list[tuple[int, int]]) -> None:
    for node, size in touched:
        old = needed.get(node)
        if old is None:
            needed[node] = Need(kind, size)
        elif old.kind == kind:
            needed[node] = Need(kind, max(size, old.size_bytes))


def without_implied(needs: Needs, most: int = 3000) -> Needs:
    """The needs without MEMORY needs that others imply; unchanged above `most` operators, as the time is quadratic."""
    if len(needs) > most:
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
