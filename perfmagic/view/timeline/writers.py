"""A timeline as HTML: a picture with its findings for any notebook, and the live view in a page of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perfmagic.analysis.findings.finding import Finding
from perfmagic.base import units
from perfmagic.base.terminal import escaped
from perfmagic.trace.model import Trace
from perfmagic.view.html import FONT, MAX_FINDINGS, MAX_OUTPUT_BYTES, RED, framed, headline, image, paragraphs, short
from perfmagic.view.page import FRAME_PX, STATIC_CLASS, data_section, framed_page
from perfmagic.view.svg.canvas import WIDTH_PX
from perfmagic.view.svg.layouts import MAX_BYTES
from perfmagic.view.timeline.doc import (
    AT_ONCE,
    TimelineDoc,
    ViewState,
    alt_text,
    cost_words,
    rest_words,
    trust_words,
)
from perfmagic.view.timeline.live_data import Wire, timeline_wire
from perfmagic.view.timeline.picture.timeline import timeline_picture

# A timeline as HTML that any notebook front end keeps: a table with style attributes, and the picture as an image.

_SMALL = "font-size:11px;margin:2px 0 4px 0"
_CELL = "border:0;background:transparent;vertical-align:top;padding:2px 0"


def timeline_html(doc: TimelineDoc, below: str = "") -> str:
    """The first line, the findings as a table, the picture, the trust line; at most 80 kB.

    below: what stands under them, in HTML that every front end keeps.
    """
    above = headline(doc.header.parts[0], " · ".join(doc.header.parts[1:])) + _failure(doc) + _findings(doc)
    fine_print = _fine_print_html(doc)
    used = len((above + fine_print + escaped(alt_text(doc))).encode()) + 500
    max_bytes = max(8_000, (MAX_OUTPUT_BYTES - used) * 3 // 4)
    picture = timeline_picture(doc, min(MAX_BYTES, max_bytes))
    return framed(above + image(picture, alt_text(doc)) + fine_print + below, cls=STATIC_CLASS)


def _fine_print_html(doc: TimelineDoc) -> str:
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


FURNITURE_PX = 190  # title, first line, bars, trace, axis, legend, margins
LINE_PX, LINE_CHARS = 16, 90  # of findings, in a page of a documentation's width


def live_section(doc: TimelineDoc, trace: Trace) -> str:
    """One timeline of a page: the picture for readers without scripts, and the data in elements that are not run."""
    return data_section(timeline_html(doc), timeline_wire(doc, trace))


def live_frame(title: str, doc: TimelineDoc, trace: Trace) -> str:
    """The page inside a frame that may run its script and nothing else; the picture where a frame is not allowed."""
    return framed_page(title, live_section(doc, trace), timeline_html(doc), height_px=frame_px(doc))


def frame_px(doc: TimelineDoc) -> int:
    """About how high a live timeline is: no page can ask a sandboxed frame. Rather too high than too low."""
    lanes_px = timeline_picture(doc).heights_px[WIDTH_PX]
    lengths = [len(f.cause) + len(rest_words(f)) for f in doc.findings[:AT_ONCE]]
    findings_px = sum(10 + LINE_PX * -(-length // LINE_CHARS) for length in lengths)
    return round(min(FRAME_PX, FURNITURE_PX + findings_px + lanes_px))


# What every live view offers, to widgets, to frames and to pages.


class LiveView(Protocol):
    """A view that runs in the browser, and what replaces it where it cannot run.

    state: what Python and the open views share.  empty: the picture shows all there is, so nothing needs a closer look.
    """

    @property
    def state(self) -> ViewState: ...

    @property
    def empty(self) -> bool: ...

    def wire(self) -> Wire:
        """The data, sent once."""

    def picture_html(self) -> str:
        """The picture that stays in the notebook when the kernel has gone; the live view hides it."""

    def frame_html(self) -> str:
        """The live view as a page in a frame, for front ends that run scripts and have no widgets."""
