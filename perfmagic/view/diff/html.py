"""A comparison of two timelines as HTML for a notebook and a page: no style sheet; a page's own script sorts."""

from __future__ import annotations

from perfmagic.analysis.diff.diff import TraceDiff
from perfmagic.view.diff.picture.pair import Drawn, pair_svg
from perfmagic.view.diff.picture.waterfall import waterfall_svg
from perfmagic.view.diff.tables import comparison_tables
from perfmagic.view.html import MAX_OUTPUT_BYTES, framed, headline, image, paragraphs
from perfmagic.view.report.html import html_table
from perfmagic.view.svg.canvas import escaped
from perfmagic.view.timeline.picture.timeline import MAX_BYTES

MOST_ROWS, PAGE_ROWS = 6, 50  # of a long table: in an output of a notebook, and on a page
_SMALL = "font-size:11px;margin:2px 0 4px 0"


def comparison_html(diff: TraceDiff, first: Drawn, second: Drawn, *, whole: bool = False) -> str:
    """The verdict, the waterfall, both timelines on one axis, and tables that unfold; at most 60 kB.

    whole: for a page of its own: more rows, the tables open, the picture as fine as it gets.
    """
    verdict, _, parts = diff.headline.partition(": ")
    above = headline(verdict, parts) if parts else headline(verdict, "")
    tables = "".join(html_table(table) for table in comparison_tables(diff, PAGE_ROWS if whole else MOST_ROWS))
    unfolds = f'<details style="{_SMALL}"><summary>tables</summary>{tables}</details>'
    below = paragraphs(diff.notes) + (tables if whole else unfolds)
    drawn = above + (image(waterfall_svg(diff), _alt(diff)) if len(diff.parts) and not diff.of_samples else "")
    used = len((drawn + below).encode()) + 500
    room = MAX_BYTES if whole else (MAX_OUTPUT_BYTES - used) * 3 // 4
    if first.trace.device_ids and second.trace.device_ids:
        drawn += image(pair_svg(diff, first, second, room), f"Both timelines on one axis: {escaped(diff.a.name)} above")
    return framed(drawn + below)


def _alt(diff: TraceDiff) -> str:
    return f"From {diff.a.name} to {diff.b.name}: {diff.headline}"[:400]
