"""Which device ops each blocking call of the host waits for: as recorded, else by its name and by times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perfmagic.analysis.replay.graph import HostWait
from perfmagic.analysis.replay.queues import Queues, last_before_on_thread
from perfmagic.analysis.timeline.syncs import blocking_copies
from perfmagic.trace.calls import waits_for_all
from perfmagic.trace.columns import NONE, CallKind, Int64
from perfmagic.trace.model import Trace

RETURN_NS = 5_000  # the host's clock and the device's agree so far
COPY_RETURN_NS = 30_000  # a blocking copy may return before its op's last write is noted
STAGED_NS = 15_000  # a copy's call that was shorter only staged its bytes


def host_waits(trace: Trace, queues: Queues, head: Int64) -> list[HostWait]:
    """The blocking calls with what they wait for; calls that wait for nothing known are left out."""
    if not len(trace.ops):
        return []
    return [*_copies(trace, head), *_synchronising(trace, queues, head)]


def _copies(trace: Trace, head: Int64) -> Iterator[HostWait]:
    ops, calls = trace.ops, trace.calls
    rows = np.flatnonzero(blocking_copies(trace) & (head != NONE) & (calls.kind == CallKind.LAUNCH))
    own, end_ns = head[rows], calls.end_ns[rows]
    long = end_ns - calls.start_ns[rows] >= STAGED_NS
    inside = ops.end_ns[own] <= end_ns + np.where(long, COPY_RETURN_NS, 0)
    inside &= ops.start_ns[own] < end_ns
    for call, op in zip(rows[inside].tolist(), own[inside].tolist(), strict=True):
        yield HostWait(call, (op,), own=True)


def _synchronising(trace: Trace, queues: Queues, head: Int64) -> Iterator[HostWait]:
    calls = trace.calls
    rows = np.flatnonzero(calls.kind == CallKind.SYNC)
    recorded = _recorded(trace, queues, rows)
    recent = last_before_on_thread(trace, rows, head)
    marked_ns = np.sort(calls.start_ns[calls.kind == CallKind.RECORD])
    for call, newest in zip(rows.tolist(), recent.tolist(), strict=True):
        ops = recorded.get(call)
        if ops is None:
            ops = _by_name(trace, queues, call, newest, marked_ns)
        if ops:
            yield HostWait(call, ops, own=False)


def _recorded(trace: Trace, queues: Queues, rows: Int64) -> dict[int, tuple[int, ...]]:
    """What the record itself says some calls wait for; empty where it had all ended or was never launched here."""
    waits, calls = trace.host_waits, trace.calls
    if not len(waits):
        return {}
    by_id = {int(calls.correlation[row]): row for row in rows.tolist()}
    by_start = {int(calls.start_ns[row]): row for row in rows.tolist()}
    found: dict[int, set[int]] = {}
    columns = (waits.at_ns, waits.correlation, waits.device, waits.stream, waits.on_correlation)
    for at_ns, correlation, device, stream, on in zip(*(column.tolist() for column in columns), strict=True):
        call = by_id.get(correlation) if correlation != NONE else by_start.get(at_ns)
        if call is None:
            continue
        mine = [k for (d, s), k in queues.number.items() if d == device and stream in (NONE, s)]
        before_ns = calls.start_ns[call : call + 1]
        for k in mine:
            last = queues.last_launched(k, before_ns) if on == NONE else queues.up_to(k, np.array([on]))
            if int(last[0]) != NONE and trace.ops.end_ns[last[0]] <= calls.end_ns[call] + RETURN_NS:
                found.setdefault(call, set()).add(int(last[0]))
        found.setdefault(call, set())
    return {call: tuple(sorted(ops)) for call, ops in found.items()}


def _by_name(trace: Trace, queues: Queues, call: int, newest: int, marked_ns: Int64) -> tuple[int, ...]:
    """newest: the op launched last before the call by its thread.  marked_ns: when events were recorded."""
    ops, calls = trace.ops, trace.calls
    name = trace.names[calls.name[call]]
    start_ns, end_ns = calls.start_ns[call : call + 1], int(calls.end_ns[call])

    def fits(op: int) -> bool:
        return op != NONE and ops.end_ns[op] <= end_ns + RETURN_NS and ops.start_ns[op] < end_ns

    if waits_for_all(name):
        lasts = (int(queues.last_launched(k, start_ns)[0]) for k in range(len(queues)))
        return tuple(op for op in lasts if op != NONE)
    of_event = "Event" in name
    if not of_event and fits(newest):
        last = int(queues.last_launched(int(queues.of_op[newest]), start_ns)[0])
        return (last,) if fits(last) else (newest,)
    # which stream, or which event, is not recorded: what was launched last, before some event was recorded, and ended
    before_ns = start_ns
    at = int(np.searchsorted(marked_ns, start_ns[0], side="left")) - 1
    if of_event and at >= 0:
        before_ns = marked_ns[at : at + 1] + 1
    by_ns = np.array([end_ns + RETURN_NS])
    found = [int(queues.last_launched_and_ended(k, before_ns, by_ns)[0]) for k in range(len(queues))]
    found = [op for op in found if fits(op)]
    if found and not of_event:
        found = [max(found, key=lambda op: int(ops.end_ns[op]))]
    return tuple(found)
