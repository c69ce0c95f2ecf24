"""Where the time of a cell went, each instant once: the parts that the verdict compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from perfmagic.analysis.timeline.dependencies import released_ns
from perfmagic.analysis.timeline.idle import LAUNCH_LATENCY_NS, idle_gaps
from perfmagic.analysis.timeline.overlap import busy_intervals, extent
from perfmagic.analysis.timeline.syncs import blocked_intervals, syncs
from perfmagic.numerics.intervals import (
    EMPTY,
    Int64,
    Intervals,
    clip,
    complement,
    intersect,
    merge,
    subtract,
    total_ns,
    union,
)
from perfmagic.trace.columns import NONE, Bool
from perfmagic.trace.model import Trace

THE_CELL, ITS_EXTENT = "the cell", "its extent"  # what a share of busy time is of, as sentences have it


class Window(NamedTuple):
    """The time that a verdict speaks of, and that "busy" is a share of.  name: THE_CELL or ITS_EXTENT."""

    start_ns: int
    end_ns: int
    name: str

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


def judged_window(trace: Trace, device: int) -> Window:
    """The cell, from its start until every device was done; of a file, which has no cell, the extent of the device.

    A cell's window is widened to hold every op. Source: docs/verdict.md, "busy".
    """
    meta, ops = trace.meta, trace.ops
    if meta.returned_ns is None:
        return Window(*extent(ops.take(ops.device == device), meta.start_ns), ITS_EXTENT)
    start_ns, end_ns = int(ops.start_ns.min(initial=meta.start_ns)), int(ops.end_ns.max(initial=meta.end_ns))
    return Window(start_ns, end_ns, THE_CELL)


@dataclass(frozen=True, eq=False)
class CellTime:
    """The parts of a window for one device: interval sets that never overlap and add up to the window.

    working: the device executes an op, and Python waits for it or has queued the next one.
    unfed: the device executes its last queued op while Python works, and runs dry afterwards.
    for_python: the device is idle, nothing is queued and Python works on what it will launch.
    launching: an op was launched and is on its way, for less than 10 µs; on a simulated device however long.
    one_by_one: an op was launched and is on its way while Python works, and the device runs dry after it; on a
    simulated device, which shares Python's lock, any op that is late while Python works.
    between_ops: the next op was queued before the last one ended, and starts within 10 µs (simulated: at any time).
    returning: the device is idle, nothing is queued and Python has not come back from a blocking call.
    other_device: nothing is queued here, and Python waits for, or has only work for, another device.
    other_stream: queued, held by a recorded stream wait.  unexplained: queued, and the record does not say why not run.
    tail: after the device's last op, while Python works on.
    python_waits: Python in a blocking call, or done with the cell; it overlaps the other parts.
    """

    window: Window
    working: Intervals
    unfed: Intervals
    for_python: Intervals
    one_by_one: Intervals
    launching: Intervals
    between_ops: Intervals
    returning: Intervals
    other_device: Intervals
    other_stream: Intervals
    unexplained: Intervals
    tail: Intervals
    python_waits: Intervals

    @property
    def parts(self) -> dict[str, Intervals]:
        """The parts that add up to the window, by name."""
        return {name: value for name, value in vars(self).items() if name not in ("window", "python_waits")}

    @property
    def busy_ns(self) -> int:
        return total_ns(self.working) + total_ns(self.unfed)

    @property
    def busy_frac(self) -> float:
        return self.busy_ns / self.window.length_ns if self.window.length_ns else 0.0

    @property
    def device_ns(self) -> int:
        """What the devices decide: they execute, and Python waits for them or has queued more."""
        return total_ns(self.working) + total_ns(self.other_device)

    @property
    def waited_for_python_ns(self) -> int:
        """How long the device was idle because Python had launched nothing earlier."""
        return total_ns(self.for_python) + total_ns(self.one_by_one)

    @property
    def host_ns(self) -> int:
        """What Python decides: it works, and nothing is queued behind what the device executes or is about to."""
        return self.waited_for_python_ns + total_ns(self.unfed)

    @property
    def latency_ns(self) -> int:
        """What the way between Python and the device takes, or from one op to the next."""
        return total_ns(self.launching) + total_ns(self.between_ops) + total_ns(self.returning)

    @property
    def stalled_ns(self) -> int:
        return total_ns(self.other_stream) + total_ns(self.unexplained)

    @property
    def tail_ns(self) -> int:
        return total_ns(self.tail)

    @property
    def python_waits_ns(self) -> int:
        return total_ns(self.python_waits)


class _Pauses(NamedTuple):
    """The time before the first op and the gaps between ops, by start; arrays of equal length, in ns.

    launched_ns: when Python launched what ended the pause.  released_ns: until when a stream wait held that.  launch:
    its row of the trace's calls, NONE where it is not recorded.
    """

    start_ns: Int64
    launched_ns: Int64
    released_ns: Int64
    end_ns: Int64
    launch: Int64


def cell_time(trace: Trace, device: int) -> CellTime:
    """Where did the time of the cell go, for this device? Source: docs/verdict.md."""
    window = judged_window(trace, device)
    mine = trace.ops.take(trace.ops.device == device)
    first_ns, last_ns = extent(mine, window.start_ns)
    busy, waits = busy_intervals(trace, device), _python_waits(trace, window)
    pauses = _pauses(trace, device, window.start_ns, first_ns)
    dry_ns = pauses.start_ns[(pauses.launched_ns > pauses.start_ns) & (pauses.start_ns >= first_ns)]
    before_dry_ns = mine.start_ns[np.maximum(np.searchsorted(mine.start_ns, dry_ns, side="left") - 1, 0)]
    unfed = subtract(intersect(union(before_dry_ns, dry_ns), busy), waits)
    underway = _underway(trace, pauses, before_dry_ns, waits)
    empty, after = union(pauses.start_ns, pauses.launched_ns), complement(EMPTY, last_ns, window.end_ns)
    # nothing is queued, and Python waits or the device has done all its ops
    elsewhere = merge(intersect(empty, waits), after)
    other_device = intersect(elsewhere, _busy_elsewhere(trace, device))
    return CellTime(
        window=window,
        working=subtract(busy, unfed),
        unfed=unfed,
        for_python=subtract(empty, waits),
        **underway,
        returning=subtract(intersect(elsewhere, waits), other_device),
        other_device=other_device,
        other_stream=union(pauses.launched_ns, pauses.released_ns),
        tail=subtract(subtract(after, waits), other_device),
        python_waits=waits,
    )


def _underway(trace: Trace, pauses: _Pauses, before_dry_ns: Int64, waits: Intervals) -> dict[str, Intervals]:
    """The time from a launch, once no stream wait holds it, until its op, in the parts that CellTime has of it.

    before_dry_ns: the start of the last op before each time the device ran dry.
    """
    known = pauses.launch != NONE
    soon = known & (trace.simulated | (pauses.end_ns - pauses.released_ns < LAUNCH_LATENCY_NS))
    queued = pauses.launched_ns == pauses.start_ns
    # threads of a simulated device share Python's lock: what they start late while Python works, Python delayed
    delayed = known & (trace.simulated | (~queued & np.isin(pauses.end_ns, before_dry_ns)))

    def where(rows: Bool) -> Intervals:
        return union(pauses.released_ns[rows], pauses.end_ns[rows])

    one_by_one = subtract(where(delayed), waits)
    return {
        "one_by_one": one_by_one,
        "launching": subtract(where(soon & ~queued), one_by_one),
        "between_ops": subtract(where(soon & queued), one_by_one),
        "unexplained": subtract(where(~soon), one_by_one),
    }


def _python_waits(trace: Trace, window: Window) -> Intervals:
    """Python in a blocking call, or done with the cell's last line."""
    blocked = blocked_intervals(syncs(trace))
    if trace.meta.returned_ns is not None:
        blocked = merge(blocked, complement(EMPTY, trace.meta.returned_ns, window.end_ns))
    return clip(blocked, window.start_ns, window.end_ns)


def _pauses(trace: Trace, device: int, start_ns: int, first_ns: int) -> _Pauses:
    gaps = idle_gaps(trace, device)
    launched = gaps.start_ns + gaps.host_ns + gaps.sync_drain_ns
    columns = (gaps.start_ns, launched, launched + gaps.dependency_ns, gaps.end_ns, trace.ops.launch[gaps.op])
    if first_ns <= start_ns:
        return _Pauses(*columns)
    head = _head(trace, device, start_ns, first_ns)
    return _Pauses(*(np.append(value, column) for value, column in zip(head, columns, strict=True)))


def _head(trace: Trace, device: int, start_ns: int, first_ns: int) -> tuple[int, int, int, int, int]:
    """The time before the device's first op, as a pause; of several first ops that launched first counts."""
    first = np.flatnonzero((trace.ops.device == device) & (trace.ops.start_ns == first_ns))
    op = int(first[trace.launch_start_ns()[first].argmin()])
    launch = int(trace.ops.launch[op])
    launched = start_ns if launch == NONE else int(np.clip(trace.launch_start_ns()[op], start_ns, first_ns))
    return start_ns, launched, int(np.clip(released_ns(trace)[op], launched, first_ns)), first_ns, launch


def _busy_elsewhere(trace: Trace, device: int) -> Intervals:
    return merge(*(busy_intervals(trace, other) for other in trace.device_ids if other != device))
