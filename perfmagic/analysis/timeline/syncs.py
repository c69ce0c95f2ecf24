"""The calls that made Python wait for the device, and who asked for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.rows import Rows, names_at
from perfmagic.analysis.timeline.overlap import busy_intervals
from perfmagic.numerics.intervals import Intervals, covered_ns, union
from perfmagic.trace.calls import is_blocking_copy, waits_for_all
from perfmagic.trace.columns import NONE, Bool, CallKind, Int32, Int64
from perfmagic.trace.hoststack import host_stack, is_operator
from perfmagic.trace.model import Trace
from perfmagic.trace.names import is_pageable
from perfmagic.trace.once import once_per_trace

ASKED_AS = {  # operators that people do not write, as what they write
    "aten::item": ".item()",
    "aten::_local_scalar_dense": ".item()",
    "aten::is_nonzero": "bool()",
    "aten::to": ".to()",
    "aten::_to_copy": ".to()",
    "aten::copy_": ".copy_()",
    "aten::index": "indexing by a mask",
    "aten::index_put_": "assigning by a mask",
}


@dataclass(frozen=True, eq=False)
class Syncs:
    """Blocking calls of the host, by start; arrays of equal length.

    start_ns, end_ns: of the call.  call: its row of trace.calls.  asker: row of trace.host_ops of the operator that
    asked, NONE where none is known.  asked_by: index into `askers`, the words for it.  line: of the cell.
    device: NONE where the call does not say and there are several.  busy_ns: of the call, how long the device was busy.
    pageable: a copy to or from pageable memory.  after_cell: made by the measurement, after the cell's last line.
    at_edge: waits for all the device outside every operator, before the first or after the last op was launched in a
    file: where a record begins and ends, profilers make such a call themselves.
    """

    start_ns: Int64
    end_ns: Int64
    call: Int64
    asker: Int64
    asked_by: Int32
    line: Int32
    device: Int64
    busy_ns: Int64
    pageable: Bool
    after_cell: Bool
    at_edge: Bool
    askers: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def blocked_ns(self) -> Int64:
        return self.end_ns - self.start_ns

    def words(self, row: int) -> str:
        """Who asked, as people write it: ".item()"."""
        return self.askers[int(self.asked_by[row])]

    def n_asked(self, rows: Int64) -> int:
        """How often some calls were asked for: one operator may make several; a call that none asked for is one."""
        known = self.asker[rows] != NONE
        return len(np.unique(self.asker[rows][known])) + int((~known).sum())


@dataclass(frozen=True)
class Sync:
    """One blocking call of the host; times in ns, the rest as in Syncs. device: None where it is not known."""

    start_ns: int
    end_ns: int
    call: str
    asked_by: str
    line: int
    device: int | None
    busy_ns: int
    pageable: bool
    after_cell: bool

    @property
    def blocked_ns(self) -> int:
        return self.end_ns - self.start_ns


@once_per_trace
def syncs(trace: Trace) -> Syncs:
    """When the host was blocked by the device, who asked for it, and how long the device was busy meanwhile.

    Calls of kind SYNC, copies to or from pageable memory, which hold the host while they are staged, and copies whose
    call returns only when they are done.
    Source: docs/words.md, "sync".
    """
    calls = trace.calls
    pageable = pageable_calls(trace)
    rows = np.flatnonzero((calls.kind == CallKind.SYNC) | blocking_copies(trace))
    start, end = calls.start_ns[rows], calls.end_ns[rows]
    asker = _askers(trace, rows)
    words, codes = _words(trace, rows, asker)
    device = _devices(trace, rows)
    returned = trace.meta.returned_ns
    return Syncs(
        start_ns=start,
        end_ns=end,
        call=rows,
        asker=asker,
        asked_by=codes,
        line=calls.line[rows],
        device=device,
        busy_ns=_busy_ns(trace, device, start, end),
        pageable=pageable[rows],
        after_cell=np.zeros(len(rows), bool) if returned is None else start >= returned,
        at_edge=_at_edge(trace, rows, asker),
        askers=words,
    )


def _at_edge(trace: Trace, rows: Int64, asker: Int64) -> Bool:
    """Which blocking calls begin or end the record of a file; see Syncs."""
    launched = trace.launch_start_ns()[trace.ops.launch != NONE]
    if trace.meta.returned_ns is not None or not len(launched):
        return np.zeros(len(rows), bool)
    of_device = np.array([waits_for_all(name) for name in trace.names], bool)[trace.calls.name[rows]]
    start, end = trace.calls.start_ns[rows], trace.calls.end_ns[rows]
    edge: Bool = of_device & (asker == NONE) & ((end <= launched.min()) | (start >= launched.max()))
    return edge


def sync_rows(trace: Trace) -> Rows[Sync]:
    """The blocking calls of the host one by one, by start."""
    found = syncs(trace)
    same = ("start_ns", "end_ns", "line", "busy_ns", "pageable", "after_cell", "blocked_ns")
    device = found.device.astype(object)
    device[found.device == NONE] = None
    columns = {
        **{name: getattr(found, name) for name in same},
        "call": names_at(trace.names, trace.calls.name[found.call].astype(np.int64)),
        "asked_by": names_at(found.askers, found.asked_by.astype(np.int64)),
        "device": device,
    }
    return Rows.of_columns(columns, Sync)


@once_per_trace
def blocking_copies(trace: Trace) -> Bool:
    """Which calls launched a copy and held the host for it; shape of trace.calls."""
    by_name = np.array([is_blocking_copy(name) for name in trace.names], bool)
    named: Bool = by_name[trace.calls.name] if len(trace.calls) else np.zeros(0, bool)
    found: Bool = named | pageable_calls(trace)
    found.flags.writeable = False
    return found


def pageable_calls(trace: Trace) -> Bool:
    """Which calls launched a copy to or from pageable memory; shape of trace.calls."""
    by_name = np.array([is_pageable(name) for name in trace.names], bool)
    ops = trace.ops
    result = np.zeros(len(trace.calls), bool)
    if len(ops):
        result[ops.launch[(ops.launch != NONE) & by_name[ops.name]]] = True
    return result


def blocked_intervals(found: Syncs) -> Intervals:
    """The time during which at least one thread was blocked."""
    return union(found.start_ns, found.end_ns)


def _askers(trace: Trace, rows: Int64) -> Int64:
    """The outermost aten operator around each call on its thread, else the innermost operator of any other name."""
    thread, start = trace.calls.thread[rows], trace.calls.start_ns[rows]
    ops = trace.host_ops
    instants = np.sort(start)
    around = np.searchsorted(instants, ops.end_ns) > np.searchsorted(instants, ops.start_ns)
    is_op = is_operator(trace) & around
    aten = np.array([name.startswith("aten::") for name in trace.names], bool)
    from_torch = is_op & aten[ops.name] if len(ops) else is_op
    outermost = host_stack(trace, from_torch).outermost_at(thread, start)
    return np.where(outermost != NONE, outermost, host_stack(trace, is_op).innermost_at(thread, start))


def _words(trace: Trace, rows: Int64, asker: Int64) -> tuple[tuple[str, ...], Int32]:
    names = trace.calls.name[rows]
    if len(trace.host_ops):
        names = np.where(asker != NONE, trace.host_ops.name[asker], names)
    used, codes = np.unique(names, return_inverse=True)
    words = (ASKED_AS.get(trace.names[n], trace.names[n].removeprefix("aten::")) for n in used)
    return tuple(words), codes.astype(np.int32)


def _devices(trace: Trace, rows: Int64) -> Int64:
    known = trace.device_ids
    device = np.full(len(trace.calls), known[0] if len(known) == 1 else NONE, np.int64)
    launched = trace.ops.launch != NONE
    device[trace.ops.launch[launched]] = trace.ops.device[launched]
    return device[rows]


def _busy_ns(trace: Trace, device: Int64, start_ns: Int64, end_ns: Int64) -> Int64:
    result = np.zeros(len(device), np.int64)
    for one in np.unique(device).tolist():
        mine = device == one
        busy = busy_intervals(trace, None if one == NONE else one)
        result[mine] = covered_ns(busy, start_ns[mine], end_ns[mine])
    return result
