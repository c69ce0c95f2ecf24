"""What the rules of the findings look at, each worked out once and only when asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from perfmagic.analysis.idle import IdleGaps, idle_gaps
from perfmagic.analysis.launches import Launches, launches
from perfmagic.analysis.overlap import Breakdown, breakdown
from perfmagic.analysis.queueing import QueueStat, queues
from perfmagic.analysis.streams import StreamStat, streams
from perfmagic.analysis.syncs import Syncs, syncs
from perfmagic.trace.model import Trace


@dataclass(frozen=True, eq=False)
class Facts:
    """The analyses of one trace, for one device: the one that was busy longest.

    comm_names: as in perfmagic.trace.names.op_classes.  done_ns: from the cell's start until the device was done;
    None for the length of the window.
    """

    trace: Trace
    comm_names: str | None = None
    done_ns: int | None = None

    @cached_property
    def breakdown(self) -> Breakdown:
        devices = self.trace.device_ids or (0,)
        return max((breakdown(self.trace, d, self.comm_names) for d in devices), key=lambda b: b.busy_ns)

    @property
    def device(self) -> int:
        return self.breakdown.device

    @property
    def window_ns(self) -> int:
        """How long the cell took; of a file, which has no cell, the extent of the device's ops."""
        if self.trace.meta.returned_ns is None and len(self.trace.ops):
            return self.breakdown.extent_ns
        return self.trace.meta.end_ns - self.trace.meta.start_ns

    @property
    def notable_ns(self) -> int:
        """What is worth a sentence: a hundredth of the window."""
        return max(1, self.window_ns // 100)

    @cached_property
    def syncs(self) -> Syncs:
        return syncs(self.trace)

    @cached_property
    def gaps(self) -> IdleGaps:
        return idle_gaps(self.trace, self.device)

    @cached_property
    def streams(self) -> tuple[StreamStat, ...]:
        return streams(self.trace, self.device)

    @cached_property
    def queues(self) -> tuple[QueueStat, ...]:
        return queues(self.trace, self.device)

    @cached_property
    def launches(self) -> Launches:
        return launches(self.trace)


def on_lines(lines: Iterable[int]) -> str:
    """The lines after a space and "on": " on line 3", " on lines 4 and 7"; nothing where no line is known."""
    words = line_words(lines)
    return f" on {words}" if words else ""


def line_words(lines: Iterable[int]) -> str:
    """The lines as people say them: "line 3", "lines 4 and 7", "lines 2, 4 and 7"."""
    known = [str(n) for n in sorted({int(n) for n in lines}) if n > 0]
    if not known:
        return ""
    if len(known) == 1:
        return f"line {known[0]}"
    return f"lines {', '.join(known[:-1])} and {known[-1]}"
