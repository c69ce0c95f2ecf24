"""What the loop around a body takes; it is subtracted from the samples."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from perfmagic.capture.bench.body_loop import BodyLoop, Phase
from perfmagic.capture.bench.device_use import Devices
from perfmagic.capture.bench.stopwatch import Reading, Stopwatch

AT_FIRST = 15  # measurements; an odd number, so that the median is one of them
CALLS_AT_FIRST = 255  # in all of them at least: a block of one call is as short as what disturbs it; 9 ms
MOST_CALLS = 6000  # of a block: 0.1 ms, in which the machine rarely changes its speed; the clock is 0.05 ns a call
EVERY = 16  # measurements, before their median is taken again


class EmptyLoop:
    """The loop and the two readings of the clock, for samples of k calls. Never counted as runs of a body.

    It is measured around a few ns of work, executed once and twice per iteration (2 × once - twice): an empty loop
    overestimates it by up to 1 ns, as each iteration then waits for the one before (benchmarks/bench_accuracy.py).
    again() repeats the measurement beside the samples: where the machine changes its speed, the loop does too.
    returns_ns, done_ns: a call, the medians.
    """

    def __init__(self, clock_ns: Callable[[], int], k: int) -> None:
        self._watch, self._k = Stopwatch(clock_ns, Devices(tuple)), min(k, MOST_CALLS)
        self._found: list[tuple[float, float]] = []  # returns and done a call, in ns
        self._measure(max(AT_FIRST, CALLS_AT_FIRST // k))

    def again(self) -> None:
        """One measurement more."""
        self._measure(1)

    def _measure(self, times: int) -> None:
        for _ in range(times):
            self._found.append(self._there_and_back())
        if times > 1 or len(self._found) % EVERY == 0:
            returns_ns, done_ns = zip(*self._found, strict=True)
            self.returns_ns = max(0.0, statistics.median_low(returns_ns))
            self.done_ns = max(self.returns_ns, statistics.median_low(done_ns))

    def _there_and_back(self) -> tuple[float, float]:
        """Once, twice, twice, once: what changes steadily cancels."""
        taken: list[Reading] = []
        for rounds in (_once, _twice, _twice, _once):
            rounds(BodyLoop((part for part in [(0, self._block(taken))]), self._watch.clock_ns))
        first, second, third, last = taken
        returns_ns = first.returns_ns + last.returns_ns - (second.returns_ns + third.returns_ns) / 2
        done_ns = first.done_ns + last.done_ns - (second.done_ns + third.done_ns) / 2
        return returns_ns / self._k, done_ns / self._k

    def _block(self, taken: list[Reading]) -> Phase[None]:
        taken.append((yield from self._watch.sample(self._k)))


def _once(loop: BodyLoop) -> None:
    while loop.more():
        for () in loop.repetitions(0):
            None is None


def _twice(loop: BodyLoop) -> None:
    while loop.more():
        for () in loop.repetitions(0):
            None is None
            None is None
