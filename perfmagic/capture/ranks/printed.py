"""What ranks print in a cell: kept whole, shown in batches and up to a length that a notebook can hold."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby

# a saved notebook with more than about a MB of text is slow to open
HEAD_CHARS = 100_000  # of a rank: shown as they come
TAIL_CHARS = 10_000  # of a rank: shown at the cell's end
BATCH_S = 0.05  # showing costs some 0.4 ms for any number of lines, and a shorter delay is not noticed


@dataclass
class Outputs:
    """Where the output of ranks goes.  lines: (rank, stream, text).  display: (rank, MIME bundle).

    tell: a message of perfmagic's own.
    whole: names the place of everything that a rank has printed, with {rank}; long output is cut.
    """

    lines: Callable[[int, str, str], None]
    display: Callable[[int, dict[str, str]], None]
    tell: Callable[[str], None]
    whole: str = "perfmagic.ranks().printed({rank}) has all"


@dataclass
class _RankOutput:
    """(stream, lines) of a rank.  new: not shown yet.  held: not shown, beyond the limit.

    chars_left: how many characters may still be shown before the end of the cell.
    """

    whole: list[tuple[str, str]] = field(default_factory=list)
    new: list[tuple[str, str]] = field(default_factory=list)
    held: list[tuple[str, str]] = field(default_factory=list)
    chars_left: int = HEAD_CHARS


class Printed:
    """One cell's output after another."""

    def __init__(self, outputs: Outputs, clock: Callable[[], float] = time.monotonic) -> None:
        self._outputs, self._clock = outputs, clock
        self._ranks: dict[int, _RankOutput] = {}
        self._shown_s = 0.0

    def __call__(self, rank: int, stream: str, lines: str) -> None:
        """Keep lines of a rank, without their last end of line; the next show() shows them."""
        kept = self._ranks.setdefault(rank, _RankOutput())
        kept.whole.append((stream, lines))
        kept.new.append((stream, lines))

    def begin(self) -> None:
        """Forget the cell before."""
        self.show()
        self._ranks.clear()

    def show_if_due(self) -> None:
        """Show what has come, but not so often that showing delays the ranks."""
        if self._clock() - self._shown_s >= BATCH_S:
            self.show()

    def show(self) -> None:
        """Show what has come; each rank's lines in their order."""
        for rank, kept in sorted(self._ranks.items()):
            new, kept.new = kept.new, []
            for stream, lines in _joined(new):
                self._show_head(rank, kept, stream, lines)
                self._shown_s = self._clock()

    def display(self, rank: int, data: dict[str, str]) -> None:
        """Show what a rank displays, behind what has been printed before."""
        self.show()
        self._outputs.display(rank, data)

    def tell(self, message: str) -> None:
        """Show a message of perfmagic's own, after what was printed before."""
        self.show()
        self._outputs.tell(message)

    def end(self) -> None:
        """Show the tail of each rank that printed more, and say how much was left out and where it is."""
        self.show()
        for rank, kept in sorted(self._ranks.items()):
            held, kept.held, kept.chars_left = _joined(kept.held), [], HEAD_CHARS
            left_out = sum(len(lines) for _, lines in held) - TAIL_CHARS
            if left_out > 0:
                where = self._outputs.whole.format(rank=rank)
                self._outputs.lines(rank, "stderr", f"… {left_out:,} characters are left out here: {where}")
            for stream, lines in held:
                if left_out < len(lines):
                    self._outputs.lines(rank, stream, lines[max(0, left_out) :])
                left_out -= len(lines)

    def text(self, rank: int) -> str:
        """All that a rank has printed since begin(), both streams in their order."""
        kept = self._ranks.get(rank, _RankOutput())
        return "".join(f"{lines}\n" for _, lines in kept.whole)

    def _show_head(self, rank: int, kept: _RankOutput, stream: str, lines: str) -> None:
        if kept.held:
            kept.held.append((stream, lines))
            return
        head, rest = _cut(lines, kept.chars_left)
        kept.chars_left -= len(head) + 1
        if head or not rest:
            self._outputs.lines(rank, stream, head)
        if rest:
            kept.held.append((stream, rest))
            message = f"… more than {HEAD_CHARS:,} characters: the end of them is shown when the cell has ended"
            self._outputs.lines(rank, "stderr", message)


def _joined(said: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same, with the lines of one stream that follow each other as one text."""
    return [(key, "\n".join(lines for _, lines in some)) for key, some in groupby(said, key=lambda pair: pair[0])]


def _cut(lines: str, max_chars: int) -> tuple[str, str]:
    """The whole lines that fit, or a part of the first one; and the rest."""
    if len(lines) <= max_chars:
        return lines, ""
    end = lines.rfind("\n", 0, max(max_chars, 0))
    return (lines[:end], lines[end + 1 :]) if end > 0 else (lines[: max(max_chars, 0)], lines[max(max_chars, 0) :])
