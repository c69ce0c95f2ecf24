"""What each operator cost: on the host, with and without the operators inside it, and on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perfmagic.base.numerics.intervals import coded, total_ns, union
from perfmagic.trace import hoststack
from perfmagic.trace.columns import NONE, HostKind, HostOps, Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.rows import Rows


@dataclass(frozen=True)
class OperatorStat:
    """All calls of one operator.

    name: the operator's full name.
    thread: None if the calls of all threads are combined.
    shape: of the inputs, as recorded; None if calls of all shapes are combined or none was recorded.
    n_calls: calls.
    host_ns: from call to return, summed; a call inside one of the same name is not counted again.
    host_self_ns: the same without the operators inside it.
    n_ops: device ops launched during it on its thread.
    device_ns: their summed duration.
    device_self_ns: the summed duration of those that no inner operator launched.
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
    """What each operator cost on the host and on the devices, by host time, longest first.

    by_thread, by_shape: one row per name and thread, or per name and input shape (recorded with record_shapes=True).
    Annotations, Python frames and torch's record of a collective inside an operator are not operators.
    """
    host = trace.host_ops
    rows = np.flatnonzero(hoststack.is_operator(trace))
    if not len(rows):
        return Rows((), OperatorStat)
    stack = hoststack.operator_stack(trace)
    parent = stack.parents()
    counted = ~hoststack.inside_same_name(host, parent, by_shape=by_shape)
    n_own, own_ns = _launched(trace)
    # computed one at a time: together they take more memory than the table
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
    """The threads and shapes with rows of their own, the group codes, and the group index of each row.

    A code is the name's number, times the number of threads, plus the thread's number; likewise for shapes.
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
    ops, by = trace.ops, hoststack.launching_operators(trace)
    n, length = np.zeros(len(trace.host_ops), np.int64), np.zeros(len(trace.host_ops), np.int64)
    known = by != NONE
    np.add.at(n, by[known], 1)
    np.add.at(length, by[known], (ops.end_ns - ops.start_ns)[known])
    return n, length


def _with_inner(stack: hoststack.HostStack, parent: Int64, own: Int64) -> Int64:
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


# What the user's annotations cost on the device, by the ops launched inside them.


@dataclass(frozen=True)
class AnnotationStat:
    """All occurrences of one annotation of the user (record_function, a profiler step).

    name: the full name.
    n_occurrences: how often it was entered.
    host_ns: the time inside it on the host; one inside another of the same name is not counted again.
    n_ops: device ops launched inside it on its thread.
    busy_ns: the time during which at least one of these ops ran.
    extent_ns: from the first start to the last end of the ops of each occurrence, summed.
    """

    name: str
    n_occurrences: int
    host_ns: int
    n_ops: int
    busy_ns: int
    extent_ns: int


def user_annotations(trace: Trace) -> Rows[AnnotationStat]:
    """The host time of each annotation and the device work launched inside it, longest first.

    Ops that other threads launch for it (autograd's, for the backward pass) are not counted.
    """
    host = trace.host_ops
    rows = np.flatnonzero(host.kind == HostKind.ANNOTATION)
    if not len(rows):
        return Rows((), AnnotationStat)
    marked = host.kind == HostKind.ANNOTATION
    counted = marked & ~hoststack.inside_same_name(host, hoststack.host_stack(trace, marked).parents())
    names, inverse, n = np.unique(host.name[rows], return_inverse=True, return_counts=True)
    host_ns = np.zeros(len(names), np.int64)
    np.add.at(host_ns, inverse, ((host.end_ns - host.start_ns) * counted)[rows])
    mark, op = annotation_launches(trace, hoststack.host_stack(trace, counted))
    code = np.searchsorted(names, host.name[mark])
    n_ops = np.bincount(code, minlength=len(names))
    busy_ns = _busy_ns(trace, code, op, len(names))
    extent_ns = _extent_ns(trace, mark, code, op, len(names))
    return Rows(
        (
            AnnotationStat(
                name=trace.names[names[i]],
                n_occurrences=int(n[i]),
                host_ns=int(host_ns[i]),
                n_ops=int(n_ops[i]),
                busy_ns=int(busy_ns[i]),
                extent_ns=int(extent_ns[i]),
            )
            for i in np.lexsort((names, -host_ns)).tolist()
        ),
        AnnotationStat,
    )


def annotation_launches(trace: Trace, stack: hoststack.HostStack) -> tuple[Int64, Int64]:
    """Every pair of an annotation (row of host_ops) and a device op launched in it (row of ops), by annotation."""
    launched = np.flatnonzero(trace.ops.launch != NONE)
    call = trace.ops.launch[launched]
    marks, ops = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for around in stack.each_level_at(trace.calls.thread[call], trace.calls.start_ns[call]):
        inside = around != NONE
        marks.append(around[inside])
        ops.append(launched[inside])
    mark, op = np.concatenate(marks), np.concatenate(ops)
    order = np.lexsort((op, mark))
    return mark[order], op[order]


def _busy_ns(trace: Trace, code: Int64, op: Int64, n_codes: int) -> Int64:
    """The time during which at least one op of each code ran; shape (n_codes,)."""
    op = op[np.argsort(code, kind="stable")]
    cuts = np.cumsum(np.bincount(code, minlength=n_codes))[:-1]
    parts = np.split(op, cuts)
    return np.array([total_ns(union(trace.ops.start_ns[p], trace.ops.end_ns[p])) for p in parts], np.int64)


def _extent_ns(trace: Trace, mark: Int64, code: Int64, op: Int64, n_codes: int) -> Int64:
    """First start to last end of the ops of each annotation, summed by code; mark is sorted."""
    result = np.zeros(n_codes, np.int64)
    if len(mark):
        _, begin = np.unique(mark, return_index=True)
        start = np.minimum.reduceat(trace.ops.start_ns[op], begin)
        end = np.maximum.reduceat(trace.ops.end_ns[op], begin)
        np.add.at(result, code[begin], end - start)
    return result
