"""What each finding's change would gain, and all together: the record replayed with the change, not the cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.sync import uploads, waits_for_uploads
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.changes.device_time import COPIES, FasterKernels, Hidden
from perfmagic.analysis.replay.changes.host_time import FasterPython, Prefetch, WithoutPython
from perfmagic.analysis.replay.changes.launching import OneGraph
from perfmagic.analysis.replay.changes.pinning import Pin
from perfmagic.analysis.replay.changes.reads import NoItem
from perfmagic.analysis.replay.path_shares import OF_DEVICE, OF_HOST, in_passing, path_shares
from perfmagic.analysis.replay.prediction import Prediction, Readings, predict
from perfmagic.analysis.replay.refusals import refusal
from perfmagic.analysis.verdict import DEVICE_BOUND, HOST_BOUND
from perfmagic.numerics.intervals import Intervals, intersect
from perfmagic.trace.columns import Int64
from perfmagic.trace.names import OpClass, op_classes

_PYTHON = {
    "repeated_gap": "without what Python did in these gaps",
    "longest_gap": "without what Python did in this gap",
    "in_call": "without these calls",
    "zero_grad": "without filling them",
}


class Gains:
    """The predictions for a trace's findings, each worked out once."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._known: dict[Finding, Prediction | None] = {}

    @cached_property
    def readings(self) -> Readings | None:
        """The trace as graphs, None where nothing can be predicted from it, or not in passing."""
        trace = self._facts.trace
        if not in_passing(trace):  # of a larger one gains are worked out when they are asked for
            return None
        found = Readings.of(trace)
        return None if refusal(found.stays) else found

    def of(self, finding: Finding) -> Prediction | None:
        """What the change that a finding asks for would make of the run; None where that is not known."""
        if finding not in self._known:
            change = change_of(self._facts, finding) if self.readings is not None else None
            found = predict(self.readings, [change]) if change is not None and self.readings is not None else None
            self._known[finding] = None if found is None or found.refused else found
        return self._known[finding]

    def worth_ns(self, finding: Finding) -> int | None:
        """By what a finding takes its place: its gain, else its cost."""
        found = self.of(finding)
        return finding.cost_ns if found is None else found.won_ns

    def told(self, finding: Finding) -> Finding:
        """The finding with its gain, where that is known."""
        found = self.of(finding)
        if found is None:
            return finding
        mended = "" if found.small and finding.cost_ns == 0 else self._words(found)
        return replace(finding, gain_ns=found.gain_ns, won_ns=found.won_ns, change=found.changes[0], mended=mended)

    def together(self, found: Sequence[Finding]) -> list[Finding]:
        """One line for all changes at once: their gains do not add up."""
        known = [finding for finding in found if (of_one := self.of(finding)) is not None and not of_one.at_most]
        if len(known) < 2 or self.readings is None or all(self._small(finding) for finding in known):
            return []
        changes = [change for finding in known if (change := change_of(self._facts, finding)) is not None]
        all_of_them = predict(self.readings, changes)
        if all_of_them.refused:
            return []
        n = units.plural(len(changes), "finding")
        return [
            Finding(
                rule="together",
                cost_ns=None,
                cause=f"{n} mended together",
                detail="",
                lines=(),
                start_ns=self._facts.breakdown.extent_start_ns,
                end_ns=self._facts.breakdown.extent_end_ns,
                device=self._facts.device,
                gain_ns=all_of_them.gain_ns,
                won_ns=all_of_them.won_ns,
                change=", ".join(dict.fromkeys(all_of_them.changes)),
                mended=taken_words(all_of_them, self._run),
            )
        ]

    def against(self, kind: str) -> str:
        """What the critical path says where it is not of what the verdict names; "" where they agree."""
        shares = path_shares(self._facts.trace, self._facts.comm_names)
        run_ns = sum(share.ns for share in shares)
        of_host = sum(share.ns for share in shares if share.name in OF_HOST)
        of_device = sum(share.ns for share in shares if share.name in OF_DEVICE)
        change: Change
        if kind == DEVICE_BOUND and 2 * of_host > run_ns:
            length_ns, whose, change, with_it = of_host, "Python's", FasterKernels(k=2.0), "with kernels twice as fast"
        elif kind == HOST_BOUND and 2 * of_device > run_ns:
            length_ns, whose, change, with_it = (
                of_device,
                "the device's",
                FasterPython(2.0),
                "with Python twice as fast",
            )
        else:
            return ""
        share = f"The critical path is {units.percent(length_ns / run_ns)} {whose} all the same"
        found = None if self.readings is None else predict(self.readings, [change])
        return share if found is None or found.refused else f"{share}: {with_it} {taken_words(found, self._run)}"

    @property
    def _run(self) -> str:
        return "the run" if self._facts.trace.meta.returned_ns is None else "the cell"

    def _small(self, finding: Finding) -> bool:
        found = self.of(finding)
        return found is None or found.small

    def _words(self, found: Prediction) -> str:
        if found.small:
            why = self._held_by()
            return f"Mended alone it gains next to nothing{why}"
        if found.at_most:
            return f"At best it gains {units.duration(found.won_ns)}"
        return f"Mended, {taken_words(found, self._run)}"

    def _held_by(self) -> str:
        """What the run is held by most: ": Python is 88 % of the critical path"."""
        shares = path_shares(self._facts.trace, self._facts.comm_names)
        run_ns = sum(share.ns for share in shares)
        return f": the critical path is {units.percent(shares[0].ns / run_ns)} {shares[0].name}" if run_ns else ""


def taken_words(found: Prediction, run: str) -> str:
    """How long a run would take: "the cell takes about 303 ms (285 ms to 320 ms) instead of 427 ms"."""
    span = f"{units.duration(found.low_ns)} to {units.duration(found.high_ns)}"
    return (
        f"{run} takes about {units.duration(found.expected_ns)} ({span}) instead of {units.duration(found.recorded_ns)}"
    )


def change_of(facts: Facts, finding: Finding) -> Change | None:
    """The change that a finding asks for; None where it asks for none that can be replayed."""
    rule = finding.rule
    if rule == "pageable" and finding.cause != "copies from pageable memory are slow":
        return Pin()
    if rule == "sync":
        return _reads(facts, finding)
    if rule == "data_loading":
        return Prefetch()
    if rule == "one_by_one":
        return OneGraph(stretches=tuple(tuple(rows.tolist()) for rows in _stretches(facts)))
    if rule == "exposed_communication":
        rows = _of_classes(facts, (OpClass.COMMUNICATION,))
        return Hidden("hide the communication behind compute", tuple(rows.tolist()))
    if rule == "exposed_copy":
        rows = _of_classes(facts, COPIES)
        return Hidden("hide the copies behind compute", tuple(rows.tolist()))
    return WithoutPython(_PYTHON[rule], _waited_for_python(facts, finding)) if rule in _PYTHON else None


def _waited_for_python(facts: Facts, finding: Finding) -> Intervals:
    return intersect(finding.where, facts.cell_time.waited_for_host)


def _reads(facts: Facts, finding: Finding) -> NoItem | None:
    """The blocking calls of one finding, which has them by who asked."""
    found = facts.syncs
    mine = ~uploads(facts) & ~waits_for_uploads(facts) & ~found.after_cell & ~found.at_edge
    mine &= (found.start_ns >= finding.start_ns) & (found.end_ns <= finding.end_ns)
    for asked_by in np.unique(found.asked_by[mine]).tolist():
        rows = np.flatnonzero(mine & (found.asked_by == asked_by))
        if int(found.start_ns[rows].min()) == finding.start_ns and int(found.end_ns[rows].max()) == finding.end_ns:
            return NoItem(calls=tuple(found.call[rows].tolist()))
    return None


def _stretches(facts: Facts) -> list[Int64]:
    ops = facts.trace.ops
    mine = ops.device == facts.device
    return [
        np.flatnonzero(mine & (ops.start_ns >= one.start_ns) & (ops.start_ns < one.end_ns)) for one in facts.one_by_one
    ]


def _of_classes(facts: Facts, classes: tuple[OpClass, ...]) -> Int64:
    kinds = op_classes(facts.trace, facts.comm_names)
    return np.flatnonzero((facts.trace.ops.device == facts.device) & np.isin(kinds, classes))
