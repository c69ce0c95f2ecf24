"""What besides the code may make the difference between two benchmarks, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfmagic.analysis.bench.advice import Advice
from perfmagic.units import NBSP

if TYPE_CHECKING:
    from perfmagic.analysis.bench.result import BenchSummary

CLOCKS_DIFFER_FRAC = 0.02  # docs/measuring.md, "Comparing": beyond it no verdict from time alone
_MACHINE = ("system", "machine", "cores")  # of an environment: results that differ there are of two machines


def unlike(baseline: BenchSummary, other: BenchSummary) -> str:
    """The first such difference and the remedy, in words; empty where there is none."""
    return (
        _devices(baseline, other) or _machines(baseline, other) or _caches(baseline, other) or _clocks(baseline, other)
    )


def _devices(baseline: BenchSummary, other: BenchSummary) -> str:
    if baseline.device_label == other.device_label:
        return ""
    devices = " and ".join(result.device_label or "the CPU" for result in (baseline, other))
    return f"measured on different devices, {devices}: measure both on one"


def _machines(baseline: BenchSummary, other: BenchSummary) -> str:
    machines = [[result.environment.get(key) for key in _MACHINE] for result in (baseline, other)]
    if machines[0] == machines[1] or not baseline.environment or not other.environment:
        return ""
    words = " and ".join(" ".join(str(part) for part in machine) + " cores" for machine in machines)
    return f"measured on different machines, {words}: measure both on one"


def _caches(baseline: BenchSummary, other: BenchSummary) -> str:
    if bool(baseline.cold_bytes) == bool(other.cold_bytes):
        return ""
    cold = Advice(baseline).option("cold", True)
    return f"one was measured with cold caches, the other with warm ones: take both with {cold}, or both without"


def _clocks(baseline: BenchSummary, other: BenchSummary) -> str:
    mhz = _clocks_mhz(baseline, other)
    if mhz is None:
        return ""
    return (
        f"the GPU ran at {mhz[0]:.0f} and at {mhz[1]:.0f}{NBSP}MHz: its clock alone may make the difference; "
        "interleave them, or lock the clock with nvidia-smi -lgc"
    )


def _clocks_mhz(baseline: BenchSummary, other: BenchSummary) -> tuple[float, float] | None:
    """The median clocks of the first GPU that ran at different ones, in MHz."""
    for one in baseline.clocks:
        for two in other.clocks:
            if one.device == two.device:
                mhz = float(np.median(one.sm_mhz)), float(np.median(two.sm_mhz))
                if abs(mhz[0] - mhz[1]) > CLOCKS_DIFFER_FRAC * max(mhz):
                    return mhz
    return None
