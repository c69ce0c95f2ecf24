"""Who decides and what to do, above the lanes of one timeline or of several ranks: as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perfmagic.analysis.findings.answer import Answer, Answers, list_rest, name_action, times_of
from perfmagic.base import units
from perfmagic.base.language import counted, language, say, translate_term, translated
from perfmagic.view.timeline.doc import TimelineDoc, describe_cost
from perfmagic.view.timeline.live_columns import cut
from perfmagic.view.timeline.live_words import TEMPLATES
from perfmagic.view.timeline.summary import describe_rest, only_sentence

WRONG = "race"  # the rule of a wrong result, which is said in red
MOST_SENTENCES = 6  # of an answer's evidence that no finding in the list has


@dataclass(frozen=True)
class FindingRow:
    """A finding as it is shown.

    cost: the left column.  cause, rest: the sentence, its cause in bold.  start_ns, end_ns: on the axis.
    lines: of the cell, that the sentence names.  depth: 0, or one more than the finding has that it is a part of.
    """

    rule: str
    cost: str
    cost_ns: int | None
    cause: str
    rest: str
    start_ns: int
    end_ns: int
    lines: tuple[int, ...] = ()
    depth: int = 0

    @property
    def sentence(self) -> str:
        return self.cause + self.rest


@dataclass(frozen=True)
class Summary:
    """What stands above the lanes, in the language in force.

    total: how long the axis is.  about: what was recorded.  answers: None if not asked for; their times count from
    where the axis begins at start_ns.  findings: what opens below the answers.  failure: "" or how the cell ended.
    """

    total: str
    about: str
    answers: Answers | None
    findings: tuple[FindingRow, ...]
    start_ns: int = 0
    failure: str = ""

    @property
    def findings_summary(self) -> str:
        """How many findings open; "" for none."""
        return translated(counted(len(self.findings), "{n} finding", "{n} findings")) if self.findings else ""

    @property
    def decider(self) -> tuple[str, str]:
        """Who decides, and the number behind it with the colon that joins it."""
        who, colon, share = self.answers.decides.partition(say(": ")) if self.answers else ("", "", "")
        return who, colon + share

    @property
    def first_finding(self) -> str:
        """The first finding, where there is nothing else to say and no warning says it."""
        if self.answers is None or not self.findings:
            return ""
        return only_sentence(self.findings[0].sentence, self.answers)

    @property
    def other_lines(self) -> tuple[str, ...]:
        """What is no answer, a line each."""
        if self.answers is None:
            return ()
        rest = list_rest(self.answers.little_gain, self.answers.also_seen)
        return (*rest, *([self.first_finding] if self.first_finding else []))

    @property
    def warning_lines(self) -> tuple[str, ...]:
        """What is to know of the record itself, a line each."""
        return tuple(f"! {warning}" for warning in self.answers.warnings) if self.answers else ()


def summary_of(doc: TimelineDoc) -> Summary:
    """What stands above the lanes of a timeline."""
    rows = (
        FindingRow(
            rule=finding.rule,
            cost=describe_cost(finding, doc.header.busy_frac),
            cost_ns=finding.cost_ns,
            cause=translate_term(finding.cause),
            rest=describe_rest(finding),
            start_ns=finding.start_ns - doc.start_ns,
            end_ns=finding.end_ns - doc.start_ns,
            lines=finding.lines,
            depth=finding.depth,
        )
        for finding in doc.findings
    )
    head = doc.header
    return Summary(head.parts[0], head.about, translated(doc.answers), tuple(rows), doc.start_ns, doc.failure)


# As data.


def summary_wire(summary: Summary) -> dict[str, Any]:
    """The keys of a header that say what stands above the lanes."""
    return {
        "about": cut(summary.about),
        "answers": answers_wire(summary),
        "findings": [_finding_wire(finding) for finding in summary.findings],
        "findings_words": summary.findings_summary,
        "failure": cut(summary.failure),
    }


def _finding_wire(finding: FindingRow) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "cost": finding.cost,
        "cost_ns": finding.cost_ns,
        "depth": finding.depth,
        "cause": cut(finding.cause),
        "rest": cut(finding.rest),
        "lines": list(finding.lines),
        "start_ns": finding.start_ns,
        "end_ns": finding.end_ns,
    }


def answers_wire(summary: Summary) -> dict[str, Any] | None:
    """The answers with their words as they are shown; None if not asked for.

    evidence: rows of the findings.  others: evidence that no finding has, of several ranks that of single ones.
    """
    answers = summary.answers
    if answers is None:
        return None
    return {
        "decides": [cut(words) for words in summary.decider],
        "rows": [_answer_wire(summary, answer) for answer in answers.answers],
        "together": None if answers.together is None else _answer_wire(summary, answers.together),
        "others": [cut(line) for line in summary.other_lines],
        "warnings": [cut(line) for line in summary.warning_lines],
    }


def _answer_wire(summary: Summary, answer: Answer) -> dict[str, Any]:
    before, after, sure = times_of(answer)
    # a finding's sentence may go on with what its own change would gain
    said = [finding.sentence for finding in summary.findings]
    others = [words for words in answer.evidence if not any(sentence.startswith(words) for sentence in said)]
    more = len(others) - MOST_SENTENCES
    return {
        "headline": cut(answer.headline),
        "action": cut(name_action(answer.headline, answer.action, answer.lines)),
        "before": before,
        "after": after,
        "sure": sure,
        "wrong": WRONG in answer.rules,
        "start_ns": answer.start_ns - summary.start_ns,
        "end_ns": answer.end_ns - summary.start_ns,
        "evidence": [i for i, sentence in enumerate(said) if sentence.startswith(answer.evidence)],
        "others": [
            *(cut(words) for words in others[:MOST_SENTENCES]),
            *([f"and {units.plural(more, 'more finding')}"] if more > 0 else []),
        ],
    }


def words_wire() -> dict[str, Any]:
    """The labels of a live view in the language in force, by their English; nothing where that is the language."""
    if language() == "en":
        return {}
    words: dict[str, str] = {}
    for template in TEMPLATES:
        if isinstance(template, str):
            words[template] = translate_term(template)
        else:
            words |= {form: translated(counted(n, *template, n="{n}")) for n, form in enumerate(template, 1)}
    return {"words": words}
