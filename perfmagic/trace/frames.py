"""Python frames: most rows of a trace recorded with stacks, and few readers ask for them.

They are kept as they came, and put in order, as rows of HostOps, when somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from perfmagic.base.numerics.intervals import Intervals
from perfmagic.trace.columns import Bool, HostKind, HostOps, Int64

_KEPT = ("start_ns", "end_ns", "name", "thread", "line")  # kind and shape are the same in all rows
_DTYPES = {column.name: column.metadata["dtype"] for column in fields(HostOps)}
_NONE: dict[str, Any] = {name: [] for name in _KEPT}


class PythonFrames:
    """The Python frames of a trace, in no order until `table` is asked for; how many there are is known before."""

    def __init__(self, columns: Mapping[str, Any] | None = None) -> None:
        """columns: of HostOps but kind and shape, in any order; without `line` the frames have no lines.

        Raises ValueError where one is missing, or they differ in length.
        """
        given = {"line": np.zeros(len(columns["start_ns"]), np.int32), **columns} if columns else _NONE
        if given.keys() != {*_KEPT} or len({len(column) for column in given.values()}) > 1:
            raise ValueError(f"Python frames need columns {', '.join(_KEPT)} of one length")
        self._columns = {name: np.asarray(given[name], _DTYPES[name]) for name in _KEPT}
        self._table: HostOps | None = None

    def __len__(self) -> int:
        return len(self._columns["start_ns"])

    @property
    def table(self) -> HostOps:
        """All of them, in order."""
        if self._table is None:
            self._table = self._rows(self._columns)
            self._columns = {name: getattr(self._table, name) for name in _KEPT}  # so that they are in memory once
        return self._table

    def running_at(self, at_ns: Int64) -> HostOps:
        """Those that run at one of some instants at least."""
        instants = np.sort(at_ns)
        began = np.searchsorted(instants, self._columns["start_ns"])
        return self._some(np.searchsorted(instants, self._columns["end_ns"]) > began)

    def named(self, wanted: Bool) -> HostOps:
        """Those with some names. wanted: shape of Trace.names."""
        return self._some(wanted[self._columns["name"]])

    def window(self, start_ns: int, end_ns: int) -> PythonFrames:
        """Those that reach into [start_ns, end_ns), cut at its ends."""
        begin, end = self._columns["start_ns"], self._columns["end_ns"]
        selected = {name: column[touches(begin, end, start_ns, end_ns)] for name, column in self._columns.items()}
        return PythonFrames(cut(selected, start_ns, end_ns))

    def reaching(self, where: Intervals) -> HostOps:
        """Those that run in some time at least, cut at its two ends."""
        if not len(where):
            return self._some(np.zeros(len(self), bool))
        begin, end = self._columns["start_ns"], self._columns["end_ns"]
        last = np.searchsorted(where[:, 0], end, side="left") - 1  # the last interval that begins before the frame ends
        runs = (last >= 0) & (where[np.maximum(last, 0), 1] > begin)
        selected = {name: column[runs] for name, column in self._columns.items()}
        return self._rows(cut(selected, int(where[0, 0]), int(where[-1, 1])))

    def _some(self, mask: Bool) -> HostOps:
        return self._rows({name: column[mask] for name, column in self._columns.items()})

    @staticmethod
    def _rows(columns: Mapping[str, Any]) -> HostOps:
        kind = np.full(len(columns["start_ns"]), HostKind.PYTHON, np.int8)
        return HostOps.make({**columns, "kind": kind})


def apart(host_ops: HostOps) -> tuple[HostOps, PythonFrames]:
    """The rows that are no Python frames, and those that are."""
    is_frame = host_ops.kind == HostKind.PYTHON
    if not is_frame.any():
        return host_ops, PythonFrames()
    frames = host_ops.select(is_frame)
    return host_ops.select(~is_frame), PythonFrames({name: getattr(frames, name) for name in _KEPT})


def in_one_table(host_ops: HostOps, frames: HostOps) -> HostOps:
    """Some rows and some Python frames together, in order."""
    if not len(frames):
        return host_ops
    columns = frames.to_dict()
    return HostOps.make({name: np.concatenate((getattr(host_ops, name), columns[name])) for name in columns})


def touches(row_start_ns: Int64, row_end_ns: Int64, start_ns: int, end_ns: int) -> Bool:
    """Rows that overlap the window; rows of zero length that are inside it."""
    reaches: Bool = (row_start_ns < end_ns) & ((row_end_ns > start_ns) | (row_start_ns >= start_ns))
    return reaches


def cut(columns: dict[str, Any], start_ns: int, end_ns: int) -> dict[str, Any]:
    """The columns of rows that reach into a window, cut at its ends."""
    return columns | {
        "start_ns": np.maximum(columns["start_ns"], start_ns),
        "end_ns": np.minimum(columns["end_ns"], end_ns),
    }
