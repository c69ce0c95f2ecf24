"""What a verdict is: who decides how long a cell takes. perfmagic.analysis.findings.verdict decides it, docs/verdict.md
defines it.
"""

from __future__ import annotations

from dataclasses import dataclass

DEVICE_BOUND_FRAC = 0.9  # a device so busy decides, whatever Python does: at most a ninth could be won elsewhere

DEVICE_BOUND = "device-bound"
HOST_BOUND = "host-bound"
LATENCY_BOUND = "latency-bound"
STALLED = "stalled"
HOST_TAIL = "host tail"
MIXED = "mixed"
NO_RECORDS = "no device records"
NO_VERDICT = "no verdict"

KINDS = (DEVICE_BOUND, HOST_BOUND, LATENCY_BOUND, STALLED, HOST_TAIL, MIXED, NO_RECORDS, NO_VERDICT)
NOT_BUSY_KINDS = (HOST_BOUND, LATENCY_BOUND, STALLED, HOST_TAIL, MIXED)  # more work in the queue might fill the device


@dataclass(frozen=True)
class Verdict:
    """Who decides how long a cell takes.

    kind: one of KINDS.  busy_frac: device busy ÷ the cell, of a file ÷ the extent; of several devices the busiest.
    detail: the numbers behind it, in words.  lines: of the cell, that the detail names.  cost_ns: device time lost to
    what the kind names, None where the device decides.
    Source: docs/verdict.md.
    """

    kind: str
    busy_frac: float
    detail: str
    lines: tuple[int, ...] = ()
    cost_ns: int | None = None

    @property
    def sentence(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind
