"""Where a finding says that something was: lines of functions, and who called them."""

from dataclasses import replace

import numpy as np
import pytest

from perfmagic.analysis.findings.finding import on_call_lines, on_sync_lines, on_time_lines
from perfmagic.base.numerics.intervals import Intervals
from perfmagic.trace.model import Trace
from tests.analysis.timeline.test_by_path import MAIN, MS, WORKER, trace_of


def during(*spans_ms: tuple[int, int]) -> Intervals:
    return np.array(spans_ms, np.int64).reshape(-1, 2) * MS


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        (10, 20, " on line 2 of step, called from line 2"),
        (50, 60, " on line 2"),  # the cell's own
        (14, 26, " on line 2 of step and line 3 of step, called from line 2"),
    ],
)
def test_time_in_a_function_is_on_its_lines_and_the_cells_line_called_it(start: int, end: int, words: str) -> None:
    assert on_time_lines(trace_of([(11, MAIN)]), during((start, end)), [2]) == words


def test_the_line_of_a_call_is_that_of_its_own_thread() -> None:
    trace = trace_of([(13, WORKER)])
    assert on_call_lines(trace, np.array([0])) == " on line 11 of work, called from line 2"


def test_without_functions_the_cells_lines_are_named() -> None:
    trace = replace(trace_of([(11, MAIN)]), paths=None)
    assert on_time_lines(trace, during((10, 20)), [2, 4]) == " on lines 2 and 4"
    assert on_call_lines(trace, np.array([0])) == " on line 2"


def test_time_that_is_spread_names_the_line_that_called_it() -> None:
    trace = spread(trace_of([(11, MAIN)]))
    # eight lines of step an eighth each, all called from line 3
    assert on_time_lines(trace, during((10, 18)), [2]) == " mostly on line 3 of step, called from line 2"


def spread(trace: Trace) -> Trace:
    """The same, but from 10 ms to 18 on as many lines of `work`, which line 3 of `step` called."""
    known = trace.paths
    rows = np.arange(8, dtype=np.int32)
    at = np.concatenate(([0], 10 + rows, [18])) * MS
    path = np.concatenate(([1], len(known) + rows, [1]))
    return replace(
        trace,
        paths=replace(
            known,
            parent=np.concatenate((known.parent, np.full(8, 3, np.int32))),
            function=np.concatenate((known.function, np.full(8, 2, np.int32))),
            line=np.concatenate((known.line, 20 + rows)),
            marks=known.marks.make({"at_ns": at, "thread": np.full(10, MAIN), "path": path}),
        ),
    )


def test_a_hot_loop_is_named_by_its_function() -> None:
    trace = trace_of([(11, MAIN)])
    trace = replace(trace, paths=replace(trace.paths, unfollowed=(1,)))
    assert on_time_lines(trace, during((10, 20)), [2]) == " on lines of step, called from line 2"


def test_no_blocking_call_is_nowhere() -> None:
    trace = trace_of([(11, MAIN)])
    assert on_sync_lines(trace, np.zeros(0, np.int64)) == ""
