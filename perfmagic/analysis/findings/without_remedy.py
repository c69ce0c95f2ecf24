"""What to do where no finding has a remedy: one answer from what limits the run, or from what the record lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfmagic.analysis.findings.answer import Answer
from perfmagic.analysis.findings.catalogue import action, headline
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.timeline.device_operators import device_operators
from perfmagic.analysis.verdict import (
    COMMUNICATION_BOUND,
    COPY_BOUND,
    DEVICE_BOUND,
    HOST_BOUND,
    HOST_TAIL,
    LATENCY_BOUND,
    MIXED,
    NO_RECORDS,
    NO_VERDICT,
    STALLED,
    START_UP,
)
from perfmagic.base import units
from perfmagic.base.terminal import squeezed

MOST_FRAC = 0.2  # of the device's time: an operator with less is not what makes the work long
_OPERATOR_CHARS = 30  # of a name in a headline
_GAPS = ("many_gaps", "repeated_gap", "longest_gap", "one_by_one", "alone")

# By the verdict: the rules whose finding may say it best, else the headline; and the action.
_BY_KIND: dict[str, tuple[tuple[str, ...], str, str]] = {
    COMMUNICATION_BOUND: (("exposed_communication",), "not_recorded", "overlap"),
    COPY_BOUND: (("exposed_copy",), "not_recorded", "overlap"),
    HOST_BOUND: (_GAPS, "late_python", "see_python"),
    START_UP: (_GAPS, "python_first", "see_python"),
    HOST_TAIL: ((), "python_last", "see_python"),
    LATENCY_BOUND: ((), "short_ops", "larger_ops"),
    MIXED: (("sync",), "wait_in_turn", "queue_ahead"),
    STALLED: (("longest_gap",), "not_recorded", "other_work"),
    NO_VERDICT: ((), "incomplete_record", "record_whole"),
}


def answer_otherwise(facts: Facts, kind: str, verdict: Answer, known: Sequence[Answer]) -> Answer:
    """The one answer of a run without others.

    kind: of the verdict.  verdict: an answer about all of its time.  known: facts without a remedy.
    """
    if kind == NO_RECORDS:
        of_cell = facts.trace.meta.returned_ns is not None
        fact, remedy = ("cpu_alone", "use_device") if of_cell else ("host_alone", "record_device")
        return replace(verdict, headline=headline(fact), action=action(remedy))
    if kind == DEVICE_BOUND:
        return _less_work(facts, verdict)
    rules, fact, remedy = _BY_KIND[kind]
    of_rules = [answer for answer in known if {*rules} & {*answer.rules}]
    spoken = max(of_rules, key=lambda answer: answer.cost_ns or 0, default=replace(verdict, headline=headline(fact)))
    if kind == STALLED and (held_ns := facts.cell_time.stalled_ns) >= facts.notable_ns:
        spoken = replace(spoken, headline=headline("queued_idle", time=units.duration(held_ns)), cost_ns=held_ns)
    return replace(spoken, action=action(remedy))


def _less_work(facts: Facts, verdict: Answer) -> Answer:
    """The operator with most of the device's time; of a simulated device, whose pace is made up, that it had work."""
    by_name: dict[str, float] = {}
    if not facts.trace.simulated:
        for row in device_operators(facts.trace, facts.device, facts.comm_names):
            by_name[row.name] = by_name.get(row.name, 0.0) + row.share_frac
    name = max(by_name, key=by_name.__getitem__, default="")
    if not name or by_name[name] < MOST_FRAC:
        return replace(verdict, headline=headline("device_is_limit"), action=action("leave_python"))
    short = squeezed(name, _OPERATOR_CHARS)
    most = headline("most_of_device", name=short, share=units.percent(by_name[name]))
    return replace(verdict, headline=most, action=action("less_work"))
