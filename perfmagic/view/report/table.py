"""A table of text cells, as every form of a report draws it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReportTable:
    """A table of text cells with a title. The first column is left-aligned, the others are right-aligned.

    note: a line below the table, or in its place where there are no rows.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
