"""A timeline as HTML: a picture with its findings for any notebook, and the live view in a page of its own."""

from __future__ import annotations

from typing import Protocol

from perfmagic.analysis.findings.answer import Answers, name_action, times_of
from perfmagic.base import units
from perfmagic.base.language import translated
from perfmagic.base.tables import html_table
from perfmagic.base.terminal import escaped
from perfmagic.trace.model import Trace
from perfmagic.view.html import (
    FONT,
    MAX_FINDINGS,
    MAX_OUTPUT_BYTES,
    PALE,
    RED,
    answer_row,
    answers_table_html,
    framed,
    image,
    paragraphs,
    plain_row,
    plain_table,
    short,
    warnings_html,
)
from perfmagic.view.page import FRAME_PX, STATIC_CLASS, data_section, framed_page
from perfmagic.view.svg.canvas import WIDTH_PX
from perfmagic.view.svg.layouts import MAX_BYTES
from perfmagic.view.timeline.answers import WRONG, FindingRow, Summary, summary_of
from perfmagic.view.timeline.doc import TimelineDoc, ViewState, alt_text, describe_trust
from perfmagic.view.timeline.live_data import Wire, timeline_wire
from perfmagic.view.timeline.picture.gpus import GpusDoc, capital, gpus_picture, gpus_table, rest_of
from perfmagic.view.timeline.picture.timeline import timeline_picture

# A timeline as HTML that any notebook front end keeps: a table with style attributes, and the picture as an image.

_SMALL = "font-size:11px;margin:2px 0 4px 0"


def timeline_html(doc: TimelineDoc, below: str = "") -> str:
    """Who decides and what to do, the picture, the trust line; at most 80 kB.

    below: what stands under them, in HTML that every front end keeps.
    """
    above = answers_html(summary_of(doc))
    fine_print = _fine_print_html(doc)
    used = len((above + fine_print + escaped(alt_text(doc))).encode()) + 500
    max_bytes = max(8_000, (MAX_OUTPUT_BYTES - used) * 3 // 4)
    picture = timeline_picture(doc, min(MAX_BYTES, max_bytes))
    return framed(above + image(picture, alt_text(doc)) + fine_print + below, cls=STATIC_CLASS)


def _fine_print_html(doc: TimelineDoc) -> str:
    """The trust line; what it has no room for opens behind it, without a script."""
    line, more = describe_trust(doc)
    if not more:
        return paragraphs(translated(doc.trust))
    return f'<details style="{_SMALL}"><summary>{short(line)}</summary>{paragraphs(more)}</details>'


def gpus_html(doc: GpusDoc, answers: Answers) -> str:
    """A run on several GPUs: which is the fastest, the table, the picture; at most 80 kB.  answers: of the first."""
    table = gpus_table(doc.rows)
    above = f'<div style="margin:4px 0"><b style="font-size:15px">{short(capital(doc.sentence))}</b></div>'
    above += html_table(table) + f'<div style="font-size:12px;{PALE}">{short(translated(table.note))}</div>'
    above += warnings_html([f"! {note}" for note in translated(doc.notes)])
    words = f"{doc.rows[0].gpu}: {translated(answers).decides} · {rest_of(doc)}"
    below = f'<div style="font-size:12px;{PALE}">{short(words)}</div>'
    used = len((above + below + escaped(doc.alt)).encode()) + 500
    picture = gpus_picture(doc, min(MAX_BYTES, (MAX_OUTPUT_BYTES - used) * 3 // 4))
    return framed(above + image(picture, doc.alt) + below, cls=STATIC_CLASS)


# Who decides and what to do, above the picture.


def answers_html(summary: Summary) -> str:
    """Who decides, what was recorded, the answers; all else opens below them, without a script."""
    who, share = summary.decider
    title = f'<b style="font-size:15px">{escaped(summary.total)}</b> &nbsp;<b>{short(who)}</b>{short(share)}'
    about = f'<div style="font-size:12px;{PALE}">{short(summary.about)}</div>'
    failure = f'<div style="margin:4px 0"><b>{short(summary.failure)}</b></div>' if summary.failure else ""
    above = f'<div style="margin:4px 0 0 0">{title}</div>{about}{failure}'
    return above + _answers_table(summary.answers) + _opened(summary)


def _answers_table(answers: Answers | None) -> str:
    if answers is None:
        return ""
    numbered = [(f"{number}", answer) for number, answer in enumerate(answers.answers, 1)]
    numbered += [("", answers.together)] if answers.together else []
    rows = [
        answer_row(
            number,
            answer.headline,
            name_action(answer.headline, answer.action, answer.lines),
            times_of(answer),
            wrong=WRONG in answer.rules,
        )
        for number, answer in numbered
    ]
    return answers_table_html(rows)


def _opened(summary: Summary) -> str:
    """What is no answer, a line each, the warnings, and what opens all findings."""
    others = "".join(f'<div style="{PALE}">{short(line)}</div>' for line in summary.other_lines)
    above = f'<div style="font-size:12px;margin:2px 0">{others}</div>' if others else ""
    above += warnings_html(summary.warning_lines)
    if not summary.findings:
        return above
    rows = [_finding_row(finding) for finding in summary.findings[: 2 * MAX_FINDINGS]]
    hidden = len(summary.findings) - len(rows)
    more = f"<div>and {units.plural(hidden, 'more finding')}</div>" if hidden else ""
    opened = f"{plain_table(rows)}{more}"
    words = short(summary.findings_summary)
    return f'{above}<details style="{FONT};margin:2px 0 4px 0"><summary>{words}</summary>{opened}</details>'


def _finding_row(finding: FindingRow) -> str:
    """One finding; a part of another is set in."""
    bold = ";font-weight:600" if finding.cost_ns != 0 and not finding.depth else ""
    red = f";color:{RED}" if finding.rule == WRONG else ""
    sentence = f"<b>{short(finding.cause)}</b>{short(finding.rest)}"
    return plain_row(
        (f"text-align:right;white-space:nowrap;min-width:80px{bold}{red}", escaped(finding.cost)),
        (f"text-align:left;padding-left:{12 + 18 * finding.depth}px{red}", sentence),
    )


# The live view in a page of its own.

FURNITURE_PX = 230  # title, first two lines, what opens, bars, trace, axis, legend, margins
ANSWER_PX = 42


def live_section(doc: TimelineDoc, trace: Trace) -> str:
    """One timeline of a page: the picture for readers without scripts, and the data in elements that are not run."""
    return data_section(timeline_html(doc), timeline_wire(doc, trace))


def live_frame(title: str, doc: TimelineDoc, trace: Trace) -> str:
    """The page inside a frame that may run its script and nothing else; the picture where a frame is not allowed."""
    return framed_page(title, live_section(doc, trace), timeline_html(doc), height_px=frame_px(doc))


def frame_px(doc: TimelineDoc) -> int:
    """About how high a live timeline is: no page can ask a sandboxed frame. Rather too high than too low."""
    lanes_px = timeline_picture(doc).heights_px[WIDTH_PX]
    n_answers = len(doc.answers.answers) if doc.answers else 0
    return round(min(FRAME_PX, FURNITURE_PX + ANSWER_PX * n_answers + lanes_px))


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
