"""A timeline as plain text: for terminals, logs and the text of an output."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic.analysis.findings.catalogue import HEADLINES
from perfmagic.analysis.findings.finding import Answers
from perfmagic.analysis.timeline.trust import COUNTS
from perfmagic.base import units
from perfmagic.base.language import counted, phrase, say, translate_term, translated
from perfmagic.base.tables import Table, text_lines
from perfmagic.base.terminal import columns, wrapped
from perfmagic.view.timeline.doc import (
    TimelineDoc,
    describe_cost,
    describe_path,
    describe_rest,
    describe_trust,
    only_sentence,
)
from perfmagic.view.timeline.lanes import DeviceGroup

MAX_STREAMS = 8
GUTTER = 13
PART = "└ "  # before a part of the finding above
_NUMBERS = (("busy", 7), ("time", 9), ("ops", 9), ("queue ≤", 9), ("mean", 8))


def answers_text(doc: TimelineDoc, answers: Answers, details: str, below: Sequence[str] = ()) -> str:
    """Who decides, what was recorded, what to do, and where the rest is.

    details: how to see all.  below: lines of functions that were asked for.
    """
    lines = [answers.text(doc.header.about)]
    lines += wrapped(translated(doc.failure)) if doc.failure else []
    note = doc.trust[0] if doc.trust else ""
    if note and not any(_says(warning, note) for warning in answers.warnings):
        shown = translated(note)
        lines += wrapped(f"  ! {shown[:1].upper()}{shown[1:]}", indent=4)
    first = f"{translate_term(doc.findings[0].cause)}{describe_rest(doc.findings[0])}" if doc.findings else ""
    if only := only_sentence(first, translated(answers)):
        lines += wrapped(f"  {only}", indent=2)
    n_findings, n_streams = len(doc.findings), sum(map(_n_streams, doc.groups))
    parts = [counted(n_findings, "{n} finding", "{n} findings")] if n_findings else []
    parts += [counted(n_streams, "{n} stream", "{n} streams")] if n_streams else []
    parts += [phrase("notes")] if doc.trust else []
    lines += ["", *below, ""] if below else []
    listed = say(", ").join(translated(part) for part in parts)
    return "\n".join([*lines, f"  {details}: {listed}"])


def _says(warning: str, note: str) -> bool:
    """Whether a warning has what a note of the record says; earlier work is counted by both."""
    both_count = getattr(warning, "template", "") == HEADLINES["mid_flight"]
    return note.lower() in warning.lower() or (both_count and getattr(note, "template", "") in COUNTS["n_orphans"])


def _n_streams(group: DeviceGroup) -> int:
    return len(group.streams) + group.n_folded


def timeline_text(doc: TimelineDoc, below: Sequence[str] = (), more_in: str = ".trust", answers: str = "") -> str:
    """All about a timeline: findings, a table of the streams and the trust line, as wide as the terminal.

    answers: what stands above, in place of the header.  below: lines between the streams and the trust line.
    more_in: where the notes are that it has no room for; "" to give them lines of their own.
    """
    lines = [answers, ""] if answers else wrapped(" · ".join(translated(doc.header.parts)))
    lines += wrapped(describe_path(doc.path)) if doc.path else []
    if doc.failure and not answers:
        lines += wrapped(translated(doc.failure))
    for finding in doc.findings:
        part = "  " * (finding.depth - 1) + PART if finding.depth else ""
        words = describe_cost(finding, doc.header.busy_frac)
        cost = " " * (GUTTER - columns(words)) + f"{words}  "
        lines += wrapped(
            f"{cost}{part}{translate_term(finding.cause)}{describe_rest(finding)}", indent=GUTTER + 2 + len(part)
        )
    for group in doc.groups:
        lines += ["", *_stream_table(group, several=len(doc.groups) > 1)]
    lines += below
    lines += [""] if doc.trust else []
    lines += _fine_print(doc, more_in) if doc.trust else []
    return "\n".join(line.rstrip() for line in lines)


def _fine_print(doc: TimelineDoc, more_in: str) -> list[str]:
    """The first note, and how many more there are where; all of them where nothing else has them."""
    if not more_in:
        return [line for note in translated(doc.trust) for line in wrapped(note)]
    _, more = describe_trust(doc)
    n_more = counted(len(more), " · {n} more note in {place}", " · {n} more notes in {place}", place=more_in)
    return wrapped(translated(doc.trust[0]) + (translated(n_more) if more else ""))


def _stream_table(group: DeviceGroup, *, several: bool) -> list[str]:
    drawn = group.streams[:MAX_STREAMS]
    rows = [
        (
            f"  {lane.label}",
            units.percent(lane.busy_frac),
            units.duration(lane.busy_ns),
            units.count(len(lane)),
            units.count(lane.queue_max),
            _describe_mean(lane.queue_mean),
        )
        for lane in drawn
    ]
    first = max((columns(row[0]) for row in rows), default=0) + 2
    title = say("{label}, device {n}", label=group.label, n=group.device) if several else ""
    head = (f"  {say('stream')}", *(name for name, _ in _NUMBERS))
    lines = wrapped(title) if title else []
    lines += text_lines(Table("", head, rows), least=(max(first, 12), *(w for _, w in _NUMBERS)))
    hidden = len(group.streams) - len(drawn) + group.n_folded
    more = counted(hidden, "and {n} more stream, in .streams()", "and {n} more streams, in .streams()")
    return [*lines, f"  {translated(more)}"] if hidden else lines


def _describe_mean(mean: float) -> str:
    return units.count(mean) if mean >= 10 else units.significant(mean, 2) if mean >= 0.01 or not mean else "<0.01"
