"""What a rank did: the user's line or function where the record has it, else the operator or kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from perfmagic.analysis.timeline.host_time import FRAME_NAME
from perfmagic.analysis.timeline.origin import is_user_frame
from perfmagic.analysis.timeline.paths import on_paths
from perfmagic.base.numerics.intervals import Intervals, coded, distinct
from perfmagic.trace.columns import NO_LINE, Int64, lines_at
from perfmagic.trace.hoststack import nested
from perfmagic.trace.model import Trace, once_per_trace
from perfmagic.trace.paths import NOWHERE, Paths

MOST_CALLERS = 32  # of a line: summaries of ranks are pickled, which recurses


class Doing(NamedTuple):
    """What a rank did.  line: 0 for none.  name: the text of the line; without a line the operator or kernel.

    phase: "backward" or "".  file: of the line, "" for the measured cell.  function: that begins on the line, where no
    more is known.  caller: the line that called it. Ranks that ran other code share no line, as its text differs.
    """

    line: int
    name: str
    phase: str = ""
    file: str = ""
    function: str = ""
    caller: Doing | None = None

    @property
    def place(self) -> Doing:
        """The same, for any caller."""
        return self._replace(caller=None)

    @property
    def cell_line(self) -> int:
        """The line of the cell that it is, or is called from; 0 for none."""
        return next((each.line for each in self.chain() if each.line and not each.file), NO_LINE)

    @property
    def file_name(self) -> str:
        return PurePath(self.file.replace("\\", "/")).name

    def chain(self) -> Iterator[Doing]:
        """Itself and its callers, the innermost first."""
        each: Doing | None = self
        while each is not None:
            yield each
            each = each.caller

    def is_on(self, line: Doing) -> bool:
        """Whether it is on a line, or called from there; in any phase."""
        place = line._replace(phase="", caller=None)
        return any(each._replace(phase="", caller=None) == place for each in self.chain())

    def called_by(self, caller: Doing | None) -> Doing:
        """The same, called from a line. Where recursion comes back to a line it is that line."""
        if caller is None:
            return self
        chain = list(caller.chain())
        known = next((each for each in chain if each.place == self), None)
        return known or self._replace(caller=caller if len(chain) < MOST_CALLERS else caller.caller)


Layer = tuple[Intervals, Int64]  # disjoint, rising spans, and of each a number


@dataclass(frozen=True, eq=False)
class Lines:
    """The lines that the main thread was on.

    doings: by number; 0 is no line.  layers: when it was on which, each where those before it have nothing.
    at: numbers of some threads at some instants.
    """

    doings: tuple[Doing | None, ...]
    layers: tuple[Layer, ...]
    at: Callable[[Int64, Int64], Int64]

    def beside(self, other: Lines) -> Lines:
        """These, and others where these know none."""
        more, n = other.doings[1:], len(self.doings) - 1

        def at(thread: Int64, at_ns: Int64) -> Int64:
            own, others = self.at(thread, at_ns), other.at(thread, at_ns)
            return np.where(own != 0, own, np.where(others != 0, others + n, 0))

        layers = (*self.layers, *((spans, on + n) for spans, on in other.layers))
        return Lines((*self.doings, *more), layers, at)


@once_per_trace
def lines_of(trace: Trace) -> Lines:
    """The lines of functions, of the cell, or of a profiler's frames: whichever the record has."""
    known = _nothing()
    if trace.paths is not None:
        known = known.beside(_of_paths(trace, trace.paths))
    if len(trace.marks):
        known = known.beside(_of_marks(trace))
    if len(known.doings) == 1 and len(trace.python_frames):
        known = known.beside(_of_frames(trace))
    return known


def _nothing() -> Lines:
    return Lines((None,), (), lambda _, at_ns: np.zeros(len(at_ns), np.int64))


def _of_paths(trace: Trace, paths: Paths) -> Lines:
    """The innermost line of the user's functions."""
    cell_files = {function.file for function in paths.functions if function.is_cell}
    doings: list[Doing | None] = [None]
    rows = zip(*(column.tolist()[1:] for column in (paths.parent, paths.function, paths.line)), strict=True)
    for parent, number, line in rows:  # callers come first
        function = paths.functions[number]
        in_cell = function.file in cell_files
        text = trace.cell.text(line) if in_cell and trace.cell else function.text(line)
        doings.append(Doing(line, text, file="" if in_cell else function.file).called_by(doings[parent]))
    where = on_paths(trace)
    main = where.thread == paths.main_thread

    def at(thread: Int64, at_ns: Int64) -> Int64:
        return np.where(paths.followed(at_ns), paths.at(thread, at_ns), NOWHERE)

    spans = np.stack((where.start_ns, where.end_ns), axis=1)[main]
    return Lines(tuple(doings), ((spans, where.path[main].astype(np.int64)),), at)


def _of_marks(trace: Trace) -> Lines:
    """The line of the cell, whatever it called."""
    marks = trace.marks
    text = trace.cell.text if trace.cell else lambda _: ""
    doings = [Doing(line, text(line)) for line in range(1, int(marks.line.max()) + 1)]
    last_ns = trace.meta.returned_ns or trace.meta.end_ns
    ends = np.append(marks.at_ns[1:], max(last_ns, int(marks.at_ns[-1])))
    kept = (marks.line > NO_LINE) & (ends > marks.at_ns)
    spans = np.stack((marks.at_ns, ends), axis=1)[kept]

    def at(_: Int64, at_ns: Int64) -> Int64:
        return lines_at(marks, at_ns).astype(np.int64)

    return Lines((None, *doings), ((spans, marks.line[kept].astype(np.int64)),), at)


def _of_frames(trace: Trace) -> Lines:
    """The innermost function of the user's, by the line where it begins: a profiler's frames know no other."""
    frames = trace.python_frames.named(np.array([is_user_frame(name) for name in trace.names], bool))
    if not len(frames):
        return _nothing()
    stack, (threads, counts) = nested(frames), np.unique(frames.thread, return_counts=True)
    main = int(threads[counts.argmax()])
    doings: list[Doing | None] = [None]
    path = np.zeros(len(frames) + 1, np.int64)  # the last one, of NONE, is no frame
    parent = stack.parents()
    for level in (rows for levels in stack.levels.values() for rows in levels):
        keys, group = coded(path[parent[level]] * len(trace.names) + frames.name[level])
        path[level] = len(doings) + group
        for key in keys.tolist():
            above, name = divmod(key, len(trace.names))
            doings.append(_of_frame(trace.names[name]).called_by(doings[above]))

    def at(threads: Int64, at_ns: Int64) -> Int64:
        own, of_main = (path[stack.innermost_at(of, at_ns)] for of in (threads, np.full(len(threads), main)))
        return np.where(own == 0, of_main, own)  # autograd's thread works for the one that waits for it

    edges = distinct(np.sort(np.concatenate((frames.start_ns, frames.end_ns))))
    on = at(np.full(len(edges), main), edges)[:-1]
    spans = np.stack((edges[:-1], edges[1:]), axis=1)[on != 0]
    return Lines(tuple(doings), ((spans, on[on != 0]),), at)


def _of_frame(name: str) -> Doing:
    place = FRAME_NAME.fullmatch(name)
    return Doing(int(place["line"]), "", file=place["file"], function=place["function"]) if place else Doing(0, name)
