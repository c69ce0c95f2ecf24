"""Who waited for whom in the samples, and whether that agrees with the verdict of the recorded run.

The verdict rests on one recorded run, and a recorder slows Python down. The picture of a benchmark is drawn from the
samples. So both are held together here: headline, bars and warnings take their facts from this module only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmagic.analysis.verdict import DEVICE_BOUND, DEVICE_BOUND_FRAC, HOST_BOUND, NOT_BUSY_KINDS

if TYPE_CHECKING:
    from perfmagic.analysis.bench.quantity import Quantity

UNCLEAR = "bottleneck unclear"
LONGER_SPAN = 1.05  # of done, which the device span is a part of
# A span is measured with a full queue, a verdict without one: ops launched early also run closer together. A span of
# less than this fraction of done leaves the device idle for longer than that explains.
IDLE_SPAN = DEVICE_BOUND_FRAC - 0.1


@dataclass(frozen=True)
class Waits:
    """Who waited for whom in a typical sample, in seconds.

    done_s: until the device was done.  python_s: from the return of the cell's last line until then, which is how long
    Python waits if it synchronises.  device_s: how long the device was idle at most, with one device span of work; None
    where the span is not known.
    """

    done_s: float
    python_s: float
    device_s: float | None

    @classmethod
    def of(cls, returns: Quantity | None, done: Quantity | None, span: Quantity | None) -> Waits | None:
        """From the medians; None without *returns* or *done*.  span: None also where it leaves out streams."""
        if returns is None or done is None or done.median_s <= 0:
            return None
        device_s = None if span is None else max(0.0, done.median_s - span.median_s)
        return cls(done.median_s, max(0.0, done.median_s - returns.median_s), device_s)

    @property
    def span_frac(self) -> float | None:
        """The device span as a fraction of done."""
        return None if self.device_s is None else 1 - self.device_s / self.done_s


def contradiction(kind: str, waits: Waits | None) -> str:
    """What in the samples speaks against a kind of verdict; empty where nothing does.

    "python waits": host-bound, but Python waited for the device for longer than the device could wait for Python.
    "device busy": host-bound, but the device was busy.  "device idle": device-bound, but the device was idle.
    """
    if waits is None or kind not in (HOST_BOUND, DEVICE_BOUND):
        return ""
    frac = waits.span_frac
    if kind == DEVICE_BOUND:
        return "device idle" if frac is not None and frac < IDLE_SPAN else ""
    if frac is not None and frac >= DEVICE_BOUND_FRAC:
        return "device busy"
    # the device has all its work from when Python returns, so it can have waited only before
    before_s = waits.done_s - waits.python_s
    for_python_s = before_s if waits.device_s is None else min(before_s, waits.device_s)
    return "python waits" if waits.python_s > for_python_s else ""


def has_idle_device(kind: str) -> bool:
    """Whether a kind of verdict says that the device was not busy throughout."""
    return kind in NOT_BUSY_KINDS


def unconfirmed(kind: str) -> str:
    """What is said instead of a verdict that the samples contradict."""
    return f"the samples do not confirm the recorded run, which was {kind}"


def supported_kind(kind: str, waits: Waits | None, span: Quantity | None) -> str:
    """A kind of verdict where the samples do not contradict it, else "".

    span: the device span of the samples; longer than *done* it was measured on a slower machine, and neither is sure.
    """
    if waits is not None and span is not None and span.median_s > LONGER_SPAN * waits.done_s:
        return ""
    return "" if contradiction(kind, waits) else kind
