"""What was allocated on a device over time, where the record says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.trace.columns import Int64, lines_at
from perfmagic.trace.model import Trace

ALLOCATED, RESERVED = "Total Allocated", "Total Reserved"  # as Kineto names its memory counters
_FEWEST = 2  # changes: one value is no curve


@dataclass(frozen=True, eq=False)
class MemoryCurve:
    """Allocated bytes of a device from each instant on, at_ns rising.

    reserved_max_bytes: the most that was taken from the device, 0 where the record does not say.  peak_line: the cell
    line that ran when the most was allocated, 0 for none.
    """

    device: int
    at_ns: Int64
    allocated_bytes: Int64
    reserved_max_bytes: int
    peak_line: int

    @property
    def peak_bytes(self) -> int:
        return int(self.allocated_bytes.max())

    @property
    def peak_at_ns(self) -> int:
        return int(self.at_ns[self.allocated_bytes.argmax()])


def memory_curve(trace: Trace, device: int) -> MemoryCurve | None:
    """The memory of a device in the window; None where there is no record of it.

    Source: Kineto's memory events (profile_memory=True), or the simulated device's own count.
    """
    counters = trace.counters
    if not len(counters):
        return None
    series = np.array(trace.names, dtype=object)[counters.series]
    of_device = (counters.device == device) & (counters.at_ns < trace.meta.end_ns)
    rows = np.flatnonzero(of_device & (series == ALLOCATED))
    if len(rows) < _FEWEST:
        return None
    allocated = np.maximum(counters.value[rows], 0).astype(np.int64)
    peak_at = counters.at_ns[rows][[int(allocated.argmax())]]
    return MemoryCurve(
        device=device,
        at_ns=counters.at_ns[rows],
        allocated_bytes=allocated,
        reserved_max_bytes=int(counters.value[of_device & (series == RESERVED)].max(initial=0)),
        peak_line=int(lines_at(trace.marks, peak_at)[0]),
    )
