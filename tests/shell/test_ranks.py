"""A cell with %%ranks behaves as the plain cell does, in each of its processes; options, output and results."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="ranks need torch")

import perfmagic
from perfmagic.results import RanksResult

from .conftest import Notebook

pytestmark = pytest.mark.slow
HEAD = "%%ranks -n 2 --device cpu --plain"


@pytest.fixture(scope="module", autouse=True)
def _end() -> Iterator[None]:
    yield
    perfmagic.ranks().stop()


@pytest.fixture
def cells(notebook: Notebook) -> Notebook:
    """A shell whose ranks run on the CPU."""
    assert notebook.run(f"{HEAD}\nimport os, torch, torch.distributed as dist").error is None
    return notebook


@pytest.fixture
def on_sim(notebook: Notebook) -> Notebook:
    """A shell whose ranks have a simulated device each."""
    setup = "import torch, perfmagic, torch.distributed as dist\nx = torch.ones(64, device=perfmagic.device())"
    assert notebook.run(f"%%ranks -n 2 --device sim --plain\n{setup}").error is None
    return notebook


def printed_lines(text: str) -> list[str]:
    return sorted(text.splitlines())


def test_variables_stay_in_the_ranks(cells: Notebook) -> None:
    before = {name for name in cells.names if name.strip("_i0123456789")}
    cells.run(f"{HEAD}\nx = rank + 40")
    assert printed_lines(cells.run("%%ranks --plain\nx").printed) == ["[0] 40", "[1] 41"]
    assert {name for name in cells.names if name.strip("_i0123456789")} == before


def test_equal_values_are_shown_once(cells: Notebook) -> None:
    assert cells.run("%%ranks --plain\n[world_size]").printed == "[0, 1] [2]\n"
    assert cells.run("%%ranks --plain\n[world_size];").printed == ""


def test_an_exception_keeps_its_type_and_shows_the_users_line(cells: Notebook) -> None:
    ran = cells.run("%%ranks --plain\nif rank == 1:\n    raise ValueError('boom')\ndist.barrier()")
    assert type(ran.error).__name__ == "ValueError"
    assert isinstance(ran.error, perfmagic.RanksError)
    assert "ValueError on rank 1, line 3: boom" in ran.traceback
    assert "----> 3     raise ValueError('boom')" in ran.traceback
    assert ran.traceback.splitlines()[-1] == (
        "rank 0 was freed on line 4 while it waited in barrier: rank 1 failed on line 3 with ValueError"
    )
    assert "perfmagic" not in ran.traceback
    assert cells.run("%%ranks --plain\ndist.barrier()\n1").printed == "[0, 1] 1\n"


@pytest.mark.parametrize(("above", "line"), [("", 2), ("\n\n  \n", 5), ("%%capture\n", 3)])
def test_lines_are_counted_as_the_editor_counts_them(cells: Notebook, above: str, line: int) -> None:
    ran = cells.run(f"{above}%%ranks --plain\n1 / 0")
    assert f"ZeroDivisionError on ranks 0, 1, line {line}: division by zero" in ran.traceback + ran.warned
    ran = cells.run(f"{above}%%ranks -q\n1 / 0")  # recorded, by another way of running it
    assert f"ZeroDivisionError on ranks 0, 1, line {line}: division by zero" in ran.traceback + ran.warned


def test_cells_are_numbered_as_in_the_notebook(cells: Notebook) -> None:
    plain = re.search(r"In ?\[(\d+)\]", cells.run("1 / 0").traceback)
    ranks = re.search(r"In ?\[(\d+)\]", cells.run("%%ranks --plain\n1 / 0").traceback)
    assert plain
    assert ranks
    assert int(ranks[1]) == int(plain[1]) + 1


def test_a_recorded_cell_on_sim_shows_the_ranks_on_one_axis(on_sim: Notebook, tmp_path: Path) -> None:
    body = "for _ in range(3):\n    y = x * 2\n    dist.all_reduce(y)\ny.sum().item()"
    ran = on_sim.run(f"%%ranks -o result --save {tmp_path / 'saved'}\n{body}")
    assert ran.error is None
    assert ran.printed == f"[0, 1] {64 * 2 * 2.0}\n"
    result = on_sim.names["result"]
    assert isinstance(result, RanksResult)
    assert [row.rank for row in result.table] == [0, 1]
    assert [row.n_matched for row in result.table] == [3, 3]
    assert result.clocks
    assert len(ran.outputs) == 1
    assert "2 ranks" in ran.report
    assert perfmagic.last() is result
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["rank0.json.gz", "rank1.json.gz"]
    again = perfmagic.open_traces(tmp_path / "saved").ranks
    assert [row.n_matched for row in again.table] == [3, 3]


def test_a_quiet_cell_shows_no_picture_and_keeps_its_result(on_sim: Notebook) -> None:
    ran = on_sim.run("%%ranks -q\ny = x + 1")
    assert (ran.outputs, ran.printed) == ([], "")
    assert isinstance(perfmagic.ranks().result, RanksResult)


def test_a_cell_that_only_prints_shows_its_output_and_one_line(on_sim: Notebook) -> None:
    ran = on_sim.run("%%ranks -o result\nprint('hi')")
    assert ran.outputs == []
    assert printed_lines(ran.printed) == sorted(["[0] hi", "[1] hi", f"perfmagic: {on_sim.names['result'].nothing}"])
    assert "simulated device" in on_sim.names["result"].nothing
    assert perfmagic.last() is on_sim.names["result"]


def test_a_failed_cell_without_collectives_binds_a_result_of_ranks(cells: Notebook) -> None:
    ran = cells.run("%%ranks -o result\na = torch.ones(100, 100)\nb = a @ a\nif rank: raise ValueError('boom')")
    assert type(ran.error).__name__ == "ValueError"
    result = cells.names["result"]
    assert isinstance(result, RanksResult)
    assert all(row.compute_ns > 0 for row in result.table)
    assert [timeline.trace.meta.failed for timeline in result.timelines] == ["", "ValueError: boom"]
    assert len(ran.outputs) == 1


def test_ranks_that_use_cpu_tensors_get_a_note(on_sim: Notebook) -> None:
    ran = on_sim.run("%%ranks -o result\ny = torch.ones(64) * 2\ndist.all_reduce(y)\ny.sum().item()")
    assert ran.error is None
    first = on_sim.names["result"].findings[0]
    assert first.rule == "device_left_alone"
    assert first.cause[1:] in ran.report  # there it begins a line


@pytest.mark.parametrize("place", ["sim", "cpu"])
def test_a_message_that_never_arrived_is_no_communication(notebook: Notebook, place: str) -> None:
    source = """
import torch, torch.distributed as dist, perfmagic
t = torch.ones(64, device=perfmagic.device())
dist.all_reduce(t)
if rank:
    raise ValueError("rank 1 never sends")
dist.recv(t, 1)
perfmagic.synchronize()
"""
    ran = notebook.run(f"%%ranks -n 2 --device {place} -o result{source}")
    assert "rank 0 was freed on line" in ran.report + ran.traceback + str(ran.error)
    result = notebook.names["result"]
    waited = result.rank(0)
    assert (len(result.messages()), [m.kind.split()[0] for m in result.meetings()]) == (0, ["all_reduce"])
    assert [row.exposed_unmatched_ns for row in result.table] == [0, 0]
    assert [f.rule for f in waited.findings if f.rule == "incomplete"] == []
    names = [waited.trace.names[i] for i in waited.trace.host_ops.name]
    assert place == "sim" or "gloo:recv 0<-1, given up" in names
    assert place == "cpu" or not any("recv" in waited.trace.names[i] for i in waited.trace.ops.name)
    assert len(waited.trace.cell.source.splitlines()) == len(source.splitlines())


def test_the_heading_names_each_pace_at_which_ops_were_launched(on_sim: Notebook) -> None:
    paced = "pace(?:d| reached in part| not reached): "  # a busy machine may not keep up with it
    on_sim.run("%%ranks --plain\nperfmagic.device(pace='add=1ms')")
    on_sim.run("%%ranks -o result\ny = x + x\nperfmagic.device(pace='add=2ms')\ny = x + x\ntorch.sim.synchronize()")
    about = on_sim.names["result"].doc.about.replace("\u00a0", " ")
    assert re.search(f"{paced}add ≥ 1 ms; then add ≥ 2 ms", about)
    on_sim.run("%%ranks -o result\nperfmagic.device(pace='add=3ms')\ny = x + x\ntorch.sim.synchronize()")
    assert re.search(f"{paced}add ≥ 3 ms ·", on_sim.names["result"].doc.about.replace("\u00a0", " "))


def test_a_model_works_after_a_failure(on_sim: Notebook) -> None:
    setup = """%%ranks --plain
torch.manual_seed(rank)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1).to("sim"))
def step():
    model(torch.ones(2, 4, device="sim")).sum().backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
            p.grad = None
    return [round(v, 5) for v in model.module.weight.detach().cpu().flatten().tolist()]
"""
    assert on_sim.run(setup).error is None
    first = on_sim.run("%%ranks --plain\nstep()").printed
    assert first.startswith("[0, 1] [")
    assert type(on_sim.run("%%ranks --plain\nif rank: raise KeyError('x')\nstep()").error).__name__ == "KeyError"
    assert on_sim.run("%%ranks --plain\ndist.broadcast(model.module.weight.data, 0)\nstep()").printed.startswith(
        "[0, 1]"
    )


def test_the_line_of_a_function_from_another_cell_names_that_cell(on_sim: Notebook) -> None:
    on_sim.run(
        "%%ranks --plain\ndef reduce(n):\n    t = torch.ones(n, device=x.device)\n    dist.all_reduce(t)\n"
        "    t[0].item()"
    )
    ran = on_sim.run("%%ranks\nreduce(2 + rank)")
    assert re.search(r"rank 0 is in all_reduce of 8 bytes of float32 \(cell \d+, line 4\), rank 1 is", ran.traceback)
    ran = on_sim.run("%%ranks\nt = torch.ones(2 + rank, device=x.device)\ndist.all_reduce(t)\nt[0].item()")
    assert "rank 0 is in all_reduce of 8 bytes of float32 (line 3), rank 1 is" in ran.traceback


def test_a_name_that_only_the_notebook_has_gets_a_hint(cells: Notebook) -> None:
    cells.run("import math as mathematics\nmine = 3\ndef double(n): return 2 * n")
    why = "but ranks have their own variables"
    traceback = cells.run("%%ranks --plain\nmine + 1").traceback
    assert f"mine is defined in the notebook, {why}: %ranks push mine" in traceback
    traceback = cells.run("%%ranks --plain\nmathematics.pi if rank else double(2)").traceback
    assert f"mathematics is defined in the notebook, {why}: import it in a %%ranks --setup cell" in traceback
    assert "double is defined in the notebook" in traceback
    traceback = cells.run("%%ranks --plain\nnowhere").traceback
    assert "name 'nowhere' is not defined" in traceback
    assert "in the notebook" not in traceback
    assert "push" not in traceback


def test_a_rank_whose_device_still_works_does_not_count_as_absent(
    on_sim: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    perfmagic.ranks().stop()
    monkeypatch.setenv("PERFMAGIC_RANKS_GRACE_S", "0.3")
    on_sim.run("%%ranks -n 2 --device sim --plain\nimport torch, perfmagic, torch.distributed as dist")
    # rank 1's cell ends at once, and its device reaches the operation after several times the grace
    body = """%%ranks --plain
d = perfmagic.device('sim', pace='matmul=300ms')
a = torch.ones(8, 8, device=d)
if rank:
    for _ in range(5): a @ a
b = torch.ones(8, device=d)
dist.all_reduce(b)
if rank == 0: b.sum().item()
"""
    ran = on_sim.run(body)
    assert ran.error is None
    perfmagic.ranks().stop()


def test_push_and_pull_exchange_variables(cells: Notebook) -> None:
    cells.run("data = [1, 2]")
    assert cells.run("%ranks push data").error is None
    assert cells.run("%%ranks --plain\nmine = torch.tensor(data) * rank\ndata").printed == "[0, 1] [1, 2]\n"
    cells.run("%ranks pull mine")
    assert [t.tolist() for t in cells.names["mine"]] == [[0, 0], [1, 2]]
    assert "there is no variable nothing" in cells.run("%ranks push nothing").refusal
    assert "NameError" in cells.run("%ranks pull nothing").refusal
    assert "cannot pickle" in cells.run("f = (i for i in [])\n%ranks push f").refusal


def test_the_status_names_each_rank(cells: Notebook) -> None:
    lines = cells.run("%ranks").printed.splitlines()
    assert lines[0].startswith("2 ranks on cpu")
    assert [re.match(r"rank (\d)  process \d+  private .*B  ready$", line)[1] for line in lines[1:]] == ["0", "1"]
    assert "%ranks knows no 'nonsense'" in cells.run("%ranks nonsense").refusal
    assert "push NAME" in cells.run("%ranks -h").printed


def test_a_restart_forgets_variables_and_another_number_starts_anew(cells: Notebook) -> None:
    cells.run("%%ranks --plain\nx = 1")
    cells.run("%ranks restart")
    assert "NameError on ranks 0, 1" in cells.run("%%ranks --plain\nx").traceback
    assert printed_lines(cells.run("%%ranks -n 3 --plain\nrank, world_size").printed) == [
        f"[{r}] ({r}, 3)" for r in range(3)
    ]
    cells.run("%ranks stop")
    assert cells.run("%ranks").printed == "no ranks are running; %%ranks -n 4 starts some\n"
    assert "no ranks are running" in cells.run("%ranks restart").refusal


def test_the_whole_output_of_a_rank_is_available(cells: Notebook) -> None:
    ran = cells.run("%%ranks --plain\nprint('x' * 500_000)")
    assert len(ran.printed) < 250_000
    assert "[1] … 390,000 characters are left out here: perfmagic.ranks().printed(1) has all" in ran.warned
    assert perfmagic.ranks().printed(1) == "x" * 500_000 + "\n"
    with pytest.raises(perfmagic.OptionError, match="there is no rank 2"):
        perfmagic.ranks().printed(2)


def test_capture_collects_the_output_of_ranks(cells: Notebook) -> None:
    ran = cells.run("%%capture got\n%%ranks --on 0 --plain\nprint('inside')\n5")
    assert (ran.outputs, ran.printed) == ([], "")
    assert cells.names["got"].stdout == "[0] inside\n[0] 5\n"


def test_a_magic_below_the_first_line_is_an_error(cells: Notebook) -> None:
    assert "must be the first line" in cells.run("x = 1\n%%ranks --plain").refusal


def test_the_function_runs_code_in_the_same_ranks(cells: Notebook) -> None:
    cells.run("%%ranks --plain\nx = rank")
    ranks = perfmagic.ranks()
    assert len(ranks) == 2
    ranks.push(y=5)
    assert ranks.run("z = x + y") is None
    assert ranks["z"] == [5, 6]
    with pytest.raises(perfmagic.RanksError, match="ZeroDivisionError on rank 0, line 2"):
        ranks.run("1 / x", on=[0])
    with pytest.raises(perfmagic.OptionError, match="1 to 64"):
        perfmagic.ranks(0)
