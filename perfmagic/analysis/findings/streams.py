"""The finding on streams, that they ran at once or never did, and its sentence."""

from __future__ import annotations

from perfmagic import units
from perfmagic.analysis.findings.copy_overlap import beside_words
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.findings.finding import Finding


def streams(facts: Facts) -> list[Finding]:
    """Whether the streams of the device ran at once."""
    parts, n = facts.breakdown, len(facts.streams)
    if n < 2:
        return []
    at_once_ns = sum(ns for k, ns in parts.concurrency_ns.items() if k >= 2)
    share = (
        f"{units.percent(at_once_ns / parts.busy_ns)} of the time {facts.the_device} was busy" if parts.busy_ns else ""
    )
    several = "2 streams" if n == 2 else f"2 or more of {n} streams"
    cause = f"{several} ran at once" if at_once_ns else f"{n} streams{facts.on_device} never ran at once"
    return [
        Finding(
            rule="streams",
            cost_ns=None,  # what runs apart may lose nothing, or all that is exposed: their findings say
            cause=cause,
            detail=sentences(f" for {units.duration(at_once_ns)}, {share}", beside_words(facts)) if at_once_ns else "",
            lines=(),
            start_ns=parts.extent_start_ns,
            end_ns=parts.extent_end_ns,
            device=facts.device,
        )
    ]
