"""Who decides how long a run takes: shares of its critical path, of the whole time that the record holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.replay.critical_path import CriticalPath, Held
from perfmagic.analysis.verdict import (
    COMMUNICATION_BOUND,
    COPY_BOUND,
    DEVICE_BOUND,
    HOST_BOUND,
    HOST_TAIL,
    LATENCY_BOUND,
    MIXED,
    STALLED,
    START_UP,
)
from perfmagic.base.numerics.intervals import Intervals, total_ns
from perfmagic.trace.columns import Bool

DECIDES_FRAC = 0.55  # of the run: what holds the path so long decides
PART_FRAC = 0.4  # of the run, for what is seldom most of it: start-up, copies, communication, the host's tail
KEPT_BUSY_FRAC = 0.9  # of the run: a device so busy keeps pace with Python, whichever of them the path follows

_HOST = (Held.PYTHON, Held.CALL, Held.OTHER_THREAD)
_DEVICE = (Held.COMPUTE, Held.MEMSET, Held.OTHER_STREAM, Held.FULL_QUEUE)
_LATENCY = (Held.LAUNCH, Held.STREAM, Held.SYNC)


@dataclass(frozen=True)
class Judgement:
    """What the critical path of a run is made of; times in ns, which add up to run_ns.

    start_up_ns: of the host before the first device op of a file; 0 of a cell, whose Python that is.
    tail_ns: of the host after the last op.  python_ns: of the host otherwise.
    device_ns: compute, memsets, and waits for another stream.
    latency_ns: from a launch to its op, between queued ops, and from an op to the return of the call that waits for it.
    busy_ns: of the busiest device, which is no part of the sum.
    """

    run_ns: int
    start_up_ns: int
    tail_ns: int
    python_ns: int
    device_ns: int
    copies_ns: int
    communication_ns: int
    latency_ns: int
    unexplained_ns: int
    busy_ns: int

    @property
    def host_ns(self) -> int:
        return self.start_up_ns + self.python_ns + self.tail_ns

    @property
    def kind(self) -> str:
        """One of perfmagic.analysis.verdict.KINDS. Source: docs/verdict.md."""
        part_ns = PART_FRAC * self.run_ns
        on_device_ns = self.device_ns + self.copies_ns + self.communication_ns
        checks = (
            (START_UP, self.start_up_ns >= part_ns),
            (HOST_TAIL, self.tail_ns >= part_ns),
            (DEVICE_BOUND, self._decides(self.device_ns)),
            (COPY_BOUND, self.copies_ns >= max(part_ns, self.host_ns)),
            (COMMUNICATION_BOUND, self.communication_ns >= max(part_ns, self.host_ns)),
            (DEVICE_BOUND, self._decides(on_device_ns)),
            (HOST_BOUND, self._decides(self.host_ns) and self.busy_ns < KEPT_BUSY_FRAC * self.run_ns),
            (LATENCY_BOUND, self._decides(self.latency_ns)),
            (STALLED, self._decides(self.unexplained_ns)),
        )
        return next((kind for kind, applies in checks if applies), MIXED)

    def _decides(self, ns: int) -> bool:
        return ns >= DECIDES_FRAC * self.run_ns > 0


def judge(path: CriticalPath, busy: Intervals) -> Judgement:
    """What a run's critical path is made of.

    path: of one trace.  busy: when its busiest device executed anything, disjoint intervals in ns.
    """
    (trace,) = path.traces
    first_ns, last_ns = int(trace.ops.start_ns.min()), int(trace.ops.end_ns.max())
    on_host = np.isin(path.held, _HOST)
    before, after = on_host & (path.start_ns < first_ns), on_host & (path.end_ns > last_ns)
    start_up_ns = 0
    if trace.meta.returned_ns is None:
        start_up_ns = int((np.minimum(path.end_ns, first_ns) - path.start_ns)[before].sum())
    tail_ns = int((path.end_ns - np.maximum(path.start_ns, last_ns))[after].sum())

    def length_ns(which: Bool) -> int:
        return int(path.length_ns[which].sum())

    return Judgement(
        run_ns=path.run_ns,
        start_up_ns=start_up_ns,
        tail_ns=tail_ns,
        python_ns=length_ns(on_host) - start_up_ns - tail_ns,
        device_ns=length_ns(np.isin(path.held, _DEVICE)),
        copies_ns=length_ns(path.held == Held.COPY),
        communication_ns=length_ns(path.held == Held.COMMUNICATION),
        latency_ns=length_ns(np.isin(path.held, _LATENCY)),
        unexplained_ns=length_ns(np.isin(path.held, (Held.UNEXPLAINED, Held.BEFORE))),
        busy_ns=total_ns(busy),
    )
