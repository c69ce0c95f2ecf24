"""When devices executed and Python was blocked: busy time, streams, blocking calls and who asked for them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perfmagic.base.language import phrase
from perfmagic.base.numerics.intervals import Intervals, covered_ns, union
from perfmagic.trace.columns import (
    NONE,
    Bool,
    CallKind,
    DeviceOps,
    Int32,
    Int64,
    is_blocking_copy,
    lines_at,
    waits_for_all,
)
from perfmagic.trace.hoststack import host_stack, is_operator
from perfmagic.trace.model import BEFORE_ALL_NS, Trace, busy_intervals, by_stream, once_per_trace, stream_rows
from perfmagic.trace.names import is_pageable
from perfmagic.trace.rows import Rows, names_at

FULL_DEPTH = 900  # a stream takes about 1000 launches before the call blocks; 994 to 1024 were seen on V100 and A100
BLOCKED_NS = 50_000  # a launch call takes 3–10 µs; far longer, with the queue at its limit, it waited for room


def extent(ops: DeviceOps, default_ns: int = 0) -> tuple[int, int]:
    """First start and last end of some device ops; default_ns twice where there are none."""
    if not len(ops):
        return default_ns, default_ns
    return int(ops.start_ns[0]), int(ops.end_ns.max())


def recorded_span(trace: Trace) -> tuple[int, int]:
    """From the first record to the last end, the host before the first device op and after the last one included."""
    meta, ops = trace.meta, trace.ops
    return int(ops.start_ns.min(initial=meta.start_ns)), int(ops.end_ns.max(initial=meta.end_ns))


@dataclass(frozen=True)
class StreamStat:
    """A stream that executed ops.

    stream: the number of the stream.
    n_ops: ops it executed.
    busy_ns: when at least one of its ops executed.
    busy_frac: the share of the device's extent in which the stream was busy; the lanes of a cell give the share of
    the cell.
    n_overlaps: ops that start before the previous op on the stream has ended.
    n_zero_durations: ops without length.
    """

    device: int
    stream: int
    n_ops: int
    busy_ns: int
    busy_frac: float
    n_overlaps: int
    n_zero_durations: int


def stream_numbers(ops: DeviceOps) -> Int64:
    """For each op the number of its stream among all streams of all devices; shape of ops."""
    numbers = np.zeros(len(ops), np.int64)
    for number, (_, _, rows) in enumerate(stream_rows(ops)):
        numbers[rows] = number
    return numbers


def previous_end_ns(ops: DeviceOps) -> Int64:
    """When all earlier ops of the same stream had ended, BEFORE_ALL_NS for the first; shape of ops."""
    result = np.empty(len(ops), np.int64)
    if len(ops):
        order, _, before = by_stream(ops)
        result[order] = before
    return result


@once_per_trace
def streams(trace: Trace, device: int) -> Rows[StreamStat]:
    """The streams of a device, the busiest first. Source: docs/words.md, "busy"."""
    ops = trace.ops.select(trace.ops.device == device)
    if not len(ops):
        return Rows((), StreamStat)
    first_ns, last_ns = extent(ops)
    extent_ns = last_ns - first_ns
    order, number, before = by_stream(ops)
    start, end = ops.start_ns[order], ops.end_ns[order]
    n_ops = np.bincount(number)
    overlaps = np.bincount(number[start < before], minlength=len(n_ops))
    without = np.bincount(number[start == end], minlength=len(n_ops))
    since = np.maximum(start, before, out=before)
    alone_ns = np.maximum(np.subtract(end, since, out=since), 0, out=since)  # what each op adds to those before it
    busy_ns = np.add.reduceat(alone_ns, np.cumsum(n_ops) - n_ops)
    busy_frac = busy_ns / extent_ns if extent_ns else np.zeros(len(n_ops))
    names = [stream for _, stream, _ in stream_rows(ops)]
    counted = zip(*(column.tolist() for column in (n_ops, busy_ns, busy_frac, overlaps, without)), strict=True)
    stats = [StreamStat(device, stream, *numbers) for stream, numbers in zip(names, counted, strict=True)]
    return Rows(sorted(stats, key=lambda s: (-s.busy_ns, s.stream)), StreamStat)


@once_per_trace
def orphans(trace: Trace) -> Bool:
    """Which ops were launched before the window: without a launch record, before the first matched op of their stream.

    On a stream without any matched op the first matched op of the device decides. Shape of trace.ops.
    Source: docs/words.md, "orphan".
    """
    ops = trace.ops
    matched = ops.launch != NONE
    first = np.full(len(ops), BEFORE_ALL_NS, np.int64)
    for device in trace.device_ids:
        of_device = (ops.device == device) & matched
        if of_device.any():
            first[ops.device == device] = ops.start_ns[of_device][0]
    for _, _, rows in stream_rows(ops):
        with_launch = rows[matched[rows]]
        if len(with_launch):
            first[rows] = ops.start_ns[with_launch[0]]
    early: Bool = ~matched & (ops.start_ns < first)
    early.flags.writeable = False
    return early


# Until when a recorded stream wait held an op.


def released_ns(trace: Trace) -> Int64:
    """When the last stream wait that applies to each op ended, BEFORE_ALL_NS without one; shape of trace.ops.

    A wait holds the ops of its stream launched after it until all that its other stream was given before the event's
    record has ended; launch order is the order of correlation ids. Source: docs/words.md, "queued".
    """
    ops, waits = trace.ops, trace.waits
    result = np.full(len(ops), BEFORE_ALL_NS, np.int64)
    if not len(waits) or not len(ops):
        return result
    asked = order_of(trace, waits.correlation, waits.at_ns)
    recorded = order_of(trace, waits.on_correlation, waits.at_ns)
    ends = _wait_ends(trace, recorded)
    for device, stream in np.unique(np.column_stack((waits.device, waits.stream)), axis=0).tolist():
        held = np.flatnonzero((ops.device == device) & (ops.stream == stream) & (ops.launch != NONE))
        by = np.flatnonzero((waits.device == device) & (waits.stream == stream))
        by = by[np.argsort(asked[by], kind="stable")]
        until = np.concatenate(([BEFORE_ALL_NS], np.maximum.accumulate(ends[by])))
        result[held] = until[np.searchsorted(asked[by], ops.correlation[held], side="left")]
    return result


def _wait_ends(trace: Trace, recorded: Int64) -> Int64:
    """When the work each wait waits for had ended."""
    ops, waits = trace.ops, trace.waits
    ends = np.full(len(waits), BEFORE_ALL_NS, np.int64)
    on_device = np.where(waits.on_device == NONE, waits.device, waits.on_device)
    for device, stream in np.unique(np.column_stack((on_device, waits.on_stream)), axis=0).tolist():
        work = np.flatnonzero((ops.device == device) & (ops.stream == stream) & (ops.launch != NONE))
        work = work[np.argsort(ops.correlation[work], kind="stable")]
        until = np.concatenate(([BEFORE_ALL_NS], np.maximum.accumulate(ops.end_ns[work])))
        own = np.flatnonzero((on_device == device) & (waits.on_stream == stream))
        ends[own] = until[np.searchsorted(ops.correlation[work], recorded[own], side="right")]
    return ends


def order_of(trace: Trace, correlation: Int64, at_ns: Int64) -> Int64:
    """The correlation id of each row, or where it has none, the largest one given out before the instant."""
    calls = trace.calls
    given = np.concatenate(([NONE], np.maximum.accumulate(calls.correlation) if len(calls) else []))
    before = given[np.searchsorted(calls.start_ns, at_ns, side="left")].astype(np.int64)
    return np.where(correlation != NONE, correlation, before)


PRINTED, ASSIGNED = "print()", phrase("assigning to a slice")
_PRINTS, _COPIES = re.compile(r"\bprint\("), re.compile(r"\.(to|cpu|tolist)\(")
_ASSIGNS = re.compile(r"\]\s*=(?!=)")
ASKED_AS = {  # operators that people do not write, as what they write
    "aten::item": ".item()",
    "aten::_local_scalar_dense": ".item()",
    "aten::is_nonzero": "bool()",
    "aten::to": ".to()",
    "aten::_to_copy": ".to()",
    "aten::copy_": ".copy_()",
    "aten::index": phrase("indexing by a mask"),
    "aten::index_put_": phrase("assigning by a mask"),
}


@dataclass(frozen=True, eq=False)
class Syncs:
    """Blocking calls of the host, by start; arrays of equal length.

    start_ns, end_ns: of the call.  call: its row of trace.calls.  asker: row of trace.host_ops of the operator that
    asked, NONE where none is known.  asked_by: index into `askers`, the words for it.  line: of the cell.
    device: NONE where the call does not say and there are several.  busy_ns: of the call, how long the device was busy.
    pageable: a copy to or from pageable memory.  after_cell: made by the measurement, after the cell's last line.
    at_edge: waits for all the device outside every operator, before the first or after the last op was launched in a
    file: where a record begins and ends, profilers make such a call themselves.
    """

    start_ns: Int64
    end_ns: Int64
    call: Int64
    asker: Int64
    asked_by: Int32
    line: Int32
    device: Int64
    busy_ns: Int64
    pageable: Bool
    after_cell: Bool
    at_edge: Bool
    askers: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def blocked_ns(self) -> Int64:
        return self.end_ns - self.start_ns

    def asker_name(self, row: int) -> str:
        """Who asked, as people write it: ".item()"."""
        return self.askers[int(self.asked_by[row])]

    def n_asked(self, rows: Int64) -> int:
        """How often some calls were asked for: one operator may make several; a call that none asked for is one."""
        known = self.asker[rows] != NONE
        return len(np.unique(self.asker[rows][known])) + int((~known).sum())


@dataclass(frozen=True)
class Sync:
    """One blocking call of the host; times in ns, the rest as in Syncs. device: None where it is not known."""

    start_ns: int
    end_ns: int
    call: str
    asked_by: str
    line: int
    device: int | None
    busy_ns: int
    pageable: bool
    after_cell: bool

    @property
    def blocked_ns(self) -> int:
        return self.end_ns - self.start_ns


@once_per_trace
def syncs(trace: Trace) -> Syncs:
    """When the host was blocked by the device, who asked for it, and how long the device was busy meanwhile.

    Calls of kind SYNC; copies to or from pageable memory, which block the host while they are staged; and copies whose
    call returns only when they are done.
    Source: docs/words.md, "sync".
    """
    calls = trace.calls
    pageable = pageable_calls(trace)
    rows = np.flatnonzero((calls.kind == CallKind.SYNC) | blocking_copies(trace))
    start, end = calls.start_ns[rows], calls.end_ns[rows]
    asker = _launchers(trace, rows)
    askers, codes = _asker_names(trace, rows, asker)
    device = _devices(trace, rows)
    returned = trace.meta.returned_ns
    return Syncs(
        start_ns=start,
        end_ns=end,
        call=rows,
        asker=asker,
        asked_by=codes,
        line=calls.line[rows],
        device=device,
        busy_ns=_busy_ns(trace, device, start, end),
        pageable=pageable[rows],
        after_cell=np.zeros(len(rows), bool) if returned is None else start >= returned,
        at_edge=_at_edge(trace, rows, asker),
        askers=askers,
    )


NO_COST_FRAC = 0.95  # with the device busy for this share of the time that Python was blocked, no time was lost


def beside_work(trace: Trace) -> Bool:
    """Which blocking calls had a device busy nearly all the time: the wait itself cost nothing.

    What it cost is the time that the device is idle afterwards. Shape of `syncs(trace)`.
    """
    blocking = syncs(trace)
    busy_ns = covered_ns(busy_intervals(trace), blocking.start_ns, blocking.end_ns)
    result: Bool = busy_ns >= NO_COST_FRAC * blocking.blocked_ns
    same = np.isin(blocking.asker, blocking.asker[result & (blocking.asker != NONE)])  # it queues its copy, then waits
    return result | (same & (blocking.blocked_ns < BLOCKED_NS))


def _at_edge(trace: Trace, rows: Int64, asker: Int64) -> Bool:
    """Which blocking calls begin or end the record of a file; see Syncs."""
    launched = trace.launch_start_ns(trace.ops.launch != NONE)
    if trace.meta.returned_ns is not None or not len(launched):
        return np.zeros(len(rows), bool)
    of_device = np.array([waits_for_all(name) for name in trace.names], bool)[trace.calls.name[rows]]
    start, end = trace.calls.start_ns[rows], trace.calls.end_ns[rows]
    edge: Bool = of_device & (asker == NONE) & ((end <= launched.min()) | (start >= launched.max()))
    return edge


def sync_rows(trace: Trace) -> Rows[Sync]:
    """The blocking calls of the host one by one, by start."""
    blocking = syncs(trace)
    same = ("start_ns", "end_ns", "line", "busy_ns", "pageable", "after_cell", "blocked_ns")
    device = blocking.device.astype(object)
    device[blocking.device == NONE] = None
    columns = {
        **{name: getattr(blocking, name) for name in same},
        "call": names_at(trace.names, trace.calls.name[blocking.call].astype(np.int64)),
        "asked_by": names_at(blocking.askers, blocking.asked_by.astype(np.int64)),
        "device": device,
    }
    return Rows.of_columns(columns, Sync)


@once_per_trace
def blocking_copies(trace: Trace) -> Bool:
    """Which calls launched a copy and held the host for it; shape of trace.calls."""
    by_name = np.array([is_blocking_copy(name) for name in trace.names], bool)
    named: Bool = by_name[trace.calls.name] if len(trace.calls) else np.zeros(0, bool)
    copies: Bool = named | pageable_calls(trace)
    copies.flags.writeable = False
    return copies


def pageable_calls(trace: Trace) -> Bool:
    """Which calls launched a copy to or from pageable memory; shape of trace.calls."""
    by_name = np.array([is_pageable(name) for name in trace.names], bool)
    ops = trace.ops
    result = np.zeros(len(trace.calls), bool)
    if len(ops):
        result[ops.launch[(ops.launch != NONE) & by_name[ops.name]]] = True
    return result


def blocked_intervals(blocking: Syncs) -> Intervals:
    """The time during which at least one thread was blocked."""
    return union(blocking.start_ns, blocking.end_ns)


def _launchers(trace: Trace, rows: Int64) -> Int64:
    """The outermost aten operator around each call on its thread, else the innermost operator of any other name."""
    thread, start = trace.calls.thread[rows], trace.calls.start_ns[rows]
    ops = trace.host_ops
    instants = np.sort(start)
    around = np.searchsorted(instants, ops.end_ns) > np.searchsorted(instants, ops.start_ns)
    is_op = is_operator(trace) & around
    aten = np.array([name.startswith("aten::") for name in trace.names], bool)
    from_torch = is_op & aten[ops.name] if len(ops) else is_op
    outermost = host_stack(trace, from_torch).outermost_at(thread, start)
    return np.where(outermost != NONE, outermost, host_stack(trace, is_op).innermost_at(thread, start))


def _asker_names(trace: Trace, rows: Int64, asker: Int64) -> tuple[tuple[str, ...], Int32]:
    names = trace.calls.name[rows]
    if len(trace.host_ops):
        names = np.where(asker != NONE, trace.host_ops.name[asker], names)
    by_line, at = np.unique(np.column_stack((trace.calls.line[rows], names)), axis=0, return_inverse=True)
    asked = [
        _as_written(trace, line, ASKED_AS.get(trace.names[name], trace.names[name].removeprefix("aten::")))
        for line, name in by_line.tolist()
    ]
    words = tuple(dict.fromkeys(asked))
    codes = np.array([words.index(word) for word in asked], np.int32)
    return words, codes[at.reshape(-1)]


def _as_written(trace: Trace, line: int, word: str) -> str:
    """A copy as a line of the cell writes it, if the line shows one way only; what it prints has none of its own."""
    text = trace.cell.text(line) if trace.cell is not None else ""
    if word == ".copy_()":
        return ASSIGNED if _ASSIGNS.search(text) and ".copy_(" not in text else word
    ways = {f".{name}()" for name in _COPIES.findall(text)}
    if word != ".to()" or len(ways) > 1:
        return word
    return ways.pop() if ways else PRINTED if _PRINTS.search(text) else word


def _devices(trace: Trace, rows: Int64) -> Int64:
    known = trace.device_ids
    device = np.full(len(trace.calls), known[0] if len(known) == 1 else NONE, np.int64)
    launched = trace.ops.launch != NONE
    device[trace.ops.launch[launched]] = trace.ops.device[launched]
    return device[rows]


def _busy_ns(trace: Trace, device: Int64, start_ns: Int64, end_ns: Int64) -> Int64:
    result = np.zeros(len(device), np.int64)
    for number in np.unique(device).tolist():
        rows = device == number
        busy = busy_intervals(trace, None if number == NONE else number)
        result[rows] = covered_ns(busy, start_ns[rows], end_ns[rows])
    return result


# What was allocated on a device over time, where the record says.

ALLOCATED, RESERVED = "Total Allocated", "Total Reserved"  # as Kineto names its memory counters
_FEWEST = 2  # changes: one value is no curve


@dataclass(frozen=True, eq=False)
class MemoryCurve:
    """Allocated bytes of a device from each instant on, at_ns rising.

    reserved_max_bytes: the most that was taken from the device, 0 where the record does not say.  peak_line: the cell
    line that ran when the most was allocated, 0 for none.
    """

    device: int
    at_ns: Int64
    allocated_bytes: Int64
    reserved_max_bytes: int
    peak_line: int

    @property
    def peak_bytes(self) -> int:
        return int(self.allocated_bytes.max())

    @property
    def peak_at_ns(self) -> int:
        return int(self.at_ns[self.allocated_bytes.argmax()])


def memory_curve(trace: Trace, device: int) -> MemoryCurve | None:
    """The memory of a device in the window; None where there is no record of it.

    Source: Kineto's memory events (profile_memory=True), or the simulated device's own count.
    """
    counters = trace.counters
    if not len(counters):
        return None
    series = np.array(trace.names, dtype=object)[counters.series]
    of_device = (counters.device == device) & (counters.at_ns < trace.meta.end_ns)
    rows = np.flatnonzero(of_device & (series == ALLOCATED))
    if len(rows) < _FEWEST:
        return None
    allocated = np.maximum(counters.value[rows], 0).astype(np.int64)
    peak_at = counters.at_ns[rows][[int(allocated.argmax())]]
    return MemoryCurve(
        device=device,
        at_ns=counters.at_ns[rows],
        allocated_bytes=allocated,
        reserved_max_bytes=int(counters.value[of_device & (series == RESERVED)].max(initial=0)),
        peak_line=int(lines_at(trace.marks, peak_at)[0]),
    )
