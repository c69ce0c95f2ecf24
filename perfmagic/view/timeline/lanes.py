"""What each lane of a timeline holds: immutable columns, the same for every renderer.

Times are int64 ns of the trace. Nothing here knows pixels, colours or markup.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np

from perfmagic.analysis.timeline.activity import MemoryCurve, orphans
from perfmagic.analysis.timeline.overlap import Breakdown
from perfmagic.base.language import say
from perfmagic.base.numerics.intervals import Intervals, subtract
from perfmagic.trace.columns import NO_LINE, NONE, Bool, Float64, Int8, Int32, Int64, layer_lines_at
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass

# Ops of one stream that overlap, laid side by side: nothing covers anything, nothing is left out.


@dataclass(frozen=True, eq=False)
class Packing:
    """Where each op lies inside its lane.

    sub_lane: 0 is the top.  split: how many sub-lanes the lane has at the op; 1 where nothing overlaps, so that the
    lane splits only where it must.  Both of the ops' shape.
    """

    sub_lane: Int32
    split: Int32

    @property
    def depth(self) -> int:
        """The most sub-lanes anywhere, 1 where nothing overlaps."""
        return int(self.split.max(initial=1))


def pack(start_ns: Int64, end_ns: Int64) -> Packing:
    """Put each op on the first sub-lane that is free when it starts.

    start_ns: rising.  Ops that touch (one ends as the other starts) share a sub-lane.
    """
    n = len(start_ns)
    sub_lane, split = np.zeros(n, np.int32), np.ones(n, np.int32)
    for first, last in _clusters(start_ns, end_ns):
        lanes = _greedy(start_ns[first:last].tolist(), end_ns[first:last].tolist())
        sub_lane[first:last] = lanes
        split[first:last] = max(lanes) + 1
    return Packing(sub_lane, split)


def _clusters(start_ns: Int64, end_ns: Int64) -> list[tuple[int, int]]:
    """Row ranges of ops that overlap directly or through others; single ops are left out."""
    if len(start_ns) < 2:
        return []
    opens = np.flatnonzero(start_ns[1:] >= np.maximum.accumulate(end_ns)[:-1]) + 1
    edges = np.concatenate(([0], opens, [len(start_ns)]))
    several = np.flatnonzero(np.diff(edges) > 1)
    return [(int(edges[i]), int(edges[i + 1])) for i in several]


def _greedy(start_ns: list[int], end_ns: list[int]) -> list[int]:
    lanes: list[int] = []
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for start, end in zip(start_ns, end_ns, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane))
        lanes.append(lane)
    return lanes


# The backlog: every op that is queued on a stream as a layer, in the order in which the layers will start.


@dataclass(frozen=True)
class Run:
    """Layers first <= rank < last that belong together: one cell line, one tint."""

    first: int
    last: int
    key: int

    def __len__(self) -> int:
        return self.last - self.first


@dataclass(frozen=True, eq=False)
class Backlog:
    """The waits [launch_ns, start_ns) of one stream's ops, by rank: rising start.

    Streams start ops in launch order; where a record says otherwise, an op's level counts the waiting ops of lower
    rank, and its path may rise.
    """

    launch_ns: Int64
    start_ns: Int64

    def __len__(self) -> int:
        return len(self.start_ns)

    def depth(self, edges_ns: Float64) -> Float64:
        """Mean number of queued ops in each slot between edges, shape (len(edges) - 1,)."""
        return self.layer_depth(0, len(self), edges_ns)

    def layer_depth(self, first: int, last: int, edges_ns: Float64) -> Float64:
        """Mean number of queued ops of the ranks [first, last) in each slot: the thickness of that layer."""
        return _mean_waiting(self.launch_ns[first:last], self.start_ns[first:last], edges_ns)

    def level(self, rank: int, edges_ns: Float64) -> Float64:
        """Mean level of an op's lower edge in each slot, NaN in slots it is not queued in at all."""
        queued = (edges_ns[1:] > self.launch_ns[rank]) & (edges_ns[:-1] < self.start_ns[rank])
        below = np.full(len(queued), np.nan)
        if queued.any():
            slots = np.flatnonzero(queued)
            first = int(_started(self.start_ns, edges_ns[slots[0]]))
            part = edges_ns[slots[0] : slots[-1] + 2]
            below[queued] = self.layer_depth(min(first, rank), rank, part)[queued[slots[0] : slots[-1] + 1]]
        return below

    def runs(self, keys: Int64) -> tuple[Run, ...]:
        """Neighbouring ranks with the same key, bottom first."""
        if not len(keys):
            return ()
        cuts = np.concatenate(([0], np.flatnonzero(np.diff(keys)) + 1, [len(keys)]))
        return tuple(Run(int(a), int(b), int(keys[a])) for a, b in itertools.pairwise(cuts))


def rank(start_ns: Int64, launch_ns: Int64) -> Int64:
    """Rows in the order in which a stream starts them; ties keep the order of their launches."""
    return np.lexsort((launch_ns, start_ns))


def flow_stride(row_px: float, gap_px: float) -> int:
    """Every how many-th path is drawn, so that paths are gap_px apart: a power of two, stable when panning."""
    stride = 1
    while stride * row_px < gap_px:
        stride *= 2
    return stride


def _mean_waiting(launch_ns: Int64, start_ns: Int64, edges_ns: Float64) -> Float64:
    width = np.diff(edges_ns)
    total = _summed_before(np.sort(launch_ns), edges_ns) - _summed_before(np.sort(start_ns), edges_ns)
    mean = np.divide(np.diff(total), width, out=np.zeros(len(width)), where=width > 0)
    return np.where(mean > 1e-9, mean, 0.0)


def _started(at_ns: Int64, by_ns: Float64) -> Int64:
    """How many of some rising instants had come by others; whole ns, or numpy makes all of them doubles each time."""
    number: Int64 = np.searchsorted(at_ns, np.floor(by_ns).astype(np.int64), side="right")
    return number


def _summed_before(at_ns: Int64, edges_ns: Float64) -> Float64:
    """Over all events before each edge, the time since the event, summed."""
    if not len(at_ns):
        return np.zeros(len(edges_ns))
    # relative to the first edge, so that the sums keep their last digits
    since = at_ns - edges_ns[0]
    before = np.concatenate(([0.0], np.cumsum(since)))
    number = _started(at_ns, edges_ns)
    summed: Float64 = number * (edges_ns - edges_ns[0]) - before[number]
    return summed


# the parts of perfmagic.analysis.timeline.overlap.Partition; alone: no op of another class runs
PARTITION_WORDS = {
    "compute_alone_ns": "compute alone",
    "compute_with_other_ns": "compute ∥ other",
    "communication_alone_ns": "communication alone",
    "copy_alone_ns": "copy alone",
    "memset_alone_ns": "memset alone",
    "several_without_compute_ns": "several, no compute",
    "idle_ns": "idle",
}
BEFORE_THE_RECORD = -1  # the key of layers whose launch was not recorded; other keys are lines of the cell


@dataclass(frozen=True, eq=False)
class CellLane:
    """Which top-level statement of the cell Python was running: rows [start_ns, end_ns) in time order.

    texts: the source of each line that occurs.
    """

    start_ns: Int64
    end_ns: Int64
    line: Int32
    texts: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, eq=False)
class HostOpsLane:
    """The operators of one thread in flame order.

    level: 0 is outermost.  name: row of the document's names.  row: of the trace's table.
    """

    thread: int
    label: str
    start_ns: Int64
    end_ns: Int64
    level: Int32
    name: Int32
    row: Int64 | Int32

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def depth(self) -> int:
        return int(self.level.max(initial=-1)) + 1

    def in_order(self) -> Int64:
        """Its rows, a level after the other, each in order of time."""
        return np.lexsort((self.start_ns, self.level))


@dataclass(frozen=True, eq=False)
class LaunchLane:
    """Calls that queued work, and calls that blocked Python.

    start_ns, end_ns: the launches; call: their rows of the trace's calls.  blocked_*: one row a blocking call; words:
    who asked for it (".item()"); beside_work: whether a device was busy meanwhile.
    """

    start_ns: Int64
    end_ns: Int64
    call: Int64
    blocked_start_ns: Int64
    blocked_end_ns: Int64
    blocked_line: Int32
    words: tuple[str, ...]
    beside_work: Bool

    @property
    def n_launches(self) -> int:
        return len(self.start_ns)


def launched_ns(trace: Trace) -> Int64:
    """When Python queued each op; its own start where that is not known; the start of the record for an orphan."""
    start_ns = trace.ops.start_ns
    record_start = min(trace.meta.start_ns, int(start_ns.min(initial=trace.meta.start_ns)))
    return np.where(orphans(trace), record_start, np.minimum(trace.launch_start_ns(), start_ns))


@dataclass(frozen=True, eq=False)
class StreamLane:
    """One stream: what was queued on it and what it ran. Rows are ops in the order in which they started.

    row: of the trace's device ops; columns are taken from there when they are drawn.  classes: of all its ops.
    queue_max, queue_mean: ops launched and not started.  busy_frac: as in DeviceGroup.
    """

    trace: Trace
    device: int
    stream: int
    row: Int32
    classes: Int8
    queue_max: int
    queue_mean: float
    busy_ns: int
    busy_frac: float

    def __len__(self) -> int:
        return len(self.row)

    @cached_property
    def launch_ns(self) -> Int64:
        """As launched_ns() has it."""
        return launched_ns(self.trace)[self.row]

    @cached_property
    def start_ns(self) -> Int64:
        return self.trace.ops.start_ns[self.row]

    @cached_property
    def end_ns(self) -> Int64:
        return self.trace.ops.end_ns[self.row]

    @cached_property
    def op_class(self) -> Int8:
        """OpClass."""
        return self.classes[self.row]

    @cached_property
    def name(self) -> Int32:
        """Row of the document's names."""
        return self.trace.ops.name[self.row]

    @cached_property
    def line(self) -> Int32:
        """The top-level cell line that launched each op, 0 outside the cell and where the launch is not known."""
        known = (self.trace.ops.launch[self.row] != NONE) | self.orphan
        return np.where(known, layer_lines_at(self.trace.marks, self.launch_ns), NO_LINE)

    @cached_property
    def inner_line(self) -> Int32:
        """The innermost marked line."""
        return self.trace.ops.line[self.row]

    @cached_property
    def orphan(self) -> Bool:
        """Launched before the record began."""
        return orphans(self.trace)[self.row]

    @cached_property
    def packing(self) -> Packing:
        return pack(self.start_ns, self.end_ns)

    @cached_property
    def label(self) -> str:
        return say("stream {n}", n=self.stream)

    @cached_property
    def backlog(self) -> Backlog:
        return Backlog(np.minimum(self.launch_ns, self.start_ns), self.start_ns)

    @cached_property
    def layer_keys(self) -> Int64:
        """What holds neighbouring layers together: the line that launched them, or that their launch is not known."""
        return np.where(self.orphan, BEFORE_THE_RECORD, self.line).astype(np.int64)

    @cached_property
    def main_class(self) -> OpClass:
        """The class that took most of the stream's time."""
        length = (self.end_ns - self.start_ns + 1).astype(np.float64)
        return OpClass(int(np.bincount(self.op_class, weights=length, minlength=1).argmax()))


@dataclass(frozen=True, eq=False)
class StavePart:
    """One class on a stave: when it was active, and the exposed part, which did not overlap with compute."""

    name: str
    active: Intervals
    exposed: Intervals


@dataclass(frozen=True, eq=False)
class Stave:
    """A union over the whole device: compute, communication, copy or idle."""

    name: str
    parts: tuple[StavePart, ...]
    active_ns: int
    exposed_ns: int | None = None


@dataclass(frozen=True)
class Share:
    """One part of a device's time, each instant counted once. token: its colour; second: that of what ran beside it."""

    name: str
    ns: int
    token: str
    second: str = ""


@dataclass(frozen=True, eq=False)
class PathLane:
    """The critical path in time; arrays of equal length, times in ns, each part ends where the next one begins.

    share: row of the document's path.  op: row of trace.ops of the first op of a part on a device, NONE on the host.
    """

    start_ns: Int64
    end_ns: Int64
    share: Int64
    op: Int64

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, eq=False)
class DeviceGroup:
    """All lanes of one device, streams by busy time.

    short_label: "GPU" or "device".  busy_frac: of the cell, of a file of the device's extent.
    n_folded: streams beyond the limit, counted and not held; folded_ops: the ops on them.
    memory: None where there is no record of it.
    """

    device: int
    label: str
    short_label: str
    n_ops: int
    busy_ns: int
    busy_frac: float
    extent_ns: int
    streams: tuple[StreamLane, ...]
    breakdown: Breakdown
    n_folded: int = 0
    folded_ops: int = 0
    memory: MemoryCurve | None = None

    @property
    def queue_max(self) -> int:
        return max((s.queue_max for s in self.streams), default=0)

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        """Where the busy time and the rest went."""
        return _shares(self.breakdown)

    @cached_property
    def staves(self) -> tuple[Stave, ...]:
        return _staves(self.breakdown, len(self.streams))


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


@dataclass(frozen=True)
class Flag:
    """A moment worth a word: a line through all lanes."""

    at_ns: int
    text: str
