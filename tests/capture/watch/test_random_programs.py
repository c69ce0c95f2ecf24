"""Random programs: every launch has the chain that is on the stack, every op counts once, and rows add up."""

import random
import re
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from perfmagic.analysis.timeline.lines import LineStat, function_lines, lines
from perfmagic.capture.watch.watch import LineWatch
from perfmagic.trace.columns import CallKind, OpKind
from perfmagic.trace.model import Cell, Trace, TraceMeta, make_trace
from perfmagic.trace.paths import Paths
from tests.capture.watch.generated import program
from tests.capture.watch.programs import compiled, is_of_cell
from tests.capture.watch.random_programs import N_PROGRAMS, Launches, names_of
from tests.capture.watch.test_exact import NEWER, followed, interpreters

pytestmark = pytest.mark.slow

CELL_BEGINS = 1000


def check(results: dict[str, Any]) -> None:
    assert results["launches"] > 10 * N_PROGRAMS
    assert results["wrong"] == {}
    assert results["left"] == []


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="lines are followed by sys.monitoring")
def test_by_settrace_here() -> None:
    check(followed(Path(sys.executable), "settrace", "random_programs.py"))


@pytest.mark.parametrize("kind", ["monitoring", "settrace"])
def test_on_every_newer_python_at_hand(kind: str) -> None:
    pythons = interpreters()
    if not pythons:
        warnings.warn(f"no Python {' or '.join(NEWER)} at hand: lines by sys.monitoring were not tested", stacklevel=1)
    for python in pythons.values():
        check(followed(python, kind, "random_programs.py"))


def recorded(functions: str, cell: str) -> tuple[Trace, Launches]:
    """A trace of a program: each launch an op of 10 ns, 5 ns after it; marks are the cell's own lines."""
    truth, watch = Launches(), LineWatch()
    names = names_of(functions, truth) | {"begin": watch.acquire, "end": watch.give_back}
    watch._user_code = is_of_cell  # the launches themselves, here in the tests, are nobody's
    text = cell_text(cell)
    try:
        exec(compiled("cell", text), names)
    finally:
        watch.give_back()
    paths = watch.paths(0, has_cell=True)
    at = np.array([launch[0] for launch in truth.launches], np.int64)
    own = paths.by_thread[paths.main_thread]
    trace = make_trace(
        ("kernel", "launch"),
        TraceMeta("cell", start_ns=int(own.at_ns[0]), end_ns=int(own.at_ns[-1]), returned_ns=int(own.at_ns[-1])),
        ops={
            "start_ns": at + 5,
            "end_ns": at + 15,
            "kind": [OpKind.KERNEL] * len(at),
            "name": [0] * len(at),
            "correlation": range(len(at)),
        },
        calls={
            "start_ns": at,
            "end_ns": at + 1,
            "kind": [CallKind.LAUNCH] * len(at),
            "name": [1] * len(at),
            "thread": [launch[1] for launch in truth.launches],
            "correlation": range(len(at)),
        },
        marks=marks_of(paths),
        cell=Cell(text),
        paths=paths,
    )
    return trace, truth


def marks_of(paths: Paths) -> dict[str, Any]:
    """What marks in the cell's statements would have noted."""
    own = paths.by_thread[paths.main_thread]
    line = paths.cell_line[own.path]
    return {"at_ns": own.at_ns, "line": line, "top_line": line}


RANDOM = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[
        Phase.explicit,
        Phase.reuse,
        Phase.generate,
        Phase.shrink,
    ],  # Phase.explain sets a trace function of its own
)
CONTINUED = re.compile(r"\s*(f\d\(n - 1\),|launch\(\)\))$")  # later lines of a statement over three


def places(functions: str, cell: str, truth: Launches) -> list[Counter[tuple[str, int]]]:
    """Of each launch, how often a function's statement was on its stack."""
    text = (functions.split("\n"), (cell_text(cell)).split("\n"))

    def first_line(line: int) -> int:
        lines = text[line > CELL_BEGINS]
        while CONTINUED.match(lines[line - 1]):
            line -= 1
        return line

    return [Counter((name, first_line(line)) for name, line in chain) for _, _, chain in truth.launches]


@RANDOM
@given(choose=st.randoms(use_true_random=False))
def test_rows_are_the_launches_that_had_the_line_on_their_stack(choose: random.Random) -> None:
    """A launch counts once in each line on its stack, recursion or not, and once among the lines of the cell."""
    texts = program(choose, threads=False)
    trace, truth = recorded(*texts)
    expected = Counter(place for launch in places(*texts, truth) for place in launch)
    of_cell = {("<module>", row.line): row for row in lines(trace)}
    rows = {(name_of(row), row.line): row for row in function_lines(trace)} | of_cell
    assert {place: row.n_ops for place, row in rows.items() if row.n_ops} == dict(expected)
    assert {place: row.device_ns for place, row in rows.items()} == {p: 10 * row.n_ops for p, row in rows.items()}
    assert sum(row.n_ops for row in of_cell.values()) == len(truth.launches) == len(trace.ops)


@RANDOM
@given(choose=st.randoms(use_true_random=False))
def test_the_rows_of_a_function_add_up_to_its_calls(choose: random.Random) -> None:
    """Of functions that called themselves nowhere: else an op counts in a row of each of their calls."""
    texts = program(choose, threads=False)
    trace, truth = recorded(*texts)
    launches = [Counter(name for name, _ in launch.elements()) for launch in places(*texts, truth)]
    calls = Counter(name for launch in launches for name in launch)
    recursive = {name for launch in launches for name, n in launch.items() if n > 1}
    n_ops: Counter[str] = Counter()
    for row in function_lines(trace):
        n_ops[name_of(row)] += row.n_ops
    plain = set(calls) - recursive - {"<module>"}
    assert {name: n_ops[name] for name in plain} == {name: calls[name] for name in plain}


def name_of(row: LineStat) -> str:
    return row.function.rpartition(".")[2]


def cell_text(cell: str) -> str:
    """Far below the functions' lines, so that a line alone says whose it is."""
    return "\n" * CELL_BEGINS + f"begin()\n{cell}end()\n"
