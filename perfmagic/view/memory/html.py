"""Memory as HTML that every notebook front end keeps: tables with style attributes."""

from __future__ import annotations

from perfmagic.view.html import RED, cells_table, framed, headline, image, paragraphs, short
from perfmagic.view.memory.doc import CHANGE_HEAD, HEAD, MemoryDoc
from perfmagic.view.memory.picture import alt_text, memory_svg


def memory_html(doc: MemoryDoc) -> str:
    """The sentence, the picture, the same as tables, what rounds leave."""
    body = headline(doc.device, doc.sentence)
    if doc.failed:
        body += f'<div style="margin:4px 0;color:{RED}"><b>{short(doc.failed)}</b></div>'
    body += image(memory_svg(doc), alt_text(doc))
    tables = _titled("at the peak", cells_table(HEAD, doc.peak_rows()))
    if doc.change_rows():
        tables += _titled("what would lower the peak", cells_table(CHANGE_HEAD, doc.change_rows()))
    summary = "<summary>the same as tables</summary>"
    body += f'<details style="font-size:11px;margin:4px 0">{summary}{tables}</details>'
    return framed(body + paragraphs(doc.below()))


def nothing_html(words: str) -> str:
    """Where no block was recorded."""
    return framed(paragraphs([words]))


def _titled(title: str, table: str) -> str:
    return f'<div style="margin:8px 0 2px 0"><b>{short(title)}</b></div>{table}'
