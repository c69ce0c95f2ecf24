"""The live view of several ranks inside a self-contained page."""

from __future__ import annotations

from perfmagic.view.html import framed
from perfmagic.view.ranks.doc import RanksDoc
from perfmagic.view.ranks.html import ranks_html, table_html
from perfmagic.view.timeline.live import data_section
from perfmagic.view.timeline.wire import Wire


def ranks_section(doc: RanksDoc, wire: Wire) -> str:
    """All ranks of a page: the picture for readers without scripts, the data in elements that are not run, a table."""
    return data_section(ranks_html(doc, table=False), wire) + framed(table_html(doc))
