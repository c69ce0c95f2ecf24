"""What each lane of a timeline holds: immutable columns, the same for every face that draws them.

Times are int64 ns of the trace. Nothing here knows pixels, colours or markup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfmagic.analysis.timeline.memory import MemoryCurve
from perfmagic.numerics.intervals import Intervals
from perfmagic.trace.columns import Bool, Int8, Int32, Int64
from perfmagic.trace.names import OpClass
from perfmagic.view.timeline.packing import Packing
from perfmagic.view.timeline.pile import Pile

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

    level: 0 is outermost.  name: row of the document's names.
    """

    thread: int
    label: str
    start_ns: Int64
    end_ns: Int64
    level: Int32
    name: Int32

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def depth(self) -> int:
        return int(self.level.max(initial=-1)) + 1


@dataclass(frozen=True, eq=False)
class LaunchLane:
    """Calls that queued work, and calls that blocked Python.

    start_ns, end_ns: the launches; call: their rows of the trace's calls.  blocked_*: one row a blocking call; words:
    who asked for it (".item()").
    """

    start_ns: Int64
    end_ns: Int64
    call: Int64
    blocked_start_ns: Int64
    blocked_end_ns: Int64
    blocked_line: Int32
    words: tuple[str, ...]

    @property
    def n_launches(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, eq=False)
class StreamLane:
    """One stream: what was queued on it and what it ran. Rows are ops in the order in which they started.

    launch_ns: when Python queued the op; its own start where that is not known; the start of the record for an orphan.
    op_class: OpClass.  name: row of the document's names.  line: top-level cell line that launched it, 0 outside the
    cell; inner_line: the innermost marked line.  orphan: launched before the record began.
    row: of the trace's device ops.  queue_max, queue_mean: ops launched and not started.  busy_frac: as in DeviceGroup.
    """

    device: int
    stream: int
    row: Int64
    launch_ns: Int64
    start_ns: Int64
    end_ns: Int64
    op_class: Int8
    name: Int32
    line: Int32
    inner_line: Int32
    orphan: Bool
    packing: Packing
    queue_max: int
    queue_mean: float
    busy_ns: int
    busy_frac: float

    def __len__(self) -> int:
        return len(self.start_ns)

    @cached_property
    def label(self) -> str:
        return f"stream {self.stream}"

    @cached_property
    def pile(self) -> Pile:
        return Pile(np.minimum(self.launch_ns, self.start_ns), self.start_ns)

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
    """One class on a stave: when it was active, and the part that was exposed: no compute beside it."""

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

    short_label: "GPU" or "device".  busy_frac: of the cell, of a file of the device's extent.  shares: where that went.
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
    staves: tuple[Stave, ...]
    shares: tuple[Share, ...] = ()
    n_folded: int = 0
    folded_ops: int = 0
    memory: MemoryCurve | None = None

    @property
    def queue_max(self) -> int:
        return max((s.queue_max for s in self.streams), default=0)


@dataclass(frozen=True)
class Flag:
    """A moment worth a word: a line through all lanes."""

    at_ns: int
    text: str
