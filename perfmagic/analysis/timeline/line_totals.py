"""What each line of the cell cost: on the host, in the queue, on the device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.timeline.idle import idle_gaps
from perfmagic.analysis.timeline.queueing import delays
from perfmagic.analysis.timeline.syncs import syncs
from perfmagic.numerics.grouped import distinct
from perfmagic.trace.columns import NO_LINE, NONE, Int64
from perfmagic.trace.model import Trace


@dataclass(frozen=True)
class LineStat:
    """One line of the cell; times in ns.

    host_ns: Python was on it.  n_launches, n_ops: queued by it.  device_ns: summed duration of its ops.
    queued_ns: summed time of its ops in the queue.  blocked_ns: Python blocked on it.  idle_ns: a device idle, with
    nothing queued, while Python was on it.
    """

    line: int
    text: str
    host_ns: int
    n_launches: int
    n_ops: int
    device_ns: int
    queued_ns: int
    blocked_ns: int
    idle_ns: int


def lines(trace: Trace) -> tuple[LineStat, ...]:
    """The lines of the cell that ran, in order. Source: docs/words.md, "line"."""
    ops, blocked = trace.ops, syncs(trace)
    host = _host_ns(trace)
    n_lines = max([len(host), *(int(c.max()) + 1 for c in (ops.line, blocked.line) if len(c))])
    launch_line = trace.calls.line[distinct(ops.launch[ops.launch != NONE])]
    inside = ~blocked.after_cell
    columns = {
        "host_ns": np.pad(host, (0, n_lines - len(host))),
        "n_launches": np.bincount(launch_line, minlength=n_lines),
        "n_ops": np.bincount(ops.line, minlength=n_lines),
        "device_ns": _sums(ops.line, ops.end_ns - ops.start_ns, n_lines),
        "queued_ns": _sums(ops.line, delays(trace).queued_ns, n_lines),
        "blocked_ns": _sums(blocked.line[inside], blocked.blocked_ns[inside], n_lines),
        "idle_ns": _idle_ns(trace, n_lines),
    }
    cell = trace.cell
    ran = [n for n in range(1, n_lines) if any(column[n] for column in columns.values())]
    return tuple(
        LineStat(line=n, text=cell.text(n) if cell else "", **{k: int(v[n]) for k, v in columns.items()}) for n in ran
    )


def _host_ns(trace: Trace) -> Int64:
    """Time between the marks, by line; the last stretch ends when the cell gave control back."""
    marks, meta = trace.marks, trace.meta
    if not len(marks):
        return np.zeros(1, np.int64)
    last = meta.end_ns if meta.returned_ns is None else meta.returned_ns
    ends = np.append(marks.at_ns[1:], max(last, int(marks.at_ns[-1])))
    sums = _sums(marks.line, ends - marks.at_ns, int(marks.line.max()) + 1)
    sums[NO_LINE] = 0
    return sums


def _idle_ns(trace: Trace, n_lines: int) -> Int64:
    result = np.zeros(n_lines, np.int64)
    for device in trace.device_ids:
        for line, ns in idle_gaps(trace, device).by_line_ns.items():
            if line < n_lines:
                result[line] += ns
    return result


def _sums(line: Int64 | np.ndarray[tuple[int, ...], np.dtype[np.int32]], value: Int64, n_lines: int) -> Int64:
    sums = np.zeros(n_lines, np.int64)
    np.add.at(sums, line, value)
    return sums
