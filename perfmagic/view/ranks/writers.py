"""Several ranks as HTML: for any notebook front end, and as a section of a page."""

from __future__ import annotations

from perfmagic.base.language import say, translated
from perfmagic.base.tables import html_table
from perfmagic.base.terminal import escaped
from perfmagic.view.html import MAX_OUTPUT_BYTES, framed, image, paragraphs
from perfmagic.view.page import STATIC_CLASS, data_section
from perfmagic.view.ranks.doc import NOTE, RanksDoc, rank_table
from perfmagic.view.ranks.picture import ranks_picture
from perfmagic.view.ranks.summary import ranks_summary
from perfmagic.view.svg.layouts import MAX_BYTES
from perfmagic.view.timeline.live_data import Wire
from perfmagic.view.timeline.writers import answers_html


def ranks_html(doc: RanksDoc, *, table: bool = True) -> str:
    """Who decides and what to do, the picture and the table of several ranks; at most 80 kB.

    table: False where it is shown beside this.
    """
    above = answers_html(ranks_summary(doc))
    below = (table_html(doc) if table else "") + paragraphs([translated(doc.clocks)])
    used = len((above + below + escaped(doc.alt)).encode()) + 500
    max_bytes = max(8_000, (MAX_OUTPUT_BYTES - used) * 3 // 4)
    picture = ranks_picture(doc, min(MAX_BYTES, max_bytes))
    return framed(above + image(picture, doc.alt) + below, cls=STATIC_CLASS)


def table_html(doc: RanksDoc) -> str:
    """The table of the ranks, which opens without a script."""
    table = html_table(rank_table(doc)) + paragraphs([say(NOTE), *filter(None, [translated(doc.collectives)])])
    return f'<details style="margin:4px 0"><summary>{say("All numbers of the ranks")}</summary>{table}</details>'


# The live view of several ranks inside a self-contained page.


def ranks_section(doc: RanksDoc, wire: Wire) -> str:
    """All ranks of a page: the picture for readers without scripts, the data in elements that are not run, a table."""
    return data_section(ranks_html(doc, table=False), wire) + framed(table_html(doc))
