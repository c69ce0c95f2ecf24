"""A watch beside other tools that follow Python: a script without torch or numpy.

    python tests/capture/watch/others.py monitoring|settrace

prints a JSON object: for each case what the watch saw, what the other saw, and what was left behind.
"""

import contextlib
import cProfile
import io
import json
import os
import pdb
import pstats
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from perfmagic.base.errors import CaptureError
from perfmagic.capture.owner import Owner
from perfmagic.capture.watch.events import LINE, Events, HotLoops
from perfmagic.capture.watch.monitoring import Monitoring
from perfmagic.capture.watch.settrace import Settrace
from tests.capture.watch.programs import compiled, is_of_cell, left_behind

TEXT = """\
def f(n):
    s = 0
    for i in range(n):
        s += i
    return s

def stops():
    s = 1
    breakpoint()
    s = 2
    return s
"""
LINES = [2, *[3, 4] * 3, 3, 5]  # of f(3)
NAMES: dict[str, Any] = {"__name__": "__main__"}
exec(compiled("others", TEXT), NAMES)
f, stops = NAMES["f"], NAMES["stops"]
KIND: Any = Monitoring if sys.argv[1:] == ["monitoring"] else Settrace


class Watch:
    """A watch for a with-block, and the lines that it saw."""

    def __init__(self) -> None:
        self.events = Events()
        self.watching = KIND(self.events, is_of_cell, [])

    def __enter__(self) -> "Watch":  # noqa: PYI034 - typing.Self needs Python 3.11
        self.watching.acquire()
        return self

    def __exit__(self, *_error: object) -> None:
        self.watching.give_back()

    @property
    def lines(self) -> list[int]:
        rows = [row for rows in self.events.by_thread.values() for row in rows]
        return [number for _, kind, _, number in rows if kind == LINE]


def followed() -> list[int]:
    with Watch() as watch:
        f(3)
    return watch.lines


def refused() -> str:
    """The message of a watch that cannot begin; empty where it can."""
    try:
        with Watch():
            pass
    except CaptureError as error:
        return error.message
    return ""


def alone() -> dict[str, Any]:
    return {"right": followed() == LINES, "after": local_events()}


def cprofile() -> dict[str, Any]:
    profile = cProfile.Profile()
    profile.enable()
    seen = followed()
    profile.disable()
    calls = [row[0] for (_, _, name), row in pstats.Stats(profile).stats.items() if name == "f"]  # type: ignore[attr-defined]
    return {"right": seen == LINES, "theirs": calls}


def debugger_at_work() -> dict[str, Any]:
    """A trace function that was there before stays; on settrace the watch says that it cannot."""
    theirs: list[tuple[str, int]] = []

    def debugger(frame: FrameType, event: str, _arg: object) -> Any:
        if frame.f_code.co_filename == f.__code__.co_filename:
            theirs.append((event, frame.f_lineno))
        return debugger

    sys.settrace(debugger)
    threading.settrace(debugger)
    try:
        reason = refused()
        seen = followed() if not reason else []
        is_theirs = sys.gettrace() is debugger and threading.gettrace() is debugger
        if reason:
            f(3)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type, unused-ignore]
    return {
        "refused": reason,
        "seen": seen == LINES,
        "theirs": [n for e, n in theirs if e == "line"] == LINES,
        "stays": is_theirs,
    }


def hook_for_threads() -> dict[str, Any]:
    """What another set for new threads alone is left to it."""

    def hook(*_args: object) -> None:
        return None

    threading.settrace(hook)
    seen = followed()
    stays = threading.gettrace() is hook
    threading.settrace(None)  # type: ignore[arg-type, unused-ignore]
    return {"right": seen == LINES, "stays": stays}


def debugger_in_the_cell() -> dict[str, Any]:
    """breakpoint(), next, where, continue: pdb works, and what the watch does not know afterwards it says."""
    out = io.StringIO()
    before = sys.breakpointhook
    sys.breakpointhook = lambda: pdb.Pdb(
        stdin=io.StringIO("next\np s\ncontinue\n"), stdout=out, nosigint=True
    ).set_trace(sys._getframe(1))
    try:
        with Watch() as watch:
            result = stops()
            f(3)
    finally:
        sys.breakpointhook = before
    stopped, lost = "-> s = 2" in out.getvalue(), watch.watching.lost
    return {"result": result, "stopped": stopped, "lines": watch.lines, "lost": lost}


def coverage(core: str) -> dict[str, Any]:
    import coverage as tool

    os.environ["COVERAGE_CORE"] = core
    cov = tool.Coverage(data_file=None, config_file=False, messages=False, include=["*"])
    cov.start()
    try:
        reason = refused()
        seen = followed() if not reason else []
        json.dumps({"a": [1]}, indent=1)
    finally:
        cov.stop()
    measured = {Path(name).name for name in cov.get_data().measured_files()}
    return {"refused": reason, "right": seen == LINES, "theirs": "others.py" in measured}


def another_tool() -> dict[str, Any]:
    """One that disables each line after its first event: none of them wakes."""
    m: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    theirs: list[int] = []

    def line(code: Any, number: int) -> Any:
        if code is f.__code__:
            theirs.append(number)
        return m.DISABLE

    m.use_tool_id(m.COVERAGE_ID, "another")
    m.register_callback(m.COVERAGE_ID, m.events.LINE, line)
    m.set_events(m.COVERAGE_ID, m.events.LINE)
    m.use_tool_id(m.PROFILER_ID, "profiler")
    try:
        f(3)
        before = len(theirs)
        seen = followed()
        f(3)
        return {"right": seen == LINES, "before": before, "after": len(theirs), "name": m.get_tool(m.PROFILER_ID)}
    finally:
        m.set_events(m.COVERAGE_ID, 0)
        m.free_tool_id(m.COVERAGE_ID)
        m.free_tool_id(m.PROFILER_ID)


def all_numbers_taken() -> dict[str, Any]:
    m: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    for number in (2, 3, 4):
        m.use_tool_id(number, "another")
    try:
        return {"refused": refused(), "names": [m.get_tool(number) for number in (2, 3, 4)]}
    finally:
        for number in (2, 3, 4):
            m.free_tool_id(number)


def nested() -> dict[str, Any]:
    """A watch within a watch: both see all, or the inner one says that it cannot; the outer goes on."""
    with Watch() as outer:
        reason = refused()
        inner = followed() if not reason else []
        f(3)
    latest, lost = outer.lines[-len(LINES) :], outer.watching.lost
    return {"refused": reason, "inner": inner == LINES, "outer": latest == LINES, "lost": lost}


def threads_from_before() -> dict[str, Any]:
    go, done, end = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        go.wait()
        f(3)
        done.set()
        end.wait()

    thread = threading.Thread(target=work)
    thread.start()
    with Watch() as watch:
        go.set()
        done.wait()
    end.set()
    thread.join()
    return {"right": watch.lines == LINES}


def a_thread_that_goes_on() -> dict[str, Any]:
    """A thread that outlives the watch is noted no more, and rid of its trace function."""
    begun, go = threading.Event(), threading.Event()
    left: list[object] = []

    def work() -> None:
        f(3)
        begun.set()
        go.wait()
        f(3)
        left.append(sys.gettrace())

    with Watch() as watch:
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
    go.set()
    thread.join()
    return {"right": watch.lines == LINES, "left": [str(thread) for thread in left if thread is not None]}


@contextlib.contextmanager
def interrupt_at(number: int) -> Iterator[list[int]]:
    """SIGINT at the n-th call of any function, Python's or C's; the calls so far."""
    count = [0]

    def profile(_frame: FrameType, event: str, _arg: object) -> None:
        if event in ("call", "c_call"):
            count[0] += 1
            if count[0] == number:
                signal.raise_signal(signal.SIGINT)

    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(None)


def session(number: int) -> int:
    """A watch with its thread, interrupted at one call; how many calls there were until the end."""
    events, owner = Events(), Owner()
    watching = KIND(events, is_of_cell, [])
    count = [0]
    try:
        with owner, owner, interrupt_at(number) as count:
            owner.acquire(HotLoops(events, watching))
            owner.acquire(watching)
            f(3)
            owner.close()
    except KeyboardInterrupt:
        pass
    return count[0]


def interrupts() -> dict[str, Any]:
    """At every call of a watch's beginning and end."""
    n_threads, number, wrong = threading.active_count(), 0, []
    while True:
        number += 1
        calls = session(number)
        left = [*left_behind(sys.argv[1]), *local_events(), *["a thread"] * (threading.active_count() - n_threads)]
        if left or followed() != LINES:
            wrong.append([number, left])
        if calls < number:
            return {"points": number, "wrong": wrong}


def local_events() -> list[str]:
    """Events that are still on for the code."""
    if not hasattr(sys, "monitoring"):
        return ["threads' trace function"] if threading.gettrace() is not None else []
    events = []
    for number in (2, 3, 4):
        if sys.monitoring.get_tool(number) is None:
            sys.monitoring.use_tool_id(number, "looking")
            events += [f"local events of {number}"] * bool(sys.monitoring.get_local_events(number, f.__code__))
            events += [f"events of {number}"] * bool(sys.monitoring.get_events(number))
            sys.monitoring.free_tool_id(number)
    return events


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "alone": alone,
    "cProfile": cprofile,
    "a debugger at work": debugger_at_work,
    "a hook for threads": hook_for_threads,
    "a debugger in the cell": debugger_in_the_cell,
    "a watch in a watch": nested,
    "threads from before": threads_from_before,
    "a thread that goes on": a_thread_that_goes_on,
    "interrupts": interrupts,
}
WITH_COVERAGE = {"coverage by a trace function": "ctrace", "coverage by sys.monitoring": "sysmon"}
WITH_MONITORING = {"another tool": another_tool, "all numbers taken": all_numbers_taken}


def main() -> None:
    newer = hasattr(sys, "monitoring")
    results = {name: case() for name, case in {**CASES, **(WITH_MONITORING if newer else {})}.items()}
    for name, core in WITH_COVERAGE.items():
        if core == "ctrace" or newer:
            results[name] = coverage(core)
    results["left"] = {"left": [*left_behind(sys.argv[1]), *local_events()]}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
