"""From a trace to the lanes of Python: cell lines, operators, launches and blocking calls."""

from __future__ import annotations

import numpy as np

from perfmagic.analysis.timeline.syncs import Syncs
from perfmagic.trace.columns import NO_LINE, NONE, Bool, CallKind, Int32, Int64
from perfmagic.trace.correlate import strata_lines
from perfmagic.trace.hoststack import host_stack
from perfmagic.trace.model import Trace
from perfmagic.view.timeline.lanes import CellLane, HostOpsLane, LaunchLane

AUTOGRAD_PREFIX = "autograd::engine"


def cell_lane(trace: Trace, start_ns: int, end_ns: int) -> CellLane | None:
    """The lines of the cell inside a window, a loop as one; None for a trace without line marks."""
    marks = trace.marks
    if not len(marks):
        return None
    shown = strata_lines(marks)
    changes = np.concatenate(([True], shown[1:] != shown[:-1]))
    begin, line = marks.at_ns[changes], shown[changes]
    finish = np.append(begin[1:], max(end_ns, int(begin[-1])))
    begin, finish = np.maximum(begin, start_ns), np.minimum(finish, end_ns)
    keep = (finish > begin) & (line != NO_LINE)
    texts = {int(n): trace.cell.text(int(n)) for n in np.unique(line[keep])} if trace.cell else {}
    return CellLane(begin[keep], finish[keep], line[keep], texts)


def host_ops_lanes(trace: Trace, start_ns: int, end_ns: int) -> tuple[HostOpsLane, ...]:
    """The operators of each thread inside a window in flame order, the thread that started first on top."""
    stack = host_stack(trace)
    lanes = []
    for thread, levels in stack.levels.items():
        rows = np.concatenate(levels)
        level = np.repeat(np.arange(len(levels), dtype=np.int32), [len(rows_at) for rows_at in levels])
        seen = (trace.host_ops.end_ns[rows] > start_ns) & (trace.host_ops.start_ns[rows] < end_ns)
        if seen.any():
            lanes.append(_host_lane(trace, thread, rows[seen], level[seen]))
    lanes.sort(key=lambda lane: int(lane.start_ns.min()))
    return _labelled(trace, lanes)


def launch_lane(trace: Trace, blocking: Syncs, start_ns: int, end_ns: int) -> LaunchLane | None:
    """Launch calls and blocking calls inside a window, None where there are neither.

    The wait that the measurement itself adds after the cell's last line is not the cell's and is left out.
    """
    calls = trace.calls
    launches = (calls.kind == CallKind.LAUNCH) & (calls.end_ns > start_ns) & (calls.start_ns < end_ns)
    launches |= _queued_an_op(trace) & (calls.end_ns > start_ns) & (calls.start_ns < end_ns)
    blocked = (blocking.end_ns > start_ns) & (blocking.start_ns < end_ns) & ~blocking.after_cell
    if not launches.any() and not blocked.any():
        return None
    rows = np.flatnonzero(blocked)
    return LaunchLane(
        start_ns=calls.start_ns[launches],
        end_ns=calls.end_ns[launches],
        call=np.flatnonzero(launches),
        blocked_start_ns=blocking.start_ns[rows],
        blocked_end_ns=blocking.end_ns[rows],
        blocked_line=blocking.line[rows],
        words=tuple(blocking.words(int(row)) for row in rows),
    )


def _queued_an_op(trace: Trace) -> Bool:
    """Calls that some op names as its launch, whatever their kind."""
    result = np.zeros(len(trace.calls), bool)
    launch = trace.ops.launch
    result[launch[launch != NONE]] = True
    return result


def _host_lane(trace: Trace, thread: int, rows: Int64, level: Int32) -> HostOpsLane:
    ops = trace.host_ops
    return HostOpsLane(thread, "", ops.start_ns[rows], ops.end_ns[rows], level, ops.name[rows])


def _labelled(trace: Trace, lanes: list[HostOpsLane]) -> tuple[HostOpsLane, ...]:
    """Names for threads: the first is the main one, autograd's own is known by what it runs, others are numbered."""
    named = []
    for number, lane in enumerate(lanes, start=1):
        outer = lane.name[lane.level == 0]
        autograd = any(trace.names[int(n)].startswith(AUTOGRAD_PREFIX) for n in np.unique(outer))
        label = "main thread" if number == 1 else "autograd" if autograd else f"thread {number}"
        named.append(HostOpsLane(lane.thread, label, lane.start_ns, lane.end_ns, lane.level, lane.name))
    return tuple(named)
