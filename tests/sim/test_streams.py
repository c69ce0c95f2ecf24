"""Streams, events, the queue, and errors that come late."""

import threading
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

from perfmagic import sim  # noqa: E402 - after the skip
from perfmagic.sim.queues import QUEUE_LAUNCHES  # noqa: E402
from tests.sim.test_log import Recorded  # noqa: E402
from tests.sim_gate import in_flight  # noqa: E402

Hold = Callable[[], Callable[[], None]]


def test_no_time_lies_between_events_that_are_not_reached_or_do_not_measure(hold: Hold) -> None:
    first, last = torch.sim.Event(enable_timing=True), torch.sim.Event(enable_timing=True)
    hold()
    first.record()
    last.record()
    with pytest.raises(RuntimeError, match="not reached"):
        first.elapsed_time(last)
    with pytest.raises(RuntimeError, match="enable_timing"):
        torch.sim.Event().elapsed_time(last)


def test_nothing_is_in_flight_after_synchronize(hold: Hold) -> None:
    side = torch.sim.Stream()
    with torch.sim.stream(side):
        release = hold()
    torch.sim._sleep(0.01)
    assert not side.query()
    release()
    sim.synchronize()
    assert in_flight() == 0
    assert side.query()


def test_the_host_blocks_when_the_queue_is_full(hold: Hold) -> None:
    release = hold()
    a = torch.empty(1, device="sim")
    for _ in range(QUEUE_LAUNCHES):
        a.fill_(1)
    one_more = threading.Thread(target=lambda: a.fill_(2))
    one_more.start()
    one_more.join(0.2)
    assert one_more.is_alive()
    assert in_flight() == QUEUE_LAUNCHES + 1  # those that wait, and the one that runs
    release()
    one_more.join()
    assert a.item() == 2


def test_a_wrong_index_is_an_error_at_the_next_wait_and_only_there() -> None:
    table = torch.nn.Embedding(10, 4).to("sim")
    lost = table(torch.tensor([99], device="sim")).sum()
    with pytest.raises(RuntimeError, match="embedding failed on the simulated device: index out of range"):
        sim.synchronize()
    sim.synchronize()
    assert table(torch.tensor([1], device="sim")).shape == (1, 4)
    with pytest.raises(RuntimeError, match="never computed"):
        lost.item()


def test_item_reports_an_error_of_an_earlier_op() -> None:
    table = torch.nn.Embedding(10, 4).to("sim")
    lost = table(torch.tensor([99], device="sim")).sum()
    with pytest.raises(RuntimeError, match="index out of range"):
        lost.item()
    assert torch.ones(2, device="sim").sum().item() == 2


def test_threads_that_launch_together_lose_nothing() -> None:
    totals = [torch.zeros(1, device="sim") for _ in range(3)]

    def add(total: object) -> None:
        for _ in range(200):
            total.add_(1)  # type: ignore[attr-defined]

    threads = [threading.Thread(target=add, args=(t,)) for t in totals]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [t.item() for t in totals] == [200, 200, 200]


@pytest.mark.parametrize("waits", [False, True])
def test_backward_under_a_stream_runs_there_and_others_wait_for_that_stream(waits: bool) -> None:
    """Source: torch's notes on CUDA semantics, "Stream semantics of backward passes"."""
    side = torch.sim.Stream()
    w = torch.ones(3, device="sim", requires_grad=True)
    with Recorded() as recorded:
        with torch.sim.stream(side):
            (w * 2).sum().backward()
        if waits:
            torch.sim.current_stream().wait_stream(side)
        w.grad.add_(1)
    assert w.grad.tolist() == [3, 3, 3]
    assert len(recorded.records().races) == (not waits)
    assert side.stream_id in recorded.records().ops["stream"][-3:]


def test_recorded_memory_stays_taken_until_the_other_stream_is_done(hold: Hold) -> None:
    side = torch.sim.Stream()
    with torch.sim.stream(side):
        release = hold()
    before = torch.sim.memory_allocated()
    plain, recorded = (torch.zeros(1 << 18, device="sim") for _ in range(2))
    recorded.record_stream(side)
    del plain, recorded
    assert torch.sim.memory_allocated() == before + (1 << 20)
    release()
    side.synchronize()
    assert torch.sim.memory_allocated() == before
