"""How wide a terminal is, how much room text takes in it, and how it is cut to fit."""

from __future__ import annotations

import os
import sys
import unicodedata

USUAL, NARROWEST = 100, 40  # columns


def width() -> int:
    """How many columns a text face has: COLUMNS where it is set, else those of the terminal it goes to, else 100.

    A notebook's output goes to no terminal: what is saved does not depend on where Jupyter was started.
    """
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return max(NARROWEST, int(given))
    try:
        if sys.stdout.isatty():
            return max(NARROWEST, os.get_terminal_size(sys.stdout.fileno()).columns or USUAL)
    except (AttributeError, OSError, ValueError):  # no stdout, or one without a file
        pass
    return USUAL


def columns(text: str) -> int:
    """How many columns of a terminal a line of text takes."""
    return len(text) if text.isascii() else sum(_cells(c) for c in text)


def cut_to_columns(text: str, room: int) -> str:
    """The text, cut with "…" where it takes more columns of a terminal."""
    if columns(text) <= room:
        return text
    kept, used = [], 1
    for character in text:
        used += _cells(character)
        if used > room:
            break
        kept.append(character)
    return "".join(kept) + "…"


def printable(text: str) -> str:
    """The text on one line and without control characters: a kernel's name must not steer a terminal."""
    return "".join(c if c.isprintable() or c == "\u00a0" else " " if c == "\n" else "\ufffd" for c in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
