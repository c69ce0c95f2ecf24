"""The clock that everything recorded is timed by: unix time that never steps back, or virtual host time."""

from __future__ import annotations

import itertools
import operator
import threading
import time
from collections.abc import Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_READINGS = 5
_STANDS_NS = 1 << 62  # behind perf_counter: so far that it never comes


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
    """Virtual host time in unix ns. It stops unless it is advanced, from any thread.

    A measured one goes with perf_counter besides, and stands still while a thread is at the device's own work.

    measured: which of both.  way_ns: of a call from Python through torch to the device, and back; 0 until it is known.
    moving: held by the thread that moves it, and by one that launches or changes the clock of the process.
    read_ns: a function in C, as interrupts in Python code that ends an object are swallowed (perfmagic.sim.blocks).
    """

    def __init__(self, start_ns: int) -> None:
        self._least_ns = [start_ns]  # where it stands; it goes from there on
        self._behind_ns = [_STANDS_NS]  # perf_counter, while it goes
        self._rest_ns = 0  # until it really goes
        self._at_work: set[int] = set()  # threads
        self.measured = False
        self.way_ns = 0
        self.moving = threading.RLock()
        least_ns, behind_ns = (partial(each.__getitem__, 0) for each in (self._least_ns, self._behind_ns))
        goes_ns = map(operator.sub, iter(time.perf_counter_ns, None), iter(behind_ns, None))
        self._readers: tuple[Callable[[], int], ...] = least_ns, map(max, iter(least_ns, None), goes_ns).__next__
        self.read_ns: Callable[[], int] = self._readers[0]

    def measure(self, wanted: bool) -> None:
        """Go with Python's own time from now on, or be counted. Clears what an interrupt left behind."""
        with self.moving:
            self._stand()
            self._rest_ns = 0
            self._at_work.clear()
            self.measured, self.read_ns = wanted, self._readers[wanted]
            if wanted:
                self._go()

    def begin_work(self) -> None:
        """Stand still from now on, as this thread is at the device's work; only on a measured clock."""
        with self.moving:
            self._stand()
            self._at_work.add(threading.get_ident())

    def end_work(self, rest_ns: int = 0) -> None:
        """Go on after a rest, unless another thread is at it; harmless on a clock that goes."""
        with self.moving:
            self._at_work.discard(threading.get_ident())
            if self.measured and not self._at_work and self._behind_ns[0] == _STANDS_NS:
                self._rest_ns = max(rest_ns, self._rest_ns)
                self._go()

    @property
    def stands(self) -> bool:
        """Whether this thread's time does not count, as it is at the device's work."""
        return threading.get_ident() in self._at_work

    def advance(self, ns: int) -> int:
        """Let so much time pass, and give the time then."""
        with self.moving:
            self._least_ns[0] = self.read_ns() + ns
            if self._behind_ns[0] != _STANDS_NS:
                self._behind_ns[0] -= ns
            return self._least_ns[0]

    def wait_until(self, ns: int) -> None:
        """Let time pass until an instant; nothing where that is over."""
        with self.moving:
            self.advance(max(0, ns - self.read_ns()))

    def _stand(self) -> None:
        goes_ns = time.perf_counter_ns() - self._behind_ns[0]
        if self._behind_ns[0] != _STANDS_NS:
            self._rest_ns = max(0, self._least_ns[0] - goes_ns)
        self._least_ns[0] = max(self._least_ns[0], goes_ns)
        self._behind_ns[0] = _STANDS_NS

    def _go(self) -> None:
        self._behind_ns[0] = time.perf_counter_ns() - self._least_ns[0] + self._rest_ns


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
START_NS = 946_684_800 * 10**9  # 2000-01-01, so that a virtual time is not mistaken for the time of day
HOST = HostClock(START_NS)
VIRTUAL: list[HostClock] = []  # the clock, while the process keeps virtual time; a look at it is no call


def virtual_clock() -> HostClock | None:
    """The clock of the process while it keeps virtual time; None on real time."""
    return VIRTUAL[0] if VIRTUAL else None


def begin_together(ns: int) -> None:
    """Let virtual time pass until an instant that all ranks of a job agree on."""
    if VIRTUAL:
        VIRTUAL[0].wait_until(ns)


def keep_virtual_time(wanted: bool, measured: bool = False) -> None:
    """Keep virtual or real time from now on, with a host that is counted or measured. It goes on where it stopped."""
    HOST.measure(wanted and measured)
    VIRTUAL[:] = [HOST] if wanted else []


def at_work(function: Callable[P, R], *, through_torch: bool = False) -> Callable[P, R]:
    """Let a measured host stand still in a function: it is the device, or what a driver does and constants count.

    through_torch: and for as long as torch takes to call it, which an operator's constant has in it.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        if not HOST.measured or HOST.stands:
            return function(*args, **kwargs)
        try:
            HOST.begin_work()
            return function(*args, **kwargs)
        finally:
            HOST.end_work(HOST.way_ns if through_torch else 0)

    return call


def reader() -> Callable[[], int]:
    """What reads the host's time in ns: perf_counter_ns, or the virtual clock; the same until the clock is changed."""
    return VIRTUAL[0].read_ns if VIRTUAL else time.perf_counter_ns


def is_repeatable() -> bool:
    """Whether the same code takes the same time on each run: on a virtual clock with a counted host."""
    return bool(VIRTUAL) and not VIRTUAL[0].measured


def spent_reader(clock_ns: Callable[[], int]) -> Callable[[], int]:
    """What reads how long something takes that such a clock times; a measured host stands still for a part of it."""
    return time.perf_counter_ns if HOST.measured and clock_ns is HOST.read_ns else clock_ns


def read_ns() -> int:
    """The host's time in ns now, by the clock of reader()."""
    return reader()()


class _Turns(threading.local):
    """The number of the thread that asks, in the order of their first questions."""

    def __init__(self) -> None:
        self.number = next_turn()


next_turn = itertools.count(1).__next__
_turn = partial(getattr, _Turns(), "number")


def thread_reader() -> Callable[[], int]:
    """What tells which thread asks, in C: its number in the system; in virtual time its turn, the same on each run."""
    return _turn if VIRTUAL else threading.get_native_id


# The clock of the simulated device: monotonic, in unix nanoseconds.

OFFSET_NS = unix_offset_ns()


def real_ns() -> int:
    """Unix time in ns that never steps back: perf_counter_ns plus an offset taken once."""
    return time.perf_counter_ns() + OFFSET_NS


def now_ns() -> int:
    """The time of real_ns(), or virtual time."""
    # not real_ns(): every launch asks here
    return VIRTUAL[0].read_ns() if VIRTUAL else time.perf_counter_ns() + OFFSET_NS
