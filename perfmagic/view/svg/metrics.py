"""How wide text will be, without a font: enough to fit a label into a bar.

Widths are those of Arial and of the fonts made to its measure (Helvetica's table), in thousandths of the size.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from perfmagic.terminal import columns, cut_to_columns

__all__ = ["WIDEST_FONT", "columns", "cut_to_columns", "fitted", "width_px"]

_WIDTHS = {
    191: "'",
    222: "ijl",
    260: "|",
    278: " !,./:;I[\\]ft\u00a0·",
    333: "()-`r",
    334: "{}",
    355: '"',
    389: "*",
    469: "^",
    500: "Jckvsxyz",
    556: "#$0123456789?L_abdeghnopqu–µ",
    584: "+<=>~≤≥×÷",
    611: "FTZ",
    667: "&ABEKPSVXY",
    722: "CDHNRUw",
    778: "GOQ",
    833: "Mm",
    889: "%",
    944: "W",
    1000: "…—",
    1015: "@",
}
_EM = {character: width / 1000 for width, characters in _WIDTHS.items() for character in characters}
_UNKNOWN_EM = 0.66  # Latin with accents, Greek, Cyrillic: between a lower-case and an upper-case letter
_MONO_EM = 0.602  # DejaVu Sans Mono, Menlo, Consolas (0.55)
_BOLD = 1.07
WIDEST_FONT = 1.18  # how much wider text gets where Arial is absent (DejaVu Sans, Verdana)
SHORTEST = 3  # a label is cut only when so many letters remain


@lru_cache(maxsize=4096)
def _em(character: str) -> float:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0.0
    if unicodedata.east_asian_width(character) in ("W", "F"):
        return 1.0
    return _EM.get(character, _UNKNOWN_EM)


def _mono_em(character: str) -> float:
    em = _em(character)
    return em if em in (0.0, 1.0) and ord(character) > 0x2FF else _MONO_EM


def width_px(text: str, size_px: float, *, bold: bool = False, mono: bool = False) -> float:
    """The width of a line of text in Arial, or in a monospaced font."""
    em = _mono_em if mono else _em
    return sum(em(c) for c in text) * size_px * (_BOLD if bold and not mono else 1.0)


def fitted(text: str, room_px: float, size_px: float, *, bold: bool = False, mono: bool = False) -> str:
    """The text, cut with "…" where it is wider than the room, or "" where fewer than three letters would remain."""
    budget = room_px / (size_px * (_BOLD if bold and not mono else 1.0))
    em = _mono_em if mono else _em
    cut, used = -1, 0.0
    for position, character in enumerate(text):
        if used + em("…") <= budget:
            cut = position
        used += em(character)
        if used > budget:
            return text[:cut] + "…" if cut >= SHORTEST else ""
    return text
