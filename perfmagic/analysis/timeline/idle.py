"""Why a device was idle: every gap between its ops, split by cause and charged to a line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.rows import Rows, names_at
from perfmagic.analysis.timeline.host_time import longest_operator
from perfmagic.analysis.timeline.pauses import Causes, Pauses, causes, gap_pauses, python_waits
from perfmagic.numerics.intervals import Intervals, covered_ns, merge, parts_of
from perfmagic.trace.columns import NO_LINE, NONE, Int32, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace

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

    start_ns, end_ns: the gap.  in_python_ns, in_call_ns, launching_ns, between_ops_ns, blocked_ns, other_device_ns,
    other_stream_ns, unexplained_ns: its parts by cause, as perfmagic.analysis.timeline.pauses.Causes has them; in
    Python includes one by one. They add up to the length of the gap.
    op: row of trace.ops that ended the gap.  line: the line the host spent most of the gap on, else the line of the op.
    host_op: row of trace.names of the operator that was innermost for most of the time for Python, NONE where none was.
    by_line_ns: the time with nothing queued by the line the host was in, split exactly; NO_LINE: outside the cell.
    """

    device: int
    start_ns: Int64
    end_ns: Int64
    in_python_ns: Int64
    in_call_ns: Int64
    launching_ns: Int64
    between_ops_ns: Int64
    blocked_ns: Int64
    other_device_ns: Int64
    other_stream_ns: Int64
    unexplained_ns: Int64
    op: Int64
    line: Int32
    host_op: Int64
    by_line_ns: dict[int, int]

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def length_ns(self) -> Int64:
        return self.end_ns - self.start_ns

    def parts_ns(self, row: int) -> dict[str, int]:
        """The parts of one gap by cause, the largest first, those without length left out."""
        parts = {cause: int(self._column(cause)[row]) for cause in CAUSES}
        return dict(sorted(((c, ns) for c, ns in parts.items() if ns), key=lambda item: -item[1]))

    def thread(self, trace: Trace) -> Int64:
        """The thread of the call that queued what ended each gap, NONE where that is not recorded."""
        launch = trace.ops.launch[self.op]
        return np.where(launch != NONE, trace.calls.thread[launch], NONE) if len(trace.calls) else launch

    @property
    def by_cause_ns(self) -> dict[str, int]:
        """Idle time by cause, in the order of CAUSES."""
        return {cause: int(self._column(cause).sum()) for cause in CAUSES}

    @property
    def for_python_ns(self) -> Int64:
        """How long each gap waited for Python, inside calls into the driver or not."""
        return self.in_python_ns + self.in_call_ns

    @property
    def total_ns(self) -> int:
        return int(self.length_ns.sum())

    def cause(self, row: int) -> str:
        """The largest cause of a gap."""
        return max(CAUSES, key=lambda cause: int(self._column(cause)[row]))

    def _column(self, cause: str) -> Int64:
        values: Int64 = getattr(self, f"{cause}_ns")
        return values


@dataclass(frozen=True)
class IdleGap:
    """One idle gap of a device; times in ns, the parts as in IdleGaps.

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
    parts = {f"{cause}_ns": getattr(gaps, f"{cause}_ns") for cause in CAUSES}
    columns = {
        "device": np.full(len(gaps), device),
        "start_ns": gaps.start_ns,
        "end_ns": gaps.end_ns,
        "cause": names_at(tuple(CAUSES), np.argmax(np.column_stack(tuple(parts.values())), axis=1)),
        **parts,
        "line": gaps.line,
        "host_op": names_at(trace.names, gaps.host_op),
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
    sets = idle_causes(trace, device).sets
    start, end = pauses.start_ns, pauses.end_ns
    sums = {cause: covered_ns(sets[cause], start, end) for cause in CAUSES}
    sums["in_python"] = sums["in_python"] + covered_ns(sets["one_by_one"], start, end)
    empty = nothing_queued(trace, device)
    by_line, _ = _charge_lines(trace, empty[:, 0], empty[:, 1], np.zeros(len(empty), np.int32))
    _, line = _charge_lines(trace, start, pauses.launched_ns, trace.ops.line[pauses.op])
    return IdleGaps(
        device=device,
        start_ns=start,
        end_ns=end,
        **{f"{cause}_ns": ns for cause, ns in sums.items()},
        op=pauses.op,
        line=line,
        host_op=_host_ops(trace, pauses, merge(sets["in_python"], sets["one_by_one"], sets["in_call"])),
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


def _host_ops(trace: Trace, pauses: Pauses, for_host: Intervals) -> Int64:
    """Row of trace.names of the operator that most of each pause for Python passed in, NONE where none ran."""
    result = np.full(len(pauses), NONE, np.int64)
    if not len(trace.calls) or not len(trace.host_ops):
        return result
    # the pieces of one pause are joined to one stretch from the first start to the last end
    number, pieces = parts_of(pauses.start_ns, pauses.end_ns, for_host)
    known = pauses.launch[number] != NONE
    number, pieces = number[known], pieces[known]
    first = np.flatnonzero(np.diff(number, prepend=-1))
    last = np.append(first[1:], len(number)) - 1
    if len(first):
        thread = trace.calls.thread[pauses.launch[number[first]]]
        where = np.column_stack((pieces[first, 0], pieces[last, 1]))
        result[number[first]] = longest_operator(trace, thread, where)
    return result
