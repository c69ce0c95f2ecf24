"""How complete and consistent the record of a trace is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfmagic import units
from perfmagic.analysis.timeline.graph_record import incomplete_graphs
from perfmagic.analysis.timeline.sample import sample
from perfmagic.analysis.timeline.streams import orphans, previous_end_ns
from perfmagic.trace.columns import NONE, Bool, CallKind
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace
from perfmagic.trace.remarks import Remark

_OVERLAPS = "before the previous op on their stream has ended"


@dataclass(frozen=True)
class Trust:
    """What is missing or odd in a trace, in counts. Source: docs/words.md, "orphan" and "trust".

    n_launches_without_op: launch calls whose work has no device record; memsets (those of size 0 have none) and
    launches recorded into a graph are left out.  n_orphans: ops launched before the window.  n_without_launch: later
    ops without a launch record.  n_before_launch: ops that start before their launch.  n_overlaps: ops that start
    before an earlier op on their stream has ended.  n_zero_durations: ops without length.  n_dropped_events: left out
    by a limit.  repairs: what the reader repaired.  notes: what was not recorded, and why.  lacking: that much of the
    recording is missing.  untold: why there is no critical path, or nothing is predicted.
    """

    n_device_ops: int
    n_launches_without_op: int
    n_orphans: int
    n_without_launch: int
    n_before_launch: int
    n_overlaps: int
    n_zero_durations: int
    n_dropped_events: int
    repairs: tuple[Remark, ...] = ()
    notes: tuple[Remark, ...] = ()
    lacking: tuple[Remark, ...] = ()
    untold: tuple[Remark, ...] = ()

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """That it is a sample, counts that are not 0, repairs, notes and what is not told."""
        return (*self.lacking, *self._counted(), *self.repairs, *self.notes, *self.untold)

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence for each remark."""
        return tuple(remark.words for remark in self.remarks)

    def to_dict(self) -> dict[str, Any]:
        """The counts, and all remarks as data with their sentences."""
        counts = {name: value for name, value in vars(self).items() if name.startswith("n_")}
        return counts | {"remarks": [remark.to_dict() for remark in self.remarks]}

    def _counted(self) -> Iterator[Remark]:
        lost = units.plural(self.n_launches_without_op, "launch has", "launches have")
        events = units.plural(self.n_dropped_events, "event was", "events were")
        for name, words in (
            ("n_launches_without_op", f"{lost} no device record"),
            ("n_orphans", self._of_all(self.n_orphans, "was launched", "were launched", "before the window")),
            ("n_without_launch", self._of_all(self.n_without_launch, "has", "have", "no launch record")),
            ("n_before_launch", self._of_all(self.n_before_launch, "starts", "start", "before the launch")),
            ("n_overlaps", self._of_all(self.n_overlaps, "starts", "start", _OVERLAPS)),
            ("n_zero_durations", self._of_all(self.n_zero_durations, "has", "have", "no duration")),
            ("n_dropped_events", f"{events} left out by the limit"),
        ):
            n = getattr(self, name)
            if n:
                yield Remark(name.removeprefix("n_"), words, {name: n, "n_device_ops": self.n_device_ops})

    def _of_all(self, n: int, one: str, many: str, rest: str) -> str:
        """How many of the device ops: "8 of 3,521 device ops start …", with the verb for one or for many."""
        verb = one if n == 1 else many
        return f"{units.count(n)} of {units.plural(self.n_device_ops, 'device op')} {verb} {rest}"


@once_per_trace
def trust(trace: Trace) -> Trust:
    """What is missing or odd in this trace?"""
    ops = trace.ops
    early = orphans(trace)
    without = ops.launch == NONE
    return Trust(
        n_device_ops=len(ops),
        n_launches_without_op=int(_lost_launches(trace).sum()),
        n_orphans=int(early.sum()),
        n_without_launch=int((without & ~early).sum()),
        n_before_launch=int((ops.start_ns < trace.launch_start_ns()).sum()),
        n_overlaps=int((ops.start_ns < previous_end_ns(ops)).sum()),
        n_zero_durations=int((ops.start_ns == ops.end_ns).sum()),
        n_dropped_events=trace.meta.dropped_events,
        repairs=trace.meta.repairs,
        notes=trace.meta.notes,
        lacking=tuple(filter(None, (sample(trace), incomplete_graphs(trace)))),
    )


def _lost_launches(trace: Trace) -> Bool:
    calls = trace.calls
    memset = np.array(["memset" in name.lower() for name in trace.names], bool)
    lost: Bool = (calls.kind == CallKind.LAUNCH) & ~np.isin(calls.correlation, trace.ops.correlation)
    return lost & ~_named(memset, trace) & ~_in_capture(trace)


def _in_capture(trace: Trace) -> Bool:
    """Calls made between the begin and the end of a graph capture on their thread: recorded, not executed."""
    begins = _named(np.array(["BeginCapture" in name for name in trace.names], bool), trace)
    ends = _named(np.array(["EndCapture" in name for name in trace.names], bool), trace)
    inside = np.zeros(len(trace.calls), bool)
    for thread in np.unique(trace.calls.thread[begins]):
        rows = np.flatnonzero(trace.calls.thread == thread)
        inside[rows] = np.cumsum(begins[rows].astype(int) - ends[rows].astype(int)) > 0
    return inside


def _named(flags: Bool, trace: Trace) -> Bool:
    found: Bool = flags[trace.calls.name] if len(trace.calls) else np.zeros(0, bool)
    return found
