"""What a finding is: a cause, an amount, a place, a cost; and what an answer is.

How a finding's sentence says where it was, and what Python was doing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import ClassVar, NamedTuple

import numpy as np

from perfmagic.analysis.timeline.activity import syncs
from perfmagic.analysis.timeline.host_time import FRAME_NAME, MOST_FRAC, STEP_NAME, FrameTime, held_by, host_time
from perfmagic.analysis.timeline.paths import call_paths, on_paths, sites
from perfmagic.base import units
from perfmagic.base.language import chained, counted, listed, phrase, say, translated
from perfmagic.base.numerics.intervals import EMPTY, Intervals, covered_ns, total_ns, union
from perfmagic.base.terminal import columns, width, wrapped
from perfmagic.trace.columns import NO_LINE, HostKind, Int64
from perfmagic.trace.json_form import JsonForm
from perfmagic.trace.model import Trace
from perfmagic.trace.paths import NOWHERE, Paths
from perfmagic.trace.signatures import function_name


@dataclass(frozen=True)
class Finding(JsonForm):
    """One thing worth knowing, the verdict first, then by gain, or by cost where no gain is predicted.

    rule: the stable name of what found it.
    cost_ns: time that could be won; 0 where nothing was lost, None where cost is not the point.
    cause: the first part of the sentence, which is set in bold.
    detail: the second part of the sentence; it begins with what joins it (a space, a colon).
    lines: lines of the cell that the sentence names.
    start_ns: the start of what to look at.
    end_ns: the end of what to look at.
    device: the number of the device.
    advice: what to do, only where that is certain.
    headline: the fact in a few words; empty where it is no answer.
    action: what to do in a few words; empty where the record does not say. Answers with one action are one.
    depth: 0, or for a part of a finding one more than that has; the parts follow it at once.
    frames: the functions that Python spent most of that time in, at most 5; empty where no frames were recorded.
    gain_ns: the least and the most that the change it asks for would gain, predicted by replaying the record; None
    where nothing is predicted.
    won_ns: the expected gain between the two; None where nothing is predicted.
    at_most: whether won_ns is a bound: the change removes what none can remove better.
    change: the change in words; empty where nothing is predicted.
    gain_text: how long the run takes with that change, as a sentence; empty where nothing is predicted.
    where: the time of the device that the finding is about, as disjoint intervals. cost_ns is at most their sum.
    Findings that stand beside each other share no instant, so that their costs can be added.
    sentence: the whole sentence.
    """

    shown: ClassVar[tuple[str, ...]] = ("cost_ns", "sentence")  # in a table of findings
    left_out = ("where",)
    computed = ("sentence",)

    rule: str
    cost_ns: int | None
    cause: str
    detail: str
    lines: tuple[int, ...]
    start_ns: int
    end_ns: int
    device: int
    advice: str = ""
    headline: str = ""
    action: str = ""
    depth: int = 0
    frames: tuple[FrameTime, ...] = ()
    gain_ns: tuple[int, int] | None = None
    won_ns: int | None = None
    at_most: bool = False
    change: str = ""
    gain_text: str = ""
    where: Intervals = field(default_factory=lambda: EMPTY, repr=False, compare=False)

    @property
    def is_wrong(self) -> bool:
        """Whether it says that a result is wrong: it comes first, and in red."""
        return self.rule == "race"

    @property
    def rest(self) -> str:
        """What follows the cause: the detail, then the advice and what it would gain as sentences of their own."""
        if self.rule == "together":
            return phrase(": {detail}", detail=self.gain_text)
        more = (phrase(". {sentence}", sentence=text) for text in (self.advice, self.gain_text) if text)
        return chained("{a}{b}", (self.detail, *more))

    @property
    def sentence(self) -> str:
        return chained("{a}{b}", (self.cause, self.rest))


@dataclass(frozen=True)
class Silent:
    """Why a rule found nothing: it stands where its findings would, and is as empty as no findings.

    reason: a clause.  value, threshold: the two numbers compared, in unit ("ns", or "" for a count); None where no
    number decides.
    """

    reason: str
    value: float | None = None
    threshold: float | None = None
    unit: str = ""

    def __iter__(self) -> Iterator[Finding]:
        return iter(())

    def __len__(self) -> int:
        return 0


Outcome = list[Finding] | Silent  # of a rule


def too_short(what: str, ns: float, least_ns: float, share: str) -> Silent:
    """That a time is below its threshold.  what: with its verb.  share: what the threshold is: "5 % of the extent"."""
    words = phrase(
        "{what} {time}, less than the threshold of {least} ({share})",
        what=what,
        time=units.duration(ns),
        least=units.duration(least_ns),
        share=share,
    )
    return Silent(words, ns, least_ns, "ns")


def of_extent(frac: float) -> str:
    """A share of the extent in words: "5 % of the extent"."""
    return phrase("{share} of the extent", share=units.percent(frac))


def too_few(what: str, n: int, least: float) -> Silent:
    """That a number is below its threshold.  what: with the number and its verb."""
    return Silent(phrase("{what}, and the threshold is {least}", what=what, least=f"{least:.4g}"), n, least)


# Where in the user's code something was: the cell's lines, or the innermost line of a function and who called it.

MOST_PLACES = 2  # in a sentence
MOSTLY = 0.6  # of the weight on the lines in the sentence: with less, it names the line that called them
LEAST_SHARE = 0.2  # of the weight: a place with less is one of "others"


def on_lines(lines: Iterable[int]) -> str:
    """Some lines of the cell: " on line 3", " on lines 4 and 7"; nothing where no line is known."""
    named = name_lines(lines)
    return phrase(" on {places}{callers}", places=named, callers="") if named else ""


def name_lines(lines: Iterable[int]) -> str:
    """The lines as people say them: "line 3", "lines 4 and 7", "lines 2, 4 and 7"."""
    known = [str(n) for n in sorted({int(n) for n in lines}) if n > 0]
    return counted(len(known), "line {lines}", "lines {lines}", lines=listed(known)) if known else ""


def on_sync_lines(trace: Trace, rows: Int64) -> str:
    """Where some blocking calls were made: " on line 7", " on line 4 of train_step, called from line 6"."""
    blocking = syncs(trace)
    path = call_paths(trace)[blocking.call[rows]]
    return _locate(trace, path, blocking.blocked_ns[rows], blocking.line[rows].tolist())


def on_call_lines(trace: Trace, rows: Int64, most: int | None = None) -> str:
    """Where some calls were made, weighed by how long they took.  most: lines of the cell at most."""
    calls = trace.calls
    lines = np.unique(calls.line[rows])[:most].tolist()
    return _locate(trace, call_paths(trace)[rows], (calls.end_ns - calls.start_ns)[rows], lines)


def on_time_lines(trace: Trace, where: Intervals, lines: Iterable[int]) -> str:
    """Where Python was in some time.  lines: of the cell, said where no function is known."""
    path, ns = time_on_paths(trace, where)
    return _locate(trace, path, ns, lines)


def time_on_paths(trace: Trace, where: Intervals) -> tuple[Int64, Int64]:
    """How long the thread that ran the cell was on which path in some time, a row for each stretch."""
    stretches = on_paths(trace)
    if trace.paths is None or not len(where):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    of_main = np.flatnonzero(stretches.thread == trace.paths.main_thread)
    return stretches.path[of_main], covered_ns(where, stretches.start_ns[of_main], stretches.end_ns[of_main])


def _locate(trace: Trace, path: Int64, weight: Int64, lines: Iterable[int]) -> str:
    paths = trace.paths
    if paths is None or not weight.sum():
        return on_lines(lines)
    ordered, rows = by_place(paths, path, weight)
    named = [place for place, value in ordered if value >= LEAST_SHARE * weight.sum()][:MOST_PLACES]
    if sum(dict(ordered)[place] for place in named) < MOSTLY * weight.sum():
        return _around(trace, path, weight, rows) or on_lines(lines)
    if not named or all(paths.functions[f].is_cell for f, _ in named):
        return on_lines(lines)
    more = len(ordered) - len(named) if len(named) == MOST_PLACES else 0
    others = [counted(more, "{n} other line", "{n} other lines")] if more else []
    places = listed([*(name_place(paths, place) for place in named), *others])
    callers = _callers(paths, rows, named)
    return phrase(" on {places}{callers}", places=places, callers=callers)


def by_place(paths: Paths, path: Int64, weight: Int64) -> tuple[list[tuple[tuple[int, int], int]], list[int]]:
    """Some weights, each of a path, by its innermost line, the largest first; and the paths that have any.

    A line is a row of functions and a number.
    """
    of_path = np.zeros(len(paths), np.int64)
    np.add.at(of_path, path, weight)
    rows = [row for row in np.flatnonzero(of_path).tolist() if row != NOWHERE]
    weight_of_line: dict[tuple[int, int], int] = {}
    for row in rows:
        key = int(paths.function[row]), int(paths.line[row])
        weight_of_line[key] = weight_of_line.get(key, 0) + int(of_path[row])
    return sorted(weight_of_line.items(), key=lambda item: (-item[1], item[0])), rows


def _around(trace: Trace, path: Int64, weight: Int64, rows: list[int]) -> str:
    """The innermost line, of a function, that was on the stack for most of it: " mostly on line 13 of epoch"."""
    paths, known = trace.paths, sites(trace)
    if paths is None:
        return ""
    depth: dict[tuple[int, int], int] = {}
    for row in rows:
        for above, caller in enumerate(reversed(paths.chain(row))):
            key = int(paths.function[caller]), int(paths.line[caller])
            depth[key] = max(depth.get(key, 0), above)
    on_stack = known.charged(path, weight)
    pairs = zip(known.function.tolist(), known.line.tolist(), on_stack.tolist(), strict=True)
    held = [((f, n), value) for f, n, value in pairs if value >= MOSTLY * weight.sum() and (f, n) in depth]
    if not held:
        return ""
    place, _ = max(held, key=lambda item: (depth[item[0]], item[1]))
    if paths.functions[place[0]].is_cell:
        return ""
    of_it = [row for row in range(1, len(paths)) if (int(paths.function[row]), int(paths.line[row])) == place]
    callers = _callers(paths, of_it, [place])
    return phrase(" mostly on {place}{callers}", place=name_place(paths, place), callers=callers)


def name_place(paths: Paths, place: tuple[int, int]) -> str:
    """A row of functions and a line in words: "line 14 of train_step", "line 7" of the cell."""
    function = paths.functions[place[0]]
    if place[0] in paths.unfollowed:
        return phrase("lines of {function}", function=function.name)
    if function.is_cell:
        return phrase("line {line}", line=place[1])
    return phrase("line {line} of {function}", line=place[1], function=function.name)


def _callers(paths: Paths, rows: list[int], places: list[tuple[int, int]]) -> str:
    """The cell's lines above some places, else the line that called them: ", called from line 6"."""
    of_places = [row for row in rows if (int(paths.function[row]), int(paths.line[row])) in places]
    of_functions = [row for row in of_places if not paths.functions[int(paths.function[row])].is_cell]
    cell = sorted({int(paths.cell_line[row]) for row in of_functions} - {NO_LINE})
    if cell:
        several = counted(len(cell), "{n} line", "{n} lines")
        return phrase(", called from {place}", place=name_lines(cell) if len(cell) <= 3 else several)
    above = dict.fromkeys(int(paths.parent[row]) for row in of_functions)
    known = [name_place(paths, (int(paths.function[row]), int(paths.line[row]))) for row in above if row != NOWHERE]
    return phrase(", called from {place}", place=known[0]) if len(known) == 1 else ""


# What Python was doing while the device had nothing to do, in words for the sentences of several findings.

FRAMES = 5  # that a finding carries, the longest first
PLACE_PARTS = 3  # of a path in a sentence; the finding carries all of it


@dataclass(frozen=True)
class PythonWas:
    """What Python was doing.

    sentence: "Python was in zoom (scipy/ndimage/_interpolation.py:12) for 104 ms of 126 ms, in aten::mm all that time";
    "" where nothing held it for half of the time.  names: of the operator, the annotation and the frame in it, ""
    for none.  around: all operators and annotations that ran for half of the time or more.  frames: the functions in
    which most of the time passed.
    """

    sentence: str
    names: tuple[str, str, str]
    around: frozenset[str]
    frames: tuple[FrameTime, ...]


def python_was(trace: Trace, thread: Int64, where: Intervals, frame_frac: float = MOST_FRAC) -> PythonWas:
    """What Python was doing in some time, each interval on the thread beside it.

    frame_frac: how much of the time the function ran that is named.
    """
    time = host_time(trace, thread, where)
    operator, annotation = held_by(time.operators, time.total_ns), held_by(time.annotations, time.total_ns)
    frame = held_by(time.frames, time.total_ns, frame_frac)
    clauses: list[str] = []
    if frame:
        how_long = _how_long(frame.inclusive_ns, time.total_ns)
        clauses.append(phrase("in {name} {how_long}", name=f"{frame.function}{_place(frame)}", how_long=how_long))
    if operator:
        how_long = _how_long(operator.inclusive_ns, time.total_ns)
        clauses.append(phrase("in {name} {how_long}", name=function_name(operator.name), how_long=how_long))
    if annotation:
        how_long = _how_long(annotation.inclusive_ns, time.total_ns)
        clauses.append(phrase("inside {name} {how_long}", name=function_name(annotation.name), how_long=how_long))
    sentence = phrase("Python was {clauses}", clauses=chained("{a}, {b}", clauses)) if clauses else ""
    named = annotation.name if annotation and not _is_around_all(trace, annotation.name) else ""
    names = (operator.name if operator else "", named, frame.function if frame else "")
    frames = tuple(entry for entry in time.frames[:FRAMES] if entry.share_ns)
    both = (*time.operators, *time.annotations)
    around = frozenset(entry.name for entry in both if entry.inclusive_ns >= MOST_FRAC * time.total_ns)
    return PythonWas(sentence, names, around, frames)


WHOLE_FRAC = 0.8  # of the record: an annotation around so much of it names no part


def _is_around_all(trace: Trace, annotation: str) -> bool:
    """Whether an annotation names a step, as the profiler does, or nearly the whole record."""
    if annotation.startswith(STEP_NAME):
        return True
    host, meta = trace.host_ops, trace.meta
    rows = (host.kind == HostKind.ANNOTATION) & (host.name == trace.names.index(annotation))
    return total_ns(union(host.start_ns[rows], host.end_ns[rows])) >= WHOLE_FRAC * (meta.end_ns - meta.start_ns)


def _how_long(ns: int, of_ns: int) -> str:
    if ns == of_ns:
        return phrase("all that time")
    return phrase("for {time} of {total}", time=units.duration(ns), total=units.duration(of_ns))


def name_frame(name: str) -> str:
    """A frame as the record names it, in a sentence: "zoom (scipy/ndimage/_interpolation.py:123)"."""
    match = FRAME_NAME.match(name)
    return f"{match['function']}{_at_place(match['file'], int(match['line']))}" if match else name


def _place(frame: FrameTime) -> str:
    return _at_place(frame.file, frame.line)


def _at_place(file: str, line: int) -> str:
    """The end of the file's path and the line, in brackets."""
    return f" ({'/'.join(PurePath(file).parts[-PLACE_PARTS:])}:{line})" if file else ""


# What an answer is: a fact, what to do about it, and what the run would take then; and answers as text.

INDENT = "   "  # of a number
GUTTER = 9  # before who decides
MOST_LINES = 3  # of a cell, after an action
MOST_HEADLINES = 3  # in a line of what gains little, or has no remedy


@dataclass(frozen=True)
class Answer(JsonForm):
    """One thing to do about a run; times in ns.

    headline: what was found.
    action: what to do; empty for all answers together.
    rules: of the findings that ask for it.
    before_ns: the recorded run.
    after_ns: what it would take; None where no replay can say.
    low_ns: the least that it would take.
    high_ns: the most that it would take.
    at_most: whether the gain is a bound.
    cost_ns: what the findings cost, for where no replay can say more.
    lines: the lines of the cell that it is about.
    start_ns: the start of what to look at.
    end_ns: the end of what to look at.
    evidence: the sentences of the findings.
    gain_ns: what it would win; None where no replay can say.
    """

    shown: ClassVar[tuple[str, ...]] = ("headline", "action", "before_ns", "after_ns")
    computed = ("gain_ns",)

    headline: str
    action: str
    rules: tuple[str, ...]
    before_ns: int
    after_ns: int | None
    low_ns: int | None
    high_ns: int | None
    at_most: bool
    cost_ns: int | None
    lines: tuple[int, ...]
    start_ns: int
    end_ns: int
    evidence: tuple[str, ...]

    @property
    def gain_ns(self) -> int | None:
        return None if self.after_ns is None else self.before_ns - self.after_ns


@dataclass(frozen=True, repr=False)
class Answers(JsonForm):
    """Who decides how long a run takes, and what to do about it.

    decides: who, in one sentence.
    total_ns: the whole run.
    low_ns: the least that a predicted run takes; null for a recorded one.
    high_ns: the most; null where an operator has no model, too.
    answers: the most first, at most three.
    together: all that are replayed at once, but bounds; None where these are fewer than two.
    little_gain: headlines of what would win less than 2 % of the run.
    also_seen: headlines of facts without a remedy, and of remedies beyond the third.
    warnings: what is to know of the record itself.
    """

    decides: str
    total_ns: int
    answers: tuple[Answer, ...] = ()
    together: Answer | None = None
    little_gain: tuple[str, ...] = ()
    also_seen: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    low_ns: int | None = None
    high_ns: int | None = None

    @property
    def total(self) -> str:
        """The whole run, of a predicted one with two digits, and "≥" where an operator has no model."""
        if self.low_ns is None:
            return units.duration(self.total_ns)
        return f"{'≥ ' if self.high_ns is None else ''}{units.rough_duration(self.total_ns)}"

    def text(self, about: str = "") -> str:
        """Who decides, then two lines for each answer, one for all together, and the rest; as wide as the terminal.

        about: what was recorded, a line of its own.
        """
        shown = translated(self)
        lines = wrapped(f"{shown.total:<{GUTTER}}{shown.decides}", indent=GUTTER)
        lines += wrapped(" " * GUTTER + about, indent=GUTTER) if about else []
        for number, answer in enumerate(shown.answers, 1):
            lines += answer_lines(
                number,
                answer.headline,
                name_action(answer.headline, answer.action, answer.lines),
                in_row(times_of(answer)),
            )
        if shown.together is not None:
            lines += _with_right(f"{INDENT}  ", shown.together.headline, in_row(times_of(shown.together)))
        for rest in list_rest(shown.little_gain, shown.also_seen):
            lines += wrapped(f"{INDENT}{rest}", indent=len(INDENT) + 2)
        lines += _warning_lines(shown.warnings)
        return "\n".join(line.rstrip() for line in lines)

    def __repr__(self) -> str:
        return self.text()


def name_action(headline: str, action: str, lines: Sequence[int]) -> str:
    """An action with its lines, unless it or the headline names them: "Read the values after the loop (line 5)"."""
    shown = ", ".join([*map(str, lines[:MOST_LINES]), *(["…"] if len(lines) > MOST_LINES else [])])
    where = translated(counted(len(lines), "line {lines}", "lines {lines}", lines=shown))
    is_named = not lines or not action or where in f"{headline} {action}"
    return action if is_named else say("{action} ({where})", action=action, where=where)


class Times(NamedTuple):
    """What an answer makes of the run, in words.

    before, after: "683 ms" and "614 ms"; without a replay "" and what the findings cost, if that is known.
    sure: "at best" where the gain is a bound.
    """

    before: str
    after: str
    sure: str


def times_of(answer: Answer) -> Times:
    """The words of an answer's times, in the language in force."""
    if answer.after_ns is None:
        costs = say("costs {time}", time=units.duration(answer.cost_ns)) if answer.cost_ns else ""
        return Times("", costs, "")
    sure = say("at best") if answer.at_most else ""
    return Times(units.duration(answer.before_ns), units.duration(answer.after_ns), sure)


def in_row(times: Times) -> str:
    """The words of an answer's times in one line: "at best 683 ms → 614 ms"."""
    before, after, sure = times
    return " ".join(filter(None, (sure, f"{before} → {after}" if before else after)))


def answer_lines(number: int, headline: str, action: str, right: str) -> list[str]:
    """A fact with what its action changes at the right, and the action below."""
    fact = _with_right(f"{number:>{len(INDENT)}}  ", headline, right)
    return [*fact, *wrapped(f"{INDENT}  → {action}", indent=len(INDENT) + 4)]


def _warning_lines(warnings: Sequence[str]) -> list[str]:
    return [line for warning in warnings for line in wrapped(f"  ! {warning}", indent=4)]


def _with_right(before: str, fact: str, right: str) -> list[str]:
    """A fact in lines, with words before the first and at its end."""
    room = width() - columns(before) - (columns(right) + 2 if right else 0)
    first, *others = wrapped(fact, max_columns=room)
    left = f"{before}{first}"
    return [
        left + " " * (width() - columns(left) - columns(right)) + right,
        *(" " * columns(before) + line for line in others),
    ]


def list_rest(little_gain: Sequence[str], also_seen: Sequence[str]) -> list[str]:
    """What gains little and what else was seen, a line each, in the language in force."""
    gain, seen = _list_headlines(little_gain), _list_headlines(also_seen)
    lines = (
        say("Would gain little: {facts}", facts=gain) if gain else "",
        say("Also seen: {facts}", facts=seen) if seen else "",
    )
    return [line for line in lines if line]


def _list_headlines(headlines: Sequence[str]) -> str:
    """The first few headlines, and how many more there are."""
    more = len(headlines) - MOST_HEADLINES
    first = say("; ").join(headlines[:MOST_HEADLINES])
    return say("{first}; {n} more", first=first, n=more) if more > 0 else first


# What a result says first where no replay of a run judges it: graphs, memory, scaling.


@dataclass(frozen=True)
class Proposal(JsonForm):
    """One thing to do about a result; before and after are times or sizes, None where they are not known.

    headline: what was found.
    action: what to do.
    line: that it is about, of the cell or of `function`; 0 for none.
    function: the function of that line; empty for the cell.
    before_ns: the measured time.
    after_ns: the time with the action.
    before_bytes: the measured peak.
    after_bytes: the peak with the action.
    exact: whether `after` was replayed.
    at_most: whether the gain is a bound; without either it is an estimate.
    """

    headline: str
    action: str
    line: int = 0
    function: str = ""
    before_ns: int | None = None
    after_ns: int | None = None
    before_bytes: int | None = None
    after_bytes: int | None = None
    exact: bool = False
    at_most: bool = False

    @property
    def times(self) -> Times:
        """The words of what the action changes, in the language in force; each empty where that is not known."""
        sure = say("at best") if self.at_most else "" if self.exact else say("about")
        if self.before_bytes is not None and self.after_bytes is not None:
            return Times(units.size(self.before_bytes), units.size(self.after_bytes), sure)
        if self.before_ns is not None and self.after_ns is not None:
            return Times(units.duration(self.before_ns), units.duration(self.after_ns), sure)
        return Times("", "", "")


@dataclass(frozen=True)
class Conclusion(JsonForm):
    """What a result says first.

    decides: what decides its time or its memory, in one sentence.
    proposals: what to do about it, the largest gain first, at most three.
    warnings: what is to know of the measurement itself.
    """

    decides: str
    proposals: tuple[Proposal, ...] = ()
    warnings: tuple[str, ...] = ()

    def text(self, about: str, rest: str = "") -> str:
        """What decides, what was measured, two lines for each proposal, and where the rest is."""
        shown = translated(self)
        lines = [*wrapped(shown.decides), *wrapped(about, indent=2)]
        lines += [""] if shown.proposals else []
        for number, proposal in enumerate(shown.proposals, 1):
            lines += answer_lines(number, proposal.headline, proposal.action, in_row(proposal.times))
        lines += _warning_lines(shown.warnings)
        lines += ["", *wrapped(f"  {rest}", indent=2)] if rest else []
        return "\n".join(line.rstrip() for line in lines)
