"""How long a predicted run may take, and who may decide it, at the ends of what its model leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from perfmagic.analysis import verdict as kinds
from perfmagic.analysis.replay.build import graph_of
from perfmagic.analysis.replay.changes.change import set_lengths
from perfmagic.analysis.replay.changes.host import FasterPython
from perfmagic.analysis.replay.critical_path import critical_path, judge
from perfmagic.analysis.replay.graph import Graph
from perfmagic.analysis.replay.prediction import replayed_in_passing, unreadable
from perfmagic.base.kinds import HOST_SPREAD, UNKNOWN_TIME
from perfmagic.base.numerics.intervals import union
from perfmagic.trace.columns import Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace

# Verdicts that name the same decider
_BY_DEVICE = frozenset({kinds.DEVICE_BOUND, kinds.COPY_BOUND, kinds.COMMUNICATION_BOUND})
_BY_HOST = frozenset({kinds.HOST_BOUND, kinds.START_UP, kinds.HOST_TAIL, kinds.LATENCY_BOUND})


@dataclass(frozen=True)
class Corners:
    """A predicted run with its device and its host as slow and as fast as they may be.

    low_ns, high_ns: between these it takes; the first is all that is known where an op has no model.
    kinds: of the verdicts, that with the slowest device and the fastest host first, its opposite next.
    unknown: names of operators without a model, whose ops take at least what the record has.
    """

    low_ns: int
    high_ns: int
    kinds: tuple[str, ...]
    unknown: tuple[str, ...] = ()

    def rivals(self, kind: str) -> tuple[str, str] | None:
        """Two verdicts that name different deciders; None where all agree.  kind: of the verdict as predicted."""
        known: dict[str, str] = {}
        for each in (*self.kinds, kind):
            known.setdefault(_decider(each), each)
        first, *others = known.values()
        return (first, others[0]) if others else None

    def is_open(self, kind: str) -> bool:
        """Whether the model cannot tell who decides: more time of unknown ops only ever speaks for the device."""
        return self.rivals(kind) is not None or bool(self.unknown and kind not in _BY_DEVICE)


def _decider(kind: str) -> str:
    return "device" if kind in _BY_DEVICE else "host" if kind in _BY_HOST else kind


@once_per_trace
def corners(trace: Trace, device: int | None = None, comm_names: str | None = None) -> Corners | None:
    """The ends of a predicted run; None for a recorded one, and where its record cannot be replayed.

    device: the busiest.  comm_names: as in perfmagic.trace.names.op_classes.
    A run that was recorded and replayed on another GPU has its host as recorded.
    """
    spread = max((info.predicted.spread for info in trace.meta.devices if info.predicted), default=0.0)
    if not spread or not replayed_in_passing(trace):
        return None
    graph = graph_of(trace)
    if unreadable(graph):
        return None
    of_host = (1.0,) if trace.meta.predicted else (1 / HOST_SPREAD, HOST_SPREAD)
    ends = [_judged(graph, by, host, device, comm_names) for by, host in product((spread, 1 / spread), of_host)]
    ends = [ends[0], ends[-1], *ends[1:-1]]
    taken = [run_ns for run_ns, _ in ends]
    return Corners(min(taken), max(taken), tuple(kind for _, kind in ends), unknown_operators(trace))


def _judged(
    graph: Graph, device_times: float, host_times: float, device: int | None, comm_names: str | None
) -> tuple[int, str]:
    """How long a run takes, and its verdict, where its ops and its host take so many times as long."""
    changed = graph.copy()
    rows = np.arange(len(graph.trace.ops))
    set_lengths(changed, rows, np.rint(graph.length_ns[graph.op_node] * device_times).astype(np.int64))
    if host_times != 1:
        changed = FasterPython(1 / host_times).apply(changed, best=True)
    times_ns = changed.replayed_ns()
    end_ns = times_ns[changed.op_node]
    start_ns = end_ns - changed.length_ns[changed.op_node]
    of_device: Int64 = rows if device is None else np.flatnonzero(graph.trace.ops.device == device)
    busy = union(start_ns[of_device], end_ns[of_device])
    judged = judge(critical_path(changed, times_ns, comm_names), busy, ran=(int(start_ns.min()), int(end_ns.max())))
    return judged.run_ns, judged.decided


@once_per_trace
def unknown_operators(trace: Trace) -> tuple[str, ...]:
    """The operators whose ops have no model, in the order of the names."""
    used = np.unique(trace.ops.name).tolist()
    return tuple(
        trace.names[name].removesuffix(UNKNOWN_TIME) for name in used if trace.names[name].endswith(UNKNOWN_TIME)
    )
