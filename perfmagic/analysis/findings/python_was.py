"""What Python was doing while a device waited for it, in words that several findings use."""

from __future__ import annotations

from dataclasses import dataclass

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.timeline.host_time import FrameTime, HostTime, NameTime, held_by, host_time
from perfmagic.numerics.intervals import Intervals, parts_of
from perfmagic.trace.columns import Int64
from perfmagic.trace.signatures import function_name

TOLD_FRAMES = 3  # of a finding's JSON; python_during() has all


@dataclass(frozen=True)
class PythonWas:
    """What held Python.

    words: "Python was in aten::sort for 77 ms of 126 ms, at step (train.py:31) all that time", "" where nothing held it
    for half of the time.  operator, annotation, frame: what is named there.  frames: those with most time.
    """

    words: str = ""
    operator: NameTime | None = None
    annotation: NameTime | None = None
    frame: FrameTime | None = None
    frames: tuple[FrameTime, ...] = ()


def python_was(facts: Facts, rows: Int64, within: Intervals) -> PythonWas:
    """What held Python in some idle gaps, on the threads that ended them. within: the part of the gaps that counts."""
    gaps, trace = facts.gaps, facts.trace
    if not trace.has_host_rows or not len(rows):
        return PythonWas()
    gap, where = parts_of(gaps.start_ns[rows], gaps.end_ns[rows], within)
    time = host_time(trace, gaps.thread(trace)[rows][gap], where)
    operator, annotation = held_by(time.operators, time.total_ns), held_by(time.annotations, time.total_ns)
    frame = held_by(time.frames, time.total_ns)
    told = [
        f"{preposition} {words}"
        for preposition, words in (
            ("in", _share(function_name(operator.name), operator, time) if operator else ""),
            ("inside", _share(function_name(annotation.name), annotation, time) if annotation else ""),
            ("at", _share(frame.name, frame, time) if frame else ""),
        )
        if words
    ]
    words = f"Python was {', '.join(told)}" if told else ""
    frames = sorted(time.frames, key=lambda one: -one.share_ns)[:TOLD_FRAMES]
    return PythonWas(words, operator, annotation, frame, tuple(one for one in frames if one.share_ns))


def _share(name: str, one: NameTime | FrameTime, time: HostTime) -> str:
    """The name, and of how much of the time where that is not all: "zoom (ndimage.py:12) for 104 of 126 ms"."""
    if one.inclusive_ns == time.total_ns:
        return f"{name} all that time"
    return f"{name} for {units.duration(one.inclusive_ns)} of {units.duration(time.total_ns)}"
