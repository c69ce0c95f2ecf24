"""What a record without device ops says of the host: the verdict where there is no device to judge."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.facts import sentences
from perfmagic.analysis.timeline.host_time import STEP_NAME
from perfmagic.numerics.intervals import Intervals, intersect, total_ns, union
from perfmagic.trace.columns import HostKind, Int64
from perfmagic.trace.hoststack import operator_stack
from perfmagic.trace.model import Trace

OUTSIDE_FRAC = 0.1  # of what the host recorded; Python between operators takes some of any time
MOSTLY_FRAC = 0.5  # of the record without an operator: then the operators are not what took the time
ONE_CALL_FRAC = 0.7  # of an operator's time in one of its calls: that was a wait more likely than work
NAMED = 3


def host_only(trace: Trace) -> tuple[str, tuple[int, ...]]:
    """What the host did, in words, and the lines concerned: none.

    First its outermost operators with the largest sums; where most of the time passed outside of these, first the
    annotations that it passed in.
    """
    ops = trace.host_ops
    levels = operator_stack(trace).levels.values()
    rows = np.concatenate([level[0] for level in levels]) if levels else np.zeros(0, np.int64)
    if not len(rows):
        return "the device ran nothing that was recorded", ()
    inside = union(ops.start_ns[rows], ops.end_ns[rows])
    length_ns = int(ops.end_ns.max()) - int(ops.start_ns.min())
    outside_ns = length_ns - total_ns(inside)
    longest = f"the host's longest operators, with what they called: {', '.join(_longest(trace, rows))}"
    annotated = _annotated(trace, inside)
    if outside_ns < OUTSIDE_FRAC * length_ns:
        return sentences(longest, annotated), ()
    share = f"{units.percent(outside_ns / length_ns)} of the record"
    part = f"{units.duration(outside_ns)} of {units.duration(length_ns)}"
    outside = f"{share}, {part}, passed outside of every recorded operator"
    if outside_ns < MOSTLY_FRAC * length_ns:
        return sentences(longest, outside, annotated), ()
    return sentences(outside, annotated, longest), ()


def _longest(trace: Trace, rows: Int64) -> list[str]:
    """The operators with the largest sums, and where one call is most of it, that."""
    ops = trace.host_ops
    length_ns = ops.end_ns[rows] - ops.start_ns[rows]
    names, inverse, n_calls = np.unique(ops.name[rows], return_inverse=True, return_counts=True)
    sums, most = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    np.add.at(sums, inverse, length_ns)
    np.maximum.at(most, inverse, length_ns)
    words = []
    for i in np.argsort(-sums, kind="stable")[:NAMED].tolist():
        one = n_calls[i] > 1 and most[i] >= ONE_CALL_FRAC * sums[i]
        where = f" ({units.duration(int(most[i]))} in one of {units.count(int(n_calls[i]))} calls)" if one else ""
        words.append(f"{trace.names[names[i]]} {units.duration(int(sums[i]))}{where}")
    return words


def _annotated(trace: Trace, inside: Intervals) -> str:
    """The longest annotations, which say whose time it was where operators are missing; "" where there are none.

    inside: when an operator ran, on whatever thread.
    """
    host = trace.host_ops
    rows = np.flatnonzero(host.kind == HostKind.ANNOTATION)
    spans = {}
    for name in np.unique(host.name[rows]).tolist():
        mine = rows[host.name[rows] == name]
        if not trace.names[name].startswith(STEP_NAME):
            spans[trace.names[name]] = union(host.start_ns[mine], host.end_ns[mine])
    words = []
    for name, span in sorted(spans.items(), key=lambda item: -total_ns(item[1]))[:NAMED]:
        length_ns = total_ns(span)
        outside_ns = length_ns - total_ns(intersect(span, inside))
        bare = outside_ns >= MOSTLY_FRAC * length_ns > 0
        where = f" ({units.duration(outside_ns)} of it without a recorded operator)" if bare else ""
        words.append(f"{name} {units.duration(length_ns)}{where}")
    return f"the longest annotations: {', '.join(words)}" if words else ""
