"""What a device did when: busy, idle, by class of op, and how much of it at the same time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmagic.numerics.grouped import coded, unions
from perfmagic.numerics.intervals import (
    EMPTY,
    Intervals,
    complement,
    concurrency_ns,
    intersect,
    merge,
    subtract,
    total_ns,
    union,
)
from perfmagic.trace.columns import DeviceOps
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.trace.once import once_per_trace

CLASS_SETS: dict[str, tuple[OpClass, ...]] = {
    "compute": (OpClass.MATRIX, OpClass.COMPUTE),
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
    """Where the extent went, each instant once; the parts add up to the extent.

    Of the classes compute, communication, copy and memset a class is *alone* where no op of another one runs.
    compute_with_other_ns: compute and another class.  several_without_compute_ns: no compute, and two other classes or
    more. idle_ns: nothing. *Exposed* is more than alone: see Breakdown.
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
    tail_ns: last op to window end; neither is idle time.  exposed_*: the part with no compute beside it.
    concurrency_ns: {k: time with exactly k streams active}.  intervals: the interval sets behind the sums, by the names
    compute, communication, copy, htod, dtoh, dtod, ptop, memset, busy, idle, exposed_communication, exposed_copy.
    """

    device: int
    n_ops: int
    extent_start_ns: int
    extent_end_ns: int
    head_ns: int
    tail_ns: int
    compute_communication: Overlap
    compute_copy: Overlap
    communication_copy: Overlap
    partition: Partition
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

    def class_ns(self, name: str) -> int:
        """The length of one of the interval sets."""
        return total_ns(self.intervals[name])

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
    mine = trace.ops.device == device
    ops = trace.ops.take(mine)
    start, end = extent(ops, trace.meta.start_ns)
    sets = _interval_sets(ops, op_classes(trace, comm_names)[mine], start, end)
    _, per_stream = unions(coded(ops.stream)[1], ops.start_ns, ops.end_ns)
    return Breakdown(
        device=device,
        n_ops=len(ops),
        extent_start_ns=start,
        extent_end_ns=end,
        head_ns=max(0, start - trace.meta.start_ns),
        tail_ns=max(0, trace.meta.end_ns - end) if len(ops) else 0,
        compute_communication=_overlap(sets["compute"], sets["communication"]),
        compute_copy=_overlap(sets["compute"], sets["copy"]),
        communication_copy=_overlap(sets["communication"], sets["copy"]),
        partition=_partition(sets, end - start),
        concurrency_ns=concurrency_ns([per_stream], start, end),
        intervals=sets,
    )


def extent(ops: DeviceOps, default_ns: int = 0) -> tuple[int, int]:
    """First start and last end of some device ops; default_ns twice where there are none."""
    if not len(ops):
        return default_ns, default_ns
    return int(ops.start_ns[0]), int(ops.end_ns.max())


@once_per_trace
def busy_intervals(trace: Trace, device: int | None = None) -> Intervals:
    """When a device, or with None any device, executed at least one op. Source: docs/words.md, "busy"."""
    everything = np.ones(len(trace.ops), bool)
    return _union_of(trace.ops, everything if device is None else trace.ops.device == device)


def _interval_sets(ops: DeviceOps, classes: npt.NDArray[Any], start_ns: int, end_ns: int) -> dict[str, Intervals]:
    sets = {name: _union_of(ops, np.isin(classes, members)) for name, members in CLASS_SETS.items()}
    busy = merge(*(sets[name] for name in PARTED))
    return sets | {
        "busy": busy,
        "idle": complement(busy, start_ns, end_ns) if end_ns > start_ns else EMPTY,
        "exposed_communication": subtract(sets["communication"], sets["compute"]),
        "exposed_copy": subtract(sets["copy"], sets["compute"]),
    }


def _union_of(ops: DeviceOps, rows: npt.NDArray[Any]) -> Intervals:
    return union(ops.start_ns[rows], ops.end_ns[rows])


def _overlap(first: Intervals, second: Intervals) -> Overlap:
    ns, first_ns, second_ns = total_ns(intersect(first, second)), total_ns(first), total_ns(second)
    return Overlap(ns, ns / first_ns if first_ns else 0.0, ns / second_ns if second_ns else 0.0)


def _partition(sets: dict[str, Intervals], extent_ns: int) -> Partition:
    alone_ns = {}
    for name in PARTED:
        others = merge(*(sets[other] for other in PARTED if other != name))
        alone_ns[f"{name}_alone_ns"] = total_ns(subtract(sets[name], others))
    with_other_ns = total_ns(sets["compute"]) - alone_ns["compute_alone_ns"]
    idle_ns = extent_ns - total_ns(sets["busy"])
    return Partition(
        **alone_ns,
        compute_with_other_ns=with_other_ns,
        several_without_compute_ns=extent_ns - idle_ns - with_other_ns - sum(alone_ns.values()),
        idle_ns=idle_ns,
    )
