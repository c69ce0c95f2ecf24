"""The verdict of a cell and its sentence: what decides how long it takes, Python, the device, or what lies between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from perfmagic.analysis import verdict as kinds
from perfmagic.analysis.findings.facts import THE_CELL, CellTime, Facts, describe_repairs, first_gap, too_much_repaired
from perfmagic.analysis.findings.finding import by_place, name_place, time_on_paths
from perfmagic.analysis.replay.critical_path import DECIDES_FRAC, PART_FRAC, SHORT_CELL_NS, Judgement, judge
from perfmagic.analysis.replay.prediction import Corners, corners, drawn_path
from perfmagic.analysis.timeline.host_time import STEP_NAME
from perfmagic.analysis.timeline.idle import CAUSES
from perfmagic.analysis.timeline.trust import cut_or_sampled, incomplete_graphs, missing_calls
from perfmagic.analysis.verdict import Verdict
from perfmagic.base import units
from perfmagic.base.language import chained, counted, listed, phrase, sentences
from perfmagic.base.numerics.intervals import EMPTY, Intervals, complement, covered_ns, intersect, total_ns, union
from perfmagic.trace.columns import NO_LINE, HostKind, Int64
from perfmagic.trace.hoststack import operator_stack
from perfmagic.trace.model import Trace, busy_intervals, in_its_digits

# What a record without device ops says about the host: the verdict when there is no device to judge.

OUTSIDE_FRAC = 0.1  # of what the host recorded; Python between operators always takes some time
MOSTLY_FRAC = 0.5  # of the record without an operator: then the operators did not take the time
ONE_CALL_FRAC = 0.7  # of an operator's time in one of its calls: more likely a wait than work
NAMED = 3


def host_only(trace: Trace) -> tuple[str, tuple[int, ...]]:
    """What the host did, in words, and the lines concerned: none.

    First its outermost operators with the largest sums. If most of the time passed outside them, annotations come
    first.
    """
    ops = trace.host_ops
    levels = operator_stack(trace).levels.values()
    rows = np.concatenate([level[0] for level in levels]) if levels else np.zeros(0, np.int64)
    if not len(rows):
        return phrase("the device ran nothing that was recorded"), ()
    inside = union(ops.start_ns[rows], ops.end_ns[rows])
    length_ns = int(ops.end_ns.max()) - int(ops.start_ns.min())
    outside_ns = length_ns - total_ns(inside)
    names = chained("{a}, {b}", _say_longest(trace, rows))
    longest = phrase("the host's longest operators, with what they called: {names}", names=names)
    annotated = _say_annotations(trace, inside)
    if outside_ns < OUTSIDE_FRAC * length_ns:
        return sentences(longest, annotated), ()
    outside = phrase(
        "{share} of the record, {time} of {total}, passed outside of every recorded operator",
        share=units.percent(outside_ns / length_ns),
        time=units.duration(outside_ns),
        total=units.duration(length_ns),
    )
    if outside_ns < MOSTLY_FRAC * length_ns:
        return sentences(longest, outside, annotated), ()
    return sentences(outside, annotated, longest), ()


def _say_longest(trace: Trace, rows: Int64) -> list[str]:
    """The operators with the largest sums, and the call that makes up most of one."""
    ops = trace.host_ops
    length_ns = ops.end_ns[rows] - ops.start_ns[rows]
    names, inverse, n_calls = np.unique(ops.name[rows], return_inverse=True, return_counts=True)
    sums, most = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    np.add.at(sums, inverse, length_ns)
    np.maximum.at(most, inverse, length_ns)
    operators = []
    for i in np.argsort(-sums, kind="stable")[:NAMED].tolist():
        operator = f"{trace.names[names[i]]} {units.duration(int(sums[i]))}"
        in_one = phrase(
            "{operator} ({time} in one of {n} calls)",
            operator=operator,
            time=units.duration(int(most[i])),
            n=units.count(int(n_calls[i])),
        )
        most_in_one = n_calls[i] > 1 and most[i] >= ONE_CALL_FRAC * sums[i]
        operators.append(in_one if most_in_one else operator)
    return operators


def _say_annotations(trace: Trace, inside: Intervals) -> str:
    """The longest annotations, which say whose time it was where operators are missing; "" if there are none.

    inside: when an operator ran, on any thread.
    """
    host = trace.host_ops
    rows = np.flatnonzero(host.kind == HostKind.ANNOTATION)
    spans = {}
    for name in np.unique(host.name[rows]).tolist():
        of_name = rows[host.name[rows] == name]
        if not trace.names[name].startswith(STEP_NAME):
            spans[trace.names[name]] = union(host.start_ns[of_name], host.end_ns[of_name])
    annotations = []
    for name, span in sorted(spans.items(), key=lambda item: -total_ns(item[1]))[:NAMED]:
        length_ns = total_ns(span)
        outside_ns = length_ns - total_ns(intersect(span, inside))
        bare = outside_ns >= MOSTLY_FRAC * length_ns > 0
        annotation = f"{name} {units.duration(length_ns)}"
        outside = phrase(
            "{annotation} ({time} of it without a recorded operator)",
            annotation=annotation,
            time=units.duration(outside_ns),
        )
        annotations.append(outside if bare else annotation)
    names = chained("{a}, {b}", annotations)
    return phrase("the longest annotations: {names}", names=names) if annotations else ""


EXPOSED_FRAC = 0.05  # of the window, as for the longest gap: less is left to its finding
DECIDES_RATIO = 2  # times as long as anything else: what decides without a path lasts at least so long
STARVED_FRAC = 0.2  # of the cell; if a device waited less for Python, Python is not to blame
TURNS_FRAC = 0.1  # of the window in which another device is busy and the busiest is not


@in_its_digits
def verdict(trace: Trace) -> Verdict:
    """What decides how long this cell takes? Source: docs/verdict.md."""
    return verdict_of(Facts(trace))


def verdict_of(facts: Facts) -> Verdict:
    """The verdict, from analyses that already exist."""
    if lacks := no_verdict(facts):
        return Verdict(kinds.NO_VERDICT, 0.0, lacks)
    if not len(facts.trace.ops):
        return Verdict(kinds.NO_RECORDS, 0.0, *host_only(facts.trace))
    judged = _judge_times(facts)
    repaired = describe_repairs(facts)
    return replace(judged, detail=sentences(judged.detail, repaired)) if repaired else judged


def no_verdict(facts: Facts) -> str:
    """Why a record has no verdict; "" if it has one."""
    if failed(facts.trace):
        return phrase("the code failed before its end")
    if not len(facts.trace.ops):
        return ""
    if facts.trace.meta.returned_ns is None and facts.breakdown.n_ops == 1:
        return phrase("one op of {time} is too little for one", time=units.duration(facts.breakdown.busy_ns))
    if lacks := cut_or_sampled(facts.trace) or incomplete_graphs(facts.trace):
        return sentences(lacks.words, phrase("what the device waited for is unknown"))
    if not too_much_repaired(facts):
        return ""
    return phrase("{repairs}, too many to say who waited for whom", repairs=describe_repairs(facts))


def failed(trace: Trace) -> bool:
    """Whether the code raised, so that its record says little about a whole run. An interrupt is not a failure."""
    return bool(trace.meta.failed) and not trace.meta.failed.startswith("KeyboardInterrupt")


def claimed_by_verdict(facts: Facts, judged: Verdict) -> Intervals:
    """The time that the verdict is about, as far as it could be saved: its cost is the sum."""
    time = facts.cell_time
    if judged.kind == kinds.HOST_BOUND:
        return time.waited_for_host
    if judged.kind == kinds.HOST_TAIL:
        return time.tail
    return time.not_busy if judged.kind in (kinds.MIXED, kinds.LATENCY_BOUND, kinds.STALLED) else EMPTY


def judged_by_path(facts: Facts) -> Judgement | None:
    """What the critical path consists of; None if the record has no path."""
    path = drawn_path(facts.trace, facts.comm_names)
    return judge(path, busy_intervals(facts.trace, facts.device)) if path else None


def kind_of(facts: Facts) -> str:
    """The verdict's kind; open where a model that predicted the times leaves open who decides."""
    kind, ends = predicted_kind(facts), corners_of(facts)
    return kinds.OPEN if ends is not None and ends.is_open(kind) else kind


def corners_of(facts: Facts) -> Corners | None:
    """How long a predicted run may take; None for a recorded one."""
    return corners(facts.trace, facts.device, facts.comm_names)


def predicted_kind(facts: Facts) -> str:
    """The kind by the times of the record: by its critical path, or by the parts of the time if it has none."""
    judgement = judged_by_path(facts)
    if judgement is None:
        meta, before_ns = facts.trace.meta, facts.first_queued_ns - facts.trace.meta.start_ns
        started_up = meta.returned_ns is None and before_ns >= PART_FRAC * (meta.end_ns - meta.start_ns)
        if started_up:
            return kinds.START_UP
        exposed, least_ns = facts.breakdown, PART_FRAC * facts.window_ns
        exposed_ns = {
            kinds.COMMUNICATION_BOUND: exposed.exposed_communication_ns,
            kinds.COPY_BOUND: exposed.exposed_copy_ns,
        }
        most = max(exposed_ns, key=exposed_ns.__getitem__)
        if exposed_ns[most] >= least_ns:
            return most
        kind, run_ns = _judge_parts(facts), meta.end_ns - meta.start_ns
        idle = meta.returned_ns is None and facts.cell_time.busy_ns < DECIDES_FRAC * run_ns
        return kinds.STALLED if idle and kind == kinds.DEVICE_BOUND else kind
    return judgement.decided


def _judge_parts(facts: Facts) -> str:
    time = facts.cell_time
    decides = _find_decider(time)
    if time.busy_frac >= kinds.DEVICE_BOUND_FRAC or decides == kinds.DEVICE_BOUND:
        return kinds.DEVICE_BOUND
    if time.window.length_ns < SHORT_CELL_NS:
        return kinds.LATENCY_BOUND
    python_decides = decides == kinds.HOST_BOUND or (decides == kinds.MIXED and _python_never_waits(facts))
    if python_decides and _is_starved(time):
        return kinds.HOST_BOUND
    return kinds.MIXED if python_decides else decides


def _find_decider(time: CellTime) -> str:
    """Whose part is more than half of the cell and at least twice as long as any other; kinds.MIXED if none is."""
    shares = {
        kinds.DEVICE_BOUND: time.device_ns,
        kinds.HOST_BOUND: time.host_ns,
        kinds.LATENCY_BOUND: time.latency_ns,
        kinds.STALLED: time.stalled_ns,
        kinds.HOST_TAIL: time.tail_ns,
    }
    (second_ns, _), (ns, kind) = sorted((ns, kind) for kind, ns in shares.items())[-2:]
    return kind if ns > DECIDES_FRAC * time.window.length_ns and ns >= DECIDES_RATIO * second_ns else kinds.MIXED


def _python_never_waits(facts: Facts) -> bool:
    """Whether the run takes as long as Python does; a file, which ends with the device, may lack Python's end."""
    time = facts.cell_time
    little_ns = (1 - kinds.DEVICE_BOUND_FRAC) * time.window.length_ns
    unseen_ns = 0
    if time.window.name != THE_CELL:
        unseen_ns = facts.breakdown.extent_end_ns - int(facts.trace.launch_start_ns().max())
    return time.python_waits_ns + unseen_ns <= little_ns


def _is_starved(time: CellTime) -> bool:
    """Whether the device waited for Python long enough, and more than for all else, to blame Python."""
    waited_ns, idle_ns = time.waited_for_host_ns, time.window.length_ns - time.busy_ns
    return waited_ns >= STARVED_FRAC * time.window.length_ns and 2 * waited_ns >= idle_ns


def _judge_times(facts: Facts) -> Verdict:
    time = facts.cell_time
    kind = kind_of(facts)
    parts, lines, cost_ns = _DESCRIBED[kind](facts, time)
    parts += [_say_first_gap(facts), *_say_exposed(facts, time.window.length_ns)]
    return Verdict(kind, time.busy_frac, sentences(*parts), lines, cost_ns)


Described = tuple[list[str], tuple[int, ...], int | None]  # the facts one by one, the lines they name, the cost in ns


def _say_device_bound(facts: Facts, time: CellTime) -> Described:
    parts = [_say_busy(time, facts.the_busiest), _say_several(facts, time)]
    deepest = max((q.ops_max for q in facts.queues), default=0)
    ahead_ns, at_least = max(((q.run_ahead_max_ns, q.run_ahead_at_least) for q in facts.queues), default=(0, False))
    if deepest:
        ahead = phrase("at least {time}", time=units.duration(ahead_ns)) if at_least else units.duration(ahead_ns)
        ops = counted(deepest, "{n} op", "{n} ops")
        parts.append(phrase("Python ran up to {ops} and {time} ahead", ops=ops, time=ahead))
    if waits_for_device(facts) and facts.trace.meta.returned_ns is None:
        parts.append(phrase("Python blocks until the device finishes"))
    elif waits_for_device(facts):
        parts.append(phrase("the cell blocks until the device finishes"))
    return [*parts, *_say_idle(facts, time)], (), None


def _say_host_bound(facts: Facts, time: CellTime) -> Described:
    where, lines = _say_lines(facts, time.waited_for_host)
    waited: str = phrase(
        "{device} waited {for_python}{where}",
        device=facts.the_busiest,
        for_python=_say_wait(facts, time),
        where=where,
    )
    judgement = judged_by_path(facts)
    if judgement is not None and time.waited_for_host_ns < STARVED_FRAC * time.window.length_ns:
        share = _say_share(judgement.host_ns, judgement, phrase("Python's"))
        waited = phrase("{a}: {b}", a=share, b=waited) if time.waited_for_host_ns else share
    parts = [waited, _say_missing(facts, time), _say_busy(time, phrase("it")), *_say_idle(facts, time, said="python")]
    return [*parts, _say_slowed(facts)], lines, time.waited_for_host_ns


def _say_share(ns: int, judgement: Judgement, what: str) -> str:
    return phrase("{share} of the critical path is {what}", share=units.percent(ns / judgement.run_ns), what=what)


def _say_start_up(facts: Facts, time: CellTime) -> Described:
    parts, lines, _ = _say_between(facts, time)
    meta = facts.trace.meta
    before_ns = facts.first_queued_ns - meta.start_ns
    nothing = phrase(
        "{device} got nothing for {time} of {total}",
        device=facts.the_device,
        time=units.duration(before_ns),
        total=units.duration(meta.end_ns - meta.start_ns),
    )
    return [nothing, *parts], lines, None


def _say_transfers(facts: Facts, time: CellTime) -> Described:
    """The sentence for when copies or communication decide."""
    parts, lines, _ = _say_between(facts, time)
    if (judgement := judged_by_path(facts)) is None:
        return parts, lines, None
    by_copies, by_communication = phrase("copies"), phrase("communication")
    copied = judgement.kind == kinds.COPY_BOUND
    ns, what = (judgement.copies_ns, by_copies) if copied else (judgement.communication_ns, by_communication)
    return [_say_share(ns, judgement, what), *parts], lines, None


def _say_missing(facts: Facts, time: CellTime) -> str:
    """Say that the record lacks the host for most of the wait, though calls were made: their ids jump."""
    missing = missing_calls(facts.trace)
    hole_ns = total_ns(intersect(missing.where, time.waited_for_host))
    if not hole_ns or 2 * hole_ns < time.waited_for_host_ns:
        return ""
    return phrase(
        "for {time} of it nothing of the host was recorded, and call numbers jump from {first} to {last}:"
        " calls are missing",
        time=units.duration(hole_ns),
        first=missing.first,
        last=missing.last,
    )


def _say_slowed(facts: Facts) -> str:
    """Say that recording stacks slowed Python itself: torch.profiler's docs, with_stack, "additional overhead"."""
    if not len(facts.trace.python_frames):
        return ""
    return phrase("Python's stacks were recorded, which slows Python: without them the device waits less")


def _say_wait(facts: Facts, time: CellTime) -> str:
    in_call_ns = time.waited_ns["in_call"]
    waited = phrase("{time} for Python", time=units.duration(time.waited_for_host_ns))
    if in_call_ns < facts.notable_ns:
        return waited
    inside = units.duration(in_call_ns)
    return phrase("{waited}, {time} of it inside calls into the driver", waited=waited, time=inside)


def _say_host_tail(facts: Facts, time: CellTime) -> Described:
    where, lines = _say_lines(facts, time.tail)
    several = len(facts.trace.device_ids)
    judgement = judged_by_path(facts)
    tail_ns = judgement.tail_ns if judgement is not None else time.tail_ns  # a file's extent ends with that op
    worked = phrase(
        "Python worked on for {time} after the last op of {device}{where}",
        time=units.duration(tail_ns),
        device=phrase("{device}, the busiest of {n}", device=facts.the_device, n=several)
        if several > 1
        else facts.the_device,
        where=where,
    )
    parts = [worked, _say_busy(time, facts.the_device), *_say_idle(facts, time, said="tail")]
    return parts, lines, time.tail_ns or None


def _say_between(facts: Facts, time: CellTime) -> Described:
    """The sentence for what neither Python nor the device alone decides: latency-bound, stalled, mixed."""
    parts = [_say_busy(time, facts.the_busiest), _say_several(facts, time), *_say_idle(facts, time)]
    if time.waited_for_host_ns >= STARVED_FRAC * time.window.length_ns:
        parts.append(_say_slowed(facts))
    if time.window.length_ns < SHORT_CELL_NS:
        took = phrase(
            "{window} took {time}, little more than a launch and a sync cost by themselves",
            window=time.window.name,
            time=units.duration(time.window.length_ns),
        )
        parts.insert(0, took)
    return parts, (), time.window.length_ns - time.busy_ns


def _say_open(facts: Facts, time: CellTime) -> Described:
    """The sentence for when the model of a GPU and of its host is too coarse for a verdict."""
    parts, _, _ = _say_between(facts, time)
    ends = corners_of(facts)
    rivals = ends.rivals(predicted_kind(facts)) if ends else None
    if rivals is not None:
        a, b = map(phrase, rivals)
        parts.insert(0, phrase("it may be {a} or {b}, as the intervals of device and host overlap", a=a, b=b))
    elif ends and ends.unknown:
        parts.insert(0, phrase("{operators}: no model, so the time is unknown", operators=", ".join(ends.unknown)))
    if (predicted := facts.trace.device_info(facts.device).predicted) is not None:
        fit = "perfmagic.DeviceModel.fit()"
        parts.append(phrase("a run recorded on {gpu} narrows the intervals: {fit}", fit=fit, gpu=predicted.gpu))
    return parts, (), None


_DESCRIBED: dict[str, Callable[[Facts, CellTime], Described]] = {
    kinds.DEVICE_BOUND: _say_device_bound,
    kinds.COPY_BOUND: _say_transfers,
    kinds.COMMUNICATION_BOUND: _say_transfers,
    kinds.START_UP: _say_start_up,
    kinds.HOST_BOUND: _say_host_bound,
    kinds.LATENCY_BOUND: _say_between,
    kinds.STALLED: _say_between,
    kinds.HOST_TAIL: _say_host_tail,
    kinds.MIXED: _say_between,
    kinds.OPEN: _say_open,
}


def _say_busy(time: CellTime, subject: str) -> str:
    return phrase(
        "{device} was busy {share} of {window}",
        device=subject,
        share=units.percent(time.busy_frac),
        window=time.window.name,
    )


def _say_several(facts: Facts, time: CellTime) -> str:
    """How busy several devices were together, if another is busy while the busiest is not: do they take turns?"""
    numbers, whole = facts.trace.device_ids, time.window.length_ns
    window = complement(EMPTY, time.window.start_ns, time.window.end_ns)
    any_ns, *of_each = (total_ns(intersect(busy_intervals(facts.trace, device), window)) for device in (None, *numbers))
    if any_ns <= time.busy_ns + TURNS_FRAC * whole:
        return ""
    any_words = phrase("at least one was busy {share} of that time", share=units.percent(any_ns / whole))
    if len(numbers) != 2:
        return any_words
    both = units.percent((sum(of_each) - any_ns) / whole)
    return phrase("{any}, both at once {share}", any=any_words, share=both)


def _say_idle(facts: Facts, time: CellTime, said: str = "") -> list[str]:
    """What the device waited for while idle, the longest first.  said: what the sentence already says."""
    named: list[tuple[int, str]] = [
        (ns, phrase("{time} {cause}", time=units.duration(ns), cause=phrase(CAUSES[name])))
        for name, ns in time.waited_ns.items()
        if name not in ("in_python", "in_call") and ns >= facts.notable_ns
    ]
    if said != "python" and time.waited_for_host_ns >= facts.notable_ns:
        named.append((time.waited_for_host_ns, _say_wait(facts, time)))
    waits = [wait for _, wait in sorted(named, reverse=True)]
    parts: list[str] = []
    if waits and said == "python":
        parts.append(phrase("{device} also waited {waits}", device=facts.the_device, waits=listed(waits)))
    elif waits:
        parts.append(phrase("{device} waited {waits}", device=facts.the_device, waits=listed(waits)))
    if time.tail_ns >= facts.notable_ns and said != "tail":
        parts.append(phrase("Python worked on for {time} after the last op", time=units.duration(time.tail_ns)))
    return parts


def _say_first_gap(facts: Facts) -> str:
    gap = first_gap(facts)
    if gap is None:
        return ""
    n_ops = units.count(int((facts.trace.ops.device == facts.device).sum()))
    return phrase(
        "{time} of the idle time is one gap behind {first} of {n}: after it {device} was busy {share}",
        time=units.duration(gap.length_ns),
        first=phrase("the first op") if gap.before == 1 else phrase("the first {n} ops", n=units.count(gap.before)),
        n=n_ops,
        device=facts.the_device,
        share=units.percent(gap.busy_frac),
    )


def _say_lines(facts: Facts, where: Intervals) -> tuple[str, tuple[int, ...]]:
    """The two lines where Python spent most of some time: ", 885 µs of it on line 3, 10 µs on line 2"."""
    marks, paths = facts.trace.marks, facts.trace.paths
    if paths is not None and len(where):
        ordered, _ = by_place(paths, *time_on_paths(facts.trace, where))
        named = [(name_place(paths, place), ns) for place, ns in ordered[:2] if ns >= facts.notable_ns]
        parts = [_say_line(ns, place, first=i == 0) for i, (place, ns) in enumerate(named)]
        cell = [n for (f, n), ns in ordered[:2] if paths.functions[f].is_cell and ns >= facts.notable_ns]
        return chained("{a}{b}", parts), tuple(cell)
    if not len(marks) or not len(where):
        return "", ()
    ends = np.append(marks.at_ns[1:], max(int(where[-1, 1]), int(marks.at_ns[-1])))
    by_line = np.bincount(marks.line, weights=covered_ns(where, marks.at_ns, ends)).astype(np.int64)
    longest = [line for line in np.argsort(-by_line, kind="stable")[:2].tolist() if line != NO_LINE]
    lines = [line for line in longest if by_line[line] >= facts.notable_ns]
    parts = [
        _say_line(int(by_line[line]), phrase("line {line}", line=line), first=i == 0) for i, line in enumerate(lines)
    ]
    return chained("{a}{b}", parts), tuple(lines)


def _say_line(ns: int, place: str, *, first: bool) -> str:
    time = units.duration(ns)
    if first:
        return phrase(", {time} of it on {place}", time=time, place=place)
    return phrase(", {time} on {place}", time=time, place=place)


def waits_for_device(facts: Facts) -> bool:
    """Whether a blocking call of the cell itself lasted until the device had finished."""
    blocking = facts.syncs
    lasted = (blocking.end_ns >= facts.breakdown.extent_end_ns) & ~blocking.after_cell & ~blocking.at_edge
    return bool((lasted & (2 * blocking.busy_ns > blocking.blocked_ns)).any())


def _say_exposed(facts: Facts, window_ns: int) -> list[str]:
    """Copies and communication that did not overlap with compute, if notable: this time could be saved, too."""
    parts = facts.breakdown
    communication, copies = phrase("communication"), phrase("copies")
    both = ((parts.exposed_communication_ns, communication), (parts.exposed_copy_ns, copies))
    clauses = [
        phrase("{time} in {what}", time=units.duration(ns), what=what)
        for ns, what in sorted(both, reverse=True)
        if ns >= EXPOSED_FRAC * window_ns
    ]
    spent = listed(clauses)
    return [phrase("while busy, it spent {spent} that did not overlap with compute", spent=spent)] if clauses else []
