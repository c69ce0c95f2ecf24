"""The findings "the device began late" and "Python went on alone", and their sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding
from perfmagic.trace.columns import NO_LINE
from perfmagic.trace.correlate import lines_at

ALONE_FRAC = 0.1  # of the window; every cell begins and ends with a little Python


def alone(facts: Facts) -> list[Finding]:
    """A cell whose device began late, or had finished long before Python had."""
    meta, parts, tail = facts.trace.meta, facts.breakdown, facts.cell_time.tail
    if meta.returned_ns is None:  # a file has no beginning and end but its records
        return []
    found = []
    if parts.head_ns >= ALONE_FRAC * facts.window_ns:
        words = f"it had no op{facts.on_device} for the first"
        found.append(_alone(facts, f"{facts.the_device} began late", words, (meta.start_ns, parts.extent_start_ns)))
    if facts.cell_time.tail_ns >= ALONE_FRAC * facts.window_ns:
        words = f"{facts.the_device} had done its last op, and Python worked for another"
        longest = tail[(tail[:, 1] - tail[:, 0]).argmax()].tolist()
        found.append(_alone(facts, "Python went on alone", words, longest))
    return found


def _alone(facts: Facts, cause: str, words: str, where: Sequence[int]) -> Finding:
    start_ns, end_ns = where
    length_ns = end_ns - start_ns
    line = int(lines_at(facts.trace.marks, np.array([start_ns + length_ns // 2]))[0])
    amount = f"{units.duration(length_ns)}, {units.percent(length_ns / facts.window_ns)} of the cell"
    return Finding(
        rule="alone",
        cost_ns=length_ns,
        cause=cause,
        detail=f": {words} {amount}" + (f", on line {line}" if line != NO_LINE else ""),
        lines=(line,) if line != NO_LINE else (),
        start_ns=start_ns,
        end_ns=end_ns,
        device=facts.device,
    )
