"""Operators against what the device can do at most: FLOP per second over FLOP per byte (Williams et al., 2009).

A roof rises with the memory bandwidth and ends at the peak of a type; an operator below the slope is bound by memory,
one below the flat part by arithmetic. Bytes are inputs and outputs, each once: kernels that move more lie further left
than drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfmagic.analysis.timeline.device_operators import HOW_TO_RECORD, DeviceOperator, device_operators
from perfmagic.analysis.timeline.peaks import Peaks, peaks_of
from perfmagic.errors import TraceError
from perfmagic.trace.model import Trace


@dataclass(frozen=True)
class Roof:
    """The most a device computes on numbers of a type."""

    compute: str
    flop_per_s: float


@dataclass(frozen=True)
class RooflineData:
    """The operators of a device whose operations and bytes are known, the longest first, and the roofs over them.

    roofs: of the types that occur, the lowest first.  bytes_per_s: the memory bandwidth.  kind: where the peaks are
    from; "" where none are known.  placed_ns: how long the operators' ops took; ops_ns: all ops of the device,
    0 for benchmarks.
    """

    device: int
    label: str
    operators: tuple[DeviceOperator, ...]
    roofs: tuple[Roof, ...]
    bytes_per_s: float | None
    kind: str
    source: str
    placed_ns: int
    ops_ns: int


def roofline_data(trace: Trace, device: int, comm_names: str | None = None, peaks: Peaks | None = None) -> RooflineData:
    """Where each operator of a device lies below its roof.

    peaks: what the device can do at most, if not what its data sheet says. Raises TraceError where operations and bytes
    of no operator are known, with what to record.
    """
    rows = device_operators(trace, device, comm_names, peaks=peaks)
    placed = tuple(row for row in rows if row.flop and row.io_bytes and row.total_ns)
    if not placed:
        why = "has no shapes of operators' inputs" if not trace.input_shapes else "has no operator that is counted"
        raise TraceError(f"no roofline of device {device}: the record {why}", hint=HOW_TO_RECORD)
    known = peaks or peaks_of(trace.device_info(device))
    types = dict.fromkeys(row.compute for row in placed)
    roofs = [Roof(one, peak) for one in types if known and (peak := known.of(one))]
    return RooflineData(
        device,
        label=trace.device_info(device).label,
        operators=placed,
        roofs=tuple(sorted(roofs, key=lambda roof: roof.flop_per_s)),
        bytes_per_s=known.bytes_per_s if known else None,
        kind=known.kind if known else "",
        source=known.source if known else "",
        placed_ns=sum(row.total_ns for row in placed),
        ops_ns=sum(row.total_ns for row in rows),
    )
