"""Marks: which statement was running when."""

import ast
import builtins

import pytest

from perfmagic.capture.cell import RUNTIME, MarkLog, marked


class _Clock:
    """Ticks by one at every reading."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        self.now += 1
        return self.now


@pytest.fixture
def run(monkeypatch):
    """Runs marked source and gives the (line, top line) pairs in order, and the names it bound."""

    def _run(source, **options):
        log = MarkLog(_Clock(), **options)
        monkeypatch.setattr(builtins, RUNTIME, log, raising=False)
        tree = ast.parse(source)
        module = ast.fix_missing_locations(ast.Module(marked(tree.body), []))
        names = {}
        exec(compile(module, "<cell>", "exec"), names)
        columns = log.columns(0, 10**9)
        return list(zip(columns["line"].tolist(), columns["top_line"].tolist(), strict=True)), names

    return _run


def test_every_top_level_statement_is_marked_with_its_line(run):
    marks, _ = run("a = 1\n\nb = 2\n")
    assert marks == [(1, 1), (3, 3), (0, 0)]


def test_statements_inside_a_loop_keep_their_own_line_and_the_loop_as_top(run):
    marks, names = run("for i in range(2):\n    a = i\n    b = i\nc = 3\n")
    round_ = [(2, 1), (3, 1), (1, 1)]  # the header is marked again: it fetches the next item
    assert marks == [(1, 1), *round_, *round_, (4, 4), (0, 0)]
    assert names["c"] == 3


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("if True:\n    a = 1\nelse:\n    b = 2\n", [1, 2]),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    a = 1\nfinally:\n    b = 2\n", [1, 2, 4, 6]),
        ("import contextlib\nwith contextlib.nullcontext():\n    a = 1\n", [1, 2, 3]),
        ("match 2:\n    case 2:\n        a = 1\n", [1, 3]),
        ("n = 1\nwhile n:\n    n -= 1\n", [1, 2, 3, 2]),
    ],
)
def test_blocks_are_marked_inside(run, source, lines):
    marks, _ = run(source)
    assert [line for line, _ in marks] == [*lines, 0]


def test_functions_classes_and_lambdas_carry_no_marks_so_they_can_outlive_the_cell(run):
    source = "def f():\n    x = 1\n    return x\nclass C:\n    y = 2\ng = lambda: 3\n"
    marks, names = run(source)
    assert [line for line, _ in marks] == [1, 4, 6, 0]
    setattr(builtins, RUNTIME, None)  # a mark left behind would raise now
    assert (names["f"](), names["C"].y, names["g"]()) == (1, 2, 3)


def test_after_the_limit_inner_marks_fall_back_to_the_statement_they_belong_to(run):
    marks, _ = run("for i in range(50):\n    a = i\n    b = i\nc = 1\n", inner_limit=4)
    assert marks[:5] == [(1, 1), (2, 1), (3, 1), (1, 1), (2, 1)]
    assert marks[5:] == [(1, 1), (4, 4), (0, 0)]


def test_marks_are_shifted_and_closed():
    log = MarkLog(_Clock())
    log.mark(2)
    columns = log.columns(100, 500)
    assert columns["at_ns"].tolist() == [101, 500]
    assert columns["line"].tolist() == [2, 0]


def test_no_marks_give_empty_columns():
    assert MarkLog().columns(0, 5)["at_ns"].tolist() == []
