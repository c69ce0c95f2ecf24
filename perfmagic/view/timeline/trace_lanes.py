"""From a trace to its lanes: what the host did, a lane a stream of a device, and the staves over all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.timeline.activity import Syncs, beside_work, memory_curve, orphans, streams
from perfmagic.analysis.timeline.host_time import BUILTIN_NAME, FRAME_NAME, is_own_frame, main_thread
from perfmagic.analysis.timeline.origin import frames, modules, origins
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.analysis.timeline.queueing import depth_within
from perfmagic.base import units
from perfmagic.base.language import say
from perfmagic.base.numerics.intervals import coded
from perfmagic.base.work import Inputs, describe_dtype, describe_shape
from perfmagic.trace.columns import (
    NO_LINE,
    NONE,
    Bool,
    CallKind,
    DeviceOps,
    HostOps,
    Int8,
    Int32,
    Int64,
    layer_lines,
    touches,
)
from perfmagic.trace.hoststack import HostStack, host_stack, nested
from perfmagic.trace.model import Trace, once_per_trace, stream_rows
from perfmagic.trace.names import op_classes
from perfmagic.view.timeline.lanes import (
    CellLane,
    DeviceGroup,
    HostOpsLane,
    LaunchLane,
    StreamLane,
    launched_ns,
    rank,
)

# From a trace to the lanes of Python: cell lines, operators, launches and blocking calls.

AUTOGRAD_PREFIX = "autograd::engine"


def cell_lane(trace: Trace, start_ns: int, end_ns: int) -> CellLane | None:
    """The lines of the cell inside a window, a loop as one; None for a trace without line marks."""
    marks = trace.marks
    if not len(marks):
        return None
    shown = layer_lines(marks)
    changes = np.concatenate(([True], shown[1:] != shown[:-1]))
    begin, line = marks.at_ns[changes], shown[changes]
    finish = np.append(begin[1:], max(end_ns, int(begin[-1])))
    begin, finish = np.maximum(begin, start_ns), np.minimum(finish, end_ns)
    keep = (finish > begin) & (line != NO_LINE)
    texts = {int(n): trace.cell.text(int(n)) for n in np.unique(line[keep])} if trace.cell else {}
    return CellLane(begin[keep], finish[keep], line[keep], texts)


def host_ops_lanes(trace: Trace, start_ns: int, end_ns: int) -> tuple[HostOpsLane, ...]:
    """The operators of each thread inside a window in flame order, the thread that started first on top."""
    stack = host_stack(trace)
    lanes = []
    for thread, levels in stack.levels.items():
        rows = np.concatenate(levels)
        level = np.repeat(np.arange(len(levels), dtype=np.int32), [len(rows_at) for rows_at in levels])
        seen = (trace.host_ops.end_ns[rows] > start_ns) & (trace.host_ops.start_ns[rows] < end_ns)
        if seen.any():
            lanes.append(_host_lane(trace, thread, rows[seen], level[seen]))
    lanes.sort(key=lambda lane: int(lane.start_ns.min()))
    return _labelled(trace, lanes)


def launch_lane(trace: Trace, blocking: Syncs, start_ns: int, end_ns: int) -> LaunchLane | None:
    """Launch calls and blocking calls inside a window, None where there are neither.

    The wait that the measurement itself adds after the cell's last line is not the cell's and is left out.
    """
    calls = trace.calls
    launches = (calls.kind == CallKind.LAUNCH) & (calls.end_ns > start_ns) & (calls.start_ns < end_ns)
    launches |= _queued_an_op(trace) & (calls.end_ns > start_ns) & (calls.start_ns < end_ns)
    blocked = (blocking.end_ns > start_ns) & (blocking.start_ns < end_ns) & ~blocking.after_cell
    if not launches.any() and not blocked.any():
        return None
    rows = np.flatnonzero(blocked)
    return LaunchLane(
        start_ns=calls.start_ns[launches],
        end_ns=calls.end_ns[launches],
        call=np.flatnonzero(launches),
        blocked_start_ns=blocking.start_ns[rows],
        blocked_end_ns=blocking.end_ns[rows],
        blocked_line=blocking.line[rows],
        words=tuple(blocking.asker_name(int(row)) for row in rows),
        beside_work=beside_work(trace)[rows],
    )


def _queued_an_op(trace: Trace) -> Bool:
    """Calls that some op names as its launch, whatever their kind."""
    result = np.zeros(len(trace.calls), bool)
    launch = trace.ops.launch
    result[launch[launch != NONE]] = True
    return result


def _host_lane(trace: Trace, thread: int, rows: Int32, level: Int32) -> HostOpsLane:
    ops = trace.host_ops
    return HostOpsLane(thread, "", ops.start_ns[rows], ops.end_ns[rows], level, ops.name[rows], rows)


def _labelled(trace: Trace, lanes: list[HostOpsLane]) -> tuple[HostOpsLane, ...]:
    """Names for threads: the first is the main one, autograd's own is known by what it runs, others are numbered."""
    named = []
    for number, lane in enumerate(lanes, start=1):
        outer = lane.name[lane.level == 0]
        autograd = any(trace.names[int(n)].startswith(AUTOGRAD_PREFIX) for n in np.unique(outer))
        label = say("main thread") if number == 1 else say("autograd") if autograd else say("thread {n}", n=number)
        named.append(replace(lane, label=label))
    return tuple(named)


# Python frames as lanes: people's own code on the threads that launched device ops, as many frames as a page holds.

LABEL = "Python frames"
MOST_FRAMES = 3_000  # of one timeline, the longest: about 15 kB of what is sent
MOST_LEVELS = 64  # code that calls itself can be a thousand deep
_FOLDER = re.compile(r".*[\\/]")


@dataclass(frozen=True, eq=False)
class FrameLanes:
    """The frames that are drawn.

    lanes: one a thread, in flame order.  words: of each name that occurs, as it is read: "step (train.py:12)".
    note: how many frames there are, and which are not drawn; "" where all are.
    """

    lanes: tuple[HostOpsLane, ...]
    words: Mapping[int, str]
    note: str


def frame_lanes(trace: Trace, start_ns: int, end_ns: int) -> FrameLanes:
    """The frames of each thread that launched, inside a window; of a trace without launches those of its main thread.

    Built-in functions are drawn where people's code called them. A thread without such code shows all its frames.
    """
    if not len(trace.python_frames):
        return FrameLanes((), {}, "")
    table = trace.python_frames.table
    seen = touches(table.start_ns, table.end_ns, start_ns, end_ns)
    threads = _launching(trace)
    here = seen & np.isin(table.thread, threads)
    lasting = table.end_ns > table.start_ns
    wanted, level = _own(trace, nested(table, here))
    deep = wanted & (level >= MOST_LEVELS)
    longest, limit_ns = _longest(table, wanted & ~deep)
    left_out = {
        "on threads that launched nothing": seen & ~here,
        "of no length": here & ~lasting,
        "inside torch": here & lasting & ~wanted,
        f"inside {MOST_LEVELS} others": deep,
        f"of {units.duration(limit_ns)} or less": wanted & ~deep & ~longest,
    }
    rows_of = ((thread, np.flatnonzero(longest & (table.thread == thread))) for thread in threads.tolist())
    lanes = tuple(_lane(table, thread, rows, level) for thread, rows in rows_of if len(rows))
    used = np.unique(table.name[longest]).tolist()
    return FrameLanes(lanes, {name: describe_frame(trace.names[name]) for name in used}, _note(longest, seen, left_out))


def frame_lane_of(finding: Finding, frames: FrameLanes) -> int | None:
    """The lane that has the frames a finding is about, for the longest in its time; None where none is drawn."""
    functions = {frame.function for frame in finding.frames}
    known = np.array([name for name, words in frames.words.items() if words.split(" (")[0] in functions], np.int64)
    times = []
    for lane in frames.lanes:
        rows = np.isin(lane.name, known)
        start, end = (np.clip(at[rows], finding.start_ns, finding.end_ns) for at in (lane.start_ns, lane.end_ns))
        times.append(int((end - start).sum()))
    return int(np.argmax(times)) if max(times, default=0) else None


def describe_frame(name: str) -> str:
    """A frame as it is read in a lane: "/home/me/train.py(12): step" → "step (train.py:12)"."""
    if builtin := BUILTIN_NAME.match(name):
        return builtin["function"]
    match = FRAME_NAME.fullmatch(name)
    return f"{match['function']} ({_FOLDER.sub('', match['file'])}:{match['line']})" if match else name


def _launching(trace: Trace) -> Int64:
    """The threads that launched device ops, else the one that did most."""
    launch = trace.ops.launch[trace.ops.launch != NONE]
    threads: Int64 = np.unique(trace.calls.thread[launch]).astype(np.int64)
    return threads if len(threads) else np.array([main_thread(trace)], np.int64)


def _own(trace: Trace, stack: HostStack) -> tuple[Bool, Int64]:
    """Which rows of a stack are drawn, and how many of those each is inside of; both of the table's shape."""
    table, parent = stack.host_ops, stack.parents()
    own, file, builtin = (
        np.array([test(name) for name in trace.names], bool)[table.name]
        for test in (is_own_frame, lambda n: bool(FRAME_NAME.match(n)), lambda n: bool(BUILTIN_NAME.match(n)))
    )
    wanted, level = np.zeros(len(table), bool), np.zeros(len(table), np.int64)
    for levels in stack.levels.values():
        everything = not own[np.concatenate(levels)].any()
        in_own = np.zeros(len(table) + 1, bool)  # whether the innermost file is people's; the last is for NONE
        for rows in levels:
            in_own[rows] = np.where(file[rows], own[rows], in_own[parent[rows]])
            wanted[rows] = everything | own[rows] | (builtin[rows] & in_own[rows])
        for _, rows in pairwise(levels):
            inside = rows[parent[rows] != NONE]
            level[inside] = level[parent[inside]] + wanted[parent[inside]]
    return wanted, level


def _longest(table: HostOps, candidates: Bool) -> tuple[Bool, int]:
    """The longest rows, MOST_FRAMES at most, and the length up to which rows are left out: 0 where none is.

    Rows of one length stay or go together, so that a frame stays wherever one inside of it does.
    """
    length = table.end_ns - table.start_ns
    if np.count_nonzero(candidates) <= MOST_FRAMES:
        return candidates, 0
    limit_ns = int(np.partition(length[candidates], -MOST_FRAMES - 1)[-MOST_FRAMES - 1])
    return candidates & (length > limit_ns), limit_ns


def _lane(table: HostOps, thread: int, rows: Int64, level: Int64) -> HostOpsLane:
    levels = level[rows].astype(np.int32)
    return HostOpsLane(thread, LABEL, table.start_ns[rows], table.end_ns[rows], levels, table.name[rows], rows)


def _note(drawn: Bool, seen: Bool, left_out: Mapping[str, Bool]) -> str:
    counts = [(int(np.count_nonzero(mask)), words) for words, mask in left_out.items()]
    parts = [f"{units.count(n)} {words}" for n, words in counts if n]
    if not parts:
        return ""
    n_drawn, n_all = (int(np.count_nonzero(mask)) for mask in (drawn, seen))
    return f"{units.count(n_drawn)} of {units.plural(n_all, 'Python frame')} are drawn; left out are {', '.join(parts)}"


# The lanes of a device: one a stream, and the staves over all of them.

GPU_KINDS = ("cuda", "rocm")
MAX_LANES = 512  # more are folded and counted (docs/traces.md, "Limits")


class _Source(NamedTuple):
    """What the lanes of one device are made from.

    whole_ns: what busy time is a share of.  busy_ns: of each stream that executed something.
    """

    trace: Trace
    device: int
    window: tuple[int, int]
    whole_ns: int
    busy_ns: Mapping[int, int]
    classes: Int8

    def share(self, busy_ns: int) -> float:
        return busy_ns / self.whole_ns if self.whole_ns else 0.0


@once_per_trace
def device_group(trace: Trace, device: int, start_ns: int, end_ns: int, comm_names: str | None = None) -> DeviceGroup:
    """The lanes of one device inside a window, the busiest stream first."""
    seen = windowed(trace, start_ns, end_ns)
    parts = breakdown(seen, device, comm_names)
    busy_ns = {stat.stream: stat.busy_ns for stat in streams(seen, device)}
    in_cell = trace.meta.returned_ns is not None
    whole_ns = end_ns - start_ns if in_cell else parts.extent_ns
    source = _Source(trace, device, (start_ns, end_ns), whole_ns, busy_ns, op_classes(trace, comm_names))
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
        breakdown=parts,
        n_folded=n_folded,
        folded_ops=folded_ops,
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
    launch_ns = launched_ns(source.trace)
    seen = (ops.device == source.device) & (ops.end_ns >= start_ns) & (launch_ns < end_ns)
    lanes_by_busy = [
        (source.busy_ns.get(stream, 0), stream, rows)
        for device, stream, of_stream in stream_rows(ops)
        if device == source.device and len(rows := _kept(of_stream, seen))
    ]
    lanes_by_busy.sort(key=lambda lane: (-lane[0], lane[1]))
    folded = lanes_by_busy[MAX_LANES:]
    lanes = [
        _stream_lane(source, stream, _in_order(ops, rows, launch_ns), launch_ns, busy_ns)
        for busy_ns, stream, rows in lanes_by_busy[:MAX_LANES]
    ]
    return lanes, len(folded), sum(len(rows) for _, _, rows in folded)


def _kept(rows: Int32, wanted: Bool) -> Int32:
    """The wanted rows: no copy where all are."""
    mask = wanted[rows]
    return rows if mask.all() else rows[mask]


def _in_order(ops: DeviceOps, rows: Int32, launch_ns: Int64) -> Int32:
    """Rows of a stream, by start, in the order in which it started them."""
    start_ns = ops.start_ns[rows]
    return rows if (start_ns[1:] > start_ns[:-1]).all() else rows[rank(start_ns, launch_ns[rows])]


def _stream_lane(source: _Source, stream: int, rows: Int32, launch_ns: Int64, busy_ns: int) -> StreamLane:
    trace = source.trace
    known = _kept(rows, (trace.ops.launch != NONE) | orphans(trace))
    deepest, mean = depth_within(launch_ns[known], trace.ops.start_ns[known], *source.window)
    return StreamLane(
        trace=trace,
        device=source.device,
        stream=stream,
        row=rows,
        classes=source.classes,
        queue_max=deepest,
        queue_mean=mean,
        busy_ns=busy_ns,
        busy_frac=source.share(busy_ns),
    )


# Where device ops come from, in words for the card of an op: operator, inputs, module, the user's own frame.

MOST_INPUTS = 120  # characters
_FRAME = re.compile(r"(?P<file>[^()]+\.pyx?)\((?P<line>\d+)\): (?P<function>.+)")


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
            describe_caller(frame.words[frame.row[op]]) if frame.row[op] != NONE else "",
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


def describe_caller(frame: str) -> str:
    """A Python frame without the folders: "/home/me/train.py(12): step" → "step, train.py line 12"."""
    match = _FRAME.fullmatch(frame)
    if match is None:
        return frame
    return f"{match['function']}, {_FOLDER.sub('', match['file'])} line {match['line']}"
