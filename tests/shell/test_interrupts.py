"""An interrupt at any line of our own code leaves the process as it was, and the next cell of the same kind is clean.

PERFMAGIC_INTERRUPTS: how many of a magic's lines the slow test interrupts, evenly spread, or "all".
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="there is no recording of devices without torch")

from .conftest import Notebook
from .interrupts import sweep

pytestmark = pytest.mark.interrupts
WANTED = os.environ.get("PERFMAGIC_INTERRUPTS", "20")
CELLS = {
    "timeline on the CPU": "%%timeline --device cpu\ny = x + 1",
    "timeline on sim": "%%timeline --device sim\ny = x + 1",
    "bench": "%%bench -r 2 -n 1 --warmup 0\ny = x + 1",
    "syncbench": "%%syncbench -r 2 -n 1 --warmup 0\ny = x + 1",
    "compare": "%compare f g -r 2 -n 1 --warmup 0",
}
ROOT = Path(__file__).resolve().parents[2]
ON_SIM = ("timeline on sim", "syncbench")


@pytest.fixture
def ready(notebook: Notebook, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    """A shell with what the cells use, and temporary files of its own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # fewer of the loops whose thousands of lines take nothing from the process
    monkeypatch.setattr("perfmagic.capture.bench.empty_loop.AT_FIRST", 3)
    monkeypatch.setattr("perfmagic.capture.bench.empty_loop.CALLS_AT_FIRST", 1)
    monkeypatch.setattr("perfmagic.capture.bench.reference_loop.ROUNDS", 1)
    device = "perfmagic.device('sim')" if what in ON_SIM else "'cpu'"
    notebook.run(f"import torch, perfmagic\nx = torch.ones(4, device={device})")
    notebook.run("def f():\n    return x + 1\ndef g():\n    return x + 2")
    return notebook


@pytest.mark.parametrize("what", CELLS)
def test_an_interrupt_leaves_nothing_behind(ready: Notebook, what: str) -> None:
    swept = sweep(ready, CELLS[what], most=4, visits=1)
    assert swept.faults == []
    assert swept.interrupted >= 4


@pytest.mark.slow
@pytest.mark.parametrize("what", CELLS)
def test_an_interrupt_at_any_line_leaves_nothing_behind(ready: Notebook, what: str) -> None:
    every = WANTED == "all"
    visits = 2 if what in ("bench", "syncbench", "compare") else sys.maxsize  # their loops repeat the same lines
    swept = sweep(ready, CELLS[what], most=sys.maxsize if every else int(WANTED), visits=visits if every else 1)
    assert swept.faults == []
    assert swept.interrupted >= (1000 if every else int(WANTED))


@pytest.mark.slow
def test_two_real_signals_at_random_moments_leave_nothing_behind(tmp_path: Path) -> None:
    script = [sys.executable, "-m", "tests.shell.random_signals", "10", "1"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython")}
    found = subprocess.run(script, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("; 0 faults") == 5, found.stdout
