"""The findings "pageable HtoD copies", as they hold Python and as they are slow, and their sentences."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.analysis.findings.copy_overlap import Copies
from perfmagic.analysis.findings.facts import Facts, sentences
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.places import on_call_lines, on_sync_lines
from perfmagic.analysis.findings.sync import device_meanwhile, uploads, waiting, waits_for_uploads
from perfmagic.analysis.timeline.bus import pinned_bus
from perfmagic.analysis.timeline.pauses import LAUNCH_LATENCY_NS
from perfmagic.numerics.intervals import Intervals, intersect, total_ns
from perfmagic.trace.columns import NONE, Int64

FAR_RATIO = 3  # to the longest of the others, as of a gap far longer than those like it
# They copy to the device what they are given on the CPU, each time and blocking (torch, ATen/native/
# TensorAdvancedIndexing.cpp): the call has no place for non_blocking=True
_INDEXING = frozenset({"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"})


def pageable(facts: Facts, free: Intervals) -> list[Finding]:
    """Copies from pageable memory to the device that blocked Python.

    They cost the time that the device was idle because Python was held, less a launch each: so long a pinned copy holds
    it, too. What they take longer than pinned ones is a part of exposed copies: see slower_copies. The device's
    first op is left out where its call took far longer than the others: that was the start of the device.
    """
    syncs = facts.syncs
    start_up = _start_up(facts)
    counts = ~syncs.after_cell & ~np.isin(np.arange(len(syncs)), start_up)
    calls = np.flatnonzero(uploads(facts) & counts)
    rows = np.flatnonzero((uploads(facts) | waits_for_uploads(facts)) & counts)
    blocked_ns = int(syncs.blocked_ns[rows].sum())
    launches_ns = LAUNCH_LATENCY_NS * len(calls)
    if not len(calls) or blocked_ns - launches_ns < facts.notable_ns:
        return []
    copies = _copies(facts, calls)
    waited_ns = blocked_ns - int(syncs.blocked_ns[calls].sum())
    waited = f", {units.duration(waited_ns)} of it in the wait for the stream after each" if waited_ns else ""
    held = f" blocked Python for {units.duration(blocked_ns)}{on_sync_lines(facts, rows)}{waited}"
    cause = units.plural(len(calls), "pageable HtoD copy", "pageable HtoD copies")
    first = ""
    if len(start_up):
        took = units.duration(int(syncs.blocked_ns[start_up].sum()))
        first = f"another one, the first op of {facts.the_device}, blocked it for {took} and is not counted"
    detail = sentences(held, device_meanwhile(facts, rows), first, copies.words)
    advice = _advice(facts, calls, rows, copies)
    return [waiting(facts, free, "pageable", rows, cause, detail, advice, less_ns=launches_ns)]


def slower_copies(facts: Facts, exposed: Intervals) -> list[Finding]:
    """What copies from pageable memory take longer than pinned ones would, of some time of exposed copies.

    Nothing where the bus is not known, or where they are as fast already.
    """
    calls = np.flatnonzero(uploads(facts) & ~facts.syncs.after_cell)
    if not len(calls):
        return []
    copies, bus, ops = _copies(facts, calls), pinned_bus(facts.trace, facts.device), facts.trace.ops
    sized = copies.rows[ops.size_bytes[copies.rows] != NONE]
    where = intersect(copies.exposed, exposed)
    if bus is None or not len(sized):
        return []
    length_ns = (ops.end_ns - ops.start_ns)[sized]
    pinned_ns = ops.size_bytes[sized] / bus.bytes_per_s * 1e9
    less_ns = min(int(np.maximum(length_ns - pinned_ns, 0).sum()), total_ns(where))
    if less_ns < facts.notable_ns:
        return []
    less = f"{units.duration(less_ns)} less, at {units.bandwidth(bus.bytes_per_s, 1e9)} ({bus.source})"
    lines, launches = ops.line[sized], ops.launch[sized]
    return [
        Finding(
            rule="pageable",
            cost_ns=less_ns,
            cause="copies from pageable memory are slow",
            detail=f"{on_call_lines(facts, launches[launches != NONE])}: pinned, they would take {less}",
            lines=tuple(int(n) for n in np.unique(lines) if n > 0),
            start_ns=int(ops.start_ns[sized].min()),
            end_ns=int(ops.end_ns[sized].max()),
            device=facts.device,
            where=where,
        )
    ]


def _start_up(facts: Facts) -> Int64:
    """The call of the device's first op, row of facts.syncs, where it is such a copy and far longer than all others."""
    syncs, trace = facts.syncs, facts.trace
    first = int(np.argmax(trace.ops.device == facts.device))  # the ops are in the order of their starts
    mine = np.flatnonzero(uploads(facts) & ~syncs.after_cell)
    of_first = mine[syncs.call[mine] == trace.ops.launch[first]]
    others = np.setdiff1d(mine, of_first)
    if trace.simulated or not len(of_first) or not len(others):
        return mine[:0]
    longest_ns = int(syncs.blocked_ns[others].max())
    far: Int64 = of_first[syncs.blocked_ns[of_first] > FAR_RATIO * longest_ns]
    return far


def _copies(facts: Facts, calls: Int64) -> Copies:
    """The copies that some blocking calls launched; calls: rows of facts.syncs."""
    ops = facts.trace.ops
    rows = np.flatnonzero((ops.launch != NONE) & np.isin(ops.launch, facts.syncs.call[calls]))
    return Copies(facts, rows, pageable=True)


def _advice(facts: Facts, calls: Int64, rows: Int64, copies: Copies) -> str:
    """What frees Python of the copies.  calls: that launched them;  rows: these, and the waits behind them."""
    indexed = np.isin(rows, _indexing(facts, rows))
    n_indexed = int(np.isin(calls, rows[indexed]).sum())
    if not n_indexed:
        return _pinning(copies)
    blocked = units.duration(int(facts.syncs.blocked_ns[rows[indexed]].sum()))
    which = f"{units.count(n_indexed)} of them, {blocked}," if n_indexed < len(calls) else "they"
    keep = f"{which} are tensors on the CPU that indexing copies to {facts.the_device}: keep index and values there"
    return sentences(keep, f"for the others, {_pinning(copies)}" if n_indexed < len(calls) else "")


def _indexing(facts: Facts, rows: Int64) -> Int64:
    """The blocking calls that an indexing operator made for what it was given on the CPU."""
    trace, asker = facts.trace, facts.syncs.asker[rows]
    indexing = np.array([name in _INDEXING for name in trace.names], bool)
    known = rows[asker != NONE]
    made: Int64 = known[indexing[trace.host_ops.name[facts.syncs.asker[known]]]]
    return made


def _pinning(copies: Copies) -> str:
    """A copy from pinned memory without non_blocking waits for its stream, too (ATen/native/cuda/Copy.cu)."""
    if copies.own_stream:
        return "pin_memory() and non_blocking=True let them run beside compute"
    both = "pin_memory() and non_blocking=True together free Python, pinning alone does not"
    return f"{both}; to overlap, give them a stream of their own, too"
