"""Memory as HTML that every notebook front end keeps: a picture, and tables with style attributes."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from perfmagic.view.html import RED, framed, headline, image, paragraphs, short
from perfmagic.view.memory.bars import bar_svg
from perfmagic.view.memory.doc import CHANGE_HEAD, HEAD, MOST_ROWS, MemoryDoc
from perfmagic.view.memory.picture import alt_text, memory_svg
from perfmagic.view.svg.canvas import CODE_FONT, escaped

BAR_PX, BAR_HIGH_PX = 110, 11
_CODE = CODE_FONT.replace("'", "&#39;")


def memory_html(doc: MemoryDoc) -> str:
    """The sentence, the picture, the table at the peak, what would lower it, what rounds leave."""
    body = headline(doc.device, doc.sentence)
    if doc.failed:
        body += f'<div style="margin:4px 0;color:{RED}"><b>{short(doc.failed)}</b></div>'
    body += image(memory_svg(doc), alt_text(doc))
    body += _titled("at the peak", _peak_table(doc))
    if doc.change_rows():
        body += _titled("what would lower the peak", _change_table(doc))
        body += paragraphs([doc.what_if.note]) if doc.what_if.note else ""
    return framed(body + paragraphs(doc.below()))


def nothing_html(words: str) -> str:
    """Where no block was recorded."""
    return framed(paragraphs([words]))


def _peak_table(doc: MemoryDoc) -> str:
    """Rows whose bars, laid end to end, are as long as the peak's width."""
    bars = [
        _bar(doc.stack.of_reason[row.reason], row.size_bytes / max(1, doc.peak_bytes))
        for row in doc.at_peak[:MOST_ROWS]
    ]
    rows = doc.peak_rows()
    bars += [""] * (len(rows) - len(bars))
    lines = [_row("th", ("", *HEAD[1:3], HEAD[0], HEAD[3]))]
    for bar, (place, size, n, why) in zip(bars, rows, strict=True):
        lines.append(
            _row("td", (bar, escaped(size), escaped(n), _place(place), escaped(why)), last=place == "the peak")
        )
    return _table(lines)


def _change_table(doc: MemoryDoc) -> str:
    """Each change with the peak it would have, as a part of the real one."""
    lines = [_row("th", ("", *CHANGE_HEAD[1:], CHANGE_HEAD[0], ""))]
    for row, (change, peak, less) in zip(doc.what_if, doc.change_rows(), strict=True):
        bar = _bar("kept for the backward pass", row.peak_bytes / max(1, doc.peak_bytes), rest=True)
        lines.append(_row("td", (bar, escaped(peak), escaped(less), _place(change), "")))
    return _table(lines)


def _place(words: str) -> str:
    """Where, then its code in the font of code: two spaces part them."""
    where, apart, code = words.partition("  ")
    return f'{escaped(where)}{"&#160; " if apart else ""}<span style="font-family:{_CODE}">{escaped(code)}</span>'


def _bar(layer: str, share_frac: float, *, rest: bool = False) -> str:
    data = base64.b64encode(bar_svg(layer, share_frac, BAR_PX, BAR_HIGH_PX, rest=rest).encode()).decode()
    return f'<img alt="{share_frac:.0%}" src="data:image/svg+xml;base64,{data}" style="display:block;max-width:none">'


def _row(tag: str, cells: Sequence[str], *, last: bool = False) -> str:
    found = ""
    weight = 600 if tag == "th" or last else 400
    for i, cell in enumerate(cells):
        align = "right" if i in (1, 2) else "left"
        style = f"padding:2px 12px 2px 0;text-align:{align};font-weight:{weight}"
        found += f'<{tag} style="{style}">{cell}</{tag}>'
    return f"<tr>{found}</tr>"


def _table(lines: Sequence[str]) -> str:
    return f'<table style="border-collapse:collapse;margin:4px 0 16px 0">{"".join(lines)}</table>'


def _titled(title: str, table: str) -> str:
    return f'<div style="margin:8px 0 2px 0"><b>{short(title)}</b></div>{table}'
