"""Why copies between host and device overlapped with compute, or did not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfmagic.analysis.timeline.activity import syncs
from perfmagic.base import units
from perfmagic.base.language import counted, listed, phrase
from perfmagic.base.numerics.intervals import Intervals, overlap_ns, subtract, total_ns, union
from perfmagic.trace.columns import NONE, Bool, Int64, OpKind
from perfmagic.trace.model import Trace

OVERLAPS_FRAC = 0.5  # of the copies' time: a smaller overlap needs a reason
CHANCE_FRAC = 0.1  # of the copies' time: a smaller overlap is chance
BECAUSE_FRAC = 0.5  # of the time without overlap: what holds for that share is the reason


@dataclass(frozen=True, eq=False)
class HostCopies:
    """Some copies between host and device.

    rows: of trace.ops.  compute: when the device computed.  pageable: whether their host memory is pageable.
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
    def overlapped_ns(self) -> int:
        """How long they overlapped with compute."""
        return total_ns(self.spans) - total_ns(self.exposed)

    @property
    def overlap(self) -> bool:
        return self.overlapped_ns >= OVERLAPS_FRAC * total_ns(self.spans)

    @cached_property
    def _without_kernels(self) -> Bool:
        """Which of them ran on streams without kernels; shape of rows."""
        ops = self.trace.ops
        kernels = (ops.device == self.device) & (ops.kind == OpKind.KERNEL)
        return ~np.isin(ops.stream[self.rows], np.unique(ops.stream[kernels]))

    @cached_property
    def own_stream(self) -> bool:
        """Whether most of their time was on streams without kernels."""
        ops = self.trace.ops
        length = (ops.end_ns - ops.start_ns)[self.rows]
        return bool(2 * length[self._without_kernels].sum() > length.sum())

    @property
    def streams(self) -> list[int]:
        """The streams on which they spent most of their time."""
        rows = self.rows[self._without_kernels == self.own_stream]
        return [int(stream) for stream in np.unique(self.trace.ops.stream[rows])]

    @property
    def overlap_reason(self) -> str:
        """Why they overlapped with compute, or did not."""
        they = phrase("they") if self.pageable else phrase("the pinned copies")
        numbers = listed([str(stream) for stream in self.streams])
        where = counted(len(self.streams), "stream {streams}", "streams {streams}", streams=numbers)
        if not self.own_stream:
            still = phrase(": even pinned, they would not overlap there") if self.pageable else ""
            return phrase(
                "{copies} share {streams} with kernels, and a stream runs its ops in order{still}",
                copies=they,
                streams=where,
                still=still,
            )
        if not self.pageable and self.overlap:
            return phrase(
                "{time} of {total} of copies overlapped with compute: they use pinned memory and have {streams} to "
                "themselves",
                time=units.duration(self.overlapped_ns),
                total=units.duration(total_ns(self.spans)),
                streams=where,
            )
        why = self._pageable_reason() if self.pageable else phrase("but {why}", why=self._no_overlap_reason())
        return phrase("{copies} have {streams} to themselves, {why}", copies=they, streams=where, why=why)

    def _pageable_reason(self) -> str:
        blocked = phrase("Python, blocked until the copy was staged, launched nothing that could overlap")
        if self.overlapped_ns < CHANCE_FRAC * total_ns(self.spans):
            return phrase("but {why}", why=blocked)
        later_ns = self._overlapped_later_ns()
        before_ns = self.overlapped_ns - later_ns
        before = phrase("{time} overlapped with kernels launched before", time=units.duration(before_ns))
        later = phrase("{time} overlapped with kernels launched while a copy still ran", time=units.duration(later_ns))
        overlaps = [words for ns, words in ((before_ns, before), (later_ns, later)) if ns > 0]
        return phrase("and {overlaps}: {why}", overlaps=listed(overlaps), why=blocked)

    def _overlapped_later_ns(self) -> int:
        """How long they overlapped kernels that Python launched after the copies' calls had returned.

        A kernel counts until the end of the last copy whose call had returned before the kernel's launch.
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
        overlapped = subtract(self.spans, self.exposed)
        return overlap_ns(overlapped, union(ops.start_ns[kernels][ran], until_ns[ran]))

    def _no_overlap_reason(self) -> str:
        """Why pinned copies on a stream of their own did not overlap with compute."""
        blocking = syncs(self.trace)
        in_operator = blocking.asker != NONE  # .to() waits for its copy; synchronize() at the end waits for everything
        needed_ns = BECAUSE_FRAC * total_ns(self.exposed)
        waited = union(blocking.start_ns[in_operator], blocking.end_ns[in_operator])
        if overlap_ns(self.exposed, waited) >= needed_ns:
            return phrase("Python waited for each of them: non_blocking=True avoids that")
        if overlap_ns(self.exposed, self._kernels_queued()) >= needed_ns:
            return phrase("the kernels queued meanwhile waited for something else")
        return phrase("Python had queued no kernel that could overlap them")

    def _kernels_queued(self) -> Intervals:
        """When at least one kernel of the device was launched and had not started."""
        trace = self.trace
        rows = (trace.ops.device == self.device) & (trace.ops.kind == OpKind.KERNEL) & (trace.ops.launch != NONE)
        return union(trace.launch_start_ns()[rows], trace.ops.start_ns[rows])
