"""Code that was written for CUDA, on a machine without it: the error is torch's own and ends with what works here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="its errors are what this is about")

import perfmagic  # noqa: E402 - after the skip

from .conftest import Notebook  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is there: these calls work"),
]

WORKS = {
    "torch.cuda.synchronize(x.device)": "perfmagic.synchronize(device)",
    "x.cuda()": "device = perfmagic.device(), then .to(device)",
    "torch.nn.Linear(2, 2).cuda()": "device = perfmagic.device(), then .to(device)",
    "torch.randn(2, device='cuda')": "device = perfmagic.device(), then .to(device)",
    "torch.cuda.Stream()": "device = perfmagic.device(), then torch.sim.Stream",
    "torch.cuda.Event(enable_timing=True)": "device = perfmagic.device(), then torch.sim.Event",
    "torch.cuda.current_device()": "device = perfmagic.device(), then torch.sim.current_device",
    "torch.cuda.reset_peak_memory_stats()": "device = perfmagic.device(), then torch.sim.reset_peak_memory_stats",
}


@pytest.fixture
def cells(notebook: Notebook) -> Notebook:
    assert notebook.run("import torch, perfmagic\nx = torch.ones(2, device='cpu')").error is None
    return notebook


@pytest.mark.parametrize("call", WORKS)
def test_a_call_for_cuda_ends_with_the_line_that_works(cells: Notebook, call: str) -> None:
    plain = cells.run(call).error
    ran = cells.run(f"%%timeline\n{call}")
    assert type(ran.error) is type(plain)
    words, _, hint = str(ran.error).partition("\nHint: ")
    assert words == str(plain)
    assert hint.endswith(WORKS[call])
    assert ran.traceback.rstrip().endswith(WORKS[call])


def test_the_lines_that_are_named_work(cells: Notebook) -> None:
    cells.run("device = perfmagic.device()")
    for line in ("perfmagic.synchronize(device)", "x.to(device)", "torch.sim.Stream()", "torch.sim.Event()"):
        assert cells.run(f"%%timeline\n{line}").error is None


def test_a_benchmark_says_it_too_and_a_plain_cell_keeps_its_error(cells: Notebook) -> None:
    assert "perfmagic.device()" in str(cells.run("%%bench -r 6 --warmup 0\nx.cuda()").error)
    assert "perfmagic" not in str(cells.run("x.cuda()").error)


def test_an_error_of_the_users_own_stays_as_it_is(cells: Notebook) -> None:
    own = "def synchronize(): raise AssertionError('Torch not compiled with CUDA enabled')\nsynchronize()"
    assert str(cells.run(f"%%timeline\n{own}").error) == "Torch not compiled with CUDA enabled"
    assert "Hint" not in str(cells.run("%%timeline\nx @ torch.ones(3)").error)


@pytest.fixture
def _ranks() -> Iterator[None]:
    yield
    perfmagic.ranks().stop()


@pytest.mark.usefixtures("_ranks")
@pytest.mark.parametrize("head", ["%%ranks -n 2 --device cpu --plain", "%%ranks -n 2 --device cpu -q"])
def test_ranks_say_it(cells: Notebook, head: str) -> None:
    ran = cells.run(f"{head}\nimport torch\ntorch.cuda.synchronize()")
    assert "Torch not compiled with CUDA enabled" in ran.traceback
    assert "perfmagic.synchronize(device)" in ran.traceback
