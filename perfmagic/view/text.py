"""Pieces of plain text: lines of bounded width, and tables."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic.view.svg.metrics import columns, cut_to_columns

WIDTH = 100


def wrapped(text: str, indent: int = 0, width: int = WIDTH) -> list[str]:
    """Lines of at most so many terminal columns, all but the first indented; a longer word is cut."""
    plain = _printable(text).replace("\n", " ")
    words = plain.lstrip(" ").split(" ")
    line = plain[: len(plain) - len(plain.lstrip(" "))] + words[0]
    lines = []
    for word in words[1:]:
        if columns(f"{line} {word}") <= width:
            line = f"{line} {word}"
        else:
            lines.append(cut_to_columns(line, width))
            line = " " * indent + word
    return [*lines, cut_to_columns(line, width)]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Rows of text: the first column to the left, the others to the right, each at least so wide."""
    return [_table_line(row, widths) for row in (head, *rows)]


def _table_line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = zip(row, widths, strict=True)
    return "".join(_cell(text, width, left=i == 0) for i, (text, width) in enumerate(cells))


def _cell(text: str, width: int, *, left: bool) -> str:
    padding = " " * max(0, width - columns(text))
    return text + padding if left else padding + text


def _printable(text: str) -> str:
    """Without control characters: a kernel's name must not steer a terminal."""
    return "".join(c if c.isprintable() or c in "\n\u00a0" else "\ufffd" for c in text)
