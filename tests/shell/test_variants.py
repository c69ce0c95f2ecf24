"""--vs, --sweep and the options that say how to measure, in a shell."""

import re

import pytest

from perfmagic.analysis.bench.compare import CompareSummary
from perfmagic.analysis.bench.result import BenchSummary
from perfmagic.analysis.bench.sweep import SweepSummary

from .conftest import Notebook

pytestmark = pytest.mark.slow


QUICK = "-r 8 --warmup 0"


@pytest.mark.parametrize("name", ["bench", "syncbench"])
def test_variants_are_interleaved_and_the_last_ones_value_is_shown(notebook: Notebook, name: str) -> None:
    notebook.run("order = ''")
    ran = notebook.run(f"%%{name} --vs {QUICK} -n 1 -o c\norder += 'a'\n# --- other\norder += 'b'\nlen(order)")
    assert ran.error is None
    assert ran.value == 2  # of the first run of the last variant, as the plain cell would give
    assert isinstance(notebook.names["c"], CompareSummary)
    assert [r.name for r in notebook.names["c"].results] == ["A", "other"]
    # first calls, then turns; %%syncbench without a device has nothing to add. Then one call of each, for what goes on,
    # and three of each, as both change what lies around them
    assert re.fullmatch("ab(abba|baab){4}baaaabbb", notebook.names["order"])


def test_three_variants_are_compared_with_the_first_under_their_names(notebook: Notebook) -> None:
    cell = f"%%bench --vs {QUICK} -n 1 -o c\n# --- sum\nsum(range(2000))\n# --- len\nlen(range(2000))\n#-----\nx = 1"
    ran = notebook.run(cell)
    result = notebook.names["c"]
    assert [(c.baseline, c.name) for c in result.comparisons] == [("sum", "len"), ("sum", "C")]
    assert all(" ".join(c.headline.split()) in " ".join(ran.report.split()) for c in result.comparisons)
    assert notebook.names["x"] == 1


def test_the_output_of_each_variant_is_shown_once(notebook: Notebook) -> None:
    ran = notebook.run(f"%%bench --vs {QUICK}\nprint('first')\n# --- B\nprint('second')")
    assert ran.printed.split() == ["first", "second"]


def test_an_exception_of_a_variant_has_its_own_line_and_keeps_the_samples(notebook: Notebook) -> None:
    notebook.run("n = 0")
    ran = notebook.run(f"%%bench --vs {QUICK} -n 1 -o c\nn += 1\n# --- B\nif n > 6:\n    raise ValueError('late')")
    assert isinstance(ran.error, ValueError)
    assert "----> 5     raise ValueError('late')" in ran.traceback
    assert min(r.returns.n for r in notebook.names["c"].results) >= 4
    assert ran.report.count("ended early: ValueError: late (in B)") == 1


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("%%bench --vs\nx = 1", "the cell has one variant"),
        ("%%bench --vs\nx = 1\n# --- B\n# --- C\ny = 1", "variant 2 of 3 has no code"),
        ("%%bench --vs --runs 3\nx = 1\n# --- B\ny = 1", "interleaved benchmarks are one run"),
        ("%bench --vs x = 1", "a line has one statement"),
        ("%%bench --sweep n=1\nx = n", "1 value, at least two are needed"),
        ("%%bench --sweep n=1,nothing\nx = n", "NameError: name 'nothing' is not defined"),
        ("%%bench --cold -n 10\nx = 1", "only the first call of a sample would find cold caches"),
        ("%%bench --setup-each -n 10 y = 1\nx = y", "only the first call of a sample would find what it sets up"),
        ("%%bench --rel 0\nx = 1", "0 is not between 0 and 100 %"),
        ("%%bench --sweep n=iter(int,1)\nx = n", "more than 1,000 values"),
    ],
)
def test_invalid_options_are_rejected_before_anything_runs(notebook: Notebook, cell: str, says: str) -> None:
    ran = notebook.run(cell)
    assert says in ran.refusal
    assert not {"x", "y"} & set(notebook.names)


def test_a_separator_without_vs_is_a_comment(notebook: Notebook) -> None:
    ran = notebook.run(f"%%bench {QUICK} -o b\nx = 1\n# --- B\ny = 2")
    assert isinstance(notebook.names["b"], BenchSummary)
    assert ran.error is None


def test_a_break_between_variants_is_the_plain_cells_syntax_error(notebook: Notebook) -> None:
    ran = notebook.run("%%bench --vs\nx = 1\n# --- B\nbreak")
    assert isinstance(ran.error, SyntaxError)


def test_a_sweep_sets_the_variable_and_runs_the_setup_for_each_value(notebook: Notebook) -> None:
    notebook.run("seen = []")
    cell = f"%%bench {QUICK} --sweep n=100,10_000,1_000_000 -n 1 -o s seen.append(n); data = list(range(n))\nsum(data)"
    ran = notebook.run(cell)
    result = notebook.names["s"]
    assert isinstance(result, SweepSummary)
    assert notebook.names["seen"] == [100, 10_000, 1_000_000]
    assert result.values == (100, 10_000, 1_000_000)
    times = [point.returns_s for point in result.points]
    assert times[0] < times[1] < times[2]
    assert ran.value == sum(range(100))
    assert "grows" in ran.report
    assert notebook.names["n"] == 1_000_000  # as a for loop leaves it


@pytest.mark.parametrize("values", ["2**k for k in range(3)", "range(1, 4)", "[1, 2, 4]", "sizes"])
def test_the_values_of_a_sweep_are_any_expression(notebook: Notebook, values: str) -> None:
    notebook.run("sizes = (1, 2, 4)")
    notebook.run(f'%%bench {QUICK} --sweep "n={values}" -q -o s\nx = n')
    assert len(notebook.names["s"].values) == 3


def test_a_sweep_of_variants_compares_them_at_each_value(notebook: Notebook) -> None:
    cell = "%%bench --vs -r 20 --sweep n=500,5000 -o s\nn\n# --- loop\nt = 0\nfor i in range(n): t += i"
    ran = notebook.run(cell)
    result = notebook.names["s"]
    assert [[c.verdict for c in row] for row in result.comparisons] == [["slower"], ["slower"]]
    assert "loop is slower than A at every n" in ran.report
    assert SweepSummary.from_json(result.to_json()).to_frame()["comparison"].tolist() == ["", "slower", "", "slower"]


def test_a_sweep_that_fails_keeps_the_values_before_and_says_at_which(notebook: Notebook) -> None:
    ran = notebook.run(f"%%bench {QUICK} --sweep n=1,2,0 -o s\n1 / n")
    assert isinstance(ran.error, ZeroDivisionError)
    assert notebook.names["s"].values == (1, 2)
    assert "ended early: ZeroDivisionError: division by zero (at n = 0)" in ran.report


def test_work_may_use_names_that_the_cell_defines(notebook: Notebook) -> None:
    ran = notebook.run(f"%%bench {QUICK} --flops 2*m --bytes 8*m -o b\nm = 1000\nsum(range(m))")
    result = notebook.names["b"]
    assert result.flop == 2000
    assert result.flop_per_s == pytest.approx(2000 / result.returns_s)
    assert "FLOP/s" in ran.report
    assert "B/s" in ran.report


def test_invalid_work_prints_one_message_and_gives_no_result(notebook: Notebook) -> None:
    ran = notebook.run(f"%%bench {QUICK} --flops 2*nothing\nx = 1")
    assert ran.refusal == "UsageError: --flops 2*nothing: NameError: name 'nothing' is not defined"
    assert ran.outputs == []


def test_calls_runs_and_warm_up_have_their_effect(notebook: Notebook) -> None:
    notebook.run("n = 0")
    ran = notebook.run("%%bench -n 7 -r 5 --runs 3 --warmup 2 -o b\nn += 1")
    result = notebook.names["b"]
    assert notebook.names["n"] == result.n_calls == 1 + 3 * (2 + 5 * 7)
    assert result.calls_per_sample == 7
    assert result.run_starts == (0, 5, 10)
    assert len(result.returns.run_medians_s) == 3
    assert "15 samples of 7 calls · in 3 runs" in ran.report
    assert any(line.startswith("medians of 3 runs ") for line in result.details)


def test_a_cold_result_says_so(notebook: Notebook) -> None:
    ran = notebook.run("%%bench --cold --runs 2 -r 3 --warmup 0 -o b\nx = 1")
    result = notebook.names["b"]
    assert result.cold_bytes > 0
    assert "6 samples · in 2 runs · cold caches · " in ran.report.replace("\n", " ")
    assert any(line.endswith("written over the processor's caches before each sample") for line in result.details)
    assert not [warning for warning in result.warnings if warning.kind == "memory grew"]  # what is written over is ours


def test_a_result_is_a_measurement_of_torch(notebook: Notebook) -> None:
    notebook.run(f"%%bench {QUICK} -n 5 -o b --name small k = 3\nx = k")
    notebook.run("import perfmagic\nm = perfmagic.measurement(b)")
    measurement, result = notebook.names["m"], notebook.names["b"]
    assert measurement.number_per_run == 5
    assert measurement.median == pytest.approx(result.returns_s)
    assert measurement.task_spec.setup == "k = 3"


def test_torchs_table_accepts_results_with_and_without_a_name(notebook: Notebook) -> None:
    notebook.run(f"%%bench {QUICK} -o first\nk = 3\nx = k")
    notebook.run("import perfmagic\nfrom torch.utils.benchmark import Compare")
    notebook.run("others = [perfmagic.bench(lambda: None, samples=6, warmup=0) for _ in range(2)]")
    ran = notebook.run("print(Compare([perfmagic.measurement(one) for one in (first, *others)]))")
    assert ran.error is None
    assert "k = 3 …" in ran.printed
    assert "a function" in ran.printed
    assert ran.printed.count("taken ") == 3  # a column each: torch pools what is called the same


def test_what_only_looks_like_a_separator_stays_as_typed(notebook: Notebook) -> None:
    parts = (
        "text = '''\n# --- in a string\n'''\nxs = [1,\n# --- in brackets\n2]\ndef f():\n# --- in a block\n    return 3"
    )
    ran = notebook.run(f"%%bench --vs {QUICK} -o c\n# a note\n# --- 甲\n{parts}\n%pwd\n# --- it's\ny = f()")
    assert ran.error is None
    assert [r.name for r in notebook.names["c"].results] == ["甲", "it's"]
    assert notebook.names["text"] == "\n# --- in a string\n"
    assert notebook.names["xs"] == [1, 2]
    assert notebook.names["y"] == 3


def test_variants_have_exactly_the_requested_samples(notebook: Notebook) -> None:
    notebook.run("order = ''")
    notebook.run("%%bench --vs -r 3 --warmup 0 -n 1 -o c\norder += 'a'\n# --- B\norder += 'b'")
    assert re.fullmatch("ab(abba|baab)(ab|ba)baaaabbb", notebook.names["order"])
    result = notebook.names["c"]
    assert "took the 3 samples asked for" in result.results[0].method
    assert result.comparisons[0].why.endswith("--samples 5 or more")


def test_invalid_work_later_in_a_sweep_keeps_the_earlier_values(notebook: Notebook) -> None:
    ran = notebook.run(f"%%bench {QUICK} --sweep n=1,2,0 --flops n -o s\nx = n")
    assert ran.refusal == "UsageError: --flops n is 0; a number above 0 is needed"
    assert notebook.names["s"].values == (1, 2)


def test_sizes_of_numpy_are_sizes_and_infinite_ones_are_not(notebook: Notebook) -> None:
    notebook.run("import numpy as np")
    notebook.run(f"%%bench {QUICK} --sweep n=2**np.arange(2,5) -q -o s\nx = n")
    assert notebook.names["s"].numeric
    assert notebook.names["s"].to_dict()["values"] == [4, 8, 16]
    notebook.run(f"%%bench {QUICK} --sweep n=1.0,float('inf') -q -o s\nx = n")
    assert not notebook.names["s"].numeric
    assert SweepSummary.from_json(notebook.names["s"].to_json()).values == (1.0, "inf")


@pytest.mark.parametrize("options", ["--setup-each", "--sweep n=1,2,3"])
def test_an_exception_in_set_up_code_shows_no_perfmagic_line(notebook: Notebook, options: str) -> None:
    notebook.run("k = 0")
    ran = notebook.run(f"%%bench {QUICK} {options} k += 1; 1 / (3 - k)\nx = 1")
    assert isinstance(ran.error, ZeroDivisionError)
    assert "1 k += 1; 1 / (3 - k)" in ran.traceback
    assert "perfmagic" not in ran.traceback.replace("perfmagic:", "")


def test_an_interrupt_while_the_result_is_made_still_shows_it(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perfmagic.magics import bench

    made = []

    def interrupted_once(engine: object) -> object:
        made.append(engine)
        if len(made) == 1:
            raise KeyboardInterrupt
        return finish_bench(engine)

    finish_bench = bench.finish_bench
    monkeypatch.setattr(bench, "finish_bench", interrupted_once)
    ran = notebook.run(f"%%bench {QUICK} -o b\nx = 1")
    assert isinstance(ran.error, KeyboardInterrupt)
    assert notebook.names["b"].returns.n == 8
    assert "8 samples" in ran.report


def test_quiet_shows_no_progress_either(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    from perfmagic.magics.running import progress

    monkeypatch.delenv("PERFMAGIC_DISPLAY", raising=False)  # "static" shows no progress
    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    monkeypatch.setattr(notebook.shell, "kernel", object(), raising=False)
    assert notebook.run(f"%%bench {QUICK} -q\nx = 1").outputs == []
    assert len(notebook.run(f"%%bench {QUICK}\nx = 1").outputs) > 1


def test_a_sweep_of_a_name_that_the_cell_lacks_says_so(notebook: Notebook) -> None:
    report = notebook.run("%%bench -r 6 --warmup 0 --sweep m=1,2\nsum(range(10))").report
    assert "neither the cell nor its set-up code names m" in report.replace("\n  ", " ")
    for rest in ("\nsum(range(m))", " k = m\nk"):
        assert "nor its set-up code" not in notebook.run(f"%%bench -r 6 --warmup 0 --sweep m=1,2{rest}").report


def test_values_with_spaces_between_them_are_an_error(notebook: Notebook) -> None:
    refusal = notebook.run("%%bench --sweep n=10,15, 20\nn").refusal
    assert "'n=10,15,' ends in a comma: no spaces between values" in refusal
