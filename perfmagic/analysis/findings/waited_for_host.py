"""The finding "the device waited for Python", which holds what that time was made of, and its sentence."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.places import on_time_lines
from perfmagic.analysis.findings.python_was import python_was
from perfmagic.numerics.intervals import Intervals, clip, total_ns

MOSTLY = 0.9  # of the time, in a stretch that is
SHORT_FRAC = 0.2  # of the window or less: there it belongs, and not to the whole


def waited_for_host(facts: Facts, where: Intervals) -> Finding:
    """All the time that the device waited for what Python, or a call that it was in, would launch next.

    where: that time, not empty.
    """
    cost_ns = total_ns(where)
    of_window = f"{units.percent(cost_ns / facts.window_ns)} of {facts.cell_time.window.name}"
    was = python_was(facts, where)
    return Finding(
        rule="waited_for_host",
        cost_ns=cost_ns,
        cause=f"{facts.the_device} waited {units.duration(cost_ns)} for Python",
        detail=f", {sentences(of_window + _when(facts, where), _on_lines(facts, where), was.words)}",
        lines=(),
        start_ns=int(where[0, 0]),
        end_ns=int(where[-1, 1]),
        device=facts.device,
        where=where,
        frames=was.frames,
    )


def _on_lines(facts: Facts, where: Intervals) -> str:
    """Where in functions that were followed; a cell's own lines are told by the parts of this finding."""
    place = on_time_lines(facts, where, ())
    return f"Python was{place}" if place else ""


def _when(facts: Facts, where: Intervals) -> str:
    """Where nearly all of it lies, if that is a short stretch: a refill after a wait, say, and no habit."""
    begin_ns, length_ns = facts.cell_time.window.start_ns, facts.window_ns
    sums = np.concatenate(([0], np.cumsum(where[:, 1] - where[:, 0])))
    last = np.searchsorted(sums, sums[:-1] + MOSTLY * sums[-1])  # of each first piece
    first = np.flatnonzero(last < len(sums))
    if not len(first):
        return ""
    spans_ns = where[last[first] - 1, 1] - where[first, 0]
    best = int(spans_ns.argmin())
    if spans_ns[best] > SHORT_FRAC * length_ns:
        return ""
    start_ns, end_ns = int(where[first[best], 0]), int(where[last[first[best]] - 1, 1])
    inside = total_ns(clip(where, start_ns, end_ns))
    since = f"from {units.duration(start_ns - begin_ns)} on" if start_ns > begin_ns else "at the beginning"
    part = units.duration(inside)
    part = "all" if part == units.duration(total_ns(where)) else part
    within = f"within {units.duration(end_ns - start_ns)} " if part != "all" or len(where) > 1 else ""
    return f", {part} of it {within}{since}"
