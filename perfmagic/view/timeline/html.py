"""A timeline as HTML that any notebook front end keeps: a table with style attributes, and the picture as an image.

No script, id or style element, and nothing that needs its class: sanitisers of untrusted notebooks strip them. Colours
are inherited, so the text fits light and dark themes; the picture brings its own ground.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic import units
from perfmagic.analysis.findings.finding import Finding
from perfmagic.view.html import FONT, MAX_FINDINGS, MAX_OUTPUT_BYTES, RED, framed, headline, image, paragraphs, short
from perfmagic.view.svg.canvas import escaped
from perfmagic.view.timeline.doc import TimelineDoc
from perfmagic.view.timeline.picture.timeline import MAX_BYTES, timeline_svg
from perfmagic.view.timeline.words import AT_ONCE, alt_text, cost_words, rest_words, trust_words

STATIC_CLASS = "perfmagic-static"  # by which a live timeline finds the picture it stands in for
# A live view whose kernel is gone becomes in JupyterLab and Notebook 7 an output of text alone: "Loading widget..."
# or "Error displaying widget: model not found". Below the picture that only worries. What a cell prints or shows itself
# has elements of its own or is rendered HTML, and is never hidden. In an untrusted notebook this element is dropped,
# but so is such text.
ONLY_THE_PICTURE = (
    f"<style>.jp-OutputArea-child:has(>.jp-OutputArea-output>.{STATIC_CLASS})+.jp-OutputArea-child"
    ">.jp-OutputArea-output:not(:has(*),.jp-RenderedHTMLCommon){display:none}</style>"
)
_SMALL = "font-size:11px;margin:2px 0 4px 0"
_CELL = "border:0;background:transparent;vertical-align:top;padding:2px 0"


def timeline_html(doc: TimelineDoc, below: str = "") -> str:
    """The first line, the findings as a table, the picture, the trust line; at most 60 kB.

    below: what stands under them, in HTML that every front end keeps.
    """
    above = headline(doc.header.parts[0], " · ".join(doc.header.parts[1:])) + _failure(doc) + _findings(doc)
    fine_print = _fine_print(doc)
    used = len((above + fine_print + escaped(alt_text(doc))).encode()) + 500
    room = max(8_000, (MAX_OUTPUT_BYTES - used) * 3 // 4)
    picture = timeline_svg(doc, header=False, most_bytes=min(MAX_BYTES, room))
    return framed(above + image(picture, alt_text(doc)) + fine_print + below, cls=STATIC_CLASS)


def _fine_print(doc: TimelineDoc) -> str:
    """The trust line; what it has no room for opens behind it, without a script."""
    line, more = trust_words(doc)
    if not more:
        return paragraphs(doc.trust)
    return f'<details style="{_SMALL}"><summary>{short(line)}</summary>{paragraphs(more)}</details>'


def _failure(doc: TimelineDoc) -> str:
    return f'<div style="margin:4px 0"><b>{short(doc.failure)}</b></div>' if doc.failure else ""


def _findings(doc: TimelineDoc) -> str:
    """The findings; those that are not shown at once open behind the others, without a script."""
    rows = [_row(f, doc.header.busy_frac) for f in doc.findings]
    shown, hidden = rows[:AT_ONCE], rows[AT_ONCE:]
    if not hidden:
        return _table(shown)
    most = f"<div>and {units.plural(len(hidden) - MAX_FINDINGS, 'more finding')}</div>" * (len(hidden) > MAX_FINDINGS)
    opened = f"<summary>{units.count(len(hidden))} more</summary>{_table(hidden[:MAX_FINDINGS])}{most}"
    return f'{_table(shown)}<details style="{FONT}">{opened}</details>'


def _table(rows: Sequence[str]) -> str:
    style = f"border-collapse:collapse;border:0;margin:0 0 4px 0;{FONT}"
    return f'<table style="{style}">{"".join(rows)}</table>' if rows else ""


def _row(finding: Finding, busy_frac: float) -> str:
    """One finding; a part of another is set in."""
    bold = ";font-weight:600" if finding.cost_ns != 0 and not finding.depth else ""
    red = f";color:{RED}" if finding.is_wrong else ""
    left = f"{_CELL};text-align:right;white-space:nowrap;min-width:80px{bold}{red}"
    right = f"{_CELL};text-align:left;padding-left:{12 + 18 * finding.depth}px{red}"
    sentence = f"<b>{short(finding.cause)}</b>{short(rest_words(finding))}"
    cells = f'<td style="{left}">{escaped(cost_words(finding, busy_frac))}</td><td style="{right}">{sentence}</td>'
    return f'<tr style="background:transparent">{cells}</tr>'
