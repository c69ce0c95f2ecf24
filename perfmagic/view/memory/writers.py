"""Memory as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfmagic.base.tables import Table, html_table, text_lines
from perfmagic.base.terminal import cut_to_columns, wrapped
from perfmagic.view.html import RED, framed, headline, image, paragraphs, short
from perfmagic.view.memory.doc import MemoryDoc
from perfmagic.view.memory.picture import alt_text, memory_picture

_REASON = 42  # columns


def memory_text(doc: MemoryDoc) -> str:
    """The sentence, the table at the peak, what would lower it, what rounds leave."""
    lines = wrapped(f"{doc.device} · {doc.sentence}")
    if doc.failed:
        lines += wrapped(f"The code failed: {doc.failed}")
    held = doc.peak_table
    short = replace(held, rows=[(*row[:-1], cut_to_columns(row[-1], _REASON)) for row in held.rows])
    lines += ["", short.title, *text_lines(short, shorten=_cut)]
    if doc.change_table.rows:
        lines += ["", doc.change_table.title, *text_lines(doc.change_table, shorten=_cut)]
        lines += [f"  {doc.what_if.note}"] if doc.what_if.note else []
    return "\n".join([*lines, "", *(line for sentence in doc.below() for line in wrapped(sentence, indent=2))])


def _cut(names: Sequence[str], max_columns: int) -> list[str]:
    return [cut_to_columns(name, max_columns) for name in names]


# Memory as HTML that every notebook front end keeps: tables with style attributes.


def memory_html(doc: MemoryDoc) -> str:
    """The sentence, the picture, the same as tables, what rounds leave."""
    body = headline(doc.device, doc.sentence)
    if doc.failed:
        body += f'<div style="margin:4px 0;color:{RED}"><b>{short(doc.failed)}</b></div>'
    body += image(memory_picture(doc), alt_text(doc))
    tables = "".join(map(_titled, filter(lambda table: table.rows, (doc.peak_table, doc.change_table))))
    summary = "<summary>the same as tables</summary>"
    body += f'<details style="font-size:11px;margin:4px 0">{summary}{tables}</details>'
    return framed(body + paragraphs(doc.below()))


def nothing_html(words: str) -> str:
    """Where no block was recorded."""
    return framed(paragraphs([words]))


def _titled(table: Table) -> str:
    return f'<div style="margin:8px 0 2px 0"><b>{short(table.title)}</b></div>{html_table(table)}'
