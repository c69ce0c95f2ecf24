"""What to do about a run: at most three answers, each with the run's predicted time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmagic.analysis.findings.answer import Answer, Answers
from perfmagic.analysis.findings.catalogue import OPEN as OPEN_KEYS
from perfmagic.analysis.findings.catalogue import action, count_things, decider_key, headline, without_time
from perfmagic.analysis.findings.decider import answer_otherwise, who_decides, whole_ns
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.find import Node, known, tree
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.gains import Gains, change_of, each_once, written
from perfmagic.analysis.findings.kernels import claim
from perfmagic.analysis.findings.verdict import corners_of, failed
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.changes.copies import Pin
from perfmagic.analysis.replay.changes.host import WithoutPython
from perfmagic.analysis.replay.changes.kernels import Fused, ShorterOps
from perfmagic.analysis.replay.prediction import Prediction, in_passing, why_no_path
from perfmagic.analysis.timeline.activity import orphans
from perfmagic.analysis.timeline.trust import COUNTS, trust
from perfmagic.analysis.verdict import HOST_BOUND, HOST_TAIL, MIXED, NO_VERDICT, OPEN, STALLED, START_UP
from perfmagic.base import units
from perfmagic.base.language import counted, phrase
from perfmagic.base.numerics.intervals import intersect, union
from perfmagic.base.numerics.intervals import total_ns as sum_ns
from perfmagic.predict.gpus import peaks_of
from perfmagic.trace.columns import NO_LINE, HostKind
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace

MOST_ANSWERS = 3
LEAST_FRAC = 0.02  # of the run: what saves less is not an answer
LEAST_OPEN_FRAC = 0.1  # of a run that the record does not explain
_BETWEEN_OPS = frozenset({"many_gaps", "repeated_gap", "one_by_one"})
_GRAPHS = {action(key) for key in ("graphs", "compile_or_graphs", "fuse_by_inductor")}
_FEWER_LAUNCHES = _GRAPHS | {action("reduce_overhead")}
_NOT_REPLAYED = {action(key) for key in ("smaller_batches", "bucket")}


@once_per_trace
def find_answers(trace: Trace, comm_names: str | None = None) -> Answers:
    """What to do about a run: findings with the same remedy make one answer, whose change is replayed once.

    comm_names: as in perfmagic.trace.names.op_classes. Source: docs/replay.md.
    """
    outcomes, gains = known(trace, comm_names)
    facts = outcomes.facts
    kind = outcomes.judged.kind
    decider, total_ns = who_decides(facts, kind), whole_ns(facts)
    if failed(trace) or not (len(trace.ops) or trace.has_host_rows):
        return Answers(decider, total_ns)
    groups, every = _by_group(trace, comm_names)
    is_open = decider_key(decider) in OPEN_KEYS
    least_frac = LEAST_OPEN_FRAC if is_open and kind != OPEN else LEAST_FRAC  # a model's run is explained
    worth = sorted((answer for answer in every if answer.action and is_worth(answer, least_frac)), key=place)
    first = tuple(worth[:MOST_ANSWERS])
    little = [answer for answer in every if answer.action and answer not in worth]
    rest = [answer for answer in every if answer not in first and answer not in little]
    if not first:
        head = tree(outcomes, gains)[1].finding
        verdict = replace(_as_answer(facts, None, "", "", [head]), cost_ns=None)
        open_kind = STALLED if is_open and kind not in (NO_VERDICT, OPEN) else kind
        first = (answer_otherwise(facts, open_kind, verdict, rest),)
        rest = [answer for answer in rest if answer.rules != first[0].rules]
    ends = corners_of(facts)
    return Answers(
        decider,
        total_ns,
        low_ns=ends.low_ns if ends else None,
        high_ns=ends.high_ns if ends and not ends.unknown else None,
        answers=tuple(map(_with_gain, first)),
        together=_together(facts, gains, groups, first),
        little_gain=tuple(dict.fromkeys(answer.headline for answer in little)),
        also_seen=tuple(dict.fromkeys(answer.headline for answer in rest)),
        warnings=warnings(facts),
    )


@once_per_trace
def _by_group(trace: Trace, comm_names: str | None) -> tuple[list[list[Finding]], list[Answer]]:
    """The findings that share a remedy, and the answer of each such group."""
    outcomes, gains = known(trace, comm_names)
    nodes, head = tree(outcomes, gains)
    groups = _by_remedy([_queued_ahead(trace, gains, f) for f in [*_with_headline(head.parts), *_with_headline(nodes)]])
    return groups, [_answer(outcomes.facts, gains, group) for group in groups]


def _queued_ahead(trace: Trace, gains: Gains, finding: Finding) -> Finding:
    """A wait before more work that has no remedy of its own, with one where a replay without it ends earlier."""
    if finding.rule != "sync" or finding.action or not (trace.launch_start_ns() > finding.start_ns).any():
        return finding
    prediction = gains.prediction(finding)
    won = prediction is not None and prediction.won_ns >= LEAST_FRAC * prediction.recorded_ns
    return replace(finding, action=action("queue_ahead")) if won else finding


def every_answer(trace: Trace, comm_names: str | None = None) -> list[Answer]:
    """The answers, then what gains little, then facts without a remedy; within each the largest gain or cost first."""
    answers = find_answers(trace, comm_names).answers
    if not answers:
        return []
    said = {answer.rules for answer in answers}
    rest = sorted(_by_group(trace, comm_names)[1], key=lambda answer: (not answer.action, *place(answer)))
    return [*answers, *(_with_gain(answer) for answer in rest if answer.rules not in said)]


def _with_gain(answer: Answer) -> Answer:
    """The answer without any time but the predicted one."""
    if answer.after_ns is None:
        return answer
    return replace(answer, headline=without_time(answer.headline))


@dataclass(frozen=True)
class Asked:
    """What to do about a run, before its gain is known, and the changes to replay; none if no replay models it."""

    answer: Answer
    changes: tuple[Change, ...]


def asked_of(trace: Trace, comm_names: str | None = None) -> list[Asked]:
    """What one rank of a job asks for, so that the job can be replayed with it; nothing if its code failed.

    A shorter start-up is left out: ranks begin to record at different times.
    """
    outcomes, gains = known(trace, comm_names)
    if not len(trace.ops) or failed(trace):
        return []
    nodes, head = tree(outcomes, gains)
    asked = []
    steady = [f for f in [*_with_headline(head.parts), *_with_headline(nodes)] if f.cause != "start-up"]
    for group in _by_remedy(steady):
        first = max(group, key=lambda finding: gains.worth_ns(finding) or 0)
        answer = _as_answer(outcomes.facts, None, first.headline, first.action, group)
        changes = _changes(outcomes.facts, group)
        asked.append(Asked(replace(answer, what_if=written(changes, answer.lines)), changes))
    return [each for each in asked if each.answer.action not in ("", action("open_ranks"))]


def _is_best_case(prediction: Prediction) -> bool:
    """Whether a prediction is a bound, or less than half of what it wins is certain."""
    # a replay's margin lies on both sides
    unsure_ns = prediction.high_ns + prediction.low_ns - 2 * prediction.expected_ns
    return prediction.at_most or 2 * unsure_ns > prediction.recorded_ns - prediction.expected_ns


def _with_headline(nodes: Iterable[Node], above: Finding | None = None) -> Iterable[Finding]:
    """The findings that may become answers. The longest gap does not if the finding above it has a remedy."""
    for node in nodes:
        finding = node.finding
        if finding.headline and not (finding.rule == "longest_gap" and above is not None and above.action):
            yield finding
        yield from _with_headline(node.parts, finding)


def _by_remedy(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Findings with the same action in one group; each finding without an action in its own.

    Where one finding asks for a CUDA graph alone, findings that torch.compile or a graph would help join it.
    """
    groups: dict[str, list[Finding]] = {}
    graphs = action("graphs")
    by_graph = _GRAPHS if any(finding.action == graphs for finding in findings) else ()
    for i, finding in enumerate(findings):
        of_graph = replace(finding, action=graphs) if finding.action in by_graph else finding
        groups.setdefault(of_graph.action or f"{i}", []).append(of_graph)
    return list(groups.values())


def _answer(facts: Facts, gains: Gains, group: Sequence[Finding]) -> Answer:
    """One answer from the findings that share a remedy; the costliest gives the headline."""

    def weight_ns(finding: Finding) -> int:
        start_up = finding.rule == "alone" and finding.cause == "start-up"  # it precedes what costs are parts of
        return finding.end_ns - finding.start_ns if start_up else gains.worth_ns(finding) or 0

    first, prediction = max(group, key=weight_ns), _predict(facts, gains, group)
    rules = {finding.rule for finding in group}
    several = prediction is not None and first.action in _FEWER_LAUNCHES and len(_BETWEEN_OPS & rules) > 1
    fact = headline("between_ops") if several else first.headline  # one finding counts only its own gaps
    answer = _as_answer(facts, prediction, fact, first.action, group)
    if prediction is not None:
        answer = replace(answer, what_if=written(_changes(facts, group), answer.lines))
    return _bounded(facts, answer) if prediction is None and first.rule == "tensor_cores" else answer


def _bounded(facts: Facts, answer: Answer) -> Answer:
    """Without a replay: the run less all that tensor cores would take off its kernels, as nothing else ends earlier."""
    most_ns = round(claim(facts, "tensor_cores").ops_ns * (1 - _left_on_tensor_cores(facts)))
    return replace(answer, after_ns=max(0, answer.before_ns - most_ns), at_most=True)


def _as_answer(
    facts: Facts, prediction: Prediction | None, fact: str, remedy: str, findings: Sequence[Finding]
) -> Answer:
    meta = facts.trace.meta
    lines = sorted({line for finding in findings for line in finding.lines if line != NO_LINE})
    costs = [finding.cost_ns for finding in findings if finding.cost_ns is not None]
    return Answer(
        headline=fact,
        action=remedy,
        rules=tuple(dict.fromkeys(finding.rule for finding in findings)),
        before_ns=prediction.recorded_ns if prediction else meta.end_ns - meta.start_ns,
        after_ns=prediction.expected_ns if prediction else None,
        low_ns=prediction.low_ns if prediction else None,
        high_ns=prediction.high_ns if prediction else None,
        at_most=prediction is not None and _is_best_case(prediction),
        cost_ns=sum(costs) if costs else None,
        lines=tuple(lines),
        start_ns=min(finding.start_ns for finding in findings),
        end_ns=max(finding.end_ns for finding in findings),
        evidence=tuple(finding.sentence for finding in findings),
    )


def _predict(facts: Facts, gains: Gains, findings: Iterable[Finding]) -> Prediction | None:
    """What the changes of some findings would make of the run; None where no replay can say."""
    return gains.of_changes(_changes(facts, findings))


def _changes(facts: Facts, findings: Iterable[Finding]) -> tuple[Change, ...]:
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
    if rule == "one_by_one" and finding.action not in _GRAPHS:
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
    return ShorterOps(phrase("on tensor cores"), tuple(rows), _left_on_tensor_cores(facts))


def _left_on_tensor_cores(facts: Facts) -> float:
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


def _together(
    facts: Facts, gains: Gains, groups: Sequence[Sequence[Finding]], answers: Sequence[Answer]
) -> Answer | None:
    """All replayed answers but bounds: what is certain and what is only possible do not add up."""
    numbers = {a.action: str(n) for n, a in enumerate(answers, 1) if a.after_ns is not None and not a.at_most}
    if len(numbers) < 2:
        return None
    findings = [finding for group in groups for finding in group if finding.action in numbers]
    prediction = _predict(facts, gains, findings)
    if prediction is None:
        return None
    return _as_answer(facts, prediction, name_together(answers, list(numbers.values())), "", findings)


def name_together(answers: Sequence[Answer], numbers: Sequence[str]) -> str:
    """A name for some of the answers together.  numbers: of these answers."""
    if len(numbers) == len(answers):
        return phrase("both together") if len(answers) == 2 else phrase("all three together")
    first, *others = numbers
    return phrase("answers {first} and {second} together", first=first, second=others[0])


def is_worth(answer: Answer, least_frac: float = LEAST_FRAC) -> bool:
    """Whether an answer saves enough, or its gain is unknown; a wrong result always counts."""
    worth_ns = answer.cost_ns if answer.gain_ns is None else answer.gain_ns
    return "race" in answer.rules or worth_ns is None or worth_ns >= least_frac * answer.before_ns


def place(answer: Answer) -> tuple[bool, int]:
    """Sort key: wrong results first, then the largest gain, or cost where no replay predicts a gain."""
    worth_ns = answer.cost_ns if answer.gain_ns is None else answer.gain_ns
    return "race" not in answer.rules, -(worth_ns or 0)


# What to know about the record.


def warnings(facts: Facts) -> tuple[str, ...]:
    """What to know about the record itself."""
    trace, warned = facts.trace, []
    if lost := trust(trace).n_launches_without_op:
        warned.append(counted(lost, *COUNTS["n_launches_without_op"]))
    starts = [table.start_ns.min() for table in (trace.calls, trace.host_ops) if len(table)]
    early = trace.ops.start_ns < min(starts) if starts and trace.meta.returned_ns is None else np.zeros(0, bool)
    if early.any():
        early |= orphans(trace)
        time = units.duration(sum_ns(union(trace.ops.start_ns[early], trace.ops.end_ns[early])))
        warned.append(headline("mid_flight", n=count_things(int(early.sum()), "op"), time=time))
    if len(trace.python_frames):
        warned.append(headline("stacks"))
    if in_passing(trace) and (why := why_no_path(trace, facts.comm_names)):
        warned.append(why.capitalised())
    return tuple(warned)


# What the recorded run of a benchmark asks for.

# what limits the run, without a remedy that fits a benchmark: it has no flame graph
_IN_A_TIMELINE = {action(key) for key in ("see_python", "record_lines", "record_stacks", "other_work", "record_whole")}
_LIMITS = {HOST_BOUND: "late_python", START_UP: "python_first", HOST_TAIL: "python_last", MIXED: "wait_in_turn"}
_MANY_OPS = 8  # fewer are hardly worth joining
_MOSTLY_FRAC = 0.5  # of Python's time in operators: those keep it busy, not what is between them


def first_answer(trace: Trace, kind: str) -> Answer | None:
    """What a recorded run asks for first: by its findings, else by its verdict; None without an answer.

    kind: of the verdict.
    """
    found = find_answers(trace)
    first = next(iter(found.answers), None)
    if first is None or first.action not in _IN_A_TIMELINE or kind not in _LIMITS:
        return first
    remedy = action("fewer_larger" if kind == HOST_BOUND and _launches_decide(trace) else "see_lines")
    if decider_key(found.decides) in OPEN_KEYS or not first.rules:  # nothing was found that the verdict rests on
        first = replace(first, headline=headline(_LIMITS[kind]), rules=(), cost_ns=None)
    return replace(first, action=remedy, lines=())


def _launches_decide(trace: Trace) -> bool:
    host, meta = trace.host_ops, trace.meta
    until_ns = meta.end_ns if meta.returned_ns is None else meta.returned_ns
    in_operators_ns = sum_ns(union(host.start_ns, host.end_ns))
    return len(trace.ops) >= _MANY_OPS and in_operators_ns >= _MOSTLY_FRAC * (until_ns - meta.start_ns)
