"""What decides how long a run takes, and at most three things to do about it: the record replayed with each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from perfmagic.analysis.findings.catalogue import action, decides, headline
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.find import Node, Outcomes, tree
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.gains import Gains, change_of
from perfmagic.analysis.findings.kernels import between_products, claim
from perfmagic.analysis.findings.verdict import STARVED_FRAC, failed
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.changes.host import WithoutPython
from perfmagic.analysis.replay.changes.kernels import Fused, ShorterOps
from perfmagic.analysis.replay.judgement import Judgement
from perfmagic.analysis.replay.prediction import Prediction, in_passing, predict, why_no_path
from perfmagic.analysis.timeline.trust import trust
from perfmagic.analysis.verdict import (
    COMMUNICATION_BOUND,
    COPY_BOUND,
    DEVICE_BOUND,
    HOST_BOUND,
    HOST_TAIL,
    LATENCY_BOUND,
    NO_RECORDS,
    START_UP,
)
from perfmagic.base import units
from perfmagic.base.numerics.intervals import intersect, union
from perfmagic.trace.columns import NO_LINE, CallKind
from perfmagic.trace.json_form import JsonForm
from perfmagic.trace.model import Trace

MOST_ANSWERS = 3
# of dense products on tensor cores to fp32 without: V100 125 to 15.7, A100 156 to 19.5, H100 495 to 67 TFLOP/s
TENSOR_CORE_RATIO = 8
LEAST_FRAC = 0.02  # of the run: what wins less is no answer
_WARNINGS = ("incomplete", "clocks")


@dataclass(frozen=True)
class Answer(JsonForm):
    """One thing to do about a run; times in ns.

    headline: what was found.  action: what to do.  rules: of the findings that ask for it.
    before_ns: the run as it is.  after_ns: what it would take; None where no replay can say.
    low_ns, high_ns: between these it would take.  at_most: whether after_ns is a bound.
    cost_ns: what the findings cost, where no replay can say what their remedy wins.
    line: of the cell, 0 for none.  start_ns, end_ns: of what to look at.  evidence: the findings' sentences.
    """

    shown: ClassVar[tuple[str, ...]] = ("headline", "action", "before_ns", "after_ns")

    headline: str
    action: str
    rules: tuple[str, ...]
    before_ns: int
    after_ns: int | None
    low_ns: int | None
    high_ns: int | None
    at_most: bool
    cost_ns: int | None
    line: int
    start_ns: int
    end_ns: int
    evidence: tuple[str, ...]

    @property
    def gain_ns(self) -> int | None:
        """What it would win; None where no replay can say."""
        return None if self.after_ns is None else self.before_ns - self.after_ns


@dataclass(frozen=True)
class Answers(JsonForm):
    """Who decides how long a run takes, and what to do about it.

    decides: one sentence.  kind: the verdict.  total_ns: the whole run.  answers: by what they win, at most three.
    together: all of them at once; None where fewer than two are replayed.
    no_gain: headlines of what would win next to nothing.  also_seen: headlines of facts without a remedy.
    warnings: about the record itself.
    """

    decides: str
    kind: str
    total_ns: int
    answers: tuple[Answer, ...] = ()
    together: Answer | None = None
    no_gain: tuple[str, ...] = ()
    also_seen: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def find_answers(trace: Trace, comm_names: str | None = None) -> Answers:
    """Who decides how long a run takes, and what to do about it.

    comm_names: as in perfmagic.trace.names.op_classes. Source: docs/verdict.md.
    """
    facts = Facts(trace, comm_names)
    outcomes, gains = Outcomes(facts), Gains(facts)
    total_ns = _total_ns(facts)
    if not len(trace.ops) or failed(trace):
        return Answers(_without_records(facts), outcomes.judged.kind, total_ns)
    nodes, head = tree(outcomes, gains)
    groups = _by_remedy([*_flat(head.parts), *_flat(nodes)])
    every = [_answer(facts, gains, group, total_ns) for group in groups]
    acted = sorted((answer for answer in every if answer.action), key=_place)
    worth = [answer for answer in acted if _is_worth(answer)]
    return Answers(
        decides=_decides(facts, outcomes.judged.kind),
        kind=outcomes.judged.kind,
        total_ns=total_ns,
        answers=tuple(worth[:MOST_ANSWERS]),
        together=_together(facts, gains, groups, worth[:MOST_ANSWERS], total_ns),
        no_gain=tuple(answer.headline for answer in acted if not _is_worth(answer)),
        also_seen=tuple(answer.headline for answer in [*worth[MOST_ANSWERS:], *every] if _is_seen(answer, worth)),
        warnings=_warnings(facts),
    )


def _is_seen(answer: Answer, worth: Sequence[Answer]) -> bool:
    """Whether something is neither one of the first answers nor without gain."""
    return (not answer.action or answer in worth[MOST_ANSWERS:]) and answer.rules[0] not in _WARNINGS


def _total_ns(facts: Facts) -> int:
    """How long the run took, the host before the first op and after the last one included."""
    meta, ops = facts.trace.meta, facts.trace.ops
    start_ns = int(ops.start_ns.min(initial=meta.start_ns))
    return int(ops.end_ns.max(initial=meta.end_ns)) - start_ns


def _without_records(facts: Facts) -> str:
    trace = facts.trace
    if failed(trace):
        return decides("failed")
    launches = int((trace.calls.kind == CallKind.LAUNCH).sum())
    if launches and not trace.simulated:
        return decides("no device records, launches", n=units.plural(launches, "launch", "launches"))
    return decides(NO_RECORDS)


def _decides(facts: Facts, kind: str) -> str:
    """Who decides, with one number."""
    time, total_ns = facts.cell_time, _total_ns(facts)
    waited = time.waited_for_host_ns / max(1, time.window.length_ns)
    busy = units.percent(time.busy_ns / max(1, total_ns))
    if kind == HOST_BOUND and (waited < STARVED_FRAC or time.busy_ns > total_ns / 2):
        return decides("host-bound, closely", share=busy)
    if kind == START_UP:
        before_ns = facts.breakdown.extent_start_ns - facts.trace.meta.start_ns
        return decides(kind, time=units.duration(before_ns), total=units.duration(total_ns))
    if facts.judgement is not None and kind not in (HOST_BOUND, LATENCY_BOUND):
        return _decides_by_path(facts.judgement, kind, busy)
    return decides(kind, share=busy if kind == DEVICE_BOUND else units.percent(waited))


def _decides_by_path(judgement: Judgement, kind: str, busy: str) -> str:
    on_device_ns = judgement.device_ns + judgement.copies_ns + judgement.communication_ns
    times = {COPY_BOUND: judgement.copies_ns, COMMUNICATION_BOUND: judgement.communication_ns}
    times |= {HOST_TAIL: judgement.tail_ns}
    if kind in times:
        return decides(kind, time=units.duration(times[kind]), total=units.duration(judgement.run_ns))
    if kind == DEVICE_BOUND:
        return decides("device-bound, all" if judgement.device_ns < on_device_ns / 2 else kind, share=busy)
    if judgement.host_ns > judgement.run_ns / 2:
        return decides("mixed, both", share=busy)
    host, device = (units.percent(ns / judgement.run_ns) for ns in (judgement.host_ns, on_device_ns))
    return decides("mixed, shares", host=host, device=device)


def _flat(nodes: Iterable[Node], parent: Finding | None = None) -> Iterable[Finding]:
    """The findings that are answers of their own: a part of one with an action belongs to that one."""
    for node in nodes:
        finding = node.finding
        if finding.headline and not (parent and parent.action and finding.rule == "longest_gap"):
            yield finding
        yield from _flat(node.parts, finding)


def _by_remedy(findings: Sequence[Finding]) -> list[list[Finding]]:
    """The findings with one action together, and each of those without one alone."""
    groups: dict[str, list[Finding]] = {}
    for i, finding in enumerate(findings):
        groups.setdefault(finding.action or f"{i}", []).append(finding)
    return list(groups.values())


def _answer(facts: Facts, gains: Gains, group: Sequence[Finding], total_ns: int) -> Answer:
    """One answer of the findings that one remedy serves; the dearest speaks for all."""
    first = max(group, key=lambda finding: gains.worth_ns(finding) or 0)
    costs = [finding.cost_ns for finding in group if finding.cost_ns is not None]
    return _as_answer(
        predict_group(facts, gains, group),
        fact=first.headline,
        remedy=first.action,
        findings=(first, *(finding for finding in group if finding is not first)),
        cost_ns=sum(costs) if costs else None,
        total_ns=total_ns,
    )


def predict_group(facts: Facts, gains: Gains, group: Sequence[Finding]) -> Prediction | None:
    """What the changes of some findings would make of the run together; None where no replay can say."""
    changes = [change for finding in group if (change := _remedy(facts, finding)) is not None]
    if not changes or gains.readings is None:
        return None
    prediction = predict(gains.readings, changes)
    return None if prediction.refused else prediction


def _remedy(facts: Facts, finding: Finding) -> Change | None:
    """What the action of a finding changes, with what only a bound is known of."""
    trace, rule = facts.trace, finding.rule
    if rule == "alone" and finding.cause == "start-up":
        head = np.array([[finding.start_ns, finding.end_ns]], np.int64)
        if finding.action != action("warm_up"):
            return WithoutPython("without what Python did before the first op", head)
        return WithoutPython(
            "without what the first calls start", intersect(head, union(trace.calls.start_ns, trace.calls.end_ns))
        )
    if rule == "eager_attention":
        return ShorterOps("as one fused kernel", tuple(between_products(facts).tolist()))
    if rule == "tensor_cores":
        return ShorterOps("on tensor cores", tuple(claim(facts, rule).rows.tolist()), 1 / TENSOR_CORE_RATIO)
    if rule == "unaligned_gemm" and finding.cost_ns:
        claimed = claim(facts, rule)
        left = 1 - min(1.0, finding.cost_ns / claimed.ops_ns)
        return ShorterOps("at the speed of aligned ones", tuple(claimed.rows.tolist()), left, bound=False)
    if finding.action == action("fuse"):
        return Fused()
    return change_of(facts, finding)


def _as_answer(
    prediction: Prediction | None,
    *,
    fact: str,
    remedy: str,
    findings: Sequence[Finding],
    cost_ns: int | None,
    total_ns: int,
) -> Answer:
    lines = [line for finding in findings for line in finding.lines]
    return Answer(
        headline=fact,
        action=remedy,
        rules=tuple(dict.fromkeys(finding.rule for finding in findings)),
        before_ns=total_ns,
        after_ns=prediction.expected_ns if prediction else None,
        low_ns=prediction.low_ns if prediction else None,
        high_ns=prediction.high_ns if prediction else None,
        at_most=prediction is not None and prediction.at_most,
        cost_ns=cost_ns,
        line=lines[0] if lines else NO_LINE,
        start_ns=min((finding.start_ns for finding in findings), default=0),
        end_ns=max((finding.end_ns for finding in findings), default=0),
        evidence=tuple(finding.sentence for finding in findings),
    )


def _together(
    facts: Facts, gains: Gains, groups: Sequence[Sequence[Finding]], answers: Sequence[Answer], total_ns: int
) -> Answer | None:
    replayed = [answer for answer in answers if answer.after_ns is not None and not answer.at_most]
    if len(replayed) < 2:
        return None
    actions = {answer.action for answer in replayed}
    findings = [finding for group in groups for finding in group if finding.action in actions]
    prediction = predict_group(facts, gains, findings)
    if prediction is None:
        return None
    name = "both" if len(replayed) == 2 else f"all {len(replayed)}"
    return _as_answer(prediction, fact=name, remedy="", findings=(), cost_ns=None, total_ns=total_ns)


def _is_worth(answer: Answer) -> bool:
    """Whether an answer wins enough to be one; a wrong result always is."""
    worth_ns = answer.cost_ns if answer.gain_ns is None else answer.gain_ns
    return "race" in answer.rules or (worth_ns is not None and worth_ns >= LEAST_FRAC * answer.before_ns)


def _place(answer: Answer) -> tuple[bool, bool, int]:
    """Wrong results first, then by what is won, then what no replay can tell."""
    return "race" not in answer.rules, answer.gain_ns is None, -(answer.gain_ns or answer.cost_ns or 0)


def _warnings(facts: Facts) -> tuple[str, ...]:
    """What is to know of the record itself."""
    trace = facts.trace
    lost, warned = trust(trace).n_launches_without_op, []
    if lost:
        warned.append(headline("incomplete", n=units.count(lost)))
    starts = [table.start_ns.min() for table in (trace.calls, trace.host_ops) if len(table)]
    early = int((trace.ops.start_ns < min(starts)).sum()) if starts and trace.meta.returned_ns is None else 0
    if early:
        warned.append(headline("mid_flight", n=units.plural(early, "op")))
    if len(trace.python_frames):
        warned.append(headline("stacks"))
    if in_passing(trace) and (why := why_no_path(trace, facts.comm_names)):
        warned.append(why[:1].upper() + why[1:])
    return tuple(warned)
