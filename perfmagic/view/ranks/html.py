"""Several ranks as HTML that any notebook front end keeps: findings, picture, and the table behind a click."""

from __future__ import annotations

from perfmagic.view.html import MAX_OUTPUT_BYTES, cells_table, framed, headline, image, paragraphs, short
from perfmagic.view.ranks.doc import RanksDoc
from perfmagic.view.ranks.picture import MAX_BYTES, ranks_svg
from perfmagic.view.ranks.table import HEAD, NOTE, cost_words, rank_cells
from perfmagic.view.svg.canvas import escaped
from perfmagic.view.timeline.html import STATIC_CLASS

_CELL = "border:0;background:transparent;vertical-align:top;padding:2px 0"


def ranks_html(doc: RanksDoc, *, table: bool = True) -> str:
    """The first line, the findings, the picture and the table of several ranks; at most 60 kB.

    table: False where it stands beside this.
    """
    above = headline(doc.parts[0], " · ".join(doc.parts[1:])) + _findings(doc)
    below = (table_html(doc) if table else "") + paragraphs([doc.clocks])
    used = len((above + below + escaped(doc.alt)).encode()) + 500
    room = max(8_000, (MAX_OUTPUT_BYTES - used) * 3 // 4)
    picture = ranks_svg(doc, header=False, most_bytes=min(MAX_BYTES, room))
    return framed(above + image(picture, doc.alt) + below, cls=STATIC_CLASS)


def table_html(doc: RanksDoc) -> str:
    """The table of the ranks, which opens without a script."""
    table = cells_table(HEAD, rank_cells(doc)) + paragraphs([NOTE])
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
