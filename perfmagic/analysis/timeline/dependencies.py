"""Until when a recorded stream wait held an op."""

from __future__ import annotations

import numpy as np

from perfmagic.analysis.timeline.streams import BEFORE_ALL_NS
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.model import Trace


def released_ns(trace: Trace) -> Int64:
    """When the last stream wait that applies to each op let it go, BEFORE_ALL_NS where none does; shape of trace.ops.

    A wait holds the ops of its stream launched after it until all that its other stream was given before the event's
    record has ended; launch order is the order of correlation ids. Source: docs/words.md, "queued".
    """
    ops, waits = trace.ops, trace.waits
    result = np.full(len(ops), BEFORE_ALL_NS, np.int64)
    if not len(waits) or not len(ops):
        return result
    asked = order_of(trace, waits.correlation, waits.at_ns)
    recorded = order_of(trace, waits.on_correlation, waits.at_ns)
    ends = _wait_ends(trace, recorded)
    for device, stream in np.unique(np.column_stack((waits.device, waits.stream)), axis=0).tolist():
        held = np.flatnonzero((ops.device == device) & (ops.stream == stream) & (ops.launch != NONE))
        by = np.flatnonzero((waits.device == device) & (waits.stream == stream))
        by = by[np.argsort(asked[by], kind="stable")]
        until = np.concatenate(([BEFORE_ALL_NS], np.maximum.accumulate(ends[by])))
        result[held] = until[np.searchsorted(asked[by], ops.correlation[held], side="left")]
    return result


def _wait_ends(trace: Trace, recorded: Int64) -> Int64:
    """When the work each wait waits for had ended."""
    ops, waits = trace.ops, trace.waits
    ends = np.full(len(waits), BEFORE_ALL_NS, np.int64)
    on_device = np.where(waits.on_device == NONE, waits.device, waits.on_device)
    for device, stream in np.unique(np.column_stack((on_device, waits.on_stream)), axis=0).tolist():
        work = np.flatnonzero((ops.device == device) & (ops.stream == stream) & (ops.launch != NONE))
        work = work[np.argsort(ops.correlation[work], kind="stable")]
        until = np.concatenate(([BEFORE_ALL_NS], np.maximum.accumulate(ops.end_ns[work])))
        mine = np.flatnonzero((on_device == device) & (waits.on_stream == stream))
        ends[mine] = until[np.searchsorted(ops.correlation[work], recorded[mine], side="right")]
    return ends


def order_of(trace: Trace, correlation: Int64, at_ns: Int64) -> Int64:
    """The correlation id of each row, or where it has none, the largest one given out before the instant."""
    calls = trace.calls
    given = np.concatenate(([NONE], np.maximum.accumulate(calls.correlation) if len(calls) else []))
    before = given[np.searchsorted(calls.start_ns, at_ns, side="left")].astype(np.int64)
    return np.where(correlation != NONE, correlation, before)
