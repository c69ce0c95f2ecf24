"""A row of the table of a run that was predicted for several GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from perfmagic.trace.json_form import JsonForm


@dataclass(frozen=True)
class GpuStat(JsonForm):
    """A run on one of the GPUs that it was predicted for.

    gpu: its name.
    time_ns: how long the run takes.
    low_ns: the least that it takes, as the model's errors were in four of five cases.
    high_ns: the most; None where an operator has no model.
    verdict: who decides, a kind of docs/verdict.md.
    busy_frac: the share of the run in which the device is busy.
    queue_max: the most ops in its queue.
    without_waits_ns: how long the run takes without .item() and other blocking reads; None where it has none.
    peak_bytes: the most memory that is allocated.
    memory_bytes: that the GPU has.
    """

    gpu: str
    time_ns: int
    low_ns: int | None
    high_ns: int | None
    verdict: str
    busy_frac: float
    queue_max: int
    without_waits_ns: int | None
    peak_bytes: int
    memory_bytes: int

    @property
    def fits(self) -> bool:
        """Whether the GPU has the memory."""
        return self.peak_bytes <= self.memory_bytes

    def overlaps(self, other: GpuStat) -> bool:
        """Whether it may take as long as another one that takes more, by the intervals of both."""
        return self.high_ns is None or other.low_ns is None or other.low_ns <= self.high_ns
