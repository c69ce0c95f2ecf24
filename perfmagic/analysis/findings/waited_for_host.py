"""The finding "the device waited for Python", which holds what that time was made of, and its sentence."""

from __future__ import annotations

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding
from perfmagic.numerics.intervals import Intervals, total_ns


def waited_for_host(facts: Facts, where: Intervals) -> Finding:
    """All the time that the device waited for what Python, or a call that it was in, would launch next.

    where: that time, not empty.
    """
    cost_ns = total_ns(where)
    return Finding(
        rule="waited_for_host",
        cost_ns=cost_ns,
        cause=f"{facts.the_device} waited {units.duration(cost_ns)} for Python",
        detail=f", {units.percent(cost_ns / facts.window_ns)} of {facts.cell_time.window.name}",
        lines=(),
        start_ns=int(where[0, 0]),
        end_ns=int(where[-1, 1]),
        device=facts.device,
        where=where,
    )
