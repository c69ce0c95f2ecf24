"""What goes wrong in a cell is the user's error at the user's line, and what was measured before it is shown."""

import re

import pytest

from .conftest import Notebook

pytestmark = [pytest.mark.slow, pytest.mark.floor]

FAILING = "def f():\n    raise ValueError('boom')\nx = 1\nf()"


def test_an_exception_ends_the_cell(notebook: Notebook, head: str) -> None:
    ran = notebook.run(f"{head}\n{FAILING}")
    assert isinstance(ran.error, ValueError)
    assert notebook.names["x"] == 1


@pytest.mark.parametrize("kind", ["timeline", "bench", "graph"])
def test_an_operator_that_fails_on_the_device_shows_no_perfmagic_frame(notebook: Notebook, kind: str) -> None:
    pytest.importorskip("torch")
    notebook.run("import torch, perfmagic\nd = perfmagic.device('sim')\nx = torch.ones(3, device=d)")
    ran = notebook.run(f"%%{kind}\nx @ torch.ones(4, device=d)")
    assert isinstance(ran.error, RuntimeError)
    assert "x @ torch.ones(4, device=d)" in ran.traceback
    assert "perfmagic/" not in ran.traceback


def test_the_traceback_shows_the_users_line_and_no_perfmagic_frame(notebook: Notebook, head: str) -> None:
    shown = notebook.run(f"{head}\n{FAILING}").traceback
    assert "f()" in shown
    assert "raise ValueError('boom')" in shown
    assert "ValueError: boom" in shown
    for trace_of_ours in ("perfmagic", "\x02", "\\x02"):
        assert trace_of_ours not in shown


def test_the_traceback_has_the_editors_line_numbers(notebook: Notebook, head: str) -> None:
    error = notebook.run(f"{head}\nx = 1\n\n1 / 0").error
    assert error is not None
    lines = []
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_name == "<module>":
            lines.append(frame.tb_lineno)
        frame = frame.tb_next
    assert lines == [4]


def test_what_was_measured_before_the_failure_is_shown(notebook: Notebook, head: str) -> None:
    ran = notebook.run(f"{head}\n{FAILING}")
    assert len(ran.outputs) == 1
    assert "ValueError" in ran.report


def test_a_benchmark_that_fails_late_keeps_its_samples(notebook: Notebook) -> None:
    notebook.run("n = 0")
    ran = notebook.run("%%bench -r 50 --time 1 -o result\nn += 1\nif n == 12: raise ValueError('late')")
    assert isinstance(ran.error, ValueError)
    assert "ValueError: late" in ran.report
    assert notebook.names["n"] == 12
    assert notebook.names["result"] is not None


def test_the_exceptions_context_is_the_users(notebook: Notebook, head: str) -> None:
    error = notebook.run(
        f"{head}\ntry:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e"
    ).error
    assert isinstance(error, KeyError)
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_an_interrupt_raised_in_the_cell_is_passed_on(notebook: Notebook, head: str) -> None:
    ran = notebook.run(f"{head}\nx = 1\nraise KeyboardInterrupt")
    assert isinstance(ran.error, KeyboardInterrupt)
    assert re.search("KeyboardInterrupt|interrupted", ran.report)


def test_sys_exit_does_what_it_does_in_a_plain_cell(notebook: Notebook, head: str) -> None:
    plain = notebook.run("import sys\nsys.exit(3)")
    ran = notebook.run(f"{head}\nimport sys\nx = 1\nsys.exit(3)")
    assert type(ran.error) is type(plain.error) is SystemExit
    assert ran.error.code == 3
    assert len(ran.outputs) == 1
    assert notebook.run("x").value == 1


@pytest.mark.parametrize("body", ["x = = 1", "for i in range(3)\n    pass", "x = (1,", "x = 'open"])
def test_a_syntax_error_is_that_of_the_plain_cell(notebook: Notebook, head: str, body: str) -> None:
    plain = notebook.run(f"'head'\n{body}").error
    ran = notebook.run(f"{head}\n{body}")
    assert type(ran.error) is type(plain)
    assert (ran.error.msg, ran.error.lineno) == (plain.msg, plain.lineno)
    assert "perfmagic" not in ran.traceback
    assert ran.outputs == []


@pytest.mark.parametrize("body", ["break", "continue", "x = 1\nif x:\n    break", "return 5"])
def test_a_loose_jump_stays_a_syntax_error(notebook: Notebook, head: str, body: str) -> None:
    ran = notebook.run(f"{head}\n{body}")
    assert isinstance(ran.error, SyntaxError)
    assert ran.outputs == []


@pytest.mark.parametrize("body", ["", "\n\n", "\n# only a comment"])
def test_an_empty_cell_is_one_clear_error(notebook: Notebook, head: str, body: str) -> None:
    ran = notebook.run(f"{head}{body}")
    assert "empty" in ran.refusal
    assert ran.refusal.count("\n") <= 1


def test_a_nested_measurement_of_the_same_kind_keeps_both(notebook: Notebook) -> None:
    ran = notebook.run(
        "%%timeline -o outer\nget_ipython().run_cell_magic('bench', '-r 6 --warmup 0 -o inner', 'x = 1')\ny = 2"
    )
    assert ran.error is None or "measur" in str(ran.error)  # measured inside, or refused in words
    assert notebook.run("1 + 1").outputs == []


def test_threads_that_outlive_the_cell_do_no_harm(notebook: Notebook, head: str) -> None:
    notebook.run("import threading, time\nstop = threading.Event()\nthreads = []")
    ran = notebook.run(f"{head}\nt = threading.Thread(target=stop.wait)\nt.start()\nthreads.append(t)\nt.is_alive()")
    assert ran.value is True
    notebook.run("stop.set()\nfor t in threads: t.join()")
    assert notebook.run("any(t.is_alive() for t in threads)").value is False


def test_a_cell_that_forks_goes_on_in_the_parent_alone(notebook: Notebook, head: str) -> None:
    notebook.run("import os")
    ran = notebook.run(f"{head}\npid = os.fork()\nif pid == 0: os._exit(7)\ncode = os.waitpid(pid, 0)[1] >> 8\ncode")
    assert ran.value == 7
    assert len(ran.outputs) == 1


def test_a_magic_below_the_first_line_says_where_it_belongs(notebook: Notebook, head: str) -> None:
    ran = notebook.run(f"# a comment\n{head}\nx = 1")
    assert "must be the first line of its cell" in ran.refusal
    assert "x" not in notebook.names


def test_errors_of_two_stacked_magics_do_not_contradict_each_other(notebook: Notebook, head: str) -> None:
    for other in ("%%bench", "%%timeline"):
        ran = notebook.run(f"{head}\n{other}\nx = 1")
        assert "Measure one thing a cell" in ran.refusal
        assert other in ran.refusal
        assert "above" not in ran.refusal
        assert "x" not in notebook.names


def test_out_of_memory_in_the_cell_is_the_users_error(notebook: Notebook, head: str) -> None:
    notebook.run("import torch")
    ran = notebook.run(f"{head}\nx = torch.empty(10**15)")
    assert isinstance(ran.error, RuntimeError)
    assert "allocate" in ran.report
    assert notebook.run(f"{head}\ny = 2").error is None
