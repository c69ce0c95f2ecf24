"""%%ranks --sweep: the cell on several numbers of ranks. A pace decides what takes how long."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="ranks need torch")

import perfmagic
from perfmagic.api.ranks.session import forget_setup
from perfmagic.results import RanksSweep
from perfmagic.sim.virtual import OP_NS

from .conftest import Notebook

pytestmark = pytest.mark.slow
PACED = (
    "import torch, torch.distributed as dist; d = perfmagic.device('sim', pace='{pace}'); "
    "a = torch.ones(8, 8, device=d)"
)
ON_SIM = "%%ranks --sweep n=1,2 --device sim --clock virtual -r 1"
ON_CPU = "%%ranks --sweep n=1,2 --device cpu -r 1 --warmup 0"


@pytest.fixture(scope="module", autouse=True)
def _end() -> Iterator[None]:
    yield
    perfmagic.ranks().stop()


def paced(pace: str) -> str:
    return PACED.format(pace=pace)


def test_exposed_communication_explains_the_lost_efficiency(notebook: Notebook) -> None:
    # one rank has no link to pass: 0 of 64 MB; of two, each passes 40 MB at 100 MB/s beside 100 ms of compute
    setup = paced("matmul=100ms, link=100MB/s") + "; b = torch.ones(10_000_000, device=d)"
    ran = notebook.run(f"{ON_SIM} -o result {setup}\ny = a @ a\ndist.all_reduce(b)\ntorch.sim.synchronize()\n'value'")
    assert ran.error is None
    result = notebook.names["result"]
    assert isinstance(result, RanksSweep)
    on_one, on_two = result.table
    assert (result.n, on_one.efficiency_frac, result.scaling) == ((1, 2), 1.0, "weak")
    assert (on_one.exposed_transfer_ns, on_two.exposed_transfer_ns) == (OP_NS, 400_000_000)
    assert on_two.efficiency_frac == pytest.approx(1 / 5, abs=1e-4)  # all_reduce waits for the product
    assert "exposed communication with data moving" in result.sentence
    assert "simulated device" in ran.report
    assert perfmagic.last() is result
    assert ran.printed == "[0] 'value'\n[0, 1] 'value'\n"  # of the first run of each
    assert [len(result.on(k).timelines) for k in result.n] == [1, 2]


def test_strong_scaling_compares_with_the_share_of_the_work(notebook: Notebook) -> None:
    body = "for _ in range(4 // world_size): y = a @ a\ntorch.sim.synchronize()"
    setup = paced("matmul=100ms")
    notebook.run(f"{ON_SIM} --strong -o result {setup}\n{body}")
    on_one, on_two = notebook.names["result"].table
    assert on_two.ideal_ns == pytest.approx(on_one.time_ns / 2)
    assert on_two.efficiency_frac == pytest.approx(1, abs=1e-3)  # 200 ms of 400: were it weak scaling, 2
    assert on_two.speedup == pytest.approx(2, abs=1e-3)
    assert "strong scaling: all ranks share one work" in notebook.names["result"].text()


def test_a_straggler_explains_the_lost_efficiency(notebook: Notebook) -> None:
    body = "y = a.clone()\nfor _ in range(3 * rank + (world_size == 1)): y = a @ a\n"
    body += "dist.all_reduce(y)\ntorch.sim.synchronize()"
    notebook.run(f"{ON_SIM} -o result {paced('matmul=100ms')}\n{body}")
    result = notebook.names["result"]
    # rank 0 waits 300 ms for rank 1: half of it is the mean, and the mean of the products grows by 50 ms only
    assert result.table[1].exposed_waiting_ns == pytest.approx(150e6, rel=1e-3)
    assert "waiting for other ranks" in result.sentence
    assert result.on(2).findings[0].rule == "straggler"


def test_each_number_has_new_processes_and_running_ranks_stay(notebook: Notebook) -> None:
    notebook.run("%%ranks -n 2 --device cpu --plain\nmine = rank + 40")
    before = notebook.run("%ranks").printed
    ran = notebook.run("%%ranks --sweep n=1,3 --warmup 0 -r 2 -q -o result seen = []\nseen.append(world_size)\nseen")
    assert ran.error is None
    assert ran.printed == "[0] [1]\n[0–2] [3]\n"  # the set-up ran again, in other processes; nothing of the second run
    assert ran.outputs == []
    assert notebook.names["result"].n == (1, 3)
    assert notebook.names["result"].device_label == "CPU"  # what the ranks that run compute on
    assert notebook.run("%ranks").printed.splitlines()[0] == before.splitlines()[0]
    assert sorted(notebook.run("%%ranks --plain\nmine").printed.splitlines()) == ["[0] 40", "[1] 41"]


def test_the_number_of_threads_per_rank_is_constant(notebook: Notebook) -> None:
    ran = notebook.run(f"{ON_CPU} -q import torch\ntorch.get_num_threads()")
    (first, second) = [line.rpartition("] ")[2] for line in ran.printed.splitlines()]
    assert first == second


def test_a_failure_shows_the_earlier_numbers_and_says_where(notebook: Notebook, tmp_path: Path) -> None:
    body = "import torch\ny = torch.ones(9) * 2\nif world_size > 1 and rank: raise ValueError('boom')"
    ran = notebook.run(f"{ON_CPU} -o result --save {tmp_path / 'runs'}\n{body}")
    assert type(ran.error).__name__ == "ValueError"
    assert "on 2 ranks: ValueError on rank 1, line 4: boom" in ran.traceback
    assert notebook.names["result"].n == (1,)
    assert "ValueError on 2 ranks ended the sweep" in " ".join(ran.report.split())
    assert perfmagic.load(tmp_path / "runs").table == notebook.names["result"].table


@pytest.mark.parametrize(("above", "line"), [("", 1), ("\n\n", 3)])
def test_a_failure_of_the_set_up_names_its_line(notebook: Notebook, above: str, line: int) -> None:
    ran = notebook.run(f"{above}{ON_CPU} 1 / 0\nx = 1")
    assert f"on 1 rank: ZeroDivisionError on rank 0, line {line}: division by zero" in ran.traceback
    assert ran.outputs == []


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("--sweep n=2", "1 value, at least two are needed"),
        ("--sweep n=1,1", "each once"),
        ("--sweep n=0,1", "1 to 64 processes"),
        ("--sweep n=1,2.5", "1 to 64 processes"),
        ("--sweep m=1,2", "the number of ranks is called n"),
        ("--sweep n=1,2 -n 4", "leave -n out"),
        ("--sweep n=1,2 --plain", "leave --plain out"),
        ("--sweep n=1,2 --cluster slurm", "a sweep starts processes of this machine"),
        ("--sweep n=1,2 --on 0", "leave --on out"),
        ("--sweep n=1,2 -r 0", "one run or more"),
        ("--strong", "--strong needs --sweep"),
        ("-r 2", "--runs needs --sweep"),
        ("--warmup 0", "--warmup needs --sweep"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(notebook: Notebook, head: str, words: str) -> None:
    assert words in notebook.run(f"%%ranks {head}\nx = 1").refusal


def test_setup_cells_run_in_all_new_ranks(notebook: Notebook) -> None:
    perfmagic.ranks().stop()
    try:
        notebook.run("%%ranks -n 1 --setup --device cpu\ndef doubled(x):\n    return 2 * x")
        notebook.run("%%ranks --setup\nthree = doubled(1.5)")
        assert perfmagic.ranks()["three"] == [3.0]
        perfmagic.ranks().restart()
        assert perfmagic.ranks()["three"] == [3.0]
        notebook.run("%%ranks -n 2 --plain --device cpu\nfour = doubled(2)")
        assert perfmagic.ranks()["four"] == [4, 4]
        ran = notebook.run(f"{ON_CPU} -o result four = three + 1\ndoubled(four)")
        assert ran.error is None
        assert ran.printed == "[0] 8.0\n[0, 1] 8.0\n"
        refused = notebook.run("%%ranks --setup --on 0\n1")
        assert "set-up code runs on all ranks" in str(refused.error)
    finally:
        forget_setup()
        perfmagic.ranks().stop()


def test_a_setup_cell_that_fails_is_not_kept(notebook: Notebook) -> None:
    failed = notebook.run("%%ranks -n 1 --setup --device cpu\n1 / 0")
    assert "ZeroDivisionError" in str(failed.error)
    perfmagic.ranks().restart()
    assert perfmagic.ranks()["rank"] == [0]


def test_the_function_gives_the_same_sweep() -> None:
    result = perfmagic.sweep_ranks("y = x * 2", [1, 2], setup="import torch; x = torch.ones(9)", device="cpu", runs=1)
    assert result.n == (1, 2)
    assert all(row.compute_ns > 0 for row in result.table)
    assert perfmagic.last() is result
    with pytest.raises(perfmagic.RanksError, match="on 1 rank: ZeroDivisionError on rank 0, line 2"):
        perfmagic.sweep_ranks("1 / 0", [1, 2], device="cpu")
