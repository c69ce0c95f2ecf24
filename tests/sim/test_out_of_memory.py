"""A simulated device with a limit runs out of memory as CUDA does, and goes on afterwards."""

import _thread
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

import perfmagic  # noqa: E402 - after the skip
from perfmagic.base.errors import OptionError  # noqa: E402
from perfmagic.sim.device import sim_device  # noqa: E402
from perfmagic.sim.memory import Memory  # noqa: E402

MIB = 2**20


def _bytes(n: int) -> Any:
    return torch.zeros(n, dtype=torch.uint8, device="sim")


@pytest.fixture(autouse=True)
def _limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    perfmagic.device("sim")
    monkeypatch.setattr(sim_device(0), "memory", Memory(0))  # nothing of another test is in it
    perfmagic.device("sim", memory="100MiB")
    yield
    perfmagic.device("sim", memory=0)


def test_the_limit_holds_to_the_segment() -> None:
    kept = [_bytes(20 * MIB) for _ in range(5)]
    with pytest.raises(torch.OutOfMemoryError):
        _bytes(1)
    assert torch.sim.memory_reserved() == 100 * MIB
    del kept[0]
    assert _bytes(20 * MIB).shape == (20 * MIB,)


def test_the_message_has_cudas_words_and_the_largest_free_piece() -> None:
    kept = [_bytes(4 * MIB) for _ in range(25)]
    del kept[1], kept[6], kept[6]
    with pytest.raises(torch.OutOfMemoryError) as failed:
        _bytes(9 * MIB)
    assert str(failed.value) == (
        "simulated device out of memory. Tried to allocate 9.00 MiB. GPU 0 has a total capacity of 100.00 MiB of which "
        "0 bytes is free. Of the allocated memory 88.00 MiB is allocated by PyTorch, and 12.00 MiB is reserved by "
        "PyTorch but unallocated; its largest free piece has 8.00 MiB."
    )


def test_what_does_not_fit_is_not_run_and_nothing_is_queued() -> None:
    x = _bytes(60 * MIB)
    launched = sim_device(0).progress
    with pytest.raises(torch.OutOfMemoryError):
        x + 1
    assert sim_device(0).progress == launched
    assert torch.sim.memory_allocated() == 60 * MIB
    assert x.add_(1)[-1].item() == 1


def test_unused_segments_are_given_back_before_it_fails() -> None:
    kept = [_bytes(20 * MIB) for _ in range(5)]
    kept.clear()
    assert torch.sim.memory_reserved() == 100 * MIB
    assert _bytes(90 * MIB).shape == (90 * MIB,)
    stats = torch.sim.memory_stats()
    assert (stats["num_ooms"], stats["num_alloc_retries"]) == (0, 1)


def test_far_more_than_the_host_has_is_refused_before_the_host_allocates() -> None:
    with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 931322\.57 GiB"):
        torch.empty(10**15, dtype=torch.uint8, device="sim")
    with pytest.raises(torch.OutOfMemoryError):
        torch.ones(1, device="cpu").expand(10**9).to("sim")


def test_a_backward_pass_runs_out_by_the_same_name_and_the_next_step_works() -> None:
    layers = [torch.nn.Linear(256, 256) for _ in range(6)]
    net = torch.nn.Sequential(*layers).to("sim")
    x = torch.ones(8192, 256, device="sim")
    perfmagic.device("sim", memory=torch.sim.memory_reserved() + 60 * MIB)
    loss = net(x).square().sum()
    filling = []
    with suppress(torch.OutOfMemoryError):
        while True:
            filling.append(_bytes(MIB + 1))
    with pytest.raises(torch.OutOfMemoryError):
        loss.backward()
    del filling, loss
    net.zero_grad()
    net(x[:64]).square().sum().backward()
    assert layers[0].weight.grad is not None


def test_the_traceback_ends_at_the_callers_line() -> None:
    x = _bytes(60 * MIB)
    with pytest.raises(torch.OutOfMemoryError) as failed:
        x * 2
    assert failed.traceback[0].name == "test_the_traceback_ends_at_the_callers_line"


def test_the_bound_agrees_with_settled_memory_after_any_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = sim_device(0).memory
    rng = random.Random(5)
    kept: list[Any] = []
    refused = looked = 0
    capacity = memory.capacity
    look = capacity.look

    def counted() -> None:
        nonlocal looked
        looked += 1
        look()

    monkeypatch.setattr(capacity, "look", counted)
    for _ in range(3000):
        size = rng.choice([300, 5000, 700_000, MIB, 3 * MIB, 9 * MIB, 12 * MIB])
        try:
            held = memory.allocate(size, rng.choice([0, 0, 0, 7]))
        except torch.OutOfMemoryError:
            refused += 1
            kept = kept[len(kept) // 2 :]
            continue
        kept.append(held)
        if rng.random() < 0.45 and kept:
            kept.pop(rng.randrange(len(kept)))
        if rng.random() < 0.05:
            assert memory.settle().reserved <= 100 * MIB
    del held
    assert memory.settle().peak_reserved <= 100 * MIB
    assert refused > 10
    assert looked < 1500  # not at every request


def test_far_from_the_limit_nothing_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    perfmagic.device("sim", memory="100GB")
    _bytes(1)
    memory = sim_device(0).memory
    monkeypatch.setattr(memory, "settle", lambda: pytest.fail("settled"))
    held = [memory.allocate(1000 * (i % 900 + 1), 0) for i in range(3000)]
    monkeypatch.undo()
    assert len(held) == 3000


def test_where_all_is_counted_no_thread_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    start = _thread.start_new_thread
    memory = Memory(0)
    held = memory.allocate(MIB, 0)
    monkeypatch.setattr(_thread, "start_new_thread", lambda *given: started.append(given) or start(*given))
    assert [memory.settle().allocated for _ in range(3)] == [MIB] * 3
    assert len(started) == 1
    del held
    assert [memory.settle().allocated for _ in range(3)] == [0] * 3
    assert len(started) == 2


def test_torch_sim_reports_its_memory() -> None:
    assert torch.sim.mem_get_info() == (100 * MIB, 100 * MIB)
    kept = _bytes(30 * MIB)
    assert torch.sim.mem_get_info("sim:0") == (70 * MIB, 100 * MIB)
    summary = torch.sim.memory_summary()
    assert "capacity: 100.00 MiB" in summary
    assert re.search(r"^Allocated memory +30\.00 MiB +\d", summary, re.MULTILINE)
    del kept
    assert re.search(r"^Largest free piece +30\.00 MiB$", torch.sim.memory_summary(), re.MULTILINE)
    torch.sim.empty_cache()
    assert torch.sim.mem_get_info() == (100 * MIB, 100 * MIB)
    perfmagic.device("sim", memory=0)
    free, total = torch.sim.mem_get_info()
    assert 0 < free <= total
    assert "capacity: no limit" in torch.sim.memory_summary()


def test_every_device_has_the_limit() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="GPU 1 has"):
        torch.zeros(101 * MIB, dtype=torch.uint8, device="sim:1")


@pytest.mark.parametrize("given", ["2", "2 Gb/s", "much", -1, 1.5, True, ""])
def test_an_unreadable_number_of_bytes_is_refused(given: Any) -> None:
    with pytest.raises(OptionError, match="is not a number of bytes"):
        perfmagic.device("sim", memory=given)


@pytest.mark.parametrize(("given", "n"), [("2GB", 2e9), ("1.5 GiB", 1.5 * 2**30), ("512MiB", 2**29), (4096, 4096)])
def test_sizes_are_read_as_written(given: Any, n: float) -> None:
    perfmagic.device("sim", memory=given)
    assert torch.sim.mem_get_info()[1] == n
