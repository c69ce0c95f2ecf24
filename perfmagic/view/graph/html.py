"""A graph as HTML that every notebook front end keeps: the picture, the same as a table."""

from __future__ import annotations

from perfmagic.view.graph.doc import HEAD, GraphDoc
from perfmagic.view.graph.picture import alt_text, graph_svg
from perfmagic.view.html import RED, cells_table, framed, headline, image, paragraphs, short


def graph_html(doc: GraphDoc) -> str:
    """The sentence, the picture, what could have begun earlier, the lanes as a table."""
    body = headline(doc.device, doc.sentence)
    if doc.failed:
        body += f'<div style="margin:4px 0;color:{RED}"><b>{short(doc.failed)}</b></div>'
    body += image(graph_svg(doc), alt_text(doc)) + paragraphs(doc.below())
    summary = "<summary>the lanes as a table</summary>"
    body += f'<details style="font-size:11px;margin:4px 0">{summary}{cells_table(HEAD, doc.lane_rows())}</details>'
    return framed(body)


def nothing_html(words: str) -> str:
    """Where no operator ran."""
    return framed(paragraphs([words]))
