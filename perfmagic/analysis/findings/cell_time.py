"""Where the time of a cell went, each instant once: the parts that the verdict compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from perfmagic.analysis.timeline.idle import CAUSES, idle_causes
from perfmagic.analysis.timeline.overlap import busy_intervals, extent
from perfmagic.analysis.timeline.pauses import (
    Causes,
    before_dry_ns,
    busy_elsewhere,
    causes,
    gap_pauses,
    pauses_from,
    python_waits,
)
from perfmagic.numerics.intervals import (
    EMPTY,
    Intervals,
    clip,
    complement,
    intersect,
    merge,
    subtract,
    total_ns,
    union,
)
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
    causes: what an idle device waited for before and between its ops.
    after_last: after the device's last op, while Python has not come back from a blocking call or has returned.
    after_elsewhere: after the device's last op, while another device executes.
    tail: after the device's last op, while Python works on.
    python_waits: Python in a blocking call, or done with the cell; it overlaps the other parts.
    held_elsewhere: what is queued waits for another stream, and another device executes; a part of that cause.
    """

    window: Window
    working: Intervals
    unfed: Intervals
    causes: Causes
    after_last: Intervals
    after_elsewhere: Intervals
    tail: Intervals
    python_waits: Intervals
    held_elsewhere: Intervals

    @property
    def parts(self) -> dict[str, Intervals]:
        """The parts that add up to the window, by name."""
        sets = self.causes.sets
        sets["blocked"] = merge(sets["blocked"], self.after_last)
        sets["other_device"] = merge(sets["other_device"], self.after_elsewhere)
        return {"working": self.working, "unfed": self.unfed, **sets, "tail": self.tail}

    @property
    def waited_ns(self) -> dict[str, int]:
        """How long the device waited, by cause as in perfmagic.analysis.timeline.idle.CAUSES."""
        sums = {name: total_ns(where) for name, where in self.parts.items()}
        sums["in_python"] += sums["one_by_one"]
        return {cause: sums[cause] for cause in CAUSES}

    @property
    def waited_for_host(self) -> Intervals:
        """When the device was idle because Python, or a call it was in, had launched nothing earlier."""
        return merge(self.causes.in_python, self.causes.one_by_one, self.causes.in_call)

    @property
    def not_busy(self) -> Intervals:
        """All the time of the window in which the device executed nothing."""
        return complement(merge(self.working, self.unfed), self.window.start_ns, self.window.end_ns)

    @property
    def busy_ns(self) -> int:
        return total_ns(self.working) + total_ns(self.unfed)

    @property
    def busy_frac(self) -> float:
        return self.busy_ns / self.window.length_ns if self.window.length_ns else 0.0

    @property
    def device_ns(self) -> int:
        """What the devices decide: they execute, and Python waits for them or has queued more."""
        return total_ns(self.working) + self.waited_ns["other_device"] + total_ns(self.held_elsewhere)

    @property
    def waited_for_host_ns(self) -> int:
        return total_ns(self.waited_for_host)

    @property
    def host_ns(self) -> int:
        """What Python decides: it works, and nothing is queued behind what the device executes or is about to."""
        return self.waited_for_host_ns + total_ns(self.unfed)

    @property
    def latency_ns(self) -> int:
        """What the way between Python and the device takes, or from one op to the next."""
        waited = self.waited_ns
        return waited["launching"] + waited["between_ops"] + waited["blocked"]

    @property
    def stalled_ns(self) -> int:
        return self.waited_ns["other_stream"] + self.waited_ns["unexplained"] - total_ns(self.held_elsewhere)

    @property
    def tail_ns(self) -> int:
        return total_ns(self.tail)

    @property
    def python_waits_ns(self) -> int:
        return total_ns(self.python_waits)


def cell_time(trace: Trace, device: int) -> CellTime:
    """Where did the time of the cell go, for this device? Source: docs/verdict.md."""
    window = judged_window(trace, device)
    first_ns, last_ns = extent(trace.ops.take(trace.ops.device == device), window.start_ns)
    busy, waits = busy_intervals(trace, device), clip(python_waits(trace), window.start_ns, window.end_ns)
    pauses = pauses_from(trace, device, window.start_ns)
    dry_ns, before_ns = before_dry_ns(trace, device, pauses, first_ns)
    unfed = subtract(intersect(union(before_ns, dry_ns), busy), waits)
    after = complement(EMPTY, last_ns, window.end_ns)
    elsewhere = busy_elsewhere(trace, device)
    after_elsewhere = intersect(after, elsewhere)
    # a file's window has no pauses but the gaps; what Python waited for outside of them decides nothing
    idle = idle_causes(trace, device) if pauses is gap_pauses(trace, device) else causes(trace, device, pauses, waits)
    return CellTime(
        window=window,
        working=subtract(busy, unfed),
        unfed=unfed,
        causes=idle,
        after_last=subtract(intersect(after, waits), after_elsewhere),
        after_elsewhere=after_elsewhere,
        tail=subtract(subtract(after, waits), after_elsewhere),
        python_waits=waits,
        held_elsewhere=intersect(idle.other_stream, elsewhere),
    )
