"""The ops of each stream in the order of their launches: which was the last one queued at an instant."""

from __future__ import annotations

import numpy as np

from perfmagic.analysis.timeline.streams import orphans
from perfmagic.numerics.longest import NEVER
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.model import Trace


class Queues:
    """Streams by number, as in of_op; rows are of trace.ops, NONE for none."""

    def __init__(self, trace: Trace) -> None:
        ops = trace.ops
        early = orphans(trace)
        launched_ns = np.where(early, NEVER, trace.launch_start_ns())
        keys, inverse = np.unique(np.column_stack((ops.device, ops.stream)), axis=0, return_inverse=True)
        self.of_op: Int64 = inverse.reshape(-1)
        self.number = {(int(device), int(stream)): k for k, (device, stream) in enumerate(keys.tolist())}
        self.device: list[int] = [int(device) for device, _ in keys.tolist()]
        self.rows: list[Int64] = []
        self._launched_ns: list[Int64] = []
        self._ends_ns: list[Int64] = []
        self._correlation: list[Int64] = []
        known = (ops.launch != NONE) | early
        for k in range(len(keys)):
            rows = np.flatnonzero((self.of_op == k) & known)
            rows = rows[np.lexsort((ops.start_ns[rows], launched_ns[rows]))]
            self.rows.append(rows)
            self._launched_ns.append(launched_ns[rows])
            self._ends_ns.append(np.maximum.accumulate(ops.end_ns[rows]) if len(rows) else ops.end_ns[rows])
            self._correlation.append(
                np.maximum.accumulate(ops.correlation[rows]) if len(rows) else ops.correlation[rows]
            )

    def __len__(self) -> int:
        return len(self.rows)

    def last_launched(self, stream: int, before_ns: Int64) -> Int64:
        """The op launched last before each instant."""
        return self._row(stream, np.searchsorted(self._launched_ns[stream], before_ns, side="left") - 1)

    def last_launched_and_ended(self, stream: int, before_ns: Int64, by_ns: Int64) -> Int64:
        """Of the ops launched before each instant and ended by another, the last."""
        launched = np.searchsorted(self._launched_ns[stream], before_ns, side="left")
        ended = np.searchsorted(self._ends_ns[stream], by_ns, side="right")
        return self._row(stream, np.minimum(launched, ended) - 1)

    def up_to(self, stream: int, correlation: Int64) -> Int64:
        """The last op whose launch has at most that correlation id; ids rise with launches."""
        return self._row(stream, np.searchsorted(self._correlation[stream], correlation, side="right") - 1)

    def after(self, stream: int, correlation: Int64) -> Int64:
        """The first op whose launch has a larger correlation id."""
        at = np.searchsorted(self._correlation[stream], correlation, side="right")
        return self._row(stream, np.where(at < len(self.rows[stream]), at, NONE))

    def _row(self, stream: int, at: Int64) -> Int64:
        rows = self.rows[stream]
        if not len(rows):
            return np.full(len(at), NONE, np.int64)
        return np.where(at >= 0, rows[np.maximum(at, 0)], NONE)


def heads(trace: Trace) -> Int64:
    """For each call the op it launched that began first, NONE for none; shape of trace.calls."""
    ops = trace.ops
    head = np.full(len(trace.calls), NONE, np.int64)
    rows = np.flatnonzero(ops.launch != NONE)
    rows = rows[np.argsort(-ops.start_ns[rows], kind="stable")]
    head[ops.launch[rows]] = rows
    return head


def previous_of_stream(trace: Trace, stream_of: Int64) -> Int64:
    """The op before each on its stream by start, NONE for the first. stream_of: numbers of streams; shape of ops."""
    ops = trace.ops
    order = np.lexsort((ops.end_ns, ops.start_ns, stream_of))
    same = stream_of[order][1:] == stream_of[order][:-1]
    previous = np.full(len(ops), NONE, np.int64)
    previous[order[1:]] = np.where(same, order[:-1], NONE)
    return previous


def first_after_on_thread(trace: Trace, calls: Int64, head: Int64) -> Int64:
    """For each call the op launched next by the same thread, NONE for none."""
    return _on_thread(trace, calls, head, 0, "right")


def last_before_on_thread(trace: Trace, calls: Int64, head: Int64) -> Int64:
    """For each call the op launched last before it by the same thread, NONE for none."""
    return _on_thread(trace, calls, head, -1, "left")


def _on_thread(trace: Trace, calls: Int64, head: Int64, step: int, side: str) -> Int64:
    table = trace.calls
    launching = np.flatnonzero(head != NONE)
    found = np.full(len(calls), NONE, np.int64)
    for thread in np.unique(table.thread[calls]).tolist():
        mine = np.flatnonzero(table.thread[calls] == thread)
        of_thread = launching[table.thread[launching] == thread]
        at = np.searchsorted(table.start_ns[of_thread], table.start_ns[calls[mine]], side=side) + step  # type: ignore[call-overload]
        inside = (at >= 0) & (at < len(of_thread))
        found[mine[inside]] = head[of_thread[at[inside]]]
    return found
