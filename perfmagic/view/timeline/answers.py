"""Who decides and what to do, above the lanes: as data for a browser."""

from __future__ import annotations

from typing import Any

from perfmagic.analysis.findings.answer import Answer, Answers, action_words, list_rest, times_of
from perfmagic.base import units
from perfmagic.base.language import say, translated
from perfmagic.view.timeline.doc import TimelineDoc, only_finding
from perfmagic.view.timeline.live_columns import cut

WRONG = "race"  # the rule of a wrong result, which is said in red


def findings_words(doc: TimelineDoc) -> str:
    """How many findings open; "" for none."""
    return units.plural(len(doc.findings), "finding") if doc.findings else ""


def answers_now(doc: TimelineDoc) -> Answers | None:
    """The answers in the language in force."""
    return translated(doc.answers)


def decider(doc: TimelineDoc) -> tuple[str, str]:
    """Who decides, and the number behind it with the colon that joins it."""
    answers = answers_now(doc)
    who, colon, share = answers.decides.partition(say(": ")) if answers else ("", "", "")
    return who, colon + share


def other_lines(doc: TimelineDoc) -> tuple[str, ...]:
    """What is no answer, a line each; where there is nothing else, the first finding."""
    answers = answers_now(doc)
    if answers is None:
        return ()
    only = only_finding(doc, answers)
    return (*list_rest(answers.little_gain, answers.also_seen), *([only] if only else []))


def warning_lines(doc: TimelineDoc) -> tuple[str, ...]:
    """What is to know of the record itself, a line each."""
    answers = answers_now(doc)
    return tuple(f"! {warning}" for warning in answers.warnings) if answers else ()


# As data.


def answers_wire(doc: TimelineDoc) -> dict[str, Any] | None:
    """The answers with their words as they are shown; None where nobody asked.  evidence: rows of the findings."""
    answers = answers_now(doc)
    if answers is None:
        return None
    return {
        "decides": [cut(words) for words in decider(doc)],
        "rows": [_answer_wire(doc, answer) for answer in answers.answers],
        "together": None if answers.together is None else _answer_wire(doc, answers.together),
        "others": [cut(line) for line in other_lines(doc)],
        "warnings": [cut(line) for line in warning_lines(doc)],
    }


def _answer_wire(doc: TimelineDoc, answer: Answer) -> dict[str, Any]:
    before, after, sure = times_of(answer)
    return {
        "headline": cut(answer.headline),
        "action": cut(action_words(answer)),
        "before": before,
        "after": after,
        "sure": sure,
        "wrong": WRONG in answer.rules,
        "start_ns": answer.start_ns - doc.start_ns,
        "end_ns": answer.end_ns - doc.start_ns,
        # a finding's sentence may go on with what its own change would gain
        "evidence": [i for i, finding in enumerate(doc.findings) if finding.sentence.startswith(answer.evidence)],
    }
