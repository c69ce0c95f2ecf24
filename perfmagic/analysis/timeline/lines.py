"""What each line cost, of the cell and of the functions it called: on the host, in the queue, on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from perfmagic.analysis.timeline.activity import syncs
from perfmagic.analysis.timeline.idle import idle_gaps, nothing_queued
from perfmagic.analysis.timeline.origin import frames
from perfmagic.analysis.timeline.paths import OnPath, backward_rows, call_paths, on_paths, op_paths, sites
from perfmagic.analysis.timeline.queueing import delays
from perfmagic.base.numerics.intervals import covered_ns, distinct
from perfmagic.trace.columns import NO_LINE, NONE, Int64
from perfmagic.trace.model import Trace, once_per_trace
from perfmagic.trace.paths import NOWHERE


@once_per_trace
def sync_paths(trace: Trace) -> Int64:
    """The path of each blocking call; shape of syncs(trace)."""
    return call_paths(trace)[syncs(trace).call]


@dataclass(frozen=True)
class LineStat:
    """One line of the cell, or of a function that it called, with all that the line called.

    line: its number: the magic is line 1.
    text: its source.
    host_ns: Python was on it.
    n_launches: calls that queued ops.
    n_ops: device ops it queued.
    device_ns: summed duration of those.
    queued_ns: summed time of those in the queue.
    blocked_ns: Python blocked on it.
    idle_ns: a device idle, with nothing queued, while Python was on it.
    function: the function whose line it is; empty for the cell.
    file: where the function is: a cell, or a file; empty for the cell itself.
    backward_ns: device time of the ops that belong to this line's backward and that another line queued, summed;
    not in device_ns.
    """

    shown: ClassVar[tuple[str, ...]] = (
        *("function", "line", "text", "host_ns", "blocked_ns", "device_ns"),
        *("backward_ns", "n_ops", "queued_ns", "idle_ns", "file"),
    )

    line: int
    text: str
    host_ns: int
    n_launches: int
    n_ops: int
    device_ns: int
    queued_ns: int
    blocked_ns: int
    idle_ns: int
    function: str = ""
    file: str = ""
    backward_ns: int = 0


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
        "backward_ns": _backward_ns(trace, n_lines),
    }
    cell = trace.cell
    ran = [n for n in range(1, n_lines) if any(column[n] for column in columns.values())]
    return tuple(_stat(columns, n, line=n, text=cell.text(n) if cell else "") for n in ran)


def function_lines(trace: Trace) -> tuple[LineStat, ...]:
    """The lines of functions that ran, in order of their first call; none where they were not followed."""
    paths, known = trace.paths, sites(trace)
    if paths is None:
        return ()
    of_op, of_call, blocked, backward = op_paths(trace), call_paths(trace), syncs(trace), backward_rows(trace)
    length = trace.ops.end_ns - trace.ops.start_ns
    inside = ~blocked.after_cell
    launches = distinct(trace.ops.launch[trace.ops.launch != NONE])
    where, of_sync = on_paths(trace), sync_paths(trace)[inside]
    columns = {
        "host_ns": known.charged(where.path, where.end_ns - where.start_ns),
        "n_launches": known.charged(of_call[launches], np.ones(len(launches), np.int64)),
        "n_ops": known.charged(of_op, np.ones(len(of_op), np.int64)),
        "device_ns": known.charged(of_op, length),
        "queued_ns": known.charged(of_op, delays(trace).queued_ns),
        "blocked_ns": known.charged(of_sync, blocked.blocked_ns[inside]),
        "idle_ns": known.charged(where.path, _idle_on(trace, where)),
        "backward_ns": _sums(backward.site, length[backward.row], len(known)),
    }
    functions = [paths.functions[f] for f in known.function.tolist()]
    return tuple(
        _stat(columns, i, line=line, text=function.text(line), function=function.name, file=function.file)
        for i, (function, line) in enumerate(zip(functions, known.line.tolist(), strict=True))
        if not function.is_cell
    )


def _stat(columns: dict[str, Int64], row: int, **names: Any) -> LineStat:
    numbers: dict[str, Any] = {name: int(column[row]) for name, column in columns.items()}
    return LineStat(**names, **numbers)


def _idle_on(trace: Trace, where: OnPath) -> Int64:
    """How long devices were idle with nothing queued in each stretch of the thread that ran the cell."""
    idle = np.zeros(len(where.path), np.int64)
    if trace.paths is not None:
        main = where.thread == trace.paths.main_thread
        for device in trace.device_ids:
            empty = nothing_queued(trace, device)
            idle += np.where(main, covered_ns(empty, where.start_ns, where.end_ns), 0)
    return idle


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


def _backward_ns(trace: Trace, n_lines: int) -> Int64:
    lines, length = backward_rows(trace).cell_line, trace.ops.end_ns - trace.ops.start_ns
    sums = _sums(lines, length, n_lines)
    sums[NO_LINE] = 0
    return sums


def _sums(line: Int64 | np.ndarray[tuple[int, ...], np.dtype[np.int32]], value: Int64, n_lines: int) -> Int64:
    sums = np.zeros(n_lines, np.int64)
    np.add.at(sums, line, value)
    return sums


def followed_frames(trace: Trace) -> dict[str, npt.NDArray[np.object_]]:
    """The innermost line of the user's functions that launched each op, as a column "frame"; none where not followed.

    "In[2](4): f", or "train.py(3): step" as the frames of a profiler are written; these stand where an op has one.
    """
    paths = trace.paths
    if paths is None:
        return {}
    recorded = frames(trace)
    frame_of_op = np.empty(len(trace.ops), object)
    for i, (path, row) in enumerate(zip(op_paths(trace).tolist(), recorded.row.tolist(), strict=True)):
        function = None if path == NOWHERE else paths.functions[paths.function[path]]
        if row != NONE:
            frame_of_op[i] = recorded.words[row]
        elif function is not None and not function.is_cell:
            frame_of_op[i] = f"{function.file}({paths.line[path]}): {function.name}"
    return {"frame": frame_of_op}
