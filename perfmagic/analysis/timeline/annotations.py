"""What the user's own marks cost on the device: annotations, projected from the host to the ops launched inside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.rows import Rows
from perfmagic.numerics.intervals import total_ns, union
from perfmagic.trace.columns import NONE, HostKind, Int64
from perfmagic.trace.hoststack import HostStack, host_stack, inside_same_name
from perfmagic.trace.model import Trace


@dataclass(frozen=True)
class AnnotationStat:
    """The occurrences of one annotation (record_function, a profiler step); times in ns.

    n_occurrences: how often it was entered.  host_ns: summed on the host; one inside another of the same name counts
    once.  n_ops: device ops launched during it on its thread.  busy_ns: when at least one of those executed, on any
    device.  extent_ns: from the first start to the last end of the ops of an occurrence, summed over the occurrences.
    """

    name: str
    n_occurrences: int
    host_ns: int
    n_ops: int
    busy_ns: int
    extent_ns: int


def user_annotations(trace: Trace) -> Rows[AnnotationStat]:
    """What each annotation took on the host, and what was launched inside it on the devices, the longest first.

    Ops launched for it by other threads (autograd's, for the backward pass) are not among its own.
    """
    host = trace.host_ops
    rows = np.flatnonzero(host.kind == HostKind.ANNOTATION)
    if not len(rows):
        return Rows((), AnnotationStat)
    marked = host.kind == HostKind.ANNOTATION
    counted = marked & ~inside_same_name(host, host_stack(trace, marked).parents())
    names, inverse, n = np.unique(host.name[rows], return_inverse=True, return_counts=True)
    host_ns = np.zeros(len(names), np.int64)
    np.add.at(host_ns, inverse, ((host.end_ns - host.start_ns) * counted)[rows])
    mark, op = _launched(trace, host_stack(trace, counted))
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


def _launched(trace: Trace, stack: HostStack) -> tuple[Int64, Int64]:
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
    """When at least one of the ops of each code executed; shape (n_codes,)."""
    op = op[np.argsort(code, kind="stable")]
    cuts = np.cumsum(np.bincount(code, minlength=n_codes))[:-1]
    parts = np.split(op, cuts)
    return np.array([total_ns(union(trace.ops.start_ns[p], trace.ops.end_ns[p])) for p in parts], np.int64)


def _extent_ns(trace: Trace, mark: Int64, code: Int64, op: Int64, n_codes: int) -> Int64:
    """First start to last end of the ops of each annotation, summed by code; mark is rising."""
    result = np.zeros(n_codes, np.int64)
    if len(mark):
        _, begin = np.unique(mark, return_index=True)
        start = np.minimum.reduceat(trace.ops.start_ns[op], begin)
        end = np.maximum.reduceat(trace.ops.end_ns[op], begin)
        np.add.at(result, code[begin], end - start)
    return result
