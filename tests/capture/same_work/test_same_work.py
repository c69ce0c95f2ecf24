"""Cheats are not comparable, on the simulated device and on the CPU; honest pairs get their verdict."""

import threading
from collections.abc import Iterator

import pytest

import perfmagic
from perfmagic.analysis.bench.same_work import REFUSED

torch = pytest.importorskip("torch", reason="the work is torch's")

from .cheats import CHEATS, matrices  # noqa: E402 - need torch
from .honest import HONEST  # noqa: E402

pytestmark = pytest.mark.slow
FEW = {"samples": 6, "warmup": 2}
NAMES = ("first", "other")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The machine's cores are shared by tests."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    while POOLS:
        POOLS.pop().shutdown(cancel_futures=True)
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()
    torch.set_num_threads(before)


def device_named(kind: str) -> str:
    return str(perfmagic.device("sim", pace="matmul=200us")) if kind == "sim" else "cpu"


CASES = [(name, kind) for name, cheat in CHEATS.items() for kind in cheat.devices]


def test_there_are_thirty_cheats_and_eighteen_honest_pairs_or_more() -> None:
    assert len(CHEATS) >= 30
    assert len(HONEST) >= 18


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_cheat_is_not_comparable_and_the_reason_is_its_own(name: str, kind: str) -> None:
    cheat, device = CHEATS[name], device_named(kind)
    first, other = cheat.make(device)
    found = perfmagic.compare(first, other, inputs=cheat.inputs(device), names=NAMES, **FEW)
    assert (found.verdict, found.ratio) == ("not comparable", 0.0)
    refused = {check.name for check in found.checks if check.outcome == REFUSED}
    assert refused & {*cheat.rows}, found.checks
    assert found.not_comparable in {check.detail for check in found.checks if check.outcome == REFUSED}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, pair in HONEST.items() for kind in pair.devices])
def test_an_honest_pair_gets_its_verdict(name: str, kind: str) -> None:
    pair, device = HONEST[name], device_named(kind)
    first, other = pair.make(device)
    found = perfmagic.compare(first, other, inputs=matrices(device, count=pair.count), names=NAMES, **pair.said, **FEW)
    assert found.not_comparable is None
    assert found.verdict in ("faster", "slower", "same", "unclear")
