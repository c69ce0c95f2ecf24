"""One of two timelines that are compared: what it is, how long it took, and how much work it holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from perfmagic.analysis.diff.charged import charged_ns
from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.overlap import Breakdown, breakdown
from perfmagic.analysis.timeline.sample import sample
from perfmagic.analysis.timeline.steps import Step, steps
from perfmagic.analysis.timeline.syncs import syncs
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.model import DeviceInfo, Trace


@dataclass(frozen=True)
class ComparedTrace:
    """One of two timelines that are compared; times in ns.

    name: what it is called in sentences.  title: the file, or the recording.  device: the one whose time is compared,
    None where none executed anything; device_label: of it, "" likewise.  simulated: whether it is a simulated one.
    n_devices: that executed something.
    whole_ns: what is compared: a cell from its start to its end, a file's extent of the device.  n_steps: training
    steps that are marked.  n_ops: of all devices.  n_launches: calls that queued them.  n_syncs, blocked_ns: the calls
    in which Python waited, and for how long.
    """

    name: str
    title: str
    device: int | None
    device_label: str
    simulated: bool
    n_devices: int
    whole_ns: int
    n_steps: int
    n_ops: int
    n_launches: int
    n_syncs: int
    blocked_ns: int
    rank: int | None
    world_size: int | None
    torch_version: str
    failed: str

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Side:
    """A trace with what several parts of a comparison ask of it.

    as_cell: a whole cell is compared, not an extent.  by_step: steps are compared, by their mean: ops that no step
    launched are left out, since a recording has as many of them whatever its number of steps.
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
        ops, host = self.trace.ops.take(self.counted), self.trace.host_ops
        return replace(self.trace, ops=ops, host_ops=host.take(self._in_steps(host.start_ns)))

    @cached_property
    def charged_ns(self) -> Int64:
        """What each op is charged with; shape of trace.ops."""
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
        """The time of the device; of one without ops where none has any."""
        return breakdown(self.trace, NONE if self.device is None else self.device, self.comm_names)

    @cached_property
    def steps(self) -> Rows[Step]:
        return steps(self.trace, self.comm_names)

    @property
    def info(self) -> DeviceInfo | None:
        return None if self.device is None else self.trace.device_info(self.device)

    @property
    def sampled(self) -> bool:
        """Whether the file is a sample of a recording, so that counts and totals say little."""
        return sample(self.trace) is not None

    @property
    def head_ns(self) -> int:
        return self.parts.head_ns if self.as_cell else 0

    @property
    def tail_ns(self) -> int:
        return self.parts.tail_ns if self.as_cell else 0

    @property
    def whole_ns(self) -> int:
        left_out_ns = int(self.charged_ns[~self.counted].sum())
        return self.head_ns + self.parts.extent_ns + self.tail_ns - left_out_ns

    @cached_property
    def facts(self) -> ComparedTrace:
        trace, blocked = self.trace, syncs(self.trace)
        inside = ~blocked.after_cell
        return ComparedTrace(
            name=self.name,
            title=self.title,
            device=self.device,
            device_label=self.info.label if self.info else "",
            simulated=trace.simulated,
            n_devices=len(trace.device_ids),
            whole_ns=replace(self, by_step=False).whole_ns if self.by_step else self.whole_ns,
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
