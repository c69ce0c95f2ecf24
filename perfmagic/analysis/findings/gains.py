"""How much time each finding's fix saves, and all fixes together, as predicted by replaying the record."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from perfmagic.analysis.findings.catalogue import action
from perfmagic.analysis.findings.facts import THE_CELL, Facts, indexing_calls, uploads, waits_for_uploads
from perfmagic.analysis.findings.finding import Finding, Outcome, Silent, too_few
from perfmagic.analysis.findings.kernels import claim
from perfmagic.analysis.replay.changes.change import COPIES, Change, OnTime
from perfmagic.analysis.replay.changes.copies import Overlapped, Pin, Without
from perfmagic.analysis.replay.changes.host import NoItem, Prefetch, WithoutPython
from perfmagic.analysis.replay.changes.kernels import Fused, OneGraph, ShorterOps
from perfmagic.analysis.replay.prediction import (
    Prediction,
    Readings,
    if_others,
    not_predictable,
    path_shares,
    predict,
    replayed_in_passing,
)
from perfmagic.analysis.timeline.collectives import late_collectives
from perfmagic.base import units
from perfmagic.base.language import chained, counted, phrase
from perfmagic.base.numerics.intervals import Intervals, intersect, union
from perfmagic.base.numerics.intervals import total_ns as sum_ns
from perfmagic.predict.gpus import peaks_of
from perfmagic.trace.columns import NONE, HostKind, Int64
from perfmagic.trace.names import OpClass

_PYTHON = {
    "repeated_gap": phrase("without Python's work in these gaps"),
    "many_gaps": phrase("without Python's work in these gaps"),
    "longest_gap": phrase("without Python's work in this gap"),
    "in_call": phrase("without these calls"),
    "zero_grad": phrase("without filling them"),
}
_GRAPHED = "one_by_one"  # its fix is predicted as CUDA graphs; its advice may name something else
LEAST_FRAC = 0.01  # of the run: a smaller gain is not given as a number
_HIDDEN = {"exposed_communication": ("communication", (OpClass.COMMUNICATION,)), "exposed_copy": ("copies", COPIES)}


def _gain_ns(prediction: Prediction) -> tuple[int, int]:
    """The least and the most that advice gains, never below 0: one need not follow it."""
    least_ns, most_ns = prediction.gain_ns
    return max(0, least_ns), max(0, most_ns)


class Gains:
    """The predictions for a trace's findings, each worked out once."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._known: dict[Finding, Prediction | None] = {}
        self._replayed: dict[tuple[Hashable, ...], Prediction] = {}

    @cached_property
    def readings(self) -> Readings | None:
        """The trace as graphs, None where nothing can be predicted from it, or not in passing."""
        trace = self._facts.trace
        if not replayed_in_passing(trace):  # of a larger one gains are worked out when they are asked for
            return None
        readings = Readings.from_trace(trace)
        return None if not_predictable(readings.stays) else readings

    def prediction(self, finding: Finding) -> Prediction | None:
        """The run with the change that a finding asks for; None where it cannot be predicted."""
        if finding not in self._known:
            change = change_of(self._facts, finding) if self.readings is not None else None
            self._known[finding] = self.of_changes([change] if change is not None else [])
        return self._known[finding]

    def of_changes(self, changes: Sequence[Change]) -> Prediction | None:
        """The run with some changes; None where it cannot be predicted."""
        prediction = self._replay(self.readings, changes) if self.readings is not None and changes else None
        return None if prediction is None or prediction.refused else prediction

    def _replay(self, readings: Readings, changes: Sequence[Change]) -> Prediction:
        """The run with some changes, replayed once for findings and answers."""
        asked = tuple((c, c.where.tobytes()) if isinstance(c, WithoutPython) else c for c in changes)
        if asked not in self._replayed:
            self._replayed[asked] = predict(readings, changes)
        return self._replayed[asked]

    def worth_ns(self, finding: Finding) -> int | None:
        """What findings are sorted by: the gain, or the cost where no gain is known."""
        prediction = self.prediction(finding)
        return finding.cost_ns if prediction is None else prediction.won_ns

    def with_gain(self, finding: Finding) -> Finding:
        """The finding with its gain, where that is known."""
        prediction = self.prediction(finding)
        if prediction is None:
            return finding
        no_gain = prediction.small and finding.cost_ns == 0
        return replace(
            finding,
            gain_ns=_gain_ns(prediction),
            won_ns=prediction.won_ns,
            at_most=prediction.at_most,
            change=prediction.changes[0],
            gain_text="" if no_gain else self._describe(finding.rule, finding.cost_ns or 0, prediction),
        )

    def together(self, findings: Sequence[Finding]) -> Outcome:
        """One line for all changes at once, because their gains do not add up."""
        known = [finding for finding in findings if (gain := self.prediction(finding)) is not None and not gain.at_most]
        if len(known) < 2 or self.readings is None:
            predicted = counted(
                len(known), "a replay predicts the gain of {n} finding", "a replay predicts the gain of {n} findings"
            )
            return too_few(predicted, len(known), 2)
        if all(self._small(finding) for finding in known):
            return Silent(phrase("fixing any of {n} findings alone saves almost nothing", n=units.count(len(known))))
        changes = each_once(change_of(self._facts, finding) for finding in known)
        all_of_them = self._replay(self.readings, changes)
        if all_of_them.refused:
            return Silent(all_of_them.refused)
        return [
            Finding(
                rule="together",
                cost_ns=None,
                cause=counted(len(changes), "{n} finding fixed together", "{n} findings fixed together"),
                detail="",
                lines=(),
                start_ns=self._facts.breakdown.extent_start_ns,
                end_ns=self._facts.breakdown.extent_end_ns,
                device=self._facts.device,
                gain_ns=_gain_ns(all_of_them),
                won_ns=all_of_them.won_ns,
                change=chained("{a}, {b}", dict.fromkeys(all_of_them.changes)),
                gain_text=describe_time(all_of_them, self._run),
            )
        ]

    @property
    def _run(self) -> str:
        return phrase("the run") if self._facts.trace.meta.returned_ns is None else THE_CELL

    def _small(self, finding: Finding) -> bool:
        prediction = self.prediction(finding)
        return prediction is None or prediction.small

    def _describe(self, rule: str, cost_ns: int, prediction: Prediction) -> str:
        gain = units.duration(prediction.won_ns)
        alone = phrase("CUDA graphs alone save") if rule == _GRAPHED else phrase("Fixing this alone saves")
        if prediction.small and prediction.won_ns > LEAST_FRAC * prediction.recorded_ns:
            recorded = units.duration(prediction.recorded_ns)
            return phrase("{change} {gain} of {time}", change=alone, gain=gain, time=recorded)
        if prediction.small:
            why = self._describe_bottleneck()
            return phrase("{change} almost nothing{why}", change=alone, why=why)
        if prediction.at_most:
            python_waits = rule == "exposed_copy" and prediction.won_ns > cost_ns
            waits = phrase("If Python does not wait for them either, fixing this")
            start = waits if python_waits else phrase("Fixing this")
            others = if_others(prediction)
            return phrase("{change} saves at most {gain}{others}", change=start, gain=gain, others=others)
        fixed = phrase("With CUDA graphs") if rule == _GRAPHED else phrase("With this fixed")
        return phrase("{change}, {outcome}", change=fixed, outcome=describe_time(prediction, self._run))

    def _describe_bottleneck(self) -> str:
        """What takes most of the critical path: ": the critical path is 88 % Python"."""
        shares = path_shares(self._facts.trace, self._facts.comm_names)
        run_ns = sum(share.ns for share in shares)
        if not run_ns:
            return ""
        share = units.percent(shares[0].ns / run_ns)
        return phrase(": the critical path is {share} {what}", share=share, what=phrase(shares[0].name))


def describe_time(prediction: Prediction, run: str) -> str:
    """How long a run would take: "the cell takes about 303 ms (285 ms to 320 ms) instead of 427 ms"."""
    return phrase(
        "{run} takes about {time} ({low} to {high}) instead of {recorded}{others}",
        run=run,
        time=units.duration(prediction.expected_ns),
        low=units.duration(prediction.low_ns),
        high=units.duration(prediction.high_ns),
        recorded=units.duration(prediction.recorded_ns),
        others=if_others(prediction),
    )


def each_once(changes: Iterable[Change | None]) -> list[Change]:
    """The changes that findings ask for, without those of an earlier one; Python's work in two places is two."""
    known: list[Change] = []
    for change in changes:
        if change is not None and (isinstance(change, WithoutPython) or change not in known):
            known.append(change)
    return known


def change_of(facts: Facts, finding: Finding) -> Change | None:
    """The change that a finding asks for; None where it asks for none that can be replayed."""
    rule = finding.rule
    if finding.action in _BY_ACTION:
        return _BY_ACTION[finding.action](facts)
    if rule == "pageable" and finding.cause != "copies from pageable memory are slow":
        return Pin()
    if rule in _CHANGES:
        return _CHANGES[rule](facts, finding)
    if rule == "exposed_copy" and facts.copies_beside:  # what is left cannot be hidden
        return None
    if rule in _HIDDEN:
        what, classes = _HIDDEN[rule]
        return Overlapped(what, classes, device=facts.device, comm_names=facts.comm_names)
    if rule not in _PYTHON:
        return None
    # CUDA graphs remove most gaps, but not the work that Python has to do in some of them: the gain is a bound
    return WithoutPython(_PYTHON[rule], _waited_for_python(facts, finding), bound=rule == "many_gaps")


def _one_graph(facts: Facts, _finding: Finding) -> Change:
    return OneGraph(stretches=tuple(tuple(rows.tolist()) for rows in _stretches(facts)))


def _on_time(facts: Facts, _finding: Finding) -> Change:
    """No collective takes longer than another of its kind: the last rank comes as early as this one."""
    ops = facts.trace.ops
    late = late_collectives(facts.trace, facts.device, facts.comm_names)
    left = late.usual_ns / (ops.end_ns - ops.start_ns)[late.rows]
    return ShorterOps(phrase("without waiting for other ranks"), tuple(late.rows.tolist()), tuple(left.tolist()))


def _waited_for_python(facts: Facts, finding: Finding) -> Intervals:
    return intersect(finding.where, facts.cell_time.waited_for_host)


def _reads(facts: Facts, finding: Finding) -> NoItem | None:
    """The removal of a finding's blocking calls; a finding has those of one caller."""
    blocking = facts.syncs
    reads = ~uploads(facts) & ~waits_for_uploads(facts) & ~blocking.after_cell & ~blocking.at_edge
    reads &= (blocking.start_ns >= finding.start_ns) & (blocking.end_ns <= finding.end_ns)
    for asked_by in np.unique(blocking.asked_by[reads]).tolist():
        rows = np.flatnonzero(reads & (blocking.asked_by == asked_by))
        span_ns = int(blocking.start_ns[rows].min()), int(blocking.end_ns[rows].max())
        if span_ns == (finding.start_ns, finding.end_ns):
            return NoItem(calls=tuple(blocking.call[rows].tolist()))
    return None


def _copy_once(facts: Facts) -> Change:
    again = [tensor.rows[1:] for tensor in facts.copied_again]
    return Without(phrase("copy once, before the loop"), tuple(np.concatenate(again).tolist()))


def _keep_indices(facts: Facts) -> Change:
    calls = facts.syncs.call[indexing_calls(facts, np.flatnonzero(uploads(facts)))]
    copies = np.flatnonzero((facts.trace.ops.launch != NONE) & np.isin(facts.trace.ops.launch, calls))
    return Without(phrase("keep index and values on the device"), tuple(copies.tolist()))


def _in_one_buffer(facts: Facts) -> Change:
    return WithoutPython(phrase("with one collective for many"), facts.between_collectives, bound=True)


_BY_ACTION: dict[str, Callable[[Facts], Change]] = {
    action("copy_once"): _copy_once,
    action("keep_indices"): _keep_indices,
    action("one_buffer"): _in_one_buffer,
}
_CHANGES: dict[str, Callable[[Facts, Finding], Change | None]] = {
    "sync": _reads,
    "data_loading": lambda _facts, _finding: Prefetch(),
    "one_by_one": _one_graph,
    "waits_for_rank": _on_time,
}


def _stretches(facts: Facts) -> list[Int64]:
    start_ns, here = facts.trace.ops.start_ns, np.flatnonzero(facts.trace.ops.device == facts.device)
    here = here[np.argsort(start_ns[here], kind="stable")]
    spans = np.array([(stretch.start_ns, stretch.end_ns) for stretch in facts.one_by_one], np.int64).reshape(-1, 2)
    edges = np.searchsorted(start_ns[here], spans)
    return [np.sort(here[first:last]) for first, last in edges.tolist()]


# What the remedy of an answer changes; a finding alone asks for less.

GRAPHS = {action(key) for key in ("graphs", "compile_or_graphs", "fuse_by_inductor")}
_NOT_REPLAYED = {action(key) for key in ("smaller_batches", "bucket")}


def changes_of(facts: Facts, findings: Iterable[Finding]) -> tuple[Change, ...]:
    """The changes that some findings ask for, each once."""
    return tuple(each_once(_remedy(facts, finding) for finding in findings))


def _remedy(facts: Facts, finding: Finding) -> Change | None:
    """The change that a finding's action makes; None if no replay models it."""
    rule = finding.rule
    if not finding.action or finding.action in _NOT_REPLAYED:
        return None
    if rule in _KERNELS:
        return None if facts.trace.device_info(facts.device).paced else _KERNELS[rule](facts, finding)
    if rule == "alone" and finding.cause == "start-up":
        return _without_start_up(facts, finding)
    if rule == "one_by_one" and finding.action not in GRAPHS:
        return None
    if rule == "exposed_copy" and finding.action == action("pin"):
        return Pin()
    return change_of(facts, finding)


def _without_start_up(facts: Facts, finding: Finding) -> Change:
    """A run without the calls that start device and libraries; at best, without all of Python before the first op."""
    head = np.array([[finding.start_ns, finding.end_ns]], np.int64)
    if finding.action != action("warm_up"):
        return WithoutPython(phrase("without what Python did before the first op"), head, bound=True)
    calls, host = facts.trace.calls, facts.trace.host_ops
    in_calls = intersect(head, union(calls.start_ns, calls.end_ns))
    if 2 * sum_ns(in_calls) >= sum_ns(head):
        return WithoutPython(phrase("without what the first calls start"), in_calls)
    of_operators = host.kind == HostKind.OP
    in_operators = intersect(head, union(host.start_ns[of_operators], host.end_ns[of_operators]))
    return WithoutPython(phrase("without the first operators"), in_operators, bound=True)


def _on_tensor_cores(facts: Facts, finding: Finding) -> Change:
    rows = claim(facts, finding.rule).rows.tolist()
    return ShorterOps(phrase("on tensor cores"), tuple(rows), left_on_tensor_cores(facts))


def left_on_tensor_cores(facts: Facts) -> float:
    """At the data sheet's rates, which no product reaches; in no time if the device has no data sheet."""
    peaks = peaks_of(facts.trace.device_info(facts.device))
    fp32, fp16 = (peaks.of("fp32"), peaks.of("fp16")) if peaks else (None, None)
    return fp32 / fp16 if fp32 and fp16 else 0.0


def _without_cost(facts: Facts, finding: Finding, what: str) -> Change | None:
    """The ops of a finding without what it costs.  what: description of the change."""
    if not finding.cost_ns:
        return None
    claimed = claim(facts, finding.rule)
    left = 1 - min(1.0, finding.cost_ns / claimed.ops_ns)
    return ShorterOps(what, tuple(claimed.rows.tolist()), left, bound=False)


_KERNELS: dict[str, Callable[[Facts, Finding], Change | None]] = {
    "eager_attention": lambda facts, finding: _without_cost(facts, finding, phrase("as one fused kernel")),
    "tensor_cores": _on_tensor_cores,
    "unaligned_gemm": lambda facts, finding: _without_cost(facts, finding, phrase("at the speed of aligned ones")),
    "tiny_kernels": lambda _facts, _finding: Fused(),
    "device_time": lambda _facts, _finding: Fused(),
}


# Changes as code: what perfmagic.changes has to be called with, so that a program can ask for them.


def written(changes: Sequence[Change], lines: Sequence[int]) -> str:
    """Some changes as arguments of what_if(): "no_item(line=4), pin()"; "" where one of them has no function.

    lines: of the cell, where the changes are. What Python did on one line in some time is written as all of the line.
    """
    each = dict.fromkeys(_call(change, lines) for change in changes)
    return "" if "" in each else ", ".join(each)


def _call(change: Change, lines: Sequence[int]) -> str:
    line = getattr(change, "line", None) or (lines[0] if len(lines) == 1 else None)
    on_line = f"line={line}" if line else ""
    if isinstance(change, WithoutPython):
        return f"no_python({on_line})" if line else ""
    if isinstance(change, Overlapped):
        return "overlap_copies()" if change.classes == COPIES else "overlap_communication()"
    if isinstance(change, NoItem):
        return f"no_item({on_line})"
    return next((f"{function}()" for kind, function in _OF_ALL.items() if isinstance(change, kind)), "")


# of the whole run: the lines of a finding are where its own part is
_OF_ALL: dict[type[Change], str] = {
    Pin: "pin", Fused: "fused", OneGraph: "one_graph", Prefetch: "prefetch", OnTime: "on_time",
}  # fmt: skip
