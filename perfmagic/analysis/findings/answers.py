"""What decides how long a run takes, and what to do about it: at most three answers, each with its predicted time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from perfmagic.analysis import verdict as kinds
from perfmagic.analysis.findings.answer import Answer, Answers
from perfmagic.analysis.findings.catalogue import OPEN as OPEN_KEYS
from perfmagic.analysis.findings.catalogue import action, count_things, decider_key, decides, headline, without_time
from perfmagic.analysis.findings.facts import CellTime, Facts, first_gap
from perfmagic.analysis.findings.find import Node, known, tree
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.gains import GRAPHS, Gains, changes_of, left_on_tensor_cores, written
from perfmagic.analysis.findings.kernels import claim
from perfmagic.analysis.findings.record import missing_record, warnings
from perfmagic.analysis.findings.verdict import STARVED_FRAC, corners_of, failed, judged_by_path, predicted_kind
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.critical_path import KEPT_BUSY_FRAC, PART_FRAC, Judgement
from perfmagic.analysis.replay.prediction import Prediction, in_passing, why_no_path
from perfmagic.analysis.timeline.activity import recorded_span
from perfmagic.analysis.timeline.device_operators import device_operators
from perfmagic.analysis.timeline.steps import begins_in_step
from perfmagic.analysis.timeline.trust import cut_or_sampled, incomplete_graphs, is_cut, missing_calls
from perfmagic.base import units
from perfmagic.base.language import phrase
from perfmagic.base.numerics.intervals import total_ns as sum_ns
from perfmagic.base.numerics.intervals import union
from perfmagic.base.terminal import squeezed
from perfmagic.trace.columns import NO_LINE, CallKind
from perfmagic.trace.model import Trace, busy_intervals, once_per_trace
from perfmagic.trace.names import unknown_operators

MOST_ANSWERS = 3
LEAST_FRAC = 0.02  # of the run: what saves less is not an answer
LEAST_OPEN_FRAC = 0.1  # of a run that the record does not explain
_BETWEEN_OPS = frozenset({"many_gaps", "repeated_gap", "one_by_one"})
_FEWER_LAUNCHES = GRAPHS | {action("reduce_overhead")}


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
    least_frac = LEAST_OPEN_FRAC if is_open and kind != kinds.OPEN else LEAST_FRAC  # a model's run is explained
    worth = sorted((answer for answer in every if answer.action and is_worth(answer, least_frac)), key=place)
    first = tuple(worth[:MOST_ANSWERS])
    little = [answer for answer in every if answer.action and answer not in worth]
    rest = [answer for answer in every if answer not in first and answer not in little]
    if not first:
        head = tree(outcomes, gains)[1].finding
        verdict = replace(_as_answer(facts, None, "", "", [head]), cost_ns=None)
        open_kind = kinds.STALLED if is_open and kind not in (kinds.NO_VERDICT, kinds.OPEN) else kind
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
        changes = changes_of(outcomes.facts, group)
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
    by_graph = GRAPHS if any(finding.action == graphs for finding in findings) else ()
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
        answer = replace(answer, what_if=written(changes_of(facts, group), answer.lines))
    return _bounded(facts, answer) if prediction is None and first.rule == "tensor_cores" else answer


def _bounded(facts: Facts, answer: Answer) -> Answer:
    """Without a replay: the run less all that tensor cores would take off its kernels, as nothing else ends earlier."""
    most_ns = round(claim(facts, "tensor_cores").ops_ns * (1 - left_on_tensor_cores(facts)))
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
    return gains.of_changes(changes_of(facts, findings))


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


# What the recorded run of a benchmark asks for.

# what limits the run, without a remedy that fits a benchmark: it has no flame graph
_IN_A_TIMELINE = {
    *map(action, ("see_python", "record_lines", "record_stacks", "other_work", "virtual_clock", "record_whole"))
}
_LIMITS = {
    kinds.HOST_BOUND: "late_python",
    kinds.START_UP: "python_first",
    kinds.HOST_TAIL: "python_last",
    kinds.MIXED: "wait_in_turn",
}
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
    remedy = action("fewer_larger" if kind == kinds.HOST_BOUND and _launches_decide(trace) else "see_lines")
    if decider_key(found.decides) in OPEN_KEYS or not first.rules:  # nothing was found that the verdict rests on
        first = replace(first, headline=headline(_LIMITS[kind]), rules=(), cost_ns=None)
    return replace(first, action=remedy, lines=())


def _launches_decide(trace: Trace) -> bool:
    host, meta = trace.host_ops, trace.meta
    until_ns = meta.end_ns if meta.returned_ns is None else meta.returned_ns
    in_operators_ns = sum_ns(union(host.start_ns, host.end_ns))
    return len(trace.ops) >= _MANY_OPS and in_operators_ns >= _MOSTLY_FRAC * (until_ns - meta.start_ns)


# What decides how long a run takes, in one sentence with one number.

_WITHOUT_PATH = (
    kinds.DEVICE_BOUND,
    kinds.COPY_BOUND,
    kinds.COMMUNICATION_BOUND,
    kinds.START_UP,
    kinds.HOST_TAIL,
)  # busy time, and time before or after all ops, needs no path


def who_decides(facts: Facts, kind: str) -> str:
    """What decides, with one number for the whole run.  kind: of the verdict."""
    trace, judgement = facts.trace, judged_by_path(facts)
    if not len(trace.ops) or failed(trace):
        return _describe_no_records(facts)
    if kind in (kinds.NO_VERDICT, kinds.OPEN) or (
        judgement is None and kind not in _WITHOUT_PATH and _is_unexplained(facts)
    ):
        return _describe_open(facts, kind)
    time, total_ns = facts.cell_time, max(1, whole_ns(facts))
    before_ns = 0 if trace.meta.returned_ns is not None else facts.first_queued_ns - trace.meta.start_ns
    waited = (time.waited_for_host_ns + before_ns) / total_ns
    busy = units.percent(time.busy_ns / total_ns)
    if kind == kinds.DEVICE_BOUND and len(trace.device_ids) > 1:
        any_ns = sum_ns(busy_intervals(trace, None))
        return decides("device-bound, several", share=units.percent(any_ns / total_ns))
    is_busy = waited < STARVED_FRAC or 2 * time.busy_ns > total_ns
    if kind == kinds.HOST_BOUND and is_busy and judgement is None:
        return decides("host-bound, queue", share=units.percent((time.host_ns + before_ns) / total_ns))
    if kind == kinds.MIXED:
        return (
            _describe_turns(judgement)
            if judgement is not None
            else _describe_turns_without_path(time, before_ns, total_ns)
        )
    times_ns = {kinds.START_UP: before_ns} | _find_times(facts, judgement, is_busy)
    if kind in times_ns:
        of_each_step = kind == kinds.START_UP and begins_in_step(trace, facts.first_queued_ns)
        entry = "start-up, in a step" if of_each_step else "host-bound, path" if kind == kinds.HOST_BOUND else kind
        return decides(entry, time=units.duration(times_ns[kind]), total=units.duration(total_ns))
    entry = "device-bound, at least" if kind == kinds.DEVICE_BOUND and unknown_operators(trace) else kind
    return decides(entry, share=busy if kind == kinds.DEVICE_BOUND else units.percent(waited))


def _describe_rivals(facts: Facts) -> str:
    """Who may decide a predicted run."""
    ends = corners_of(facts)
    assert ends is not None  # only then is the kind open
    rivals = ends.rivals(predicted_kind(facts))
    if rivals is None:
        return decides("open, unknown", n=count_things(len(ends.unknown), "operator"))
    return decides("open", a=phrase(rivals[0]), b=phrase(rivals[1]))


def _find_times(facts: Facts, judgement: Judgement | None, is_busy: bool) -> dict[str, int]:
    """The time behind each kind of verdict, if that kind rests on one.  is_busy: the device is, most of the run."""
    if judgement is None:
        exposed = facts.breakdown
        return {
            kinds.HOST_TAIL: facts.cell_time.tail_ns,
            kinds.COPY_BOUND: exposed.exposed_copy_ns,
            kinds.COMMUNICATION_BOUND: exposed.exposed_communication_ns,
        }
    times_ns = {
        kinds.HOST_TAIL: judgement.tail_ns,
        kinds.COPY_BOUND: judgement.copies_ns,
        kinds.COMMUNICATION_BOUND: judgement.communication_ns,
    }
    # a busy device says nothing about Python; Python's time on the critical path does
    return times_ns | ({kinds.HOST_BOUND: judgement.host_ns} if is_busy else {})


def _is_unexplained(facts: Facts) -> bool:
    return in_passing(facts.trace) and bool(why_no_path(facts.trace, facts.comm_names))


def _describe_open(facts: Facts, kind: str) -> str:
    """Why the device was idle; or why it began so late, if a file's device was busy once it had begun."""
    if kind == kinds.NO_VERDICT:
        return _describe_no_verdict(facts)
    if kind == kinds.OPEN:
        return _describe_rivals(facts)
    busy_frac, late_ns = facts.cell_time.busy_frac, facts.breakdown.extent_start_ns - facts.first_queued_ns
    if (
        facts.trace.meta.returned_ns is None
        and busy_frac >= kinds.DEVICE_BOUND_FRAC
        and late_ns >= PART_FRAC * whole_ns(facts)
    ):
        return decides("stalled, late", time=units.duration(late_ns), share=units.percent(busy_frac))
    gap = first_gap(facts)
    if gap is not None and gap.busy_frac >= kinds.DEVICE_BOUND_FRAC:
        time, share = units.duration(gap.length_ns), units.percent(gap.busy_frac)
        return decides("stalled, one gap", time=time, share=share)
    return decides(kinds.STALLED)


def _describe_no_verdict(facts: Facts) -> str:
    """What the record lacks, so that it has no verdict."""
    if _has_one_op(facts):
        return decides("no verdict, one op")
    if cut_or_sampled(facts.trace):
        return decides("no verdict, cut") if is_cut(facts.trace) else decides("no verdict, sample")
    return decides("no verdict, graphs") if incomplete_graphs(facts.trace) else decides(kinds.NO_VERDICT)


def _has_one_op(facts: Facts) -> bool:
    return facts.trace.meta.returned_ns is None and facts.breakdown.n_ops == 1


def _describe_turns_without_path(time: CellTime, before_ns: int, total_ns: int) -> str:
    host, device = (units.percent(ns / total_ns) for ns in (time.host_ns + before_ns, time.device_ns))
    return decides("mixed, shares", host=host, device=device)


def _describe_turns(judgement: Judgement) -> str:
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


def _describe_no_records(facts: Facts) -> str:
    trace = facts.trace
    if failed(trace):
        return decides("failed")
    if is_cut(trace):
        return decides("no verdict, cut")
    launches = int((trace.calls.kind == CallKind.LAUNCH).sum())
    if launches and not trace.simulated:
        return decides("no device records, launches", n=count_things(launches, "launch"))
    return decides(kinds.NO_RECORDS if trace.meta.returned_ns is not None else "no device records, file")


def whole_ns(facts: Facts) -> int:
    """How long the run took, including the host before the first op and after the last one."""
    start_ns, end_ns = recorded_span(facts.trace)
    return end_ns - start_ns


# What to do if no finding has a remedy: one answer from what limits the run, or from what the record lacks.

MOST_FRAC = 0.2  # of the device's time: an operator with less does not limit the run
_OPERATOR_CHARS = 30  # of a name in a headline
_GAPS = ("many_gaps", "repeated_gap", "longest_gap", "one_by_one", "alone")
# By verdict: the rules whose finding may say it best, else the headline; and the action.
_BY_KIND: dict[str, tuple[tuple[str, ...], str, str]] = {
    kinds.COMMUNICATION_BOUND: (("exposed_communication",), "not_recorded", "overlap"),
    kinds.COPY_BOUND: (("exposed_copy",), "not_recorded", "overlap"),
    kinds.HOST_BOUND: (_GAPS, "late_python", "see_python"),
    kinds.START_UP: (_GAPS, "python_first", "see_python"),
    kinds.HOST_TAIL: ((), "python_last", "see_python"),
    kinds.LATENCY_BOUND: ((), "short_ops", "larger_ops"),
    kinds.MIXED: (("sync",), "wait_in_turn", "queue_ahead"),
    kinds.STALLED: (("longest_gap",), "not_recorded", "other_work"),
    kinds.NO_VERDICT: ((), "incomplete_record", "record_whole"),
}


def answer_otherwise(facts: Facts, kind: str, verdict: Answer, known: Sequence[Answer]) -> Answer:
    """The one answer for a run that has no other.

    kind: of the verdict.  verdict: an answer about all of its time.  known: facts without a remedy.
    """
    if kind == kinds.NO_RECORDS or (kind == kinds.NO_VERDICT and is_cut(facts.trace)):
        fact, remedy = missing_record(facts.trace)
        return replace(verdict, headline=headline(fact), action=action(remedy))
    kind = _refine_kind(facts, kind)
    if kind in (kinds.DEVICE_BOUND, kinds.OPEN):
        return _advise_less_work(facts, verdict, is_open=kind == kinds.OPEN)
    rules, fact, remedy = _BY_KIND[kind]
    if kind == kinds.NO_VERDICT and _has_one_op(facts):
        fact, remedy = "one_op", "record_step"
    of_rules = [answer for answer in known if {*rules} & {*answer.rules}]
    spoken = max(of_rules, key=lambda answer: answer.cost_ns or 0, default=replace(verdict, headline=headline(fact)))
    if kind == kinds.STALLED and (held_ns := facts.cell_time.stalled_ns) >= facts.notable_ns:
        spoken = replace(spoken, headline=headline("queued_idle", time=units.duration(held_ns)), cost_ns=held_ns)
    if kind == kinds.COPY_BOUND and facts.copies_beside:
        spoken, remedy = replace(spoken, headline=headline("copies_beside"), cost_ns=None), "fewer_bytes"
    info = facts.trace.device_info(facts.device)
    if remedy == "other_work" and info.simulated and not info.virtual:
        remedy = "virtual_clock"
    if remedy == "see_python" and info.virtual and not info.host_measured:  # Python takes no time but for its operators
        remedy = "fewer_larger"
    if remedy == "see_python" and facts.trace.paths is None and not len(facts.trace.python_frames):
        remedy = "record_lines"
    return replace(spoken, action=action(remedy))


def _refine_kind(facts: Facts, kind: str) -> str:
    """The kind of verdict that the remedy is for: who takes turns, and whether the record itself is to blame."""
    if kind == kinds.STALLED and len(missing_calls(facts.trace).where):
        return kinds.NO_VERDICT
    judgement = judged_by_path(facts) if kind == kinds.MIXED else None
    if judgement is None:
        return kind
    if judgement.busy_ns >= KEPT_BUSY_FRAC * judgement.run_ns:
        return kinds.DEVICE_BOUND
    on_device_ns = judgement.device_ns + judgement.copies_ns + judgement.communication_ns
    return kinds.LATENCY_BOUND if judgement.latency_ns > min(judgement.host_ns, on_device_ns) else kind


def _devices_at_work(facts: Facts) -> float | None:
    """How many devices worked at once, on average while any did; None if one device is busy nearly all the time."""
    trace = facts.trace
    if len(trace.device_ids) < 2 or facts.cell_time.busy_frac >= kinds.DEVICE_BOUND_FRAC:
        return None
    any_ns, *of_each = (sum_ns(busy_intervals(trace, device)) for device in (None, *trace.device_ids))
    return sum(of_each) / any_ns


def _advise_less_work(facts: Facts, verdict: Answer, *, is_open: bool) -> Answer:
    """The operator with most of the device's time; for a simulated device, whose pace is set, only that it had work."""
    at_work = _devices_at_work(facts)
    if not is_open and at_work is not None and 2 * at_work < 1 + len(facts.trace.device_ids):
        turns = headline("devices_in_turn", n=f"{at_work:.1f}", devices=len(facts.trace.device_ids))
        return replace(verdict, headline=turns, action=action("feed_devices"))
    by_name: dict[str, float] = {}
    if not facts.trace.paced:
        for row in device_operators(facts.trace, facts.device, facts.comm_names):
            by_name[row.name] = by_name.get(row.name, 0.0) + row.share_frac
    name = max(by_name, key=by_name.__getitem__, default="")
    if not name or by_name[name] < MOST_FRAC:
        fact, remedy = ("coarse_model", "fewer_for_both") if is_open else ("device_is_limit", "leave_python")
        return replace(verdict, headline=headline(fact), action=action(remedy))
    short = squeezed(name, _OPERATOR_CHARS)
    most = headline("most_of_device", name=short, share=units.percent(by_name[name]))
    return replace(verdict, headline=most, action=action("less_work"))
