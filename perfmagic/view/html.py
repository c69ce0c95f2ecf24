"""Pieces of HTML that any notebook front end keeps: style attributes and images, no script, id or style element."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

from perfmagic.base.terminal import escaped
from perfmagic.view.svg.layouts import Picture

MAX_OUTPUT_BYTES = 80_000  # one output of a notebook (docs/traces.md, "Limits")
MAX_FINDINGS = 12
MAX_SENTENCE = 600  # characters of a finding or note; longer ones hold other people's names
MAX_WIDTH_PX = 1000  # as pictures are drawn: enlarged, their letters would be larger than those around
RED = "#d93f45"  # of words on a ground that may be light or dark: contrast 4.4 to white, 4.3 to #111
FONT = "font-family:Arial,Helvetica,sans-serif;font-size:13px;line-height:1.4"


def framed(body: str, *, cls: str = "") -> str:
    """A piece of output in its own font, as wide as its place but no wider than a picture may be."""
    known = f' class="{cls}"' if cls else ""
    return f'<div{known} dir="ltr" style="{FONT};max-width:{MAX_WIDTH_PX}px;overflow-wrap:anywhere">{body}</div>'


def headline(strong: str, rest: str) -> str:
    """The first line of an output."""
    return f'<div style="margin:4px 0"><b>{short(strong)}</b> · {short(rest)}</div>'


def image(picture: str | Picture, alt: str) -> str:
    """A picture as an image with its data inside, as wide as its place; a text (SVG) is scaled to the width it has."""
    svg = picture.svg if isinstance(picture, Picture) else picture
    data = base64.b64encode(svg.encode()).decode()
    style = f"display:block;width:100%;max-width:{MAX_WIDTH_PX}px"
    style += f";margin-bottom:{picture.margin}" if isinstance(picture, Picture) else ""
    return f'<img alt="{escaped(alt)}" width="100%" src="data:image/svg+xml;base64,{data}" style="{style}">'


def paragraphs(sentences: Sequence[str]) -> str:
    """Small lines below the picture."""
    shown = "<br>".join(short(sentence) for sentence in sentences[:MAX_FINDINGS])
    return f'<div style="font-size:11px;margin:2px 0 4px 0">{shown}</div>' if shown else ""


def short(text: str) -> str:
    """Escaped text of bounded length; a name in backticks becomes code."""
    bounded = escaped(text if len(text) <= MAX_SENTENCE else text[: MAX_SENTENCE - 1] + "…")
    return re.sub("`([^`]+)`", r"<code>\1</code>", bounded)
