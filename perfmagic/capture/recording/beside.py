"""The trace of the same run on another GPU, of the first one's and of what the simulated device kept beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmagic.base.kinds import UNKNOWN_TIME, VIRTUAL_CLOCK
from perfmagic.trace.columns import NONE, Int64
from perfmagic.trace.model import Trace, make_trace

if TYPE_CHECKING:
    from perfmagic.sim import BesideRecords

_JOINED = ("launch", "line")  # columns that a trace works out itself


def trace_beside(trace: Trace, records: BesideRecords) -> Trace:
    """The run on another GPU: its ops at their times there, and the host later by what it waited more."""
    moved = _Moved(trace.meta.base_unix_ns, records)
    names, ops = _ops(trace, records, moved)
    meta = trace.meta
    pace = f"{VIRTUAL_CLOCK}: {records.model.words}"
    return make_trace(
        names,
        replace(
            meta,
            end_ns=moved.instant(meta.end_ns),
            returned_ns=None if meta.returned_ns is None else moved.instant(meta.returned_ns),
            devices=tuple(replace(info, pace=pace, predicted=records.model.predicted) for info in meta.devices),
        ),
        ops=ops,
        calls=moved.columns(trace.calls.to_dict()),
        host_ops=moved.columns(trace.host_ops.to_dict()),
        waits=moved.columns(trace.waits.to_dict()),
        host_waits=moved.columns(trace.host_waits.to_dict()),
        counters=moved.columns(trace.counters.to_dict()),
        marks=moved.columns(trace.marks.to_dict(), keeps_line=True),
        blocks=moved.columns(trace.blocks.to_dict()),
        cell=trace.cell,
        shapes=trace.shapes,
        input_shapes=trace.input_shapes,
        input_dtypes=trace.input_dtypes,
        input_values=trace.input_values,
        collectives=trace.collectives,
    )


class _Moved:
    """Instants of the first host as those of the other one, both in ns since the record's start."""

    def __init__(self, base_ns: int, records: BesideRecords) -> None:
        self.base_ns = base_ns
        self._at_ns: Int64 = records.at_ns - base_ns
        self._lag_ns: Int64 = np.concatenate(([0], records.lag_ns))
        self.begin_ns = int(self._lag_ns[np.searchsorted(self._at_ns, 0)])  # how late it was when the record began

    def instants(self, at_ns: Int64) -> Int64:
        """A wait lasts until its instant, and what comes after it is later."""
        return np.asarray(at_ns + self._lag_ns[np.searchsorted(self._at_ns, at_ns)] - self.begin_ns)

    def instant(self, at_ns: int) -> int:
        return int(self.instants(np.array([at_ns]))[0])

    def columns(self, table: dict[str, Any], *, keeps_line: bool = False) -> dict[str, Any]:
        """The columns of a table of the host with its times moved, without those that are joined."""
        columns = {name: column for name, column in table.items() if keeps_line or name not in _JOINED}
        for name in ("start_ns", "end_ns", "at_ns", "alloc_ns", "free_ns", "forward_ns"):
            if name in columns:
                known = columns[name] != NONE
                columns[name] = np.where(known, self.instants(columns[name]), NONE)
        return columns


def _ops(trace: Trace, records: BesideRecords, moved: _Moved) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names and the columns of the device ops. What has no model there is of unknown time."""
    correlation, start_ns, end_ns, known = records.ops[np.argsort(records.ops[:, 0])].T
    row = np.searchsorted(correlation, trace.ops.correlation)
    columns = moved.columns(trace.ops.to_dict())
    columns["start_ns"] = start_ns[row] - moved.base_ns - moved.begin_ns
    columns["end_ns"] = end_ns[row] - moved.base_ns - moved.begin_ns
    keys = np.stack((trace.ops.name, known[row]), axis=1)
    used, columns["name"] = np.unique(keys, axis=0, return_inverse=True)
    columns["name"] = columns["name"].reshape(-1) + len(trace.names)
    plain = (trace.names[name].removesuffix(UNKNOWN_TIME) for name, _ in used.tolist())
    new = (name if is_known else name + UNKNOWN_TIME for name, (_, is_known) in zip(plain, used.tolist(), strict=True))
    return (*trace.names, *new), columns
