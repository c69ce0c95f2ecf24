"""What %%ranks refuses by name, and what its result prints as."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="ranks need torch")

import perfmagic
from perfmagic.api.ranks.session import forget_setup
from perfmagic.capture.ranks.session import Interrupts, Session

from .conftest import Notebook

pytestmark = pytest.mark.slow
GONE_S = 10


@pytest.fixture(scope="module", autouse=True)
def _end() -> Iterator[None]:
    yield
    forget_setup()
    perfmagic.ranks().stop()


@pytest.mark.parametrize("plain", ["--setup", "--plain"])
@pytest.mark.parametrize("option", ["-o result", "--save runs", "--memory", "--shapes", "--lines", "--no-lines"])
def test_an_unrecorded_cell_rejects_options_for_records(notebook: Notebook, plain: str, option: str) -> None:
    ran = notebook.run(f"%%ranks -n 2 {plain} {option}\nx = 1")
    name = option.split(maxsplit=1)[0].replace("--no-", "--")
    assert f"%%ranks {plain} {name}: such a cell is not recorded" in ran.refusal
    assert f"use {name} on a cell without" in ran.refusal
    assert "result" not in notebook.names


def test_the_number_of_ranks_may_be_a_variable_but_no_expression(notebook: Notebook) -> None:
    notebook.run("n, half = 2, 0.5")
    assert notebook.run("%%ranks -n n --device cpu --plain\nworld_size").printed == "[0, 1] 2\n"
    for text in ("half", "absent", "2.5", "{n}"):
        assert (
            f"-n {text}: neither a whole number nor a variable" in notebook.run(f"%%ranks -n {text} --plain\n1").refusal
        )


def test_push_gives_a_reason_for_each_name_that_cannot_be_sent(notebook: Notebook) -> None:
    notebook.run("%%ranks -n 2 --device cpu --plain\nx = 1")
    notebook.run("import sys, collections.abc as abc\nf = lambda: 1\ngood = [1]")
    ran = notebook.run("%ranks push good f sys abc")
    assert "f cannot be pickled (" in ran.refusal
    assert "sys is a module; abc is a module" in ran.refusal
    assert "good" not in ran.refusal
    assert "%%ranks --setup with `import sys`" in ran.refusal
    assert "NameError" in notebook.run("%%ranks --plain\ngood").traceback
    ran = notebook.run("%ranks push good nope neither")
    assert ran.refusal.startswith("UsageError: %ranks push: there are no variables nope, neither in the notebook")
    notebook.run("same = [good, good]\n%ranks push good same")
    assert notebook.run("%%ranks --plain\nsame[0] is good").printed == "[0, 1] True\n"


@pytest.mark.parametrize("plain", ["", "--plain"])
def test_a_cell_that_ends_in_a_coroutine_is_an_error_in_ranks(notebook: Notebook, plain: str) -> None:
    notebook.run("%%ranks -n 2 --device cpu --plain\nasync def f(): return 7")
    ran = notebook.run(f"%%ranks {plain}\nf()")
    if plain:  # as a plain cell: nothing is measured
        assert "coroutine object f" in ran.printed
        return
    assert "the last value is an unawaited coroutine: its code has not run" in ran.traceback
    assert notebook.run("%%ranks\nawait f()").printed.startswith("[0, 1] 7\n")


def test_code_for_ranks_has_to_be_text(notebook: Notebook) -> None:
    notebook.run("%%ranks -n 2 --device cpu --plain\nx = 1")
    with pytest.raises(perfmagic.OptionError, match=r"run: code is needed as text, not .*\n.*ranks\(4\)\.run"):
        perfmagic.ranks().run(len)  # type: ignore[arg-type]


def test_a_pace_for_a_rank_on_the_cpu_is_an_error_with_a_hint(notebook: Notebook) -> None:
    ran = notebook.run("%%ranks -n 2 --device cpu --plain\nd = perfmagic.device(pace='matmul=1ms')")
    assert "this rank computes on the CPU, and pace is of a simulated device" in ran.traceback
    assert "%%ranks --device sim" in ran.traceback
    assert notebook.run("%%ranks --plain\nperfmagic.device().type").printed == "[0, 1] 'cpu'\n"
    result = notebook.run("%%ranks --device sim --plain\nperfmagic.device(pace='matmul=1ms').type")
    assert result.printed == "[0, 1] 'sim'\n"


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%ranks -n 65 --plain\n1", "65 ranks: 1 to 64 processes"),
        ("%%ranks -n 0\n1", "1 to 64 processes"),
        ("%%ranks --on x\n1", "'x' is not a rank"),
        ("%%ranks --device tpu\n1", "invalid choice: 'tpu'"),
        ("%%ranks x = 1\n1", "unknown option 'x = 1'"),
        ("%%ranks -o 1x\n1", "'1x' is not a Python name"),
        ("%%ranks --device cuda --plain\n1", "torch sees 0"),
        ("%%ranks --backend nonsense --plain\n1", "nonsense"),
        ("%%ranks -n 3 --cluster nonsense --plain\n1", "no cluster 'nonsense'"),
        ("%%ranks -n 3 --bogus\n1", "unrecognized arguments"),
        ("%%ranks -n 3 --on 1-3 --plain\n1", "there is no rank 3"),
        ("%%ranks -n 3 --plain\n\nx = 1\nx = = 1", "syntax error on line 4 of the cell: invalid syntax"),
        ("%%ranks -n 3 --plain\nreturn 1", "syntax error on line 2 of the cell"),
        ("%%ranks -n 3 --save {file}/runs\nx = 1", "cannot be made"),
        ("perfmagic.ranks('3')", "'3' ranks: 1 to 64 processes"),
        ("perfmagic.ranks(3, backend='nonsense')", "nonsense"),
    ],
)
def test_a_rejected_cell_ends_no_running_rank(notebook: Notebook, tmp_path: Path, cell: str, words: str) -> None:
    (tmp_path / "file").write_text("")
    notebook.names["perfmagic"] = perfmagic
    assert notebook.run("%%ranks -n 2 --device cpu --plain\nkept = rank").error is None
    before = perfmagic.ranks()
    ran = notebook.run(cell.replace("{file}", str(tmp_path / "file")))
    assert words in (ran.refusal or str(ran.error))
    assert perfmagic.ranks() is before
    assert notebook.run("%%ranks --plain\nkept").printed == "[0] 0\n[1] 1\n"


def test_running_ranks_survive_a_failed_set_up_of_new_ones(notebook: Notebook) -> None:
    try:
        notebook.run("%%ranks -n 2 --device cpu --setup\nassert world_size == 2\nkept = 5")
        ran = notebook.run("%%ranks -n 3 --plain\n1")
        assert "AssertionError on ranks 0–2, line 2" in ran.traceback
        assert "the 2 ranks before them still run" in ran.traceback
        assert notebook.run("%%ranks --plain\nkept").printed == "[0, 1] 5\n"
    finally:
        forget_setup()
    assert notebook.run("%%ranks -n 3 --plain\nworld_size").printed == "[0–2] 3\n"


@pytest.mark.parametrize("again", ["perfmagic.ranks(3)", "perfmagic.ranks().restart()"])
def test_an_interrupted_start_ends_no_running_rank(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    notebook.names["perfmagic"] = perfmagic
    assert notebook.run("%%ranks -n 2 --device cpu --plain\nkept = rank").error is None
    started = Session._start

    def struck(session: Session, interrupts: Interrupts) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        started(session, interrupts)

    with monkeypatch.context() as patched:
        patched.setattr(Session, "_start", struck)
        assert isinstance(notebook.run(again).error, KeyboardInterrupt)
    assert notebook.run("%%ranks --plain\nkept").printed == "[0] 0\n[1] 1\n"


def test_unloading_ends_the_ranks_and_says_so(notebook: Notebook) -> None:
    assert notebook.run("%%ranks -n 2 --device cpu --plain\nimport os").error is None
    pids = [*perfmagic.ranks()["os.getpid()"], *perfmagic.ranks()["os.getppid()"]]
    assert notebook.run("%unload_ext perfmagic").warned == "perfmagic: 2 ranks ended, and their variables with them\n"
    until = time.monotonic() + GONE_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert notebook.run("%load_ext perfmagic\n%unload_ext perfmagic").warned == ""
    notebook.run("%load_ext perfmagic")
    assert notebook.run("%%ranks -n 2 --device cpu --plain\nworld_size").printed == "[0, 1] 2\n"


FUNCTION = """
import torch, torch.distributed as dist
x = torch.ones(64, device=perfmagic.device())
def meet(t):
    y = t + 1
    dist.all_reduce(y)
    return y"""


def test_an_op_of_a_set_up_cell_s_function_has_that_cell_s_line_and_its_bytes(notebook: Notebook) -> None:
    pytest.importorskip("pandas")
    assert notebook.run(f"%%ranks -n 2 --device sim --setup{FUNCTION}").error is None
    ran = notebook.run(
        "%%ranks -q --lines -o result\nz = x * 2\ny = meet(x)\n"
        "if rank:\n    dist.recv(x, 0)\nelse:\n    dist.send(x, 1)"
    )
    assert ran.error is None
    result = notebook.names["result"]
    frame = result.to_frame()
    known = {row["name"]: row for row in frame[frame["rank"] == 0].to_dict("records")}
    cell = notebook.shell.execution_count - 2
    assert known["all_reduce"]["frame"] == f"In[{cell}](6): meet"
    assert (known["all_reduce"]["line"], known["all_reduce"]["size_bytes"]) == (3, 256)
    assert known["send 0->1"]["size_bytes"] == 256
    assert (frame["size_bytes"].dropna() >= 0).all()
    assert frame["size_bytes"].isna().sum() == len(frame) - 4  # all but the messages and all_reduce
    lines = {(row.function, row.line) for row in result.rank(0).lines}
    assert ("meet", 6) in lines


def test_results_of_ranks_print_as_text_and_tables(notebook: Notebook) -> None:
    notebook.run(f"%%ranks -n 2 --device sim --plain{FUNCTION}")
    notebook.run("%%ranks -q -o result\ny = meet(x)")
    result = notebook.names["result"]
    assert repr(result.clocks) == "one clock: one host ran all ranks"
    first, table, *_ = repr(result.ranks).splitlines()
    assert first == "2 ranks, 1 collective and 0 messages matched; one clock: one host ran all ranks"
    assert table == "2 ranks"
    assert "array(" not in repr(result.ranks)


def test_compare_accepts_ranks_and_sweeps_by_name_and_by_folder(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run("%%ranks -n 2 --device cpu --plain\nimport torch, torch.distributed as dist")
    for name in ("before", "after"):
        assert notebook.run(f"%%ranks -q -o {name}\nt = torch.ones(64)\ndist.all_reduce(t)").error is None
    ran = notebook.run("%compare before after -o result")
    assert ran.error is None
    result = notebook.names["result"]
    assert "after is" in result.headline
    assert "ranks of" not in ran.refusal
    assert [row.rank for row in result.ranks] == [0, 1]
    assert all(row.exposed_waiting_diff_ns is not None for row in result.ranks)
    assert "clocks of both: one clock: one host ran all ranks" in result.notes
    folder = notebook.names["after"].save(tmp_path / "after")
    assert notebook.run(f"%compare before {folder} -o again").error is None
    assert notebook.names["again"].ranks == result.ranks
    sweep = "%%ranks --sweep n=1,2 --device cpu -r 1 --warmup 0 -q -o swept import torch\ntorch.ones(64).sum()"
    assert notebook.run(sweep).error is None
    saved = notebook.names["swept"].save(tmp_path / "swept")
    assert notebook.run(f"%compare swept {saved} -o both").error is None
    assert [row.diff_ns for row in notebook.names["both"].table] == [0, 0]
    ran = notebook.run("%compare swept before")
    assert "1 sweep over numbers of ranks and ranks of one run" in ran.refusal
