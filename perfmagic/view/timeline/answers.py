"""Who decides and what to do, above the lanes: as data for a browser, and as HTML that any notebook keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perfmagic.analysis.findings.answer import Answer, Answers, list_rest, times_of
from perfmagic.analysis.findings.finding import Finding
from perfmagic.base import units
from perfmagic.base.language import say, translated
from perfmagic.base.terminal import escaped
from perfmagic.view.html import FONT, MAX_FINDINGS, RED, paragraphs, short
from perfmagic.view.timeline.doc import TimelineDoc, cost_words, rest_words
from perfmagic.view.timeline.live_columns import cut

WRONG = "race"  # the rule of a wrong result, which is said in red


def findings_words(doc: TimelineDoc) -> str:
    """How many findings open; "" for none."""
    return units.plural(len(doc.findings), "finding") if doc.findings else ""


def _answers(doc: TimelineDoc) -> Answers | None:
    """The answers in the language in force."""
    return translated(doc.answers)


def _decider(doc: TimelineDoc) -> tuple[str, str]:
    """Who decides, and the number behind it with the colon that joins it."""
    answers = _answers(doc)
    who, colon, share = answers.decides.partition(say(": ")) if answers else ("", "", "")
    return who, colon + share


def _others(doc: TimelineDoc) -> tuple[str, ...]:
    """What is no answer, a line each; where there is nothing else, the first finding."""
    answers = _answers(doc)
    if answers is None:
        return ()
    nothing = doc.findings and not answers.answers and not answers.also_seen
    rest = list_rest(answers.little_gain, answers.also_seen)
    return (*rest, *(f"{f.cause}{rest_words(f)}" for f in doc.findings[: 1 if nothing else 0]))


def _warnings(doc: TimelineDoc) -> tuple[str, ...]:
    answers = _answers(doc)
    return tuple(f"! {warning}" for warning in answers.warnings) if answers else ()


# As data.


def answers_wire(doc: TimelineDoc) -> dict[str, Any] | None:
    """The answers with their words as they are shown; None where nobody asked.  evidence: rows of the findings."""
    answers = _answers(doc)
    if answers is None:
        return None
    return {
        "decides": [cut(words) for words in _decider(doc)],
        "rows": [_answer_wire(doc, answer) for answer in answers.answers],
        "together": None if answers.together is None else _answer_wire(doc, answers.together),
        "others": [cut(line) for line in _others(doc)],
        "warnings": [cut(line) for line in _warnings(doc)],
    }


def _answer_wire(doc: TimelineDoc, answer: Answer) -> dict[str, Any]:
    before, after, sure = times_of(answer)
    return {
        "headline": cut(answer.headline),
        "action": cut(answer.action),
        "before": before,
        "after": after,
        "sure": sure,
        "wrong": WRONG in answer.rules,
        "start_ns": answer.start_ns - doc.start_ns,
        "end_ns": answer.end_ns - doc.start_ns,
        # a finding's sentence may go on with what its own change would gain
        "evidence": [i for i, finding in enumerate(doc.findings) if finding.sentence.startswith(answer.evidence)],
    }


# As HTML.

_CELL = "border:0;background:transparent;vertical-align:top;padding:2px 0"
_PALE = "opacity:.75"
MOST_CHARS = 120  # of a line that opens the rest of itself


def answers_html(doc: TimelineDoc) -> str:
    """Who decides, what was recorded, the answers; all else opens below them, without a script."""
    who, share = _decider(doc)
    title = f'<b style="font-size:15px">{escaped(doc.header.parts[0])}</b> &nbsp;<b>{short(who)}</b>{short(share)}'
    about = f'<div style="font-size:12px;{_PALE}">{short(doc.header.about)}</div>'
    failure = f'<div style="margin:4px 0"><b>{short(doc.failure)}</b></div>' if doc.failure else ""
    return f'<div style="margin:4px 0 0 0">{title}</div>{about}{failure}{_answers_table(doc)}{_opened(doc)}'


def _answers_table(doc: TimelineDoc) -> str:
    answers = _answers(doc)
    if answers is None:
        return ""
    rows = [_answer_row(f"{number}", answer) for number, answer in enumerate(answers.answers, 1)]
    rows += [_answer_row("", answers.together)] if answers.together else []
    return _table(rows, "width:100%;margin:6px 0 2px 0")


def _answer_row(number: str, answer: Answer) -> str:
    before, after, sure = times_of(answer)
    times = f"{escaped(before)} → <b>{escaped(after)}</b>" if before else escaped(after)
    sure = f'<div style="font-size:11px;{_PALE}">{escaped(sure)}</div>' if sure else ""
    action = f"<div>→ {short(answer.action)}</div>" if answer.action else ""
    red = f";color:{RED}" if WRONG in answer.rules else ""
    cells = (
        (f"text-align:left;width:22px;{_PALE}", number),
        (f"text-align:left{red}", f"<b>{short(answer.headline)}</b>{action}"),
        ("text-align:right;white-space:nowrap;padding-left:12px", times + sure),
    )
    return _row(*cells)


def _opened(doc: TimelineDoc) -> str:
    """What is no answer and the warnings in one line, which opens all findings."""
    lines = [*_others(doc), *_warnings(doc)]
    if not doc.findings:
        return paragraphs(lines)
    words = " · ".join(short(_begin(line)) for line in (*lines, findings_words(doc)))
    rows = [_finding_row(doc, finding) for finding in doc.findings[: 2 * MAX_FINDINGS]]
    hidden = len(doc.findings) - len(rows)
    more = f"<div>and {units.plural(hidden, 'more finding')}</div>" if hidden else ""
    rest = paragraphs([line for line in lines if line != _begin(line)])
    return f'<details style="{FONT};margin:2px 0 4px 0"><summary>{words}</summary>{rest}{_table(rows)}{more}</details>'


def _begin(line: str) -> str:
    return line if len(line) <= MOST_CHARS else line[: MOST_CHARS - 1] + "…"


def _finding_row(doc: TimelineDoc, finding: Finding) -> str:
    """One finding; a part of another is set in."""
    bold = ";font-weight:600" if finding.cost_ns != 0 and not finding.depth else ""
    red = f";color:{RED}" if finding.is_wrong else ""
    cost = escaped(cost_words(finding, doc.header.busy_frac))
    sentence = f"<b>{short(finding.cause)}</b>{short(rest_words(finding))}"
    return _row(
        (f"text-align:right;white-space:nowrap;min-width:80px{bold}{red}", cost),
        (f"text-align:left;padding-left:{12 + 18 * finding.depth}px{red}", sentence),
    )


def _row(*cells: tuple[str, str]) -> str:
    inside = "".join(f'<td style="{_CELL};{style}">{words}</td>' for style, words in cells)
    return f'<tr style="background:transparent">{inside}</tr>'


def _table(rows: Sequence[str], style: str = "margin:0 0 4px 0") -> str:
    return f'<table style="border-collapse:collapse;border:0;{style};{FONT}">{"".join(rows)}</table>' if rows else ""
