"""What somebody does with perfmagic in a notebook besides running magics: Tab, help, and results as values."""

import warnings
from pathlib import Path

import pytest
from IPython.core.completer import provisionalcompleter

import perfmagic
from perfmagic.base.errors import OptionError

from .conftest import Notebook

pytestmark = pytest.mark.slow


def completions(notebook: Notebook, text: str) -> set[str]:
    """What Tab offers behind a text, without Python's own names."""
    with warnings.catch_warnings(), provisionalcompleter():
        warnings.simplefilter("ignore")
        offered = {completion.text for completion in notebook.shell.Completer.completions(text, len(text))}
    return {name.lstrip(".") for name in offered if not name.lstrip(".").startswith(("_", "%"))}


@pytest.fixture(params=[False, True], ids=["names", "jedi"])
def complete(
    request: pytest.FixtureRequest, bare: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Notebook:
    """A shell that completes by looking at objects, and one that also reads source."""
    if request.param:
        jedi = pytest.importorskip("jedi")
        # another process may write the cache of the home folder meanwhile: IPython hides an error, and offers nothing
        monkeypatch.setattr(jedi.settings, "cache_directory", str(tmp_path))
    bare.shell.Completer.use_jedi = request.param
    bare.run("import perfmagic")
    return bare


def test_tab_offers_the_public_names_and_the_types_of_rows(complete: Notebook) -> None:
    assert completions(complete, "perfmagic.") == set(perfmagic.__all__)
    assert completions(complete, "perfmagic.rows.") == set(perfmagic.rows.__all__)


def test_tab_offers_the_keywords_of_a_function(complete: Notebook) -> None:
    assert {"time="} <= completions(complete, "perfmagic.bench(len, tim")
    assert {"names="} <= completions(complete, "perfmagic.compare(len, len, nam")
    assert {"comm_names="} <= completions(complete, "perfmagic.open_traces('x', com")
    assert {"warmup="} <= completions(complete, "perfmagic.timeline(war")


def test_tab_offers_what_a_result_has(complete: Notebook) -> None:
    assert complete.run("r = perfmagic.bench(lambda: None, samples=6, warmup=0)").error is None
    assert complete.run("with perfmagic.timeline(device='cpu') as block: pass\nt = block.result").error is None
    assert {"returns", "done_s", "html", "text", "save", "to_frame", "warnings"} <= completions(complete, "r.")
    assert {"findings", "lines", "kernels", "idle_gaps", "html", "save"} <= completions(complete, "t.")
    assert {"to_frame", "to_dict", "columns", "note"} <= completions(complete, "t.findings.")
    assert completions(complete, "perfmagic.testing.") == {*perfmagic.testing.__all__}


def test_help_shows_the_signature_and_the_options(bare: Notebook) -> None:
    bare.run("import perfmagic")
    words = bare.shell.object_inspect_mime("perfmagic.bench", detail_level=0)["text/plain"]
    assert "cooldown (" in words
    assert "pause before each sample, in seconds" in words
    assert "**" not in words


def test_without_the_extension_a_result_is_its_picture(bare: Notebook) -> None:
    bare.run("import perfmagic")
    for source in (
        "r = perfmagic.bench(lambda: None, samples=6, warmup=0)\nr",
        "perfmagic.compare(r, r)",
        "perfmagic.sweep(lambda n: None, [1, 2], synced=False, samples=6, warmup=0)",
    ):
        ran = bare.run(source)
        assert ran.error is None
        formatted = bare.shell.display_formatter.format(ran.value)[0]
        assert formatted["text/html"].count("data:image/svg+xml;base64,") == 1
        assert ran.shown == [ran.value.text()]


def test_the_rows_of_a_result_are_a_table_in_a_notebook(notebook: Notebook) -> None:
    notebook.run("%%timeline -o t --device cpu\nx = 1\ny = 2")
    ran = notebook.run("t.lines.in_function('')")
    formatted = notebook.shell.display_formatter.format(ran.value)[0]
    assert formatted["text/html"].count("<tr") == 3
    assert [row.line for row in ran.value] == [2, 3]
    assert ran.shown == [repr(ran.value)]
    assert "2 lines" in ran.shown[0]
    assert "host" in ran.shown[0].splitlines()[1]


def test_lines_are_shown_as_the_code_with_a_picture_and_printed_with_columns(notebook: Notebook) -> None:
    notebook.run("def twice(n):\n    m = n + n\n    return sum(range(m))")
    notebook.run("%%timeline -o t --device cpu --lines\nx = 100_000\ny = twice(x)")
    ran = notebook.run("t.lines")
    formatted = notebook.shell.display_formatter.format(ran.value)[0]
    assert formatted["text/html"].count("data:image/svg+xml;base64,") == 1
    assert ran.shown == [repr(ran.value)]
    assert "return sum(range(m))" in ran.shown[0]
    assert "called from line 3" in ran.shown[0]
    assert [row.line for row in ran.value.in_function("twice")] == [1, 2, 3]
    with pytest.raises(OptionError, match="functions: twice"):
        ran.value.in_function("thrice")


def test_a_quiet_line_shows_its_result_only_in_the_next_cell(notebook: Notebook) -> None:
    ran = notebook.run("%bench -q -r 6 --warmup 0 -o kept x = 1")
    assert (ran.outputs, ran.shown, ran.printed) == ([], [], "")
    assert len(notebook.run("kept").outputs) == 1


@pytest.mark.parametrize("line", ["%bench -r 6 --warmup 0 x = 1", "%trace run.json", "%compare a a"])
def test_in_a_terminal_a_line_magic_prints_its_report_once(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    notebook.run("%bench -r 6 --warmup 0 -o a x = 1")
    Path("run.json").write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 2}]}')
    monkeypatch.setattr("perfmagic.api.show.in_terminal", lambda shell: True)
    ran = notebook.run(line)
    result = perfmagic.last()
    assert (ran.printed, ran.value) == (f"{result.text()}\n", None)
    assert notebook.names["_"] is result
    assert notebook.run("y = _").error is None
    assert notebook.names["y"] is result


def test_in_a_terminal_a_value_already_shown_prints_one_line(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfmagic.api.show.in_terminal", lambda shell: True)
    ran = notebook.run("r = %bench -r 6 --warmup 0 x = 1\nr")
    result = notebook.names["r"]
    assert ran.printed == f"{result.text()}\n{result!r}\n"  # the second stands behind `Out[n]: `


def test_a_recorded_cell_offers_marks_and_a_repeated_one_repetitions(notebook: Notebook) -> None:
    names = "('mark', 'inner', 'first', 'more', 'repetitions')"
    look = f"import builtins\nhas = {{n for n in {names} if hasattr(builtins.__perfmagic__, n)}}"
    notebook.run(look)
    assert notebook.names["has"] == set()
    notebook.run(f"%%timeline --device cpu\n{look}")
    assert notebook.names["has"] == {"mark", "inner"}
    notebook.run(f"%%bench -r 6 --warmup 0\n{look}")
    assert notebook.names["has"] == {"first", "more", "repetitions"}
    notebook.run(f"%%timeline --device cpu\n%bench -q -r 6 --warmup 0 1\n{look}")
    assert notebook.names["has"] == {"mark", "inner"}  # those of the outer cell again
    notebook.run(look)
    assert notebook.names["has"] == set()


def test_help_shows_both_forms_of_a_cell_magic(notebook: Notebook, magic: str) -> None:
    printed = notebook.run(f"%{magic} -h").printed.splitlines()
    assert printed[0] == f"usage: %%{magic} [options] [set-up code]"
    assert printed[1].split() == [f"%{magic}", "[options]", "statement"]


def test_a_hidden_tensor_is_not_waited_for(notebook: Notebook) -> None:
    notebook.run(
        'import torch, perfmagic\ndevice = perfmagic.device("sim", pace="matmul=5ms")\n'
        "x = torch.ones(8, 8, device=device)"
    )
    for last, lines in (("y", {3}), ("[y]", {3}), ("y;", set()), ("y.shape", set())):
        ran = notebook.run(f"%%timeline -o t --device sim\ny = x @ x\n{last}")
        assert ran.error is None
        waits = [sync for sync in notebook.names["t"].syncs() if not sync.after_cell]
        assert {sync.line for sync in waits} == lines
    notebook.run("perfmagic.device('sim', pace=perfmagic.Pace())")


def test_showing_a_value_of_the_host_runs_its_code_once(notebook: Notebook) -> None:
    notebook.run("class Told:\n    n = 0\n    def __repr__(self):\n        Told.n += 1\n        return 'told'")
    notebook.run("%%timeline --device cpu\nTold()")
    assert notebook.names["Told"].n == 1


def test_lane_critical_path_and_table_name_one_line_for_an_op(notebook: Notebook) -> None:
    pytest.importorskip("torch")
    notebook.run("import torch, perfmagic\nx = torch.ones(8, 8, device=perfmagic.device('sim', pace='kernel=2ms'))")
    assert notebook.run("%%timeline -o t\n\nfor _ in range(4):\n    y = x @ x").error is None
    t = notebook.names["t"]
    (stream,) = t.doc.groups[0].streams
    assert {*stream.line.tolist()} == {*t.trace.ops.line.tolist()} == {4}
    assert {part.line for part in t.critical_path() if part.name == "mm"} == {4}
    assert [row.line for row in t.lines if row.n_ops] == [4]
