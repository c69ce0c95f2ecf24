"""The calls before the samples of a benchmark: until two agree, then until they settle; how long a call seems to be."""

from __future__ import annotations

from perfmagic.capture.bench.body_loop import Phase
from perfmagic.capture.bench.device_use import DeviceUse
from perfmagic.capture.bench.notes import Notes
from perfmagic.capture.bench.plan import SAMPLE_S, Plan
from perfmagic.capture.bench.sampler import Sampler
from perfmagic.capture.bench.spec import MOST_CALLS
from perfmagic.capture.bench.stopping import AGREE_FRAC, CAP_S, WarmUp, agree

FIRST_CALLS = 4  # compile, autotune and graph warm-up take 2 to 4
LONG_FIRST_S = 0.1  # a first call of this length is not made again only to find out how many calls make a sample
LONG_CALL_S = 0.5  # two such calls that agree are warm-up enough


class Warming:
    """Makes the calls before the samples, and knows what they took.

    first_s: of the first calls until two agreed.  calls: after those, in all runs.
    """

    def __init__(self, plan: Plan, sampler: Sampler, use: DeviceUse, notes: Notes) -> None:
        self.first_s: list[float] = []
        self.calls = 0
        self._plan, self._sampler, self._use, self._notes = plan, sampler, use, notes
        self._settling = WarmUp()
        self._from_ns = 0
        self._grown_call_s = 0.0

    def first(self, seconds: float) -> None:
        """The very first call took so long."""
        self.first_s.append(seconds)
        if seconds >= CAP_S and self._plan.spec.warmup is None:
            self._notes.note("long first call", seconds=seconds)

    def run(self, *, again: bool) -> Phase[None]:
        """As many calls as are asked for, or until they settle.  again: in a whole run that is not the first."""
        self._settling, self._from_ns = WarmUp(), self._sampler.watch.clock_ns()
        asked = self._plan.spec.warmup
        if asked is not None:
            for _ in range(asked):
                yield from self._block(1)
            yield from self._grow_blocks()
        elif self.first_s[0] < CAP_S:
            if not again:
                yield from self._more_first_calls()
            yield from self._settle()

    def call_s(self) -> float:
        """How long a call seems to be, in seconds."""
        return self._grown_call_s or self._settling.typical_s() or self.first_s[0]

    def _more_first_calls(self) -> Phase[None]:
        """Until two successive calls agree: they alone may tell what a call costs, the first never does."""
        while len(self.first_s) < FIRST_CALLS and not self._first_calls_agree():
            reading = yield from self._sampler.sample(1)
            self.first_s.append(reading.done_ns / 1e9)
            self._settling.add(self.first_s[-1], self._spent_s())

    def _first_calls_agree(self) -> bool:
        return len(self.first_s) > 1 and agree(self.first_s[-2], self.first_s[-1], AGREE_FRAC)

    def _settle(self) -> Phase[None]:
        if self._first_calls_agree() and self.first_s[-1] >= LONG_CALL_S:
            return
        k = 1
        while not self._settling.finished:
            block_ns = yield from self._block(k)
            if block_ns < SAMPLE_S * 1e9 and self._several_calls():
                k *= 2
        if not self._settling.settled:
            self._notes.note("did not settle", seconds=round(self._settling.spent_s, 1))

    def _block(self, k: int) -> Phase[int]:
        """So many calls; gives what they took in all, in ns."""
        reading = yield from self._sampler.sample(k)
        self.calls += k
        self._settling.add(reading.done_ns / k / 1e9, self._spent_s())
        return reading.done_ns

    def _grow_blocks(self) -> Phase[None]:
        """Blocks that grow to the length of a sample where few calls or none came before: the first says little."""
        long = self.first_s[0] >= LONG_FIRST_S
        if self._plan.spec.calls is not None or not self._several_calls() or long:
            return
        k, block_ns = 1, 0
        while block_ns < SAMPLE_S * 1e9 / 2 and k <= MOST_CALLS:
            block_ns = (yield from self._sampler.sample(k)).done_ns
            self._grown_call_s = block_ns / k / 1e9
            k *= 10

    def _several_calls(self) -> bool:
        return self._plan.several_calls(device_works=self._use.works)

    def _spent_s(self) -> float:
        return (self._sampler.watch.clock_ns() - self._from_ns) / 1e9
