"""What to do about a run: at most three answers, each with what the record would take with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from perfmagic.analysis.findings.answer import Answer, Answers
from perfmagic.analysis.findings.catalogue import action
from perfmagic.analysis.findings.decides import warnings, who_decides, whole_ns
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.find import Node, Outcomes, tree
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.gains import Gains, change_of
from perfmagic.analysis.findings.kernels import between_products, claim
from perfmagic.analysis.findings.verdict import failed
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.changes.host import WithoutPython
from perfmagic.analysis.replay.changes.kernels import Fused, ShorterOps
from perfmagic.analysis.replay.prediction import Prediction, predict
from perfmagic.base.numerics.intervals import intersect, union
from perfmagic.trace.columns import NO_LINE
from perfmagic.trace.model import Trace

MOST_ANSWERS = 3
LEAST_FRAC = 0.02  # of the run: what wins less is no answer
# of dense products on tensor cores to fp32 without: V100 125 to 15.7, A100 156 to 19.5, H100 495 to 67 TFLOP/s
TENSOR_CORE_RATIO = 8


def find_answers(trace: Trace, comm_names: str | None = None) -> Answers:
    """What to do about a run: findings with the same remedy are one answer, whose change is replayed once.

    comm_names: as in perfmagic.trace.names.op_classes. Source: docs/replay.md.
    """
    facts = Facts(trace, comm_names)
    outcomes, gains = Outcomes(facts), Gains(facts)
    decider, total_ns = who_decides(facts, outcomes.judged.kind), whole_ns(facts)
    if not len(trace.ops) or failed(trace):
        return Answers(decider, total_ns)
    nodes, head = tree(outcomes, gains)
    groups = _by_remedy([*_with_headline(head.parts), *_with_headline(nodes)])
    every = [_answer(facts, gains, group) for group in groups]
    worth = sorted((answer for answer in every if answer.action and _is_worth(answer)), key=_place)
    first = tuple(worth[:MOST_ANSWERS])
    no_gain = [answer for answer in every if answer.action and answer.gain_ns is not None and not _is_worth(answer)]
    rest = [answer for answer in every if answer not in first and answer not in no_gain]
    return Answers(
        decider,
        total_ns,
        answers=first,
        together=_together(facts, gains, groups, first),
        no_gain=tuple(dict.fromkeys(answer.headline for answer in no_gain)),
        also_seen=tuple(dict.fromkeys(answer.headline for answer in rest)),
        warnings=warnings(facts),
    )


def _with_headline(nodes: Iterable[Node], above: Finding | None = None) -> Iterable[Finding]:
    """The findings that are answers of their own: the longest gap in what has a remedy belongs to that."""
    for node in nodes:
        finding = node.finding
        if finding.headline and not (finding.rule == "longest_gap" and above is not None and above.action):
            yield finding
        yield from _with_headline(node.parts, finding)


def _by_remedy(findings: Sequence[Finding]) -> list[list[Finding]]:
    """The findings with one action together, and each of those without one alone."""
    groups: dict[str, list[Finding]] = {}
    for i, finding in enumerate(findings):
        groups.setdefault(finding.action or f"{i}", []).append(finding)
    return list(groups.values())


def _answer(facts: Facts, gains: Gains, group: Sequence[Finding]) -> Answer:
    """One answer of the findings that one remedy serves; the dearest speaks for all."""
    first = max(group, key=lambda finding: gains.worth_ns(finding) or 0)
    return _as_answer(facts, _predict(facts, gains, group), first.headline, first.action, group)


def _as_answer(
    facts: Facts, prediction: Prediction | None, fact: str, remedy: str, findings: Sequence[Finding]
) -> Answer:
    meta = facts.trace.meta
    lines = [line for finding in findings for line in finding.lines]
    costs = [finding.cost_ns for finding in findings if finding.cost_ns is not None]
    return Answer(
        headline=fact,
        action=remedy,
        rules=tuple(dict.fromkeys(finding.rule for finding in findings)),
        before_ns=prediction.recorded_ns if prediction else meta.end_ns - meta.start_ns,
        after_ns=prediction.expected_ns if prediction else None,
        low_ns=prediction.low_ns if prediction else None,
        high_ns=prediction.high_ns if prediction else None,
        at_most=prediction is not None and prediction.at_most,
        cost_ns=sum(costs) if costs else None,
        line=lines[0] if lines else NO_LINE,
        start_ns=min(finding.start_ns for finding in findings),
        end_ns=max(finding.end_ns for finding in findings),
        evidence=tuple(finding.sentence for finding in findings),
    )


def _predict(facts: Facts, gains: Gains, findings: Iterable[Finding]) -> Prediction | None:
    """What the changes of some findings would make of the run; None where no replay can say."""
    changes = [change for finding in findings if (change := _remedy(facts, finding)) is not None]
    if not changes or gains.readings is None:
        return None
    prediction = predict(gains.readings, changes)
    return None if prediction.refused else prediction


def _remedy(facts: Facts, finding: Finding) -> Change | None:
    """The change that a finding's action makes; of some kernels only a bound is known."""
    rule = finding.rule
    if rule == "alone" and finding.cause == "start-up":
        head = np.array([[finding.start_ns, finding.end_ns]], np.int64)
        if finding.action != action("warm_up"):
            return WithoutPython("without what Python did before the first op", head)
        calls = union(facts.trace.calls.start_ns, facts.trace.calls.end_ns)
        return WithoutPython("without what the first calls start", intersect(head, calls))
    if rule == "eager_attention":
        return ShorterOps("as one fused kernel", tuple(between_products(facts).tolist()))
    if rule == "tensor_cores":
        return ShorterOps("on tensor cores", tuple(claim(facts, rule).rows.tolist()), 1 / TENSOR_CORE_RATIO)
    if rule == "unaligned_gemm" and finding.cost_ns:
        claimed = claim(facts, rule)
        left = 1 - min(1.0, finding.cost_ns / claimed.ops_ns)
        return ShorterOps("at the speed of aligned ones", tuple(claimed.rows.tolist()), left, bound=False)
    return Fused() if finding.action == action("fuse") else change_of(facts, finding)


def _together(
    facts: Facts, gains: Gains, groups: Sequence[Sequence[Finding]], answers: Sequence[Answer]
) -> Answer | None:
    actions = {answer.action for answer in answers if answer.after_ns is not None}
    findings = [finding for group in groups for finding in group if finding.action in actions]
    prediction = _predict(facts, gains, findings) if len(actions) > 1 else None
    if prediction is None:
        return None
    name = "both" if len(actions) == 2 else f"all {len(actions)}"
    return _as_answer(facts, prediction, name, "", findings)


def _is_worth(answer: Answer) -> bool:
    """Whether an answer wins enough to be one; a wrong result always is."""
    worth_ns = answer.cost_ns if answer.gain_ns is None else answer.gain_ns
    return "race" in answer.rules or (worth_ns is not None and worth_ns >= LEAST_FRAC * answer.before_ns)


def _place(answer: Answer) -> tuple[bool, int]:
    """Wrong results first, then by what is won, or costs."""
    return "race" not in answer.rules, -((answer.cost_ns if answer.gain_ns is None else answer.gain_ns) or 0)
