"""A comparison of two timelines as HTML for a notebook and a page: no script, no style sheet."""

from __future__ import annotations

from perfmagic.analysis.diff.diff import TraceDiff
from perfmagic.view.diff.picture.pair import Drawn, pair_svg
from perfmagic.view.diff.picture.waterfall import waterfall_svg
from perfmagic.view.diff.tables import comparison_tables
from perfmagic.view.html import MAX_OUTPUT_BYTES, framed, headline, image, paragraphs
from perfmagic.view.report.html import html_table
from perfmagic.view.svg.canvas import escaped

MOST_ROWS = 10  # of a table in an output of a notebook
_SMALL = "font-size:11px;margin:2px 0 4px 0"


def comparison_html(diff: TraceDiff, first: Drawn, second: Drawn) -> str:
    """The verdict, the waterfall, both timelines on one axis, and tables that unfold; at most 60 kB."""
    verdict, _, parts = diff.headline.partition(": ")
    above = headline(verdict, parts) if parts else headline(verdict, "")
    tables = "".join(html_table(table) for table in comparison_tables(diff, MOST_ROWS))
    below = f'<details style="{_SMALL}"><summary>tables</summary>{tables}</details>{paragraphs(diff.notes)}'
    drawn = above + (image(waterfall_svg(diff), _alt(diff)) if len(diff.parts) else "")
    used = len((drawn + below).encode()) + 500
    room = (MAX_OUTPUT_BYTES - used) * 3 // 4
    if first.trace.device_ids and second.trace.device_ids:
        drawn += image(pair_svg(diff, first, second, room), f"Both timelines on one axis: {escaped(diff.a.name)} above")
    return framed(drawn + below)


def _alt(diff: TraceDiff) -> str:
    return f"From {diff.a.name} to {diff.b.name}: {diff.headline}"[:400]
