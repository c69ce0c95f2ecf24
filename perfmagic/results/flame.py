"""The result of `t.flame(...)`: where Python was during a part of a timeline, as a flame graph."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from perfmagic.analysis.findings.answer import Answers
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.timeline.flame.call_paths import (
    Flame,
    call_paths,
    collapsed,
    python_thread,
    recorded_threads,
    time_on_line,
    what_was_recorded,
)
from perfmagic.analysis.timeline.steps import steps
from perfmagic.base import units
from perfmagic.base.errors import OptionError, TraceError
from perfmagic.base.files import write_text
from perfmagic.base.language import counted, listed, phrase
from perfmagic.base.numerics.intervals import Intervals, clip, intersect, total_ns
from perfmagic.base.options import did_you_mean
from perfmagic.results.result import Result
from perfmagic.trace.model import Trace, devices_label

if TYPE_CHECKING:
    import pandas as pd

    from perfmagic.results.briefs.form import Brief

ValueT = TypeVar("ValueT")

TEXT_LINES = 14
SAVED_AS = (".svg", ".html", ".json", ".folded", ".txt")


@dataclass(frozen=True)
class FlameResult(Result):
    """Where Python was during some time: each path of calls once, as wide as it took long. data: the numbers.

    >>> flame = perfmagic.open_trace("step.json.gz").flame()
    >>> flame.data.paths[0].name
    'main thread'
    """

    data: Flame

    def svg(self) -> str:
        """The picture alone, 1000 px wide; every box has its whole name and its times as a tooltip."""
        from perfmagic.view.timeline.flame import flame_svg

        return flame_svg(self.data)

    def text(self, *, most_lines: int = TEXT_LINES) -> str:
        """The sentence, and the longest paths as a tree of at most most_lines lines."""
        from perfmagic.view.timeline.flame import flame_text

        return flame_text(self.data, most_lines)

    def html(self) -> str:
        """The sentence and the picture; at most 80 kB. Tooltips are in svg() and in the page that save() writes."""
        from perfmagic.view.timeline.flame import flame_html

        return flame_html(self.data)

    def folded(self) -> str:
        """The lines "thread;outer;inner 1234" that flamegraph.pl and speedscope read: self time in µs.

        One line per path that was innermost; the sum over any path and those inside it is right to 1 µs.
        """
        return collapsed(self.data.paths)

    def to_dict(self) -> dict[str, Any]:
        """The sentence and every path, ready for JSON; times in ns."""
        return self.data.to_dict()

    def to_frame(self) -> pd.DataFrame:
        """A row for each path. Needs pandas."""
        return self.data.paths.to_frame()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it by its ending and give the path: .svg, .html (a page), .json, .folded or .txt for other tools.

        Raises OptionError for another ending.
        """
        ending = Path(path).suffix.lower()
        if ending not in SAVED_AS:
            raise OptionError(f"{path}: a flame graph is saved as {', '.join(SAVED_AS)}")
        return write_text(path, self._written(ending))

    def _written(self, ending: str) -> str:
        if ending == ".svg":
            return self.svg()
        if ending == ".json":
            return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)
        if ending != ".html":
            return self.folded()
        from perfmagic.view.page import page

        return page("perfmagic flame graph", [self.svg()])

    def _brief(self) -> Brief:
        from perfmagic.results.briefs.runs import flame_brief

        return flame_brief(self.data)

    def __repr__(self) -> str:
        return f"FlameResult: {self.data.sentence}"


# Which time of a timeline a flame graph is of, and which threads.

WEIGHTS = ("time", "idle")
HOW_TO_RECORD = "record with torch.profiler.profile(with_stack=True), with the CPU among its activities, or %%timeline"


@dataclass(frozen=True)
class Selection:
    """What t.flame() was asked for: at most one of these, the whole record without any."""

    window_ns: tuple[int, int] | None = None
    step: int | None = None
    line: int | None = None
    answer: int | None = None

    def time(self, trace: Trace, answers: Callable[[], Answers]) -> tuple[Intervals, str]:
        """The time, sorted and disjoint, and its name in a sentence. Raises OptionError where there is no such time."""
        given = [name for name, value in vars(self).items() if value is not None]
        if len(given) > 1:
            raise OptionError(f"flame: one part of the timeline can be given, not {' and '.join(given)}")
        where, words = self._time(trace, answers)
        inside = clip(where, trace.meta.start_ns, trace.meta.end_ns)
        if not len(inside):
            start, end = trace.meta.start_ns, trace.meta.end_ns
            raise OptionError(f"flame: the record has nothing {words}", hint=f"it reaches from {start} to {end} ns")
        return inside, words

    def _time(self, trace: Trace, answers: Callable[[], Answers]) -> tuple[Intervals, str]:
        if self.window_ns is not None:
            return _one(*self.window_ns), _describe_window(trace, *self.window_ns)
        if self.step is not None:
            rows = {row.number: row for row in steps(trace)}
            row = _chosen("step", self.step, rows, "torch.profiler marks steps where its step() is called")
            return _one(row.start_ns, row.end_ns), phrase("in step {n}", n=row.number)
        if self.line is not None:
            known = {line: line for line in np.unique(trace.marks.line).tolist() if line}
            line = _chosen("line", self.line, known, "%%timeline records the lines of a cell")
            return time_on_line(trace, line), phrase("on line {line}", line=line)
        if self.answer is not None:
            all_answers = dict(enumerate(answers().answers, 1))
            chosen = _chosen("answer", self.answer, all_answers, "t.answers lists them")
            words = phrase("in the time of answer {n} ({headline})", n=self.answer, headline=chosen.headline)
            return _one(chosen.start_ns, chosen.end_ns), words
        return _one(trace.meta.start_ns, trace.meta.end_ns), phrase("in the whole record")


def _one(start_ns: int, end_ns: int) -> Intervals:
    return np.array([[start_ns, end_ns]], np.int64)


def _chosen(what: str, asked: int, known: dict[int, ValueT], without: str) -> ValueT:
    """The step, line or answer of that number. without: the hint where there is none."""
    if asked not in known:
        numbers = listed([str(number) for number in known])
        raise OptionError(f"flame: there is no {what} {asked!r}", hint=f"{what}s: {numbers}" if known else without)
    return known[asked]


def _describe_window(trace: Trace, start_ns: int, end_ns: int) -> str:
    if len(trace.ops) and end_ns <= trace.ops.start_ns[0]:
        return phrase("before the first device op")
    start, end = (units.duration(at_ns - trace.meta.start_ns) for at_ns in (start_ns, end_ns))
    return phrase("from {start} to {end}", start=start, end=end)


def flame_of(
    trace: Trace,
    comm_names: str | None,
    answers: Callable[[], Answers],
    selection: Selection,
    *,
    thread: int | None,
    by_thread: bool,
    weight: str,
) -> FlameResult:
    """The flame graph of a selection, as TimelineResult.flame() describes it."""
    if weight not in WEIGHTS:
        hint = did_you_mean(str(weight), WEIGHTS) + f"weights: {listed(WEIGHTS)}"
        raise OptionError(f"flame: there is no weight {weight!r}", hint=hint)
    if not trace.has_host_rows and not len(trace.marks):
        raise TraceError("no frame, line, operator or annotation was recorded of the host", hint=HOW_TO_RECORD)
    where, words = selection.time(trace, answers)
    threads = _chosen_threads(trace, thread, by_thread=by_thread)
    facts = Facts(trace, comm_names)
    if weight == "idle":
        where = _waited(facts, where, words)
    paths = call_paths(trace, threads, where)
    if not paths:
        raise TraceError(f"nothing was recorded on {_whose(trace, threads)} {words}", hint=HOW_TO_RECORD)
    shown = tuple(dict.fromkeys(path.thread for path in paths))
    length, whose = units.duration(total_ns(where)), _whose(trace, shown)
    sentence = phrase("Python on {threads}, {time} {when}", threads=whose, time=length, when=words)
    if weight == "idle":
        sentence = phrase(
            "Python on {threads} while {device} was idle and waited for it, {time} {when}",
            threads=whose,
            device=facts.the_device,
            time=length,
            when=words,
        )
    said = phrase("{a}; {b}", a=sentence, b=what_was_recorded(paths))
    return FlameResult(Flame(said, weight, devices_label(trace.meta.devices), trace.simulated, paths))


def _chosen_threads(trace: Trace, thread: int | None, *, by_thread: bool) -> tuple[int, ...]:
    if thread is None:
        return recorded_threads(trace) if by_thread else (python_thread(trace),)
    known = recorded_threads(trace)
    if by_thread or thread not in known:
        why = "one thread or by_thread, not both" if by_thread else f"nothing was recorded on thread {thread}"
        raise OptionError(f"flame: {why}", hint=f"threads: {listed([str(number) for number in known])}")
    return (thread,)


def _waited(facts: Facts, where: Intervals, words: str) -> Intervals:
    """When the device was idle and waited for Python. Raises TraceError where it did not."""
    waited = intersect(where, facts.cell_time.waited_for_host) if len(facts.trace.ops) else where[:0]
    if not len(waited):
        hint = 'weight="time" shows where Python was; time before the first device op does not count as waiting'
        raise TraceError(f"{facts.the_device} never waited for Python {words}", hint=hint)
    return waited


def _whose(trace: Trace, threads: Sequence[int]) -> str:
    if len(threads) > 1:
        return counted(len(threads), "{n} thread", "{n} threads")
    main = threads[0] == python_thread(trace)
    return phrase("the main thread") if main else phrase("thread {n}", n=threads[0])
