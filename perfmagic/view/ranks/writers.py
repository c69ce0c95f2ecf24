"""Several ranks as HTML: for any notebook front end, and as a section of a page."""

from __future__ import annotations

from perfmagic.base.tables import html_table
from perfmagic.base.terminal import escaped
from perfmagic.view.html import MAX_OUTPUT_BYTES, framed, headline, image, paragraphs, short
from perfmagic.view.page import STATIC_CLASS, data_section
from perfmagic.view.ranks.doc import NOTE, RanksDoc, cost_words, rank_table
from perfmagic.view.ranks.picture import ranks_picture
from perfmagic.view.svg.layouts import MAX_BYTES
from perfmagic.view.timeline.live_data import Wire

_CELL = "border:0;background:transparent;vertical-align:top;padding:2px 0"


def ranks_html(doc: RanksDoc, *, table: bool = True) -> str:
    """The first line, the findings, the picture and the table of several ranks; at most 80 kB.

    table: False where it stands beside this.
    """
    above = headline(doc.parts[0], " · ".join(doc.parts[1:])) + _findings(doc)
    below = (table_html(doc) if table else "") + paragraphs([doc.clocks])
    used = len((above + below + escaped(doc.alt)).encode()) + 500
    max_bytes = max(8_000, (MAX_OUTPUT_BYTES - used) * 3 // 4)
    picture = ranks_picture(doc, min(MAX_BYTES, max_bytes))
    return framed(above + image(picture, doc.alt) + below, cls=STATIC_CLASS)


def table_html(doc: RanksDoc) -> str:
    """The table of the ranks, which opens without a script."""
    table = html_table(rank_table(doc)) + paragraphs([NOTE])
    return f'<details style="margin:4px 0"><summary>All numbers of the ranks</summary>{table}</details>'


def _findings(doc: RanksDoc) -> str:
    rows = ""
    for finding in doc.findings:
        left = f"{_CELL};text-align:right;white-space:nowrap;min-width:80px;font-weight:600"
        rest = finding.sentence.removeprefix(finding.cause)
        cells = f'<td style="{left}">{escaped(cost_words(finding.cost_ns))}</td>'
        cells += (
            f'<td style="{_CELL};text-align:left;padding-left:12px"><b>{short(finding.cause)}</b>{short(rest)}</td>'
        )
        rows += f'<tr style="background:transparent">{cells}</tr>'
    return f'<table style="border-collapse:collapse;border:0;margin:0 0 4px 0">{rows}</table>' if rows else ""


# The live view of several ranks inside a self-contained page.


def ranks_section(doc: RanksDoc, wire: Wire) -> str:
    """All ranks of a page: the picture for readers without scripts, the data in elements that are not run, a table."""
    return data_section(ranks_html(doc, table=False), wire) + framed(table_html(doc))
