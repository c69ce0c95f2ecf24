"""The streams of a trace: which op ran on which, in what order, how busy each was."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.overlap import extent
from perfmagic.numerics.grouped import running_max, unions
from perfmagic.trace.columns import NONE, Bool, DeviceOps, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace

# when the op before the first one ended; far from the edge of int64: differences do not wrap
BEFORE_ALL_NS = -(2**62)


@dataclass(frozen=True)
class StreamStat:
    """One stream of a device.

    n_ops: ops it executed.  busy_ns: length of their union; busy_frac: of the device's extent.
    n_overlaps: ops that start before the previous op on the stream has ended.  n_zero_durations: ops without length.
    """

    device: int
    stream: int
    n_ops: int
    busy_ns: int
    busy_frac: float
    n_overlaps: int
    n_zero_durations: int


@once_per_trace
def stream_rows(ops: DeviceOps) -> tuple[tuple[int, int, Int64], ...]:
    """(device, stream, rows of ops in start order) of every stream, rising."""
    order = np.lexsort((ops.stream, ops.device))  # stable: rows of one stream keep their order
    order.flags.writeable = False
    device, stream = ops.device[order], ops.stream[order]
    cuts = np.flatnonzero((np.diff(device) != 0) | (np.diff(stream) != 0)) + 1
    return tuple((int(ops.device[r[0]]), int(ops.stream[r[0]]), r) for r in np.split(order, cuts) if len(r))


def stream_numbers(ops: DeviceOps) -> Int64:
    """For each op the number of its stream among all streams of all devices; shape of ops."""
    numbers = np.zeros(len(ops), np.int64)
    for number, (_, _, rows) in enumerate(stream_rows(ops)):
        numbers[rows] = number
    return numbers


def previous_end_ns(ops: DeviceOps) -> Int64:
    """When all earlier ops of the same stream had ended, BEFORE_ALL_NS for the first; shape of ops."""
    result = np.full(len(ops), BEFORE_ALL_NS, np.int64)
    if len(ops):
        order = np.concatenate([rows for _, _, rows in stream_rows(ops)])
        number = stream_numbers(ops)[order]
        ended = running_max(number, ops.end_ns[order])
        same = np.flatnonzero(np.diff(number) == 0)
        result[order[same + 1]] = ended[same]
    return result


@once_per_trace
def streams(trace: Trace, device: int) -> Rows[StreamStat]:
    """The streams of a device, the busiest first. Source: docs/words.md, "busy"."""
    ops = trace.ops.take(trace.ops.device == device)
    start, end = extent(ops)
    number = stream_numbers(ops)
    of_interval, busy = unions(number, ops.start_ns, ops.end_ns)
    n = len(stream_rows(ops))
    busy_ns = np.zeros(n, np.int64)
    np.add.at(busy_ns, of_interval, busy[:, 1] - busy[:, 0])
    overlaps = np.bincount(number[ops.start_ns < previous_end_ns(ops)], minlength=n).tolist()
    without = np.bincount(number[ops.start_ns == ops.end_ns], minlength=n).tolist()
    stats = [
        StreamStat(device, stream, len(rows), ns, ns / (end - start) if end > start else 0.0, overlaps[i], without[i])
        for i, ((_, stream, rows), ns) in enumerate(zip(stream_rows(ops), busy_ns.tolist(), strict=True))
    ]
    return Rows(sorted(stats, key=lambda s: (-s.busy_ns, s.stream)), StreamStat)


@once_per_trace
def orphans(trace: Trace) -> Bool:
    """Which ops were launched before the window: without a launch record, before the first matched op of their stream.

    On a stream without any matched op the first matched op of the device decides. Shape of trace.ops.
    Source: docs/words.md, "orphan".
    """
    ops = trace.ops
    matched = ops.launch != NONE
    first = np.full(len(ops), BEFORE_ALL_NS, np.int64)
    for device in trace.device_ids:
        of_device = (ops.device == device) & matched
        if of_device.any():
            first[ops.device == device] = ops.start_ns[of_device][0]
    for _, _, rows in stream_rows(ops):
        with_launch = rows[matched[rows]]
        if len(with_launch):
            first[rows] = ops.start_ns[with_launch[0]]
    early: Bool = ~matched & (ops.start_ns < first)
    early.flags.writeable = False
    return early
