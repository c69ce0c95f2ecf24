"""A table of text cells, as every form of a report draws it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perfmagic import units

ALL = "--json has all"


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


Column = tuple[str, Callable[[Any], Cell], str]  # its heading, what makes its cells, and of which key of a report


@dataclass(frozen=True)
class ReportTable:
    """A table of text cells with a title. The first column is left-aligned, the others are right-aligned.

    note: a line below the table, or in its place where there are no rows.  thing: what a row is, in the singular,
    "" where every face shows all rows.  names: what stands in the first column of all rows, whole, where these are
    names that may be shortened.  kernels: whether these are kernels' names.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    thing: str = ""
    names: tuple[str, ...] = ()
    kernels: bool = False

    def first(self, most: int) -> ReportTable:
        """The table with its first rows, and a note of how many there are more and where."""
        more = len(self.rows) - most
        if more <= 0 or not self.thing:
            return self
        words = f"and {units.plural(more, f'more {self.thing}')}: {ALL}"
        note = ". ".join(filter(None, (words, self.note)))
        return replace(self, rows=self.rows[:most], note=note)


def named_table(
    title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]], thing: str, note: str = ""
) -> ReportTable:
    """A table whose first column has names."""
    return ReportTable(title, head, tuple(rows), note, thing, tuple(whole_names(rows)))


def columns_of(
    items: Sequence[Mapping[str, Any]], first: Callable[[Mapping[str, Any]], str], columns: Sequence[Column]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The head and the rows of a table: a row for each item of a report.  first: the cell that names it."""
    head = ("", *(heading for heading, _, _ in columns))
    return head, [(first(one), *(made(one[key]) for _, made, key in columns)) for one in items]


def whole_name(item: Mapping[str, Any]) -> Cell:
    """The cell with an item's name, which may be shortened."""
    return cell(item["name"], full=item["name"])


def time_cell(ns: float | None) -> Cell:
    """A time; empty where it is not known."""
    return cell("") if ns is None else cell(units.duration(ns), ns)


def count_cell(n: int) -> Cell:
    """A count."""
    return cell(units.count(n), n)


def share_cell(frac: float) -> Cell:
    """A share of 1."""
    return cell(units.percent(frac), frac)


def size_cell(size_bytes: int | None) -> Cell:
    """A size; empty where it is 0 or not known."""
    return cell(units.size(size_bytes), size_bytes) if size_bytes else cell("")


def rate_cell(bytes_per_s: float | None) -> Cell:
    """Bytes a second; empty where they are 0 or not known."""
    return cell(f"{units.size(bytes_per_s)}/s", bytes_per_s) if bytes_per_s else cell("")


def whole_names(rows: Sequence[Sequence[str]]) -> list[str]:
    """The first cells of some rows before they were shortened."""
    return [row[0].full or row[0] if isinstance(row[0], Cell) else row[0] for row in rows]
