"""A part of a trace in time, as a trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from perfmagic.base.errors import OptionError
from perfmagic.trace.columns import (
    NONE,
    Blocks,
    Bool,
    Counters,
    DeviceOps,
    HostCalls,
    HostOps,
    Int64,
    Table,
    cut,
    touches,
)
from perfmagic.trace.model import Trace


def window(trace: Trace, start_ns: int, end_ns: int) -> Trace:
    """What happened in [start_ns, end_ns): rows that reach into it, cut at its ends.

    The launch of an op in the window stays whole even where it lies before it, so that queued intervals keep their
    length.
    Counters keep their last value before the window; stream waits asked for before its end stay. Blocks of memory that
    live in it stay: those of before it count as allocated before, and those released after it as alive at the end.
    Names, lines, devices and joins are those of the trace. Raises OptionError for an empty window.
    """
    if end_ns <= start_ns:
        raise OptionError(f"the window ends at {end_ns} ns, not after its start at {start_ns} ns")
    op_rows = np.flatnonzero(touches(trace.ops.start_ns, trace.ops.end_ns, start_ns, end_ns))
    launches = trace.ops.launch[op_rows]
    needed = np.zeros(len(trace.calls), bool)
    needed[launches[launches != NONE]] = True
    inside = touches(trace.calls.start_ns, trace.calls.end_ns, start_ns, end_ns)
    call_rows = np.flatnonzero(inside | needed)
    calls, new_row = _cut_calls(trace, call_rows, needed, start_ns, end_ns)
    ops = trace.ops.select(op_rows).to_dict()
    if len(trace.calls):
        ops["launch"] = np.where(launches != NONE, new_row[launches], NONE)
    host_rows = touches(trace.host_ops.start_ns, trace.host_ops.end_ns, start_ns, end_ns)
    return replace(
        trace, ops=DeviceOps.make(cut(ops, start_ns, end_ns)), calls=calls,
        host_ops=HostOps.make(cut(trace.host_ops.select(host_rows).to_dict(), start_ns, end_ns)),
        python_frames=trace.python_frames.window(start_ns, end_ns),
        waits=trace.waits.select(trace.waits.at_ns < end_ns),
        host_waits=trace.host_waits.select(trace.host_waits.at_ns < end_ns),
        counters=_counters(trace.counters, start_ns, end_ns), blocks=_blocks(trace.blocks, start_ns, end_ns),
        meta=replace(trace.meta, start_ns=start_ns, end_ns=end_ns),
    )  # fmt: skip


def _cut_calls(trace: Trace, rows: Int64, whole: Bool, start_ns: int, end_ns: int) -> tuple[HostCalls, Int64]:
    """The calls in the window, and where each row of the trace's calls went."""
    columns = trace.calls.select(rows).to_dict()
    inside = cut(columns, start_ns, end_ns)
    inside |= {k: np.where(whole[rows], columns[k], inside[k]) for k in ("start_ns", "end_ns")}
    order = np.lexsort((inside["end_ns"], inside["start_ns"]))  # as Table.make sorts
    new_row = np.full(len(trace.calls), NONE, np.int64)
    new_row[rows[order]] = np.arange(len(rows))
    return HostCalls.make(inside), new_row


def _blocks(blocks: Blocks, start_ns: int, end_ns: int) -> Blocks:
    if not len(blocks):
        return blocks
    freed = blocks.free_order != NONE
    inside = blocks.select((blocks.alloc_ns < end_ns) & (~freed | (blocks.free_ns >= start_ns)))
    later = (inside.free_order != NONE) & (inside.free_ns >= end_ns)
    columns = inside.to_dict()
    for name in ("free_ns", "free_order", "free_thread", "free_node", "free_sequence"):
        columns[name] = np.where(later, NONE, columns[name])
    columns["before"] = np.where(inside.alloc_ns < start_ns, 1, inside.before)
    columns["alloc_ns"] = np.maximum(inside.alloc_ns, start_ns)
    return Blocks.make(columns)


def _counters(counters: Counters, start_ns: int, end_ns: int) -> Counters:
    inside = (counters.at_ns >= start_ns) & (counters.at_ns < end_ns)
    last = {(s, d): row for row, s, d in _rows_before(counters, start_ns)}
    rows = np.append(np.array(sorted(last.values()), np.int64), np.flatnonzero(inside))
    columns = _select_rows(counters, rows)
    return Counters.make(columns | {"at_ns": np.maximum(columns["at_ns"], start_ns)})


def _rows_before(counters: Counters, start_ns: int) -> Iterable[tuple[int, int, int]]:
    rows = np.flatnonzero(counters.at_ns < start_ns)
    return zip(rows.tolist(), counters.series[rows].tolist(), counters.device[rows].tolist(), strict=True)


def _select_rows(table: Table, rows: Int64) -> dict[str, Any]:
    return {name: column[rows] for name, column in table.to_dict().items()}
