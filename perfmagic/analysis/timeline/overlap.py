"""What a device did when: busy, idle, by class of op, and how much of it at the same time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from perfmagic.analysis.timeline.activity import syncs
from perfmagic.base import units
from perfmagic.base.language import counted, listed, phrase
from perfmagic.base.numerics.intervals import (
    EMPTY,
    Intervals,
    complement,
    concurrency_ns,
    merge,
    overlap_ns,
    subtract,
    total_ns,
    union,
)
from perfmagic.trace.columns import NONE, Bool, DeviceOps, Int64, OpKind
from perfmagic.trace.json_form import one_of
from perfmagic.trace.model import Trace, busy_intervals, once_per_trace, stream_intervals
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.trace.rows import Rows

CLASS_SETS: dict[str, tuple[OpClass, ...]] = {
    "compute": (OpClass.MATRIX, OpClass.COMPUTE, OpClass.UNKNOWN),
    "communication": (OpClass.COMMUNICATION,),
    "copy": (OpClass.HTOD, OpClass.DTOH, OpClass.DTOD, OpClass.PTOP),
    "htod": (OpClass.HTOD,),
    "dtoh": (OpClass.DTOH,),
    "dtod": (OpClass.DTOD,),
    "ptop": (OpClass.PTOP,),
    "memset": (OpClass.MEMSET,),
}
PARTED = ("compute", "communication", "copy", "memset")  # every op is of one of these


@dataclass(frozen=True)
class Overlap:
    """Time during which two classes were active at once, and its share of each."""

    overlap_ns: int
    frac_of_first: float
    frac_of_second: float


@dataclass(frozen=True)
class Partition:
    """The extent, each instant once: the parts add up to `extent_ns`. A class (compute, communication, copy,
    memset) is alone where no op of another class runs.

    compute_alone_ns: compute and no other class.
    compute_with_other_ns: compute and at least one other class.
    communication_alone_ns: communication and no other class; never more than `exposed_communication_ns`.
    copy_alone_ns: a copy and no other class; never more than `exposed_copy_ns`.
    memset_alone_ns: a memset and no other class.
    several_without_compute_ns: two or more of communication, copy and memset, and no compute.
    idle_ns: no op.

    *Exposed* is more than alone: see Breakdown.
    """

    compute_alone_ns: int
    compute_with_other_ns: int
    communication_alone_ns: int
    copy_alone_ns: int
    memset_alone_ns: int
    several_without_compute_ns: int
    idle_ns: int

    @property
    def total_ns(self) -> int:
        return sum(asdict(self).values())


@dataclass(frozen=True, eq=False)
class Breakdown:
    """A device's time, by class. Times in ns; source: docs/words.md, "extent", "overlap", "exposed".

    n_ops: device ops.  extent_start_ns, extent_end_ns: first start to last end.  head_ns: window start to first op;
    tail_ns: last op to window end; neither is idle time.  exposed_*: the part that did not overlap with compute.
    concurrency_ns: {k: time with exactly k streams active}.  intervals: the interval sets behind the sums, by the names
    compute, communication, copy, htod, dtoh, dtod, ptop, memset, busy, idle, exposed_communication, exposed_copy.
    """

    device: int
    n_ops: int
    extent_start_ns: int
    extent_end_ns: int
    head_ns: int
    tail_ns: int
    concurrency_ns: dict[int, int]
    intervals: dict[str, Intervals]

    @property
    def extent_ns(self) -> int:
        return self.extent_end_ns - self.extent_start_ns

    @property
    def busy_ns(self) -> int:
        return self.class_ns("busy")

    @property
    def busy_frac(self) -> float:
        return self.busy_ns / self.extent_ns if self.extent_ns else 0.0

    @property
    def idle_ns(self) -> int:
        return self.extent_ns - self.busy_ns

    @property
    def compute_ns(self) -> int:
        return self.class_ns("compute")

    @property
    def communication_ns(self) -> int:
        return self.class_ns("communication")

    @property
    def copy_ns(self) -> int:
        return self.class_ns("copy")

    @property
    def memset_ns(self) -> int:
        return self.class_ns("memset")

    @property
    def exposed_communication_ns(self) -> int:
        return self.class_ns("exposed_communication")

    @property
    def exposed_copy_ns(self) -> int:
        return self.class_ns("exposed_copy")

    @property
    def compute_communication(self) -> Overlap:
        return self._overlap("compute", "communication")

    @property
    def compute_copy(self) -> Overlap:
        return self._overlap("compute", "copy")

    @property
    def communication_copy(self) -> Overlap:
        return self._overlap("communication", "copy")

    @cached_property
    def partition(self) -> Partition:
        """Where the extent went, each instant once."""
        sets, alone_ns = self.intervals, {}
        for name in PARTED:
            others = merge(*(sets[other] for other in PARTED if other != name))
            alone_ns[f"{name}_alone_ns"] = total_ns(subtract(sets[name], others))
        with_other_ns = self.compute_ns - alone_ns["compute_alone_ns"]
        return Partition(
            **alone_ns,
            compute_with_other_ns=with_other_ns,
            several_without_compute_ns=self.busy_ns - with_other_ns - sum(alone_ns.values()),
            idle_ns=self.idle_ns,
        )

    def class_ns(self, name: str) -> int:
        """The length of one of the interval sets."""
        return total_ns(self.intervals[name])

    def _overlap(self, first: str, second: str) -> Overlap:
        both_ns = overlap_ns(self.intervals[first], self.intervals[second])
        first_ns, second_ns = self.class_ns(first), self.class_ns(second)
        return Overlap(both_ns, both_ns / first_ns if first_ns else 0.0, both_ns / second_ns if second_ns else 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Every number, without the interval sets."""
        return {
            "device": self.device,
            "n_ops": self.n_ops,
            "extent_start_ns": self.extent_start_ns,
            "extent_end_ns": self.extent_end_ns,
            "extent_ns": self.extent_ns,
            "busy_frac": self.busy_frac,
            "head_ns": self.head_ns,
            "tail_ns": self.tail_ns,
            **{f"{name}_ns": total_ns(rows) for name, rows in self.intervals.items()},
            "compute_communication": asdict(self.compute_communication),
            "compute_copy": asdict(self.compute_copy),
            "communication_copy": asdict(self.communication_copy),
            "partition": asdict(self.partition),
            "concurrency_ns": {str(k): ns for k, ns in self.concurrency_ns.items()},
        }


@once_per_trace
def breakdown(trace: Trace, device: int, comm_names: str | None = None) -> Breakdown:
    """How long a device was busy, idle, computing, communicating, copying, and how much of that at once.

    comm_names: a pattern that decides what is communication, as in perfmagic.trace.names.op_classes.
    A device without ops has an extent of zero at the window's start. Source: docs/words.md.
    """
    here = trace.ops.device == device
    ops = trace.ops.select(here)
    start = int(ops.start_ns[0]) if len(ops) else trace.meta.start_ns
    end = int(ops.end_ns.max(initial=start))
    busy = busy_intervals(trace, device)
    sets = _interval_sets(ops, op_classes(trace, comm_names)[here], busy, start, end)
    per_stream = stream_intervals(ops)
    return Breakdown(
        device=device,
        n_ops=len(ops),
        extent_start_ns=start,
        extent_end_ns=end,
        head_ns=max(0, start - trace.meta.start_ns),
        tail_ns=max(0, trace.meta.end_ns - end) if len(ops) else 0,
        concurrency_ns=concurrency_ns([per_stream], start, end),
        intervals=sets,
    )


def _interval_sets(
    ops: DeviceOps, classes: npt.NDArray[Any], busy: Intervals, start_ns: int, end_ns: int
) -> dict[str, Intervals]:
    rows = {name: np.isin(classes, members) for name, members in CLASS_SETS.items()}
    sets = {name: union(ops.start_ns[which], ops.end_ns[which]) for name, which in rows.items()}
    return sets | {
        "busy": busy,
        "idle": complement(busy, start_ns, end_ns) if end_ns > start_ns else EMPTY,
        "exposed_communication": subtract(sets["communication"], sets["compute"]),
        "exposed_copy": subtract(sets["copy"], sets["compute"]),
    }


# How long each two classes of ops overlapped; Breakdown.concurrency_ns counts streams instead.

CLASSES = ("compute", "htod", "dtoh", "dtod", "ptop", "communication", "memset")  # of breakdown().intervals


@dataclass(frozen=True)
class ClassOverlap:
    """Two classes of ops on one device, and how long both overlapped.

    first: a class.
    second: another class.
    overlap_ns: when both ran.
    first_ns: when the first class ran at all.
    second_ns: when the second class ran at all.
    frac_of_first: the overlap's share of the first class, 0 to 1.
    frac_of_second: the overlap's share of the second class, 0 to 1.
    """

    device: int
    first: Annotated[str, one_of(*CLASSES)]
    second: Annotated[str, one_of(*CLASSES)]
    overlap_ns: int
    first_ns: int
    second_ns: int

    @property
    def frac_of_first(self) -> float:
        return self.overlap_ns / self.first_ns

    @property
    def frac_of_second(self) -> float:
        return self.overlap_ns / self.second_ns


def overlap_matrix(trace: Trace, device: int, comm_names: str | None = None) -> Rows[ClassOverlap]:
    """How long each two classes of a device's ops were active at once: a row for each pair of classes that occur.

    comm_names: what is communication, as in perfmagic.trace.names.op_classes.
    Source: docs/words.md, "overlap".
    """
    parts = breakdown(trace, device, comm_names)
    length_ns = {name: parts.class_ns(name) for name in CLASSES}
    occurring = [name for name in CLASSES if length_ns[name]]
    return Rows(
        (
            ClassOverlap(
                device,
                first,
                second,
                overlap_ns=overlap_ns(parts.intervals[first], parts.intervals[second]),
                first_ns=length_ns[first],
                second_ns=length_ns[second],
            )
            for first, second in combinations(occurring, 2)
        ),
        ClassOverlap,
    )


# Why copies between host and device overlapped with compute, or did not.

OVERLAPS_FRAC = 0.5  # of the copies' time: a smaller overlap needs a reason
PIPELINE_FRAC = 0.75  # of what could overlap: as in a pipeline of four, whose ends have nothing to overlap with
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
        earlier = np.searchsorted(returned_ns[order], trace.launch_start_ns(kernels), side="right")
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
        return union(trace.launch_start_ns(rows), trace.ops.start_ns[rows])
