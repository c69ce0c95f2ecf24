"""Whether the ops of CUDA graphs are all in the record: where some are missing, the device looks idle."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.timeline.origin import Source, origins
from perfmagic.analysis.timeline.overlap import extent
from perfmagic.analysis.timeline.pauses import gap_pauses
from perfmagic.trace.columns import Int64
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace
from perfmagic.trace.remarks import Remark

# Ops of one graph follow each other without the host: within 14 µs on a V100 (traces/). One recording on an A100 has
# pauses of 6.3 ms there, behind memsets that clear what a missing kernel needs
PAUSE_NS = 100_000
MISSED_FRAC = 0.05  # of the device's extent


@once_per_trace
def incomplete_graphs(trace: Trace) -> Remark | None:
    """Why ops of graphs look missing, in a sentence; None where nothing says so."""
    if trace.simulated or not (origins(trace).source == Source.GRAPH).any():
        return None
    launches: list[int] = []
    missed_ns = longest_ns = extent_ns = 0
    for device in trace.device_ids:
        pauses = gap_pauses(trace, device)
        first_ns, last_ns = extent(trace.ops.take(trace.ops.device == device))
        extent_ns += last_ns - first_ns
        length = pauses.end_ns - pauses.start_ns
        inside = origins(trace).source[pauses.op] == Source.GRAPH
        inside &= trace.ops.launch[_ended_last(trace, device, pauses.start_ns)] == trace.ops.launch[pauses.op]
        inside &= length >= PAUSE_NS
        missed_ns += int(length[inside].sum())
        longest_ns = max(longest_ns, int(length[inside].max(initial=0)))
        launches += np.unique(trace.ops.launch[pauses.op[inside]]).tolist()
    if missed_ns < MISSED_FRAC * extent_ns:
        return None
    # pauses that another graph's op begins are not counted, though ops may be missing there as well
    within = f"within at least {units.plural(len(launches), 'graph launch', 'graph launches')} nothing is recorded"
    words = (
        f"ops of CUDA graphs look missing: {within} for at least {units.duration(missed_ns)}, where ops of a graph "
        "follow each other within microseconds"
    )
    return Remark("graph_ops", words, {"n_graphs": len(launches), "missed_ns": missed_ns, "longest_ns": longest_ns})


def _ended_last(trace: Trace, device: int, at_ns: Int64) -> Int64:
    """Of the device's ops that started before some instants, the one that ended last; rows of trace.ops."""
    rows = np.flatnonzero(trace.ops.device == device)
    end = trace.ops.end_ns[rows]
    number = np.arange(len(rows))
    latest = np.maximum.accumulate(np.where(end >= np.maximum.accumulate(end), number, 0))
    started = np.searchsorted(trace.ops.start_ns[rows], at_ns, side="left")
    found: Int64 = rows[latest[np.maximum(started - 1, 0)]]
    return found
