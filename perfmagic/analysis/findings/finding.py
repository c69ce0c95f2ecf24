"""What a finding is: a cause, an amount, a place, a cost; and how its sentence names the place and Python's work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import ClassVar

import numpy as np

from perfmagic.analysis.timeline.activity import syncs
from perfmagic.analysis.timeline.host_time import FRAME_NAME, MOST_FRAC, STEP_NAME, FrameTime, held_by, host_time
from perfmagic.analysis.timeline.paths import call_paths, on_paths, sites
from perfmagic.base import units
from perfmagic.base.language import chained, counted, listed, phrase
from perfmagic.base.numerics.intervals import EMPTY, Intervals, covered_ns, total_ns, union
from perfmagic.trace.columns import NO_LINE, HostKind, Int64
from perfmagic.trace.json_form import JsonForm
from perfmagic.trace.model import Trace
from perfmagic.trace.paths import NOWHERE, Paths
from perfmagic.trace.signatures import function_name


@dataclass(frozen=True)
class Finding(JsonForm):
    """One thing worth knowing, the verdict first, then by gain, or by cost where no gain is predicted.

    rule: the stable name of the rule that found it.
    cost_ns: time that could be gained; 0 if nothing was lost, None if cost does not apply.
    cause: the first part of the sentence, in bold.
    detail: the second part of the sentence, with the space or colon before it.
    lines: cell lines that the sentence names.
    start_ns: the start of the time to inspect.
    end_ns: the end of the time to inspect.
    device: the number of the device.
    advice: what to do, only if that is certain.
    headline: the fact in a few words; empty if it is not an answer.
    action: what to do in a few words; empty if unknown. Answers with the same action are merged.
    depth: 0, or for a part of a finding, that finding's depth plus 1; parts follow it directly.
    frames: the functions in which Python spent most of that time, at most 5; empty if no frames were recorded.
    gain_ns: the least and the most that its change would gain, predicted by replaying the record; None if nothing is
    predicted.
    won_ns: the expected gain between the two; None if nothing is predicted.
    at_most: whether won_ns is a bound: no real change can gain more.
    change: the change in words; empty if nothing is predicted.
    gain_text: how long the run takes with that change, as a sentence; empty if nothing is predicted.
    where: the time of the device that the finding is about, as disjoint intervals. cost_ns is at most their sum.
    Sibling findings share no instant, so their costs can be added.
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
        """Whether it says that a result is wrong: it comes first, in red."""
        return self.rule == "race"

    @property
    def rest(self) -> str:
        """The text after the cause: the detail, then the advice and its gain as separate sentences."""
        if self.rule == "together":
            return phrase(": {detail}", detail=self.gain_text)
        more = (phrase(". {sentence}", sentence=text) for text in (self.advice, self.gain_text) if text)
        return chained("{a}{b}", (self.detail, *more))

    @property
    def sentence(self) -> str:
        return chained("{a}{b}", (self.cause, self.rest))


@dataclass(frozen=True)
class Silent:
    """Why a rule found nothing: returned in place of findings, and falsy.

    reason: a clause.  value, threshold: the two numbers compared, in unit ("ns", or "" for a count); None if no number
    decides.
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
    """A time is below its threshold.  what: with its verb.  share: the threshold in words, "5 % of the extent"."""
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
    """A number is below its threshold.  what: with the number and its verb."""
    return Silent(phrase("{what}, and the threshold is {least}", what=what, least=f"{least:.4g}"), n, least)


# Where in the user's code something was: the cell's lines, or the innermost line of a function and who called it.

MOST_PLACES = 2  # in a sentence
MOSTLY = 0.6  # of the weight on the lines in the sentence: with less, it names the line that called them
LEAST_SHARE = 0.2  # of the weight: a place with less counts as "others"


def on_lines(lines: Iterable[int]) -> str:
    """Some lines of the cell: " on line 3", " on lines 4 and 7"; empty if no line is known."""
    named = name_lines(lines)
    return phrase(" on {places}{callers}", places=named, callers="") if named else ""


def name_lines(lines: Iterable[int]) -> str:
    """The lines in words: "line 3", "lines 4 and 7", "lines 2, 4 and 7"."""
    known = [str(n) for n in sorted({int(n) for n in lines}) if n > 0]
    return counted(len(known), "line {lines}", "lines {lines}", lines=listed(known)) if known else ""


def on_sync_lines(trace: Trace, rows: Int64) -> str:
    """Where some blocking calls were made: " on line 7", " on line 4 of train_step, called from line 6"."""
    blocking = syncs(trace)
    return _locate_calls(trace, blocking.call[rows], blocking.blocked_ns[rows], blocking.line[rows].tolist())


def on_call_lines(trace: Trace, rows: Int64, most: int | None = None) -> str:
    """Where some calls were made, weighted by duration.  most: lines of the cell at most."""
    calls = trace.calls
    lines = np.unique(calls.line[rows])[:most].tolist()
    return _locate_calls(trace, rows, (calls.end_ns - calls.start_ns)[rows], lines)


def _locate_calls(trace: Trace, calls: Int64, weight: Int64, lines: Iterable[int]) -> str:
    return on_lines(lines) if trace.paths is None else _locate(trace, call_paths(trace)[calls], weight, lines)


def on_time_lines(trace: Trace, where: Intervals, lines: Iterable[int]) -> str:
    """Where Python was in some time.  lines: of the cell, used if no function is known."""
    path, ns = time_on_paths(trace, where)
    return _locate(trace, path, ns, lines)


def time_on_paths(trace: Trace, where: Intervals) -> tuple[Int64, Int64]:
    """How long the cell's thread was on which path in some time, one row per stretch."""
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
    """Weights of paths, summed by innermost line, largest first; and the paths with any weight.

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


# What Python was doing while the device had nothing to do, in words for several findings.

FRAMES = 5  # that a finding carries, the longest first
PLACE_PARTS = 3  # of a path in a sentence; the finding carries all of it


@dataclass(frozen=True)
class PythonWas:
    """What Python was doing.

    sentence: "Python was in zoom (scipy/ndimage/_interpolation.py:12) for 104 ms of 126 ms, in aten::mm all that time";
    "" if nothing took half of the time.  names: of the operator, the annotation and the frame in it, ""
    for none.  around: all operators and annotations that ran for half of the time or more.  frames: the functions in
    which most of the time passed.
    """

    sentence: str
    names: tuple[str, str, str]
    around: frozenset[str]
    frames: tuple[FrameTime, ...]


def python_was(trace: Trace, thread: Int64, where: Intervals, frame_frac: float = MOST_FRAC) -> PythonWas:
    """What Python was doing in some time, each interval on the thread beside it.

    frame_frac: the share of the time in which the named function ran.
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


WHOLE_FRAC = 0.8  # of the record: an annotation around this much of it names no part


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
