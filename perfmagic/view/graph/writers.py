"""A graph as plain text, HTML and Markdown: the answer first."""

from __future__ import annotations

from perfmagic.base import units
from perfmagic.base.language import chained, counted, phrase, say, translated
from perfmagic.base.tables import html_table, markdown_table, text_lines
from perfmagic.base.terminal import wrapped
from perfmagic.view.graph.doc import EXECUTED, PLANNED, GraphDoc
from perfmagic.view.graph.picture import alt_text, graph_picture
from perfmagic.view.html import RED, closed, conclusion_html, conclusion_markdown, framed, image, paragraphs, short


def graph_text(doc: GraphDoc, *, details: bool) -> str:
    """What decides, what to do; with details the lanes, both schedules, late operators, the critical path."""
    n_late, n_notes = len(doc.late), len(doc.notes)
    rest = [counted(len(doc.graph.lanes), "{n} lane", "{n} lanes"), phrase("critical path")]
    rest += [counted(n_late, "{n} late operator", "{n} late operators")] if n_late else []
    rest += [counted(n_notes, "{n} note", "{n} notes")] if n_notes else []
    more = "" if details else f".text(details=True): {say(', ').join(map(translated, rest))}"
    lines = [doc.conclusion.text(_about(doc), more)]
    if doc.failed:
        lines += wrapped(say("The code failed: {failed}", failed=doc.failed))
    if not details:
        return "\n".join(lines)
    lines += ["", *text_lines(doc.lanes), ""]
    graph = doc.graph
    lines += wrapped(_how_long(EXECUTED, graph.elapsed_ns), indent=2)
    lines += wrapped(_how_long(PLANNED, graph.possible_ns), indent=2)
    return "\n".join([*lines, *(line for sentence in doc.below() for line in wrapped(sentence, indent=2))])


def graph_html(doc: GraphDoc) -> str:
    """What decides, what to do, the picture; what could have begun earlier and the lanes open with a click."""
    body = conclusion_html(doc.conclusion, _about(doc))
    if doc.failed:
        body += f'<div style="margin:4px 0;color:{RED}"><b>{short(doc.failed)}</b></div>'
    body += image(graph_picture(doc), alt_text(doc))
    return framed(body + closed(say("lanes, critical path, notes"), paragraphs(doc.below()) + html_table(doc.lanes)))


def graph_markdown(doc: GraphDoc) -> str:
    """What decides, what to do, the lanes."""
    return "\n\n".join([conclusion_markdown(doc.conclusion, _about(doc)), markdown_table(doc.lanes)]) + "\n"


def _about(doc: GraphDoc) -> str:
    return translated(chained("{a} · {b}", (doc.device, doc.about)))


def _how_long(how: str, ns: int) -> str:
    return say("{a}: {b}", a=phrase(how), b=units.duration(ns))


def nothing_html(words: str) -> str:
    """Where no operator ran."""
    return framed(paragraphs([words]))
