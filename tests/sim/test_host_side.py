"""Interrupts, pace, copies that wait, threads: what the host sees. tests/conformance asks the rest."""

import gc
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

from perfmagic import sim  # noqa: E402 - after the skip
from tests.sim_gate import in_flight  # noqa: E402

pytestmark = pytest.mark.slow

Hold = Callable[[], Callable[[], None]]

AGAIN_S = 5.0  # until an interrupt is sent once more: what cleans up after the first must not be struck


@contextmanager
def _interrupt_after(seconds: float, again_s: float = AGAIN_S) -> Iterator[None]:
    """Interrupt what runs inside after so long, and again as long as it goes on.

    Once is not enough: Python drops an exception that is raised in a callback of the collector, and others have such
    callbacks written in Python (hypothesis keeps one from its first use on). The alarm that pytest-timeout has set for
    the test is put back.
    """
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    begin = time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, again_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(0.001, left - (time.monotonic() - begin)), interval)


def test_an_interrupt_that_is_dropped_is_sent_again() -> None:
    dropped = []

    class Ends:
        def __del__(self) -> None:
            try:
                while not dropped:
                    time.sleep(0.01)
            except KeyboardInterrupt:
                dropped.append(True)

    with pytest.raises(KeyboardInterrupt), _interrupt_after(0.2, 1.0):  # noqa: PT012 - one inside the other
        Ends()
        while True:
            time.sleep(0.01)
    assert dropped


def test_the_alarm_of_the_test_itself_stays() -> None:
    with suppress(KeyboardInterrupt):
        outer = signal.setitimer(signal.ITIMER_REAL, 50)
        with _interrupt_after(0.01):
            time.sleep(10)
    left = signal.setitimer(signal.ITIMER_REAL, *outer)[0]
    assert 40 < left < 50


def test_an_interrupt_of_a_launch_that_blocks_leaves_a_device_that_works() -> None:
    a = torch.zeros(1, device="sim")
    launched = 0
    sim.synchronize()
    torch.sim._sleep(0.6)
    with pytest.raises(KeyboardInterrupt), _interrupt_after(0.3):  # noqa: PT012 - it strikes anywhere
        while True:
            a.add_(1)
            launched += 1
    assert a.item() in (launched, launched + 1)
    assert in_flight() == 0


def test_an_interrupt_of_a_wait_leaves_a_device_that_works(hold: Hold) -> None:
    a = torch.ones(2, device="sim")
    for wait in (lambda: a.sum().item(), sim.synchronize, a.cpu):
        release = hold()
        with pytest.raises(KeyboardInterrupt), _interrupt_after(0.05):
            wait()
        release()
    assert a.sum().item() == 2


def test_interrupts_at_any_moment_leave_no_deadlock() -> None:
    dice = random.Random(1)
    side = torch.sim.Stream()
    for _ in range(40):
        a = torch.zeros(1, device="sim")
        launched = 0
        try:
            with _interrupt_after(dice.uniform(0.001, 0.01)):
                while True:
                    a.add_(1)
                    launched += 1
                    with torch.sim.stream(side):
                        side.wait_stream(torch.sim.default_stream())
                        a.view(1) + 1
                    if launched % 16 == 0:
                        sim.synchronize()
        except KeyboardInterrupt:
            torch.sim.set_stream(torch.sim.default_stream())
        assert a.item() in (launched, launched + 1)
    sim.synchronize()


def test_interrupts_at_any_moment_leave_memory_counted_right() -> None:
    dice = random.Random(2)
    torch.sim.synchronize()  # an op under way holds what it reads
    gc.collect()  # what other tests left in cycles must not go in the middle of this one
    before, reserved = torch.sim.memory_allocated(), torch.sim.memory_reserved()
    for _ in range(60):
        with suppress(KeyboardInterrupt), _interrupt_after(dice.uniform(0.001, 0.01)):
            while True:
                kept = [torch.empty(1000, device="sim") for _ in range(20)]
                torch.sim.memory_allocated()
                del kept
    kept = []
    gc.collect()
    assert torch.sim.memory_allocated() == before
    assert torch.sim.memory_reserved() - reserved <= 64 * 2**20


def test_a_second_copy_from_pageable_memory_waits_for_the_first(hold: Hold) -> None:
    target = torch.zeros(2, device="sim")
    release = hold()
    target.copy_(torch.ones(2), non_blocking=True)
    released = threading.Event()

    def let_go() -> None:
        released.set()
        release()

    threading.Timer(0.05, let_go).start()
    target.copy_(torch.full((2,), 2.0), non_blocking=True)
    assert released.is_set()  # else the call above would have come back while the stream was held
    assert target.tolist() == [2, 2]


def test_results_are_those_of_one_thread_and_the_hosts_threads_stay() -> None:
    torch.set_num_threads(1)
    x = torch.randn(300_001)
    alone = x.sum()
    torch.set_num_threads(2)
    with torch.sim.stream(torch.sim.Stream()):
        assert torch.equal(x.to("sim").sum().cpu(), alone)
    assert torch.get_num_threads() == 2
