"""Why a device was idle: every gap between its ops, split by cause and charged to a line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.timeline.activity import (
    blocked_intervals,
    blocking_copies,
    extent,
    orphans,
    released_ns,
    syncs,
)
from perfmagic.analysis.timeline.host_time import longest_operator
from perfmagic.base.numerics.intervals import (
    EMPTY,
    Intervals,
    complement,
    covered_ns,
    intersect,
    merge,
    parts_of,
    subtract,
    union,
)
from perfmagic.trace.columns import NO_LINE, NONE, Bool, CallKind, Int32, Int64, constant
from perfmagic.trace.model import Trace, busy_intervals, once_per_trace
from perfmagic.trace.rows import Rows, names_at

# The pauses of a device, and what each instant of them waited for: the one partition that all numbers come from.

LAUNCH_LATENCY_NS = 10_000  # a typical launch takes 4–9 µs to start on V100…B200, queue empty
LONG_CALL_NS = 50_000  # a launch call takes 3–10 µs, under a profiler up to 30; far longer, the driver did more


@dataclass(frozen=True, eq=False)
class Pauses:
    """The times in which a device executed nothing before an op of its own, by start; arrays of equal length, in ns.

    when: the pauses.  op: row of trace.ops that ended the pause; what is known of it is looked up when asked for.
    """

    trace: Trace
    when: Intervals
    op: Int32

    def __len__(self) -> int:
        return len(self.when)

    @property
    def start_ns(self) -> Int64:
        return self.when[:, 0]

    @property
    def end_ns(self) -> Int64:
        return self.when[:, 1]

    @property
    def launch(self) -> Int64:
        """Row of trace.calls that queued the op, NONE where not recorded."""
        return self.trace.ops.launch[self.op]

    @property
    def known(self) -> Bool:
        """Whether it is recorded when the op was queued: one launched before the record began was so all the time."""
        known: Bool = (self.launch != NONE) | orphans(self.trace)[self.op]
        return known

    @property
    def launched_ns(self) -> Int64:
        """When the call that queued the op began, within the pause."""
        began = np.clip(self.trace.launch_start_ns(self.op), self.start_ns, self.end_ns)
        return np.where(self.launch != NONE, began, self.start_ns)

    def held_ns(self, launched_ns: Int64) -> tuple[Int64, Int64]:
        """Until when a stream wait held the op, and when its call had returned: in turn, within the pause."""
        released = np.clip(released_ns(self.trace)[self.op], launched_ns, self.end_ns)
        returned = np.clip(self.trace.launch_end_ns(self.op), released, self.end_ns)
        return released, np.where(self.launch != NONE, returned, released)


@dataclass(frozen=True, eq=False)
class Causes:
    """What a device waited for in its pauses: interval sets that never overlap and add up to the pauses.

    in_python: nothing is queued and Python works on what it will launch.
    one_by_one: an op is on its way while Python works, and the device runs dry again after it; on a simulated device,
    whose threads share Python's lock, every op that is late while Python works.
    in_call: the thread that launches is inside a runtime or driver call for 50 µs or longer that waits for no device,
    and no other op has arrived.
    launching: the op that ends the pause was launched in it and is on its way: its call has not returned, or did so
    less than 10 µs before it starts (simulated: however long); before its launch, an op of another stream likewise.
    between_ops: the next op was queued before the last one ended, and starts within 10 µs (simulated: at any time).
    blocked: Python is in a blocking call, and nothing is queued; or it launched the next op, a copy that has not begun.
    other_device: nothing is queued here, and Python waits while another device executes.
    other_stream: queued, held by a recorded stream wait.  unexplained: queued, and the record does not say why not run.
    """

    in_python: Intervals
    one_by_one: Intervals
    in_call: Intervals
    launching: Intervals
    between_ops: Intervals
    blocked: Intervals
    other_device: Intervals
    other_stream: Intervals
    unexplained: Intervals

    @property
    def sets(self) -> dict[str, Intervals]:
        """The interval sets by name."""
        return dict(vars(self))


@once_per_trace
def gap_pauses(trace: Trace, device: int) -> Pauses:
    """The gaps between the ops of a device: they add up to its idle time."""
    rows = np.flatnonzero(trace.ops.device == device)
    ops = trace.ops.select(rows)
    gaps = complement(busy_intervals(trace, device), *extent(ops)) if len(rows) else EMPTY
    return Pauses(trace, gaps, _ended_by(trace, device, gaps[:, 1]))


def pauses_from(trace: Trace, device: int, start_ns: int) -> Pauses:
    """The gaps between the ops of a device, and the time from start_ns to the first of them."""
    op_starts = trace.ops.start_ns[trace.ops.device == device]
    if not len(op_starts) or op_starts[0] <= start_ns:
        return gap_pauses(trace, device)
    idle = complement(busy_intervals(trace, device), *extent(trace.ops.select(trace.ops.device == device)))
    when = np.concatenate((np.array([[start_ns, op_starts[0]]]), idle))
    return Pauses(trace, when, _ended_by(trace, device, when[:, 1]))


def _ended_by(trace: Trace, device: int, end_ns: Int64) -> Int32:
    """Row of the op that starts where a pause ends: of several, one with a length, launched first."""
    rows = np.flatnonzero(trace.ops.device == device).astype(np.int32)
    if not len(end_ns):
        return rows[:0]
    ops = trace.ops.select(rows)
    order = np.lexsort((trace.launch_start_ns(rows), ops.end_ns == ops.start_ns, ops.start_ns))
    return rows[order[np.searchsorted(ops.start_ns[order], end_ns, side="left")]]


def causes(trace: Trace, device: int, pauses: Pauses, waits: Intervals) -> Causes:
    """What a device waited for in some pauses. Source: docs/verdict.md.

    A device waits for Python only while nothing that Python launched is still to start on any of its streams.
    waits: when Python was in a blocking call, or done.
    """
    unknown, when = ~pauses.known, union(pauses.start_ns, pauses.end_ns)  # an op without a length parts two pauses
    underway = merge(
        intersect(when, _until_ops_start(trace, device, trace.launch_start_ns())),
        union(pauses.launched_ns, pauses.end_ns),
        union(pauses.start_ns[unknown], pauses.end_ns[unknown]),
    )
    empty = subtract(when, underway)
    elsewhere = intersect(empty, waits)
    other_device = intersect(elsewhere, busy_elsewhere(trace, device))
    working = subtract(empty, waits)
    in_calls = _in_long_calls(trace, pauses, working)
    parts = _underway(trace, device, pauses, underway, waits, in_calls)
    copying = parts.pop("copying")
    return Causes(
        in_python=subtract(working, in_calls),
        **parts,
        blocked=merge(subtract(elsewhere, other_device), copying),
        other_device=other_device,
    )


def python_waits(trace: Trace) -> Intervals:
    """When Python was in a blocking call, or done with the cell's last line."""
    blocked, returned_ns = blocked_intervals(syncs(trace)), trace.meta.returned_ns
    if returned_ns is None:
        return blocked
    end_ns = max(trace.meta.end_ns, int(trace.ops.end_ns.max(initial=returned_ns)))
    return merge(blocked, complement(EMPTY, returned_ns, end_ns))


def before_dry_ns(trace: Trace, device: int, pauses: Pauses, first_ns: int) -> tuple[Int64, Int64]:
    """When the device ran dry, with nothing queued, and the start of the last op before each such time."""
    start = trace.ops.start_ns[trace.ops.device == device]
    dry = pauses.start_ns[(pauses.launched_ns > pauses.start_ns) & (pauses.start_ns >= first_ns)]
    return dry, start[np.maximum(np.searchsorted(start, dry, side="left") - 1, 0)]


def long_calls(trace: Trace) -> Int64:
    """Rows of the calls that blocked Python for long and waited for no device: first use of a kernel, an allocation.

    None on a simulated device: its calls are Python's own.
    """
    calls = trace.calls
    if trace.simulated:
        return np.zeros(0, np.int64)
    plain = (calls.kind != CallKind.SYNC) & ~blocking_copies(trace)
    return np.flatnonzero(plain & (calls.end_ns - calls.start_ns >= LONG_CALL_NS))


def _waits_to_start(trace: Trace, device: int) -> Intervals:
    """When an op had arrived; a blocking copy, whose call returns after it, from the start of its call."""
    copies = np.isin(trace.ops.launch, np.flatnonzero(blocking_copies(trace)))
    return _until_ops_start(trace, device, np.where(copies, trace.launch_start_ns(), trace.launch_end_ns()))


def _until_ops_start(trace: Trace, device: int, since_ns: Int64) -> Intervals:
    """The time from an instant of each op to its start; of an op that was launched before the record, all before it."""
    ops, orphan = trace.ops, orphans(trace)
    known = (ops.device == device) & ((ops.launch != NONE) | orphan)
    start = ops.start_ns[known]
    since = since_ns[known]
    np.minimum(since, start, out=since)
    since[orphan[known]] = min(trace.meta.start_ns, int(start.min(initial=0)))
    return union(since, start)


def _in_long_calls(trace: Trace, pauses: Pauses, where: Intervals) -> Intervals:
    """The part of some time in which the thread that ends the pause is in a long call."""
    rows = long_calls(trace)
    if not len(rows) or not len(pauses):
        return EMPTY
    launch = pauses.launch
    known = launch != NONE
    thread = np.where(known, trace.calls.thread[launch], NONE)
    held = []
    for number in np.unique(thread[known]).tolist():
        long = rows[trace.calls.thread[rows] == number]
        own = union(pauses.start_ns[known & (thread == number)], pauses.end_ns[known & (thread == number)])
        held.append(intersect(own, union(trace.calls.start_ns[long], trace.calls.end_ns[long])))
    return intersect(merge(*held), where)


def _underway(
    trace: Trace, device: int, pauses: Pauses, underway: Intervals, waits: Intervals, in_calls: Intervals
) -> dict[str, Intervals]:
    """The time in which something is queued and nothing runs, in the parts that Causes has of it."""
    launched, next_launch, known = pauses.launched_ns, pauses.launch, pauses.known
    released, returned = pauses.held_ns(launched)
    other_stream = union(launched, released)
    rest = subtract(underway, other_stream)
    first_ns, _ = extent(trace.ops.select(trace.ops.device == device))
    queued = launched == pauses.start_ns
    runs_dry = np.isin(pauses.end_ns, before_dry_ns(trace, device, pauses, first_ns)[1])
    # threads of a simulated device share Python's lock: what they start late while Python works, Python delayed
    delayed = known & (trace.simulated | (~queued & runs_dry))
    late = union(released[delayed], pauses.end_ns[delayed])
    # only where the copy is the next op: one that other ops are queued before waits for these
    next_is_copy = np.isin(next_launch, np.flatnonzero(blocking_copies(trace))) & (next_launch != NONE)
    copying = intersect(rest, union(released[next_is_copy], returned[next_is_copy]))
    rest = subtract(rest, copying)
    # a call that is long because the queue is full holds up nothing: other ops have arrived
    is_long = np.zeros(len(trace.calls), bool)
    is_long[long_calls(trace)] = True
    long = _until_start(trace, device, is_long, rest)
    in_launch = subtract(long, _waits_to_start(trace, device)) if len(long) else EMPTY
    rest = subtract(rest, in_launch)
    one_by_one = subtract(intersect(rest, late), waits)
    rest = subtract(rest, one_by_one)
    # before the launch of the op that ends a pause, ops of other streams are under way
    before = union(pauses.start_ns, launched)
    calls = _until_start(trace, device, ~blocking_copies(trace), before)
    calls = subtract(calls, _until_ops_start(trace, device, trace.launch_end_ns())) if len(calls) else EMPTY
    short_calls = intersect(rest, merge(union(released, returned), calls))
    rest = subtract(rest, short_calls)
    # from here on each piece lies between the return of a call and the start of an op
    others, own = intersect(rest, before), subtract(rest, before)
    unknown = union(pauses.start_ns[~known], pauses.end_ns[~known])
    soon, own_soon = _is_short(trace, others), _is_short(trace, own) & ~_starts_within(own, unknown)
    was_queued = _starts_within(own, union(pauses.start_ns[queued], pauses.end_ns[queued]))
    return {
        "one_by_one": one_by_one,
        "in_call": merge(in_calls, in_launch),
        "copying": copying,
        "launching": merge(short_calls, others[soon], own[own_soon & ~was_queued]),
        "between_ops": own[own_soon & was_queued],
        "other_stream": other_stream,
        "unexplained": merge(others[~soon], own[~own_soon]),
    }


def _is_short(trace: Trace, pieces: Intervals) -> Bool:
    """Which delays are a launch's; on a simulated device every one. Shape (n,)."""
    short: Bool = (pieces[:, 1] - pieces[:, 0] < LAUNCH_LATENCY_NS) | trace.simulated
    return short


def _until_start(trace: Trace, device: int, which: Bool, where: Intervals) -> Intervals:
    """When some calls launched ops of a device, until the op started: the part within some time."""
    if not which.any() or not len(where):
        return EMPTY
    launch = trace.ops.launch
    rows = np.flatnonzero((trace.ops.device == device) & (launch != NONE) & which[launch])
    launch = launch[rows]
    start = trace.calls.start_ns[launch]
    end = np.clip(trace.calls.end_ns[launch], start, np.maximum(start, trace.ops.start_ns[rows]))
    del rows, launch  # as long as the ops
    touched = np.searchsorted(where[:, 1], start, side="right") < np.searchsorted(where[:, 0], end, side="left")
    return intersect(where, union(start[touched], end[touched]))


def _starts_within(pieces: Intervals, where: Intervals) -> Bool:
    """Which intervals begin inside some others; shape (n,)."""
    if not len(where) or not len(pieces):
        return np.zeros(len(pieces), bool)
    last = np.searchsorted(where[:, 0], pieces[:, 0], side="right") - 1
    inside: Bool = (last >= 0) & (pieces[:, 0] < where[np.maximum(last, 0), 1])
    return inside


def busy_elsewhere(trace: Trace, device: int) -> Intervals:
    """When any other device executed an op."""
    return merge(*(busy_intervals(trace, other) for other in trace.device_ids if other != device))


# the causes by name, and what the device waited for in words: "waited 1.2 ms for Python"
CAUSES = {
    "in_python": "for Python",
    "in_call": "for Python, inside calls into the driver",
    "launching": "for launches to arrive",
    "between_ops": "between queued ops",
    "blocked": "while Python was in a blocking call",
    "other_device": "for another device",
    "other_stream": "for another stream",
    "unexplained": "with work queued, for reasons that the record does not show",
}


@dataclass(frozen=True, eq=False)
class IdleGaps:
    """The idle gaps of a device, by start; arrays of equal length, times in ns.

    start_ns, end_ns: the gap.  causes: when the device waited for what, in all gaps.
    op: row of trace.ops that ended the gap.  line: the line the host spent most of the gap on, else the line of the op.
    host_op: row of trace.names of the operator that was innermost for most of the time for Python, NONE where none was.
    by_line_ns: the time with nothing queued by the line the host was in, split exactly; NO_LINE: outside the cell.
    """

    device: int
    start_ns: Int64
    end_ns: Int64
    causes: Causes
    op: Int32
    line: Int32
    host_op: Int32
    by_line_ns: dict[int, int]

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def length_ns(self) -> Int64:
        return self.end_ns - self.start_ns

    def waited_ns(self, cause: str, rows: slice = slice(None)) -> Int64:
        """How long the gaps, or some of them, waited for one of CAUSES. All causes add up to the length of a gap."""
        start, end = self.start_ns[rows], self.end_ns[rows]
        waited = covered_ns(self.causes.sets[cause], start, end)
        return waited + covered_ns(self.causes.one_by_one, start, end) if cause == "in_python" else waited

    def parts_ns(self, row: int) -> dict[str, int]:
        """The parts of one gap by cause, the largest first, those without length left out."""
        parts = self._parts_ns(row)
        return dict(sorted(((c, ns) for c, ns in parts.items() if ns), key=lambda item: -item[1]))

    def thread(self, trace: Trace) -> Int64:
        """The thread of the call that queued what ended each gap, NONE where that is not recorded."""
        launch = trace.ops.launch[self.op]
        return np.where(launch != NONE, trace.calls.thread[launch], NONE) if len(trace.calls) else launch

    @property
    def by_cause_ns(self) -> dict[str, int]:
        """Idle time by cause, in the order of CAUSES."""
        return {cause: int(self.waited_ns(cause).sum()) for cause in CAUSES}

    @property
    def for_python_ns(self) -> Int64:
        """How long each gap waited for Python, inside calls into the driver or not."""
        return self.waited_ns("in_python") + self.waited_ns("in_call")

    @property
    def total_ns(self) -> int:
        return int(self.length_ns.sum())

    def cause(self, row: int) -> str:
        """The largest cause of a gap."""
        parts = self._parts_ns(row)
        return max(CAUSES, key=lambda cause: parts[cause])

    def _parts_ns(self, row: int) -> dict[str, int]:
        return {cause: int(self.waited_ns(cause, slice(row, row + 1))[0]) for cause in CAUSES}


@dataclass(frozen=True)
class IdleGap:
    """One idle gap of a device; times in ns, the parts as in Causes, where in Python includes one by one.

    cause: the largest part.  line: as in IdleGaps.  host_op: the operator that was innermost for most of the time for
    Python, None where none was.  ended_by: the device op that ended the gap.
    """

    device: int
    start_ns: int
    end_ns: int
    cause: str
    in_python_ns: int
    in_call_ns: int
    launching_ns: int
    between_ops_ns: int
    blocked_ns: int
    other_device_ns: int
    other_stream_ns: int
    unexplained_ns: int
    line: int
    host_op: str | None
    ended_by: str

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


def gap_rows(trace: Trace, device: int) -> Rows[IdleGap]:
    """The idle gaps of a device one by one, by start."""
    gaps = idle_gaps(trace, device)
    parts = {f"{cause}_ns": gaps.waited_ns(cause) for cause in CAUSES}
    columns = {
        "device": np.full(len(gaps), device),
        "start_ns": gaps.start_ns,
        "end_ns": gaps.end_ns,
        "cause": names_at(tuple(CAUSES), np.argmax(np.column_stack(tuple(parts.values())), axis=1)),
        **parts,
        "line": gaps.line,
        "host_op": names_at(trace.names, gaps.host_op.astype(np.int64)),
        "ended_by": names_at(trace.names, trace.ops.name[gaps.op].astype(np.int64)),
        "length_ns": gaps.length_ns,
    }
    return Rows.of_columns(columns, IdleGap)


@once_per_trace
def idle_gaps(trace: Trace, device: int) -> IdleGaps:
    """Every gap of a device, what it was waiting for, and which line of the cell the host was on.

    Source: docs/words.md, "Why a device is idle".
    """
    pauses = gap_pauses(trace, device)
    found = idle_causes(trace, device)
    empty = nothing_queued(trace, device)
    by_line, _ = _charge_lines(trace, empty[:, 0], empty[:, 1], np.zeros(len(empty), np.int32))
    _, line = _charge_lines(trace, pauses.start_ns, pauses.launched_ns, trace.ops.line[pauses.op])
    return IdleGaps(
        device=device,
        start_ns=pauses.start_ns,
        end_ns=pauses.end_ns,
        causes=found,
        op=pauses.op,
        line=line,
        host_op=_host_ops(trace, pauses, merge(found.in_python, found.one_by_one, found.in_call)),
        by_line_ns=by_line,
    )


@once_per_trace
def nothing_queued(trace: Trace, device: int) -> Intervals:
    """When a device was idle and nothing was queued for it."""
    sets = idle_causes(trace, device).sets
    return merge(*(sets[cause] for cause in ("in_python", "in_call", "blocked", "other_device")))


@once_per_trace
def idle_causes(trace: Trace, device: int) -> Causes:
    """What a device waited for in its gaps, as interval sets that add up to its idle time."""
    return causes(trace, device, gap_pauses(trace, device), python_waits(trace))


def _charge_lines(trace: Trace, start_ns: Int64, end_ns: Int64, default: Int32) -> tuple[dict[int, int], Int32]:
    """Host time by line over all parts [start, end), and the line with most of each (default where it is empty)."""
    marks = trace.marks
    if not len(marks):
        outside_ns = int(np.maximum(end_ns - start_ns, 0).sum())
        return {NO_LINE: outside_ns} if outside_ns else {}, constant(len(default), NO_LINE, np.int32)
    first = np.searchsorted(marks.at_ns, start_ns, side="right")
    after = np.searchsorted(marks.at_ns, end_ns, side="left") + 1
    n_pieces = np.where(end_ns > start_ns, after - first, 0)
    part = np.repeat(np.arange(len(start_ns)), n_pieces)
    stretch = np.arange(len(part)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces) + first[part]
    low = np.concatenate(([np.iinfo(np.int64).min], marks.at_ns))
    high = np.concatenate((marks.at_ns, [np.iinfo(np.int64).max]))
    length = np.minimum(high[stretch], end_ns[part]) - np.maximum(low[stretch], start_ns[part])
    line = np.concatenate(([NO_LINE], marks.line)).astype(np.int64)[stretch]
    return _sum_by(line, length), _largest_line(part, line, length, default)


def _sum_by(key: Int64, value: Int64) -> dict[int, int]:
    keys, inverse = np.unique(key, return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, inverse, value)
    return {int(k): int(v) for k, v in zip(keys, sums, strict=True) if v}


def _largest_line(part: Int64, line: Int64, length: Int64, default: Int32) -> Int32:
    result = default.copy()
    if not len(part):
        return result
    n_lines = int(line.max()) + 1
    keys, inverse = np.unique(part * n_lines + line, return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, inverse, length)
    order = np.lexsort((sums, keys // n_lines))
    result[keys[order] // n_lines] = (keys[order] % n_lines).astype(np.int32)  # the last write of a part is its largest
    return result


def _host_ops(trace: Trace, pauses: Pauses, for_host: Intervals) -> Int32:
    """Row of trace.names of the operator that most of each pause for Python passed in, NONE where none ran."""
    result = np.full(len(pauses), NONE, np.int32)
    if not len(trace.calls) or not len(trace.host_ops):
        return result
    # the pieces of one pause are joined to one stretch from the first start to the last end
    number, pieces = parts_of(pauses.start_ns, pauses.end_ns, for_host)
    launch = pauses.launch
    known = launch[number] != NONE
    number, pieces = number[known], pieces[known]
    first = np.flatnonzero(np.diff(number, prepend=-1))
    last = np.append(first[1:], len(number)) - 1
    if len(first):
        thread = trace.calls.thread[launch[number[first]]]
        where = np.column_stack((pieces[first, 0], pieces[last, 1]))
        result[number[first]] = longest_operator(trace, thread, where)
    return result
