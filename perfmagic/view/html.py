"""Pieces of HTML that any notebook front end keeps: style attributes and images, no script, id or style element.

Tables have a title and a note, in a terminal too.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from perfmagic.analysis.findings.answer import Conclusion, Times
from perfmagic.base.language import say, translate_term, translated
from perfmagic.base.tables import Table, html_table, markdown_table, markdown_text, text_lines, whole_name
from perfmagic.base.terminal import escaped, wrapped
from perfmagic.trace.names import short_names
from perfmagic.view.svg.layouts import Picture

MAX_OUTPUT_BYTES = 80_000  # one output of a notebook (docs/traces.md, "Limits")
MAX_FINDINGS = 12
MAX_SENTENCE = 600  # characters of a finding or note; longer ones hold other people's names
MAX_WIDTH_PX = 1000  # as pictures are drawn: enlarged, their letters would be larger than those around
RED = "#d93f45"  # of words on a ground that may be light or dark: contrast 4.4 to white, 4.3 to #111
AMBER = "#d9902f"  # of a rule beside warnings
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


# The answers of a result: a fact, what to do, and what that changes.

PALE = "opacity:.75"
_CELL = "border:0;background:transparent;vertical-align:top;padding:2px 0"


def conclusion_html(conclusion: Conclusion, about: str) -> str:
    """What decides in bold, what was measured, and what to do."""
    shown = translated(conclusion)
    head = f'<div style="margin:4px 0 0 0"><b style="font-size:15px">{short(shown.decides)}</b></div>'
    below = f'<div style="font-size:12px;{PALE}">{short(about)}</div>' if about else ""
    rows = [
        answer_row(f"{number}", proposal.headline, proposal.action, proposal.times)
        for number, proposal in enumerate(shown.proposals, 1)
    ]
    return head + below + answers_table_html(rows) + warnings_html([f"! {warning}" for warning in shown.warnings])


def warnings_html(lines: Sequence[str]) -> str:
    """What is to know of the record itself, set off from what was found in it."""
    shown = "<br>".join(short(line) for line in lines[:MAX_FINDINGS])
    style = f"font-size:12px;margin:4px 0;padding:1px 0 1px 8px;border-left:3px solid {AMBER}"
    return f'<div style="{style}">{shown}</div>' if shown else ""


def answers_table_html(rows: Sequence[str]) -> str:
    """Rows of answers as a table; JupyterLab would give its columns one width."""
    return plain_table(rows, "width:100%;table-layout:auto;margin:6px 0 2px 0")


def answer_row(number: str, headline: str, action: str, times: Times, *, wrong: bool = False) -> str:
    """One answer as a row.  wrong: the code gives a wrong result."""
    before, after, sure = times
    changes = f"{escaped(before)} → <b>{escaped(after)}</b>" if before else escaped(after)
    sure = f'<div style="font-size:11px;{PALE}">{escaped(sure)}</div>' if sure else ""
    todo = f"<div>→ {short(action)}</div>" if action else ""
    red = f";color:{RED}" if wrong else ""
    return plain_row(
        (f"text-align:left;width:22px;{PALE}", number),
        (f"text-align:left{red}", f"<b>{short(headline)}</b>{todo}"),
        ("text-align:right;white-space:nowrap;padding-left:12px", changes + sure),
    )


def plain_row(*cells: tuple[str, str]) -> str:
    """A row without borders, of pairs of a style and what is in the cell."""
    inside = "".join(f'<td style="{_CELL};{style}">{words}</td>' for style, words in cells)
    return f'<tr style="background:transparent">{inside}</tr>'


def plain_table(rows: Sequence[str], style: str = "margin:0 0 4px 0") -> str:
    """A table without borders; nothing without rows."""
    return f'<table style="border-collapse:collapse;border:0;{style};{FONT}">{"".join(rows)}</table>' if rows else ""


def closed(summary: str, body: str) -> str:
    """What opens with a click, without a script."""
    return f'<details style="{FONT};font-size:11px;margin:4px 0"><summary>{short(summary)}</summary>{body}</details>'


INDENT = "  "
MOST_NAMES = 500  # compared with those shown, so that short names differ


def table_lines(table: Table) -> list[str]:
    """A table for a terminal: its title heads the first column, whose names are cut."""
    if not table.rows:
        return wrapped(f"{translate_term(table.title)}{say(': ')}{translated(table.note)}")
    rows = [(INDENT + whole_name(row[0]), *row[1:]) for row in table.rows]
    shorten = partial(shorten_indented, among=table.names, kernels=table.kernels) if table.names else None
    titled = replace(table, head=(INDENT + translate_term(table.title), *table.head[1:]), rows=rows)
    lines = [line.rstrip() for line in text_lines(titled, shorten=shorten)]
    return [*lines, *(wrapped(f"  {translated(table.note)}", indent=2) if table.note else [])]


def shorten_indented(names: Sequence[str], max_columns: int, among: Sequence[str], *, kernels: bool) -> list[str]:
    """Indented names cut to max_columns, each different from the first others of its table."""
    bare = [name.removeprefix(INDENT) for name in names]
    short = short_names([*among[:MOST_NAMES], *bare], max_columns - len(INDENT), kernels=kernels)
    return [INDENT + short[name] for name in bare]


def html_section(table: Table) -> str:
    """A table with its title and its note, for a page whose script sorts it."""
    title = f'<h2 style="font-size:13px;margin:0">{short(translate_term(table.title))}</h2>'
    note = f'<p style="margin:4px 0 16px 0">{escaped(translated(table.note))}</p>' if table.note else ""
    return title + (html_table(table, sortable=True, unfold=True) if table.rows else "") + note


def conclusion_markdown(conclusion: Conclusion, about: str) -> str:
    """What decides in bold, what was measured, and what to do as a table of GitHub's Markdown."""
    shown = translated(conclusion)
    parts = [f"**{markdown_text(shown.decides)}**", markdown_text(about)]
    rows = [(f"{answer.headline} → {answer.action}", *answer.times) for answer in shown.proposals]
    if rows:
        parts.append(markdown_table(Table(say("What to do"), ("", say("from"), say("to"), ""), rows)))
    return "\n\n".join([*parts, *(markdown_text(f"! {warning}") for warning in shown.warnings)])
