"""What Python was doing while the device had nothing to do, in words for the sentences of several findings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.timeline.host_time import FrameTime, HostTime, host_time
from perfmagic.numerics.intervals import Intervals
from perfmagic.trace.columns import NONE

SHARE_FRAC = 1 / 3  # of the time; a name with less does not say what Python was doing
FRAMES = 5  # that a finding carries, the longest first
PLACE_PARTS = 3  # of a path in a sentence; the finding carries all of it


@dataclass(frozen=True)
class PythonWas:
    """What Python was doing.

    words: "Python was in zoom (scipy/ndimage/_interpolation.py:12) for 104 ms of it, in aten::mm for 61.0 ms"; "" where
    no name holds a third of the time.  names: of the operator, the annotation and the frame that are told, "" for none.
    frames: the functions in which most of the time passed.
    """

    words: str
    names: tuple[str, str, str]
    frames: tuple[FrameTime, ...]


def python_was(facts: Facts, where: Intervals) -> PythonWas:
    """What Python was doing in some time within the idle gaps, on the threads that launched what ended them."""
    trace, gaps = facts.trace, facts.gaps
    if not len(where) or not len(gaps) or not trace.has_host_rows:
        return PythonWas("", ("", "", ""), ())
    gap = np.maximum(np.searchsorted(gaps.start_ns, where[:, 0], side="right") - 1, 0)
    launch = trace.ops.launch[gaps.op[gap]]
    known = launch != NONE
    where = where[known]
    time = host_time(trace, trace.calls.thread[launch[known]], where[:, 0], where[:, 1])
    return _worded(time)


def _worded(time: HostTime) -> PythonWas:
    least_ns = max(1, SHARE_FRAC * time.total_ns)
    frame = next((f for f in time.frames[:1] if f.share_ns >= least_ns), None)
    operator, annotation = (
        next((n for n in some[:1] if n.share_ns >= least_ns), None) for some in (time.operators, time.annotations)
    )
    told = []
    if frame:
        told.append((frame.share_ns, f"in {frame.function}{_place(frame)}"))
    if operator:
        told.append((operator.share_ns, f"in {operator.name}"))
    if annotation:
        told.append((annotation.share_ns, f"inside {annotation.name}"))
    words = [f"{what} for {units.duration(ns)}" for ns, what in told]
    of_it = " of it" if told and told[0][0] < time.total_ns else ""
    said = f"Python was {words[0]}{of_it}{''.join(f', {one}' for one in words[1:])}" if words else ""
    names = (operator.name if operator else "", annotation.name if annotation else "", frame.function if frame else "")
    return PythonWas(said, names, time.frames[:FRAMES])


def _place(frame: FrameTime) -> str:
    """The end of the file's path and the line, in brackets."""
    return f" ({'/'.join(PurePath(frame.file).parts[-PLACE_PARTS:])}:{frame.line})" if frame.file else ""
