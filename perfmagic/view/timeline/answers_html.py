"""Who decides and what to do, above the picture of one timeline or of several ranks: as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic.analysis.findings.answer import Answer, Answers, action_words, times_of
from perfmagic.base import units
from perfmagic.base.terminal import escaped
from perfmagic.view.html import FONT, MAX_FINDINGS, RED, paragraphs, short
from perfmagic.view.timeline.answers import WRONG, FindingRow, Summary

_CELL = "border:0;background:transparent;vertical-align:top;padding:2px 0"
_PALE = "opacity:.75"
MOST_CHARS = 120  # of a line that opens the rest of itself


def answers_html(summary: Summary) -> str:
    """Who decides, what was recorded, the answers; all else opens below them, without a script."""
    who, share = summary.decider
    title = f'<b style="font-size:15px">{escaped(summary.total)}</b> &nbsp;<b>{short(who)}</b>{short(share)}'
    about = f'<div style="font-size:12px;{_PALE}">{short(summary.about)}</div>'
    failure = f'<div style="margin:4px 0"><b>{short(summary.failure)}</b></div>' if summary.failure else ""
    above = f'<div style="margin:4px 0 0 0">{title}</div>{about}{failure}'
    return above + _answers_table(summary.answers) + _opened(summary)


def _answers_table(answers: Answers | None) -> str:
    if answers is None:
        return ""
    rows = [_answer_row(f"{number}", answer) for number, answer in enumerate(answers.answers, 1)]
    rows += [_answer_row("", answers.together)] if answers.together else []
    return _table(rows, "width:100%;margin:6px 0 2px 0")


def _answer_row(number: str, answer: Answer) -> str:
    before, after, sure = times_of(answer)
    times = f"{escaped(before)} → <b>{escaped(after)}</b>" if before else escaped(after)
    sure = f'<div style="font-size:11px;{_PALE}">{escaped(sure)}</div>' if sure else ""
    action = f"<div>→ {short(action_words(answer))}</div>" if answer.action else ""
    red = f";color:{RED}" if WRONG in answer.rules else ""
    cells = (
        (f"text-align:left;width:22px;{_PALE}", number),
        (f"text-align:left{red}", f"<b>{short(answer.headline)}</b>{action}"),
        ("text-align:right;white-space:nowrap;padding-left:12px", times + sure),
    )
    return _row(*cells)


def _opened(summary: Summary) -> str:
    """What is no answer and the warnings in one line, which opens all findings."""
    lines = [*summary.other_lines, *summary.warning_lines]
    if not summary.findings:
        return paragraphs(lines)
    words = " · ".join(short(_begin(line)) for line in (*lines, summary.findings_words))
    rows = [_finding_row(finding) for finding in summary.findings[: 2 * MAX_FINDINGS]]
    hidden = len(summary.findings) - len(rows)
    more = f"<div>and {units.plural(hidden, 'more finding')}</div>" if hidden else ""
    rest = paragraphs([line for line in lines if line != _begin(line)])
    return f'<details style="{FONT};margin:2px 0 4px 0"><summary>{words}</summary>{rest}{_table(rows)}{more}</details>'


def _begin(line: str) -> str:
    return line if len(line) <= MOST_CHARS else line[: MOST_CHARS - 1] + "…"


def _finding_row(finding: FindingRow) -> str:
    """One finding; a part of another is set in."""
    bold = ";font-weight:600" if finding.cost_ns != 0 and not finding.depth else ""
    red = f";color:{RED}" if finding.rule == WRONG else ""
    return _row(
        (f"text-align:right;white-space:nowrap;min-width:80px{bold}{red}", escaped(finding.cost)),
        (
            f"text-align:left;padding-left:{12 + 18 * finding.depth}px{red}",
            f"<b>{short(finding.cause)}</b>{short(finding.rest)}",
        ),
    )


def _row(*cells: tuple[str, str]) -> str:
    inside = "".join(f'<td style="{_CELL};{style}">{words}</td>' for style, words in cells)
    return f'<tr style="background:transparent">{inside}</tr>'


def _table(rows: Sequence[str], style: str = "margin:0 0 4px 0") -> str:
    return f'<table style="border-collapse:collapse;border:0;{style};{FONT}">{"".join(rows)}</table>' if rows else ""
