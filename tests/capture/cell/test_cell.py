"""The head and the body of a measured cell, as pure transformations."""

import ast

import pytest

from perfmagic.capture.cell import Head, call_instead, head_of, replace_head, wrap

NAMES = ("timeline", "bench")


def _tree(text):
    lines = replace_head(text.splitlines(keepends=True), NAMES)
    return ast.parse("".join(lines))


def test_the_head_becomes_a_literal_on_its_own_line():
    assert replace_head(["%%bench -r 5\n", "x = 1\n"], NAMES) == ["'%%bench -r 5'\n", "x = 1\n"]


def test_blank_lines_above_stay_so_that_line_numbers_do():
    assert replace_head(["\n", "  \n", "%%timeline\n", "x\n"], NAMES) == ["\n", "  \n", "'%%timeline'\n", "x\n"]


@pytest.mark.parametrize(
    "text", ["x = 1\n", "%%time\nx\n", "%%benchmark\nx\n", "%bench x\n", "s = '''\n%%bench\n'''\n"]
)
def test_other_cells_are_untouched(text):
    lines = text.splitlines(keepends=True)
    assert replace_head(lines, NAMES) == lines


def test_transforming_twice_changes_nothing_more():
    once = replace_head(["%%bench\n", "x\n"], NAMES)
    assert replace_head(once, NAMES) == once


def test_quotes_and_chinese_in_the_options_survive():
    head = head_of(_tree("%%bench --name \"第一 '次'\"\nx"), NAMES)
    assert head == Head("bench", "--name \"第一 '次'\"")


def test_a_second_cell_magic_is_refused_and_nothing_else_runs():
    lines = replace_head(["%%timeline\n", "%%bench -r 3\n", "x = 1\n"], NAMES)
    assert lines == ["__perfmagic__.refuse_stacked('timeline', '%%bench')\n"]


def test_a_docstring_is_no_head():
    assert head_of(ast.parse("'just text'\nx = 1"), NAMES) is None


@pytest.mark.parametrize("variants", [False, True])
def test_what_libraries_hang_onto_nodes_is_not_copied(variants):
    class Huge:
        """The tree of a whole file, as a traceback's printer hangs it onto a context that all trees share."""

        def __deepcopy__(self, _memo):
            raise AssertionError("copied")

    tree = _tree("%%bench\ny = x\n'# --- B'\nz = x")
    context = tree.body[1].value.ctx
    context.parent = Huge()
    try:
        wrap(tree, repeated=True, variants=variants)
    finally:
        del context.parent


class _Runtime:
    """Stands in for the real runtime: three rounds of a repeated body."""

    value = None

    def cell(self, _literal):
        return self

    def released(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        return False

    def mark(self, *_lines):
        pass

    inner = display = mark

    def ran(self, value):
        return value

    def first(self):
        yield ()

    passes = 2

    def more(self):
        self.passes -= 1
        return self.passes >= 0

    def repetitions(self, which):
        assert which == 0
        yield ()

    def take(self):
        self.taken = self.value


def _run(text, **options):
    runtime = _Runtime()
    names = {"__perfmagic__": runtime}
    exec(compile(wrap(_tree(text), **options), "<cell>", "exec"), names)
    return runtime, names


@pytest.mark.parametrize(("repeated", "runs"), [(False, 1), (True, 3)])
def test_the_body_runs_as_often_as_asked_and_the_first_value_counts(repeated, runs):
    runtime, names = _run("%%bench\nn = globals().get('n', 0) + 1\nn * 10", repeated=repeated)
    assert names["n"] == runs
    assert runtime.taken == 10


def test_a_body_without_a_last_value_shows_none():
    runtime, _ = _run("%%bench\nn = 1", repeated=True)
    assert not hasattr(runtime, "taken")


def test_an_assignment_is_shown_under_last_expr_or_assign():
    runtime, _ = _run("%%bench\nn = 7", repeated=True, interactivity="last_expr_or_assign")
    assert runtime.taken == 7


def test_future_imports_stay_first():
    tree = wrap(_tree("%%timeline\nfrom __future__ import annotations\nx: 未定义 = 1"), repeated=False)
    assert isinstance(tree.body[0], ast.ImportFrom)
    exec(compile(tree, "<cell>", "exec"), {"__perfmagic__": _Runtime()})


@pytest.mark.parametrize("jump", ["break", "continue", "return 1", "yield 1"])
def test_a_jump_that_is_illegal_in_a_cell_stays_illegal(jump):
    with pytest.raises(SyntaxError):
        wrap(_tree(f"%%bench\n{jump}"), repeated=True)


def test_every_node_keeps_the_users_line():
    tree = wrap(_tree("%%bench\nx = 1\n\ny = 1 / 0"), repeated=True)
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile(tree, "<cell>", "exec"), {"__perfmagic__": _Runtime()})
    assert caught.traceback[-1].lineno + 1 == 4


def test_a_cell_that_cannot_be_measured_becomes_a_call_with_the_message():
    assert ast.unparse(call_instead(_tree("%%bench\nx"), "no")) == "__perfmagic__.refuse('no')"
