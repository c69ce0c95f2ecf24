"""Memory as plain text, HTML and Markdown: the answer first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfmagic.base.language import counted, say, translate_term, translated
from perfmagic.base.tables import Table, html_table, markdown_table, text_lines
from perfmagic.base.terminal import cut_to_columns, wrapped
from perfmagic.view.html import RED, closed, conclusion_html, conclusion_markdown, framed, image, paragraphs, short
from perfmagic.view.memory.doc import MemoryDoc
from perfmagic.view.memory.picture import alt_text, memory_picture

_REASON = 42  # columns


def memory_text(doc: MemoryDoc, *, details: bool) -> str:
    """The peak, what would lower it; with details what was alive then, all changes, what rounds leave."""
    rest = [counted(len(doc.at_peak), "{n} row at the peak", "{n} rows at the peak")]
    rest += [counted(len(doc.what_if), "{n} change", "{n} changes")] if doc.what_if else []
    rest += [counted(len(doc.below()), "{n} note", "{n} notes")] if doc.below() else []
    more = "" if details else f".text(details=True): {say(', ').join(map(translated, rest))}"
    lines = [doc.conclusion.text(doc.about, more)]
    if doc.failed:
        lines += wrapped(say("The code failed: {failed}", failed=doc.failed))
    if not details:
        return "\n".join(lines)
    held = doc.peak_table
    short = replace(held, rows=[(*row[:-1], cut_to_columns(row[-1], _REASON)) for row in held.rows])
    lines += ["", translate_term(short.title), *text_lines(short, shorten=_cut)]
    if doc.change_table.rows:
        lines += ["", translate_term(doc.change_table.title), *text_lines(doc.change_table, shorten=_cut)]
        lines += [f"  {translated(doc.what_if.note)}"] if doc.what_if.note else []
    lines += [""] if doc.below() else []
    return "\n".join([*lines, *(line for sentence in doc.below() for line in wrapped(sentence, indent=2))])


def _cut(names: Sequence[str], max_columns: int) -> list[str]:
    return [cut_to_columns(name, max_columns) for name in names]


# Memory as HTML that every notebook front end keeps: tables with style attributes.


def memory_html(doc: MemoryDoc) -> str:
    """The peak, what would lower it, the picture; the tables and what rounds leave open with a click."""
    body = conclusion_html(doc.conclusion, doc.about)
    if doc.failed:
        body += f'<div style="margin:4px 0;color:{RED}"><b>{short(doc.failed)}</b></div>'
    body += image(memory_picture(doc), alt_text(doc))
    return framed(body + closed(say("the peak by line, all changes, notes"), paragraphs(doc.below()) + _tables(doc)))


def memory_markdown(doc: MemoryDoc) -> str:
    """The peak, what would lower it, what was alive then."""
    return "\n\n".join([conclusion_markdown(doc.conclusion, doc.about), markdown_table(doc.peak_table)]) + "\n"


def _tables(doc: MemoryDoc) -> str:
    return "".join(map(_titled, filter(lambda table: table.rows, (doc.peak_table, doc.change_table))))


def nothing_html(words: str) -> str:
    """Where no block was recorded."""
    return framed(paragraphs([words]))


def _titled(table: Table) -> str:
    return f'<div style="margin:8px 0 2px 0"><b>{short(translate_term(table.title))}</b></div>{html_table(table)}'
