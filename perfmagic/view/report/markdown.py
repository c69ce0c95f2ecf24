"""A report on saved traces as GitHub's Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfmagic.analysis.findings.finding import Finding
from perfmagic.view.report.ranks import TraceOf, findings_of_ranks
from perfmagic.view.report.table import ReportTable
from perfmagic.view.report.tables import MARKDOWN_ROWS, report_tables, windows_words


def markdown(title: str, header: str, found: Sequence[Finding], trust: Sequence[str], report: Mapping[str, Any]) -> str:
    """One trace as GitHub's Markdown."""
    parts = [f"## {plain(title)}", plain(header)]
    if words := windows_words(report):
        parts.append(plain(words))
    if found:
        parts.append("\n".join(f"{'   ' * one.depth}- {plain(one.sentence)}" for one in found))
    parts += [markdown_table(table) for table in report_tables(report, MARKDOWN_ROWS)]
    if trust:
        parts.append("**Trust**\n\n" + "\n".join(f"- {plain(sentence)}" for sentence in trust))
    return "\n\n".join(parts) + "\n"


def ranks_markdown(results: Sequence[TraceOf]) -> str:
    """The findings about several ranks as GitHub's Markdown; nothing for one file."""
    found = findings_of_ranks(results)
    lines = [f"{i}. {plain(finding.sentence)}" for i, finding in enumerate(found, 1)]
    return "\n".join(["## Ranks", "", *lines, "", ""]) if found else ""


def markdown_table(table: ReportTable) -> str:
    """A table with its title."""
    if not table.rows:
        return f"**{plain(table.title)}**: {plain(table.note)}"
    lines = [
        f"**{plain(table.title)}**",
        "",
        _markdown_row(table.head),
        _markdown_row(["---", *["---:"] * len(table.head[1:])]),
    ]
    note = ["", plain(table.note)] if table.note else []
    return "\n".join([*lines, *(_markdown_row(row) for row in table.rows), *note])


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(plain(cell) if set(cell) - set("-:") else cell for cell in cells) + " |"


def plain(text: str) -> str:
    """Other people's names as text: nothing in them is markup."""
    for character in "\\`*_[]|":
        text = text.replace(character, "\\" + character)
    return text.replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")
