"""Random failures in a row: after each the next cell is a good one, and nothing grows."""

import os
import random
import signal
import threading

import pytest

from .conftest import Cells

pytestmark = pytest.mark.slow
FEW = 20
MANY = 100


def fail(cells: Cells, rng: random.Random) -> None:
    kind = rng.choice(["raise", "absent", "interrupt", "late", "recv", "fine"])
    who = rng.randrange(cells.session.world)
    body = {
        "raise": f"if rank == {who}: raise ValueError('x')\nuse()",
        "absent": f"if rank != {who}: use()",
        "interrupt": f"if rank == {who}: time.sleep(600)\nuse()",
        "late": f"use()\nif rank == {who}: time.sleep(0.05); 1 / 0\nuse()",
        "recv": f"if rank == {who}: dist.recv(t, {(who + 1) % cells.session.world})",
        "fine": "use()",
    }[kind]
    timer = threading.Timer(rng.uniform(0.0, 0.3), lambda: os.kill(os.getpid(), signal.SIGINT))
    if kind == "interrupt":
        timer.start()
    record = rng.choice([None, {}])
    try:
        end = cells.run(body, record=record)
    except KeyboardInterrupt:  # it came before the cell had begun
        return
    finally:
        timer.cancel()
        if kind == "interrupt":
            timer.join()
    if kind == "fine":
        assert end.failures == ()
    else:
        assert end.failures or end.interrupted


def held(pid: int) -> tuple[int, int]:
    """How many descriptors and threads a process has."""
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208


@pytest.mark.parametrize("rounds", [FEW, pytest.param(MANY, marks=pytest.mark.stress)])
def test_random_failures_leave_every_next_cell_good(three: Cells, rounds: int) -> None:
    rng = random.Random(rounds)
    bad, before = [], threading.active_count()  # other tests of this process have threads of their own
    for k in range(rounds):
        fail(three, rng)
        if not three.works():
            bad.append(k)
    assert bad == []
    assert threading.active_count() < before + 5
