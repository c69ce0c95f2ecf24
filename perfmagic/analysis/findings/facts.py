"""The analyses that the rules use, each computed at most once and on demand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from perfmagic.analysis.findings.finding import Finding, PythonWas, Silent, of_extent, python_was, too_short
from perfmagic.analysis.timeline.activity import StreamStat, Syncs, extent, streams, syncs
from perfmagic.analysis.timeline.copies import CopiedAgain, copied_again
from perfmagic.analysis.timeline.idle import (
    CAUSES,
    Causes,
    IdleGaps,
    before_dry_ns,
    busy_elsewhere,
    causes,
    gap_pauses,
    idle_causes,
    idle_gaps,
    pauses_from,
    python_waits,
)
from perfmagic.analysis.timeline.overlap import PIPELINE_FRAC, Breakdown, HostCopies, breakdown
from perfmagic.analysis.timeline.queueing import LaunchBound, Launches, QueueStat, launch_bound, launches, queues
from perfmagic.analysis.timeline.steps import Step, steps
from perfmagic.analysis.verdict import DEVICE_BOUND_FRAC
from perfmagic.base import units
from perfmagic.base.language import counted, listed, phrase
from perfmagic.base.numerics.intervals import (
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
from perfmagic.trace.columns import NONE, Bool, Int64, OpKind
from perfmagic.trace.model import Trace, busy_intervals, once_per_trace
from perfmagic.trace.names import OpClass, copy_direction, is_pageable, op_classes
from perfmagic.trace.rows import Rows

# Where the time of a cell went, with each instant counted once: the parts that the verdict compares.

THE_CELL, ITS_EXTENT = phrase("the cell"), phrase("its extent")  # the base of "busy" percentages


class Window(NamedTuple):
    """The time that a verdict is about, and the base of "busy" percentages.  name: THE_CELL or ITS_EXTENT."""

    start_ns: int
    end_ns: int
    name: str

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


def judged_window(trace: Trace, device: int) -> Window:
    """The cell, from its start until every device finished; for a file, which has no cell, the device's extent.

    A cell's window is widened to contain every op. Source: docs/verdict.md, "busy".
    """
    meta, ops = trace.meta, trace.ops
    if meta.returned_ns is None:
        return Window(*extent(ops.select(ops.device == device), meta.start_ns), ITS_EXTENT)
    start_ns, end_ns = int(ops.start_ns.min(initial=meta.start_ns)), int(ops.end_ns.max(initial=meta.end_ns))
    return Window(start_ns, end_ns, THE_CELL)


@dataclass(frozen=True, eq=False)
class CellTime:
    """The parts of a window for one device: interval sets that never overlap and add up to the window.

    busy: working and unfed.
    working: the device executes an op, and Python waits for it or has queued the next one.
    unfed: the device executes its last queued op while Python works; its queue is empty afterwards.
    causes: what an idle device waited for before and between its ops.
    after_last: after the device's last op, while Python is in a blocking call, or after the cell returned.
    after_elsewhere: after the device's last op, while another device executes.
    tail: after the device's last op, while Python keeps working.
    python_waits: while Python is in a blocking call or has finished the cell; it overlaps the other parts.
    waits_elsewhere: while queued ops wait for another stream and another device executes; a part of that cause.
    """

    window: Window
    busy: Intervals
    unfed: Intervals
    causes: Causes
    after_last: Intervals
    after_elsewhere: Intervals
    tail: Intervals
    python_waits: Intervals
    waits_elsewhere: Intervals

    @property
    def working(self) -> Intervals:
        return subtract(self.busy, self.unfed)

    @property
    def parts(self) -> dict[str, Intervals]:
        """The parts that add up to the window, by name."""
        return {"working": self.working, "unfed": self.unfed, **self.waiting, "tail": self.tail}

    @cached_property
    def waiting(self) -> dict[str, Intervals]:
        """The parts in which the device waited, by name."""
        sets = self.causes.sets
        sets["blocked"] = merge(sets["blocked"], self.after_last)
        sets["other_device"] = merge(sets["other_device"], self.after_elsewhere)
        return sets

    @cached_property
    def waited_ns(self) -> dict[str, int]:
        """How long the device waited, by cause as in perfmagic.analysis.timeline.idle.CAUSES."""
        sums = {name: total_ns(where) for name, where in self.waiting.items()}
        sums["in_python"] += sums["one_by_one"]
        return {cause: sums[cause] for cause in CAUSES}

    @cached_property
    def waited_for_host(self) -> Intervals:
        """When the device was idle because Python, or a call that it made, had not launched the next op."""
        return merge(self.causes.in_python, self.causes.one_by_one, self.causes.in_call)

    @cached_property
    def not_busy(self) -> Intervals:
        """When, within the window, the device executed nothing."""
        return complement(self.busy, self.window.start_ns, self.window.end_ns)

    @property
    def busy_ns(self) -> int:
        return total_ns(self.busy)

    @property
    def busy_frac(self) -> float:
        return self.busy_ns / self.window.length_ns if self.window.length_ns else 0.0

    @property
    def device_ns(self) -> int:
        """How long the devices set the pace: they execute, and Python waits for them or has queued more."""
        return self.busy_ns - total_ns(self.unfed) + self.waited_ns["other_device"] + total_ns(self.waits_elsewhere)

    @property
    def waited_for_host_ns(self) -> int:
        return total_ns(self.waited_for_host)

    @property
    def host_ns(self) -> int:
        """How long Python sets the pace: it works, and no op is queued after the one that executes or starts next."""
        return self.waited_for_host_ns + total_ns(self.unfed)

    @property
    def latency_ns(self) -> int:
        """How long launches, and pauses between queued ops, take."""
        waited = self.waited_ns
        return waited["launching"] + waited["between_ops"] + waited["blocked"]

    @property
    def stalled_ns(self) -> int:
        return self.waited_ns["other_stream"] + self.waited_ns["unexplained"] - total_ns(self.waits_elsewhere)

    @property
    def tail_ns(self) -> int:
        return total_ns(self.tail)

    @property
    def python_waits_ns(self) -> int:
        return total_ns(self.python_waits)


def cell_time(trace: Trace, device: int) -> CellTime:
    """Where did the cell's time go, on this device? Source: docs/verdict.md."""
    window = judged_window(trace, device)
    first_ns, last_ns = extent(trace.ops.select(trace.ops.device == device), window.start_ns)
    busy, waits = busy_intervals(trace, device), clip(python_waits(trace), window.start_ns, window.end_ns)
    pauses = pauses_from(trace, device, window.start_ns)
    dry_ns, before_ns = before_dry_ns(trace, device, pauses, first_ns)
    unfed = subtract(intersect(union(before_ns, dry_ns), busy), waits)
    after = complement(EMPTY, last_ns, window.end_ns)
    elsewhere = busy_elsewhere(trace, device)
    after_elsewhere = intersect(after, elsewhere)
    # in a file's window the gaps are the only pauses; what Python waited for outside of them does not matter
    idle = idle_causes(trace, device) if pauses is gap_pauses(trace, device) else causes(trace, device, pauses, waits)
    return CellTime(
        window=window,
        busy=busy,
        unfed=unfed,
        causes=idle,
        after_last=subtract(intersect(after, waits), after_elsewhere),
        after_elsewhere=after_elsewhere,
        tail=subtract(subtract(after, waits), after_elsewhere),
        python_waits=waits,
        waits_elsewhere=intersect(idle.other_stream, elsewhere),
    )


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
        """The device in a sentence: "the device", or "device 3" if the trace has several."""
        return phrase("device {n}", n=self.device) if len(self.trace.device_ids) > 1 else phrase("the device")

    @property
    def on_device(self) -> str:
        """The device after a noun: " on device 3" if the trace has several, else nothing."""
        return phrase(" on device {n}", n=self.device) if len(self.trace.device_ids) > 1 else ""

    @property
    def the_busiest(self) -> str:
        """The device as a verdict introduces it: "device 3, the busiest of 8," if the trace has several."""
        several = len(self.trace.device_ids)
        return (
            phrase("{device}, the busiest of {n},", device=self.the_device, n=several)
            if several > 1
            else self.the_device
        )

    @cached_property
    def cell_time(self) -> CellTime:
        return cell_time(self.trace, self.device)

    @cached_property
    def first_queued_ns(self) -> int:
        """When the device's first op was queued: its launch returned. Without launches, when the first op started."""
        ops, calls = self.trace.ops, self.trace.calls
        launches = ops.launch[(ops.device == self.device) & (ops.launch != NONE)]
        return int(calls.end_ns[launches].min(initial=self.breakdown.extent_start_ns))

    @property
    def window_ns(self) -> int:
        """How long the cell took; for a file, which has no cell, the extent of the device's ops."""
        return self.cell_time.window.length_ns

    @property
    def notable_ns(self) -> int:
        """The shortest time worth a sentence: a hundredth of the window."""
        return max(1, self.window_ns // 100)

    def describe_share(self, frac: float) -> str:
        """A share of the window in words: "5 % of the cell", of a file "5 % of the extent"."""
        if self.cell_time.window.name == ITS_EXTENT:
            return of_extent(frac)
        return phrase("{share} of the cell", share=units.percent(frac))

    def finding(self, *, rule: str, cause: str, detail: str, advice: str = "", where: Intervals = EMPTY) -> Finding:
        """A finding about all of the device's extent, without a cost."""
        return Finding(
            rule=rule,
            cost_ns=None,
            cause=cause,
            detail=detail,
            lines=(),
            start_ns=self.breakdown.extent_start_ns,
            end_ns=self.breakdown.extent_end_ns,
            device=self.device,
            advice=advice,
            where=where,
        )

    def below_notable(self, what: str, ns: float) -> Silent:
        """Say that a time is not worth a sentence.  what: subject and verb."""
        return too_short(what, ns, self.notable_ns, self.describe_share(0.01))

    @cached_property
    def syncs(self) -> Syncs:
        return syncs(self.trace)

    @cached_property
    def gaps(self) -> IdleGaps:
        return idle_gaps(self.trace, self.device)

    def python_was(self, where: Intervals) -> PythonWas:
        """What Python did at times within the idle gaps, on the threads that launched the ops which ended them."""
        trace, gaps = self.trace, self.gaps
        if not len(where) or not len(gaps) or not trace.has_host_rows:
            return PythonWas("", ("", "", ""), frozenset(), ())
        gap = np.maximum(np.searchsorted(gaps.start_ns, where[:, 0], side="right") - 1, 0)
        launch = trace.ops.launch[gaps.op[gap]]
        known = launch != NONE
        return python_was(trace, trace.calls.thread[launch[known]], where[known])

    @cached_property
    def between_collectives(self) -> Intervals:
        """From one collective's launch to that of the next, with only copies launched between them."""
        ops, launched_ns = self.trace.ops, self.trace.launch_start_ns()
        kinds = op_classes(self.trace, self.comm_names)
        here = (ops.device == self.device) & (ops.launch != NONE)
        collective = np.sort(launched_ns[here & (kinds == OpClass.COMMUNICATION)], kind="stable")
        others = np.sort(
            launched_ns[here & (ops.kind == OpKind.KERNEL) & (kinds != OpClass.COMMUNICATION)], kind="stable"
        )
        next_to = np.diff(np.searchsorted(others, collective)) == 0
        return union(collective[:-1][next_to], collective[1:][next_to])

    @cached_property
    def streams(self) -> Rows[StreamStat]:
        return streams(self.trace, self.device)

    @cached_property
    def queues(self) -> Rows[QueueStat]:
        return queues(self.trace, self.device)

    @cached_property
    def pinned_copies(self) -> HostCopies | None:
        """The copies between host and device that use no pageable memory; None if there are none."""
        return self._host_copies(pageable=False)

    @cached_property
    def pageable_copies(self) -> HostCopies | None:
        """The copies between host and device from or to pageable memory; None if there are none."""
        return self._host_copies(pageable=True)

    def _host_copies(self, *, pageable: bool) -> HostCopies | None:
        ops, classes = self.trace.ops, op_classes(self.trace, self.comm_names)
        by_name = np.array([is_pageable(name) for name in self.trace.names], bool)
        copied = (ops.device == self.device) & np.isin(classes, (OpClass.HTOD, OpClass.DTOH))
        rows = np.flatnonzero(copied & (by_name[ops.name] == pageable))
        return self.host_copies(rows, pageable=pageable) if len(rows) else None

    def host_copies(self, rows: Int64, *, pageable: bool) -> HostCopies:
        """Some copies between host and device, rows of trace.ops."""
        return HostCopies(self.trace, self.device, rows, self.breakdown.intervals["compute"], pageable)

    @cached_property
    def copied_again(self) -> tuple[CopiedAgain, ...]:
        """The tensors that a loop of the cell copies to the device in each iteration."""
        return copied_again(self.trace, self.device) if self.trace.cell is not None else ()

    @cached_property
    def copies_beside(self) -> bool:
        """Whether exposed copies are mostly what is left of pinned ones that overlap on streams of their own.

        Copies that last longer than all compute hide that instead.
        """
        pinned, exposed_ns = self.pinned_copies, self.breakdown.exposed_copy_ns
        if pinned is None or not pinned.own_stream or 2 * total_ns(pinned.exposed) <= exposed_ns:
            return False
        most_ns = min(total_ns(pinned.spans), total_ns(self.breakdown.intervals["compute"]))
        return pinned.overlapped_ns >= PIPELINE_FRAC * most_ns > 0

    @cached_property
    def launches(self) -> Launches:
        return launches(self.trace)

    @cached_property
    def one_by_one(self) -> Rows[LaunchBound]:
        """Stretches in which the device waited for each launch, including Python's time in eager operators."""
        return launch_bound(self.trace, self.device)

    @cached_property
    def in_stretches(self) -> Bool:
        """Which idle gaps lie in the stretches of one_by_one; shape of gaps."""
        stretches = self.one_by_one
        if not stretches:
            return np.zeros(len(self.gaps), bool)
        starts, ends = (np.array(column) for column in zip(*((s.start_ns, s.end_ns) for s in stretches), strict=True))
        last = np.searchsorted(starts, self.gaps.start_ns, side="right") - 1
        inside: Bool = (last >= 0) & (self.gaps.start_ns < ends[np.maximum(last, 0)])
        return inside

    @cached_property
    def steps(self) -> Rows[Step]:
        return steps(self.trace, self.comm_names)

    def in_steps(self, launched_ns: Int64) -> str:
        """In how many training steps something was launched: ", over 3 steps" or ", over 2 of 3 steps".

        launched_ns: shape (n,). "" if the trace has fewer than two steps.
        """
        known = [step for step in self.steps if step.n_ops]
        if len(known) < 2:
            return ""
        at = np.searchsorted([step.start_ns for step in known], launched_ns, side="right") - 1
        inside = (at >= 0) & (launched_ns < np.array([step.end_ns for step in known])[np.maximum(at, 0)])
        n = len(np.unique(at[inside]))
        if n == len(known):
            return phrase(", over {n} steps", n=n)
        return phrase(", over {n} of {total} steps", n=n, total=len(known)) if n else ""


@once_per_trace
def uploads(facts: Facts) -> Bool:
    """Which blocking calls are copies from pageable memory to the device."""
    trace, blocking = facts.trace, facts.syncs
    htod = np.array([copy_direction(name) == OpClass.HTOD for name in trace.names], bool)
    is_htod = np.zeros(len(trace.calls), bool)
    launched = trace.ops.launch != NONE
    is_htod[trace.ops.launch[launched]] = htod[trace.ops.name[launched]]
    uploads: Bool = blocking.pageable & is_htod[blocking.call]
    return uploads


def waits_for_uploads(facts: Facts, upload: Bool | None = None) -> Bool:
    """Which blocking calls only wait for such a copy, made by the call before them on their thread.

    torch waits for the stream after each copy without non_blocking.  upload: the copies in question, all by default.
    """
    blocking, calls = facts.syncs, facts.trace.calls
    upload = uploads(facts) if upload is None else upload
    if not upload.any():
        return upload
    order = np.lexsort((calls.start_ns, calls.thread))
    before = np.full(len(calls), NONE, np.int64)
    same_thread = calls.thread[order[1:]] == calls.thread[order[:-1]]
    before[order[1:][same_thread]] = order[:-1][same_thread]
    waits: Bool = ~uploads(facts) & np.isin(before[blocking.call], blocking.call[upload])
    return waits


# They copy CPU indices and values to the device on every call, and block (torch, ATen/native/
# TensorAdvancedIndexing.cpp): the call has no non_blocking argument
_INDEXING = frozenset({"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"})


def indexing_calls(facts: Facts, rows: Int64) -> Int64:
    """The blocking calls of indexing operators, which copy their arguments from the CPU."""
    trace, asker = facts.trace, facts.syncs.asker[rows]
    indexing = np.array([name in _INDEXING for name in trace.names], bool)
    known = rows[asker != NONE]
    made: Int64 = known[indexing[trace.host_ops.name[facts.syncs.asker[known]]]]
    return made


FEW_GAPS = 10  # among fewer none is exceptional
EARLY_FRAC = 0.05  # of the ops: a gap after no more of them belongs to the beginning


class FirstGap(NamedTuple):
    """A gap near the beginning that makes up most of the idle time, and how busy the device was after it.

    before: how many ops came before the gap.
    """

    length_ns: int
    before: int
    busy_frac: float


def first_gap(facts: Facts) -> FirstGap | None:
    """The gap near the beginning that makes up most of the idle time; None if there is none."""
    gaps, parts = facts.gaps, facts.breakdown
    if len(gaps) < FEW_GAPS:
        return None
    row = int(gaps.length_ns.argmax())
    gap_ns, end_ns = int(gaps.length_ns[row]), int(gaps.end_ns[row])
    starts = facts.trace.ops.start_ns[facts.trace.ops.device == facts.device]
    before = int(np.searchsorted(starts, end_ns))
    if 2 * gap_ns < parts.idle_ns or gap_ns < facts.notable_ns or before > EARLY_FRAC * len(starts):
        return None
    busy_frac = 1 - (parts.idle_ns - int(gaps.length_ns[: row + 1].sum())) / max(1, parts.extent_end_ns - end_ns)
    return FirstGap(gap_ns, before, busy_frac)


# How much of the record the reader repaired.

# a tenth of the time can change a verdict: durations that the reader made up can do so alone if they are that share of
# what the device executed
REPAIRED_FRAC = 1 - DEVICE_BOUND_FRAC


def describe_repairs(facts: Facts) -> str:
    """How many of the durations behind the verdict the reader repaired; "" if none."""
    meta = facts.trace.meta
    n_ops, n_calls = len(facts.trace.ops), len(facts.trace.calls)
    ops, calls = counted(n_ops, "{n} device op", "{n} device ops"), counted(n_calls, "{n} call", "{n} calls")
    parts = [
        phrase("{repaired} of {total}", repaired=units.count(min(n, n_all)), total=total)
        for n, n_all, total in ((meta.repaired_ops, n_ops, ops), (meta.repaired_calls, n_calls, calls))
        if n and n_all
    ]
    return phrase("it rests on repaired durations of {parts}", parts=listed(parts)) if parts else ""


def too_much_repaired(facts: Facts) -> bool:
    """Whether repaired durations of device ops could change the verdict, by their number or by their time.

    By number too: a duration that was missing is now 0; the real one is unknown.
    """
    meta = facts.trace.meta
    executed_ns = int((facts.trace.ops.end_ns - facts.trace.ops.start_ns).sum())
    return bool(meta.repaired_ops) and (
        meta.repaired_ops >= REPAIRED_FRAC * len(facts.trace.ops) or meta.repaired_ns >= REPAIRED_FRAC * executed_ns
    )
