"""A report on saved traces as HTML for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfmagic.view.html import cells_table, framed, short
from perfmagic.view.report.ranks import TraceOf, mixed_words
from perfmagic.view.report.table import ReportTable
from perfmagic.view.report.tables import communication_words, report_tables, windows_words
from perfmagic.view.svg.canvas import escaped


def html_tables(report: Mapping[str, Any]) -> str:
    """The tables as HTML for a page."""
    said = (windows_words(report), communication_words(report))
    head = "".join(f"<p>{escaped(words)}</p>" for words in said if words)
    return framed(head + "".join(_html_table(table) for table in report_tables(report)))


def heading(title: str, results: Sequence[object]) -> str:
    """The title of a section of a page; nothing if there is one section only."""
    return f'<h2 style="font-size:14px;margin:0 0 4px 0">{short(title)}</h2>' if len(results) > 1 else ""


def mixed_html(results: Sequence[TraceOf]) -> str:
    """Which jobs the files are of, where it is more than one; nothing else."""
    words = mixed_words(results)
    return framed(f"<p>{escaped(words)}</p>") if words else ""


def folded(title: str, body: str) -> str:
    """A section of a page that opens with a click, and needs no script for that."""
    return f'<details style="margin:2px 0"><summary>{short(title)}</summary>{body}</details>'


def _html_table(table: ReportTable) -> str:
    title = f'<h2 style="font-size:13px;margin:0">{short(table.title)}</h2>'
    note = f'<p style="margin:4px 0 16px 0">{escaped(table.note)}</p>' if table.note else ""
    if not table.rows:
        return title + note
    return f"{title}{cells_table(table.head, table.rows)}{note}"
