"""Magics on a virtual clock: what they show is computed, the same each time, and says so."""

from collections.abc import Iterator

import pytest

from .conftest import HEADS, Notebook

pytest.importorskip("torch", reason="the simulated device needs torch")

from perfmagic import sim


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
