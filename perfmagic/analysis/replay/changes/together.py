"""Several changes at once, in whichever order they are given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.changes.host_time import TakesPython, without_python
from perfmagic.analysis.replay.graph import Graph
from perfmagic.numerics.intervals import union


def applied(graph: Graph, changes: Sequence[Change], *, best: bool) -> Graph:
    """The graph with several changes, made in the order of their stages. What two take from Python is taken once."""
    taking = [change for change in changes if isinstance(change, TakesPython)]
    changed = graph
    if taking:
        spans = np.concatenate([change.during(graph) for change in taking])
        changed = without_python(graph, union(spans[:, 0], spans[:, 1]))
    others = (change for change in changes if not isinstance(change, TakesPython))
    for change in sorted(others, key=lambda one: (one.stage, type(one).__name__)):
        changed = change.apply(changed, best=best)
    return changed
