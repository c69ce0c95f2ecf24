"""The tables of a trace: frozen dataclasses of equal-length numpy columns.

Time is int64 nanoseconds since `TraceMeta.base_unix_ns`, intervals are half-open [start_ns, end_ns). Names are int32
rows of `Trace.names`. Every table is sorted by its first column. Columns are read-only, so a document may share them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int8 = npt.NDArray[np.int8]
Bool = npt.NDArray[np.bool_]
Float64 = npt.NDArray[np.float64]

NONE = -1  # in launch, bytes, correlation, stream: not known
HOST_DEVICE = -1  # the host, where blocks of its memory are told beside those of devices
NO_LINE = 0  # in line columns: launched outside the cell, or before it; cell lines count from 1


class OpKind(enum.IntEnum):
    """What a device op is, by its category in the record."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2


class CallKind(enum.IntEnum):
    """What a runtime or driver call does on the host."""

    LAUNCH = 0  # queues a kernel, copy, memset or graph
    SYNC = 1  # waits for the device: device, stream or event synchronise
    WAIT = 2  # makes a stream wait for an event; returns at once
    RECORD = 3  # records an event
    MEMORY = 4  # allocates or frees
    OTHER = 5


class HostKind(enum.IntEnum):
    """What a row of HostOps is."""

    OP = 0  # an operator (aten::mm)
    ANNOTATION = 1  # record_function, profiler steps
    PYTHON = 2  # a Python frame (with_stack)


class BlockRole(enum.IntEnum):
    """What a block of memory was found to be: by the module, optimizer, variable or graph that led to it."""

    UNKNOWN = 0
    PARAMETER = 1
    BUFFER = 2
    GRADIENT = 3
    OPTIMIZER = 4  # state of an optimizer
    GRAPH = 5  # kept by the graph of what the holder names
    HELD = 6  # a variable, an item of a container, Out[4], a frame of the last traceback


def _column(dtype: Any, default: Any = None) -> Any:
    return field(metadata={"dtype": dtype, "default": default})


TableT = TypeVar("TableT", bound="Table")


@dataclass(frozen=True, eq=False)
class Table:
    """Base of the tables: equal length, declared dtypes, read-only."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    @classmethod
    def make(cls: type[TableT], columns: Mapping[str, Any] | None = None) -> TableT:
        """A table from columns given by name, sorted by the first one (ties by the second, else input order).

        Columns left out get their default. Raises ValueError for unequal lengths or an unknown or missing column.
        """
        given = dict(columns or {})
        specs = fields(cls)
        unknown = given.keys() - {f.name for f in specs}
        if unknown:
            raise ValueError(f"{cls.__name__} has no column {', '.join(sorted(unknown))}")
        n = len(next(iter(given.values()))) if given else 0
        arrays: dict[str, npt.NDArray[Any]] = {}
        for f in specs:
            if f.name in given:
                arrays[f.name] = np.asarray(given[f.name], dtype=f.metadata["dtype"])
            elif f.metadata["default"] is None and n:
                raise ValueError(f"{cls.__name__} needs the column {f.name}")
            else:
                arrays[f.name] = np.full(n, f.metadata["default"] or 0, dtype=f.metadata["dtype"])
            if arrays[f.name].shape != (n,):
                raise ValueError(f"{cls.__name__}.{f.name} has shape {arrays[f.name].shape}, expected ({n},)")
        first, second = specs[0].name, specs[1].name
        order = np.lexsort((arrays[second], arrays[first]))
        return cls(**{name: _frozen(a[order]) for name, a in arrays.items()})

    def take(self: TableT, rows: npt.NDArray[Any]) -> TableT:
        """The given rows (a mask or indices in rising order) as a table of the same kind: this one for all."""
        if len(rows) == len(self) and (rows.all() if rows.dtype == bool else (np.diff(rows) == 1).all()):
            return self
        return type(self)(**{f.name: _frozen(getattr(self, f.name)[rows]) for f in fields(self)})

    def to_dict(self) -> dict[str, npt.NDArray[Any]]:
        """The columns by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _frozen(a: npt.NDArray[Any]) -> npt.NDArray[Any]:
    a = np.ascontiguousarray(a)
    a.flags.writeable = False
    return a


@dataclass(frozen=True, eq=False)
class DeviceOps(Table):
    """Kernels, copies and memsets, as executed. One row an op."""

    start_ns: Int64 = _column(np.int64)
    end_ns: Int64 = _column(np.int64)
    kind: Int8 = _column(np.int8)  # OpKind
    device: Int32 = _column(np.int32, 0)
    stream: Int64 = _column(np.int64, 0)
    name: Int32 = _column(np.int32)
    correlation: Int64 = _column(np.int64, NONE)
    size_bytes: Int64 = _column(np.int64, NONE)  # of copies and memsets
    collective: Int32 = _column(np.int32, NONE)  # row of Trace.collectives, where the record names one
    sequence: Int64 = _column(np.int64, NONE)  # of a collective among those of its group, where the record counts them
    shape: Int32 = _column(np.int32, NONE)  # row of Trace.shapes, of kernels
    forward_ns: Int64 = _column(
        np.int64, NONE
    )  # of a backward: when the operator of its forward began; NONE: not known
    forward_thread: Int64 = _column(np.int64, 0)  # on which thread it ran
    launch: Int64 = _column(np.int64, NONE)  # row of HostCalls that queued it
    line: Int32 = _column(np.int32, NO_LINE)  # cell line running when it was launched


@dataclass(frozen=True, eq=False)
class HostCalls(Table):
    """Runtime and driver calls: launches, synchronisations, waits, allocations."""

    start_ns: Int64 = _column(np.int64)
    end_ns: Int64 = _column(np.int64)
    kind: Int8 = _column(np.int8)  # CallKind
    name: Int32 = _column(np.int32)
    thread: Int64 = _column(np.int64, 0)
    correlation: Int64 = _column(np.int64, NONE)
    line: Int32 = _column(np.int32, NO_LINE)


@dataclass(frozen=True, eq=False)
class HostOps(Table):
    """Operators and annotations on the host's threads; rows of one thread nest.

    Python frames are rows of this kind, too, in a table of their own: perfmagic.trace.frames.
    """

    start_ns: Int64 = _column(np.int64)
    end_ns: Int64 = _column(np.int64)
    kind: Int8 = _column(np.int8)  # HostKind
    name: Int32 = _column(np.int32)
    thread: Int64 = _column(np.int64, 0)
    shape: Int32 = _column(np.int32, NONE)  # row of Trace.input_shapes, of operators
    dtype: Int32 = _column(np.int32, NONE)  # row of Trace.input_dtypes
    value: Int32 = _column(np.int32, NONE)  # row of Trace.input_values, of convolutions and attention
    line: Int32 = _column(np.int32, NO_LINE)


@dataclass(frozen=True, eq=False)
class StreamWaits(Table):
    """`stream` may not go on before all that was launched on `on_stream` up to `on_correlation` has ended."""

    at_ns: Int64 = _column(np.int64)  # when the host asked for it
    correlation: Int64 = _column(np.int64, NONE)  # of the wait call: ops of `stream` launched after it are held
    device: Int32 = _column(np.int32, 0)
    stream: Int64 = _column(np.int64)
    on_stream: Int64 = _column(np.int64)
    on_correlation: Int64 = _column(np.int64, NONE)  # of the event record
    on_device: Int32 = _column(np.int32, NONE)  # of on_stream; NONE: the same device


@dataclass(frozen=True, eq=False)
class HostWaits(Table):
    """What a blocking call waits for: all that was launched on `stream` before it, or up to `on_correlation`."""

    at_ns: Int64 = _column(np.int64)  # when the call began, where it has no correlation; else within it
    correlation: Int64 = _column(np.int64, NONE)  # of the call
    device: Int32 = _column(np.int32, 0)
    stream: Int64 = _column(np.int64, NONE)  # NONE: all streams of the device
    on_correlation: Int64 = _column(np.int64, NONE)  # of the event record; NONE: all that was launched before the call


@dataclass(frozen=True, eq=False)
class Counters(Table):
    """Named values over time: allocated and reserved memory, power."""

    at_ns: Int64 = _column(np.int64)
    series: Int32 = _column(np.int32)  # row of names
    device: Int32 = _column(np.int32, 0)
    value: Float64 = _column(np.float64)


@dataclass(frozen=True, eq=False)
class Blocks(Table):
    """Memory that an allocator gave and took back, a row for each time. Where it is not recorded there are no rows.

    Orders count allocations and releases of a device in one sequence: the sum of what lives then is what the allocator
    itself counted. Those of two devices say nothing of each other.
    """

    order: Int64 = _column(np.int64)  # of the allocation
    device: Int32 = _column(np.int32)
    alloc_ns: Int64 = _column(np.int64)
    free_ns: Int64 = _column(np.int64, NONE)  # NONE: alive at the end
    free_order: Int64 = _column(np.int64, NONE)  # NONE: alive at the end
    size_bytes: Int64 = _column(np.int64)  # as the allocator gave it: what was asked for is up to 1 MB less
    thread: Int64 = _column(np.int64, 0)
    free_thread: Int64 = _column(np.int64, NONE)
    before: Int8 = _column(np.int8, 0)  # 1: allocated before the recording; alloc_ns is its start then
    node: Int32 = _column(np.int32, NONE)  # name of the backward node that it was allocated in; NONE: in none
    node_sequence: Int64 = _column(np.int64, NONE)  # autograd's number of that node
    free_node: Int32 = _column(np.int32, NONE)  # the same of its release
    free_sequence: Int64 = _column(np.int64, NONE)
    newest_sequence: Int64 = _column(np.int64, NONE)  # of the node its thread had made last, outside of backward nodes
    role: Int8 = _column(np.int8, 0)  # BlockRole
    holder: Int32 = _column(np.int32, NONE)  # row of names: "net.a.weight", "losses[0]"
    address: Int64 = _column(np.int64, NONE)  # where it lay; an address is given again after it came back


@dataclass(frozen=True, eq=False)
class LineMarks(Table):
    """From at_ns on, this line of the cell was running; line 0 ends the cell."""

    at_ns: Int64 = _column(np.int64)
    line: Int32 = _column(np.int32)  # the innermost marked statement
    top_line: Int32 = _column(np.int32)  # the top-level statement it belongs to


@dataclass(frozen=True, eq=False)
class PathMarks(Table):
    """From at_ns on, the thread was on this row of perfmagic.trace.paths.Paths."""

    at_ns: Int64 = _column(np.int64)
    thread: Int64 = _column(np.int64)
    path: Int64 = _column(np.int64)
