"""A report on saved traces as HTML for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfmagic.tables import SORTABLE
from perfmagic.view.html import framed, short
from perfmagic.view.report.ranks import TraceOf, mixed_words
from perfmagic.view.report.table import Cell, ReportTable
from perfmagic.view.report.tables import communication_words, report_tables, windows_words
from perfmagic.view.svg.canvas import escaped


def html_tables(report: Mapping[str, Any]) -> str:
    """The tables as HTML for a page."""
    said = (windows_words(report), communication_words(report))
    head = "".join(f"<p>{escaped(words)}</p>" for words in said if words)
    return framed(head + "".join(html_table(table) for table in report_tables(report)))


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


def html_table(table: ReportTable) -> str:
    """A table with its title."""
    title = f'<h2 style="font-size:13px;margin:0">{short(table.title)}</h2>'
    note = f'<p style="margin:4px 0 16px 0">{escaped(table.note)}</p>' if table.note else ""
    if not table.rows:
        return title + note
    head = "".join(_cell("th", word, i) for i, word in enumerate(table.head))
    rows = "".join(f"<tr>{''.join(_cell('td', c, i) for i, c in enumerate(row))}</tr>" for row in table.rows)
    style = f"border-collapse:collapse;margin:4px 0 {4 if note else 16}px 0"
    return f'{title}<table {SORTABLE} style="{style}"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{note}'


def _cell(tag: str, text: str, column: int) -> str:
    """A heading or a cell: the number that it stands for with it, and a shortened name with the whole one behind it."""
    align, weight = "right" if column else "left", 400 if tag == "td" else 600
    style = f"padding:2px 12px 2px 0;vertical-align:top;text-align:{align};font-weight:{weight}"
    value, inside = "", escaped(text)
    if isinstance(text, Cell):
        value = "" if text.value is None else f' data-value="{text.value}"'
        inside = _unfolding(text, text.full) if text.full not in ("", text) else inside
    return f'<{tag}{value} style="{style}">{inside}</{tag}>'


def _unfolding(text: str, full: str) -> str:
    """A shortened name, which unfolds into the whole one; a pointer over it shows that too."""
    whole = f'<div style="max-width:70ch;overflow-wrap:anywhere;opacity:.75">{escaped(full)}</div>'
    return f'<details><summary title="{escaped(full)}">{escaped(text)}</summary>{whole}</details>'
