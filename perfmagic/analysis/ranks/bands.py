"""When a rank did what, for the rows of a picture: whole where its trace is, as shares of some columns elsewhere."""

from __future__ import annotations

import numpy as np

from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.ranks.host_as_device import host_as_device
from perfmagic.numerics.intervals import Intervals, covered_ns, merge, union
from perfmagic.numerics.packed import Columns
from perfmagic.trace.columns import HostKind
from perfmagic.trace.model import Trace

OWN_BANDS = ("host", "blocked", "compute", "copy", "idle")


def own_bands(given: Trace, comm_names: str | None = None) -> dict[str, Intervals]:
    """By the names of OWN_BANDS, in ns of the rank's own clock.

    Python ran a line of the cell, an operator or a call; Python was in a call that blocks it; the device computed,
    copied, was idle between its first op and its last.
    """
    trace = host_as_device(given)
    facts = Facts(trace, comm_names)
    sets, syncs = facts.breakdown.intervals, facts.syncs
    return {
        "host": _python(trace),
        "blocked": union(syncs.start_ns, syncs.end_ns),
        "compute": sets["compute"],
        "copy": merge(sets["copy"], sets["memset"]),
        "idle": sets["idle"],
    }


def in_columns(spans: Intervals, start_ns: int, end_ns: int, columns: int) -> Columns:
    """Intervals as their shares of some columns of [start_ns, end_ns): at most one interval a column, at its beginning.

    Sums of whole columns stay exact; within one nobody knows where it was.
    """
    if len(spans) <= columns:
        return Columns({"start": spans[:, 0], "end": spans[:, 1]})
    edges = np.linspace(start_ns, end_ns, columns + 1).astype(np.int64)
    covered = covered_ns(spans, edges[:-1], edges[1:])
    kept = covered > 0
    merged = union(edges[:-1][kept], edges[:-1][kept] + covered[kept])
    return Columns({"start": merged[:, 0], "end": merged[:, 1]})


def _python(trace: Trace) -> Intervals:
    """When Python ran a line of the cell; of a record without lines, an operator or a call."""
    marks = trace.marks
    if len(marks):
        ends = np.append(marks.at_ns[1:], trace.meta.returned_ns or max(trace.meta.end_ns, int(marks.at_ns[-1])))
        ran = (marks.top_line > 0) & (ends > marks.at_ns)
        return union(marks.at_ns[ran], ends[ran])
    host = trace.host_ops.take(trace.host_ops.kind == HostKind.OP)
    return merge(union(host.start_ns, host.end_ns), union(trace.calls.start_ns, trace.calls.end_ns))
