"""From a trace to the lanes of a device: one a stream, and the staves over all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

import numpy as np

from perfmagic.analysis.timeline.activity import memory_curve, orphans, stream_rows, streams
from perfmagic.analysis.timeline.origin import frames, modules, origins
from perfmagic.analysis.timeline.overlap import Breakdown, breakdown
from perfmagic.analysis.timeline.queueing import CountOverTime, count_over_time
from perfmagic.base.numerics.intervals import coded, subtract
from perfmagic.base.work import Inputs, describe_dtype, describe_shape
from perfmagic.trace.columns import NONE, Bool, Int8, Int64, layer_lines_at
from perfmagic.trace.model import Trace
from perfmagic.trace.names import op_classes
from perfmagic.view.timeline.lanes import PARTITION_WORDS, DeviceGroup, Share, Stave, StavePart, StreamLane, pack, rank

GPU_KINDS = ("cuda", "rocm")
MAX_LANES = 512  # more are folded and counted (docs/traces.md, "Limits")


class _Source(NamedTuple):
    """What the lanes of one device are made from.

    whole_ns: what busy time is a share of.  busy_ns: of each stream that executed something.
    launch_ns: when each op was queued, as StreamLane has it; orphan, classes: of each op; shape of the trace's ops.
    """

    trace: Trace
    device: int
    window: tuple[int, int]
    whole_ns: int
    busy_ns: Mapping[int, int]
    launch_ns: Int64
    orphan: Bool
    classes: Int8

    def share(self, busy_ns: int) -> float:
        return busy_ns / self.whole_ns if self.whole_ns else 0.0


def device_group(trace: Trace, device: int, start_ns: int, end_ns: int, comm_names: str | None = None) -> DeviceGroup:
    """The lanes of one device inside a window, the busiest stream first."""
    seen = windowed(trace, start_ns, end_ns)
    parts = breakdown(seen, device, comm_names)
    busy_ns = {stat.stream: stat.busy_ns for stat in streams(seen, device)}
    in_cell = trace.meta.returned_ns is not None
    whole_ns = end_ns - start_ns if in_cell else parts.extent_ns
    orphan, record_start = orphans(trace), min(trace.meta.start_ns, int(trace.ops.start_ns.min(initial=start_ns)))
    launch_ns = np.where(orphan, record_start, np.minimum(trace.launch_start_ns(), trace.ops.start_ns))
    classes = op_classes(trace, comm_names)
    source = _Source(trace, device, (start_ns, end_ns), whole_ns, busy_ns, launch_ns, orphan, classes)
    lanes, n_folded, folded_ops = _stream_lanes(source)
    info = trace.device_info(device)
    return DeviceGroup(
        device=device,
        label=info.label,
        short_label="GPU" if info.kind in GPU_KINDS else "device",
        n_ops=parts.n_ops,
        busy_ns=parts.busy_ns,
        busy_frac=source.share(parts.busy_ns),
        extent_ns=parts.extent_ns,
        streams=tuple(lanes),
        staves=_staves(parts, len(lanes)),
        n_folded=n_folded,
        folded_ops=folded_ops,
        shares=_shares(parts),
        memory=memory_curve(trace, device),
    )


def windowed(trace: Trace, start_ns: int, end_ns: int) -> Trace:
    """The trace with only what a device executed inside [start_ns, end_ns), cut at its edges.

    An op without length at the very end of the record is inside a window that ends there.
    """
    ops = trace.ops
    begun = ops.start_ns <= end_ns if end_ns >= trace.meta.end_ns else ops.start_ns < end_ns
    inside = begun & ((ops.end_ns > start_ns) | (ops.start_ns >= start_ns))
    if (
        inside.all()
        and ops.end_ns.max(initial=end_ns) == end_ns
        and ops.start_ns.min(initial=start_ns) == start_ns
        and (start_ns, end_ns) == (trace.meta.start_ns, trace.meta.end_ns)
    ):
        return trace
    kept = ops.select(inside)
    cut = replace(kept, start_ns=np.maximum(kept.start_ns, start_ns), end_ns=np.minimum(kept.end_ns, end_ns))
    return replace(trace, ops=cut, meta=replace(trace.meta, start_ns=start_ns, end_ns=end_ns))


def _stream_lanes(source: _Source) -> tuple[list[StreamLane], int, int]:
    """The lanes of the busiest streams, and of the others how many there are and their ops."""
    ops, (start_ns, end_ns) = source.trace.ops, source.window
    seen = (ops.device == source.device) & (ops.end_ns >= start_ns) & (source.launch_ns < end_ns)
    lanes_by_busy = [
        (source.busy_ns.get(stream, 0), stream, rows)
        for device, stream, of_stream in stream_rows(ops)
        if device == source.device and len(rows := of_stream[seen[of_stream]])
    ]
    lanes_by_busy.sort(key=lambda lane: (-lane[0], lane[1]))
    folded = lanes_by_busy[MAX_LANES:]
    lanes = []
    for busy_ns, stream, rows in lanes_by_busy[:MAX_LANES]:
        ordered = rows[rank(ops.start_ns[rows], source.launch_ns[rows])]
        lanes.append(_stream_lane(source, stream, ordered, busy_ns))
    return lanes, len(folded), sum(len(rows) for _, _, rows in folded)


def _stream_lane(source: _Source, stream: int, rows: Int64, busy_ns: int) -> StreamLane:
    trace, window, orphan = source.trace, source.window, source.orphan[rows]
    ops, queued_ns = trace.ops.select(rows), source.launch_ns[rows]
    known = (ops.launch != NONE) | orphan
    deepest, mean = _depth_within(count_over_time(queued_ns[known], ops.start_ns[known]), *window)
    return StreamLane(
        device=source.device,
        stream=stream,
        row=rows,
        launch_ns=queued_ns,
        start_ns=ops.start_ns,
        end_ns=ops.end_ns,
        op_class=source.classes[rows],
        name=ops.name,
        line=layer_lines_at(trace.marks, queued_ns) * known.astype(np.int32),
        inner_line=ops.line,
        orphan=orphan,
        packing=pack(ops.start_ns, ops.end_ns),
        queue_max=deepest,
        queue_mean=mean,
        busy_ns=busy_ns,
        busy_frac=source.share(busy_ns),
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
    """Where the window went on a device, start-up included; each instant once, parts without time left out."""
    copy = _main_copy(parts)
    tokens = {
        "compute_alone_ns": ("comp", ""),
        "compute_with_other_ns": ("comp", "comm" if parts.communication_ns else "dtod"),
        "communication_alone_ns": ("comm", ""),
        "copy_alone_ns": (copy, ""),
        "memset_alone_ns": ("memset", ""),
        "several_without_compute_ns": ("comm" if parts.communication_ns else "memset", copy),
        "idle_ns": ("idle", ""),
    }
    times_ns = asdict(parts.partition)
    shares = (
        Share("before the first op", parts.head_ns, "rule"),
        *(Share(words, times_ns[key], *tokens[key]) for key, words in PARTITION_WORDS.items()),
        Share("after the last op", parts.tail_ns, "rule"),
    )
    return tuple(share for share in shares if share.ns)


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
        staves.append(Stave("idle", (StavePart("idle", idle, idle),), parts.idle_ns))
    return tuple(staves)


def _part(parts: Breakdown, token: str, name: str) -> StavePart:
    active = parts.intervals[name]
    hidden_by = parts.intervals["compute"]
    return StavePart(token, active, active if name == "compute" else subtract(active, hidden_by))


# Where device ops come from, in words for the card of an op: operator, inputs, module, the user's own frame.

MOST_INPUTS = 120  # characters
_FRAME = re.compile(r"(?P<file>[^()]+\.pyx?)\((?P<line>\d+)\): (?P<function>.+)")
_FOLDER = re.compile(r".*[\\/]")


@dataclass(frozen=True, eq=False)
class OriginWords:
    """The origins that occur, and which one each device op has.

    rows: operator, inputs, module and frame, each "" where it is not recorded.  of_op: row of rows, NONE for none;
    shape of trace.ops.
    """

    rows: tuple[tuple[str, str, str, str], ...]
    of_op: Int64


def describe_origin(trace: Trace) -> OriginWords:
    """Who launched each op, with which inputs, in which module and from where in the user's code; each origin once."""
    host, launched_by = trace.host_ops, origins(trace).host_op
    module, frame = modules(trace), frames(trace)
    known = launched_by != NONE
    columns = [np.full(len(trace.ops), NONE, np.int64) for _ in range(3)]
    for column, of_host in zip(columns, (host.name, host.shape, host.dtype), strict=True):
        column[known] = of_host[launched_by[known]]
    places = [module.row.astype(np.int64), frame.row.astype(np.int64)]
    key = np.zeros(len(trace.ops), np.int64)
    for column in (*columns, *places):  # each pair of codes becomes one code: no product of sizes can overflow
        _, code = coded(column)
        _, key = coded(key * (int(code.max(initial=0)) + 1) + code)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    words = [
        (
            trace.names[columns[0][op]] if known[op] else "",
            _inputs(trace, int(columns[1][op]), int(columns[2][op])),
            module.words[module.row[op]] if module.row[op] != NONE else "",
            describe_frame(frame.words[frame.row[op]]) if frame.row[op] != NONE else "",
        )
        for op in first.tolist()
    ]
    said: dict[tuple[str, str, str, str], int] = {}
    row = [said.setdefault(entry, len(said)) if any(entry) else NONE for entry in words]
    return OriginWords(tuple(said), np.array(row, np.int64)[which] if row else np.zeros(0, np.int64))


def _inputs(trace: Trace, shape: int, dtype: int) -> str:
    """The shapes and types of an operator's tensors: "[64, 128] [128, 32] bf16"."""
    if shape == NONE:
        return ""
    inputs = Inputs.read(trace.input_shapes[shape], trace.input_dtypes[dtype] if dtype != NONE else None)
    types = describe_dtype([tensor_dtype for _, tensor_dtype in inputs.tensors])
    words = " ".join(filter(None, (describe_shape(inputs.shapes), types)))
    return words if len(words) <= MOST_INPUTS else f"{words[: MOST_INPUTS - 1]}…"


def describe_frame(frame: str) -> str:
    """A Python frame without the folders: "/home/me/train.py(12): step" → "step, train.py line 12"."""
    match = _FRAME.fullmatch(frame)
    if match is None:
        return frame
    return f"{match['function']}, {_FOLDER.sub('', match['file'])} line {match['line']}"
