"""Bars with labels: numbers of very different sizes side by side, and where each is from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from perfmagic.base import units
from perfmagic.base.errors import OptionError
from perfmagic.base.language import phrase, say, translated
from perfmagic.base.terminal import columns
from perfmagic.view.html import FONT, PALE, framed, short

BAR_PX = 320
MARKS = {
    "measured": ("█", "#3b7dd8", phrase("measured")),
    "computed": ("▒", "#d9902f", phrase("computed")),
    "published": ("░", "#9aa0a6", phrase("published")),
}
LETTERS = 32  # of the longest bar in a terminal


@dataclass(frozen=True)
class Bars:
    """Numbers of one unit, each with a name and where it is from.

    rows: name, number, and one of "measured", "computed" and "published".
    """

    unit: str
    rows: tuple[tuple[str, float, str], ...]
    log: bool

    def _frac(self, number: float) -> float:
        """How long a bar is, of the longest; on a logarithmic axis it starts a decade below the shortest."""
        numbers = [number for _, number, _ in self.rows]
        if not self.log:
            return number / max(numbers)
        return (1 + math.log10(number / min(numbers))) / self._decades

    @property
    def _decades(self) -> float:
        numbers = [number for _, number, _ in self.rows]
        return 1 + math.log10(max(numbers) / min(numbers))

    def _shown(self, number: float) -> str:
        if self.unit == "s":
            return units.duration_s(number) if number >= 1e-6 else f"{units.significant(number * 1e9)}{units.NBSP}ns"
        if self.unit == "B/s":
            return f"{units.size(number)}/s"
        if self.unit == "FLOP/s":
            return units.rate(number, self.unit)
        return f"{units.count(number) if number >= 1000 else units.significant(number)}{units.NBSP}{self.unit}"

    def _letters(self, number: float, source: str) -> str:
        letter, _, known = MARKS[source]
        return f"{letter * max(1, round(LETTERS * self._frac(number)))}  {translated(known)}"

    @property
    def _axis(self) -> str:
        return say("logarithmic: from one line to the next it is ten times as much") if self.log else ""

    def __repr__(self) -> str:
        wide = max(columns(name) for name, *_ in self.rows)
        lines = [
            f"{name}{' ' * (wide - columns(name))}  {self._shown(number):>12}  {self._letters(number, source)}"
            for name, number, source in self.rows
        ]
        return "\n".join([*lines, *([self._axis] if self.log else [])])

    def _repr_html_(self) -> str:
        ticks = f"repeating-linear-gradient(90deg,#9aa0a655 0 1px,transparent 1px {BAR_PX / self._decades:.1f}px)"
        ground = f"display:inline-block;width:{BAR_PX}px" + (f";background:{ticks}" if self.log else "")
        right = "border:0;padding:1px 8px;text-align:right;white-space:nowrap"
        lines = []
        for name, number, source in self.rows:
            width = max(2, round(BAR_PX * self._frac(number)))
            bar = f"display:block;width:{width}px;height:11px;background:{MARKS[source][1]}"
            lines.append(
                f'<tr style="background:transparent"><td style="{right}">{short(name)}</td>'
                f'<td style="border:0;padding:1px 0"><span style="{ground}"><span style="{bar}"></span></span></td>'
                f'<td style="{right}">{short(self._shown(number))}</td>'
                f'<td style="{right};text-align:left;{PALE}">{short(translated(MARKS[source][2]))}</td></tr>'
            )
        note = f'<div style="font-size:11px;{PALE}">{short(self._axis)}</div>' if self.log else ""
        return framed(f'<table style="border-collapse:collapse;margin:4px 0;{FONT}">{"".join(lines)}</table>{note}')


def bars(
    unit: str,
    *,
    measured: Mapping[str, float] | None = None,
    computed: Mapping[str, float] | None = None,
    published: Mapping[str, float] | None = None,
    log: bool = True,
    sort: bool = True,
) -> Bars:
    """Numbers as labelled bars, and which of them this machine gave.

    unit: "s", "B/s", "FLOP/s", or a word.  measured: by name.  computed: from the simulated device.  published: from a
    data sheet or table.  log: a logarithmic axis.  sort: the smallest first, and those of one name together; else as
    given. Raises OptionError without a number, or for one that is not above 0.

    >>> from perfmagic.lessons import bars
    >>> bars("B/s", measured={"memory": 20e9}, published={"disk": 200e6}, log=False)
    disk        200 MB/s  ░  published
    memory     20.0 GB/s  ████████████████████████████████  measured
    """
    groups = {"measured": measured or {}, "computed": computed or {}, "published": published or {}}
    rows = [(name, float(number), source) for source, group in groups.items() for name, number in group.items()]
    if not rows or any(not 0 < number < math.inf for _, number, _ in rows):
        raise OptionError("bars need numbers above 0", hint='bars("B/s", measured={"memory": 20e9})')
    last = {name: number for name, number, _ in rows}  # what is published places the others of its name
    return Bars(unit, tuple(sorted(rows, key=lambda row: last[row[0]]) if sort else rows), log)
