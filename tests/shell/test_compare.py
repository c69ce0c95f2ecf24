"""%compare in a shell: names, functions, files, and what is refused."""

from pathlib import Path

import pytest

from .conftest import Notebook

pytestmark = pytest.mark.slow


def test_two_named_results_and_a_saved_one_are_compared(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run("%%bench -o old --time 0.2 -q\nsum(range(200_000))")
    notebook.run("%%bench -o new --time 0.2 -q\nsum(range(200))")
    saved = tmp_path / "before.json"
    saved.write_text(notebook.names["old"].to_json(), "utf-8")
    ran = notebook.run(f"%compare old new {saved} -o result")
    assert ran.error is None
    assert "new is" in ran.report
    result = notebook.names["result"]
    assert [c.name for c in result.comparisons] == ["new", "before"]
    assert result.comparisons[0].verdict == "faster"
    assert notebook.run("import perfmagic\nperfmagic.last() is result").value


def test_functions_are_interleaved(notebook: Notebook) -> None:
    notebook.run("def slow(): sum(range(50_000))\ndef quick(): sum(range(5))")
    ran = notebook.run("c = %compare slow quick --time 0.2")
    assert ran.error is None
    result = notebook.names["c"]
    assert (result.verdict, result.comparisons[0].interleaved) == ("faster", True)


def test_an_invalid_comparison_is_an_error_with_a_hint(notebook: Notebook) -> None:
    assert "at least two are needed" in notebook.run("%compare one").refusal
    assert "there is no variable and no file nothing" in notebook.run("%compare nothing nowhere").refusal
    notebook.run("x = 3")
    assert "x is of type int" in notebook.run("%compare x x").refusal


def test_sweeps_are_compared_value_by_value(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run("%%bench -q -o old --time 0.1 --sweep n=1000,20_000\nsum(range(n * 4))")
    notebook.run("%%bench -q -o new --time 0.1 --sweep n=1000,20_000\nsum(range(n))")
    notebook.names["old"].save(tmp_path / "before.json")
    ran = notebook.run(f"%compare old new {tmp_path}/before.json -o result")
    assert ran.error is None
    result = notebook.names["result"]
    assert [row[0].ratio > 1 for row in result.comparisons] == [True, True]
    assert [benchmark.name for benchmark in result.results[0]] == ["old", "new", "before"]


def test_functions_accept_the_options_that_advice_suggests(notebook: Notebook) -> None:
    notebook.run("def f(): sum(range(9000))\ndef g(): sum(range(9000))")
    notebook.run("%compare f g -r 3 --warmup 3 -o result")
    result = notebook.names["result"]
    assert [benchmark.returns.n for benchmark in result.results] == [3, 3]
    assert "--samples 5 or more" in result.comparisons[0].why
    assert result.results[0].code == "%compare f g -r 3 --warmup 3 -o result"
    late = notebook.run("%compare f g --quantity queued").refusal
    assert "queued is the time of one of several calls" in late
    assert "--calls 50" in late
    assert "--samples 0: at least one sample" in notebook.run("%compare f g -r 0").refusal
    notebook.run("%bench -r 3 -o line 1")
    assert notebook.names["line"].magic == "%%bench"  # its code is the statement alone
    notebook.run("%%bench -q -r 3 -o one\n1\n")
    late = notebook.run("%compare one one --time 5 -n 2").refusal
    assert late.partition("measured; ")[2].startswith("--calls, --time cannot be set any more")


def test_an_exception_in_a_function_shows_the_partial_measurement(notebook: Notebook) -> None:
    notebook.run("n = 0\ndef f(): pass")
    notebook.run("def g():\n    global n\n    n += 1\n    if n == 100: raise ValueError('late')")
    ran = notebook.run("%compare f g --warmup 0 -n 1 -r 400")
    assert isinstance(ran.error, ValueError)
    assert ran.report.count("ended early: ValueError: late (in g)") == 1
    assert notebook.run("print('heard')").printed == "heard\n"


def test_a_mistyped_option_suggests_the_nearest_one(notebook: Notebook) -> None:
    assert "did you mean --warmup?" in notebook.run("%%bench --wramup 3\n1").refusal
    assert "did you mean --quantity?" in notebook.run("%compare a b --quantitiy done").refusal
    assert "did you mean" not in notebook.run("%%bench --xyzzy\n1").refusal
