"""The virtual clock of the host: moved by who counts, or going with Python's own time but for the device's work."""

import threading
import time

import pytest

from perfmagic.base.clock import HostClock


class Real:
    """perf_counter, as a test sets it."""

    def __init__(self) -> None:
        self.ns = 5_000

    def __call__(self) -> int:
        return self.ns


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Real:
    clock = Real()
    monkeypatch.setattr(time, "perf_counter_ns", clock)
    return clock


def test_a_counted_clock_stands_unless_it_is_moved(real: Real) -> None:
    clock = HostClock(1_000)
    real.ns += 70
    assert clock.read_ns() == 1_000
    assert clock.advance(5) == clock.read_ns() == 1_005


def test_a_measured_clock_goes_on_from_where_it_stood_and_stops_there(real: Real) -> None:
    clock = HostClock(1_000)
    clock.measure(True)
    real.ns += 70
    assert clock.read_ns() == 1_070
    assert clock.advance(5) == 1_075
    real.ns += 10
    clock.wait_until(1_200)
    clock.wait_until(1_100)
    assert clock.read_ns() == 1_200
    clock.measure(False)
    real.ns += 70
    assert clock.read_ns() == 1_200


def test_work_of_the_device_takes_what_is_counted(real: Real) -> None:
    clock = HostClock(1_000)
    clock.measure(True)
    assert not clock.stands
    real.ns += 10
    clock.begin_work()
    assert clock.stands
    real.ns += 1_000_000
    assert clock.advance(5) == 1_015
    real.ns += 1_000_000
    clock.end_work()
    real.ns += 10
    assert clock.read_ns() == 1_025


def test_a_rest_after_the_work_is_left_out_also_where_work_begins_in_it(real: Real) -> None:
    clock = HostClock(1_000)
    clock.measure(True)
    clock.begin_work()
    clock.end_work(rest_ns=30)
    real.ns += 10
    assert clock.read_ns() == 1_000
    clock.begin_work()
    real.ns += 500
    clock.end_work()
    real.ns += 19
    assert clock.read_ns() == 1_000
    real.ns += 2
    assert clock.read_ns() == 1_001


def test_the_clock_goes_on_when_the_last_thread_has_done_its_work(real: Real) -> None:
    clock = HostClock(1_000)
    clock.measure(True)
    clock.begin_work()
    other = threading.Thread(target=clock.begin_work)
    other.start()
    other.join()
    clock.end_work()
    real.ns += 10
    assert (clock.read_ns(), clock.stands) == (1_000, False)
    clock.measure(True)  # a thread that was interrupted in its work has ended it
    real.ns += 10
    assert clock.read_ns() == 1_010
    clock.end_work()
    real.ns += 10
    assert clock.read_ns() == 1_020
