"""The finding "data loading" and its sentence."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.places import on_time_lines
from perfmagic.analysis.findings.python_was import python_was
from perfmagic.analysis.timeline.loaders import fetches, is_loader
from perfmagic.numerics.intervals import Intervals, intersect, total_ns, union

_ADVICE = "num_workers lets the DataLoader fetch ahead"


def data_loading(facts: Facts, free: Intervals) -> list[Finding]:
    """Device time lost while Python fetched the next batch."""
    host = fetches(facts.trace)
    where = intersect(union(host.start_ns, host.end_ns), free)
    lost_ns = total_ns(where)
    if lost_ns < facts.notable_ns:
        return []
    was = python_was(facts, where)
    held_words = was.words if was.names[2] and not is_loader(was.names[2]) else ""
    lines = np.unique(host.line)
    fetched = f"Python fetched {units.plural(len(host), 'batch', 'batches')}{on_time_lines(facts, where, lines)}"
    return [
        Finding(
            rule="data_loading",
            cost_ns=lost_ns,
            cause="data loading",
            detail=": " + sentences(f"{facts.the_device} waited {units.duration(lost_ns)} while {fetched}", held_words),
            frames=was.frames,
            lines=tuple(int(line) for line in lines if line > 0),
            start_ns=int(where[0, 0]),
            end_ns=int(where[-1, 1]),
            device=facts.device,
            where=where,
            advice=_ADVICE if all("SingleProcess" in facts.trace.names[n] for n in host.name) else "",
        )
    ]
