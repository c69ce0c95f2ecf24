"""Graders of exercises: each looks at a recorded timeline, and raises NotYet with a reason in one sentence."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import unwrap
from numbers import Real
from traceback import clear_frames, walk_tb
from typing import TypeVar, cast

import numpy as np

from perfmagic import sim
from perfmagic.analysis.findings.record import RACES
from perfmagic.api.show import keep_quiet
from perfmagic.api.timelines import recorded
from perfmagic.base import units
from perfmagic.base.clock import read_ns
from perfmagic.base.language import counted, phrase, say, translated
from perfmagic.capture.devices.backends import device, synchronize
from perfmagic.capture.owner import Owner
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.results import TimelineResult
from perfmagic.trace.names import shown_names

R = TypeVar("R")


class NotYet(AssertionError):  # noqa: N818 - an answer that is not right yet is no error of a program
    """An exercise is not solved yet; the message is the reason."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: one line."""
        return [say("not yet: {reason}", reason=str(self))]


@dataclass(frozen=True)
class Right:
    """An exercise is solved."""

    def __repr__(self) -> str:
        return say("right")


def check(grader: Callable[..., object], *answer: object) -> Right:
    """Run an exercise's grader on an answer, and say "right" where it raises nothing.

    Raises NotYet with the reason of the grader, of a helper of this module or of perfmagic.testing. It also does if the
    grader cannot take a None. Other exceptions are the answer's own, and pass.

    >>> from perfmagic.lessons import check, require
    >>> check(lambda n: require(n == 4, "two and two are something else"), 4)
    right
    """
    __tracebackhide__ = True
    try:
        grader(*answer)
    except AssertionError as problem:
        clear_frames(problem.__traceback__)  # the notebook keeps the last error, and it what the grader made
        if not str(problem) or isinstance(problem, NotYet):
            raise
        raise NotYet(str(problem)) from problem
    except (TypeError, AttributeError) as problem:
        if "NoneType" not in str(problem) or _is_from(answer, problem):
            raise
        clear_frames(problem.__traceback__)
        raise NotYet(say("a value is missing: does a function return nothing?")) from None
    return Right()


def _is_from(answer: tuple[object, ...], problem: Exception) -> bool:
    """Whether a function of the answer raised it, or something that it called."""
    codes = {getattr(unwrap(one), "__code__", None) for one in answer if callable(one)}
    return any(frame.f_code in codes for frame, _ in walk_tb(problem.__traceback__))


def require(holds: object, reason: str) -> None:
    """Raise NotYet with this reason unless the condition holds."""
    __tracebackhide__ = True
    if not holds:
        raise NotYet(reason)


def close(found: object, wanted: float | Sequence[float], what: str = "", *, share: float = 1e-3) -> None:
    """Raise NotYet unless a number, or each of a list or tuple, is as wanted to within a share of it.

    what: what the reason calls it, "the answer" if left out. The reason does not tell the wanted number.
    """
    __tracebackhide__ = True
    what = what or say("the answer")
    if isinstance(wanted, Sequence):
        require(isinstance(found, (list, tuple)), say("{what} is no list of numbers", what=what))
        given = cast("Sequence[object]", found)
        few = say("{what} has {n} of {all} numbers", what=what, n=units.count(len(given)), all=units.count(len(wanted)))
        require(len(given) == len(wanted), few)
        for place, (one, right) in enumerate(zip(given, wanted, strict=True), 1):
            close(one, right, say("number {place} of {what}", place=units.count(place), what=what), share=share)
        return
    require(isinstance(found, Real) and not isinstance(found, bool), say("{what} is no number", what=what))
    number = float(cast("float", found))
    how = say("too high") if number > wanted else say("too low")
    is_plain = isinstance(found, int) or not math.isfinite(number)
    value = str(found) if is_plain else units.significant(number)
    require(
        abs(number - wanted) <= share * abs(wanted), say("{what} is {value}: {how}", what=what, value=value, how=how)
    )


def record(function: Callable[..., R], *args: object, pace: str = "") -> tuple[R, TimelineResult]:
    """What a function returns, and the timeline of its call; nothing is shown, perfmagic.last() has the timeline.

    pace: of simulated devices during the call, on their virtual clock, which time.perf_counter() and time.time() read
    meanwhile; all is as before afterwards. CUDA devices keep their own times. Raises what the function raises.
    """
    back, clocks = sim.state(), (time.perf_counter, time.time)
    try:
        if sim.loaded():
            synchronize()
            device("sim", clock="virtual", pace=pace or None)
            time.perf_counter = time.time = lambda: read_ns() / 1e9
        recorder, owner = Recorder(origin="block", lines=False), Owner()
        with owner, owner:
            owner.acquire(recorder)
            returned = function(*args)
            result = cast("TimelineResult", recorded(recorder, None, ""))
    finally:
        time.perf_counter, time.time = clocks
        back()
    keep_quiet(result)
    return returned, result


def race_free(t: TimelineResult) -> None:
    """Raise NotYet where a stream uses data of another one without a wait; only simulated devices record that."""
    __tracebackhide__ = True
    if not t.trace.meta.races:
        return
    *pair, kind = t.trace.meta.races[0]
    rows = [t.trace.ops.correlation.tolist().index(correlation) for correlation in pair]
    (later, earlier), (a, b) = ([column[row] for row in rows] for column in (_ops(t), t.trace.ops.stream.tolist()))
    race = phrase(RACES[kind], later=later, earlier=earlier, a=a, b=b, times="")
    raise NotYet(say("a wait is missing: {race}", race=race))


def behind(t: TimelineResult, later: int, earlier: int) -> bool:
    """Whether one op had to wait for another, by the order of a stream and by the waits of a simulated device's record.

    later, earlier: rows of t.trace.ops.
    """
    ops, held = t.trace.ops, t.trace.waits
    streams = [*zip(ops.device.tolist(), ops.stream.tolist(), strict=True)]
    other_device = np.where(held.on_device < 0, held.device, held.on_device)
    columns = (held.device, held.stream, held.correlation, other_device, held.on_stream, held.on_correlation)
    ended = {streams[later]: int(ops.correlation[later])}  # by stream: its launches up to this one have ended by then
    for device_, stream, since, *other, until in reversed([*zip(*(c.tolist() for c in columns), strict=True)]):
        if since < ended.get((device_, stream), 0):
            ended[other[0], other[1]] = max(until, ended.get((other[0], other[1]), 0))
    return bool(ops.correlation[earlier] <= ended.get(streams[earlier], 0))


def waits(t: TimelineResult, at_least: int = 1) -> None:
    """Raise NotYet unless streams waited for each other at least this often; a record of CUDA devices does not say."""
    __tracebackhide__ = True
    n = len(t.trace.waits)
    few = counted(
        n,
        "streams wait for each other {n} time, not {all}",
        "streams wait for each other {n} times, not {all}",
        all=units.count(at_least),
    )
    require(n >= at_least or not t.trace.simulated, translated(few))


def python_waits(t: TimelineResult, at_most: int = 0) -> None:
    """Raise NotYet where Python waited for a device more often than this; `.item()` is one wait."""
    __tracebackhide__ = True
    n = sum(row["n_asked"] for row in t.to_dict()["syncs"])
    often = counted(n, "Python waits for a device {n} time", "Python waits for a device {n} times")
    require(n <= at_most, translated(often))


def overlap(t: TimelineResult, at_least: float = 0.25) -> None:
    """Raise NotYet unless this share of copies and communication ran beside computation, summed over the devices."""
    __tracebackhide__ = True
    reports = t.to_dict()["devices"].values()
    moved_ns = sum(report["copy_ns"] + report["communication_ns"] for report in reports)
    require(moved_ns, say("nothing is copied"))
    beside = sum(r["overlap_compute_copy_ns"] + r["overlap_compute_communication_ns"] for r in reports) / moved_ns
    shares = {"share": units.percent(beside), "all": units.percent(at_least)}
    copies = say("{share} of the copies run beside computation, not {all}", **shares)
    messages = say("{share} of the communication runs beside computation, not {all}", **shares)
    require(beside >= at_least, copies if any(report["copy_ns"] for report in reports) else messages)


def at_work(t: TimelineResult, at_least: float = 1.25) -> None:
    """Raise NotYet unless at least this many devices worked on average, from the first op to the last."""
    __tracebackhide__ = True
    ops = t.trace.ops
    require(len(ops.start_ns), say("no device did anything"))
    busy_ns = sum(report["busy_ns"] for report in t.to_dict()["devices"].values())
    mean = busy_ns / float(ops.end_ns.max() - ops.start_ns.min())
    require(mean >= at_least, say("the devices take turns: on average {n} work", n=units.significant(mean, 2)))


def same_work(a: TimelineResult, b: TimelineResult, name: str = "") -> None:
    """Raise NotYet unless both ran the same ops on devices, by name and number.

    a: the answer's.  b: what it is compared with.  name: compares only ops that have it in their name.
    """
    __tracebackhide__ = True
    did, wanted = (Counter(op for op in _ops(t) if name in op) for t in (a, b))
    for op in sorted(did | wanted, key=lambda op: (-wanted[op], op)):
        ran = counted(
            did[op],
            "{op} runs {n} time, not {all}",
            "{op} runs {n} times, not {all}",
            op=op,
            all=units.count(wanted[op]),
        )
        require(did[op] == wanted[op], translated(ran))


def _ops(t: TimelineResult) -> list[str]:
    """The names of the ops that devices ran."""
    return [shown_names(t.trace)[name] for name in t.trace.ops.name.tolist()]
