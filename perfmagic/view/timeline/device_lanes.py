"""From a trace to the lanes of a device: one a stream, and the staves over all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfmagic.analysis.timeline.memory import memory_curve
from perfmagic.analysis.timeline.overlap import Breakdown, breakdown
from perfmagic.analysis.timeline.queueing import Steps, steps
from perfmagic.analysis.timeline.streams import orphans, stream_rows
from perfmagic.numerics.grouped import unions
from perfmagic.numerics.intervals import subtract, total_ns, union
from perfmagic.trace.columns import NONE, Bool, Int8, Int64
from perfmagic.trace.correlate import strata_lines_at
from perfmagic.trace.model import Trace
from perfmagic.trace.names import op_classes
from perfmagic.view.timeline.lanes import DeviceGroup, Share, Stave, StavePart, StreamLane
from perfmagic.view.timeline.packing import pack
from perfmagic.view.timeline.pile import rank

GPU_KINDS = ("cuda", "rocm")
MAX_LANES = 512  # more are folded and counted (docs/traces.md, "Limits")


def device_group(trace: Trace, device: int, start_ns: int, end_ns: int, comm_names: str | None = None) -> DeviceGroup:
    """The lanes of one device inside a window, the busiest stream first."""
    parts = breakdown(windowed(trace, start_ns, end_ns), device, comm_names)
    lanes, n_folded, folded_ops = _stream_lanes(trace, (start_ns, end_ns), parts, op_classes(trace, comm_names))
    info = trace.device_info(device)
    return DeviceGroup(
        device=device,
        label=info.label,
        short_label="GPU" if info.kind in GPU_KINDS else "device",
        n_ops=parts.n_ops,
        busy_frac=parts.busy_frac,
        extent_ns=parts.extent_ns,
        streams=tuple(lanes),
        staves=_staves(parts, len(lanes)),
        n_folded=n_folded,
        folded_ops=folded_ops,
        shares=_shares(parts),
        memory=memory_curve(trace, device),
    )


def windowed(trace: Trace, start_ns: int, end_ns: int) -> Trace:
    """The trace with only what a device executed inside [start_ns, end_ns), cut at its edges."""
    ops = trace.ops
    inside = (ops.end_ns > start_ns) & (ops.start_ns < end_ns) | (ops.start_ns >= start_ns) & (ops.start_ns < end_ns)
    if (
        inside.all()
        and ops.end_ns.max(initial=end_ns) == end_ns
        and ops.start_ns.min(initial=start_ns) == start_ns
        and (start_ns, end_ns) == (trace.meta.start_ns, trace.meta.end_ns)
    ):
        return trace
    kept = ops.take(inside)
    cut = replace(kept, start_ns=np.maximum(kept.start_ns, start_ns), end_ns=np.minimum(kept.end_ns, end_ns))
    return replace(trace, ops=cut, meta=replace(trace.meta, start_ns=start_ns, end_ns=end_ns))


def _stream_lanes(
    trace: Trace, window: tuple[int, int], parts: Breakdown, classes: Int8
) -> tuple[list[StreamLane], int, int]:
    """The lanes of the busiest streams, and of the others how many there are and their ops."""
    ops, orphan = trace.ops, orphans(trace)
    record_start = min(trace.meta.start_ns, int(ops.start_ns.min(initial=window[0])))
    launch = np.where(orphan, record_start, np.minimum(trace.launch_start_ns(), ops.start_ns))
    seen = (ops.device == parts.device) & (ops.end_ns >= window[0]) & (launch < window[1])
    busy_ns = _busy_by_stream(trace, window, parts.device)
    found = [
        (busy_ns.get(stream, 0), stream, rows)
        for device, stream, of_stream in stream_rows(ops)
        if device == parts.device and len(rows := of_stream[seen[of_stream]])
    ]
    found.sort(key=lambda lane: (-lane[0], lane[1]))
    folded = found[MAX_LANES:]
    lanes = []
    for _, stream, rows in found[:MAX_LANES]:
        ordered = rows[rank(ops.start_ns[rows], launch[rows])]
        lanes.append(_stream_lane(trace, stream, ordered, launch, orphan, classes, window, parts))
    return lanes, len(folded), sum(len(rows) for _, _, rows in folded)


def _busy_by_stream(trace: Trace, window: tuple[int, int], device: int) -> dict[int, int]:
    """How long each stream of a device was busy inside the window, streams that were not left out."""
    ops = trace.ops.take(trace.ops.device == device)
    number, busy = unions(ops.stream, np.clip(ops.start_ns, *window), np.clip(ops.end_ns, *window))
    streams, which = np.unique(number, return_inverse=True)
    sums = np.zeros(len(streams), np.int64)
    np.add.at(sums, which, busy[:, 1] - busy[:, 0])
    return dict(zip(streams.tolist(), sums.tolist(), strict=True))


def _stream_lane(
    trace: Trace,
    stream: int,
    rows: Int64,
    launch: Int64,
    orphan: Bool,
    classes: Int8,
    window: tuple[int, int],
    parts: Breakdown,
) -> StreamLane:
    ops = trace.ops.take(rows)
    known = (ops.launch != NONE) | orphan[rows]
    queued_ns = launch[rows]
    deepest, mean = _depth_within(steps(queued_ns[known], ops.start_ns[known]), *window)
    start, end = np.clip(ops.start_ns, *window), np.clip(ops.end_ns, *window)
    busy_ns = total_ns(union(start, end))
    return StreamLane(
        device=parts.device,
        stream=stream,
        row=rows,
        launch_ns=queued_ns,
        start_ns=ops.start_ns,
        end_ns=ops.end_ns,
        op_class=classes[rows],
        name=ops.name,
        line=strata_lines_at(trace.marks, launch[rows]) * known.astype(np.int32),
        inner_line=ops.line,
        orphan=orphan[rows],
        packing=pack(ops.start_ns, ops.end_ns),
        queue_max=deepest,
        queue_mean=mean,
        busy_ns=busy_ns,
        busy_frac=busy_ns / parts.extent_ns if parts.extent_ns else 0.0,
    )


def _depth_within(depth: Steps, start_ns: int, end_ns: int) -> tuple[int, float]:
    """Largest and time-weighted mean count inside a window."""
    if not len(depth.times_ns):
        return 0, 0.0
    inside = (depth.times_ns > start_ns) & (depth.times_ns < end_ns)
    before = np.flatnonzero(depth.times_ns <= start_ns)
    entering = int(depth.values[before[-1]]) if len(before) else 0
    times = np.concatenate(([start_ns], depth.times_ns[inside], [end_ns]))
    values = np.concatenate(([entering], depth.values[inside]))
    return int(values.max()), float((values * np.diff(times)).sum() / max(1, end_ns - start_ns))


def _shares(parts: Breakdown) -> tuple[Share, ...]:
    """Where the device's extent went, each instant once, parts without time left out."""
    found = parts.partition
    shares = (
        Share("compute", found.compute_alone_ns, "comp"),
        Share("compute ∥ other", found.compute_with_other_ns, "comp", "comm" if parts.comm_ns else "dtod"),
        Share("communication alone", found.exposed_comm_ns, "comm"),
        Share("copy alone", found.exposed_copy_ns, _main_copy(parts)),
        Share("memset alone", found.memset_alone_ns, "memset"),
        Share("idle", found.idle_ns, "wait"),
    )
    return tuple(share for share in shares if share.ns)


def _main_copy(parts: Breakdown) -> str:
    return max(("dtod", "htod", "dtoh"), key=parts.class_ns)


def _staves(parts: Breakdown, n_streams: int) -> tuple[Stave, ...]:
    """Compute, communication, copy and idle, where there is more than one stream or class to lay side by side."""
    classes = [name for name in ("compute", "comm", "copy") if parts.class_ns(name)]
    if len(classes) < 2 and n_streams < 2:
        return ()
    staves = []
    if "compute" in classes:
        staves.append(Stave("compute", (_part(parts, "comp", "compute"),), parts.compute_ns))
    if "comm" in classes:
        exposed = parts.exposed_comm_ns
        staves.append(Stave("communication", (_part(parts, "comm", "comm"),), parts.comm_ns, exposed))
    if "copy" in classes:
        ways = tuple(_part(parts, way, way) for way in ("dtod", "ptop", "htod", "dtoh") if parts.class_ns(way))
        staves.append(Stave("copy", ways, parts.copy_ns, parts.exposed_copy_ns))
    if parts.idle_ns:
        idle = parts.intervals["idle"]
        staves.append(Stave("idle", (StavePart("wait", idle, idle),), parts.idle_ns))
    return tuple(staves)


def _part(parts: Breakdown, token: str, name: str) -> StavePart:
    active = parts.intervals[name]
    hidden_by = parts.intervals["compute"]
    return StavePart(token, active, active if name == "compute" else subtract(active, hidden_by))
