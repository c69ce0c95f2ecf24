"""What %%ranks refuses by name, and what its result prints as."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="ranks need torch")

import perfmagic
from perfmagic.rank_sessions import forget_setup

from .conftest import Notebook

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _end() -> Iterator[None]:
    yield
    forget_setup()
    perfmagic.ranks().stop()


@pytest.mark.parametrize("plain", ["--setup", "--plain"])
@pytest.mark.parametrize("option", ["-o found", "--save runs", "--memory", "--shapes", "--lines", "--no-lines"])
def test_a_cell_that_records_nothing_refuses_what_is_for_records(notebook: Notebook, plain: str, option: str) -> None:
    ran = notebook.run(f"%%ranks -n 2 {plain} {option}\nx = 1")
    name = option.split(maxsplit=1)[0].replace("--no-", "--")
    assert f"%%ranks {plain} {name}: such a cell records nothing" in ran.refusal
    assert f"leave {name} out here" in ran.refusal
    assert "found" not in notebook.names


def test_push_says_of_each_name_why_it_cannot_be_sent(notebook: Notebook) -> None:
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


def test_a_rank_on_the_cpu_refuses_a_pace_and_says_what_works(notebook: Notebook) -> None:
    ran = notebook.run("%%ranks -n 2 --device cpu --plain\nd = perfmagic.device(pace='matmul=1ms')")
    assert "this rank computes on the CPU, and pace is of a simulated device" in ran.traceback
    assert "%%ranks --device sim" in ran.traceback
    assert notebook.run("%%ranks --plain\nperfmagic.device().type").printed == "[0, 1] 'cpu'\n"
    found = notebook.run("%%ranks --device sim --plain\nperfmagic.device(pace='matmul=1ms').type")
    assert found.printed == "[0, 1] 'sim'\n"


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
        "%%ranks -q --lines -o found\nz = x * 2\ny = meet(x)\nif rank:\n    dist.recv(x, 0)\nelse:\n    dist.send(x, 1)"
    )
    assert ran.error is None
    found = notebook.names["found"]
    frame = found.to_frame()
    known = {row["name"]: row for row in frame[frame["rank"] == 0].to_dict("records")}
    cell = notebook.shell.execution_count - 2
    assert known["all_reduce"]["frame"] == f"In[{cell}](6): meet"
    assert (known["all_reduce"]["line"], known["all_reduce"]["size_bytes"]) == (3, 256)
    assert known["send 0->1"]["size_bytes"] == 256
    assert (frame["size_bytes"].dropna() >= 0).all()
    assert frame["size_bytes"].isna().sum() == len(frame) - 4  # all but the messages and all_reduce
    mine = {(row.function, row.line) for row in found.rank(0).lines}
    assert ("meet", 6) in mine


def test_what_is_known_of_ranks_prints_as_words_and_tables(notebook: Notebook) -> None:
    notebook.run(f"%%ranks -n 2 --device sim --plain{FUNCTION}")
    notebook.run("%%ranks -q -o found\ny = meet(x)")
    found = notebook.names["found"]
    assert repr(found.clocks) == "one clock: one host ran all ranks"
    first, table, *_ = repr(found.ranks).splitlines()
    assert first == "2 ranks, 1 collective and 0 messages matched; one clock: one host ran all ranks"
    assert table == "RankStat × 2"
    assert "array(" not in repr(found.ranks)


def test_compare_takes_ranks_and_sweeps_by_name_and_by_folder(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run("%%ranks -n 2 --device cpu --plain\nimport torch, torch.distributed as dist")
    for name in ("before", "after"):
        assert notebook.run(f"%%ranks -q -o {name}\nt = torch.ones(64)\ndist.all_reduce(t)").error is None
    ran = notebook.run("%compare before after -o found")
    assert ran.error is None
    found = notebook.names["found"]
    assert "after is" in found.headline
    assert "ranks of" not in ran.refusal
    assert [row.rank for row in found.ranks] == [0, 1]
    assert all(row.exposed_waiting_diff_ns is not None for row in found.ranks)
    assert "clocks of both: one clock: one host ran all ranks" in found.notes
    folder = notebook.names["after"].save(tmp_path / "after")
    assert notebook.run(f"%compare before {folder} -o again").error is None
    assert notebook.names["again"].ranks == found.ranks
    sweep = "%%ranks --sweep n=1,2 --device cpu -r 1 --warmup 0 -q -o swept import torch\ntorch.ones(64).sum()"
    assert notebook.run(sweep).error is None
    saved = notebook.names["swept"].save(tmp_path / "swept")
    assert notebook.run(f"%compare swept {saved} -o both").error is None
    assert [row.diff_ns for row in notebook.names["both"].table] == [0, 0]
    ran = notebook.run("%compare swept before")
    assert "1 sweep over numbers of ranks and ranks of one run" in ran.refusal
