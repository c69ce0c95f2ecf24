"""The finding "waits for another rank": collectives that took far longer than larger ones of their kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.findings.catalogue import action, headline
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.finding import Finding, Outcome, Silent, too_short
from perfmagic.analysis.timeline.collectives import asked_collectives, op_bytes
from perfmagic.base import units
from perfmagic.base.numerics.intervals import intersect, total_ns, union
from perfmagic.base.units import sentences
from perfmagic.trace.columns import NONE, Int64

FAR = 4  # times as long as others: eight ranks of one step took 1 to 2.5 times (dlrm_8ranks in traces/)
NOTABLE_FRAC = 0.05  # of the extent, as of the longest gap


@dataclass(frozen=True, eq=False)
class Late:
    """Collectives that began long before the last rank did.

    rows: of trace.ops.  usual_ns: what another of their kind took that moved as many bytes or more; shape of rows.
    """

    rows: Int64
    usual_ns: Int64


def late_collectives(facts: Facts) -> Late:
    """The collectives that took far longer than their bytes need."""
    trace, ops = facts.trace, facts.trace.ops
    asked, sizes = asked_collectives(trace, facts.comm_names), op_bytes(trace, facts.comm_names)
    kinds: dict[tuple[str, int | None], list[int]] = {}
    for row in sorted(sizes):
        recorded = ops.collective[row]
        collective = trace.collectives[recorded] if recorded != NONE else asked[row]
        if ops.device[row] == facts.device and collective.group_size != 1:
            kinds.setdefault((collective.name, collective.group_size), []).append(row)
    length_ns = ops.end_ns - ops.start_ns
    late = {}
    for rows in kinds.values():
        for row in rows:
            others = [int(length_ns[other]) for other in rows if other != row and sizes[other] >= sizes[row]]
            if others and length_ns[row] > FAR * min(others):
                late[row] = min(others)
    return Late(np.array(list(late), np.int64), np.array(list(late.values()), np.int64))


def waits_for_rank(facts: Facts) -> Outcome:
    """Exposed time of collectives that waited for another rank, whose own record says why."""
    late, ops, parts = late_collectives(facts), facts.trace.ops, facts.breakdown
    if facts.trace.simulated or not len(late.rows):
        return Silent("no collective took far longer than another of its kind with as many bytes")
    waits = union(ops.start_ns[late.rows], ops.end_ns[late.rows] - late.usual_ns)
    where = intersect(waits, parts.intervals["exposed_communication"])
    least_ns, waited_ns = NOTABLE_FRAC * parts.extent_ns, total_ns(where)
    if waited_ns < least_ns:
        return too_short("collectives waited", waited_ns, least_ns, f"{units.percent(NOTABLE_FRAC)} of the extent")
    length_ns = (ops.end_ns - ops.start_ns)[late.rows]
    most = int(length_ns.argmax())
    size_bytes = op_bytes(facts.trace, facts.comm_names)[int(late.rows[most])]
    longest = f"the longest took {units.duration(int(length_ns[most]))} for {units.size(size_bytes)}"
    usual = f"another of its kind with as many bytes or more took {units.duration(int(late.usual_ns[most]))}"
    n = units.plural(len(late.rows), "collective")
    return [
        Finding(
            rule="waits_for_rank",
            cost_ns=waited_ns,
            cause="waits for another rank",
            detail=f"{facts.on_device}: {sentences(f'{n} waited {units.duration(waited_ns)}', longest, usual)}",
            lines=(),
            start_ns=int(ops.start_ns[late.rows].min()),
            end_ns=int(ops.end_ns[late.rows].max()),
            device=facts.device,
            advice="The files of all ranks, opened together, name the rank that came last",
            headline=headline("waits_for_rank", time=units.duration(waited_ns)),
            action=action("open_ranks"),
            where=where,
        )
    ]
