"""Rows as tables that people read: a heading for each column, each value with its unit, everything cut to fit."""

from __future__ import annotations

import enum
import html
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from perfmagic import terminal, units
from perfmagic.terminal import columns, cut_to_columns, printable

NOTHING = "–"
SORTABLE = "data-perfmagic-sort"  # of tables that static/tables.js sorts
_SCRIPT = Path(__file__).resolve().parent / "static" / "tables.js"
_LONGEST, _SHORTEST = 48, 24  # columns of a terminal that a text gets: where there is room, and where there is little
_SHORTEST_NAME = 40  # of a kernel, an operator: less tells too few apart
_LONGEST_HTML = 64  # characters
_PROSE = "sentence"  # is wrapped; other texts are names, which are shortened
_NAMES = frozenset({"name", "host_op", "ended_by", "asked_by", "call"})
_NUMBERS_OF = frozenset(
    {"device", "stream", "line", "number", "thread", "rank"}
)  # that name a thing, and count nothing
_INSTANTS = frozenset({"start_ns", "end_ns", "first_op_ns", "last_op_ns"})
_UNITS: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("_bytes_per_s", lambda value: f"{units.size(value)}/s"),
    ("_flop_per_s", lambda value: units.rate(value, "FLOP/s")),
    ("_bytes", units.size),
    ("_frac", units.percent),
    ("_ns", units.duration),
    ("_s", units.duration_s),
)
_FONT = "font-family:Arial,Helvetica,sans-serif;font-size:13px;line-height:1.4"
_CELL = "padding:1px 12px 1px 0;border:0;background:transparent;vertical-align:top"


Shorten = Callable[[str, Sequence[str], int], Sequence[str]]


@dataclass(frozen=True)
class Column:
    """One column: its heading, and a text for each row.

    numeric: set to the right.  values: the number that each text stands for, by which it is sorted; None where it
    stands for none.  full: the whole names where the texts are short ones.
    """

    name: str
    heading: str
    texts: tuple[str, ...]
    numeric: bool
    values: tuple[float | None, ...] = ()
    full: tuple[str, ...] = ()


def table_columns(names: Sequence[str], rows: Sequence[object]) -> list[Column]:
    """The columns of these attributes of some rows, without those that are empty in all of them.

    Rows that have a `short_name` show it for their `name`.
    """
    names = [name for name in names if name != "short_name"]
    plain = [_heading(name) for name in names]
    found = []
    for name, heading in zip(names, plain, strict=True):
        values = [getattr(row, name) for row in rows]
        if any(value is not None and value != "" for value in values):
            numeric = all(value is None or _is_number(value) for value in values)
            once = heading if plain.count(heading) == 1 else name
            column = Column(name, once, tuple(in_words(name, value) for value in values), numeric)
            known = tuple(value if _is_number(value) else None for value in values)
            found.append(replace(column, values=known, full=column.texts, texts=_short(column, rows)))
    return found


def _short(column: Column, rows: Sequence[object]) -> tuple[str, ...]:
    if column.name != "name":
        return column.texts
    return tuple(getattr(row, "short_name", text) for row, text in zip(rows, column.texts, strict=True))


def in_words(name: str, value: Any) -> str:
    """A value with the unit that its name ends in: ("busy_ns", 6_000_000) → "6.00 ms"."""
    if value in (None, "", ()) or (name == "line" and value == 0):
        return NOTHING
    if _is_word(value):
        return value.name.lower() if isinstance(value, enum.Enum) else "yes" if value else "no"
    if isinstance(value, (int, float)):
        return _number_in_words(name, value)
    return printable(", ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value))


def _number_in_words(name: str, value: float) -> str:
    if name in _INSTANTS:
        return units.duration_like(value, 1e3)
    unit = next((words for ending, words in _UNITS if f"_{name}".endswith(ending)), None)
    if unit is not None or name.startswith("frac_"):
        return (unit or units.percent)(value)
    if name in _NUMBERS_OF:
        return str(value)
    return units.count(value) if isinstance(value, int) else units.significant(value)


def text_table(shown: Sequence[Column], shorten: Shorten) -> tuple[list[str], int]:
    """The lines of a table as wide as the terminal, and how many columns it has no room for.

    shorten: makes the names of a column fit into so many columns: its name, the names, the room.
    """
    width = terminal.width()
    natural = [_natural(column, width) for column in shown]
    widths = _fitting(natural, [_least(column, width) for column in shown], width)
    kept = [_in_room(column, room, shorten) for column, room in zip(shown, widths, strict=False)]
    widths = [min(room, _widest(column)) for column, room in zip(kept, widths, strict=True)]
    cells = [[column.heading, *column.texts] for column in kept]
    lines = []
    for row in zip(*cells, strict=True):
        wrapped = [_lines(column, text, room) for column, text, room in zip(kept, row, widths, strict=True)]
        for i in range(max(map(len, wrapped))):
            parts = (part[i] if i < len(part) else "" for part in wrapped)
            aligned = (_set(text, room, column) for text, room, column in zip(parts, widths, kept, strict=True))
            lines.append("  ".join(aligned).rstrip())
    return lines, len(shown) - len(kept)


def html_table(shown: Sequence[Column]) -> str:
    """The same as HTML that notebooks keep: style attributes, no style sheet.

    Its script makes the headings sort it; where that is stripped the table reads the same.
    """
    head = "".join(_html_cell("th", column, column.heading, title=f".{column.name}") for column in shown)
    rows = "".join(
        f'<tr style="background:transparent">{"".join(_html_text(column, i) for column in shown)}</tr>'
        for i in range(len(shown[0].texts) if shown else 0)
    )
    style = f"border-collapse:collapse;border:0;margin:2px 0 4px 0;{_FONT}"
    return (
        f'<table {SORTABLE} style="{style}"><thead><tr style="background:transparent">{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table><script>{sort_script()}</script>"
    )


@lru_cache(maxsize=1)
def sort_script() -> str:
    """What sorts tables that are SORTABLE, as it is built and committed. Raises OSError where the file is absent."""
    return _SCRIPT.read_text(encoding="utf-8").strip()


def html_block(title: str, table: str, below: Sequence[str]) -> str:
    """A table with its title, and small lines below it."""
    small = "<br>".join(html.escape(printable(line)) for line in below)
    note = f'<div style="font-size:11px;margin:2px 0 4px 0">{small}</div>' if small else ""
    return f'<div style="{_FONT};overflow-x:auto"><b>{html.escape(title)}</b>{table}{note}</div>'


def _heading(name: str) -> str:
    """A field's name without its unit, which each value carries."""
    if name in ("ns", "n"):
        return {"ns": "time", "n": "count"}[name]
    for ending in ("_bytes_per_s", "_per_s", "_bytes", "_frac", "_ns", "_s"):
        name = name.removesuffix(ending)
    return name.removeprefix("n_").replace("_", " ")


def _is_word(value: Any) -> bool:
    """Whether a number stands for a word."""
    return isinstance(value, (bool, enum.Enum))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not _is_word(value)


def _widest(column: Column) -> int:
    return max(columns(text) for text in (column.heading, *column.texts))


def _natural(column: Column, width: int) -> int:
    """How much room a column takes; a wide terminal has more for names."""
    if column.numeric:
        return _widest(column)
    longest = max(columns(text) for text in (column.heading, *column.full))
    return min(longest, width if column.name == _PROSE else _LONGEST + max(0, width - terminal.USUAL))


def _in_room(column: Column, room: int, shorten: Shorten) -> Column:
    """A column of names as they fit."""
    if column.name not in _NAMES or (room == _LONGEST and column.texts != column.full):
        return column
    return replace(column, texts=tuple(shorten(column.name, column.full, room)))


def _least(column: Column, width: int) -> int | None:
    """To how many columns a text may be cut; None for a number, which is whole."""
    if column.numeric:
        return None
    return min(_SHORTEST_NAME, width // 2) if column.name in _NAMES else _SHORTEST


def _fitting(widths: list[int], least: Sequence[int | None], width: int) -> list[int]:
    """Widths that fit into a line: texts are cut first, then the last columns are dropped."""
    widths = list(widths)
    while sum(widths) + 2 * (len(widths) - 1) > width:
        texts = [i for i, wide in enumerate(widths) if wide > (least[i] or wide)]
        if texts:
            too_wide = sum(widths) + 2 * (len(widths) - 1) - width
            widest = max(texts, key=lambda i: widths[i])
            widths[widest] = max(least[widest] or 0, widths[widest] - too_wide)
        elif len(widths) > 1:
            widths.pop()
        else:
            break
    return widths


def _lines(column: Column, text: str, room: int) -> list[str]:
    if column.name == _PROSE:
        return textwrap.wrap(text, room, break_long_words=True) or [""]
    return [cut_to_columns(text, room)]


def _set(text: str, room: int, column: Column) -> str:
    padding = " " * max(0, room - columns(text))
    return padding + text if column.numeric else text + padding


def _html_text(column: Column, row: int) -> str:
    text, full = column.texts[row], column.full[row]
    cut = text if column.name == _PROSE or len(text) <= _LONGEST_HTML else f"{text[: _LONGEST_HTML - 1]}…"
    return _html_cell("td", column, cut, title="" if cut == full else full, value=column.values[row])


def _html_cell(tag: str, column: Column, text: str, title: str = "", value: float | None = None) -> str:
    align = "right" if column.numeric else "left"
    hover = f' title="{html.escape(title)}"' if title else ""
    sorts = "" if value is None else f' data-value="{value}"'
    wrap = "" if column.name == _PROSE else ";white-space:nowrap"
    return f'<{tag}{hover}{sorts} style="{_CELL};text-align:{align}{wrap}">{html.escape(text)}</{tag}>'
