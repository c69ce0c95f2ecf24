"""The findings on the record as a whole: streams, steps, missing waits, clocks and missing device records."""

from __future__ import annotations

import numpy as np

from perfmagic.analysis.findings.catalogue import action, headline
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding, Outcome, Silent, too_few
from perfmagic.analysis.timeline.steps import StepOut, outstanding
from perfmagic.analysis.timeline.trust import trust
from perfmagic.base import units
from perfmagic.base.units import listed, sentences
from perfmagic.trace.columns import NONE, CallKind, Hazard
from perfmagic.trace.names import kernel_short_names


def streams(facts: Facts) -> Outcome:
    """Whether the streams of the device ran concurrently."""
    parts, n = facts.breakdown, len(facts.streams)
    if n < 2:
        return Silent(f"{facts.the_device} ran ops on {units.plural(n, 'stream')}, and the threshold is 2", n, 2)
    concurrent_ns = sum(ns for k, ns in parts.concurrency_ns.items() if k >= 2)
    share = (
        f"{units.percent(concurrent_ns / parts.busy_ns)} of the time {facts.the_device} was busy"
        if parts.busy_ns
        else ""
    )
    pinned = facts.pinned_copies
    copies = pinned.overlap_reason if pinned and pinned.overlap and pinned.own_stream else ""
    several = "2 streams" if n == 2 else f"2 or more of {n} streams"
    cause = f"{several} ran concurrently" if concurrent_ns else f"{n} streams{facts.on_device} never ran concurrently"
    detail = sentences(f" for {units.duration(concurrent_ns)}, {share}", copies) if concurrent_ns else ""
    # whether streams that do not overlap cost time is up to the findings on exposed time
    return [facts.finding(rule="streams", cause=cause, detail=detail)]


# The finding "a wait is missing", of memory that two streams use, one of them to write, and its sentence.

# what the later and the earlier op do with the memory
_WORDS = {
    Hazard.READ_AFTER_WRITE: ("uses", "writes"),
    Hazard.WRITE_AFTER_READ: ("overwrites", "reads"),
    Hazard.WRITE_AFTER_WRITE: ("overwrites", "writes"),
}


def race(facts: Facts) -> Outcome:
    """Where an op used or overwrote memory that another stream uses, with no wait between: on simulated devices only.

    One finding for each kind, pair of lines and pair of streams: a function on one line may lack a wait in both
    directions. The simulated device keeps the order nevertheless, so the values are right here.
    """
    trace = facts.trace
    if not trace.meta.races:
        return Silent("no missing wait was seen" if trace.simulated else "only the simulated device sees missing waits")
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
    return findings or Silent("the ops without a wait lie outside this part of the record")


def _race_finding(facts: Facts, kind: Hazard, pairs: list[tuple[int, int]]) -> Finding:
    trace, both = facts.trace, pairs[0]
    short = kernel_short_names(trace)
    names = [short[trace.names[trace.ops.name[row]]] for row in both]
    lines = [int(trace.ops.line[row]) for row in both]
    streams = [int(trace.ops.stream[row]) for row in both]
    actions = [
        f"{name}{f' on line {line}' if line > 0 else ''} {verb} on stream {stream}"
        for name, line, verb, stream in zip(names, lines, _WORDS[kind], streams, strict=True)
    ]
    times = f", ×{units.count(len(pairs))}" if len(pairs) > 1 else ""
    rows = np.array(pairs)
    return Finding(
        rule="race",
        cost_ns=None,  # a wrong result is not a matter of time
        cause="a wait is missing, and on a GPU the result may be wrong",
        detail=f": {sentences(f'{actions[0]} what {actions[1]}{times}', 'only the simulated device keeps this order')}",
        lines=tuple(sorted({line for line in lines if line > 0})),
        start_ns=int(trace.ops.start_ns[rows].min()),
        end_ns=int(trace.ops.end_ns[rows].max()),
        device=facts.device,
        advice=f"Stream {streams[0]} must wait for stream {streams[1]} first, with wait_stream()",
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
        return Silent(f"none of {units.plural(n, 'step')} stands out" if n else "no training step was recorded")
    numbers = [str(step.number) for step in out[:NAMED]]
    several = len(out) > 1
    which = f"step{'s' if several else ''} {listed(numbers)}"
    more = f" and {units.count(len(out) - NAMED)} more" if len(out) > NAMED else ""
    longest = f"step {out[0].number} took " if several else "it took "
    took = f"{longest}{units.duration(out[0].lap_ns)}, the median step {units.duration(out[0].median_ns)}"
    return [
        Finding(
            rule="step",
            cost_ns=None,
            cause=f"{which}{more} stand{'' if several else 's'} out",
            detail=": " + sentences(took, _why(out[0])),
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
    more = [f"{units.duration(ns)} more {name}" for ns, name in parts]
    return f"it has {listed(more)}" if more else ""


NOTABLE_FRAC = 0.01  # of the launches


def incomplete(facts: Facts) -> Outcome:
    """Launches without a device record: their work was executed but is not in the record."""
    trace = facts.trace
    missing = trust(trace).n_launches_without_op
    launches = int((trace.calls.kind == CallKind.LAUNCH).sum())
    n = units.plural(launches, "launch", "launches")
    without_record = f"{units.count(missing)} of {n} have no device record"
    if not missing:
        return Silent("every launch has its device record")
    if missing < NOTABLE_FRAC * launches:
        return too_few(without_record, missing, NOTABLE_FRAC * launches)
    detail = f": {sentences(without_record, 'the busy times are too low')}"
    return [facts.finding(rule="incomplete", cause="the record is incomplete", detail=detail)]


# The finding "host and device clocks disagree" and its sentence.

NOTABLE_CLOCK_FRAC = 0.01  # of the ops


def clocks(facts: Facts) -> Outcome:
    """Ops that start before their launch: the clocks of host and device disagree."""
    trace = facts.trace
    ahead = trace.launch_start_ns() - trace.ops.start_ns
    rows = np.flatnonzero(ahead > 0)
    if not len(rows):
        return Silent("no op starts before its launch")
    most_ns = int(ahead.max())
    n = units.plural(len(rows), "op starts", "ops start")
    early = f"{n} before the launch, by up to {units.duration(most_ns)}"
    least = NOTABLE_CLOCK_FRAC * max(1, len(trace.ops))
    if len(rows) < least:
        return too_few(early, len(rows), least)
    detail = f": {sentences(early, 'times in the queue are wrong by up to that much')}"
    return [facts.finding(rule="clocks", cause="host and device clocks disagree", detail=detail)]
