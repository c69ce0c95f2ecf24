"""Who decides how long a run takes, in one sentence with one number, and what is to know of the record."""

from __future__ import annotations

from perfmagic.analysis.findings.catalogue import decides, headline
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.verdict import STARVED_FRAC, failed
from perfmagic.analysis.replay.judgement import Judgement
from perfmagic.analysis.replay.prediction import in_passing, why_no_path
from perfmagic.analysis.timeline.trust import trust
from perfmagic.analysis.verdict import (
    COMMUNICATION_BOUND,
    COPY_BOUND,
    DEVICE_BOUND,
    HOST_BOUND,
    HOST_TAIL,
    LATENCY_BOUND,
    NO_RECORDS,
    NO_VERDICT,
    STALLED,
    START_UP,
)
from perfmagic.base import units
from perfmagic.trace.columns import CallKind

_WITHOUT_PATH = (DEVICE_BOUND, START_UP, HOST_TAIL)  # what is busy, or is before or after all ops, needs no path


def who_decides(facts: Facts, kind: str) -> str:
    """Who decides, with one number.  kind: of the verdict."""
    if not len(facts.trace.ops) or failed(facts.trace):
        return _without_records(facts)
    if kind == NO_VERDICT or (facts.judgement is None and kind not in _WITHOUT_PATH and _unexplained(facts)):
        return decides(kind if kind == NO_VERDICT else STALLED)
    time, total_ns = facts.cell_time, whole_ns(facts)
    waited = time.waited_for_host_ns / max(1, time.window.length_ns)
    busy = units.percent(time.busy_ns / max(1, total_ns))
    if kind == HOST_BOUND and (waited < STARVED_FRAC or time.busy_ns > total_ns / 2):
        return decides("host-bound, closely", share=busy)
    if kind == START_UP:
        before_ns = facts.first_queued_ns - facts.trace.meta.start_ns
        return decides(kind, time=units.duration(before_ns), total=units.duration(total_ns))
    if facts.judgement is not None and kind not in (HOST_BOUND, LATENCY_BOUND):
        return _by_path(facts.judgement, kind, busy)
    return decides(kind, share=busy if kind == DEVICE_BOUND else units.percent(waited))


def _unexplained(facts: Facts) -> bool:
    return in_passing(facts.trace) and bool(why_no_path(facts.trace, facts.comm_names))


def _by_path(judgement: Judgement, kind: str, busy: str) -> str:
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


def _without_records(facts: Facts) -> str:
    trace = facts.trace
    if failed(trace):
        return decides("failed")
    launches = int((trace.calls.kind == CallKind.LAUNCH).sum())
    if launches and not trace.simulated:
        return decides("no device records, launches", n=units.plural(launches, "launch", "launches"))
    return decides(NO_RECORDS)


def whole_ns(facts: Facts) -> int:
    """How long the run took, the host before the first op and after the last one included."""
    meta, ops = facts.trace.meta, facts.trace.ops
    start_ns = int(ops.start_ns.min(initial=meta.start_ns))
    return int(ops.end_ns.max(initial=meta.end_ns)) - start_ns


def warnings(facts: Facts) -> tuple[str, ...]:
    """What is to know of the record itself."""
    trace, warned = facts.trace, []
    if lost := trust(trace).n_launches_without_op:
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
