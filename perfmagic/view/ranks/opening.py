"""Where a picture of several ranks opens: on the step of its first cause, else on the first full steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.findings.answer import Answers
from perfmagic.analysis.ranks.causes import LINK, Cause, causes_of
from perfmagic.analysis.ranks.finding import CAUSES, RankFinding
from perfmagic.analysis.ranks.late import PLACE_CHARS, name_place
from perfmagic.analysis.ranks.ranks import Ranks
from perfmagic.analysis.timeline.doings import lines_of
from perfmagic.analysis.timeline.own_work import launching_lines
from perfmagic.base import units
from perfmagic.base.language import Words, counted, phrase, sentences

STEPS = 3  # that are shown
NEARLY_FRAC = 0.8  # of the time: a window that has so much of it may as well have all
MARGIN_FRAC = 0.03  # of a window, on both sides
START_UP_FRAC = 0.02  # of the time: shorter is not worth a word


@dataclass(frozen=True)
class Mark:
    """Work that others wait for.  rank: that does it.  words: its line of the cell, its operator, or ""."""

    rank: int
    start_ns: int
    end_ns: int
    words: str


@dataclass(frozen=True)
class Opening:
    """What is shown first, ns on the common axis.  words: what that is, "" for the whole time."""

    start_ns: int
    end_ns: int
    words: str = ""
    mark: Mark | None = None


def opening_of(ranks: Ranks, findings: Sequence[RankFinding], answers: Answers, span_ns: int) -> Opening:
    """The steps around the first cause, or around its longest work; else the first full steps."""
    first = _first_cause(findings, answers)
    mark = _mark(ranks, first) if first is not None else None
    steps, began_ns = _steps(ranks), max(map(ranks.began_on_axis_ns, ranks.ranks))
    if first is not None and first.window_ns is not None:
        start_ns, end_ns, what = _around(first, first.window_ns, steps)
    elif steps:
        start_ns, end_ns, what = _from_to(steps, 0, STEPS - 1)
    else:
        start_ns, end_ns, what = began_ns, span_ns, phrase("what follows start-up")
    margin_ns = round(MARGIN_FRAC * (end_ns - start_ns))
    start_ns, end_ns = max(0, start_ns - margin_ns), min(span_ns, end_ns + margin_ns)
    if end_ns - start_ns >= NEARLY_FRAC * span_ns or end_ns <= start_ns:
        return Opening(0, span_ns, mark=mark)
    times = {"time": units.duration(end_ns - start_ns), "span": units.duration(span_ns)}
    start_up = phrase("start-up takes the first {time}", time=units.duration(began_ns))
    is_long = began_ns >= START_UP_FRAC * span_ns
    words = sentences(phrase("shown first: {what}, {time} of {span}", what=what, **times), start_up if is_long else "")
    return Opening(start_ns, end_ns, words, mark)


def _first_cause(findings: Sequence[RankFinding], answers: Answers) -> RankFinding | None:
    """The finding of the first answer that has a cause; without answers the first cause."""
    causes = [finding for finding in findings if finding.rule in CAUSES and finding.window_ns]
    for answer in answers.answers:
        named = [cause for cause in causes if cause.window_ns == (answer.start_ns, answer.end_ns)]
        if named:
            return named[0]
    return causes[0] if causes else None


def _mark(ranks: Ranks, finding: RankFinding) -> Mark | None:
    """Where the cause of a finding is longest, by its line, operator or kernel."""
    cause = next((cause for cause in causes_of(ranks) if cause.span_ns == finding.window_ns), None)
    if cause is None or cause.phase == LINK:
        return None
    words = name_place(cause.doing, PLACE_CHARS) if cause.doing else ""
    return Mark(cause.rank, *_exactly(ranks, cause), words)


def _exactly(ranks: Ranks, cause: Cause) -> tuple[int, int]:
    """Of the span between two points of communication what the cause takes; all of it where its trace is elsewhere."""
    trace, by = ranks.traces.get(cause.rank), ranks.alignment.offset_ns[cause.rank]
    if trace is None:
        return cause.span_ns
    start, end, lines, doing = trace.ops.start_ns, trace.ops.end_ns, lines_of(trace), cause.doing
    is_on = np.array([bool(doing and each and each.is_on(doing)) for each in lines.doings])
    if not cause.line:
        names = [i for i, name in enumerate(trace.names) if name == cause.name]
        of_cause = np.isin(trace.ops.name, names)
    elif lines.layers and all(device.kind == "cpu" for device in trace.meta.devices):  # Python is the device
        start, end = np.concatenate([spans for spans, _ in lines.layers]).T
        of_cause = is_on[np.concatenate([on for _, on in lines.layers])]
    else:
        of_cause = is_on[launching_lines(trace, np.arange(len(trace.ops)), lines)]
    first_ns, last_ns = (at_ns - by for at_ns in cause.span_ns)
    within = of_cause & (end > first_ns) & (start < last_ns)
    if not within.any():
        return cause.span_ns
    return max(first_ns, int(start[within].min())) + by, min(last_ns, int(end[within].max())) + by


_Steps = list[tuple[int, int, int]]  # number, start and end on the common axis


def _steps(ranks: Ranks) -> _Steps:
    """The full steps, each from the rank that begins it first to the one that ends it last."""
    of: dict[int, tuple[int, int]] = {}
    for rank, summary in ranks.summaries.items():
        by = ranks.alignment.offset_ns[rank]
        for number, (start_ns, end_ns) in zip(summary.steps, summary.steps_ns, strict=False):
            if number >= (summary.start.step or 0):
                low, high = of.get(number, (start_ns + by, end_ns + by))
                of[number] = min(low, start_ns + by), max(high, end_ns + by)
    return [(number, *times) for number, times in sorted(of.items(), key=lambda item: item[1])]


def _around(cause: RankFinding, window_ns: tuple[int, int], steps: _Steps) -> tuple[int, int, Words]:
    """The steps in which a cause is longest; without steps its work, with as much time before and after it."""
    start_ns, end_ns = window_ns
    if cause.rule == "pipeline":
        return start_ns, end_ns, phrase("a step of the pipeline")
    within = [i for i, (_, start, end) in enumerate(steps) if start < end_ns and end > start_ns]
    if within:
        first = max(0, within[0] - (STEPS - len(within)) // 2)
        return _from_to(steps, first, max(within[-1], first + STEPS - 1))
    length_ns = end_ns - start_ns
    return start_ns - length_ns, end_ns + length_ns, phrase("where the first cause is longest")


def _from_to(steps: _Steps, first: int, last: int) -> tuple[int, int, Words]:
    """Some steps, by their places, and their numbers in words."""
    shown = steps[first : last + 1]
    numbers = {"first": shown[0][0], "last": shown[-1][0]}
    words = counted(len(shown), "step {first}", "steps {first} to {last}", **numbers)
    return min(start for _, start, _ in shown), max(end for *_, end in shown), words
