"""Lines as HTML below a timeline: the picture in an element that opens without a script."""

from __future__ import annotations

from perfmagic.view.html import image
from perfmagic.view.timeline.lines.doc import LinesDoc
from perfmagic.view.timeline.lines.picture import alt_text, lines_svg

STYLE = "font-size:12px;margin:4px 0"


def lines_html(doc: LinesDoc | None) -> str:
    """The picture behind a summary that opens it; nothing without lines."""
    if doc is None:
        return ""
    summary = "<summary><b>lines</b> of the cell and of its functions</summary>"
    return f'<details style="{STYLE}">{summary}{image(lines_svg(doc), alt_text(doc))}</details>'
