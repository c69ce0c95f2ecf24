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
from perfmagic.analysis.replay.changes.change import COPIES, Change
from perfmagic.analysis.replay.changes.device_time import FasterKernels, Overlapped
from perfmagic.analysis.replay.changes.host_time import FasterPython, Prefetch, WithoutPython
from perfmagic.analysis.replay.changes.launching import OneGraph
from perfmagic.analysis.replay.changes.pinning import Pin
from perfmagic.analysis.replay.changes.reads import NoItem
from perfmagic.analysis.replay.path_shares import OF_DEVICE, OF_HOST, in_passing, path_shares
from perfmagic.analysis.replay.prediction import IF_OTHERS, Prediction, Readings, predict
from perfmagic.analysis.replay.refusals import refusal
from perfmagic.analysis.verdict import DEVICE_BOUND, HOST_BOUND, MIXED
from perfmagic.numerics.intervals import Intervals, intersect
from perfmagic.trace.columns import Int64
from perfmagic.trace.names import OpClass

_PYTHON = {
    "repeated_gap": "without what Python did in these gaps",
    "longest_gap": "without what Python did in this gap",
    "in_call": "without these calls",
    "zero_grad": "without filling them",
}
_MENDED = {"one_by_one": "As CUDA graphs"}  # its advice may name something else
DECIDES = 2 / 3  # of the path: whose it is then, the verdict says
LEAST_FRAC = 0.01  # of the run: what gains less is not told in numbers
_HIDDEN = {"exposed_communication": ("communication", (OpClass.COMMUNICATION,)), "exposed_copy": ("copies", COPIES)}


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
        mended = "" if found.small and finding.cost_ns == 0 else self._words(finding.rule, finding.cost_ns or 0, found)
        return replace(
            finding,
            gain_ns=found.gain_ns,
            won_ns=found.won_ns,
            at_most=found.at_most,
            change=found.changes[0],
            mended=mended,
        )

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
        least = DECIDES * run_ns if kind == MIXED else run_ns / 2
        if kind in (DEVICE_BOUND, MIXED) and of_host > least:
            length_ns, whose = of_host, "Python's"
        elif kind in (HOST_BOUND, MIXED) and of_device > least:
            length_ns, whose = of_device, "the device's"
        else:
            return ""
        # faster by what the verdict names it would still take so long; a mixed one names nothing
        of_python = kind == HOST_BOUND or (kind == MIXED and whose == "Python's")
        change: Change = FasterPython(2.0) if of_python else FasterKernels(k=2.0)
        with_it = f"with {'Python' if of_python else 'kernels'} twice as fast"
        all_the_same = "" if kind == MIXED else " all the same"
        share = f"The critical path is {units.percent(length_ns / run_ns)} {whose}{all_the_same}"
        found = None if self.readings is None else predict(self.readings, [change])
        if whose == "the device's" and found is not None and found.small:  # of copies: faster kernels win nothing
            longest = next(one for one in shares if one.name in OF_DEVICE)
            return f"{share}, {units.percent(longest.ns / run_ns)} {longest.name}"
        return share if found is None or found.refused else f"{share}: {with_it} {taken_words(found, self._run)}"

    @property
    def _run(self) -> str:
        return "the run" if self._facts.trace.meta.returned_ns is None else "the cell"

    def _small(self, finding: Finding) -> bool:
        found = self.of(finding)
        return found is None or found.small

    def _words(self, rule: str, cost_ns: int, found: Prediction) -> str:
        mended = _MENDED.get(rule, "Mended")
        if found.small and found.won_ns > LEAST_FRAC * found.recorded_ns:
            return f"{mended} alone it gains {units.duration(found.won_ns)} of {units.duration(found.recorded_ns)}"
        if found.small:
            return f"{mended} alone it gains next to nothing{self._held_by()}"
        if found.at_most:
            waits = rule == "exposed_copy" and found.won_ns > cost_ns
            best = "At best, with Python not waiting for them either," if waits else "At best"
            return f"{best} it gains {units.duration(found.won_ns)}" + (f", {IF_OTHERS}" if found.if_others else "")
        return f"{mended}, {taken_words(found, self._run)}"

    def _held_by(self) -> str:
        """What the run is held by most: ": Python is 88 % of the critical path"."""
        shares = path_shares(self._facts.trace, self._facts.comm_names)
        run_ns = sum(share.ns for share in shares)
        return f": the critical path is {units.percent(shares[0].ns / run_ns)} {shares[0].name}" if run_ns else ""


def taken_words(found: Prediction, run: str) -> str:
    """How long a run would take: "the cell takes about 303 ms (285 ms to 320 ms) instead of 427 ms"."""
    span = f"{units.duration(found.low_ns)} to {units.duration(found.high_ns)}"
    times = f"about {units.duration(found.expected_ns)} ({span}) instead of {units.duration(found.recorded_ns)}"
    return f"{run} takes {times}" + (f", {IF_OTHERS}" if found.if_others else "")


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
    if rule in _HIDDEN:
        what, classes = _HIDDEN[rule]
        return Overlapped(what, classes, device=facts.device, comm_names=facts.comm_names)
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
