"""The finding "pageable HtoD copies" and its sentence."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, on_lines, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.sync import device_meanwhile, uploads, waiting
from perfmagic.numerics.intervals import Intervals


def pageable(facts: Facts, free: Intervals) -> list[Finding]:
    """Copies from pageable memory to the device that blocked Python."""
    rows = np.flatnonzero(uploads(facts) & ~facts.syncs.after_cell)
    blocked_ns = int(facts.syncs.blocked_ns[rows].sum())
    if blocked_ns < facts.notable_ns:
        return []
    lines = facts.syncs.line[rows]
    n = units.plural(len(rows), "pageable HtoD copy", "pageable HtoD copies")
    held = f" blocked Python for {units.duration(blocked_ns)}{on_lines(lines)}"
    detail = sentences(held, device_meanwhile(facts, rows))
    return [waiting(facts, free, "pageable", rows, n, detail, advice="pin_memory() makes room to overlap")]
