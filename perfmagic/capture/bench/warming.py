"""The calls before the samples of a benchmark: the first ones, warm-up, and how long a call seems to be."""

from __future__ import annotations

import math
from collections.abc import Callable

from perfmagic.capture.bench.sampler import Sampler
from perfmagic.capture.bench.spec import MOST_CALLS
from perfmagic.capture.bench.stopping import AGREE_FRAC, CAP_S, WarmUp, agree
from perfmagic.capture.bench.stopwatch import Steps

FIRST_CALLS = 4  # compile, autotune and graph warm-up take 2 to 4
LONG_FIRST_S = 0.1  # a first call of this length is not made again only to find out how many make a block
LONG_CALL_S = 0.5  # two such calls that agree are warm-up enough
# Without a device a sample is at least so long, of as many calls as that takes (docs/measuring.md): the
# clock and the loop are then below 0.1 % of it, and what a sample begins with counts for half of what it would.
BLOCK_S = 2e-3
SHORTEST_CALL_S = 10e-9  # an empty body with its loop; bounds the calls of a sample


class Warming:
    """Makes the calls before the samples, and knows what they took.

    first_s: of the first calls until two agreed.  calls: after those, in all runs.
    may_take_many: asked whether several calls may follow each other without anything in between.
    """

    def __init__(self, sampler: Sampler, clock_ns: Callable[[], int], may_take_many: Callable[[], bool]) -> None:
        self._sampler, self._spec = sampler, sampler.spec
        self._clock_ns, self._may_take_many = clock_ns, may_take_many
        self.first_s: list[float] = []
        self.calls = 0
        self._settling = WarmUp()
        self._from_ns = 0
        self._block_call_s = 0.0

    def first(self, seconds: float) -> None:
        """The very first call took so long."""
        self.first_s.append(seconds)
        if seconds >= CAP_S and self._spec.warmup is None:
            self._sampler.note("long first call", seconds=seconds)

    def run(self, *, again: bool) -> Steps[None]:
        """As many calls as are asked for, or until they settle.  again: in a whole run that is not the first."""
        self._settling, self._from_ns = WarmUp(), self._clock_ns()
        if self._spec.warmup is not None:
            for _ in range(self._spec.warmup):
                yield from self._block(1)
            yield from self._enlarge_blocks()
        elif self.first_s[0] < CAP_S:
            if not again:
                yield from self._more_first_calls()
            yield from self._settle()

    def call_s(self) -> float:
        """How long a call seems to be, in seconds."""
        return self._block_call_s or self._settling.typical_s() or self.first_s[0]

    def _more_first_calls(self) -> Steps[None]:
        """Until two successive calls agree: they alone may tell what a call costs, the first never does."""
        while len(self.first_s) < FIRST_CALLS and not self._first_calls_agree():
            reading = yield from self._sampler.sample(1)
            self.first_s.append(reading.done_ns / 1e9)
            self._settling.add(self.first_s[-1], self._spent_s())

    def _first_calls_agree(self) -> bool:
        return len(self.first_s) > 1 and agree(self.first_s[-2], self.first_s[-1], AGREE_FRAC)

    def _settle(self) -> Steps[None]:
        if self._first_calls_agree() and self.first_s[-1] >= LONG_CALL_S:
            return
        k = 1
        while not self._settling.finished:
            block_ns = yield from self._block(k)
            if block_ns < BLOCK_S * 1e9 and self._may_take_many():
                k *= 2
        if not self._settling.settled:
            self._sampler.note("did not settle", seconds=round(self._settling.spent_s, 1))

    def _block(self, k: int) -> Steps[int]:
        """So many calls; gives what they took in all, in ns."""
        reading = yield from self._sampler.sample(k)
        self.calls += k
        self._settling.add(reading.done_ns / k / 1e9, self._spent_s())
        return reading.done_ns

    def _enlarge_blocks(self) -> Steps[None]:
        """Where few calls or none came before: blocks that grow to their length, as the first call says little."""
        long = self.first_s[0] >= LONG_FIRST_S
        if self._spec.calls is not None or not self._may_take_many() or long:
            return
        k, block_ns = 1, 0
        while block_ns < BLOCK_S * 1e9 / 2 and k <= MOST_CALLS:
            block_ns = (yield from self._sampler.sample(k)).done_ns
            self._block_call_s = block_ns / k / 1e9
            k *= 10

    def _spent_s(self) -> float:
        return (self._clock_ns() - self._from_ns) / 1e9


def calls_of_block(call_s: float) -> int:
    """How many calls of that length make a sample."""
    return max(1, math.ceil(BLOCK_S / max(call_s, SHORTEST_CALL_S)))
