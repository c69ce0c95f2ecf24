"""The finding "one graph launch", a fact about how the work was queued, and its sentence."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.timeline.origin import Source, origins

MOST_FRAC = 0.5  # of the device's ops


def graph_launch(facts: Facts) -> list[Finding]:
    """A graph that carries most of a device's ops: the record names no operator inside it."""
    origin, ops = origins(facts.trace), facts.trace.ops
    here = ops.device == facts.device
    graph = here & (origin.source == Source.GRAPH)
    if not graph.any():
        return []
    names, n = np.unique(origin.name[graph], return_counts=True)
    rows = np.flatnonzero(graph & (origin.name == names[np.argmax(n)]))
    if len(rows) <= MOST_FRAC * int(here.sum()):
        return []
    length = ops.end_ns - ops.start_ns
    n_launches = len(np.unique(ops.launch[rows]))
    once = "one graph launch" if n_launches == 1 else f"{units.count(n_launches)} launches of one graph"
    share = f"{units.count(len(rows))} of {units.plural(int(here.sum()), 'device op')}"
    time = f"{units.duration(int(length[rows].sum()))} of {units.duration(int(length[here].sum()))}"
    return [
        Finding(
            rule="graph_launch",
            cost_ns=None,
            cause=once,
            detail=f"{facts.on_device} carried {share}, {time}. Inside a graph the record has kernels and no operators",
            lines=tuple(int(line) for line in np.unique(ops.line[rows])[:3] if line > 0),
            start_ns=int(ops.start_ns[rows].min()),
            end_ns=int(ops.end_ns[rows].max()),
            device=facts.device,
        )
    ]
