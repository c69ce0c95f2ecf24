"""Pieces of plain text: lines of bounded width, and tables that fit a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perfmagic import terminal
from perfmagic.view.svg.metrics import columns, cut_to_columns

WIDEST_PROSE = 120  # columns: longer lines are hard to read
LEAST_NAME = 28  # columns that the first column of a table keeps; where it cannot, each row takes several lines
GAP = 2

Shorten = Callable[[Sequence[str], int], Sequence[str]]


def prose_width() -> int:
    """How many columns of a terminal a sentence takes at most."""
    return min(terminal.width(), WIDEST_PROSE)


def wrapped(text: str, indent: int = 0, width: int | None = None) -> list[str]:
    """Lines of at most so many terminal columns, all but the first indented; a longer word is cut.

    width: the terminal's if left out, and no more than is easy to read.
    """
    room = prose_width() if width is None else width
    plain = _printable(text).replace("\n", " ")
    words = plain.lstrip(" ").split(" ")
    line = plain[: len(plain) - len(plain.lstrip(" "))] + words[0]
    lines = []
    for word in words[1:]:
        if columns(f"{line} {word}") <= room:
            line = f"{line} {word}"
        else:
            lines.append(cut_to_columns(line, room))
            line = " " * indent + word
    return [*lines, cut_to_columns(line, room)]


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    least: Sequence[int] = (),
    shorten: Shorten | None = None,
) -> list[str]:
    """The lines of `blocks`, one after the other."""
    return [line for block in blocks(head, rows, least=least, shorten=shorten) for line in block]


def blocks(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    least: Sequence[int] = (),
    shorten: Shorten | None = None,
) -> list[list[str]]:
    """The lines of the heading and of each row: the first column to the left, the others to the right.

    No number is ever cut: in a terminal too narrow for the table each row takes several lines.
    least: columns that each cell takes at least, the gap before it included.  shorten: makes the texts of the first
    column fit; if left out they stay whole where a line has room for them.
    """
    names = [_printable(row[0]) for row in (head, *rows)]
    widths = [GAP + max(columns(row[i]) for row in (head, *rows)) for i in range(1, len(head))]
    widths = [max(pair) for pair in zip(widths, least[1:] or widths, strict=True)]
    room = terminal.width() - sum(widths) - GAP
    natural = max(columns(name) for name in names)
    if room < (natural if shorten is None else min(LEAST_NAME, natural)):
        return _stacked(head, rows, shorten)
    texts = _fitted(names, room, shorten)
    first = max(max(columns(text) for text in texts) + GAP, least[0] if least else 0)
    cells = zip(texts, (head, *rows), strict=True)
    return [[_line((text, *row[1:]), (first, *widths))] for text, row in cells]


def _fitted(names: Sequence[str], room: int, shorten: Shorten | None) -> list[str]:
    """The heading and the names in so many columns."""
    short = names[1:] if shorten is None else shorten(names[1:], room)
    return [cut_to_columns(name, room) for name in (names[0], *short)]


def _stacked(head: Sequence[str], rows: Sequence[Sequence[str]], shorten: Shorten | None) -> list[list[str]]:
    """Each row as its name, and below it its numbers after their headings."""
    room = terminal.width()
    texts = _fitted([_printable(row[0]) for row in (head, *rows)], room, shorten)
    found = [[texts[0]]]
    for text, row in zip(texts[1:], rows, strict=True):
        said = [f"{name} {value}" for name, value in zip(head[1:], row[1:], strict=True) if value]
        numbers = wrapped(f"    {', '.join(said)}", indent=4, width=room) if said else []
        found.append([text, *numbers])
    return found


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(_cell(text, width, left=i == 0) for i, (text, width) in enumerate(zip(row, widths, strict=True)))


def _cell(text: str, width: int, *, left: bool) -> str:
    padding = " " * max(0, width - columns(text))
    return text + padding if left else padding + text


def _printable(text: str) -> str:
    """Without control characters: a kernel's name must not steer a terminal."""
    return "".join(c if c.isprintable() or c in "\n\u00a0" else "\ufffd" for c in text)
