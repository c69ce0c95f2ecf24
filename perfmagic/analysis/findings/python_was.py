"""What Python was doing while the device had nothing to do, in words for the sentences of several findings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.timeline.host_time import FRAME_NAME, MOST_FRAC, FrameTime, HostTime, held_by, host_time
from perfmagic.numerics.intervals import Intervals
from perfmagic.trace.columns import NONE
from perfmagic.trace.signatures import function_name

FRAMES = 5  # that a finding carries, the longest first
PLACE_PARTS = 3  # of a path in a sentence; the finding carries all of it


@dataclass(frozen=True)
class PythonWas:
    """What Python was doing.

    words: "Python was in zoom (scipy/ndimage/_interpolation.py:12) for 104 ms of 126 ms, in aten::mm all that time"; ""
    where nothing held it for half of the time.  names: of the operator, the annotation and the frame that are told, ""
    for none.  around: all operators and annotations that ran for half of the time or more.  frames: the functions in
    which most of the time passed.
    """

    words: str
    names: tuple[str, str, str]
    around: frozenset[str]
    frames: tuple[FrameTime, ...]


def python_was(facts: Facts, where: Intervals) -> PythonWas:
    """What Python was doing in some time within the idle gaps, on the threads that launched what ended them."""
    trace, gaps = facts.trace, facts.gaps
    if not len(where) or not len(gaps) or not trace.has_host_rows:
        return PythonWas("", ("", "", ""), frozenset(), ())
    gap = np.maximum(np.searchsorted(gaps.start_ns, where[:, 0], side="right") - 1, 0)
    launch = trace.ops.launch[gaps.op[gap]]
    known = launch != NONE
    where = where[known]
    time = host_time(trace, trace.calls.thread[launch[known]], where)
    return _worded(time)


def _worded(time: HostTime) -> PythonWas:
    operator, annotation = held_by(time.operators, time.total_ns), held_by(time.annotations, time.total_ns)
    frame = held_by(time.frames, time.total_ns)
    told = []
    if frame:
        told.append((frame.inclusive_ns, f"in {frame.function}{_place(frame)}"))
    if operator:
        told.append((operator.inclusive_ns, f"in {function_name(operator.name)}"))
    if annotation:
        told.append((annotation.inclusive_ns, f"inside {function_name(annotation.name)}"))
    words = [f"{what} {_how_long(ns, time.total_ns)}" for ns, what in told]
    names = (operator.name if operator else "", annotation.name if annotation else "", frame.function if frame else "")
    frames = tuple(one for one in time.frames[:FRAMES] if one.share_ns)
    both = (*time.operators, *time.annotations)
    around = frozenset(one.name for one in both if one.inclusive_ns >= MOST_FRAC * time.total_ns)
    return PythonWas(f"Python was {', '.join(words)}" if words else "", names, around, frames)


def _how_long(ns: int, of_ns: int) -> str:
    return "all that time" if ns == of_ns else f"for {units.duration(ns)} of {units.duration(of_ns)}"


def frame_words(name: str) -> str:
    """A frame as the record names it, in a sentence: "zoom (scipy/ndimage/_interpolation.py:123)"."""
    found = FRAME_NAME.match(name)
    return f"{found['function']}{_at_place(found['file'], int(found['line']))}" if found else name


def _place(frame: FrameTime) -> str:
    return _at_place(frame.file, frame.line)


def _at_place(file: str, line: int) -> str:
    """The end of the file's path and the line, in brackets."""
    return f" ({'/'.join(PurePath(file).parts[-PLACE_PARTS:])}:{line})" if file else ""
