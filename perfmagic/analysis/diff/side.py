"""One of two compared timelines: what it is, how long it took, and how much work it has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from perfmagic.analysis.timeline.activity import recorded_span, syncs
from perfmagic.analysis.timeline.overlap import CLASS_SETS, PARTED, Breakdown, breakdown
from perfmagic.analysis.timeline.steps import Step, steps
from perfmagic.analysis.timeline.trust import cut_or_sampled
from perfmagic.base.kinds import PredictedFor
from perfmagic.base.numerics.intervals import EMPTY, covered_ns, merge, running_max, union
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.model import DeviceInfo, Trace, once_per_trace
from perfmagic.trace.names import op_classes
from perfmagic.trace.rows import Rows

# A device's busy time, charged to its ops: each instant to one op, so that their times add up.


@once_per_trace
def charged_ns(trace: Trace, device: int, comm_names: str | None = None) -> Int64:
    """How much of a device's busy time each op is charged with; shape of trace.ops, 0 for ops of other devices.

    If several ops run at one instant, it belongs to compute, else to communication, else to a copy, else to a memset;
    within one class to the op that started first, or to the first row of a tie. The sum is the busy time to the
    nanosecond. Source: docs/words.md, "charged".
    """
    ops, classes = trace.ops, op_classes(trace, comm_names)
    result = np.zeros(len(ops), np.int64)
    above = EMPTY  # where an op of an earlier class runs
    for name in PARTED:
        rows = np.flatnonzero((ops.device == device) & np.isin(classes, CLASS_SETS[name]))
        start, end = ops.start_ns[rows], ops.end_ns[rows]
        # rows are sorted by start: until the latest end so far, an op that started earlier runs
        latest = np.concatenate(([np.iinfo(np.int64).min], running_max(np.zeros(len(rows), np.int64), end)))[:-1]
        begin = np.maximum(start, latest[: len(rows)])
        result[rows] = np.maximum(end - begin, 0) - covered_ns(above, begin, np.maximum(end, begin))
        above = merge(above, union(start, end))
    result.flags.writeable = False
    return result


@dataclass(frozen=True)
class ComparedTrace:
    """One of two timelines that are compared.

    name: what sentences call it.
    title: the file, or the recording.
    device: the device whose time is compared; None if none executed anything.
    device_label: its name; empty if none executed anything.
    simulated: whether a simulated device was in use.
    n_devices: devices that executed something.
    whole_ns: what is compared, from the first record to the last end.
    decides: what decides how long it took, in one sentence.
    n_steps: marked training steps.
    n_ops: device ops, on all devices.
    n_launches: calls that queued them.
    n_syncs: calls in which Python waited for a device.
    blocked_ns: how long Python waited in these calls.
    rank: the rank; None if not known.
    world_size: ranks in the job; None if not known.
    torch_version: the version of torch that recorded it; empty if not known.
    failed: the exception that ended it, in words; empty for none.
    predicted: the GPU whose model gave its times; None for measured ones.
    """

    name: str
    title: str
    device: int | None
    device_label: str
    simulated: bool
    n_devices: int
    whole_ns: int
    decides: str
    n_steps: int
    n_ops: int
    n_launches: int
    n_syncs: int
    blocked_ns: int
    rank: int | None
    world_size: int | None
    torch_version: str
    failed: str
    predicted: PredictedFor | None


@dataclass(frozen=True, eq=False)
class Side:
    """A trace, and the numbers that several parts of a comparison use.

    as_cell: a cell is compared, not a file.  by_step: mean steps are compared, without ops that no step launched:
    a recording has as many of those, whatever its number of steps.
    """

    trace: Trace
    name: str
    title: str
    device: int | None
    as_cell: bool
    comm_names: str | None
    by_step: bool = False

    @cached_property
    def counted(self) -> Bool:
        """The ops that are compared; shape of trace.ops."""
        if not self.by_step:
            return np.ones(len(self.trace.ops), bool)
        counted: Bool = (self.trace.ops.launch != NONE) & self._in_steps(self.trace.launch_start_ns())
        return counted

    @cached_property
    def work(self) -> Trace:
        """The trace with the ops and the host's rows that are compared."""
        if not self.by_step:
            return self.trace
        ops, host = self.trace.ops.select(self.counted), self.trace.host_ops
        return replace(self.trace, ops=ops, host_ops=host.select(self._in_steps(host.start_ns)))

    @cached_property
    def charged_ns(self) -> Int64:
        """The busy time that each op is charged with; shape of trace.ops."""
        if self.device is None:
            return np.zeros(len(self.trace.ops), np.int64)
        return charged_ns(self.trace, self.device, self.comm_names)

    def _in_steps(self, at_ns: Int64) -> Bool:
        starts, ends = (np.array([getattr(step, name) for step in self.steps]) for name in ("start_ns", "end_ns"))
        last = np.searchsorted(starts, at_ns, side="right") - 1
        inside: Bool = (last >= 0) & (at_ns < ends[np.maximum(last, 0)])
        return inside

    @cached_property
    def parts(self) -> Breakdown:
        """The device's time; that of a device without ops if none has any."""
        return breakdown(self.trace, NONE if self.device is None else self.device, self.comm_names)

    @cached_property
    def steps(self) -> Rows[Step]:
        return steps(self.trace, self.comm_names)

    @property
    def info(self) -> DeviceInfo | None:
        return None if self.device is None else self.trace.device_info(self.device)

    @property
    def sampled(self) -> bool:
        """Whether the file is cut, or a sample of a recording: counts and totals then say little."""
        return cut_or_sampled(self.trace) is not None

    @property
    def head_ns(self) -> int:
        """The host's time before the first op; 0 for the mean step of a file, as no step contains it."""
        return self.parts.extent_start_ns - recorded_span(self.trace)[0] if self._whole else 0

    @property
    def tail_ns(self) -> int:
        """The host's time after the last op."""
        return recorded_span(self.trace)[1] - self.parts.extent_end_ns if self._whole else 0

    @property
    def _whole(self) -> bool:
        return self.device is not None and (self.as_cell or not self.by_step)

    @property
    def whole_ns(self) -> int:
        left_out_ns = int(self.charged_ns[~self.counted].sum())
        return self.head_ns + self.parts.extent_ns + self.tail_ns - left_out_ns

    @cached_property
    def facts(self) -> ComparedTrace:
        from perfmagic.analysis.findings.answers import who_decides
        from perfmagic.analysis.findings.find import known

        trace, blocked = self.trace, syncs(self.trace)
        outcomes, _ = known(trace, self.comm_names)
        inside = ~blocked.after_cell
        return ComparedTrace(
            name=self.name,
            title=self.title,
            device=self.device,
            device_label=self.info.label if self.info else "",
            predicted=self.info.predicted if self.info else None,
            simulated=trace.simulated,
            n_devices=len(trace.device_ids),
            whole_ns=replace(self, by_step=False).whole_ns if self.by_step else self.whole_ns,
            decides=who_decides(outcomes.facts, outcomes.judged.kind),
            n_steps=len(self.steps),
            n_ops=len(trace.ops),
            n_launches=len(np.unique(trace.ops.launch[trace.ops.launch != NONE])),
            n_syncs=int(inside.sum()),
            blocked_ns=int(blocked.blocked_ns[inside].sum()),
            rank=trace.meta.rank,
            world_size=trace.meta.world_size,
            torch_version=trace.meta.torch_version,
            failed=trace.meta.failed,
        )


def busiest_devices(first: Trace, second: Trace) -> tuple[int | None, int | None]:
    """The devices of two traces to compare: the busiest of those that both have, else the busiest of each."""
    common = [device for device in first.device_ids if device in second.device_ids]
    if common and first.device_ids == second.device_ids:
        best = max(common, key=lambda d: breakdown(first, d).busy_ns + breakdown(second, d).busy_ns)
        return best, best
    return _busiest(first), _busiest(second)


def _busiest(trace: Trace) -> int | None:
    return max(trace.device_ids, key=lambda device: breakdown(trace, device).busy_ns, default=None)
