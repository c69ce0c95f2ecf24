"""How fast the host is while samples are taken: a loop that is always the same, beside them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat

ROUNDS = (
    1000  # 10 µs at 10 ns an iteration: long against the clock, and too short for the machine to change its speed in it
)
MOST_FRAC = 0.02  # of the time of the samples


class ReferenceLoop:
    """One reading a sample, for comparisons of benchmarks that are taken one after the other.

    Where the host is slower in one of them, so is this loop; a slower body leaves it alone. Where readings would take
    more than 2 % of the time, the one before counts again.  taken_ns: for ROUNDS iterations, in ns.
    """

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._room_ns = 0.0
        self.taken_ns: list[int] = []

    def beside(self, sample_ns: int) -> None:
        """Take the reading of a sample that took so long."""
        self._room_ns += MOST_FRAC * sample_ns
        # by the shortest: one that was interrupted must not be the last for a long time
        cost_ns = 2 * min(self.taken_ns, default=0)
        if self.taken_ns and self._room_ns < cost_ns:
            self.taken_ns.append(self.taken_ns[-1])
            return
        self.taken_ns.append(min(self._once(), self._once()))  # of two, as an interruption of ms rarely meets both
        self._room_ns = 0.0

    def _once(self) -> int:
        start_ns = self._clock_ns()
        for () in repeat((), ROUNDS):
            None is None
        return self._clock_ns() - start_ns
