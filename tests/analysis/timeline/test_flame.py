"""Where Python was: times by path, against traces made by hand and against the events of recorded files."""

import gzip
import json
import re
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from perfmagic.analysis.timeline.flame.call_paths import (
    call_paths,
    collapsed,
    python_thread,
    recorded_threads,
    time_on_line,
)
from perfmagic.base.numerics.intervals import Intervals
from perfmagic.rows import CallPath
from perfmagic.trace.columns import HostKind
from perfmagic.trace.model import Trace
from perfmagic.trace.rows import Rows
from tests.analysis.build import US, Builder
from tests.analysis.timeline.test_by_path import MAIN, MS, WORKER, trace_of
from tests.trace.recorded import real, real_trace

Times = dict[tuple[str, ...], tuple[int, int]]


def during(*spans_us: float) -> Intervals:
    """Intervals from starts and ends in µs."""
    return (np.array(spans_us) * US).astype(np.int64).reshape(-1, 2)


def by_path(paths: Rows[CallPath]) -> Times:
    """Self and total time in ns of each path, by the names from its thread down to itself."""
    stack: list[str] = []
    times = {}
    for path in paths:
        stack[path.depth :] = [path.name]
        times[tuple(stack)] = (path.self_ns, path.total_ns)
    assert len(times) == len(paths)
    return times


def times_us(trace: Trace, where: Intervals, thread: int = 1) -> dict[str, tuple[float, float]]:
    """The same in µs, by names joined with ">", without the thread's own."""
    times = by_path(call_paths(trace, [thread], where))
    return {">".join(names[1:]): (alone / US, total / US) for names, (alone, total) in times.items()}


def frames() -> Builder:
    """main calls step twice; step calls itself once; an operator in each call."""
    b = Builder()
    b.host_op(0, 100, "run.py(1): main", kind=HostKind.PYTHON)
    for start in (10, 50):
        b.host_op(start, start + 30, "lib.py(7): step", kind=HostKind.PYTHON)
        b.host_op(start + 5, start + 9, "aten::mm")
    b.host_op(60, 75, "lib.py(7): step", kind=HostKind.PYTHON)
    return b


def test_calls_of_one_name_inside_the_same_calls_are_one_path_and_recursion_is_kept() -> None:
    assert times_us(frames().trace(), during(0, 120)) == {
        "": (20, 120),
        "main (run.py:1)": (40, 100),
        "main (run.py:1)>step (lib.py:7)": (37, 60),
        "main (run.py:1)>step (lib.py:7)>aten::mm": (8, 8),
        "main (run.py:1)>step (lib.py:7)>step (lib.py:7)": (15, 15),
    }


def test_only_the_time_asked_for_counts_also_where_it_is_in_pieces() -> None:
    assert times_us(frames().trace(), during(12, 17, 62, 65)) == {
        "": (0, 8),
        "main (run.py:1)": (0, 8),
        "main (run.py:1)>step (lib.py:7)": (3, 8),
        "main (run.py:1)>step (lib.py:7)>aten::mm": (2, 2),
        "main (run.py:1)>step (lib.py:7)>step (lib.py:7)": (3, 3),
    }


def test_paths_stand_in_the_order_of_their_first_call_with_the_calls_counted() -> None:
    b = Builder()
    for start, name in ((0, "z"), (10, "a"), (20, "z"), (30, "m")):
        b.host_op(start, start + 5, name)
        b.host_op(start + 1, start + 2, "inner")
    paths = call_paths(b.trace(), [1], during(0, 40))
    assert [(path.name, path.depth, path.parent, path.n_calls) for path in paths] == [
        ("main thread", 0, -1, 1),
        ("z", 1, 0, 2),
        ("inner", 2, 1, 2),
        ("a", 1, 0, 1),
        ("inner", 2, 3, 1),
        ("m", 1, 0, 1),
        ("inner", 2, 5, 1),
    ]


def test_what_ends_after_the_call_around_it_ends_with_it() -> None:
    b = Builder()
    b.host_op(0, 10, "outer")
    b.host_op(4, 11, "inner")
    b.host_op(6, 12, "innermost")
    assert times_us(b.trace(), during(0, 20)) == {
        "": (10, 20),
        "outer": (4, 10),
        "outer>inner": (2, 6),
        "outer>inner>innermost": (4, 4),
    }


def test_a_mark_that_begins_in_one_frame_and_ends_in_another_takes_nothing_from_either() -> None:
    b = Builder()
    b.host_op(0, 40, "run.py(1): main", kind=HostKind.PYTHON)
    b.host_op(10, 14, "prof.py(2): enter", kind=HostKind.PYTHON)
    b.host_op(15, 32, "a mark")
    b.host_op(30, 36, "prof.py(3): leave", kind=HostKind.PYTHON)
    assert times_us(b.trace(), during(0, 40)) == {
        "": (0, 40),
        "main (run.py:1)": (30, 40),
        "main (run.py:1)>enter (prof.py:2)": (4, 4),
        "main (run.py:1)>leave (prof.py:3)": (6, 6),
    }


def test_what_is_built_in_and_instances_of_a_module_are_one_path() -> None:
    b = Builder()
    names = (
        *("nn.Module: Linear_0", "nn.Module: Linear_12"),
        *("<built-in method append of list object at 0x7f1>", "<built-in method append of list object at 0x7f2>"),
    )
    for at, name in enumerate(names):
        b.host_op(at * 10, at * 10 + 7, name, kind=HostKind.PYTHON)
    assert times_us(b.trace(), during(0, 40)) == {
        "": (12, 40),
        "nn.Module: Linear": (14, 14),
        "append (built-in)": (14, 14),
    }


def test_annotations_count_where_no_frames_are_and_marks_of_steps_never() -> None:
    b = Builder()
    b.host_op(0, 50, "ProfilerStep#3", kind=HostKind.ANNOTATION)
    b.host_op(10, 30, "## forward ##", kind=HostKind.ANNOTATION)
    b.host_op(12, 20, "aten::mm")
    assert times_us(b.trace(), during(0, 50)) == {
        "": (30, 50),
        "## forward ##": (12, 20),
        "## forward ##>aten::mm": (8, 8),
    }
    b.host_op(0, 25, "run.py(1): main", kind=HostKind.PYTHON)
    assert "## forward ##" not in str(times_us(b.trace(), during(0, 50)))


def test_each_thread_has_a_root_and_one_on_which_nothing_ran_has_none() -> None:
    b = frames()
    b.host_op(20, 40, "aten::add", thread=5)
    trace = b.trace()
    assert (python_thread(trace), recorded_threads(trace)) == (1, (1, 5))
    paths = call_paths(trace, recorded_threads(trace), during(0, 100))
    assert [(p.name, p.total_ns) for p in paths if p.kind == "thread"] == [
        ("main thread", 100 * US),
        ("thread 5", 100 * US),
    ]
    assert paths[paths[-1].parent].name == "thread 5"
    assert {p.thread for p in call_paths(trace, recorded_threads(trace), during(0, 20))} == {1}


def test_followed_lines_stand_for_frames() -> None:
    trace = trace_of([(5, MAIN)])
    assert python_thread(trace) == MAIN
    step = "line 2: step(1)>step (In[0]:3): step(n - 1)"
    assert times_us(trace, np.array([[0, 100 * MS]]), MAIN) == {
        "": (0, 100_000),
        "line 2: step(1)": (70_000, 100_000),
        "line 2: step(1)>step (In[0]:2): y = x @ x": (10_000, 10_000),
        step: (10_000, 20_000),
        f"{step}>step (In[0]:2): y = x @ x": (10_000, 10_000),
    }
    assert ("line 2: step(1)>work (util.py:11): z = x + 1", (6_000, 6_000)) in times_us(
        trace, np.array([[0, 100 * MS]]), WORKER
    ).items()


def test_following_that_ended_early_says_nothing_of_the_rest() -> None:
    trace = trace_of([(5, MAIN)])
    cut = replace(trace, paths=replace(trace.paths, until_ns=60 * MS))
    assert times_us(cut, np.array([[0, 100 * MS]]), MAIN)[""] == (40_000, 100_000)


def test_lines_of_the_cell_stand_for_frames_where_functions_were_not_followed() -> None:
    b = Builder()
    for at, line in ((0, 2), (10, 3), (30, 2), (40, 0)):
        b.line(at, line)
    b.host_op(12, 20, "aten::mm")
    for at in (22, 24):  # another thread, of a backward pass, that calls more often
        b.host_op(at, at + 1, "MulBackward0", thread=5)
        b.op(at + 2, at + 3, launch=at, thread=5)
    trace = b.trace(end=60, returned=50, cell="%%timeline\nx = f()\ny = x @ x")
    assert times_us(trace, during(0, 60)) == {
        "": (20, 60),
        "line 2: x = f()": (20, 20),
        "line 3: y = x @ x": (12, 20),
        "line 3: y = x @ x>aten::mm": (8, 8),
    }
    assert time_on_line(trace, 2).tolist() == during(0, 10, 30, 40).tolist()


def test_folded_lines_add_up_and_keep_their_form() -> None:
    b = Builder()
    b.host_op(0, 4.5, "a;b\nc")
    b.host_op(0.7, 2.1, "inner")
    b.host_op(2.2, 3.6, "inner two")
    b.host_op(3.7, 3.8, "short")
    folded = collapsed(call_paths(b.trace(), [1], during(0, 6)))
    lines = [re.fullmatch(r"(.*) (\d+)", line) for line in folded.splitlines()]
    assert [line[1] for line in lines if line] == [
        "main thread",
        "main thread;a:b c",
        "main thread;a:b c;inner",
        "main thread;a:b c;inner two",
    ]
    assert sum(int(line[2]) for line in lines if line) == 6


# Recorded files: the same sums from their JSON, event by event.


def label(name: str) -> str:
    """A frame's name as a flame graph has it, by other means than the package's."""
    if name.startswith("<built-in "):
        function = name.split(" ")[2].rstrip(">")
        return f"{function} (built-in)" if function else name[: name.index(" at 0x")] + ">"
    if name.startswith("nn.Module: "):
        return name.rpartition("_")[0]
    file, bracket, function = name.partition("): ")
    return f"{function} ({file.replace('(', ':')})" if bracket and file.count("(") == 1 else name


def events_of(name: str, thread: int, base_unix_ns: int) -> list[dict[str, Any]]:
    """Frames, operators and annotations of a thread, from and to in ns of the trace; outer ones first."""
    loaded = json.loads(gzip.decompress(real(name).read_bytes()), parse_float=Decimal)
    base_ns = base_unix_ns - loaded.get("baseTimeNanoseconds", 0)
    cats = ("python_function", "cpu_op", "user_annotation")
    events = [e for e in loaded["traceEvents"] if e.get("ph") == "X" and e["cat"] in cats and e["tid"] == thread]
    for event in events:
        event["from"] = int(Decimal(event["ts"]) * 1000) - base_ns
        event["to"] = event["from"] + int(Decimal(event["dur"]) * 1000)
    return sorted(events, key=lambda e: (e["from"], -e["to"], e["cat"] != "python_function"))


def swept(events: list[dict[str, Any]], low: int, high: int) -> Times:
    """Self and total time of each path from low to high: events are opened and closed one after the other."""
    alone: Counter[tuple[str, ...]] = Counter({("main thread",): high - low})
    total: Counter[tuple[str, ...]] = Counter({("main thread",): high - low})
    around: list[tuple[tuple[str, ...], int]] = [(("main thread",), 2**62)]
    for event in events:
        while around[-1][1] <= event["from"]:
            around.pop()
        above, end = around[-1][0], min(event["to"], around[-1][1])
        path = (*above, label(event["name"]) if event["cat"] == "python_function" else event["name"])
        ran = max(0, min(end, high) - max(event["from"], low))
        total[path] += ran
        alone[path] += ran
        alone[above] -= ran
        around.append((path, end))
    return {path: (alone[path], ns) for path, ns in total.items() if ns}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["b200_pdl_overlaps_python_stacks", "v100_4streams_nccl_step"])
@pytest.mark.parametrize("part", [(0.0, 1.0), (0.3, 0.45)])
def test_times_are_those_of_the_events_of_a_file(name: str, part: tuple[float, float]) -> None:
    trace = real_trace(name)
    thread, meta = python_thread(trace), trace.meta
    low, high = (meta.start_ns + int((meta.end_ns - meta.start_ns) * share) for share in part)
    events = events_of(name, thread, meta.base_unix_ns)
    has_frames = any(e["cat"] == "python_function" for e in events)
    left_out = {"user_annotation"} if has_frames else set()
    called = [e for e in events if e["cat"] == "python_function"]
    wanted = [
        e
        for e in events
        if e["cat"] not in left_out
        and not e["name"].startswith("ProfilerStep#")
        and (e["cat"] == "python_function" or not any(e["from"] < f["from"] < e["to"] < f["to"] for f in called))
    ]
    assert len(wanted) > 1000
    paths = call_paths(trace, [thread], np.array([[low, high]]))
    assert by_path(paths) == swept(wanted, low, high)


def test_frames_are_inside_those_that_the_file_names_as_their_callers() -> None:
    trace = real_trace("b200_pdl_overlaps_python_stacks")
    thread, meta = python_thread(trace), trace.meta
    events = events_of("b200_pdl_overlaps_python_stacks", thread, meta.base_unix_ns)
    by_id = {e["args"]["Python id"]: e for e in events if e["cat"] == "python_function"}
    expected: Counter[tuple[str, ...]] = Counter()
    for event in by_id.values():
        names, caller = [label(event["name"])], event
        while caller["args"]["Python parent id"] in by_id:
            caller = by_id[caller["args"]["Python parent id"]]
            names.append(label(caller["name"]))
        ran = min(event["to"], meta.end_ns) - max(event["from"], meta.start_ns)
        expected[tuple(reversed(names))] += max(0, ran)
    found: Counter[tuple[str, ...]] = Counter()
    stack: list[CallPath] = []
    for path in call_paths(trace, [thread], np.array([[meta.start_ns, meta.end_ns]])):
        stack[path.depth :] = [path]
        if path.kind in ("frame", "own frame"):
            found[tuple(p.name for p in stack if p.kind in ("frame", "own frame"))] += path.total_ns
    assert found == {names: ns for names, ns in expected.items() if ns}
