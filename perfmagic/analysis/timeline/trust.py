"""How complete and consistent the record of a trace is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.timeline.activity import extent, orphans, previous_end_ns
from perfmagic.analysis.timeline.idle import gap_pauses
from perfmagic.analysis.timeline.origin import graph_sizes
from perfmagic.base import units
from perfmagic.base.language import counted, phrase
from perfmagic.base.numerics.intervals import EMPTY, Intervals, distinct, merge, subtract, union
from perfmagic.trace.columns import NONE, Bool, CallKind, Int64, Remark
from perfmagic.trace.json_form import JsonForm
from perfmagic.trace.model import Trace, once_per_trace

# Whether a file is a sample of a recording: thinned out before it was written, so that most calls are missing.

# CUDA numbers each call into the driver. torch.profiler leaves out those that tell little; of the others whole
# recordings have 6 to 32 % of the numbers in between, 3 % in one of 39 calls; two thinned out ones 0.5 % (traces/)
MOST_FRAC = 0.02
LEAST_CALLS = 200  # a few calls lie far apart by chance


# a whole recording has calls that execute nothing: events, queries, synchronisations, half of all and more (traces/)
ONLY_LAUNCHES_FRAC = 0.95

CUT = frozenset({"gzip_cut", "gzip_damaged", "cut_in_event"})  # kinds of repairs after which the end is missing


def is_cut(trace: Trace) -> bool:
    """Whether the file ends before its recording does."""
    return any(remark.kind in CUT for remark in trace.meta.repairs)


def cut_or_sampled(trace: Trace) -> Remark | None:
    """That a file is cut, or why it is taken for a sample of a recording; None where nothing says so."""
    if is_cut(trace):
        looks = phrase("is cut, and the rest of the recording is missing")
        return Remark("cut", phrase("the file {looks}", looks=looks))
    return sample(trace)


@once_per_trace
def sample(trace: Trace) -> Remark | None:
    """Why a file is taken for a sample of a recording, in a sentence; None where nothing says so."""
    ids = distinct(trace.calls.correlation[trace.calls.correlation != NONE])
    if len(ids) < LEAST_CALLS:
        return None
    n_ids = int(ids[-1] - ids[0]) + 1
    n_launched = int(np.isin(ids, trace.ops.correlation).sum())
    if len(ids) >= MOST_FRAC * n_ids or n_launched < ONLY_LAUNCHES_FRAC * len(ids):
        return None
    looks = phrase(
        "looks like a sample of a recording: the numbers of its {n} calls span {span} ({share}; "
        "whole recordings have more than {most}), and {launched} of them launched an op",
        n=units.count(len(ids)),
        span=units.count(n_ids),
        share=units.percent_known(len(ids) / n_ids),
        most=units.percent(MOST_FRAC),
        launched=units.count(n_launched),
    )
    numbers = {"n_calls": len(ids), "n_call_numbers": n_ids, "n_calls_with_op": n_launched}
    return Remark("sample", phrase("the file {looks}", looks=looks), numbers)


# Counts of a record: what is said of one and of many.
COUNTS = {
    "n_launches_without_op": ("{n} launch has no device record", "{n} launches have no device record"),
    "n_orphans": ("{n} of {ops} was launched before the window", "{n} of {ops} were launched before the window"),
    "n_without_launch": ("{n} of {ops} has no launch record", "{n} of {ops} have no launch record"),
    "n_before_launch": ("{n} of {ops} starts before the launch", "{n} of {ops} start before the launch"),
    "n_overlaps": (
        "{n} of {ops} starts before the previous op on their stream has ended",
        "{n} of {ops} start before the previous op on their stream has ended",
    ),
    "n_zero_durations": ("{n} of {ops} has no duration", "{n} of {ops} have no duration"),
    "n_dropped_events": ("{n} event was left out by the limit", "{n} events were left out by the limit"),
}


@dataclass(frozen=True)
class Trust(JsonForm):
    """How far the record can be believed.

    n_device_ops: device ops.
    n_launches_without_op: launch calls whose work has no device record; memsets (those of size 0 have none) and
    launches recorded into a graph are left out.
    n_orphans: ops launched before the window.
    n_without_launch: later ops without a launch record.
    n_before_launch: ops that start before their launch.
    n_overlaps: ops that start before the previous op on their stream has ended.
    n_zero_durations: ops without length.
    n_dropped_events: events left out by a limit.
    repairs: what the reader repaired.
    notes: what was not recorded, and why.
    lacking: that much of the recording is missing.
    untold: why there is no critical path, or nothing is predicted.
    remarks: that the record is a sample, counts that are not 0, what the reader repaired, what was not recorded, and
    why there is no critical path or nothing is predicted.

    Source: docs/words.md, "orphan" and "trust".
    """

    left_out = ("repairs", "notes", "lacking", "untold")
    computed = ("remarks",)

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
        return (*self.lacking, *self._counted(), *self.repairs, *self.notes, *self.untold)

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence for each remark."""
        return tuple(remark.words for remark in self.remarks)

    def _counted(self) -> Iterator[Remark]:
        ops = counted(self.n_device_ops, "{n} device op", "{n} device ops")
        for name, forms in COUNTS.items():
            n = getattr(self, name)
            if n:
                numbers = {name: n, "n_device_ops": self.n_device_ops}
                yield Remark(name.removeprefix("n_"), counted(n, *forms, ops=ops), numbers)


@once_per_trace
def trust(trace: Trace) -> Trust:
    """What is missing or odd in this trace?"""
    ops = trace.ops
    early = orphans(trace)
    without = ops.launch == NONE
    return Trust(
        n_device_ops=len(ops),
        n_launches_without_op=int(lost_launches(trace).sum()),
        n_orphans=int(early.sum()),
        n_without_launch=int((without & ~early).sum()),
        n_before_launch=int((ops.start_ns < trace.launch_start_ns()).sum()),
        n_overlaps=int((ops.start_ns < previous_end_ns(ops)).sum()),
        n_zero_durations=int((ops.start_ns == ops.end_ns).sum()),
        n_dropped_events=trace.meta.dropped_events,
        repairs=trace.meta.repairs,
        notes=trace.meta.notes,
        lacking=tuple(filter(None, (cut_or_sampled(trace), incomplete_graphs(trace)))),
    )


def lost_launches(trace: Trace) -> Bool:
    """Calls whose op has no device record; shape of trace.calls."""
    calls = trace.calls
    lost: Bool = (calls.kind == CallKind.LAUNCH) & ~np.isin(calls.correlation, trace.ops.correlation)
    return lost & ~_calls_with(trace, "memset") & ~_in_capture(trace)


def ends_early(trace: Trace) -> bool:
    """Whether the launches without a device record are the last ones: the record ends before their ops ran."""
    calls = trace.calls
    lost, has = lost_launches(trace), np.isin(calls.correlation, trace.ops.correlation)
    return bool(lost.any() and has.any() and calls.start_ns[lost].min() > calls.start_ns[has].max())


def _in_capture(trace: Trace) -> Bool:
    """Calls made between the begin and the end of a graph capture on their thread: recorded, not executed."""
    begins, ends = _calls_with(trace, "begincapture"), _calls_with(trace, "endcapture")
    inside = np.zeros(len(trace.calls), bool)
    for thread in np.unique(trace.calls.thread[begins]):
        rows = np.flatnonzero(trace.calls.thread == thread)
        inside[rows] = np.cumsum(begins[rows].astype(int) - ends[rows].astype(int)) > 0
    return inside


def _calls_with(trace: Trace, part: str) -> Bool:
    """Which calls have a part of a name, in lower case; shape of trace.calls."""
    named = np.array([part in name.lower() for name in trace.names], bool)
    calls: Bool = named[trace.calls.name] if len(trace.calls) else np.zeros(0, bool)
    return calls


# Calls that the record does not have: their ids jump, and the host has no records meanwhile.

MISSING_CALLS = 100  # ids between neighbours; an eager operator makes some calls that are not kept


@dataclass(frozen=True)
class MissingCalls:
    """The largest jump of ids. where: when nothing of the host was recorded in it, in ns.  first, last: its ids."""

    where: Intervals
    first: int
    last: int


def missing_calls(trace: Trace) -> MissingCalls:
    """Where calls are missing; nothing in a trace of the simulated device, and where ids follow each other.

    Python between calls leaves no record either. Only a large jump of ids says that calls are missing.
    """
    calls = np.flatnonzero(trace.calls.correlation >= 0)
    if trace.simulated or len(calls) < 2:
        return MissingCalls(EMPTY, 0, 0)
    order = calls[np.argsort(trace.calls.start_ns[calls], kind="stable")]
    jump = np.diff(trace.calls.correlation[order])
    row = int(jump.argmax())
    if jump[row] < MISSING_CALLS:
        return MissingCalls(EMPTY, 0, 0)
    between = np.array([[trace.calls.end_ns[order[row]], trace.calls.start_ns[order[row + 1]]]], np.int64)
    tables = (trace.calls, trace.host_ops, trace.python_frames.reaching(between))
    spans = [union(table.start_ns, table.end_ns) for table in tables if len(table)]
    ids = trace.calls.correlation[order[row : row + 2]].tolist()
    return MissingCalls(subtract(between, merge(*spans)), *ids)


# Whether the ops of CUDA graphs are all in the record: where some are missing, the device looks idle.

# Ops of one graph follow each other without the host: within 14 µs on a V100 (traces/). One recording on an A100 has
# pauses of 6.3 ms there, behind memsets that clear what a missing kernel needs
PAUSE_NS = 100_000
MISSED_FRAC = 0.05  # of the device's extent


@once_per_trace
def incomplete_graphs(trace: Trace) -> Remark | None:
    """Why ops of graphs look missing, in a sentence; None where nothing says so."""
    if trace.simulated or not graph_sizes(trace).any():
        return None
    launches: list[int] = []
    missed_ns = longest_ns = extent_ns = 0
    for device in trace.device_ids:
        pauses = gap_pauses(trace, device)
        first_ns, last_ns = extent(trace.ops.select(trace.ops.device == device))
        extent_ns += last_ns - first_ns
        length = pauses.end_ns - pauses.start_ns
        inside = graph_sizes(trace)[pauses.op] > 0
        inside &= trace.ops.launch[_ended_last(trace, device, pauses.start_ns)] == trace.ops.launch[pauses.op]
        inside &= length >= PAUSE_NS
        missed_ns += int(length[inside].sum())
        longest_ns = max(longest_ns, int(length[inside].max(initial=0)))
        launches += np.unique(trace.ops.launch[pauses.op[inside]]).tolist()
    if missed_ns < MISSED_FRAC * extent_ns:
        return None
    # pauses that another graph's op begins are not counted, though ops may be missing there as well
    sentence = phrase(
        "ops of CUDA graphs look missing: within at least {launches} nothing is recorded for at least {time}, where "
        "ops of a graph follow each other within microseconds",
        launches=counted(len(launches), "{n} graph launch", "{n} graph launches"),
        time=units.duration(missed_ns),
    )
    return Remark("graph_ops", sentence, {"n_graphs": len(launches), "missed_ns": missed_ns, "longest_ns": longest_ns})


def _ended_last(trace: Trace, device: int, at_ns: Int64) -> Int64:
    """Of the device's ops that started before some instants, the one that ended last; rows of trace.ops."""
    rows = np.flatnonzero(trace.ops.device == device)
    end = trace.ops.end_ns[rows]
    number = np.arange(len(rows))
    latest = np.maximum.accumulate(np.where(end >= np.maximum.accumulate(end), number, 0))
    started = np.searchsorted(trace.ops.start_ns[rows], at_ns, side="left")
    latest_rows: Int64 = rows[latest[np.maximum(started - 1, 0)]]
    return latest_rows
