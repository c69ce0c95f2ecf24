"""By what a recording's host and device are slower than a GPU's model says: factors for DeviceModel.fit()."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.replay.changes.gpu import (
    LEAST_SCALED_FRAC,
    WITH_SHAPES,
    launched_by_operators,
    operator_inputs,
    scaled_frac,
)
from perfmagic.analysis.timeline.origin import MODULE, origins
from perfmagic.base import units
from perfmagic.base.clock import HOST_NS
from perfmagic.base.errors import OptionError
from perfmagic.predict.gpus import Gpu
from perfmagic.predict.kernels import can_compute, times_ns
from perfmagic.predict.model import OPERATOR_NS, host_units
from perfmagic.trace.columns import NONE, Bool, CallKind, Int64
from perfmagic.trace.hoststack import operator_stack
from perfmagic.trace.model import Trace

LONGEST_GAP_NS = 1_000_000  # between calls: longer ones are the program's own work, no launching
LONGEST_CALL_NS = 50_000  # of a launch: longer ones wait for room in the queue


@dataclass(frozen=True)
class HostTime:
    """What the host of a record needed to launch, beside what a model assumes for the same; both in ns.

    launches: how many.  has_modules: whether calls of modules were recorded; else their time is that of operators.
    """

    recorded_ns: int
    assumed_ns: float
    launches: int
    has_modules: bool

    @property
    def factor(self) -> float:
        return self.recorded_ns / self.assumed_ns


def host_time(trace: Trace) -> HostTime:
    """Between launches of a thread, without waits and pauses. Raises OptionError for a record without launches."""
    spans, launches = _launching(trace)
    if launches < 2:
        raise OptionError("the record has no launches, so it says nothing about the host", hint="record a GPU's step")
    host = trace.host_ops
    launched = np.flatnonzero(trace.ops.launch != NONE)
    operators = np.unique(origins(trace).host_op[launched])
    operators = operators[operators != NONE]
    units_of = _units(trace, launched)
    inside = _inside(spans, host.thread[operators], host.start_ns[operators])
    plain = _without_kernels(trace, operators)
    views = int(_inside(spans, host.thread[plain], host.start_ns[plain]).sum())
    frames = trace.python_frames.named(np.array([MODULE.fullmatch(name) is not None for name in trace.names], bool))
    modules = int(_inside(spans, frames.thread, frames.start_ns).sum())
    assumed = OPERATOR_NS * sum(units_of.get(int(row), 1.0) for row in operators[inside])
    assumed += HOST_NS["view"] * views + HOST_NS["module"] * modules
    if not assumed:
        message = "no operator launched anything, so the record says nothing about the host"
        raise OptionError(message, hint="record without CUDA graphs")
    recorded = sum(int((ends - starts).sum()) for starts, ends in spans.values())
    return HostTime(recorded, assumed, launches, modules > 0)


_Spans = dict[int, tuple[Int64, Int64]]  # starts and ends of a thread's


def _launching(trace: Trace) -> tuple[_Spans, int]:
    """By thread, from the end of the launch or wait before to that of each launch; and how many launches there are."""
    calls, found = trace.calls, {}
    for thread in np.unique(calls.thread[calls.kind == CallKind.LAUNCH]).tolist():
        rows = np.flatnonzero((calls.thread == thread) & np.isin(calls.kind, (CallKind.LAUNCH, CallKind.SYNC)))
        rows = rows[np.argsort(calls.start_ns[rows], kind="stable")]
        starts, ends = calls.end_ns[rows[:-1]], calls.start_ns[rows[1:]]
        lasts_ns = calls.end_ns[rows[1:]] - ends
        ends = ends + np.where(lasts_ns < LONGEST_CALL_NS, lasts_ns, 0)
        ours = (calls.kind[rows[1:]] == CallKind.LAUNCH) & (ends > starts) & (ends - starts < LONGEST_GAP_NS)
        found[thread] = starts[ours], ends[ours]
    return found, int((calls.kind == CallKind.LAUNCH).sum())


def _inside(spans: _Spans, thread: Int64, at_ns: Int64) -> Bool:
    """Whether each instant of a thread is in one of its spans."""
    found = np.zeros(len(at_ns), bool)
    for number, (starts, ends) in spans.items():
        rows = np.flatnonzero(thread == number)
        if len(starts):
            before = np.searchsorted(starts, at_ns[rows], side="right") - 1
            found[rows] = (before >= 0) & (at_ns[rows] < ends[np.maximum(before, 0)])
    return found


def _units(trace: Trace, launched: Int64) -> dict[int, float]:
    """By row of an operator, how much longer the host takes for it than for an elementwise one."""
    rows = launched[launched_by_operators(trace)[launched]]
    if not len(rows):
        return {}
    inputs, group = operator_inputs(trace, rows)
    each = [host_units(one.call) for one in inputs]
    return {row: each[at] for row, at in zip(origins(trace).host_op[rows].tolist(), group.tolist(), strict=True)}


def _without_kernels(trace: Trace, launching: Int64) -> Int64:
    """Innermost operators that launch nothing: views and allocations."""
    parents = operator_stack(trace).parents()
    innermost = np.ones(len(parents), bool)
    innermost[parents[parents != NONE]] = False
    innermost[launching] = False
    is_aten = np.array([name.startswith("aten::") for name in trace.names], bool)[trace.host_ops.name]
    return np.flatnonzero(innermost & is_aten)


def device_factor(trace: Trace, gpu: Gpu) -> float:
    """By what the kernels of a record take longer than the model says.

    Raises OptionError without shapes, and where less than half of the kernels' time has a model.
    """
    recorded_ns, predicted_ns = device_time(trace, gpu)
    return recorded_ns / predicted_ns


def device_time(trace: Trace, gpu: Gpu) -> tuple[int, float]:
    """The kernels of a record that have a model: recorded, and predicted; raises as device_factor()."""
    if not trace.input_shapes:
        raise OptionError(
            "the record has no shapes, so that its kernels have no model", hint=f"record with {WITH_SHAPES}"
        )
    length_ns = trace.ops.end_ns - trace.ops.start_ns
    rows = np.flatnonzero(launched_by_operators(trace))
    inputs, group = operator_inputs(trace, rows)
    known = {at: one.call for at, one in enumerate(inputs) if one.call and can_compute(one.call, gpu)}
    share = scaled_frac(trace, gpu)
    if share < LEAST_SCALED_FRAC:
        message = f"only {units.percent(share)} of the kernels' time is of operators with a model, less than half"
        raise OptionError(message, hint=f"record with {WITH_SHAPES}, without torch.compile and graphs")
    with_model = np.isin(group, list(known))
    calls = np.unique(np.column_stack((origins(trace).host_op[rows], group))[with_model], axis=0)[:, 1]
    each = dict(zip(known, times_ns([*known.values()], gpu), strict=True))
    return int(length_ns[rows[with_model]].sum()), float(sum(each[at] for at in calls.tolist()))
