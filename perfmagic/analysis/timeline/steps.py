"""The training steps of a trace: how long each took on the host, and what it had the devices do."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.overlap import breakdown, busy_intervals
from perfmagic.numerics.intervals import Intervals, covered_ns, merge, union
from perfmagic.trace.columns import NONE, HostKind, Int64
from perfmagic.trace.model import Trace

_STEP = re.compile(r"ProfilerStep#(\d{1,9})$")  # as torch.profiler names what lies between two calls of step()


@dataclass(frozen=True)
class Step:
    """One training step; times in ns.

    start_ns, end_ns: on the host.  busy_ns, compute_ns, communication_ns, copy_ns: of [start_ns, end_ns), when at least
    one device executed anything, or an op of that class, whichever step launched it.  n_ops: device ops that the step
    launched, on any thread; first_op_ns, last_op_ns: their first start and last end, None where there are none.
    """

    number: int
    start_ns: int
    end_ns: int
    busy_ns: int
    compute_ns: int
    communication_ns: int
    copy_ns: int
    n_ops: int
    first_op_ns: int | None
    last_op_ns: int | None

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def busy_frac(self) -> float:
        return self.busy_ns / self.duration_ns if self.duration_ns else 0.0


def steps(trace: Trace, comm_names: str | None = None) -> Rows[Step]:
    """The steps that torch.profiler marked, in order; none where the trace has no such marks.

    Marks of one number that overlap (several threads) are one step. Where steps of different numbers overlap, the
    earlier one ends where the later begins: no instant and no op counts twice.
    comm_names: what is communication, as in perfmagic.trace.names.op_classes.
    """
    number, start, end = _windows(trace)
    if not len(number):
        return Rows((), Step)
    columns = {
        "number": number,
        "start_ns": start,
        "end_ns": end,
        "busy_ns": covered_ns(busy_intervals(trace), start, end),
        **{
            f"{what}_ns": covered_ns(_class(trace, what, comm_names), start, end)
            for what in ("compute", "communication", "copy")
        },
    }
    n_ops, first, last = _launched(trace, start, end)
    return Rows(
        (
            Step(
                **{name: int(values[i]) for name, values in columns.items()},
                n_ops=int(n_ops[i]),
                first_op_ns=int(first[i]) if n_ops[i] else None,
                last_op_ns=int(last[i]) if n_ops[i] else None,
            )
            for i in range(len(number))
        ),
        Step,
    )


def _windows(trace: Trace) -> tuple[Int64, Int64, Int64]:
    """Number, start and end of each step, by start, disjoint."""
    host = trace.host_ops
    marks = np.flatnonzero(host.kind == HostKind.ANNOTATION)
    found = []
    for name in np.unique(host.name[marks]).tolist():
        if match := _STEP.match(trace.names[name]):
            rows = marks[host.name[marks] == name]
            spans = union(host.start_ns[rows], host.end_ns[rows]).tolist()
            found += [(start, end, int(match[1])) for start, end in spans]
    table = np.array(sorted(found), np.int64).reshape(-1, 3)
    start, end, number = table.T
    end[:-1] = np.minimum(end[:-1], start[1:])
    return number, start, end


def _class(trace: Trace, what: str, comm_names: str | None) -> Intervals:
    return merge(*(breakdown(trace, device, comm_names).intervals[what] for device in trace.device_ids))


def _launched(trace: Trace, start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64, Int64]:
    """Of each step the ops it launched, their first start and last end; shape of start_ns."""
    ops = trace.ops
    launched = np.flatnonzero(ops.launch != NONE)
    at = trace.calls.start_ns[ops.launch[launched]]
    step = np.searchsorted(start_ns, at, side="right") - 1
    inside = (step >= 0) & (at < end_ns[np.maximum(step, 0)])
    step, rows = step[inside], launched[inside]
    first, last = np.full(len(start_ns), np.iinfo(np.int64).max), np.full(len(start_ns), np.iinfo(np.int64).min)
    np.minimum.at(first, step, ops.start_ns[rows])
    np.maximum.at(last, step, ops.end_ns[rows])
    return np.bincount(step, minlength=len(start_ns)), first, last
