"""A call that never returns is stopped, or its name is said with the interrupt; everything is put back."""

import gc
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import pytest

import perfmagic
from perfmagic.base.errors import CaptureError, OptionError
from perfmagic.base.free_memory import available_bytes
from perfmagic.capture.bench import limit

pytestmark = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to one thread")


def state() -> tuple[object, ...]:
    return gc.isenabled(), sys.stdout, sys.gettrace(), sys.getprofile(), signal.getsignal(signal.SIGINT)


def honest() -> int:
    return sum(range(1000))


def hangs_after(calls: int, *, asleep: bool) -> Callable[[], int]:
    count = itertools.count()

    def hangs() -> int:
        while next(count) >= calls:
            time.sleep(1000 if asleep else 0)
        return sum(range(1000))

    return hangs


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(("calls", "asleep"), [(0, True), (500, False)])
def test_a_call_that_does_not_return_is_stopped_and_named(calls: int, asleep: bool, check: bool) -> None:
    before, threads = state(), threading.active_count()
    with pytest.raises(CaptureError, match=r"a call of hangs had not returned after .*limit=0.2 s"):
        perfmagic.compare(honest, hangs_after(calls, asleep=asleep), limit=0.2, check=check)
    assert state() == before
    assert threading.active_count() <= threads + 1  # it ends within a quarter of the limit


def test_a_clock_that_stands_still_ends_the_call_and_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "NOW_NS", lambda: 7)  # as a clock that something has replaced from below
    with pytest.raises(CaptureError, match="the clock stands still: hangs may have replaced it"):
        perfmagic.compare(honest, hangs_after(0, asleep=True), limit=0.4)


def test_an_interrupt_says_whose_call_ran_and_for_how_long() -> None:
    before = state()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt, match=r"a call of hangs had not returned after \d"):
        perfmagic.compare(honest, hangs_after(0, asleep=True))
    assert state() == before


def test_a_limit_of_no_time_is_refused() -> None:
    with pytest.raises(OptionError, match="limit=0: a time above 0 s is needed"):
        perfmagic.compare(honest, honest, limit=0)


@pytest.mark.skipif(not available_bytes(), reason="the system does not say how much memory is free")
def test_calls_that_keep_memory_end_before_half_of_what_was_free_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "available_bytes", lambda: 500_000_000)
    kept: list[bytearray] = []
    with pytest.raises(CaptureError, match=r"the calls keep memory: this process holds [\d.]+\s[MG]B more"):
        perfmagic.bench(lambda: kept.append(bytearray(b"x") * 50_000_000), samples=1000)
    assert len(kept) < 1000
