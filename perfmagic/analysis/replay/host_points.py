"""The instants of the host's threads: calls that launch or wait, and where one thread hands over to another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.trace.columns import Bool, CallKind, HostKind, Int64
from perfmagic.trace.model import Trace

LONG_CALL_NS = 10_000  # a shorter allocation, or question to the driver, is part of the Python around it
QUIET_NS = 20_000  # between two operators autograd's threads pause 5–15 µs (V100, A100 in traces/)


@dataclass(frozen=True, eq=False)
class HostPoints:
    """By thread and time; arrays of equal length. row: of trace.calls."""

    time_ns: Int64
    row: Int64
    is_end: Bool
    thread: Int64

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def in_call(self) -> Bool:
        """Whether the time before each was inside a call; shape of time_ns."""
        open_calls = np.cumsum(np.where(self.is_end, -1, 1))  # each thread closes what it opened
        return np.concatenate((np.zeros(min(1, len(self)), bool), open_calls[:-1] > 0))

    @property
    def follows(self) -> Bool:
        """Which are not the first of their thread; shape of time_ns."""
        same = np.zeros(len(self), bool)
        same[1:] = self.thread[1:] == self.thread[:-1]
        return same


def host_points(trace: Trace) -> HostPoints:
    """Begin and end of each launch, wait, event and other long call, on threads that launch or wait."""
    calls = trace.calls
    kept = np.isin(calls.kind, (CallKind.LAUNCH, CallKind.SYNC, CallKind.WAIT, CallKind.RECORD))
    long = calls.end_ns - calls.start_ns >= LONG_CALL_NS
    kept |= long & (calls.kind == CallKind.MEMORY)
    begun_ns = int(calls.start_ns[kept].min(initial=2**62))  # what a library asks as it starts is before the run
    kept |= long & (calls.kind == CallKind.OTHER) & (calls.start_ns >= begun_ns)
    active = np.isin(calls.kind, (CallKind.LAUNCH, CallKind.SYNC))
    kept &= np.isin(calls.thread, np.unique(calls.thread[active]))
    rows = np.flatnonzero(kept)
    time_ns = np.concatenate((calls.start_ns[rows], calls.end_ns[rows]))
    is_end = np.repeat((False, True), len(rows))
    row = np.concatenate((rows, rows))
    empty = (calls.end_ns == calls.start_ns)[row]
    # at one instant of a thread: ends of earlier calls, then beginnings, then ends of calls without length
    rank = np.where(is_end, np.where(empty, 2, 0), 1)
    order = np.lexsort((row, rank, time_ns, calls.thread[row]))
    return HostPoints(time_ns[order], row[order], is_end[order], calls.thread[row[order]])


def hand_overs(trace: Trace, points: HostPoints) -> list[tuple[int, int]]:
    """(instant, instant of another thread it waited for), rows of points.

    A thread was quiet, with no operator running on it, and another fell quiet just before it went on: so do autograd's
    threads and the one in backward().
    """
    follows = points.follows
    if follows.sum() == len(points) - 1:
        return []
    before_ns = np.concatenate((points.time_ns[:1], points.time_ns[:-1]))
    paused = np.flatnonzero(follows & ~points.is_end & (points.time_ns - before_ns >= QUIET_NS))
    middle_ns = (points.time_ns[paused] + before_ns[paused]) // 2
    paused = paused[~_operator_runs(trace, points.thread[paused], middle_ns)]
    by_time = np.argsort(points.time_ns, kind="stable")
    times, threads = points.time_ns[by_time], points.thread[by_time]
    found = []
    for at in [*paused.tolist(), *np.flatnonzero(~follows).tolist()]:
        until_ns, since_ns = int(points.time_ns[at]), int(before_ns[at]) if follows[at] else -1
        k = int(np.searchsorted(times, until_ns, side="left")) - 1
        while k >= 0 and threads[k] == points.thread[at] and times[k] > since_ns:
            k -= 1
        if k < 0 or threads[k] == points.thread[at] or times[k] <= since_ns:
            continue
        other = int(by_time[k])
        after = other + 1
        goes_on = after < len(points) and follows[after] and points.time_ns[after] - times[k] < QUIET_NS
        if not goes_on:
            found.append((at, other))
    return found


def _operator_runs(trace: Trace, thread: Int64, at_ns: Int64) -> Bool:
    ops = trace.host_ops
    running = np.zeros(len(at_ns), bool)
    for one in np.unique(thread).tolist():
        mine = np.flatnonzero(thread == one)
        rows = np.flatnonzero((ops.kind == HostKind.OP) & (ops.thread == one))
        begun = np.searchsorted(np.sort(ops.start_ns[rows]), at_ns[mine], side="right")
        ended = np.searchsorted(np.sort(ops.end_ns[rows]), at_ns[mine], side="right")
        running[mine] = begun > ended
    return running
