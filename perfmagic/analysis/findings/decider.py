"""What decides how long a run takes, and what to do about it if no finding has a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfmagic.analysis import verdict as kinds
from perfmagic.analysis.findings.answer import Answer
from perfmagic.analysis.findings.catalogue import action, count_things, decides, headline
from perfmagic.analysis.findings.facts import CellTime, Facts, first_gap
from perfmagic.analysis.findings.verdict import STARVED_FRAC, corners_of, failed, judged_by_path, predicted_kind
from perfmagic.analysis.replay.critical_path import KEPT_BUSY_FRAC, PART_FRAC, Judgement
from perfmagic.analysis.replay.prediction import in_passing, why_no_path
from perfmagic.analysis.timeline.activity import recorded_span
from perfmagic.analysis.timeline.device_operators import device_operators
from perfmagic.analysis.timeline.steps import begins_in_step
from perfmagic.analysis.timeline.trust import incomplete_graphs, missing_calls, sample
from perfmagic.base import units
from perfmagic.base.language import phrase
from perfmagic.base.numerics.intervals import total_ns as sum_ns
from perfmagic.base.terminal import squeezed
from perfmagic.trace.columns import CallKind
from perfmagic.trace.model import busy_intervals
from perfmagic.trace.names import unknown_operators

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
    """Why the device stood still; or why it began so late, if a file's device was busy once it had begun."""
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
    if sample(facts.trace):
        return decides("no verdict, sample")
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
    if kind == kinds.NO_RECORDS:
        launched = not facts.trace.simulated and bool((facts.trace.calls.kind == CallKind.LAUNCH).any())
        of_cell = facts.trace.meta.returned_ns is not None and not launched
        fact, remedy = ("cpu_alone", "use_device") if of_cell else ("host_alone", "record_device")
        if any(note.kind == "no_device_plane" for note in facts.trace.meta.notes):
            fact, remedy = "cpu_alone", "jax_device"
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
