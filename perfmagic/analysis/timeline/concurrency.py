"""How long each two classes of ops ran at once; Breakdown.concurrency_ns counts streams instead."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.numerics.intervals import overlap_ns
from perfmagic.trace.model import Trace

CLASSES = ("compute", "htod", "dtoh", "dtod", "ptop", "communication", "memset")  # of breakdown().intervals


@dataclass(frozen=True)
class ClassOverlap:
    """Two classes of ops on one device; times in ns.

    overlap_ns: both at once.  first_ns, second_ns: each at all.
    """

    device: int
    first: str
    second: str
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
