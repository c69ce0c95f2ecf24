"""Time and ops charged to the lines of functions: by a trace made by hand, where every number is known."""

from dataclasses import replace

import numpy as np

from perfmagic.analysis.timeline.lines import function_lines, lines
from perfmagic.trace.columns import CallKind, OpKind, PathMarks
from perfmagic.trace.model import Cell, Trace, TraceMeta, make_trace
from perfmagic.trace.paths import Paths, UserFunction

MS = 1_000_000
MAIN, AUTOGRAD, WORKER = 7, 8, 9
CELL = UserFunction("<module>", "In[1]", 1, is_cell=True)
STEP = UserFunction("step", "In[0]", 1, ((1, "def step(n):"), (2, "    y = x @ x"), (3, "    step(n - 1)")))
WORK = UserFunction("work", "util.py", 10, ((11, "    z = x + 1"),))

# path 1: cell line 2; 2: step line 2 from there; 3: step line 3; 4: step line 2, one call deeper; 5: work line 11
PARENT, FUNCTION, LINE = [0, 0, 1, 1, 3, 1], [-1, 0, 1, 1, 1, 2], [0, 2, 2, 3, 2, 11]


def trace_of(launches: list[tuple[int, int]], *, until_ms: int = 100) -> Trace:
    """Launches as (at ms, thread), each of an op of 2 ms.

    Main is on cell line 2 from 0, in step line 2 from 10, line 3 from 20, line 2 again from 30, back in the cell at 40.
    The worker is in work line 11 from 12 to 18.
    """
    marks = [(0, MAIN, 1), (10, MAIN, 2), (20, MAIN, 3), (30, MAIN, 4), (40, MAIN, 1), (12, WORKER, 5), (18, WORKER, 0)]
    at, thread, path = (np.array(column) for column in zip(*marks, strict=True))
    start = np.array([ms for ms, _ in launches]) * MS
    return make_trace(
        ("kernel", "launch"),
        TraceMeta("cell", end_ns=until_ms * MS, returned_ns=until_ms * MS),
        ops={
            "start_ns": start + MS,
            "end_ns": start + 3 * MS,
            "kind": [OpKind.KERNEL] * len(launches),
            "name": [0] * len(launches),
            "correlation": range(len(launches)),
        },
        calls={
            "start_ns": start,
            "end_ns": start + 1000,
            "kind": [CallKind.LAUNCH] * len(launches),
            "name": [1] * len(launches),
            "thread": [thread for _, thread in launches],
            "correlation": range(len(launches)),
        },
        marks={"at_ns": [0], "line": [2], "top_line": [2]},
        cell=Cell("%%timeline\nstep(1)"),
        paths=Paths(
            parent=np.array(PARENT, np.int32),
            function=np.array(FUNCTION, np.int32),
            line=np.array(LINE, np.int32),
            functions=(CELL, STEP, WORK),
            marks=PathMarks.make({"at_ns": at * MS, "thread": thread, "path": path}),
            main_thread=MAIN,
        ),
    )


def stats(trace: Trace) -> dict[tuple[str, int], tuple[int, int, int]]:
    """Of each line of a function: ms in Python, ops, ms of the device."""
    return {(s.function, s.line): (s.host_ns // MS, s.n_ops, s.device_ns // MS) for s in function_lines(trace)}


def test_a_line_counts_what_it_called_and_a_recursion_once() -> None:
    found = stats(trace_of([(5, MAIN), (11, MAIN), (31, MAIN)]))
    # line 3 was on the stack from 20 to 40, also while the deeper call was on line 2
    assert found == {("step", 2): (20, 2, 4), ("step", 3): (20, 1, 2), ("work", 11): (6, 0, 0)}


def test_an_op_belongs_to_the_thread_that_queued_it() -> None:
    found = stats(trace_of([(13, WORKER)]))
    assert found[("work", 11)] == (6, 1, 2)
    assert found[("step", 2)][1] == 0  # where the cell's own thread was at that time


def test_a_thread_without_a_line_counts_to_the_one_that_ran_the_cell() -> None:
    assert stats(trace_of([(35, AUTOGRAD)]))[("step", 2)][1] == 1
    assert stats(trace_of([(25, WORKER)]))[("step", 3)][1] == 1  # the worker had left its function


def test_the_cells_line_has_all_that_its_functions_have() -> None:
    trace = trace_of([(11, MAIN), (13, WORKER), (35, AUTOGRAD), (50, MAIN)])
    (line,) = lines(trace)
    assert (line.line, line.n_ops, line.device_ns) == (2, 4, 8 * MS)


def test_lines_have_their_texts_and_files() -> None:
    found = function_lines(trace_of([]))
    assert [(s.text, s.file) for s in found] == [
        ("y = x @ x", "In[0]"),
        ("step(n - 1)", "In[0]"),
        ("z = x + 1", "util.py"),
    ]


def test_what_came_after_the_log_was_full_counts_to_no_function() -> None:
    trace = trace_of([(11, MAIN), (31, MAIN)])
    found = stats(replace(trace, paths=replace(trace.paths, until_ns=25 * MS)))
    assert found[("step", 2)] == (10, 1, 2)
    assert found[("step", 3)] == (5, 0, 0)


def test_no_line_is_charged_where_no_thread_could_be_followed() -> None:
    trace = trace_of([(5, MAIN)])
    assert trace.paths is not None
    marks = PathMarks.make()
    unfollowed = replace(trace, paths=replace(trace.paths, marks=marks))
    assert [row for row in function_lines(unfollowed) if row.blocked_ns] == []
