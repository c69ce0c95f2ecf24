"""%%ranks in a real kernel: real interrupts, Run All, and no process left when the kernel restarts or is killed."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="ranks need torch")

from .session import Session

HEAD = "%%ranks -n 2 --device cpu --plain"
SETUP = f"{HEAD}\nimport os, time, torch, torch.distributed as dist\nt = torch.ones(4)"
GONE_S = 10


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Session]:
    """A kernel of its own for each test: some are killed."""
    session = Session(sys.executable, tmp_path)
    assert session.run("%load_ext perfmagic").status == "ok"
    yield session
    session.close()


def below(kernel: Session) -> list[int]:
    """The processes that a kernel has started, and theirs."""
    code = "import os, psutil\n[p.pid for p in psutil.Process().children(recursive=True)]"
    found = kernel.run(code).value
    assert found is not None
    return [int(pid) for pid in found.strip("[]").split(",") if pid.strip()]


def gone(pids: list[int]) -> bool:
    until = time.monotonic() + GONE_S
    while any(running(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(running(pid) for pid in pids)


def running(pid: int) -> bool:
    """Whether a process lives; one that has ended and that nobody has asked for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_exception_stops_run_all_and_the_ranks_live(kernel: Session) -> None:
    kernel.run(SETUP)
    failed, skipped = kernel.run_all(["%%ranks --plain\nif rank: raise ValueError('boom')\ndist.barrier()", "x = 1"])
    assert (failed.status, failed.error, skipped.status) == ("error", "ValueError", "aborted")
    assert "ValueError on rank 1, line 2: boom" in failed.traceback
    assert "rank 0 was freed on line 3 while it waited in barrier" in failed.traceback
    done = kernel.run("%%ranks --plain\ndist.all_reduce(t)\nt[0].item()")
    assert (done.status, done.printed) == ("ok", "[0, 1] 2.0\n")


def test_an_interrupt_ends_the_cell_in_all_ranks_and_stops_run_all(kernel: Session) -> None:
    kernel.run(SETUP)
    body = "if rank == 0:\n    print('begun')\n    time.sleep(600)\ndist.barrier()"
    stopped, skipped = kernel.run_all([f"%%ranks --plain\n{body}", "x = 1"], interrupt_after="begun")
    assert (stopped.status, stopped.error, skipped.status) == ("error", "RanksInterrupt", "aborted")
    assert "rank 0 was interrupted on line 4" in stopped.traceback
    done = kernel.run("%%ranks --plain\ndist.all_reduce(t)\nt[0].item()")
    assert (done.status, done.printed) == ("ok", "[0, 1] 2.0\n")


def test_a_recorded_cell_gives_one_picture(kernel: Session) -> None:
    setup = "import torch, perfmagic, torch.distributed as dist\nx = torch.ones(8, device=perfmagic.device())"
    assert kernel.run(f"%%ranks -n 2 --device sim --plain\n{setup}").status == "ok"
    done = kernel.run("%%ranks\ny = x + 1\ndist.all_reduce(y)\ny[0].item()")
    assert (done.status, done.printed) == ("ok", "[0, 1] 4.0\n")
    assert len(done.displayed) == 1
    assert "2 ranks" in done.report
    assert "text/html" in done.displayed[0]


def test_an_interrupt_inside_an_await_ends_the_cell(kernel: Session) -> None:
    kernel.run(SETUP)
    body = "import asyncio\nif rank == 0: print('begun')\nfor i in range(600):\n    await asyncio.sleep(0.1)"
    stopped = kernel.run_all([f"%%ranks -q\n{body}"], interrupt_after="begun")[0]
    assert (stopped.status, stopped.error) == ("error", "RanksInterrupt")
    assert kernel.run("%%ranks --plain\nworld_size").printed == "[0, 1] 2\n"


def test_an_interrupted_sweep_keeps_the_numbers_before_and_stops_run_all(kernel: Session) -> None:
    body = "x = 1\nif world_size > 1:\n    print('begun')\n    import time; time.sleep(600)"
    head = "%%ranks --sweep n=1,2 --device cpu -r 1 --warmup 0 -o found"
    stopped, skipped = kernel.run_all([f"{head}\n{body}", "y = 1"], interrupt_after="begun")
    assert (stopped.status, stopped.error, skipped.status) == ("error", "RanksInterrupt", "aborted")
    assert "RanksInterrupt on 2 ranks ended the sweep" in " ".join(stopped.report.split())
    assert kernel.run("found.n").value == "(1,)"
    assert len(below(kernel)) <= 1  # the server that ranks are forked from


@pytest.mark.parametrize("busy", [False, True])
def test_a_restart_leaves_no_process(kernel: Session, busy: bool) -> None:
    kernel.run(SETUP)
    before = below(kernel)
    assert len(before) == 3  # two ranks, and the server they were forked from
    if busy:
        kernel._client.execute("%%ranks --plain\nif rank: time.sleep(600)\ndist.barrier()")
        time.sleep(0.5)
    kernel._manager.restart_kernel(now=busy)
    assert gone(before)


def test_a_kernel_that_is_killed_leaves_no_process(kernel: Session) -> None:
    kernel.run(SETUP)
    before = below(kernel)
    kernel._client.execute("%%ranks --plain\nif rank: time.sleep(600)\ndist.barrier()")
    time.sleep(0.5)
    os.kill(int(kernel._manager.provisioner.pid), signal.SIGKILL)  # type: ignore[union-attr, attr-defined]
    assert gone(before)


def test_a_server_that_dies_takes_its_ranks_with_it_and_the_next_start_is_a_new_one(kernel: Session) -> None:
    kernel.run(SETUP)
    code = "import psutil, os\nos.kill(psutil.Process().children()[0].pid, 9)"
    before = below(kernel)
    kernel.run(code)
    assert gone(before)
    refused = kernel.run("%%ranks --plain\n1")
    assert "%ranks restart" in refused.warned + refused.traceback
    assert kernel.run("%ranks restart").status == "ok"
    assert kernel.run("%%ranks --plain\nworld_size").printed == "[0, 1] 2\n"
