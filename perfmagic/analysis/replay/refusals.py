"""When a record does not carry a prediction, and why, in a sentence."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.replay.critical_path import run_begins_ns
from perfmagic.analysis.replay.device_ops import UNEXPLAINED_NS
from perfmagic.analysis.replay.graph import Graph
from perfmagic.analysis.timeline.graph_record import incomplete_graphs
from perfmagic.analysis.timeline.missing_calls import missing_calls
from perfmagic.analysis.timeline.sample import sample
from perfmagic.numerics.intervals import total_ns, union
from perfmagic.trace.columns import NONE
from perfmagic.trace.model import Trace

UNEXPLAINED_FRAC = 0.1  # it parts 35 of 42 real traces, below 8 %, from seven above 17 %
# An op of the simulated device lasts 1.4 to 3 times its pace below this length: threads of the host take turns
JITTER_NS = 300_000
JITTER_FRAC = 0.2


def refusal(graph: Graph) -> str:
    """Why no change of this record can be predicted; "" where it can."""
    return unreadable(graph) or _unsteady(graph.trace) or (_jitter(graph) if graph.trace.simulated else "")


def unreadable(graph: Graph) -> str:
    """Why the record does not even say what held the run; "" where it does."""
    trace = graph.trace
    if not len(trace.ops):
        return "no device op was recorded"
    if not (trace.ops.launch != NONE).any():
        return "no launch was recorded: when ops were queued is unknown"
    return _incomplete(trace) or _missing(graph) or _unexplained(graph)


def _incomplete(trace: Trace) -> str:
    meta = trace.meta
    if meta.dropped_events:
        return f"{units.plural(meta.dropped_events, 'event')} beyond the limit are missing from the record"
    found = incomplete_graphs(trace) or sample(trace)
    return found.words if found else ""


def _missing(graph: Graph) -> str:
    """That calls are missing from the record for so long that what Python did is not known."""
    run_ns = graph.end_ns - run_begins_ns(graph)
    missing_ns = total_ns(missing_calls(graph.trace).where)
    if missing_ns <= UNEXPLAINED_FRAC * run_ns:
        return ""
    return f"for {units.duration(missing_ns)} the record holds nothing of the host: calls are missing from it"


def _unsteady(trace: Trace) -> str:
    if trace.meta.predicted:
        return "this is a prediction itself"
    if trace.meta.failed:
        return "the cell failed"
    return "a wait between streams is missing: the cell computes something else each time" if trace.meta.races else ""


def _unexplained(graph: Graph) -> str:
    share = unexplained_frac(graph)
    if share <= UNEXPLAINED_FRAC:
        return ""
    return f"nothing in the record explains {units.percent(share)} of the time: ops began late with all done"


def unexplained_frac(graph: Graph) -> float:
    """The share of the run in which some op was late for reasons that the record does not show."""
    late_ns = graph.unexplained_ns
    rows = np.flatnonzero(late_ns > UNEXPLAINED_NS)
    start_ns = graph.trace.ops.start_ns[rows]
    run_ns = graph.end_ns - run_begins_ns(graph)
    return total_ns(union(start_ns - late_ns[rows], start_ns)) / run_ns if run_ns else 0.0


def _jitter(graph: Graph) -> str:
    """Ops of the simulated device too short for their lengths to be its own."""
    ops = graph.trace.ops
    length_ns = ops.end_ns - ops.start_ns
    run_ns = graph.end_ns - run_begins_ns(graph)
    if int(length_ns[length_ns < JITTER_NS].sum()) <= JITTER_FRAC * run_ns:
        return ""
    words = units.duration(JITTER_NS)
    return f"ops of the simulated device below {words} last as long as the host's threads let them: pace them longer"
