"""How far the record of a trace can be believed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from perfmagic import units
from perfmagic.analysis.timeline.streams import orphans, previous_end_ns
from perfmagic.trace.columns import NONE, Bool, CallKind
from perfmagic.trace.model import Trace


@dataclass(frozen=True)
class Trust:
    """What is missing or odd in a trace, in counts. Source: docs/words.md, "orphan" and "trust".

    launches_without_op: launch calls whose work has no device record; memsets (those of size 0 have none) and launches
    recorded into a graph are left out.  orphans: ops launched before the window.  launch_record_missing: later ops
    without a launch.  before_launch: ops that started before their launch.  overlaps: ops that started before an
    earlier op of their stream had ended.  zero_durations: ops without length.  dropped_events: left out by a limit.
    repairs: what the reader mended.  notes: what the capture could not do.
    """

    device_ops: int
    launches_without_op: int
    orphans: int
    launch_record_missing: int
    before_launch: int
    overlaps: int
    zero_durations: int
    dropped_events: int
    repairs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence for each thing there is to say."""
        counted = (text for n, text in self._counted() if n)
        return (*counted, *self.repairs, *self.notes)

    def to_dict(self) -> dict[str, Any]:
        """The counts, and the sentences."""
        return {
            **asdict(self),
            "repairs": list(self.repairs),
            "notes": list(self.notes),
            "sentences": [*self.sentences],
        }

    def _counted(self) -> tuple[tuple[int, str], ...]:
        of_all = f"of {units.plural(self.device_ops, 'device op')}"
        lost = units.plural(self.launches_without_op, "launch", "launches")
        return (
            (self.launches_without_op, f"{lost} without a device record"),
            (self.orphans, f"{units.count(self.orphans)} {of_all} launched before the window"),
            (self.launch_record_missing, f"{units.count(self.launch_record_missing)} {of_all} without a launch record"),
            (self.before_launch, f"{units.count(self.before_launch)} {of_all} start before their launch"),
            (self.overlaps, f"{units.count(self.overlaps)} {of_all} overlap an earlier one of their stream"),
            (self.zero_durations, f"{units.count(self.zero_durations)} {of_all} have no duration"),
            (self.dropped_events, f"{units.plural(self.dropped_events, 'event')} left out by the limit"),
        )


def trust(trace: Trace) -> Trust:
    """What is missing or odd in this trace?"""
    ops = trace.ops
    early = orphans(trace)
    without = ops.launch == NONE
    return Trust(
        device_ops=len(ops),
        launches_without_op=int(_lost_launches(trace).sum()),
        orphans=int(early.sum()),
        launch_record_missing=int((without & ~early).sum()),
        before_launch=int((ops.start_ns < trace.launch_start_ns()).sum()),
        overlaps=int((ops.start_ns < previous_end_ns(ops)).sum()),
        zero_durations=int((ops.start_ns == ops.end_ns).sum()),
        dropped_events=trace.meta.dropped_events,
        repairs=trace.meta.repairs,
        notes=trace.meta.notes,
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
