"""The finding "pageable HtoD copies" and its sentence."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.copy_overlap import Copies
from perfmagic.analysis.findings.facts import Facts, on_lines, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.sync import device_meanwhile, uploads, waits_for_uploads
from perfmagic.analysis.timeline.bus import pinned_bus
from perfmagic.analysis.timeline.idle import LAUNCH_LATENCY_NS
from perfmagic.numerics.intervals import merge, subtract, total_ns, union
from perfmagic.trace.columns import NONE, Int64


def pageable_uploads(facts: Facts) -> list[Finding]:
    """Copies from pageable memory to the device that blocked Python.

    They cost what a pinned copy would take less, as far as no compute ran beside, and the time that the device was idle
    because Python was held: a pinned copy holds it for a launch.
    """
    syncs = facts.syncs
    calls = np.flatnonzero(uploads(facts) & ~syncs.after_cell)
    rows = np.flatnonzero((uploads(facts) | waits_for_uploads(facts)) & ~syncs.after_cell)
    blocked_ns = int(syncs.blocked_ns[rows].sum())
    if not len(calls) or blocked_ns - LAUNCH_LATENCY_NS * len(calls) < facts.notable_ns:
        return []
    copies = Copies(facts, _launched_by(facts, syncs.call[calls]), pageable=True)
    idle = subtract(union(syncs.start_ns[rows], syncs.end_ns[rows]), facts.breakdown.intervals["busy"])
    delayed_ns = max(0, total_ns(idle) - LAUNCH_LATENCY_NS * len(calls))
    faster_ns, faster = _faster(facts, copies)
    lines = syncs.line[rows]
    waited_ns = blocked_ns - int(syncs.blocked_ns[calls].sum())
    waited = f", {units.duration(waited_ns)} of it until the stream had done all before" if waited_ns else ""
    held = f" blocked Python for {units.duration(blocked_ns)}{on_lines(lines)}{waited}"
    return [
        Finding(
            rule="pageable",
            cost_ns=delayed_ns + faster_ns,
            cause=units.plural(len(calls), "pageable HtoD copy", "pageable HtoD copies"),
            detail=sentences(held, device_meanwhile(facts, rows), faster, copies.words),
            lines=tuple(int(n) for n in np.unique(lines) if n > 0),
            start_ns=int(syncs.start_ns[rows].min()),
            end_ns=int(syncs.end_ns[rows].max()),
            device=facts.device,
            advice=_advice(copies),
            where=merge(idle, copies.exposed),
        )
    ]


def _launched_by(facts: Facts, calls: Int64) -> Int64:
    """The ops that some calls launched, rows of trace.ops."""
    ops = facts.trace.ops
    return np.flatnonzero((ops.launch != NONE) & np.isin(ops.launch, calls))


def _faster(facts: Facts, copies: Copies) -> tuple[int, str]:
    """What the copies would take less from pinned memory while nothing runs beside them, and where that is known from.

    Nothing is said where the bus is not known, or where they are as fast already.
    """
    bus, ops = pinned_bus(facts.trace, facts.device), facts.trace.ops
    sized = copies.rows[ops.size_bytes[copies.rows] != NONE]
    if bus is None or not len(sized):
        return 0, ""
    length_ns = (ops.end_ns - ops.start_ns)[sized]
    pinned_ns = ops.size_bytes[sized] / bus.bytes_per_s * 1e9
    less_ns = min(int(np.maximum(length_ns - pinned_ns, 0).sum()), total_ns(copies.exposed))
    if less_ns < facts.notable_ns:
        return 0, ""
    rate = units.bandwidth(bus.bytes_per_s, 1e9) if bus.bytes_per_s >= 1e9 else f"{units.size(bus.bytes_per_s)}/s"
    return less_ns, f"from pinned memory they would take {units.duration(less_ns)} less, at {rate} ({bus.source})"


def _advice(copies: Copies) -> str:
    if copies.own_stream:
        return "pin_memory() and non_blocking=True let them run beside compute"
    return "pin_memory() frees Python; to overlap, give them a stream of their own and non_blocking=True, too"
