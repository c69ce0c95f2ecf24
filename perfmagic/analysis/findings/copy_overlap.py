"""Why copies between host and device ran beside compute, or did not: what both findings on copies say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, listed
from perfmagic.numerics.intervals import Intervals, overlap_ns, subtract, total_ns, union
from perfmagic.trace.columns import NONE, Bool, Int64, OpKind
from perfmagic.trace.names import OpClass, is_pageable, op_classes

OVERLAPS_FRAC = 0.5  # of the copies' time: fewer need a reason why the rest did not
CHANCE_FRAC = 0.1  # of it; less is chance
BECAUSE_FRAC = 0.5  # of the time without compute beside: what held for more of it is the reason


@dataclass(frozen=True, eq=False)
class Copies:
    """Some copies between host and device.  rows: of trace.ops.  pageable: their host memory is."""

    facts: Facts
    rows: Int64
    pageable: bool

    @cached_property
    def spans(self) -> Intervals:
        ops = self.facts.trace.ops
        return union(ops.start_ns[self.rows], ops.end_ns[self.rows])

    @cached_property
    def exposed(self) -> Intervals:
        return subtract(self.spans, self.facts.breakdown.intervals["compute"])

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
        ops = self.facts.trace.ops
        kernels = (ops.device == self.facts.device) & (ops.kind == OpKind.KERNEL)
        return ~np.isin(ops.stream[self.rows], np.unique(ops.stream[kernels]))

    @cached_property
    def own_stream(self) -> bool:
        """Whether most of their time is on streams without kernels."""
        ops = self.facts.trace.ops
        length = (ops.end_ns - ops.start_ns)[self.rows]
        return bool(2 * length[self._alone].sum() > length.sum())

    @property
    def streams(self) -> list[int]:
        """The streams of those that are most of their time."""
        rows = self.rows[self._alone == self.own_stream]
        return [int(stream) for stream in np.unique(self.facts.trace.ops.stream[rows])]

    @property
    def words(self) -> str:
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
        held = "Python, held until the copy is staged, launched nothing that could run beside"
        if self.beside_ns < CHANCE_FRAC * total_ns(self.spans):
            return f"but {held}"
        return f"and {units.duration(self.beside_ns)} ran beside kernels launched before: during the copy {held}"

    def _not_beside(self) -> str:
        """Why pinned copies on a stream of their own had no compute beside them."""
        syncs = self.facts.syncs
        in_operator = syncs.asker != NONE  # .to() waits for its copy; synchronize() at the end waits for everything
        needed_ns = BECAUSE_FRAC * total_ns(self.exposed)
        waited = union(syncs.start_ns[in_operator], syncs.end_ns[in_operator])
        if overlap_ns(self.exposed, waited) >= needed_ns:
            return "Python waited for them: it does not with non_blocking=True"
        if overlap_ns(self.exposed, self._kernels_queued()) >= needed_ns:
            return "kernels queued beside them waited for something else"
        return "Python had queued no kernel to run beside"

    def _kernels_queued(self) -> Intervals:
        """When at least one kernel of the device was launched and had not started."""
        trace = self.facts.trace
        rows = (trace.ops.device == self.facts.device) & (trace.ops.kind == OpKind.KERNEL) & (trace.ops.launch != NONE)
        return union(trace.launch_start_ns()[rows], trace.ops.start_ns[rows])


def copies(facts: Facts, *, pageable: bool, direction: OpClass | None = None) -> Copies | None:
    """The copies of the device between host and device, from pageable or from other host memory; None without any."""
    ops, classes = facts.trace.ops, op_classes(facts.trace, facts.comm_names)
    wanted = (direction,) if direction is not None else (OpClass.HTOD, OpClass.DTOH)
    mine = (ops.device == facts.device) & np.isin(classes, wanted) & (_is_pageable(facts) == pageable)
    rows = np.flatnonzero(mine)
    return Copies(facts, rows, pageable) if len(rows) else None


def _is_pageable(facts: Facts) -> Bool:
    by_name = np.array([is_pageable(name) for name in facts.trace.names], bool)
    return by_name[facts.trace.ops.name]


def exposed_words(facts: Facts) -> str:
    """Why pinned copies are exposed; nothing where pageable ones are the most of it, which have a finding."""
    pinned, held = copies(facts, pageable=False), copies(facts, pageable=True)
    if pinned is None or pinned.overlap or (held and total_ns(held.exposed) > total_ns(pinned.exposed)):
        return ""
    return pinned.words


def beside_words(facts: Facts) -> str:
    """Why pinned copies ran beside compute; nothing where they did not."""
    pinned = copies(facts, pageable=False)
    if pinned is None or not pinned.overlap:
        return ""
    return pinned.words if pinned.own_stream else ""
