"""What to do about a run: at most three answers, each with what the record would take with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmagic.analysis.findings.answer import Answer, Answers
from perfmagic.analysis.findings.catalogue import action, count_things, decides, headline, without_time
from perfmagic.analysis.findings.facts import CellTime, Facts
from perfmagic.analysis.findings.find import Node, known, tree
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.gains import Gains, change_of
from perfmagic.analysis.findings.kernels import claim
from perfmagic.analysis.findings.verdict import STARVED_FRAC, failed, first_gap, judged_by_path
from perfmagic.analysis.findings.without_remedy import answer_otherwise
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.changes.copies import Pin
from perfmagic.analysis.replay.changes.host import WithoutPython
from perfmagic.analysis.replay.changes.kernels import Fused, ShorterOps
from perfmagic.analysis.replay.critical_path import KEPT_BUSY_FRAC, PART_FRAC, Judgement
from perfmagic.analysis.replay.prediction import Prediction, in_passing, predict, why_no_path
from perfmagic.analysis.timeline.activity import busy_intervals, recorded_span
from perfmagic.analysis.timeline.peaks import peaks_of
from perfmagic.analysis.timeline.trust import incomplete_graphs, sample, trust
from perfmagic.analysis.verdict import (
    COMMUNICATION_BOUND,
    COPY_BOUND,
    DEVICE_BOUND,
    DEVICE_BOUND_FRAC,
    HOST_BOUND,
    HOST_TAIL,
    MIXED,
    NO_RECORDS,
    NO_VERDICT,
    STALLED,
    START_UP,
)
from perfmagic.base import units
from perfmagic.base.language import phrase
from perfmagic.base.numerics.intervals import intersect, union
from perfmagic.base.numerics.intervals import total_ns as sum_ns
from perfmagic.trace.columns import NO_LINE, CallKind, HostKind
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace

MOST_ANSWERS = 3
LEAST_FRAC = 0.02  # of the run: what wins less is no answer
_GRAPHS = {action(key) for key in ("graphs", "compile_or_graphs", "fuse_by_inductor")}
_NOT_REPLAYED = {action(key) for key in ("smaller_batches", "bucket")}


@once_per_trace
def find_answers(trace: Trace, comm_names: str | None = None) -> Answers:
    """What to do about a run: findings with the same remedy are one answer, whose change is replayed once.

    comm_names: as in perfmagic.trace.names.op_classes. Source: docs/replay.md.
    """
    outcomes, gains = known(trace, comm_names)
    facts = outcomes.facts
    kind = outcomes.judged.kind
    decider, total_ns = who_decides(facts, kind), whole_ns(facts)
    if failed(trace) or not (len(trace.ops) or trace.has_host_rows):
        return Answers(decider, total_ns)
    nodes, head = tree(outcomes, gains)
    groups = _by_remedy([*_with_headline(head.parts), *_with_headline(nodes)])
    every = [_answer(facts, gains, group) for group in groups]
    worth = sorted((answer for answer in every if answer.action and is_worth(answer)), key=place)
    first = tuple(worth[:MOST_ANSWERS])
    little = [answer for answer in every if answer.action and not is_worth(answer)]
    rest = [answer for answer in every if answer not in first and answer not in little]
    if not first:
        verdict = replace(_as_answer(facts, None, "", "", [head.finding]), cost_ns=None)
        is_open = decider.startswith("Open") and kind != NO_VERDICT
        first = (answer_otherwise(facts, STALLED if is_open else kind, verdict, rest),)
        rest = [answer for answer in rest if answer.rules != first[0].rules]
    return Answers(
        decider,
        total_ns,
        answers=tuple(map(_with_gain, first)),
        together=_together(facts, gains, groups, first),
        little_gain=tuple(dict.fromkeys(answer.headline for answer in little)),
        also_seen=tuple(dict.fromkeys(answer.headline for answer in rest)),
        warnings=warnings(facts),
    )


def _with_gain(answer: Answer) -> Answer:
    """An answer that names no other time than the predicted one."""
    if answer.after_ns is None:
        return answer
    return replace(answer, headline=without_time(answer.headline, units.duration(answer.after_ns)))


@dataclass(frozen=True)
class Asked:
    """What to do about a run, without what it gains, and the changes that say so; none where no replay has any."""

    answer: Answer
    changes: tuple[Change, ...]


def asked_of(trace: Trace, comm_names: str | None = None) -> list[Asked]:
    """What one rank of a job asks for, so that the job can be replayed with it; nothing of code that failed.

    Not for a shorter start-up: ranks begin to record at different times.
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
        asked.append(Asked(answer, _changes(outcomes.facts, group)))
    return [each for each in asked if each.answer.action not in ("", action("open_ranks"))]


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

    def weight_ns(finding: Finding) -> int:
        start_up = finding.rule == "alone" and finding.cause == "start-up"  # which lies before what a cost is a part of
        return finding.end_ns - finding.start_ns if start_up else gains.worth_ns(finding) or 0

    first = max(group, key=weight_ns)
    return _as_answer(facts, _predict(facts, gains, group), first.headline, first.action, group)


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
        at_most=prediction is not None and prediction.at_most,
        cost_ns=sum(costs) if costs else None,
        lines=tuple(lines),
        start_ns=min(finding.start_ns for finding in findings),
        end_ns=max(finding.end_ns for finding in findings),
        evidence=tuple(finding.sentence for finding in findings),
    )


def _predict(facts: Facts, gains: Gains, findings: Iterable[Finding]) -> Prediction | None:
    """What the changes of some findings would make of the run; None where no replay can say."""
    changes = _changes(facts, findings)
    if not changes or gains.readings is None:
        return None
    prediction = predict(gains.readings, changes)
    return None if prediction.refused else prediction


def _changes(facts: Facts, findings: Iterable[Finding]) -> tuple[Change, ...]:
    """The changes that some findings ask for, each once."""
    changes: list[Change] = []
    for finding in findings:
        change = _remedy(facts, finding)
        if change is not None and (isinstance(change, WithoutPython) or change not in changes):
            changes.append(change)
    return tuple(changes)


def _remedy(facts: Facts, finding: Finding) -> Change | None:
    """The change that a finding's action makes; None where no replay has it."""
    rule = finding.rule
    if not finding.action or finding.action in _NOT_REPLAYED:
        return None
    if rule in _KERNELS:
        return None if facts.trace.device_info(facts.device).simulated else _KERNELS[rule](facts, finding)
    if rule == "alone" and finding.cause == "start-up":
        return _without_start_up(facts, finding)
    if rule == "one_by_one" and finding.action not in _GRAPHS:
        return None
    if rule == "exposed_copy" and finding.action == action("pin"):
        return Pin()
    return change_of(facts, finding)


def _without_start_up(facts: Facts, finding: Finding) -> Change:
    """At best without all that Python did before the first op; without the calls that start device and libraries."""
    head = np.array([[finding.start_ns, finding.end_ns]], np.int64)
    if finding.action != action("warm_up"):
        return WithoutPython("without what Python did before the first op", head, bound=True)
    calls, host = facts.trace.calls, facts.trace.host_ops
    in_calls = intersect(head, union(calls.start_ns, calls.end_ns))
    if 2 * sum_ns(in_calls) >= sum_ns(head):
        return WithoutPython("without what the first calls start", in_calls)
    of_operators = host.kind == HostKind.OP
    in_operators = intersect(head, union(host.start_ns[of_operators], host.end_ns[of_operators]))
    return WithoutPython("without the first operators", in_operators, bound=True)


def _on_tensor_cores(facts: Facts, finding: Finding) -> Change:
    """By the rates of the data sheet, which no product reaches; in no time where the device has none."""
    peaks = peaks_of(facts.trace.device_info(facts.device))
    fp32, fp16 = (peaks.of("fp32"), peaks.of("fp16")) if peaks else (None, None)
    left = fp32 / fp16 if fp32 and fp16 else 0.0
    return ShorterOps("on tensor cores", tuple(claim(facts, finding.rule).rows.tolist()), left)


def _without_cost(facts: Facts, finding: Finding, what: str) -> Change | None:
    """The ops of a finding without what it costs.  what: description of the change."""
    if not finding.cost_ns:
        return None
    claimed = claim(facts, finding.rule)
    left = 1 - min(1.0, finding.cost_ns / claimed.ops_ns)
    return ShorterOps(what, tuple(claimed.rows.tolist()), left, bound=False)


_KERNELS: dict[str, Callable[[Facts, Finding], Change | None]] = {
    "eager_attention": lambda facts, finding: _without_cost(facts, finding, "as one fused kernel"),
    "tensor_cores": _on_tensor_cores,
    "unaligned_gemm": lambda facts, finding: _without_cost(facts, finding, "at the speed of aligned ones"),
    "tiny_kernels": lambda _facts, _finding: Fused(),
    "device_time": lambda _facts, _finding: Fused(),
}


def _together(
    facts: Facts, gains: Gains, groups: Sequence[Sequence[Finding]], answers: Sequence[Answer]
) -> Answer | None:
    """All answers that are replayed, but bounds: what is certain and what is only possible do not add up."""
    numbers = {a.action: str(n) for n, a in enumerate(answers, 1) if a.after_ns is not None and not a.at_most}
    if len(numbers) < 2:
        return None
    findings = [finding for group in groups for finding in group if finding.action in numbers]
    prediction = _predict(facts, gains, findings)
    if prediction is None:
        return None
    return _as_answer(facts, prediction, name_together(answers, list(numbers.values())), "", findings)


def name_together(answers: Sequence[Answer], numbers: Sequence[str]) -> str:
    """What some of the answers are called together.  numbers: theirs."""
    if len(numbers) == len(answers):
        return phrase("both together") if len(answers) == 2 else phrase("all three together")
    first, *others = numbers
    return phrase("answers {first} and {second} together", first=first, second=others[0])


def is_worth(answer: Answer) -> bool:
    """Whether an answer wins enough to be one, or nobody knows; a wrong result always is."""
    worth_ns = answer.cost_ns if answer.gain_ns is None else answer.gain_ns
    return "race" in answer.rules or worth_ns is None or worth_ns >= LEAST_FRAC * answer.before_ns


def place(answer: Answer) -> tuple[bool, bool, int]:
    """Wrong results first, then by what is won, then by what is lost."""
    replayed = answer.gain_ns is not None
    return "race" not in answer.rules, not replayed, -((answer.gain_ns if replayed else answer.cost_ns) or 0)


# Who decides how long a run takes, in one sentence with one number, and what is to know of the record.

_WITHOUT_PATH = (
    DEVICE_BOUND,
    COPY_BOUND,
    COMMUNICATION_BOUND,
    START_UP,
    HOST_TAIL,
)  # what is busy, or is before or after all ops, needs no path


def who_decides(facts: Facts, kind: str) -> str:
    """Who decides, with one number, of the whole run.  kind: of the verdict."""
    trace, judgement = facts.trace, judged_by_path(facts)
    if not len(trace.ops) or failed(trace):
        return _without_records(facts)
    if kind == NO_VERDICT or (judgement is None and kind not in _WITHOUT_PATH and _unexplained(facts)):
        return _what_is_open(facts, kind)
    time, total_ns = facts.cell_time, max(1, whole_ns(facts))
    before_ns = 0 if trace.meta.returned_ns is not None else facts.first_queued_ns - trace.meta.start_ns
    waited = (time.waited_for_host_ns + before_ns) / total_ns
    busy = units.percent(time.busy_ns / total_ns)
    if kind == DEVICE_BOUND and len(trace.device_ids) > 1:
        any_ns = sum_ns(busy_intervals(trace, None))
        return decides("device-bound, several", share=units.percent(any_ns / total_ns))
    is_busy = waited < STARVED_FRAC or 2 * time.busy_ns > total_ns
    if kind == HOST_BOUND and is_busy and judgement is None:
        return decides("host-bound, queue", share=units.percent((time.host_ns + before_ns) / total_ns))
    if kind == MIXED:
        return _in_turn(judgement) if judgement is not None else _in_turn_without_path(time, before_ns, total_ns)
    times_ns = {START_UP: before_ns} | _times_of_kinds(facts, judgement, is_busy)
    if kind in times_ns:
        entry = "host-bound, path" if kind == HOST_BOUND else kind
        return decides(entry, time=units.duration(times_ns[kind]), total=units.duration(total_ns))
    return decides(kind, share=busy if kind == DEVICE_BOUND else units.percent(waited))


def _times_of_kinds(facts: Facts, judgement: Judgement | None, is_busy: bool) -> dict[str, int]:
    """The time that makes each kind of verdict, where it is the reason.  is_busy: the device, most of the run."""
    if judgement is None:
        exposed = facts.breakdown
        return {
            HOST_TAIL: facts.cell_time.tail_ns,
            COPY_BOUND: exposed.exposed_copy_ns,
            COMMUNICATION_BOUND: exposed.exposed_communication_ns,
        }
    times_ns = {
        HOST_TAIL: judgement.tail_ns,
        COPY_BOUND: judgement.copies_ns,
        COMMUNICATION_BOUND: judgement.communication_ns,
    }
    # That the device is busy says nothing of Python: then Python's time on the critical path does.
    return times_ns | ({HOST_BOUND: judgement.host_ns} if is_busy else {})


def _unexplained(facts: Facts) -> bool:
    return in_passing(facts.trace) and bool(why_no_path(facts.trace, facts.comm_names))


def _what_is_open(facts: Facts, kind: str) -> str:
    """Why the device stood still; of a file whose device was busy once it had begun, why it began so late."""
    if kind == NO_VERDICT:
        return _why_no_verdict(facts)
    busy_frac, late_ns = facts.cell_time.busy_frac, facts.breakdown.extent_start_ns - facts.first_queued_ns
    if (
        facts.trace.meta.returned_ns is None
        and busy_frac >= DEVICE_BOUND_FRAC
        and late_ns >= PART_FRAC * whole_ns(facts)
    ):
        return decides("stalled, late", time=units.duration(late_ns), share=units.percent(busy_frac))
    gap = first_gap(facts)
    if gap is not None and gap.busy_frac >= DEVICE_BOUND_FRAC:
        time, share = units.duration(gap.length_ns), units.percent(gap.busy_frac)
        return decides("stalled, one gap", time=time, share=share)
    return decides(STALLED)


def _why_no_verdict(facts: Facts) -> str:
    """What the record lacks: why no_verdict speaks."""
    if facts.trace.meta.returned_ns is None and facts.breakdown.n_ops == 1:
        return decides("no verdict, one op")
    if sample(facts.trace):
        return decides("no verdict, sample")
    return decides("no verdict, graphs") if incomplete_graphs(facts.trace) else decides(NO_VERDICT)


def _in_turn_without_path(time: CellTime, before_ns: int, total_ns: int) -> str:
    host, device = (units.percent(ns / total_ns) for ns in (time.host_ns + before_ns, time.device_ns))
    return decides("mixed, shares", host=host, device=device)


def _in_turn(judgement: Judgement) -> str:
    if judgement.busy_ns >= KEPT_BUSY_FRAC * judgement.run_ns:
        return decides("mixed, both", share=units.percent(judgement.busy_ns / judgement.run_ns))
    times_ns = {
        "host": judgement.host_ns,
        "device": judgement.device_ns + judgement.copies_ns + judgement.communication_ns,
        "latency": judgement.latency_ns,
        "unexplained": judgement.unexplained_ns,
    }
    shares = {name: units.percent(ns / judgement.run_ns) for name, ns in times_ns.items()}
    *_, second, first = sorted(times_ns, key=times_ns.__getitem__)
    if "unexplained" in (first, second):
        explained_ns = judgement.run_ns - judgement.unexplained_ns
        return decides("mixed, unexplained", share=units.percent(explained_ns / judgement.run_ns))
    if "latency" in (first, second):
        return decides("mixed, latency" if "device" in (first, second) else "mixed, launches", **shares)
    return decides("mixed, shares", **shares)


def _without_records(facts: Facts) -> str:
    trace = facts.trace
    if failed(trace):
        return decides("failed")
    launches = int((trace.calls.kind == CallKind.LAUNCH).sum())
    if launches and not trace.simulated:
        return decides("no device records, launches", n=count_things(launches, "launch"))
    return decides(NO_RECORDS if trace.meta.returned_ns is not None else "no device records, file")


def whole_ns(facts: Facts) -> int:
    """How long the run took, the host before the first op and after the last one included."""
    start_ns, end_ns = recorded_span(facts.trace)
    return end_ns - start_ns


def warnings(facts: Facts) -> tuple[str, ...]:
    """What is to know of the record itself."""
    trace, warned = facts.trace, []
    if lost := trust(trace).n_launches_without_op:
        warned.append(headline("incomplete", n=units.count(lost)))
    starts = [table.start_ns.min() for table in (trace.calls, trace.host_ops) if len(table)]
    early = int((trace.ops.start_ns < min(starts)).sum()) if starts and trace.meta.returned_ns is None else 0
    if early:
        warned.append(headline("mid_flight", n=count_things(early, "op")))
    if len(trace.python_frames):
        warned.append(headline("stacks"))
    if in_passing(trace) and (why := why_no_path(trace, facts.comm_names)):
        warned.append(why.capitalised())
    return tuple(warned)
