"""Tables with a title and a note, for a terminal and for a page; answers as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from perfmagic.analysis.findings.answer import Conclusion
from perfmagic.base.language import say, translate_term, translated
from perfmagic.base.tables import Table, html_table, markdown_table, markdown_text, text_lines, whole_name
from perfmagic.base.terminal import escaped, wrapped
from perfmagic.trace.short_names import short_names
from perfmagic.view.html import short

INDENT = "  "
MOST_NAMES = 500  # compared with those shown, so that short names differ


def table_lines(table: Table) -> list[str]:
    """A table for a terminal: its title heads the first column, whose names are cut."""
    if not table.rows:
        return wrapped(f"{translate_term(table.title)}{say(': ')}{translated(table.note)}")
    rows = [(INDENT + whole_name(row[0]), *row[1:]) for row in table.rows]
    shorten = partial(shorten_indented, among=table.names, kernels=table.kernels) if table.names else None
    titled = replace(table, head=(INDENT + translate_term(table.title), *table.head[1:]), rows=rows)
    lines = [line.rstrip() for line in text_lines(titled, shorten=shorten)]
    return [*lines, *(wrapped(f"  {translated(table.note)}", indent=2) if table.note else [])]


def shorten_indented(names: Sequence[str], max_columns: int, among: Sequence[str], *, kernels: bool) -> list[str]:
    """Indented names cut to max_columns, each different from the first others of its table."""
    bare = [name.removeprefix(INDENT) for name in names]
    short = short_names([*among[:MOST_NAMES], *bare], max_columns - len(INDENT), kernels=kernels)
    return [INDENT + short[name] for name in bare]


def html_section(table: Table) -> str:
    """A table with its title and its note, for a page whose script sorts it."""
    title = f'<h2 style="font-size:13px;margin:0">{short(translate_term(table.title))}</h2>'
    note = f'<p style="margin:4px 0 16px 0">{escaped(translated(table.note))}</p>' if table.note else ""
    return title + (html_table(table, sortable=True, unfold=True) if table.rows else "") + note


def conclusion_markdown(conclusion: Conclusion, about: str) -> str:
    """What decides in bold, what was measured, and what to do as a table of GitHub's Markdown."""
    shown = translated(conclusion)
    parts = [f"**{markdown_text(shown.decides)}**", markdown_text(about)]
    rows = [(f"{answer.headline} → {answer.action}", *answer.times) for answer in shown.proposals]
    if rows:
        parts.append(markdown_table(Table(say("What to do"), ("", say("from"), say("to"), ""), rows)))
    return "\n\n".join([*parts, *(markdown_text(f"! {warning}") for warning in shown.warnings)])
