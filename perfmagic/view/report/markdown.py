"""A report on saved traces as GitHub's Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfmagic.analysis.findings.finding import Finding
from perfmagic.view.ranks.doc import RanksDoc
from perfmagic.view.report.ranks import TraceOf, mixed_words, rank_table
from perfmagic.view.report.table import ReportTable
from perfmagic.view.report.tables import MARKDOWN_ROWS, communication_words, report_tables, windows_words


def markdown(title: str, header: str, found: Sequence[Finding], trust: Sequence[str], report: Mapping[str, Any]) -> str:
    """One trace as GitHub's Markdown."""
    parts = [f"## {plain(title)}", plain(header)]
    parts += [plain(words) for words in (windows_words(report), communication_words(report)) if words]
    if found:
        parts.append("\n".join(f"{'   ' * one.depth}- {plain(one.sentence)}" for one in found))
    parts += [markdown_table(table) for table in report_tables(report, MARKDOWN_ROWS)]
    if trust:
        parts.append("**Trust**\n\n" + "\n".join(f"- {plain(sentence)}" for sentence in trust))
    return "\n\n".join(parts) + "\n"


def ranks_markdown(results: Sequence[TraceOf], ranks: Sequence[RanksDoc]) -> str:
    """The jobs of which several ranks are among some files as GitHub's Markdown: findings and a table for each."""
    parts = [plain(mixed_words(results))] if mixed_words(results) else []
    for doc in ranks:
        lines = [f"{i}. {plain(finding.sentence)}" for i, finding in enumerate(doc.findings, 1)]
        parts += [
            "## Ranks",
            plain(doc.sentence),
            *(["\n".join(lines)] if lines else []),
            markdown_table(rank_table(doc)),
        ]
    return "\n\n".join(parts) + "\n\n" if parts else ""


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
