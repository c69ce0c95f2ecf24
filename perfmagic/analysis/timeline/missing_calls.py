"""Calls that the record does not have: their ids jump, and nothing of the host is recorded meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.numerics.intervals import EMPTY, Intervals, merge, subtract, union
from perfmagic.trace.model import Trace

MISSING_CALLS = 100  # ids between neighbours; an eager operator makes some calls that are not kept


@dataclass(frozen=True)
class MissingCalls:
    """The largest jump of ids. where: when nothing of the host was recorded in it, in ns.  first, last: its ids."""

    where: Intervals
    first: int
    last: int


def missing_calls(trace: Trace) -> MissingCalls:
    """Where calls are missing; nothing in a trace of the simulated device, and where ids follow each other.

    Of Python between calls nothing is recorded either; ids that jump by so much say that calls are missing.
    """
    calls = np.flatnonzero(trace.calls.correlation >= 0)
    if trace.simulated or len(calls) < 2:
        return MissingCalls(EMPTY, 0, 0)
    order = calls[np.argsort(trace.calls.start_ns[calls], kind="stable")]
    jump = np.diff(trace.calls.correlation[order])
    row = int(jump.argmax())
    if jump[row] < MISSING_CALLS:
        return MissingCalls(EMPTY, 0, 0)
    between = np.array([[trace.calls.end_ns[order[row]], trace.calls.start_ns[order[row + 1]]]], np.int64)
    tables = (trace.calls, trace.host_ops, trace.python_frames.reaching(between))
    spans = [union(table.start_ns, table.end_ns) for table in tables if len(table)]
    ids = trace.calls.correlation[order[row : row + 2]].tolist()
    return MissingCalls(subtract(between, merge(*spans)), *ids)
