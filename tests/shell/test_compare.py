"""%compare in a shell: names, functions, files, and what is refused."""

from pathlib import Path

import pytest

import perfmagic
from tests.trace.recorded import FOLDER

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


SETUP = (
    "import torch, perfmagic\ndevice = perfmagic.device('sim')\n"
    "x = torch.randn(64, 64, device=device)\n(x @ x).sum().item()"
)
STEP = str(FOLDER / "v100_4streams_nccl_step.json.gz")
SMALL = str(FOLDER / "a100_event_sync_3streams.json.gz")


def test_a_removed_item_call_is_shown_at_its_old_line(notebook: Notebook) -> None:
    assert notebook.run(SETUP).error is None
    loop = "total = 0\nfor _ in range(5):\n    y = x @ x\n    total += y.sum(){}\nresult = float(total)"
    cell = f"%%timeline -o {{}} --device sim\n{loop}"
    assert notebook.run(cell.format("before", ".item()")).error is None
    assert notebook.run(cell.format("after", "")).error is None
    ran = notebook.run("%compare before after -o result")
    assert ran.error is None
    result = notebook.names["result"]
    assert isinstance(result, perfmagic.rows.TraceComparison)
    assert (result.a.name, result.b.name, result.no_verdict) == ("before", "after", "")
    assert result.b.n_syncs < result.a.n_syncs
    edited = next(row for row in result.lines if row.change == "edited")
    assert (edited.line_a, edited.line_b, edited.text) == (5, 5, "total += y.sum()")
    assert edited.blocked_a_ns > 0
    assert edited.blocked_b_ns == 0
    copies = {row.name: (row.n_a, row.n_b) for row in result.kernels if row.name.startswith("Memcpy DtoH")}
    assert sum(n_a for n_a, _ in copies.values()) - sum(n_b for _, n_b in copies.values()) == 4
    assert sum(part.diff_ns for part in result.parts) == result.whole.diff_ns
    assert ran.report.replace("\n  ", " ").startswith(f"{result.total}: {result.decides}")
    assert notebook.run("perfmagic.last() is result").value


def test_a_copy_that_became_pinned_is_a_replacement(notebook: Notebook) -> None:
    assert notebook.run(f"{SETUP}\npageable = torch.randn(256, 256)\npinned = pageable.pin_memory()").error is None
    assert notebook.run("%%timeline -o before --device sim\ny = pageable.to(device)").error is None
    assert notebook.run("%%timeline -o after --device sim\ny = pinned.to(device, non_blocking=True)").error is None
    assert notebook.run("%compare before after -o result").error is None
    result = notebook.names["result"]
    assert [(row.gone, row.new) for row in result.replaced] == [
        (("Memcpy HtoD (Pageable -> Device)",), ("Memcpy HtoD (Pinned -> Device)",))
    ]
    (line,) = result.lines
    assert (line.change, line.blocked_b_ns) == ("edited", 0)
    assert line.blocked_a_ns > 0


def test_files_and_folders_are_named_by_their_paths(notebook: Notebook, tmp_path: Path) -> None:
    (tmp_path / "one.json.gz").write_bytes(Path(SMALL).read_bytes())
    ran = notebook.run(f"%compare {tmp_path} {STEP} -o result")
    assert ran.error is None
    result = notebook.names["result"]
    assert (result.a.name, result.b.name) == ("A", "B")
    assert (result.a.title, result.b.title) == ("one.json.gz", "v100_4streams_nccl_step.json.gz")
    assert ran.report.startswith("No verdict: ")


def test_only_timelines_are_compared_with_a_timeline(notebook: Notebook) -> None:
    notebook.run("def f(): pass")
    notebook.run("%%timeline -o t --device cpu\nx = 1")
    assert "compare: 1 timeline and a function" in notebook.run("%compare t f").refusal
    assert "compare: 3 timelines, two are compared" in notebook.run("%compare t t t").refusal
    assert "--time cannot be set any more" in notebook.run("%compare t t --time 3").refusal
    assert "quantity cannot be set any more" in notebook.run("%compare t t --quantity done").refusal


def test_a_prediction_is_compared_with_the_timeline_of_the_changed_cell(notebook: Notebook) -> None:
    notebook.run("import time, torch, perfmagic\nfrom perfmagic.changes import no_item")
    notebook.run("x = torch.randn(64, 64, device=perfmagic.device('sim', pace='matmul=20ms'))")
    step = "total = 0.0\nfor _ in range(4):\n    total = total + (x @ x).sum(){}\n    time.sleep(0.015)"
    try:
        for name, read in (("before", ".item()"), ("after", "")):
            assert notebook.run(f"%%timeline -o {name} --device sim\n{step.format(read)}").error is None
    finally:
        notebook.run("perfmagic.device('sim', pace=perfmagic.Pace())")
    notebook.run("predicted = before.what_if(no_item())")
    assert notebook.names["predicted"].refused == ""
    ran = notebook.run("%compare predicted after -o check")
    check = notebook.names["check"]
    assert check.measured_ns < check.prediction.recorded_ns
    assert check.sentence in ran.report.replace("\n", " ")
    assert "is checked against one timeline, not 2" in str(notebook.run("%compare predicted before after").error)
