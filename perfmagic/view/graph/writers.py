"""A graph as plain text."""

from __future__ import annotations

from perfmagic.base import units
from perfmagic.base.tables import html_table, text_lines
from perfmagic.base.terminal import wrapped
from perfmagic.view.graph.doc import EXECUTED, PLANNED, GraphDoc
from perfmagic.view.graph.picture import alt_text, graph_picture
from perfmagic.view.html import RED, framed, headline, image, paragraphs, short


def graph_text(doc: GraphDoc) -> str:
    """The sentence, the lanes, both schedules in numbers, what could have begun earlier, the longest chain."""
    lines = wrapped(f"{doc.device} · {doc.sentence}" if doc.device else doc.sentence)
    if doc.failed:
        lines += wrapped(f"The code failed: {doc.failed}")
    lines += ["", *text_lines(doc.lanes), ""]
    graph = doc.graph
    lines += wrapped(f"{EXECUTED}: {units.duration(graph.elapsed_ns)}", indent=2)
    lines += wrapped(f"{PLANNED}: {units.duration(graph.possible_ns)}", indent=2)
    return "\n".join([*lines, *(line for sentence in doc.below() for line in wrapped(sentence, indent=2))])


# A graph as HTML that every notebook front end keeps: the picture, the same as a table.


def graph_html(doc: GraphDoc) -> str:
    """The sentence, the picture, what could have begun earlier, the lanes as a table."""
    body = headline(doc.device, doc.sentence)
    if doc.failed:
        body += f'<div style="margin:4px 0;color:{RED}"><b>{short(doc.failed)}</b></div>'
    body += image(graph_picture(doc), alt_text(doc)) + paragraphs(doc.below())
    summary = "<summary>the lanes as a table</summary>"
    body += f'<details style="font-size:11px;margin:4px 0">{summary}{html_table(doc.lanes)}</details>'
    return framed(body)


def nothing_html(words: str) -> str:
    """Where no operator ran."""
    return framed(paragraphs([words]))
