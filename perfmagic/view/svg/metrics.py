"""How wide text will be, without a font: enough to fit a label into a bar.

The reader's font is not known when a picture is drawn. Widths, in thousandths of the size, are therefore the larger of
Arial's (shared by metric-compatible fonts) and DejaVu Sans's, the usual fallback on Linux.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from perfmagic.base import units
from perfmagic.base.terminal import split_at_breaks

_WIDTHS = {
    275: "'",
    278: "ijl",
    295: "I",
    318: " ,.\u00a0·",
    337: "/:;\\|",
    352: "f",
    361: "-",
    390: "()[]",
    392: "t",
    401: "!",
    411: "r",
    460: '"',
    500: "*J`",
    521: "s",
    525: "z",
    550: "c",
    556: "?_–",
    557: "L",
    579: "k",
    592: "vxy",
    611: "FT",
    612: "o",
    613: "a",
    615: "e",
    634: "hnu",
    635: "bdgpq",
    636: "$0123456789{}µ",
    667: "EKPSY",
    684: "AV",
    685: "XZ",
    686: "B",
    722: "CR",
    732: "U",
    748: "N",
    752: "H",
    770: "D",
    778: "G",
    780: "&",
    787: "OQ",
    818: "w",
    838: "#+<=>^~×÷≤≥",
    863: "M",
    950: "%",
    974: "m",
    989: "W",
    1000: "—…",
    1015: "@",
}
_EM = {character: width / 1000 for width, characters in _WIDTHS.items() for character in characters}
_UNKNOWN_EM = 0.7  # Latin with accents, Greek, Cyrillic: between a lower-case and an upper-case letter
_MONO_EM = 0.602  # DejaVu Sans Mono, Menlo, Consolas (0.55)
_BOLD = 1.12
SHORTEST = 3  # a label is cut only when at least this many letters remain


@lru_cache(maxsize=4096)
def _em(character: str) -> float:
    known = _EM.get(character)
    if known is not None:
        return known
    from wcwidth import wcwidth  # slow to import, and most names are ASCII

    return {0: 0.0, 2: 1.0}.get(wcwidth(character), _UNKNOWN_EM)


def _mono_em(character: str) -> float:
    em = _em(character)
    return em if em in (0.0, 1.0) and ord(character) > 0x2FF else _MONO_EM


def width_px(text: str, size_px: float, *, bold: bool = False, mono: bool = False) -> float:
    """The most that a line of text takes, in Arial or DejaVu Sans, or in a monospaced font."""
    em = _mono_em if mono else _em
    return sum(em(c) for c in text) * size_px * (_BOLD if bold and not mono else 1.0)


def fitted(text: str, max_px: float, size_px: float, *, bold: bool = False, mono: bool = False) -> str:
    """The text, cut with "…" if it is wider than max_px, or "" if fewer than three letters would remain."""
    budget = max_px / (size_px * (_BOLD if bold and not mono else 1.0))
    em = _mono_em if mono else _em
    cut, used = -1, 0.0
    for position, character in enumerate(text):
        if used + em("…") <= budget:
            cut = position
        used += em(character)
        if used > budget:
            return text[:cut] + "…" if cut >= SHORTEST else ""
    return text


def in_lines(text: str, max_px: float, size_px: float, *, bold: bool = False) -> list[str]:
    """The text in lines no wider than max_px; they end between words, or letters of a script without spaces."""
    lines = [""]
    for joint, word in split_at_breaks(text):
        longer = f"{lines[-1]}{joint}{word}".lstrip()
        if lines[-1] and width_px(longer, size_px, bold=bold) > max_px:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


# The time axis: from nanoseconds to pixels, and the positions of its labels.


@dataclass(frozen=True)
class Scale:
    """Time [start_ns, end_ns) on [0, width_px); pixels are relative to the plot's left edge."""

    start_ns: int
    end_ns: int
    width_px: int

    @property
    def px_per_ns(self) -> float:
        return self.width_px / max(1, self.end_ns - self.start_ns)

    def x(self, at_ns: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Pixels of instants, clipped to the plot."""
        offset = np.asarray(at_ns, np.float64) - self.start_ns
        return np.asarray(np.clip(offset * self.px_per_ns, 0.0, self.width_px))

    def x_of(self, at_ns: float) -> float:
        """The pixel of one instant, clipped to the plot."""
        return min(float(self.width_px), max(0.0, (at_ns - self.start_ns) * self.px_per_ns))

    def columns_ns(self, column_px: int = 1) -> npt.NDArray[np.float64]:
        """The edges in time of the plot's pixel columns, shape (columns + 1,)."""
        return np.linspace(self.start_ns, self.end_ns, self.width_px // column_px + 1)


@dataclass(frozen=True)
class Tick:
    """One label of the axis, offset_ns after its start."""

    offset_ns: float
    text: str


def ticks(span_ns: float, width_px: float, least_gap_px: float = 100.0, since_ns: float = 0.0) -> tuple[Tick, ...]:
    """Round instants from since_ns on for span_ns, in steps of 1, 2 or 5 and one unit, with a minimum distance."""
    if span_ns <= 0:
        return (Tick(0.0, units.duration_like(0.0, 1.0)),)
    step = _round_up(span_ns * least_gap_px / width_px)
    first, last = math.ceil(since_ns / step - 1e-9), int((since_ns + span_ns) / step + 1e-9)
    # the unit of the largest label, but never one in which the step would need more than two decimals
    return tuple(
        Tick(i * step - since_ns, units.duration_like(i * step, step, unit_of_ns=last * step or step))
        for i in range(first, last + 1)
    )


def _round_up(raw_ns: float) -> float:
    power = 10.0 ** math.floor(math.log10(max(raw_ns, 1.0)))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw_ns * (1 - 1e-9))
