"""The training steps of two traces beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfmagic import units
from perfmagic.analysis.diff.side import Side
from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.steps import Step


@dataclass(frozen=True)
class StepChange:
    """One step of the first trace and one of the second, times in ns.

    number_a, number_b: as the traces number them.  a_ns, b_ns: their length on the host.  busy_*: when a device
    executed anything in that time.  n_ops_*: device ops that they launched.
    """

    number_a: int
    number_b: int
    a_ns: int
    b_ns: int
    busy_a_ns: int
    busy_b_ns: int
    n_ops_a: int
    n_ops_b: int

    @property
    def diff_ns(self) -> int:
        return self.b_ns - self.a_ns


def step_changes(first: Side, second: Side) -> Rows[StepChange]:
    """The steps of both, matched by order; where there are more of one, the median step of each, and a note says so."""
    a, b = first.steps, second.steps
    if not len(a) or not len(b):
        return Rows((), StepChange)
    if len(a) == len(b):
        return Rows((_change(*pair) for pair in zip(a, b, strict=True)), StepChange)
    counts = f"{first.name} has {units.plural(len(a), 'step')}, {second.name} {units.count(len(b))}"
    return Rows([_change(median_step(a), median_step(b))], StepChange, f"the median step of each: {counts}")


def most_changed_words(rows: Sequence[StepChange]) -> tuple[str, ...]:
    """The step that changed most, in a sentence; none of fewer than two steps, and none where all are as long."""
    most = max(rows, key=lambda row: abs(row.diff_ns), default=None)
    if most is None or len(rows) < 2 or not most.diff_ns:
        return ()
    which = f"step {most.number_a}" if most.number_a == most.number_b else f"step {most.number_a} → {most.number_b}"
    both = f"{units.duration(most.a_ns)} → {units.duration(most.b_ns)}"
    return (f"of its steps {which} changed most, by {units.signed(most.diff_ns)} ({both})",)


def median_step(steps: Sequence[Step]) -> Step:
    """The step whose length is the median, the shorter of the middle two."""
    return sorted(steps, key=lambda step: step.duration_ns)[(len(steps) - 1) // 2]


def _change(a: Step, b: Step) -> StepChange:
    return StepChange(
        *(a.number, b.number, a.duration_ns, b.duration_ns),
        *(a.busy_ns, b.busy_ns, a.n_ops, b.n_ops),
    )
