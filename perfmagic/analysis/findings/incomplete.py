"""The finding "the record is incomplete" and its sentence."""

from __future__ import annotations

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.timeline.trust import trust
from perfmagic.trace.columns import CallKind

NOTABLE_FRAC = 0.01  # of the launches


def incomplete(facts: Facts) -> list[Finding]:
    """Launches without a device record: work that was executed and is not seen."""
    trace = facts.trace
    lost = trust(trace).n_launches_without_op
    launches = int((trace.calls.kind == CallKind.LAUNCH).sum())
    if not lost or lost < NOTABLE_FRAC * launches:
        return []
    n = units.plural(launches, "launch", "launches")
    words = f": {sentences(f'{units.count(lost)} of {n} have no device record', 'busy times are too low')}"
    return [about_the_record(facts, "incomplete", "the record is incomplete", words)]


def about_the_record(facts: Facts, rule: str, cause: str, detail: str) -> Finding:
    """A finding about all of the device's extent, without a cost."""
    parts = facts.breakdown
    return Finding(
        rule=rule,
        cost_ns=None,
        cause=cause,
        detail=detail,
        lines=(),
        start_ns=parts.extent_start_ns,
        end_ns=parts.extent_end_ns,
        device=facts.device,
    )
