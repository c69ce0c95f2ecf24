"""An interrupt at any line of our own code leaves the process as it was, and the next cell of the same kind is clean.

PERFMAGIC_INTERRUPTS: how many of a magic's lines the slow test interrupts, evenly spread, or "all".
"""

import os
import signal
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="there is no recording of devices without torch")

from .conftest import Notebook
from .interrupts import c_raise, faults_after, own_temporary_files, state, sweep, sweep_twice

pytestmark = pytest.mark.interrupts
WANTED = os.environ.get("PERFMAGIC_INTERRUPTS", "20")
# of the interrupts wanted: a run whose verdict has fewer sentences than the counted one ends before the last of them
REACHED = 0.75
CELLS = {
    "timeline on the CPU": "%%timeline --device cpu\ny = x + 1",
    "timeline on sim": "%%timeline --device sim\ny = x + 1",
    "timeline on GPUs": "%%timeline --on H100,T4\ny = x.cuda() + 1",
    "memory on sim": "%%memory\ny = x + 1",
    "graph on sim": "%%graph\ny = x + 1",
    "bench": "%%bench -r 2 -n 1 --warmup 0\ny = x + 1",
    "syncbench": "%%syncbench -r 2 -n 1 --warmup 0\ny = x + 1",
    "compare": "%compare f g -r 2 -n 1 --warmup 0",
    "timeline of a block": "with perfmagic.timeline(device='cpu'):\n    y = x + 1",
    "timeline of steps": """
        with perfmagic.timeline(device='sim', wait=1, active=1) as t:
            for _ in range(3):
                y = x + 1
                t.step()
    """,
    "graph of a function": "perfmagic.graph(f)",
    "bench of a function": "perfmagic.bench(f, samples=2, calls=1, warmup=0)",
    "syncbench of a function": "perfmagic.syncbench(f, samples=2, calls=1, warmup=0)",
    "sweep of a function": "perfmagic.sweep(lambda n: x + n, [1, 2], synced=False, samples=2, calls=1, warmup=0)",
    "compare of functions": "perfmagic.compare(f, g, samples=2, calls=1, warmup=0)",
}
ROOT = Path(__file__).resolve().parents[2]
ON_SIM = ("timeline on sim", "memory on sim", "graph on sim", "timeline of steps")
ON_SIM = (*ON_SIM, "syncbench", "syncbench of a function")
BLOCKS = ("timeline of a block", "timeline of steps")  # of the user, with one guard: it makes signals wait


@pytest.fixture
def ready(notebook: Notebook, what: str, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    """A shell with what the cells use."""
    # fewer of the loops whose thousands of lines take nothing from the process
    monkeypatch.setattr("perfmagic.capture.bench.sampling.AT_FIRST", 3)
    monkeypatch.setattr("perfmagic.capture.bench.sampling.CALLS_AT_FIRST", 1)
    monkeypatch.setattr("perfmagic.capture.bench.sampling.ROUNDS", 1)
    device = "perfmagic.device('sim')" if what in ON_SIM else "'cpu'"
    notebook.run(f"import torch, perfmagic\nx = torch.ones(4, device={device})")
    notebook.run("def f():\n    return x + 1\ndef g():\n    return x + 2")
    return notebook


def test_an_interrupt_of_a_cell_in_ranks_leaves_nothing_behind(notebook: Notebook) -> None:
    setup = "%%ranks -n 2 --device cpu --plain\nimport torch.distributed as dist"
    assert notebook.run(setup).error is None
    try:
        swept = sweep(notebook, "%%ranks --plain\ny = 1\ndist.barrier()", most=8, visits=1, signals=True)
    finally:
        notebook.run("%ranks stop")
    # a plain cell displays nothing, and that is what a measured one is held to
    assert [fault for fault in swept.faults if not fault.endswith("the next cell displayed 0 outputs")] == []
    assert swept.interrupted >= REACHED * 8


@pytest.mark.skipif(sys.platform == "win32", reason="raise() is taken from the program itself")
@pytest.mark.parametrize("what", ["timeline of a block"])
def test_an_interrupt_during_the_last_operator_of_a_block_leaves_nothing_behind(ready: Notebook) -> None:
    cell = CELLS["timeline of a block"]
    assert ready.run(cell).error is None
    with own_temporary_files():
        before = state(ready)
        # no function of Python's is called, so that Python sees the signal where `__exit__` begins
        ready.names.update(c_raise=c_raise, SIGINT=signal.SIGINT)
        ran = ready.run(f"{cell}\n    None in map(c_raise, [SIGINT])\nwent_on = True")
        assert isinstance(ran.error, KeyboardInterrupt)
        assert "went_on" not in ready.names
        assert list(faults_after(ready, cell, before, "the last operator")) == []


@pytest.mark.slow
@pytest.mark.parametrize("what", CELLS)
def test_an_interrupt_at_any_line_leaves_nothing_behind(ready: Notebook, what: str) -> None:
    every = WANTED == "all"
    visits = sys.maxsize if what.startswith("timeline") else 2  # benchmarks repeat the same lines
    most = sys.maxsize if every else int(WANTED)
    swept = sweep(ready, CELLS[what], most=most, visits=visits if every else 1, signals=what in BLOCKS)
    assert swept.faults == []
    assert swept.interrupted >= (1000 if every else REACHED * int(WANTED))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="raise() is taken from the program itself")
@pytest.mark.parametrize("what", [what for what in CELLS if what not in BLOCKS])  # a block's guard takes one
def test_a_second_interrupt_within_the_teardown_leaves_nothing_behind(ready: Notebook, what: str) -> None:
    swept = sweep_twice(ready, CELLS[what], most=8, seconds=(1, 8, 40))
    assert swept.faults == []
    assert swept.interrupted >= 2
