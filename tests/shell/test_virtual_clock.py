"""Magics on a virtual clock: what they show is computed, the same each time, and says so."""

from collections.abc import Iterator

import pytest

from .conftest import HEADS, Notebook, Ran

pytest.importorskip("torch", reason="the simulated device needs torch")

from perfmagic import sim
from perfmagic.capture import other_clocks


@pytest.fixture(autouse=True)
def _virtual(notebook: Notebook) -> Iterator[None]:
    sim.load(clock="virtual")
    notebook.run(
        "import torch, perfmagic; x = torch.ones(64, 64, device=perfmagic.device(pace='matmul=2ms')); y = x @ x"
    )
    yield
    sim.load(clock="real")
    sim.set_pace(None)


@pytest.mark.parametrize("magic", HEADS)
def test_every_magic_says_that_its_clock_is_virtual_and_repeats_itself(notebook: Notebook, magic: str) -> None:
    reports = [notebook.run(f"{HEADS[magic]}\nfor _ in range(3):\n    y = x @ x").report for _ in range(2)]
    assert "virtual clock: matmul 2" in " ".join(reports[0].split())
    assert reports[0] == reports[1]


def test_ranks_and_host_code_have_no_virtual_time(notebook: Notebook) -> None:
    assert "ranks keep real time" in notebook.run("%%ranks -n 2\n1").refusal
    assert "only the simulated device's work takes time" in notebook.run("%%bench\nsum(range(9))").traceback
    assert "cpu has no virtual time" in notebook.run("%%timeline --device cpu\nx + 1").refusal


def told(ran: Ran) -> str:
    """What a cell printed and showed, in one line."""
    return " ".join(f"{ran.printed} {ran.report}".split())


@pytest.mark.parametrize("head", ["", "%%timeline", "%%memory", "%%syncbench"])
def test_a_cell_that_reads_another_clock_is_told_so_once(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    monkeypatch.setattr(other_clocks, "_told", [])
    notebook.run("import time")
    said = "he device's clock is virtual; time.time() reads this machine's: use perfmagic.Benchmark"
    first, second = (told(notebook.run(f"{head}\nt0 = time.time()\ny = x @ x\nt0")) for _ in range(2))
    assert first.count(said) == 1
    assert said not in second


def test_on_the_real_clock_nothing_is_told(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_clocks, "_told", [])
    sim.load(clock="real")
    assert "clock" not in told(notebook.run("import time\nt0 = time.time()"))
    assert other_clocks._told == []


@pytest.mark.parametrize(
    ("source", "call"),
    [
        ("t.perf_counter()", "t.perf_counter()"),
        ("from time import monotonic_ns as now\nprint(now())", "now()"),
        ("def f():\n    import time\n    return time.time_ns()", "time.time_ns()"),
        ("from datetime import datetime\ndatetime.now()", "datetime.now()"),
        ("import datetime\ndatetime.datetime.now()", "datetime.datetime.now()"),
        ("import timeit\ntimeit.timeit(f, number=3)", "timeit.timeit()"),
        ("y = 1\n%timeit y + 1", "%timeit"),
        ("%%timeline\n!ls\nt.time()", "t.time()"),
        ("t.sleep(1)\ntime.time\nclock.time()", ""),  # no clock is read; no module of that name
        ("%%timeline\nx = (", ""),
    ],
)
def test_which_calls_read_another_clock(source: str, call: str) -> None:
    import time

    assert other_clocks.other_clock(source, {"t": time, "clock": object()}) == call
