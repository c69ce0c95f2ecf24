"""Why copies between host and device ran beside compute, or did not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfmagic.analysis.timeline.activity import syncs
from perfmagic.base import units
from perfmagic.base.numerics.intervals import Intervals, overlap_ns, subtract, total_ns, union
from perfmagic.base.units import listed
from perfmagic.trace.columns import NONE, Bool, Int64, OpKind
from perfmagic.trace.model import Trace

OVERLAPS_FRAC = 0.5  # of the copies' time: fewer need a reason why the rest did not
CHANCE_FRAC = 0.1  # of it; less is chance
BECAUSE_FRAC = 0.5  # of the time without compute beside: what held for more of it is the reason


@dataclass(frozen=True, eq=False)
class HostCopies:
    """Some copies between host and device.

    rows: of trace.ops.  compute: when the device computed.  pageable: their host memory is.
    """

    trace: Trace
    device: int
    rows: Int64
    compute: Intervals
    pageable: bool

    @cached_property
    def spans(self) -> Intervals:
        ops = self.trace.ops
        return union(ops.start_ns[self.rows], ops.end_ns[self.rows])

    @cached_property
    def exposed(self) -> Intervals:
        return subtract(self.spans, self.compute)

    @property
    def beside_ns(self) -> int:
        """How long they ran beside compute."""
        return total_ns(self.spans) - total_ns(self.exposed)

    @property
    def overlap(self) -> bool:
        return self.beside_ns >= OVERLAPS_FRAC * total_ns(self.spans)

    @cached_property
    def _alone(self) -> Bool:
        """Which of them are on streams without kernels; shape of rows."""
        ops = self.trace.ops
        kernels = (ops.device == self.device) & (ops.kind == OpKind.KERNEL)
        return ~np.isin(ops.stream[self.rows], np.unique(ops.stream[kernels]))

    @cached_property
    def own_stream(self) -> bool:
        """Whether most of their time is on streams without kernels."""
        ops = self.trace.ops
        length = (ops.end_ns - ops.start_ns)[self.rows]
        return bool(2 * length[self._alone].sum() > length.sum())

    @property
    def streams(self) -> list[int]:
        """The streams of those that are most of their time."""
        rows = self.rows[self._alone == self.own_stream]
        return [int(stream) for stream in np.unique(self.trace.ops.stream[rows])]

    @property
    def overlap_reason(self) -> str:
        """Why they overlap compute, or do not."""
        they = "they" if self.pageable else "the pinned copies"
        where = f"stream{'s' if len(self.streams) > 1 else ''} {listed([str(stream) for stream in self.streams])}"
        if not self.own_stream:
            still = ": pinned, they would still overlap nothing there" if self.pageable else ""
            return f"{they} are on {where} with kernels, and a stream runs one op after the other{still}"
        if self.pageable:
            return f"they have {where} for themselves, {self._pageable_beside()}"
        if self.overlap:
            part = f"{units.duration(self.beside_ns)} of {units.duration(total_ns(self.spans))}"
            return f"{part} of copies ran beside compute: from pinned memory, on {where} of their own"
        return f"{they} have {where} for themselves, but {self._not_beside()}"

    def _pageable_beside(self) -> str:
        held = "held until the copy is staged, launched nothing that could run beside"
        if self.beside_ns < CHANCE_FRAC * total_ns(self.spans):
            return f"but Python, {held}"
        after_ns = self._beside_later_ns()
        parts = {"launched before": self.beside_ns - after_ns, "launched while a copy still ran": after_ns}
        said = [f"{units.duration(ns)} ran beside kernels {when}" for when, ns in parts.items() if ns > 0]
        return f"and {listed(said)}: Python, {held}"

    def _beside_later_ns(self) -> int:
        """How long they ran beside kernels that Python launched after their calls had returned.

        A kernel is beside an earlier copy up to the end of the last one whose call had returned at its launch.
        """
        trace, ops = self.trace, self.trace.ops
        rows = self.rows[ops.launch[self.rows] != NONE]
        returned_ns = trace.calls.end_ns[ops.launch[rows]]
        order = np.argsort(returned_ns)
        latest_ns = np.maximum.accumulate(ops.end_ns[rows][order])
        kernels = np.flatnonzero((ops.device == self.device) & (ops.kind == OpKind.KERNEL) & (ops.launch != NONE))
        earlier = np.searchsorted(returned_ns[order], trace.launch_start_ns()[kernels], side="right")
        kernels, earlier = kernels[earlier > 0], earlier[earlier > 0]
        until_ns = np.minimum(ops.end_ns[kernels], latest_ns[earlier - 1])
        ran = until_ns > ops.start_ns[kernels]
        beside = subtract(self.spans, self.exposed)
        return overlap_ns(beside, union(ops.start_ns[kernels][ran], until_ns[ran]))

    def _not_beside(self) -> str:
        """Why pinned copies on a stream of their own had no compute beside them."""
        blocking = syncs(self.trace)
        in_operator = blocking.asker != NONE  # .to() waits for its copy; synchronize() at the end waits for everything
        needed_ns = BECAUSE_FRAC * total_ns(self.exposed)
        waited = union(blocking.start_ns[in_operator], blocking.end_ns[in_operator])
        if overlap_ns(self.exposed, waited) >= needed_ns:
            return "Python waited for them: it does not with non_blocking=True"
        if overlap_ns(self.exposed, self._kernels_queued()) >= needed_ns:
            return "kernels queued beside them waited for something else"
        return "Python had queued no kernel to run beside"

    def _kernels_queued(self) -> Intervals:
        """When at least one kernel of the device was launched and had not started."""
        trace = self.trace
        rows = (trace.ops.device == self.device) & (trace.ops.kind == OpKind.KERNEL) & (trace.ops.launch != NONE)
        return union(trace.launch_start_ns()[rows], trace.ops.start_ns[rows])
