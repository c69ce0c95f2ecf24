"""What the rules of the findings look at, each worked out once and only when asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfmagic.analysis.findings.cell_time import CellTime, cell_time
from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.idle import IdleGaps, idle_gaps
from perfmagic.analysis.timeline.launches import LaunchBound, Launches, launch_bound, launches
from perfmagic.analysis.timeline.overlap import Breakdown, breakdown
from perfmagic.analysis.timeline.queueing import QueueStat, queues
from perfmagic.analysis.timeline.steps import Step, steps
from perfmagic.analysis.timeline.streams import StreamStat, streams
from perfmagic.analysis.timeline.syncs import Syncs, syncs
from perfmagic.trace.columns import Bool, Int64
from perfmagic.trace.model import Trace


@dataclass(frozen=True, eq=False)
class Facts:
    """The analyses of one trace, for one device: the one that was busy longest.

    comm_names: as in perfmagic.trace.names.op_classes.
    """

    trace: Trace
    comm_names: str | None = None

    @cached_property
    def breakdown(self) -> Breakdown:
        devices = self.trace.device_ids or (0,)
        return max((breakdown(self.trace, d, self.comm_names) for d in devices), key=lambda b: b.busy_ns)

    @property
    def device(self) -> int:
        return self.breakdown.device

    @property
    def the_device(self) -> str:
        """The device in a sentence: "the device", by its number where the trace has several."""
        return f"device {self.device}" if len(self.trace.device_ids) > 1 else "the device"

    @property
    def on_device(self) -> str:
        """The device behind a noun: " on device 3" where the trace has several, else nothing."""
        return f" on {self.the_device}" if len(self.trace.device_ids) > 1 else ""

    @property
    def the_busiest(self) -> str:
        """The device as a verdict introduces it: "device 3, the busiest of 8," where the trace has several."""
        several = len(self.trace.device_ids)
        return f"{self.the_device}, the busiest of {several}," if several > 1 else self.the_device

    @cached_property
    def cell_time(self) -> CellTime:
        return cell_time(self.trace, self.device)

    @property
    def window_ns(self) -> int:
        """How long the cell took; of a file, which has no cell, the extent of the device's ops."""
        return self.cell_time.window.length_ns

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
    def streams(self) -> Rows[StreamStat]:
        return streams(self.trace, self.device)

    @cached_property
    def queues(self) -> Rows[QueueStat]:
        return queues(self.trace, self.device)

    @cached_property
    def launches(self) -> Launches:
        return launches(self.trace)

    @cached_property
    def one_by_one(self) -> Rows[LaunchBound]:
        """The stretches in which the device waited for each launch, Python's time in an eager operator included."""
        return launch_bound(self.trace, self.device)

    @cached_property
    def in_stretches(self) -> Bool:
        """Which idle gaps lie in those stretches; shape of gaps."""
        found = self.one_by_one
        if not found:
            return np.zeros(len(self.gaps), bool)
        starts, ends = (np.array(column) for column in zip(*((s.start_ns, s.end_ns) for s in found), strict=True))
        last = np.searchsorted(starts, self.gaps.start_ns, side="right") - 1
        inside: Bool = (last >= 0) & (self.gaps.start_ns < ends[np.maximum(last, 0)])
        return inside

    @cached_property
    def steps(self) -> Rows[Step]:
        return steps(self.trace, self.comm_names)

    def in_steps(self, launched_ns: Int64) -> str:
        """In how many of the training steps something was launched: ", over 3 steps", ", over 2 of 3 steps".

        launched_ns: shape (n,). Nothing where the trace has fewer than two steps.
        """
        known = [step for step in self.steps if step.n_ops]
        if len(known) < 2:
            return ""
        at = np.searchsorted([step.start_ns for step in known], launched_ns, side="right") - 1
        inside = (at >= 0) & (launched_ns < np.array([step.end_ns for step in known])[np.maximum(at, 0)])
        n = len(np.unique(at[inside]))
        which = "" if n == len(known) else f"{n} of "
        return f", over {which}{len(known)} steps" if n else ""


def sentences(*facts: str) -> str:
    """One fact a sentence: "the device was busy. It waited"; the first goes on a line begun, the last has no stop."""
    known = [fact for fact in facts if fact]
    return ". ".join(fact if i == 0 else fact[:1].upper() + fact[1:] for i, fact in enumerate(known))


def listed(words: Sequence[str]) -> str:
    """The words as people list them: "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def on_lines(lines: Iterable[int]) -> str:
    """The lines after a space and "on": " on line 3", " on lines 4 and 7"; nothing where no line is known."""
    words = line_words(lines)
    return f" on {words}" if words else ""


def line_words(lines: Iterable[int]) -> str:
    """The lines as people say them: "line 3", "lines 4 and 7", "lines 2, 4 and 7"."""
    known = [str(n) for n in sorted({int(n) for n in lines}) if n > 0]
    if not known:
        return ""
    return f"line{'s' if len(known) > 1 else ''} {listed(known)}"
