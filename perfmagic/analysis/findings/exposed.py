"""The findings "exposed communication" and "exposed copies", and their sentences."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.communicated import moved_words, pieces_words
from perfmagic.analysis.findings.copy_overlap import exposed_words
from perfmagic.analysis.findings.facts import Facts, line_words, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.numerics.intervals import Intervals, covered_ns, intersect, subtract, total_ns, union
from perfmagic.trace.columns import NO_LINE, NONE, Int8, Int64, OpKind
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.trace.short_names import kernel_short_names

KNOWN_FRAC = 0.9  # of compute kernels: with fewer known launches nobody can say that none was queued
EXPOSED_FRAC = 0.02  # of the extent; below it the sentence costs more than the copy
COPIES = {OpClass.HTOD: "HtoD", OpClass.DTOH: "DtoH", OpClass.DTOD: "DtoD", OpClass.PTOP: "PtoP"}


def exposed_communication(facts: Facts, free: Intervals) -> list[Finding]:
    """Communication with no compute under it."""
    return _exposed(
        facts,
        free,
        "exposed_communication",
        "exposed communication",
        (OpClass.COMMUNICATION,),
        facts.breakdown.communication_ns,
    )


def exposed_copy(facts: Facts, free: Intervals) -> list[Finding]:
    """Copies with no compute under them."""
    return _exposed(facts, free, "exposed_copy", "exposed copies", tuple(COPIES), facts.breakdown.copy_ns)


def _exposed(
    facts: Facts, free: Intervals, rule: str, cause: str, classes: tuple[OpClass, ...], all_ns: int
) -> list[Finding]:
    parts, exposed_ns = facts.breakdown, facts.breakdown.class_ns(rule)
    where = intersect(parts.intervals[rule], free)  # a copy beside communication is that one's
    if not len(where) or total_ns(where) < EXPOSED_FRAC * parts.extent_ns:
        return []
    kinds = op_classes(facts.trace, facts.comm_names)
    rows = np.flatnonzero((facts.trace.ops.device == facts.device) & np.isin(kinds, classes))
    most, line, words = _most_exposed(facts, rows, kinds, parts.intervals[rule])
    share = f"all {units.duration(all_ns)}" if exposed_ns == all_ns else _part(exposed_ns, all_ns)
    if rule == "exposed_copy":
        share += _by_direction(facts)
    if rule == "exposed_copy":
        more, advice = [exposed_words(facts)], ""
    else:
        pieces, advice = pieces_words(facts)
        more = [_nothing_queued(facts, parts.intervals[rule]), pieces, moved_words(facts)]
    return [
        Finding(
            rule=rule,
            cost_ns=total_ns(where),
            cause=cause,
            detail=f"{facts.on_device}: {sentences(f'{share} had no compute beside', words, *more)}",
            lines=(line,) if line != NO_LINE else (),
            start_ns=int(facts.trace.ops.start_ns[most]),
            end_ns=int(facts.trace.ops.end_ns[most]),
            device=facts.device,
            advice=advice,
            where=where,
        )
    ]


def _nothing_queued(facts: Facts, exposed: Intervals) -> str:
    """How long Python had queued no compute meanwhile, where that is most: Python is late, and not the network."""
    ops, launched = facts.trace.ops, facts.trace.launch_start_ns()
    kinds = op_classes(facts.trace, facts.comm_names)
    compute = (ops.device == facts.device) & (ops.kind == OpKind.KERNEL) & (kinds != OpClass.COMMUNICATION)
    known = compute & (ops.launch != NONE)
    if facts.trace.simulated or not known.any() or known.sum() < KNOWN_FRAC * compute.sum():
        return ""
    without = subtract(exposed, union(np.minimum(launched, ops.start_ns)[known], ops.start_ns[known]))
    ns = total_ns(without)
    if 2 * ns < total_ns(exposed):
        return ""
    return f"for {units.duration(ns)} of it Python had queued nothing to compute"


def _by_direction(facts: Facts) -> str:
    """What was exposed of each direction, the longest first, in brackets; nothing where there is one only."""
    sets = facts.breakdown.intervals
    exposed = {name: total_ns(subtract(sets[name.lower()], sets["compute"])) for name in COPIES.values()}
    found = sorted(((ns, name) for name, ns in exposed.items() if ns), reverse=True)
    return f" ({', '.join(f'{name} {units.duration(ns)}' for ns, name in found)})" if len(found) > 1 else ""


def _part(ns: int, of_ns: int) -> str:
    return f"{units.duration(ns)} of {units.duration(of_ns)}"


def _most_exposed(facts: Facts, rows: Int64, kinds: Int8, exposed: Intervals) -> tuple[int, int, str]:
    """The op that was exposed longest, its line, and "the most exposed of 14 ops is an HtoD copy: 4 ms of 5.15 ms"."""
    ops = facts.trace.ops
    alone_ns = covered_ns(exposed, ops.start_ns[rows], ops.end_ns[rows])
    row, most_ns = int(rows[alone_ns.argmax()]), int(alone_ns.max())
    line, length_ns = int(ops.line[row]), int(ops.end_ns[row] - ops.start_ns[row])
    copy = COPIES.get(OpClass(int(kinds[row])), "")
    kernel = kernel_short_names(facts.trace)[facts.trace.names[ops.name[row]]]
    name = f"{'an' if copy == 'HtoD' else 'a'} {copy} copy" if copy else kernel
    queued_by = f", queued by {line_words([line])}" if line != NO_LINE else ""
    if len(rows) == 1:
        return row, line, f"it is {name} of {units.duration(length_ns)}{queued_by}"
    length = f"all its {units.duration(length_ns)}" if most_ns == length_ns else _part(most_ns, length_ns)
    return row, line, f"the most exposed of {units.count(len(rows))} ops is {name}: {length}{queued_by}"
