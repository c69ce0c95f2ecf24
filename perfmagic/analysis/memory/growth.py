"""What is left of each round when the same cell runs several times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from perfmagic import units
from perfmagic.analysis.memory.ledger import Ledger
from perfmagic.analysis.memory.peak import Words
from perfmagic.analysis.rows import Rows
from perfmagic.trace.columns import NONE

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
        """In words."""
        of = f" of {self.function}" if self.function else ""
        return f"line {self.line}{of} leaves {units.size(self.bytes_per_round)} a round: {self.reason}"


def growth(ledger: Ledger, words: Words, rounds_ns: Sequence[int]) -> Rows[Growth]:
    """What survives each round, by line; the largest first.

    rounds_ns: when each round began, and when the last one ended; in trace time.
    """
    blocks = ledger.blocks
    end = np.where(blocks.free_order == NONE, np.iinfo(np.int64).max, blocks.free_ns)
    found: dict[int, dict[int, list[int]]] = {}
    for number in range(len(rounds_ns) - 2):
        begin, after, next_end = rounds_ns[number : number + 3]
        inside = (blocks.alloc_ns >= begin) & (blocks.alloc_ns < after) & (end >= next_end) & ~ledger.before
        for row in np.flatnonzero(inside).tolist():
            found.setdefault(int(ledger.path[row]), {}).setdefault(number, []).append(row)
    lines = [_row(path, rounds, ledger, words) for path, rounds in found.items() if len(rounds) >= _TWICE]
    return Rows(sorted(lines, key=lambda one: -one.bytes_per_round), Growth)


def _row(path: int, rounds: dict[int, list[int]], ledger: Ledger, words: Words) -> Growth:
    rows = [row for some in rounds.values() for row in some]
    latest = max(rows, key=lambda row: (int(ledger.blocks.size_bytes[row]), int(ledger.order[row])))
    size = float(ledger.blocks.size_bytes[rows].sum()) / len(rounds)
    reason = words.reason(latest).removesuffix(", of an earlier round")
    return Growth(words.line(path), words.code(path), size, len(rounds), reason, words.function(path))
