"""What a verdict is: the bottleneck of a cell, Python or the device. perfmagic.analysis.findings.verdict decides it."""

from __future__ import annotations

from dataclasses import dataclass

DEVICE_BOUND_FRAC = 0.9  # DESIGN section 6, "verdict"


NO_VERDICT = "no verdict"


@dataclass(frozen=True)
class Verdict:
    """The bottleneck of a cell.

    kind: "device-bound", "host-bound", "gaps", "no device records", or "no verdict" where too many durations of device
    ops are missing or impossible in the file.  busy_frac: device busy ÷ done.
    detail: the numbers behind it, in words.  lines: of the cell, that the detail names.  cost_ns: device time lost to
    that cause, None where nothing is lost.
    """

    kind: str
    busy_frac: float
    detail: str
    lines: tuple[int, ...] = ()
    cost_ns: int | None = None

    @property
    def sentence(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind
