"""Text for a terminal and for markup: how wide it is, how it is cut and broken to fit, and how it is made harmless."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import TextIO

from perfmagic.base.units import count, plural

ALARM = "race"  # what stands in the first column of a sentence to be seen before all others
_RED, _END = "\033[31m", "\033[0m"

_QUIET_S, _AGAIN_S = 1.0, 0.2  # before the first word of progress, and from one to the next
USUAL, NARROWEST = 100, 40  # columns
WIDEST_PROSE = 120  # columns: longer lines are hard to read
_SMALLEST_PIECE = 8  # letters that a word keeps when it is cut
_HEAD_FRAC = 0.55  # of a text whose middle is cut, what stands before
_WORD = re.compile(r"\w+")
# patterns as text: to compile them takes milliseconds, and most programs use none
# beside a letter of Chinese or Japanese a line may end, but not before a mark that closes nor behind one that opens
_WIDE = "\u2e80-\u2fff\u3040-\u9fff\uf900-\ufaff"
_CLOSING, _OPENING = "，。、：；！？）》」』", "（《「『"
_NOT_FIRST, _NOT_LAST = f"{_CLOSING}…”’\"')\\],.:;!?%\u00a0", f"{_OPENING}“‘\"'(\\[\u00a0"
_BREAK = f"(?<=[{_WIDE}{_CLOSING}])(?=[^{_NOT_FIRST}])|(?<=[^{_NOT_LAST}])(?=[{_WIDE}{_OPENING}])"
# what XML 1.0 cannot hold, and what would turn the direction of the text around it
_UNFIT = "[^\t\n\r\x20-\x7e\x85\xa0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


def width() -> int:
    """How many columns a text has: COLUMNS where it is set, else those of the terminal it goes to, else 100.

    A notebook's output goes to no terminal: what is saved does not depend on where Jupyter was started, nor on the
    COLUMNS that its kernel inherits.
    """
    if type(sys.stdout).__module__.startswith("ipykernel"):
        return USUAL
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
    return len(text) if text.replace("…", ".").isascii() else sum(_cells(c) for c in text)


def cut_to_columns(text: str, max_columns: int) -> str:
    """The text, cut with "…" where it takes more columns of a terminal."""
    if columns(text) <= max_columns:
        return text
    kept, used = [], 1
    for character in text:
        used += _cells(character)
        if used > max_columns:
            break
        kept.append(character)
    return "".join(kept) + "…"


def prose_width() -> int:
    """How many columns of a terminal a sentence takes at most."""
    return min(width(), WIDEST_PROSE)


def wrapped(text: str, indent: int = 0, max_columns: int | None = None) -> list[str]:
    """Lines of at most max_columns of a terminal, all but the first indented; a longer word is cut.

    A line ends at a space, or between letters of a script that has none between words.

    max_columns: those of the terminal if left out, and no more than is easy to read.
    """
    room = prose_width() if max_columns is None else max_columns
    plain = printable(text)
    first, *rest = split_at_breaks(plain.lstrip(" "))
    line = plain[: len(plain) - len(plain.lstrip(" "))] + first[1]
    lines = []
    for joint, word in rest:
        if columns(f"{line}{joint}{word}") <= room:
            line = f"{line}{joint}{word}"
        else:
            lines.append(cut_to_columns(line, room))
            line = " " * indent + word
    return [*lines, cut_to_columns(line, room)]


def split_at_breaks(text: str) -> list[tuple[str, str]]:
    """The parts between which a line may end, each with what joins it to the part before: a space, or nothing."""
    return [
        ("" if i else " ", part)
        for word in text.split(" ")
        for i, part in enumerate(re.split(_BREAK, word) if not word.isascii() else [word])
    ]


def squeezed(text: str, max_columns: int) -> str:
    """A text in at most max_columns columns: letters go from the middle of its longest words, then from its own."""
    over = columns(text) - max_columns
    if over <= 0:
        return text
    words = list(_WORD.finditer(text))
    cut: dict[int, str] = {}
    for word in sorted(words, key=lambda w: -len(w[0])):
        if over <= 0 or len(word[0]) <= _SMALLEST_PIECE or columns(word[0]) != len(word[0]):
            break
        kept = max(_SMALLEST_PIECE, len(word[0]) - over)
        cut[word.start()] = _middle(word[0], kept)
        over -= len(word[0]) - kept
    if over <= 0:
        return _WORD.sub(lambda w: cut.get(w.start(), w[0]), text)
    return _middle(re.split(r"[<({]", text)[0] if _has_arguments(text) else text, max_columns)


def _has_arguments(text: str) -> bool:
    """Whether the text has template arguments that all close."""
    return text.endswith(">") and text.count("<") == text.count(">")


def _middle(text: str, max_columns: int) -> str:
    """A text without its middle: names of one family differ at the end."""
    if columns(text) <= max_columns:
        return text
    head: list[str] = []
    tail: list[str] = []
    left = max_columns - 1
    for side, source, share in ((head, text, round((max_columns - 1) * _HEAD_FRAC)), (tail, reversed(text), left)):
        used = 0
        for letter in source:
            used += columns(letter)
            if used > min(share, left):
                used -= columns(letter)
                break
            side.append(letter)
        left -= used
    return "".join(head) + "…" + "".join(reversed(tail))


def printable(text: str) -> str:
    """The text on one line and without control characters: a kernel's name must not steer a terminal."""
    if text.isprintable():  # nearly every text, and letter by letter takes long
        return text
    return "".join(c if c.isprintable() or c == "\u00a0" else " " if c == "\n" else "\ufffd" for c in text)


def escaped(text: str) -> str:
    """Other people's text as XML character data and attribute values."""
    plain = re.sub(_UNFIT, "\ufffd", text)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def for_terminal(text: str, stream: TextIO) -> str:
    """A text as it is printed: sentences with an alarm in red, where the stream is a terminal and NO_COLOR is not set.

    Such a sentence goes from the line that begins with the alarm to the last that is indented as far as its words.
    Source: no-color.org.
    """
    if not stream.isatty() or os.environ.get("NO_COLOR"):
        return text
    lines, indent = [], 0
    for line in text.split("\n"):
        if line.lstrip().startswith(f"{ALARM}  "):
            indent = len(line) - len(line.lstrip()) + len(ALARM) + 2
        elif indent and not (line.startswith(" " * indent) and line.strip()):
            indent = 0
        lines.append(f"{_RED}{line}{_END}" if indent else line)
    return "\n".join(lines)


def _cells(character: str) -> int:
    if character < "\u0300" or "\u2010" <= character < "\u2028" or "\u2190" <= character < "\u2300":
        return 1  # Latin, dashes and quotes, arrows and signs
    from wcwidth import wcwidth  # slow to import, and most names are ASCII

    n = wcwidth(character)
    return n if n >= 0 else 1  # a control character


class Progress:
    """One line on stderr that says how far something long has come, and goes when that is done.

    shown: None for where a person looks: in a terminal or a notebook. Nothing is said of what takes less than a second.
    """

    def __init__(self, doing: str, n: int, what: str, *, shown: bool | None = None) -> None:
        looked_at = sys.stderr is not None and (
            sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
        )
        self._shown = looked_at if shown is None else shown
        self._words = (doing, n, what)
        self._next_s = time.monotonic() + _QUIET_S
        self._width = 0

    def __enter__(self) -> Progress:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def at(self, n: int, of: int | None = None) -> None:
        """Set the number of finished items, and of all where it was not known before."""
        if not self._shown or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + _AGAIN_S
        doing, known, what = self._words
        self._write(f"{doing} {count(n)} of {plural(known if of is None else of, what)}")

    def __exit__(self, *_error: object) -> None:
        if self._width:
            self._write("")

    def _write(self, line: str) -> None:
        print(f"\r{line:<{self._width}}" + ("" if line else "\r"), end="", file=sys.stderr, flush=True)
        self._width = max(self._width, len(line))
