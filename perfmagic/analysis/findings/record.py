"""The findings on the record as a whole: streams, steps, missing waits, clocks, missing device records, its ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfmagic.analysis.findings.advice import shortest_name
from perfmagic.analysis.findings.catalogue import action, count_things, headline
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import (
    Finding,
    Outcome,
    Silent,
    on_lines,
    on_time_lines,
    python_was,
    too_few,
    too_short,
)
from perfmagic.analysis.replay.prediction import in_passing, why_no_path
from perfmagic.analysis.timeline.activity import orphans
from perfmagic.analysis.timeline.host_time import main_thread
from perfmagic.analysis.timeline.steps import StepOut, begins_in_step, outstanding
from perfmagic.analysis.timeline.trust import COUNTS, ends_early, is_cut, trust
from perfmagic.base import units
from perfmagic.base.language import chained, counted, listed, phrase, sentences
from perfmagic.base.numerics.intervals import Intervals, clip, intersect, total_ns, union
from perfmagic.base.terminal import squeezed
from perfmagic.trace.columns import NO_LINE, NONE, CallKind, Hazard, HostKind, lines_at
from perfmagic.trace.model import Trace
from perfmagic.trace.names import kernel_short_names, unknown_operators


def streams(facts: Facts) -> Outcome:
    """Whether the streams of the device ran concurrently."""
    parts, n = facts.breakdown, len(facts.streams)
    if n < 2:
        ran = counted(n, "{device} ran ops on {n} stream", "{device} ran ops on {n} streams", device=facts.the_device)
        return too_few(ran, n, 2)
    concurrent_ns = sum(ns for k, ns in parts.concurrency_ns.items() if k >= 2)
    # whether streams that do not overlap cost time is up to the findings on exposed time
    if not concurrent_ns:
        never = phrase("{n} streams{where} never ran concurrently", n=n, where=facts.on_device)
        return [facts.finding(rule="streams", cause=never, detail="")]
    share = phrase(
        " for {time}, {share} of the time {device} was busy",
        time=units.duration(concurrent_ns),
        share=units.percent(concurrent_ns / parts.busy_ns),
        device=facts.the_device,
    )
    pinned = facts.pinned_copies
    copies = pinned.overlap_reason if pinned and pinned.overlap and pinned.own_stream else ""
    some = phrase("2 or more of {n} streams ran concurrently", n=n)
    cause = phrase("2 streams ran concurrently") if n == 2 else some
    return [facts.finding(rule="streams", cause=cause, detail=sentences(share, copies))]


# The finding "a wait is missing", of memory that two streams use, one of them to write, and its sentence.

# what the later and the earlier op do with the memory
RACES = {
    Hazard.READ_AFTER_WRITE: "{later} uses on stream {a} what {earlier} writes on stream {b}{times}",
    Hazard.WRITE_AFTER_READ: "{later} overwrites on stream {a} what {earlier} reads on stream {b}{times}",
    Hazard.WRITE_AFTER_WRITE: "{later} overwrites on stream {a} what {earlier} writes on stream {b}{times}",
}


def race(facts: Facts) -> Outcome:
    """Where an op used or overwrote memory that another stream uses, with no wait between: on simulated devices only.

    One finding for each kind, pair of lines and pair of streams: a function on one line may lack a wait in both
    directions. The simulated device keeps the order nevertheless, so the values are right here.
    """
    trace = facts.trace
    if not trace.meta.races:
        only = phrase("only the simulated device sees missing waits")
        return Silent(phrase("no missing wait was seen") if trace.simulated else only)
    row_of = {int(c): row for row, c in enumerate(trace.ops.correlation.tolist()) if c != NONE}
    pairs: dict[tuple[Hazard, tuple[tuple[int, int], ...]], list[tuple[int, int]]] = {}
    for later, earlier, kind in trace.meta.races:
        if later in row_of and earlier in row_of:
            both = row_of[later], row_of[earlier]
            places = tuple((int(trace.ops.line[row]), int(trace.ops.stream[row])) for row in both)
            pairs.setdefault((kind, places), []).append(both)
    findings = [
        _race_finding(facts, kind, ops) for (kind, _), ops in sorted(pairs.items(), key=lambda pair: pair[0][::-1])
    ]
    return findings or Silent(phrase("the ops without a wait lie outside this part of the record"))


def _race_finding(facts: Facts, kind: Hazard, pairs: list[tuple[int, int]]) -> Finding:
    trace, both = facts.trace, pairs[0]
    short = kernel_short_names(trace)
    lines = [int(trace.ops.line[row]) for row in both]
    streams = [int(trace.ops.stream[row]) for row in both]
    later, earlier = (
        phrase("{name}{where}", name=short[trace.names[trace.ops.name[row]]], where=on_lines([line]))
        for row, line in zip(both, lines, strict=True)
    )
    times = f", ×{units.count(len(pairs))}" if len(pairs) > 1 else ""
    uses = phrase(RACES[kind], later=later, a=streams[0], earlier=earlier, b=streams[1], times=times)
    rows = np.array(pairs)
    return Finding(
        rule="race",
        cost_ns=None,  # a wrong result is not a matter of time
        cause=phrase("a wait is missing, and on a GPU the result may be wrong"),
        detail=phrase(": {detail}", detail=sentences(uses, phrase("only the simulated device keeps this order"))),
        lines=tuple(sorted({line for line in lines if line > 0})),
        start_ns=int(trace.ops.start_ns[rows].min()),
        end_ns=int(trace.ops.end_ns[rows].max()),
        device=facts.device,
        advice=phrase("Stream {a} must wait for stream {b} first, with wait_stream()", a=streams[0], b=streams[1]),
        headline=headline("race", a=streams[0], b=streams[1]),
        action=action("wait_stream", a=streams[0], b=streams[1]),
    )


# The finding "steps stand out" and its sentence.

NAMED = 3  # steps that a sentence lists; the table has all
NAMED_FRAC = 0.1  # of the excess over the median step; the sentence omits smaller parts


def step(facts: Facts) -> Outcome:
    """Training steps that took the device much longer than the median one.

    It has no cost of its own: the time that a long step lost belongs to the findings about that time.
    """
    out = sorted(outstanding(facts.trace, facts.steps, facts.comm_names), key=lambda step: -step.lap_ns)
    if not out:
        n = sum(bool(step.n_ops) for step in facts.steps)
        none = counted(n, "none of {n} step stands out", "none of {n} steps stands out")
        return Silent(none if n else phrase("no training step was recorded"))
    numbers = [str(step.number) for step in out[:NAMED]]
    several = len(out) > 1
    more = phrase(" and {n} more", n=units.count(len(out) - NAMED)) if len(out) > NAMED else ""
    took = phrase(
        "{step} took {time}, the median step {median}",
        step=phrase("step {n}", n=out[0].number) if several else phrase("it"),
        time=units.duration(out[0].lap_ns),
        median=units.duration(out[0].median_ns),
    )
    return [
        Finding(
            rule="step",
            cost_ns=None,
            cause=counted(
                len(out),
                "step {steps}{more} stands out",
                "steps {steps}{more} stand out",
                steps=listed(numbers),
                more=more,
            ),
            detail=phrase(": {detail}", detail=sentences(took, _why(out[0]))),
            lines=(),
            start_ns=out[0].start_ns,
            end_ns=out[0].end_ns,
            device=facts.device,
        )
    ]


def _why(out: StepOut) -> str:
    """Which parts make a step longer than the median one, the longest first."""
    least = NAMED_FRAC * (out.lap_ns - out.median_ns)
    parts = sorted(((ns, name) for name, ns in out.parts_ns.items() if ns >= least), reverse=True)
    more = [phrase("{time} more {what}", time=units.duration(ns), what=phrase(name)) for ns, name in parts]
    return phrase("it has {parts}", parts=listed(more)) if more else ""


def missing_record(trace: Trace) -> tuple[str, str]:
    """What the record lacks, and what to do for it to be recorded: keys of the catalogue."""
    launched = not trace.simulated and bool((trace.calls.kind == CallKind.LAUNCH).any())
    if is_cut(trace):
        return "cut_file", "export_again"
    if any(note.kind == "no_device_plane" for note in trace.meta.notes):
        return "cpu_alone", "jax_device"
    if trace.meta.returned_ns is not None and not launched:
        return "cpu_alone", "use_device"
    return "host_alone", "record_device"


NOTABLE_FRAC = 0.01  # of the launches


def incomplete(facts: Facts) -> Outcome:
    """Launches without a device record: their work was executed but is not in the record."""
    trace = facts.trace
    missing = trust(trace).n_launches_without_op
    launches = int((trace.calls.kind == CallKind.LAUNCH).sum())
    n = count_things(launches, "launch")
    without_record = phrase("{n} of {launches} have no device record", n=units.count(missing), launches=n)
    if not missing:
        return Silent(phrase("every launch has its device record"))
    if missing < NOTABLE_FRAC * launches:
        return too_few(without_record, missing, NOTABLE_FRAC * launches)
    too_low, early = phrase("the busy times are too low"), phrase("the record ends before they ran")
    why = early if ends_early(trace) else too_low
    detail = phrase(": {detail}", detail=sentences(without_record, why))
    return [facts.finding(rule="incomplete", cause=phrase("the record is incomplete"), detail=detail)]


# The finding "host and device clocks disagree" and its sentence.

NOTABLE_CLOCK_FRAC = 0.01  # of the ops


def clocks(facts: Facts) -> Outcome:
    """Ops that start before their launch: the clocks of host and device disagree."""
    trace = facts.trace
    ahead = trace.launch_start_ns() - trace.ops.start_ns
    rows = np.flatnonzero(ahead > 0)
    if not len(rows):
        return Silent(phrase("no op starts before its launch"))
    most_ns = int(ahead.max())
    early = counted(
        len(rows),
        "{n} op starts before the launch, by up to {time}",
        "{n} ops start before the launch, by up to {time}",
        time=units.duration(most_ns),
    )
    least = NOTABLE_CLOCK_FRAC * max(1, len(trace.ops))
    if len(rows) < least:
        return too_few(early, len(rows), least)
    wrong = phrase("times in the queue are wrong by up to that much")
    detail = phrase(": {detail}", detail=sentences(early, wrong))
    return [facts.finding(rule="clocks", cause=phrase("host and device clocks disagree"), detail=detail)]


# The findings "start-up", "the device started late" and "Python finished last", and their sentences.

ALONE_FRAC = 0.1  # of the window; every cell starts and ends with a little Python


def began_late(facts: Facts, free: Intervals) -> Outcome:
    """A cell whose device ran nothing for a long time at the start, because Python had launched nothing."""
    meta, start_ns = facts.trace.meta, facts.breakdown.extent_start_ns
    where = clip(free, meta.start_ns, start_ns)
    if meta.returned_ns is None:
        return Silent(phrase("a file starts with its first record: what came before is not known"))
    if not len(where) or total_ns(where) < ALONE_FRAC * facts.window_ns:
        waited = phrase("before its first op, {device} waited", device=facts.the_device)
        return _too_little(facts, waited, total_ns(where))
    cause = phrase("{device} started late", device=facts.the_device)
    return [
        _python_alone(facts, cause, phrase("it ran no op for the first {time}", time=_of_cell(facts, where)), where)
    ]


_NAMED, _HEADLINE_NAMES = 4, 30  # operators in one sentence, and characters of them in a headline


def no_model(facts: Facts) -> Outcome:
    """Operators of a predicted run whose time no model gives, so that it may take longer by any time."""
    names = unknown_operators(facts.trace)
    if not names:
        return Silent(phrase("every operator has a model, or its time was measured"))
    shown = chained("{a}, {b}", (*names[:_NAMED], *(["…"] if len(names) > _NAMED else [])))
    cause = counted(len(names), "{n} operator has no model", "{n} operators have no model")
    detail = phrase(": {names}. The time of their ops is a lower bound: bytes divided by bandwidth", names=shown)
    fact = headline("no_model", names=squeezed(shown, _HEADLINE_NAMES))
    return [replace(facts.finding(rule="no_model", cause=cause, detail=detail), headline=fact)]


def start_up(facts: Facts) -> Outcome:
    """Calls into the runtime or driver before the first op of a file."""
    trace, first_ns = facts.trace, facts.first_queued_ns
    calls, begun_ns = trace.calls, trace.meta.start_ns
    if trace.meta.returned_ns is not None or trace.simulated or not len(calls):
        return Silent(
            phrase("start-up is visible only in files that record a real device and the calls into its runtime")
        )
    before_ns = np.minimum(calls.end_ns, first_ns) - np.maximum(calls.start_ns, begun_ns)
    before = np.flatnonzero(before_ns > 0)
    in_calls_ns = total_ns(clip(union(calls.start_ns[before], calls.end_ns[before]), begun_ns, first_ns))
    if not in_calls_ns:
        return _prepared(facts, in_calls_ns)
    works = before[calls.kind[before] != CallKind.SYNC]  # a profiler waits there itself
    if not len(works):
        return _prepared(facts, in_calls_ns)
    longest = int(works[before_ns[works].argmax()])
    name, longest_ns, passed_ns = trace.names[calls.name[longest]], int(before_ns[longest]), first_ns - begun_ns
    inside = phrase(", {time} of it in one {name}", time=units.duration(longest_ns), name=name)
    fact = headline("cold", time=units.duration(passed_ns))
    if in_calls_ns < max(1, ALONE_FRAC * facts.window_ns):
        same = (calls.name == calls.name[longest]) & (calls.start_ns > first_ns)
        later_ns = int((calls.end_ns - calls.start_ns)[same].max(initial=0))
        # pinning takes as long as its size asks
        is_pinning = "Host" in name
        if is_pinning or not later_ns or longest_ns < max(COLD_RATIO * later_ns, COLD_FRAC * facts.window_ns):
            return _prepared(facts, in_calls_ns)
        begun_ns = int(calls.start_ns[longest])
        fact = headline("first_call", time=units.duration(longest_ns), call=name)
        later = phrase("; later ones took {time} at most", time=units.duration(later_ns))
        inside = phrase("{a}{b}", a=inside, b=later)
    return [
        Finding(
            rule="alone",
            cost_ns=None,
            cause=phrase("start-up"),
            detail=phrase(": {detail}", detail=_passed(facts, passed_ns, inside)),
            lines=(),
            start_ns=begun_ns,
            end_ns=first_ns,
            device=facts.device,
            advice=phrase("The first calls initialize the device: run the cell once before recording"),
            headline=fact,
            action=action("warm_up"),
        )
    ]


NEARLY_ALL_FRAC = 0.9  # of the time before the first op, in the function that an answer about all of it names


def _prepared(facts: Facts, in_calls_ns: int) -> Outcome:
    """What Python did before the first op of a file, where that was not in calls into the driver."""
    begun_ns, first_ns = facts.trace.meta.start_ns, facts.first_queued_ns
    passed_ns = first_ns - begun_ns
    if passed_ns < ALONE_FRAC * (facts.trace.meta.end_ns - begun_ns):
        return _too_little(facts, phrase("calls before the first op took"), in_calls_ns)
    # the answer is about all of this time: it names a function that held nearly all of it
    head = np.array([[begun_ns, first_ns]])
    was = python_was(facts.trace, np.array([main_thread(facts.trace)]), head, NEARLY_ALL_FRAC)
    loads = any("DataLoader" in name for name in was.names)
    name = phrase("the DataLoader") if loads else shortest_name(was)
    operator, _, frame = was.names
    cold = not frame and not loads and _is_cold(facts.trace, operator, first_ns)
    of_cold, of_start = ("cold_in", "start_up_in") if name else ("cold", "start_up")
    of_each_step = begins_in_step(facts.trace, first_ns)
    prepare = action("warm_up" if cold else "prepare_ahead" if of_each_step else "prepare")
    return [
        Finding(
            rule="alone",
            cost_ns=None,
            cause=phrase("start-up"),
            detail=phrase(": {detail}", detail=sentences(_passed(facts, passed_ns), was.sentence)),
            lines=(),
            start_ns=begun_ns,
            end_ns=first_ns,
            device=facts.device,
            frames=was.frames,
            headline=headline(of_cold if cold else of_start, time=units.duration(passed_ns), name=name),
            action=action("workers") if loads else prepare,
        )
    ]


def _passed(facts: Facts, passed_ns: int, inside: str = "") -> str:
    return phrase(
        "{time} of the record passed before the first op{where}{inside}",
        time=units.duration(passed_ns),
        where=facts.on_device,
        inside=inside,
    )


COLD_RATIO = 4  # of the first to the later ones
COLD_FRAC = 0.02  # of the extent, in one such call


def _is_cold(trace: Trace, operator: str, first_ns: int) -> bool:
    """Whether an operator took far longer before the first op than ever after: then it initialized a library."""
    host = trace.host_ops
    rows = (host.kind == HostKind.OP) & np.array([name == operator for name in trace.names], bool)[host.name]
    length_ns, early = host.end_ns - host.start_ns, host.start_ns < first_ns
    later_ns = length_ns[rows & ~early]
    return bool(len(later_ns)) and bool(length_ns[rows & early].max(initial=0) > COLD_RATIO * later_ns.max())


def went_on_alone(facts: Facts, free: Intervals) -> Outcome:
    """A cell whose device finished long before Python did; not where the verdict says so already."""
    where = intersect(free, facts.cell_time.tail)
    if not len(where) or total_ns(where) < ALONE_FRAC * facts.window_ns:
        return _too_little(facts, phrase("after the last op, Python worked for"), total_ns(where))
    sentence = phrase(
        "{device} had finished its last op, and Python worked for another {time}",
        device=facts.the_device,
        time=_of_cell(facts, where),
    )
    return [_python_alone(facts, phrase("Python finished last"), sentence, where)]


def _of_cell(facts: Facts, where: Intervals) -> str:
    """How long some time is, and its share: "9.12 ms, 12 % of the cell"."""
    ns = total_ns(where)
    share = units.percent(ns / facts.window_ns)
    return phrase("{time}, {share} of the cell", time=units.duration(ns), share=share)


def _too_little(facts: Facts, what: str, ns: int) -> Silent:
    return too_short(what, ns, max(1, ALONE_FRAC * facts.window_ns), facts.describe_share(ALONE_FRAC))


def _python_alone(facts: Facts, cause: str, sentence: str, where: Intervals) -> Finding:
    cost_ns = total_ns(where)
    longest = where[(where[:, 1] - where[:, 0]).argmax()]
    line = int(lines_at(facts.trace.marks, np.array([longest.sum() // 2]))[0])
    place = on_time_lines(facts.trace, where, [line])
    return Finding(
        rule="alone",
        cost_ns=cost_ns,
        cause=cause,
        detail=phrase(": {fact},{where}", fact=sentence, where=place)
        if place
        else phrase(": {detail}", detail=sentence),
        lines=(line,) if line != NO_LINE else (),
        start_ns=int(where[0, 0]),
        end_ns=int(where[-1, 1]),
        device=facts.device,
        where=where,
    )


# What answers warn of.


def warnings(facts: Facts) -> tuple[str, ...]:
    """What to know about the record itself."""
    trace, warned = facts.trace, []
    if lost := trust(trace).n_launches_without_op:
        warned.append(counted(lost, *COUNTS["n_launches_without_op"]))
    starts = [table.start_ns.min() for table in (trace.calls, trace.host_ops) if len(table)]
    early = trace.ops.start_ns < min(starts) if starts and trace.meta.returned_ns is None else np.zeros(0, bool)
    if early.any():
        early |= orphans(trace)
        time = units.duration(total_ns(union(trace.ops.start_ns[early], trace.ops.end_ns[early])))
        warned.append(headline("mid_flight", n=count_things(int(early.sum()), "op"), time=time))
    if len(trace.python_frames):
        warned.append(headline("stacks"))
    if in_passing(trace) and (why := why_no_path(trace, facts.comm_names)):
        warned.append(why.capitalised())
    return tuple(warned)
