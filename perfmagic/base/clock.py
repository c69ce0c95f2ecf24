"""The clock that everything recorded is timed by: unix time that never steps back, or virtual host time."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from functools import partial

_READINGS = 5


def unix_offset_ns() -> int:
    """Unix time minus what reader() reads: of perf_counter from the closest of a few readings, of a virtual clock 0.

    Between two calls a process can lose its core, and time_ns can step by 15.6 ms.
    """
    if VIRTUAL:
        return 0
    best_gap_ns, best_offset_ns = 1 << 62, 0
    for _ in range(_READINGS):
        before_ns = time.perf_counter_ns()
        unix_ns = time.time_ns()
        after_ns = time.perf_counter_ns()
        if after_ns - before_ns < best_gap_ns:
            best_gap_ns = after_ns - before_ns
            best_offset_ns = unix_ns - (before_ns + after_ns) // 2
    return best_offset_ns


class HostClock:
    """Virtual host time in unix ns: it stands still unless somebody moves it on, from any thread.

    moving: held by the thread that moves it, and by one that launches or changes the clock of the process.
    read_ns: a function in C, as interrupts in Python code that ends an object are swallowed (perfmagic.sim.blocks).
    """

    def __init__(self, start_ns: int) -> None:
        self._at_ns = [start_ns]
        self.moving = threading.RLock()
        self.read_ns: Callable[[], int] = partial(self._at_ns.__getitem__, 0)

    def advance(self, ns: int) -> int:
        """Let so much time pass, and give the time then."""
        with self.moving:
            self._at_ns[0] += ns
            return self._at_ns[0]

    def wait_until(self, ns: int) -> None:
        """Let time pass until an instant; nothing where that is over."""
        with self.moving:
            self._at_ns[0] = max(self._at_ns[0], ns)


# What the host needs, in ns. An assumption, and no measurement: a fast host, without a profiler. Thirty public records
# of GPUs have 15 to 107 µs between launches, all with a profiler.
HOST_NS = {
    "operator": 2_000,  # of an elementwise operator, before its launch
    "launch": 3_000,
    "view": 1_200,  # and an allocation
    "event": 1_500,  # record, wait, query
    "wait": 8_000,  # of the host, once what it waits for is done
    "module": 5_000,  # a call of a torch.nn.Module with a tensor of the device, or by keyword with its parameters there
}
START_NS = 946_684_800 * 10**9  # 2000-01-01, so that nobody takes a virtual time for the time of day
HOST = HostClock(START_NS)
VIRTUAL: list[HostClock] = []  # the clock, while the process keeps virtual time; a look at it is no call


def virtual_clock() -> HostClock | None:
    """The clock of the process while it keeps virtual time; None on real time."""
    return VIRTUAL[0] if VIRTUAL else None


def begin_together(ns: int) -> None:
    """Let virtual time pass until an instant that all ranks of a job agree on."""
    if VIRTUAL:
        VIRTUAL[0].wait_until(ns)


def keep_virtual_time(wanted: bool) -> None:
    """Keep virtual or real time from now on. Virtual time goes on where it stopped."""
    VIRTUAL[:] = [HOST] if wanted else []


def reader() -> Callable[[], int]:
    """What reads the host's time in ns: perf_counter_ns, or the virtual clock; the same until the clock is changed."""
    return VIRTUAL[0].read_ns if VIRTUAL else time.perf_counter_ns


def read_ns() -> int:
    """The host's time in ns now, by the clock of reader()."""
    return reader()()


class _Turns(threading.local):
    """The number of the thread that asks, in the order of their first questions."""

    def __init__(self) -> None:
        self.number = next_turn()


next_turn = itertools.count(1).__next__
_of_thread = _Turns()


def thread_reader() -> Callable[[], int]:
    """What tells which thread asks, in C: its number in the system; in virtual time its turn, the same on each run."""
    return partial(getattr, _of_thread, "number") if VIRTUAL else threading.get_native_id


# The clock of the simulated device: monotonic, in unix nanoseconds.

OFFSET_NS = unix_offset_ns()


def real_ns() -> int:
    """Unix time in ns that never steps back: perf_counter_ns plus an offset taken once."""
    return time.perf_counter_ns() + OFFSET_NS


def now_ns() -> int:
    """The time of real_ns(), or virtual time."""
    # not real_ns(): every launch asks here
    return VIRTUAL[0].read_ns() if VIRTUAL else time.perf_counter_ns() + OFFSET_NS
