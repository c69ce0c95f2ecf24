"""The run on other GPUs beside the first one: the same launches and waits, each at that GPU's own times.

The cell runs once. Its host needs the same time everywhere, except where it waits for the device. So another GPU's host
is the first one's plus a lag, which changes only at waits. Its device has its own tails, engines and queue.
What asks whether something is done (Event.query) gets what holds on the first GPU.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from perfmagic.base.clock import HOST
from perfmagic.base.kinds import KernelTime, OpKind
from perfmagic.sim.pace import Model

QUEUE_LAUNCHES = 1024  # launches that wait on a stream before the host blocks (CUDA: about 1000)


class BesideOp(NamedTuple):
    """A device op as another GPU has it: when it ran, and whether its time has a model."""

    correlation: int
    start_ns: int
    end_ns: int
    is_known: bool


class Beside:
    """Another GPU.

    lag_ns: how much later its host is than the first GPU's.  lags: that from an instant of the first host on, rising.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.lag_ns = 0
        self.lags: list[tuple[int, int]] = []
        self.ops: list[BesideOp] = []
        self._tails: dict[Any, int] = {}
        self._engines: dict[tuple[Any, str], int] = {}
        self._queued: dict[Any, deque[int]] = {}

    def at_ns(self, first_ns: int) -> int:
        """The instant of this host at an instant of the first."""
        row = bisect_left(self.lags, (first_ns,)) - 1
        return first_ns + (self.lags[row][1] if row >= 0 else 0)

    def wait(self, before_ns: int, until_ns: int) -> None:
        """Let the host wait while the first one waited from an instant until now; until_ns: of this GPU."""
        now_ns = HOST.read_ns()
        self._change(max(before_ns + self.lag_ns, until_ns) - now_ns, now_ns)

    def spend(self, more_ns: int) -> None:
        """Let the host need so much more than the first one has just needed."""
        self._change(self.lag_ns + more_ns, HOST.read_ns() - 1)  # what begins now begins after it

    def make_room(self, lane: Any, before_ns: int) -> None:
        """Hold the host while the queue of a lane is full.  before_ns: of the first host, before it was held itself."""
        queued = self._queued.setdefault(lane, deque())
        at_ns = before_ns + self.lag_ns
        while queued and queued[0] <= at_ns:
            queued.popleft()
        while len(queued) > QUEUE_LAUNCHES:
            at_ns = max(at_ns, queued.popleft())
        self.wait(before_ns, at_ns)

    def tail_ns(self, lane: Any) -> int:
        """When all that a lane was given is done."""
        return self._tails.get(lane, 0)

    def run(self, lane: Any, ready_ns: int, takes_ns: int, engine: str) -> tuple[int, int]:
        """When a job begins and ends that may begin at an instant of this GPU."""
        start_ns = max(ready_ns, self._tails.get(lane, 0), self._engines.get((lane.device, engine), 0))
        end_ns = start_ns + takes_ns
        self._tails[lane] = end_ns
        self._queued.setdefault(lane, deque()).append(end_ns)
        if engine:
            self._engines[lane.device, engine] = end_ns
        return start_ns, end_ns

    def _change(self, lag_ns: int, at_ns: int) -> None:
        if lag_ns != self.lag_ns:
            self.lag_ns = lag_ns
            self.lags.append((at_ns, lag_ns))


@dataclass(frozen=True)
class BesideRecords:
    """What another GPU did in the same run.

    model: of it.  at_ns, lag_ns: from which instant of the first host on (unix ns, rising) its host is how much later.
    ops: of each device op its correlation, start and end by that host's clock, and whether its time has a model.
    """

    model: Model
    at_ns: Any
    lag_ns: Any
    ops: Any


def beside_records() -> tuple[BesideRecords, ...]:
    """What each of the GPUs has done since they are kept."""
    return tuple(
        BesideRecords(
            each.model,
            np.array([at_ns for at_ns, _ in each.lags], np.int64),
            np.array([lag_ns for _, lag_ns in each.lags], np.int64),
            np.array(each.ops, np.int64).reshape(-1, len(BesideOp._fields)),
        )
        for each in BESIDE
    )


BESIDE: list[Beside] = []  # a look at it is no call; nothing but on several GPUs


def keep_beside(models: Sequence[Model]) -> None:
    """Keep the times of these GPUs, too, from now on."""
    BESIDE[:] = [Beside(model) for model in models]


def wait_beside(before_ns: int, until_ns: Sequence[int]) -> None:
    """Let each host wait, too, where the first one has waited.  until_ns: of each; nothing for a job of before."""
    for number, each in enumerate(BESIDE):
        each.wait(before_ns, until_ns[number] if until_ns else 0)


def spend_beside(time: KernelTime) -> None:
    """Let each host need what its GPU's model says of an operator, for what the first one's says."""
    for each, other in zip(BESIDE, time.others, strict=True):
        each.spend(round(other.host_ns) - round(time.host_ns))


def hold_beside(name: str, kind: OpKind, size_bytes: int, start_ns: int, rest_ns: int) -> None:
    """Let each host stage a copy itself, for the time that the first one has just spent on it.

    start_ns: when the call began.  rest_ns: what the first host has spent.
    """
    for each in BESIDE:
        hold_ns = round(each.model(name, kind, size_bytes) * 1e9)
        passed_ns = HOST.read_ns() - rest_ns + each.lag_ns - each.at_ns(start_ns)
        each.spend(min(hold_ns, max(0, hold_ns - passed_ns)) - rest_ns)
