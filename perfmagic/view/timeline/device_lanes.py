"""From a trace to the lanes of a device: one a stream, and the staves over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np

from perfmagic.analysis.timeline.memory import memory_curve
from perfmagic.analysis.timeline.overlap import Breakdown, breakdown
from perfmagic.analysis.timeline.queueing import CountOverTime, count_over_time
from perfmagic.analysis.timeline.streams import StreamStat, orphans, stream_rows, streams
from perfmagic.numerics.intervals import subtract
from perfmagic.trace.columns import NONE, Bool, Int8, Int64
from perfmagic.trace.correlate import strata_lines_at
from perfmagic.trace.model import Trace
from perfmagic.trace.names import op_classes
from perfmagic.view.timeline.lanes import PARTITION_WORDS, DeviceGroup, Share, Stave, StavePart, StreamLane
from perfmagic.view.timeline.packing import pack
from perfmagic.view.timeline.pile import rank

GPU_KINDS = ("cuda", "rocm")
MAX_LANES = 512  # more are folded and counted (docs/traces.md, "Limits")


def device_group(trace: Trace, device: int, start_ns: int, end_ns: int, comm_names: str | None = None) -> DeviceGroup:
    """The lanes of one device inside a window, the busiest stream first."""
    seen = windowed(trace, start_ns, end_ns)
    parts = breakdown(seen, device, comm_names)
    stats = {stat.stream: stat for stat in streams(seen, device)}
    classes = op_classes(trace, comm_names)
    lanes, n_folded, folded_ops = _stream_lanes(trace, (start_ns, end_ns), parts, stats, classes)
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
    trace: Trace, window: tuple[int, int], parts: Breakdown, stats: Mapping[int, StreamStat], classes: Int8
) -> tuple[list[StreamLane], int, int]:
    """The lanes of the busiest streams, and of the others how many there are and their ops."""
    ops, orphan = trace.ops, orphans(trace)
    record_start = min(trace.meta.start_ns, int(ops.start_ns.min(initial=window[0])))
    launch = np.where(orphan, record_start, np.minimum(trace.launch_start_ns(), ops.start_ns))
    seen = (ops.device == parts.device) & (ops.end_ns >= window[0]) & (launch < window[1])
    found = [
        (stats.get(stream, _idle_stream(parts.device, stream)), rows)
        for device, stream, of_stream in stream_rows(ops)
        if device == parts.device and len(rows := of_stream[seen[of_stream]])
    ]
    found.sort(key=lambda lane: (-lane[0].busy_ns, lane[0].stream))
    folded = found[MAX_LANES:]
    lanes = []
    for stat, rows in found[:MAX_LANES]:
        ordered = rows[rank(ops.start_ns[rows], launch[rows])]
        lanes.append(_stream_lane(trace, stat, ordered, launch, orphan, classes, window))
    return lanes, len(folded), sum(len(rows) for _, rows in folded)


def _idle_stream(device: int, stream: int) -> StreamStat:
    """A stream on which ops were queued, and none executed."""
    return StreamStat(device, stream, n_ops=0, busy_ns=0, busy_frac=0.0, n_overlaps=0, n_zero_durations=0)


def _stream_lane(
    trace: Trace,
    stat: StreamStat,
    rows: Int64,
    launch: Int64,
    orphan: Bool,
    classes: Int8,
    window: tuple[int, int],
) -> StreamLane:
    ops = trace.ops.take(rows)
    known = (ops.launch != NONE) | orphan[rows]
    queued_ns = launch[rows]
    deepest, mean = _depth_within(count_over_time(queued_ns[known], ops.start_ns[known]), *window)
    return StreamLane(
        device=stat.device,
        stream=stat.stream,
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
        busy_ns=stat.busy_ns,
        busy_frac=stat.busy_frac,
    )


def _depth_within(depth: CountOverTime, start_ns: int, end_ns: int) -> tuple[int, float]:
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
    copy = _main_copy(parts)
    tokens = {
        "compute_alone_ns": ("comp", ""),
        "compute_with_other_ns": ("comp", "comm" if parts.communication_ns else "dtod"),
        "communication_alone_ns": ("comm", ""),
        "copy_alone_ns": (copy, ""),
        "memset_alone_ns": ("memset", ""),
        "several_without_compute_ns": ("comm" if parts.communication_ns else "memset", copy),
        "idle_ns": ("wait", ""),
    }
    found = asdict(parts.partition)
    return tuple(Share(words, found[key], *tokens[key]) for key, words in PARTITION_WORDS.items() if found[key])


def _main_copy(parts: Breakdown) -> str:
    return max(("dtod", "htod", "dtoh"), key=parts.class_ns)


def _staves(parts: Breakdown, n_streams: int) -> tuple[Stave, ...]:
    """Compute, communication, copy and idle, where there is more than one stream or class to lay side by side."""
    classes = [name for name in ("compute", "communication", "copy") if parts.class_ns(name)]
    if len(classes) < 2 and n_streams < 2:
        return ()
    staves = []
    if "compute" in classes:
        staves.append(Stave("compute", (_part(parts, "comp", "compute"),), parts.compute_ns))
    if "communication" in classes:
        exposed = parts.exposed_communication_ns
        staves.append(Stave("communication", (_part(parts, "comm", "communication"),), parts.communication_ns, exposed))
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
