"""The lines of two cells beside each other, matched by their text."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from perfmagic.analysis.diff.side import Side
from perfmagic.analysis.diff.work import BOTH, GONE, NEW
from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.line_totals import LineStat, lines

EDITED = "edited"
_NOTHING = LineStat(0, "", 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class LineChange:
    """One line of two cells; times in ns, as in LineStat.

    line_a, line_b: its number in the first and in the second cell, None where it is not there.  change: "both", "new",
    "gone", or "edited" where other text stands at the same place.  text: of the second, of a gone line of the first.
    diff_ns: how much longer Python was on it.
    """

    shown: ClassVar[tuple[str, ...]] = (
        *("line_a", "line_b", "change", "text", "host_a_ns", "host_b_ns", "diff_ns"),
        *("blocked_a_ns", "blocked_b_ns", "device_a_ns", "device_b_ns"),
    )

    line_a: int | None
    line_b: int | None
    change: str
    text: str
    host_a_ns: int
    host_b_ns: int
    blocked_a_ns: int
    blocked_b_ns: int
    device_a_ns: int
    device_b_ns: int
    idle_a_ns: int
    idle_b_ns: int

    @property
    def diff_ns(self) -> int:
        return self.host_b_ns - self.host_a_ns


def line_changes(first: Side, second: Side) -> Rows[LineChange]:
    """The lines of both cells that ran, in order, matched by text, so that an inserted line does not shift the others.

    None where a trace is of no cell.
    """
    if first.trace.cell is None or second.trace.cell is None:
        return Rows((), LineChange)
    stats = [{stat.line: stat for stat in lines(side.trace)} for side in (first, second)]
    texts = [_texts(side.trace.cell.source) for side in (first, second) if side.trace.cell is not None]
    found = []
    for change, a, b in _aligned(*texts):
        old, new = stats[0].get(a, _NOTHING), stats[1].get(b, _NOTHING)
        if old is new:  # it ran in neither
            continue
        text = texts[1][b - 1] if b else texts[0][a - 1]
        pairs = [(getattr(old, name), getattr(new, name)) for name in ("host_ns", "blocked_ns", "device_ns", "idle_ns")]
        found.append(LineChange(a or None, b or None, change, text, *(ns for pair in pairs for ns in pair)))
    return Rows(found, LineChange)


def _texts(source: str) -> list[str]:
    """The lines of a cell, stripped."""
    return [text.strip() for text in source.splitlines()]


def _aligned(first: list[str], second: list[str]) -> Iterator[tuple[str, int, int]]:
    """What became of each line, and its number in both, from 1; 0 where it is not there."""
    for what, i, k, j, m in difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        common = k - i if k - i == m - j else 0  # as many lines with other text are edited ones
        word = BOTH if what == "equal" else EDITED
        yield from ((word, i + n + 1, j + n + 1) for n in range(common))
        yield from ((GONE, n + 1, 0) for n in range(i + common, k))
        yield from ((NEW, 0, n + 1) for n in range(j + common, m))
