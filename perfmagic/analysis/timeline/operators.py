"""What each operator cost: on the host with and without those inside it, and on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.rows import Rows
from perfmagic.numerics.grouped import coded
from perfmagic.trace.columns import NONE, HostOps, Int64
from perfmagic.trace.hoststack import HostStack, inside_same_name, is_operator, launching_operators, operator_stack
from perfmagic.trace.model import Trace


@dataclass(frozen=True)
class OperatorStat:
    """The calls of one operator; summed durations in ns.

    n_calls: how often it was called.  thread: None where the calls of all threads are together.  shape: of the inputs,
    as the record writes it; None where calls of all shapes are together or the record has none.  host_ns: from call to
    return; an operator inside one of the same name counts once.  host_self_ns: without the operators inside it on its
    thread.  n_ops, device_ns: the device ops launched during it on its thread, by operators inside it too.
    device_self_ns: of those, the ops launched by no operator inside it.
    """

    name: str
    thread: int | None
    shape: str | None
    n_calls: int
    host_ns: int
    host_self_ns: int
    n_ops: int
    device_ns: int
    device_self_ns: int


def operators(trace: Trace, *, by_thread: bool = False, by_shape: bool = False) -> Rows[OperatorStat]:
    """What each operator cost on the host and on the devices, the longest on the host first.

    by_thread, by_shape: a row for each name and thread, or shape of inputs (recorded with record_shapes=True).
    Annotations and Python frames are no operators, and neither is torch's note about a collective inside one.
    """
    host = trace.host_ops
    rows = np.flatnonzero(is_operator(trace))
    if not len(rows):
        return Rows((), OperatorStat)
    stack = operator_stack(trace)
    parent = stack.parents()
    counted = ~inside_same_name(host, parent, by_shape=by_shape)
    n_own, own_ns = _launched(trace)
    # one after the other: together they are larger than the table
    columns: dict[str, Callable[[], Int64]] = {
        "n_calls": lambda: np.ones(len(host), np.int64),
        "host_ns": lambda: (host.end_ns - host.start_ns) * counted,
        "host_self_ns": lambda: _self_ns(host, parent),
        "n_ops": lambda: _with_inner(stack, parent, n_own) * counted,
        "device_ns": lambda: _with_inner(stack, parent, own_ns) * counted,
        "device_self_ns": lambda: own_ns,
    }
    threads, shapes, groups, inverse = _grouped(host, rows, by_thread, by_shape)
    sums = {name: _sum_by(inverse, column()[rows], len(groups)) for name, column in columns.items()}
    name_of, thread_of, shape_of = groups // (len(threads) * len(shapes)), groups // len(shapes), groups
    return Rows(
        (
            OperatorStat(
                name=trace.names[name_of[i]],
                thread=int(threads[thread_of[i] % len(threads)]) if by_thread else None,
                shape=_shape(trace, int(shapes[shape_of[i] % len(shapes)])),
                **{name: int(values[i]) for name, values in sums.items()},
            )
            for i in np.lexsort((groups, -sums["host_ns"])).tolist()
        ),
        OperatorStat,
    )


def _grouped(host: HostOps, rows: Int64, by_thread: bool, by_shape: bool) -> tuple[Int64, Int64, Int64, Int64]:
    """The threads and shapes that have rows of their own, the groups, and of each row the place of its group.

    A group is the number of its name, times the number of threads, plus that of its thread; the same with shapes.
    """
    key = host.name[rows].astype(np.int64)
    threads = shapes = np.array([NONE])  # one for all
    if by_thread:
        threads, thread = coded(host.thread[rows])
        key = key * len(threads) + thread
    if by_shape:
        shapes, shape = coded(host.shape[rows])
        key = key * len(shapes) + shape
    return threads, shapes, *coded(key)


def _shape(trace: Trace, row: int) -> str | None:
    return None if row == NONE else trace.input_shapes[row]


def _self_ns(host: HostOps, parent: Int64) -> Int64:
    """The duration of each row without what runs inside it; shape of host_ops."""
    result = host.end_ns - host.start_ns
    inner = np.flatnonzero(parent != NONE)
    # times rounded to the microsecond can let an inner operator end after the outer one
    length = np.minimum(host.end_ns[inner], host.end_ns[parent[inner]]) - host.start_ns[inner]
    np.subtract.at(result, parent[inner], length)
    self_ns: Int64 = np.maximum(result, 0)
    return self_ns


def _launched(trace: Trace) -> tuple[Int64, Int64]:
    """How many device ops each row launched itself, and their summed duration; shape of host_ops."""
    ops, by = trace.ops, launching_operators(trace)
    n, length = np.zeros(len(trace.host_ops), np.int64), np.zeros(len(trace.host_ops), np.int64)
    known = by != NONE
    np.add.at(n, by[known], 1)
    np.add.at(length, by[known], (ops.end_ns - ops.start_ns)[known])
    return n, length


def _with_inner(stack: HostStack, parent: Int64, own: Int64) -> Int64:
    """The sum over each row and all rows inside it; shape of host_ops."""
    total = own.copy()
    for levels in stack.levels.values():
        for rows in reversed(levels):
            inner = rows[parent[rows] != NONE]
            np.add.at(total, parent[inner], total[inner])
    return total


def _sum_by(group: Int64, values: Int64, n_groups: int) -> Int64:
    sums = np.zeros(n_groups, np.int64)
    np.add.at(sums, group, values)
    return sums
