"""A device error after the last line of a rank's cell is reported for that cell, not for the next one."""

import re
from collections.abc import Iterator

import pytest

pytest.importorskip("torch", reason="ranks need torch")

import perfmagic

from .conftest import Notebook

pytestmark = pytest.mark.slow

ONES = "torch.ones(3, device=device)"


@pytest.fixture(scope="module")
def _ranks() -> Iterator[None]:
    yield
    perfmagic.ranks().stop()


@pytest.fixture
def two(notebook: Notebook, _ranks: None) -> Notebook:
    notebook.run("%%ranks -n 2 --plain\nimport torch, torch.distributed as dist\ndevice = perfmagic.device('sim')")
    return notebook


def _goes_on(notebook: Notebook) -> None:
    ran = notebook.run("%%ranks --plain\nt = torch.ones(2, device=device)\ndist.all_reduce(t)\nt.tolist()")
    assert ran.printed == "[0, 1] [2.0, 2.0]\n"


@pytest.mark.parametrize("head", ["%%ranks", "%%ranks --plain"])
def test_a_mismatch_is_reported_for_the_cell_that_queued_it(two: Notebook, head: str) -> None:
    """tests/capture/ranks/test_mismatches.py has all kinds."""
    ran = two.run(f"{head}\ndist.broadcast({ONES}, src=rank)")
    assert "CommunicationError on ranks 0, 1: collectives do not match" in str(ran.error)
    assert "rank 1 is in broadcast from rank 1 (line 2)" in str(ran.error)
    _goes_on(two)


@pytest.mark.parametrize("head", ["%%ranks", "%%ranks --plain"])
def test_a_rank_waiting_at_the_end_is_freed_on_the_line_that_queued(two: Notebook, head: str) -> None:
    ran = two.run(f"{head}\nt = {ONES}\nif rank == 0:\n    dist.all_reduce(t)")
    assert re.sub(r", the \d+\w\w collective of the default group", "", str(ran.error)).split("\n") == [
        "rank 0 waits in all_reduce (called on line 4); rank 1 has finished the cell and will not join",
        "rank 0 was freed on line 4 while it waited in all_reduce",
    ]
    _goes_on(two)


@pytest.mark.parametrize("head", ["%%ranks", "%%ranks --plain"])
def test_a_message_without_a_sender_is_reported_for_its_cell(two: Notebook, head: str) -> None:
    ran = two.run(f"{head}\nt = {ONES}\ndist.recv(t, 1 - rank)")
    assert "rank 1 was freed on line 3 while it waited in recv with rank 0" in str(ran.error)
    _goes_on(two)
