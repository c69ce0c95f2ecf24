"""The finding "device time" of a busy device: which operators took it, and how fast they were. And its sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from perfmagic import units
from perfmagic.analysis.findings.busy import in_short
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.timeline.device_operators import DeviceOperator, device_operators
from perfmagic.analysis.timeline.origin import Source
from perfmagic.numerics.intervals import merge, subtract

BUSY_FRAC = 0.5  # of the window: of a device that is busy for less, what it waits for matters more
TOLD = 3  # operators in the sentence; the table has all
TOLD_FRAC = 0.05  # of the device's ops: an operator with less is not named behind another
ONE_SHAPE_FRAC = 0.5  # of an operator's time: one shape with more stands for all


def device_time(facts: Facts) -> list[Finding]:
    """The operators that took most of a busy device's time."""
    parts = facts.breakdown
    if facts.trace.simulated:  # how long its ops take is a matter of its pace, or of the CPU
        return []
    if parts.busy_ns < BUSY_FRAC * max(1, facts.window_ns):
        return []
    rows = device_operators(facts.trace, facts.device, facts.comm_names)
    ops_ns = sum(row.total_ns for row in rows)
    by_operator: dict[tuple[Source, str, str], list[DeviceOperator]] = defaultdict(list)
    for row in rows:
        by_operator[row.source, row.name, row.dtypes].append(row)
    longest = sorted(by_operator.values(), key=lambda mine: -_total_ns(mine))[:TOLD]
    told = [mine for i, mine in enumerate(longest) if i == 0 or _total_ns(mine) >= TOLD_FRAC * ops_ns]
    if not told or not ops_ns:
        return []
    words = [_words(mine, ops_ns, first=i == 0) for i, mine in enumerate(told)]
    sets = parts.intervals
    return [
        Finding(
            rule="device_time",
            cost_ns=None,
            cause="device time",
            detail=f"{facts.on_device}: {'; '.join(words)}",
            lines=(),
            start_ns=parts.extent_start_ns,
            end_ns=parts.extent_end_ns,
            device=facts.device,
            where=subtract(sets["busy"], merge(sets["exposed_communication"], sets["exposed_copy"])),
        )
    ]


def _total_ns(rows: Sequence[DeviceOperator]) -> int:
    return sum(row.total_ns for row in rows)


def _words(rows: Sequence[DeviceOperator], ops_ns: int, *, first: bool) -> str:
    """One operator: "aten::mm [64, 128] [128, 32] bf16 took 262 ms of 567 ms (46 %), at 410 of 989 TFLOP/s"."""
    total_ns, most = _total_ns(rows), rows[0]
    name = in_short(most)
    if len(rows) > 1:
        plain = " ".join(filter(None, (most.name, most.dtypes)))
        known = len({row.shapes for row in rows if row.shapes})
        mostly = most.shapes and most.total_ns >= ONE_SHAPE_FRAC * total_ns
        name = f"{plain} (mostly {most.shapes})" if mostly else plain
        name += f" in {units.count(known)} shapes" if known > 1 and not mostly else ""
    whole = f" of {units.duration(ops_ns)} of device ops" if first else ""
    share = f"{units.duration(total_ns)}{whole} ({units.percent(total_ns / ops_ns)})"
    speed = _speed(rows, total_ns)
    return f"{name} took {share}{f', at {speed}' if speed else ''}"


def _speed(rows: Sequence[DeviceOperator], total_ns: int) -> str:
    """What was achieved, beside the peak where that is one for all; "" where some operations are not known."""
    if any(row.flop is None for row in rows) or not total_ns:
        return ""
    rate = sum(row.flop or 0 for row in rows) / total_ns * 1e9
    peaks = {row.peak_flop_per_s for row in rows}
    peak = peaks.pop() if len(peaks) == 1 else None
    of = f" of {units.significant(peak / 1e12)}" if peak else ""
    return f"{units.significant(rate / 1e12)}{of}{units.NBSP}TFLOP/s"
