"""The samples of a benchmark, with the time of the loop around them subtracted."""

from __future__ import annotations

import numpy as np

from perfmagic.capture.bench.empty_loop import EmptyLoop
from perfmagic.capture.bench.stopwatch import Reading
from perfmagic.samples import Float64

LOOP_SEEN_FRAC = 1e-3  # of a sample: where the loop is a larger part, it is measured beside every sample


class SampleLog:
    """*returns* and *done* of every sample, in whole runs that each have an empty loop of their own.

    loop: of this run, subtracted from all its samples when they are asked for.
    run_starts: the number of the sample each run began with.
    """

    def __init__(self) -> None:
        self.loop: EmptyLoop | None = None
        self.run_starts: list[int] = []
        self._taken_ns: list[tuple[float, float]] = []  # of this run, a call, with the loop
        self._ended_s: list[Float64] = []  # of each run before, without it

    def end_run(self) -> None:
        """What comes from here on belongs to a run with another loop."""
        if self._taken_ns:
            self._ended_s, self._taken_ns = [*self._ended_s, self._without_loop(self._taken_ns)], []

    def begin_run(self) -> None:
        """The next sample is the first of a run."""
        self.run_starts.append(sum(map(len, self._ended_s)))

    def add(self, reading: Reading, calls: int) -> tuple[float, float]:
        """A sample of so many calls; gives it in seconds a call. Measures the loop once more where that is seen."""
        self._taken_ns.append((reading.returns_ns / calls, reading.done_ns / calls))
        if self.loop is not None and calls > 1 and LOOP_SEEN_FRAC * reading.returns_ns < calls * self.loop.returns_ns:
            self.loop.again()
        returns_s, done_s = self._without_loop(self._taken_ns[-1:])[0].tolist()
        return returns_s, done_s

    @property
    def of_this_run(self) -> int:
        """How many samples this run has so far."""
        return len(self._taken_ns)

    def samples_s(self) -> Float64:
        """*returns* and *done* of all runs, in seconds a call, shape (samples, 2)."""
        return np.concatenate([*self._ended_s, self._without_loop(self._taken_ns)])

    @property
    def loop_ns(self) -> tuple[float, float]:
        """What the loop takes of *returns* and of *done*, a call."""
        return (self.loop.returns_ns, self.loop.done_ns) if self.loop is not None else (0.0, 0.0)

    def _without_loop(self, taken_ns: list[tuple[float, float]]) -> Float64:
        """In seconds; not below 0, and *done* not before *returns*, which subtracting two medians could make it."""
        left = np.maximum(np.array(taken_ns, np.float64).reshape(-1, 2) - self.loop_ns, 0.0) / 1e9
        return np.maximum.accumulate(left, axis=1)
