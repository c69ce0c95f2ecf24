"""Pieces of HTML that any notebook front end keeps: style attributes and images, no script, id or style element."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from perfmagic.view.svg.canvas import escaped

MAX_OUTPUT_BYTES = 60_000  # one output of a notebook (docs/traces.md, "Limits")
MAX_FINDINGS = 12
MAX_SENTENCE = 600  # characters of a finding or note; longer ones hold other people's names
MAX_WIDTH_PX = 1600  # of a picture drawn for 1000 px: enlarged further, its letters would be larger than headings
RED = "#d93f45"  # of words on a ground that may be light or dark: contrast 4.4 to white, 4.3 to #111
FONT = "font-family:Arial,Helvetica,sans-serif;font-size:13px;line-height:1.4"


def framed(body: str, *, cls: str = "") -> str:
    """A piece of output in its own font, as wide as its place but no wider than a picture may be."""
    known = f' class="{cls}"' if cls else ""
    return f'<div{known} style="{FONT};max-width:{MAX_WIDTH_PX}px">{body}</div>'


def headline(strong: str, rest: str) -> str:
    """The first line of an output."""
    return f'<div style="margin:4px 0"><b>{short(strong)}</b> · {short(rest)}</div>'


def image(svg: str, alt: str) -> str:
    """A picture as an image with its data inside, scaled to the width it has."""
    data = base64.b64encode(svg.encode()).decode()
    style = f"display:block;width:100%;max-width:{MAX_WIDTH_PX}px"
    return f'<img alt="{escaped(alt)}" src="data:image/svg+xml;base64,{data}" style="{style}">'


def cells_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text cells: the first column to the left, the others to the right."""
    lines = [_cells_row(head, "th"), *(_cells_row(row, "td") for row in rows)]
    return f'<table style="border-collapse:collapse;margin:4px 0 16px 0">{"".join(lines)}</table>'


def _cells_row(cells: Sequence[str], tag: str) -> str:
    weight = 400 if tag == "td" else 600
    found = ""
    for i, cell in enumerate(cells):
        style = f"padding:2px 12px 2px 0;text-align:{'right' if i else 'left'};font-weight:{weight}"
        found += f'<{tag} style="{style}">{escaped(cell)}</{tag}>'
    return f"<tr>{found}</tr>"


def paragraphs(sentences: Sequence[str]) -> str:
    """Small lines below the picture."""
    shown = "<br>".join(short(sentence) for sentence in sentences[:MAX_FINDINGS])
    return f'<div style="font-size:11px;margin:2px 0 4px 0">{shown}</div>' if shown else ""


def short(text: str) -> str:
    """Escaped text of bounded length."""
    return escaped(text if len(text) <= MAX_SENTENCE else text[: MAX_SENTENCE - 1] + "…")
