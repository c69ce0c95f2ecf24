"""Tables that people read: one type for all of them, and its writers for a terminal, HTML and Markdown."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from perfmagic.base import terminal, units
from perfmagic.base.language import counted, phrase, translate_term, translated
from perfmagic.base.terminal import columns, cut_to_columns, escaped, printable, wrapped

NOTHING = "–"
SORTABLE = "data-perfmagic-sort"  # of tables that static/tables.js sorts
_SCRIPT = Path(__file__).resolve().parents[1] / "static" / "tables.js"
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
    ("_tokens_per_s", units.tokens_per_s),
    ("_bytes", units.size),
    ("_frac", units.percent),
    ("_ns", units.duration),
    ("_s", units.duration_s),
)
_FONT = "font-family:Arial,Helvetica,sans-serif;font-size:13px;line-height:1.4"
_CELL = "padding:1px 12px 1px 0;vertical-align:top"
NUMBER_STYLE = f"{_CELL};text-align:right"  # of most cells; a page says it once
LEAST_NAME = 28  # columns that the first column of a table keeps; where it cannot, each row takes several lines
GAP = 2


class Cell(str):
    """The text of a cell, with the number it stands for, by which it is sorted, and the name it shortens."""

    value: float | None
    full: str

    __slots__ = ("full", "value")


def cell(text: str, value: float | None = None, full: str = "") -> Cell:
    """A text with what it stands for."""
    made = Cell(text)
    made.value, made.full = value, full
    return made


def whole_name(text: str) -> str:
    """A cell's name before it was shortened."""
    return (text.full or text) if isinstance(text, Cell) else text


@dataclass(frozen=True)
class Column:
    """The heading of a column, and whether its cells are set to the right.  name: of the field, where rows have one."""

    heading: str
    numeric: bool
    name: str = ""

    @property
    def words(self) -> str:
        """The heading in the language in force; that of a field is what people type, so it stays."""
        return self.heading if self.name else translate_term(self.heading)


@dataclass(frozen=True)
class Table:
    """Cells under headings, with a title.

    head: a text stands for a column that is set to the left if it is the first, else to the right.  note: a line below
    the table, or in its place where there are no rows.  thing: what a row is, in the singular, "" where every renderer
    shows all rows.  names: what stands in the first column of all rows, whole, where these are names that may be
    shortened.  kernels: whether these are kernels' names.
    """

    title: str
    head: Sequence[str | Column]
    rows: Sequence[Sequence[str]]
    note: str = ""
    thing: str = ""
    names: tuple[str, ...] = ()
    kernels: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """How each column is set."""
        return tuple(c if isinstance(c, Column) else Column(c, numeric=i > 0) for i, c in enumerate(self.head))

    @property
    def headings(self) -> tuple[str, ...]:
        """The texts of the first line."""
        return tuple(column.words for column in self.columns)

    def first(self, most: int) -> Table:
        """The table with its first rows, and a note of how many there are more and where."""
        more = len(self.rows) - most
        if more <= 0 or not self.thing:
            return self
        words = counted(
            more,
            "and {n} more {thing}: --json has all",
            "and {n} more {thing}s: --json has all",
            thing=phrase(self.thing),
        )
        note = phrase("{first}. {second}", first=words, second=self.note) if self.note else words
        return replace(self, rows=self.rows[:most], note=note)


def table_of_fields(names: Sequence[str], rows: Sequence[object]) -> Table:
    """A column for each of these attributes of some rows, without those that are empty in all of them.

    Rows that have a `short_name` show it for their `name`.
    """
    names = [name for name in names if name != "short_name"]
    plain = [_heading(name) for name in names]
    head: list[Column] = []
    by_column: list[list[Cell]] = []
    for name, heading in zip(names, plain, strict=True):
        values = [getattr(row, name) for row in rows]
        texts = [describe_value(name, value) for value in values]
        if any(text != NOTHING for text in texts):
            numeric = all(value is None or _is_number(value) for value in values)
            head.append(Column(heading if plain.count(heading) == 1 else name, numeric, name))
            numbers = [value if _is_number(value) else None for value in values]
            short = [getattr(row, "short_name", text) for row, text in zip(rows, texts, strict=True)]
            shown = short if name == "name" else texts
            by_column.append([cell(*parts) for parts in zip(shown, numbers, texts, strict=True)])
    return Table("", head, list(zip(*by_column, strict=True)))


def describe_value(name: str, value: Any) -> str:
    """A value with the unit that its name ends in: ("busy_ns", 6_000_000) → "6.00 ms"."""
    if value in (None, "", ()) or (name == "line" and value == 0):
        return NOTHING
    if _is_word(value):
        return value.name.lower() if isinstance(value, enum.Enum) else "yes" if value else "no"
    if isinstance(value, (int, float)):
        if name in _INSTANTS:
            return units.duration_like(value, 1e3)
        unit = next((words for ending, words in _UNITS if f"_{name}".endswith(ending)), None)
        if unit is not None or name.startswith("frac_"):
            return (unit or units.percent)(value)
        if name in _NUMBERS_OF:
            return str(value)
        return units.count(value) if isinstance(value, int) else units.significant(value)
    return printable(", ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value))


# As text, as wide as the terminal. A table of few columns stacks them where it is narrow; one of rows drops the last.

ShortenNames = Callable[[Sequence[str], int], Sequence[str]]
ShortenColumn = Callable[[str, Sequence[str], int], Sequence[str]]


def text_lines(table: Table, *, least: Sequence[int] = (), shorten: ShortenNames | None = None) -> list[str]:
    """The lines of `text_blocks`, one after the other."""
    return [line for block in text_blocks(table, least=least, shorten=shorten) for line in block]


def text_blocks(table: Table, *, least: Sequence[int] = (), shorten: ShortenNames | None = None) -> list[list[str]]:
    """The lines of the heading and of each row: the first column to the left, the others to the right.

    No number is ever cut: in a terminal too narrow for the table each row takes several lines.
    least: columns that each cell takes at least, the gap before it included.  shorten: makes the texts of the first
    column fit; if left out they stay whole where a line has room for them.
    """
    rows = [table.headings, *table.rows]
    names = [printable(row[0]) for row in rows]
    widths = [GAP + max(columns(row[i]) for row in rows) for i in range(1, len(table.head))]
    widths = [max(pair) for pair in zip(widths, least[1:] or widths, strict=True)]
    room = terminal.width() - sum(widths) - GAP
    natural = max(columns(name) for name in names)
    if room < (natural if shorten is None else min(LEAST_NAME, natural)):
        return _stacked(table.headings, table.rows, _fitted(names, terminal.width(), shorten))
    texts = _fitted(names, room, shorten)
    first = max(max(columns(text) for text in texts) + GAP, least[0] if least else 0)
    numbers = ([_padded(*pair, numeric=True) for pair in zip(row[1:], widths, strict=True)] for row in rows)
    return [["".join([_padded(text, first, numeric=False), *row])] for text, row in zip(texts, numbers, strict=True)]


def _fitted(names: Sequence[str], room: int, shorten: ShortenNames | None) -> list[str]:
    """The heading and the names in this many columns."""
    short = names[1:] if shorten is None else shorten(names[1:], room)
    return [cut_to_columns(name, room) for name in (names[0], *short)]


def _stacked(headings: Sequence[str], rows: Sequence[Sequence[str]], names: Sequence[str]) -> list[list[str]]:
    """Each row as its name, and below it its numbers after their headings."""
    blocks = [[names[0]]]
    for name, row in zip(names[1:], rows, strict=True):
        said = [f"{heading} {value}" for heading, value in zip(headings[1:], row[1:], strict=True) if value]
        numbers = wrapped(f"    {', '.join(said)}", indent=4, max_columns=terminal.width()) if said else []
        blocks.append([name, *numbers])
    return blocks


def _padded(text: str, max_columns: int, *, numeric: bool) -> str:
    padding = " " * max(0, max_columns - columns(text))
    return padding + text if numeric else text + padding


def text_rows(table: Table, shorten: ShortenColumn) -> tuple[list[str], int]:
    """The lines of a table of fields, and how many columns it has no room for.

    shorten: makes the names of a column fit a width: its name, the names, how many columns.
    """
    width, shown = terminal.width(), table.columns
    natural = [_natural(table, i, width) for i in range(len(shown))]
    widths = _fitting(natural, [_least(column, width) for column in shown], width)
    texts = [_shortened(table, i, max_columns, shorten) for i, max_columns in enumerate(widths)]
    cells = [[column.heading, *names] for column, names in zip(shown, texts, strict=False)]
    widths = [min(most, max(map(columns, names))) for most, names in zip(widths, cells, strict=True)]
    lines = []
    for row in zip(*cells, strict=True):
        parts = [_lines(*part) for part in zip(shown, row, widths, strict=False)]
        for i in range(max(map(len, parts))):
            texts_of_line = (part[i] if i < len(part) else "" for part in parts)
            aligned = (
                _padded(text, most, numeric=column.numeric)
                for text, most, column in zip(texts_of_line, widths, shown, strict=False)
            )
            lines.append("  ".join(aligned).rstrip())
    return lines, len(shown) - len(cells)


# As HTML that notebooks keep: style attributes, no style sheet.


def html_table(table: Table, *, sortable: bool = False, unfold: bool = False) -> str:
    """The cells with their headings.

    sortable: a script may sort it by the numbers behind the texts; without the script it reads the same.  unfold: a
    shortened name opens into the whole one; if left out a pointer over it shows that.
    """
    shown = table.columns
    head = "".join(_html_heading(column) for column in shown)
    rows = "".join(
        f'<tr style="background:transparent">'
        f"{''.join(_html_cell(column, text, unfold=unfold) for column, text in zip(shown, row, strict=True))}</tr>"
        for row in table.rows
    )
    sorts = f" {SORTABLE}" if sortable else ""
    # no letter goes to the next line by itself: where there is no room, the table scrolls
    style = "border-collapse:collapse;margin:4px 0;overflow-wrap:normal"
    return (
        f'<div style="overflow-x:auto"><table{sorts} style="{style}"><thead><tr style="background:transparent">{head}'
        f"</tr></thead><tbody>{rows}</tbody></table></div>"
    )


@lru_cache(maxsize=1)
def sort_script() -> str:
    """What sorts tables that are SORTABLE, as it is built and committed. Raises OSError where the file is absent."""
    return _SCRIPT.read_text(encoding="utf-8").strip()


def html_block(title: str, table: Table, below: Sequence[str]) -> str:
    """A table of fields with its title, small lines below it, and the script that sorts it."""
    cells = f"{html_table(table, sortable=True)}<script>{sort_script()}</script>" if table.rows else ""
    small = "<br>".join(escaped(line) for line in below)
    note = f'<div style="font-size:11px;margin:2px 0 4px 0">{small}</div>' if small else ""
    return f'<div dir="ltr" style="{_FONT};overflow-x:auto"><b>{escaped(title)}</b>{cells}{note}</div>'


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


def _natural(table: Table, index: int, width: int) -> int:
    """How many columns of the terminal a column takes; a wide terminal has more for names."""
    column = table.columns[index]
    longest = max(columns(text) for text in (column.heading, *(whole_name(row[index]) for row in table.rows)))
    if column.numeric:
        return longest
    return min(longest, width if column.name == _PROSE else _LONGEST + max(0, width - terminal.USUAL))


def _shortened(table: Table, index: int, max_columns: int, shorten: ShortenColumn) -> Sequence[str]:
    """The texts of a column, its names as they fit."""
    column, texts = table.columns[index], [row[index] for row in table.rows]
    whole = [whole_name(text) for text in texts]
    if column.name not in _NAMES or (max_columns == _LONGEST and texts != whole):
        return texts
    return shorten(column.name, whole, max_columns)


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


def _lines(column: Column, text: str, max_columns: int) -> list[str]:
    if column.name == _PROSE:
        return textwrap.wrap(text, max_columns, break_long_words=True) or [""]
    return [cut_to_columns(text, max_columns)]


def _html_heading(column: Column) -> str:
    hover = f' title=".{escaped(column.name)}"' if column.name else ""
    return f'<th{hover} style="{_CELL};text-align:{_side(column)};font-weight:600">{escaped(column.words)}</th>'


def _html_cell(column: Column, text: str, *, unfold: bool) -> str:
    """A cell: the number that it stands for with it, and a shortened name with the whole one behind it."""
    value = "" if not isinstance(text, Cell) or text.value is None else f' data-value="{text.value}"'
    style = f"{_CELL};text-align:{_side(column)}"
    full = whole_name(text)
    if unfold:
        inside = escaped(text) if full == text else _unfolding(text, full)
        return f'<td{value} style="{style}">{inside}</td>'
    # fields of rows stand in one line each, but for sentences
    cut = bool(column.name) and column.name != _PROSE and len(text) > _LONGEST_HTML
    shown = f"{text[: _LONGEST_HTML - 1]}…" if cut else text
    hover = "" if shown == full else f' title="{escaped(full)}"'
    style += ";white-space:nowrap" if column.name and column.name != _PROSE else ""
    return f'<td{hover}{value} style="{style}">{escaped(shown)}</td>'


def _side(column: Column) -> str:
    return "right" if column.numeric else "left"


def _unfolding(text: str, full: str) -> str:
    """A shortened name, which unfolds into the whole one; a pointer over it shows that too."""
    whole = f'<div style="max-width:70ch;overflow-wrap:anywhere;opacity:.75">{escaped(full)}</div>'
    return f'<details><summary title="{escaped(full)}">{escaped(text)}</summary>{whole}</details>'


# As GitHub's Markdown.


def markdown_table(table: Table) -> str:
    """A table with its title and its note."""
    title, below = f"**{markdown_text(translate_term(table.title))}**", markdown_text(translated(table.note))
    if not table.rows:
        return f"{title}: {below}"
    rules = ["---:" if column.numeric else "---" for column in table.columns]
    lines = [title, "", _markdown_row(table.headings), f"| {' | '.join(rules)} |"]
    note = ["", below] if below else []
    return "\n".join([*lines, *(_markdown_row(row) for row in table.rows), *note])


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown_text, cells))} |"


def markdown_text(text: str) -> str:
    """Other people's names as text: nothing in them is markup."""
    for character in "\\`*_[]|":
        text = text.replace(character, "\\" + character)
    return text.replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")
