"""Calls with their paths: what they add up to in any time is what call_paths() says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest

from perfmagic.analysis.timeline.flame.call_paths import THREAD, EveryCall, call_paths, every_call, recorded_threads
from perfmagic.trace.columns import HostKind
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder
from tests.trace.recorded import real_trace
from tests.view.timeline.lines.build import with_backward

ALL = 10**9
Rows = Counter[tuple[tuple[str, ...], int, int]]


def names_of(calls: EveryCall) -> list[tuple[str, ...]]:
    """Of each path the names from its thread down to itself."""
    names: list[tuple[str, ...]] = []
    for above, label in zip(calls.parent.tolist(), calls.label.tolist(), strict=True):
        names.append((*(names[above] if above >= 0 else ()), calls.labels[label][0]))
    return names


def added_up(trace: Trace, calls: EveryCall, start_ns: int, end_ns: int) -> Rows:
    """Of each path that ran in a window its names, how often it ran, and how long."""
    host = trace.host_ops
    path = np.append(calls.path, calls.frame_path)
    starts = np.append(host.start_ns, calls.start_ns)
    ran = np.minimum(np.append(host.end_ns - calls.early_ns, calls.end_ns), end_ns) - np.maximum(starts, start_ns)
    counts = (path >= 0) & (ran > 0)
    n_calls, total = np.zeros(len(calls.parent), np.int64), np.zeros(len(calls.parent), np.int64)
    np.add.at(n_calls, path[counts], 1)
    np.add.at(total, path[counts], ran[counts])
    rows = zip(names_of(calls), n_calls.tolist(), total.tolist(), strict=True)
    return Counter((names, n, ns) for names, n, ns in rows if ns)


def as_asked(trace: Trace, start_ns: int, end_ns: int) -> Rows:
    """The same from call_paths()."""
    rows: Rows = Counter()
    stack: list[str] = []
    for path in call_paths(trace, recorded_threads(trace), np.array([[start_ns, end_ns]])):
        stack[path.depth :] = [path.name]
        if path.kind != THREAD:
            rows[tuple(stack), path.n_calls, path.total_ns] += 1
    return rows


@pytest.mark.parametrize(
    "name",
    ["b200_pdl_overlaps_python_stacks", "h100_qwen_orphans", "mi300_resnet_2streams", "v100_2021_old_categories"],
)
def test_every_call_of_a_recorded_trace_adds_up_to_its_flame_graphs(name: str) -> None:
    trace = real_trace(name)
    calls = every_call(trace, ALL)
    start, end = trace.meta.start_ns, trace.meta.end_ns
    windows: Iterable[tuple[int, int]] = [(start, end), *((start + (end - start) * n // 9, end) for n in (3, 8))]
    for window in windows:
        assert added_up(trace, calls, *window) == as_asked(trace, *window) != Counter()
    assert calls.left_out_ns == 0


def test_lines_that_were_followed_are_calls() -> None:
    trace = with_backward()
    calls = every_call(trace, ALL)
    assert {kind for _, kind in calls.labels} == {"thread", "line"}
    window = trace.meta.start_ns, trace.meta.end_ns
    assert added_up(trace, calls, *window) == as_asked(trace, *window) != Counter()


def nested_frames() -> Trace:
    b = Builder()
    b.host_op(0, 100, "run.py(1): main", kind=HostKind.PYTHON)
    b.host_op(10, 30, "lib.py(7): step", kind=HostKind.PYTHON)
    b.host_op(12, 16, "lib.py(9): short", kind=HostKind.PYTHON)
    b.host_op(13, 15, "aten::mm")
    return b.trace()


def test_of_too_many_frames_the_shortest_are_left_out_and_what_they_called_is_their_caller_s() -> None:
    trace = nested_frames()
    assert every_call(trace, 3).left_out_ns == 0
    calls = every_call(trace, 2)
    assert calls.left_out_ns == 4 * US
    main, step = "main (run.py:1)", "step (lib.py:7)"
    assert added_up(trace, calls, 0, 200 * US) == Counter(
        {
            (("main thread", main), 1, 100 * US): 1,
            (("main thread", main, step), 1, 20 * US): 1,
            (("main thread", main, step, "aten::mm"), 1, 2 * US): 1,
        }
    )


def test_a_call_that_ends_after_the_one_around_it_stops_counting_with_it() -> None:
    b = Builder()
    b.host_op(0, 10, "outer")
    b.host_op(4, 12, "inner")
    trace = b.trace()
    calls = every_call(trace, ALL)
    assert calls.early_ns.tolist() == [0, 2 * US]
    assert added_up(trace, calls, 0, 20 * US) == as_asked(trace, 0, 20 * US)


def test_a_trace_of_which_nothing_was_recorded_on_the_host_has_no_paths() -> None:
    assert len(every_call(Builder().trace(), ALL).parent) == 0
