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

from perfmagic.base.kinds import NONE as NONE
from perfmagic.base.kinds import CallKind as CallKind
from perfmagic.base.kinds import Hazard as Hazard
from perfmagic.base.kinds import HostKind as HostKind
from perfmagic.base.kinds import OpKind as OpKind
from perfmagic.trace.json_form import JsonForm
from perfmagic.trace.typed import FAR_NS, MOST_LINES, Int64Number

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int8 = npt.NDArray[np.int8]
Bool = npt.NDArray[np.bool_]
Float64 = npt.NDArray[np.float64]

HOST_DEVICE = -1  # the host, where blocks of its memory stand beside those of devices
MOST_BYTES = 2**50  # a pebibyte
NO_LINE = 0  # in line columns: launched outside the cell, or before it; cell lines count from 1


class BlockRole(enum.IntEnum):
    """What a block of memory was found to be: by the module, optimizer, variable or graph that led to it."""

    UNKNOWN = 0
    PARAMETER = 1
    BUFFER = 2
    GRADIENT = 3
    OPTIMIZER = 4  # state of an optimizer
    GRAPH = 5  # kept by the graph of what the holder names
    HELD = 6  # a variable, an item of a container, Out[4], a frame of the last traceback


def _column(dtype: Any, default: Any = None, least: int | None = None, most: int | None = None) -> Any:
    """least, most: what a file may hold; None where any number of the dtype will do."""
    return field(metadata={"dtype": dtype, "default": default, "least": least, "most": most})


def _time(default: int | None = None) -> Any:
    return _column(np.int64, default, -FAR_NS, FAR_NS)


def _line(default: int | None = None) -> Any:
    return _column(np.int32, default, NO_LINE, MOST_LINES)


def _size(default: int | None = None) -> Any:
    return _column(np.int64, default, NONE, MOST_BYTES)


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

    def select(self: TableT, rows: npt.NDArray[Any]) -> TableT:
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

    start_ns: Int64 = _time()
    end_ns: Int64 = _time()
    kind: Int8 = _column(np.int8)  # OpKind
    device: Int32 = _column(np.int32, 0)
    stream: Int64 = _column(np.int64, 0)
    name: Int32 = _column(np.int32)
    correlation: Int64 = _column(np.int64, NONE)
    size_bytes: Int64 = _size(NONE)  # of copies and memsets
    collective: Int32 = _column(np.int32, NONE)  # row of Trace.collectives, where the record names one
    sequence: Int64 = _column(np.int64, NONE)  # of a collective among those of its group, where the record counts them
    shape: Int32 = _column(np.int32, NONE)  # row of Trace.shapes, of kernels
    forward_ns: Int64 = _time(NONE)  # of a backward: when the operator of its forward began; NONE: not known
    forward_thread: Int64 = _column(np.int64, 0)  # on which thread it ran
    launch: Int64 = _column(np.int64, NONE)  # row of HostCalls that queued it
    line: Int32 = _line(NO_LINE)  # cell line running when it was launched


@dataclass(frozen=True, eq=False)
class HostCalls(Table):
    """Runtime and driver calls: launches, synchronisations, waits, allocations."""

    start_ns: Int64 = _time()
    end_ns: Int64 = _time()
    kind: Int8 = _column(np.int8)  # CallKind
    name: Int32 = _column(np.int32)
    thread: Int64 = _column(np.int64, 0)
    correlation: Int64 = _column(np.int64, NONE)
    line: Int32 = _line(NO_LINE)


@dataclass(frozen=True, eq=False)
class HostOps(Table):
    """Operators and annotations on the host's threads; rows of one thread nest.

    Python frames are rows of this kind, too, in a table of their own: perfmagic.trace.frames.
    """

    start_ns: Int64 = _time()
    end_ns: Int64 = _time()
    kind: Int8 = _column(np.int8)  # HostKind
    name: Int32 = _column(np.int32)
    thread: Int64 = _column(np.int64, 0)
    shape: Int32 = _column(np.int32, NONE)  # row of Trace.input_shapes, of operators
    dtype: Int32 = _column(np.int32, NONE)  # row of Trace.input_dtypes
    value: Int32 = _column(np.int32, NONE)  # row of Trace.input_values, of convolutions and attention
    line: Int32 = _line(NO_LINE)


@dataclass(frozen=True, eq=False)
class StreamWaits(Table):
    """`stream` may not go on before all that was launched on `on_stream` up to `on_correlation` has ended."""

    at_ns: Int64 = _time()  # when the host asked for it
    correlation: Int64 = _column(np.int64, NONE)  # of the wait call: ops of `stream` launched after it are held
    device: Int32 = _column(np.int32, 0)
    stream: Int64 = _column(np.int64)
    on_stream: Int64 = _column(np.int64)
    on_correlation: Int64 = _column(np.int64, NONE)  # of the event record
    on_device: Int32 = _column(np.int32, NONE)  # of on_stream; NONE: the same device


@dataclass(frozen=True, eq=False)
class HostWaits(Table):
    """What a blocking call waits for: all that was launched on `stream` before it, or up to `on_correlation`."""

    at_ns: Int64 = _time()  # when the call began, where it has no correlation; else within it
    correlation: Int64 = _column(np.int64, NONE)  # of the call
    device: Int32 = _column(np.int32, 0)
    stream: Int64 = _column(np.int64, NONE)  # NONE: all streams of the device
    on_correlation: Int64 = _column(np.int64, NONE)  # of the event record; NONE: all that was launched before the call


@dataclass(frozen=True, eq=False)
class Counters(Table):
    """Named values over time: allocated and reserved memory, power."""

    at_ns: Int64 = _time()
    series: Int32 = _column(np.int32)  # row of names
    device: Int32 = _column(np.int32, 0)
    value: Float64 = _column(np.float64, None, -MOST_BYTES, MOST_BYTES)


@dataclass(frozen=True, eq=False)
class Blocks(Table):
    """Memory that an allocator gave and took back, a row for each time. Where it is not recorded there are no rows.

    Orders count allocations and releases of a device in one sequence: the sum of what lives then is what the allocator
    itself counted. Those of two devices say nothing of each other.
    """

    order: Int64 = _column(np.int64)  # of the allocation
    device: Int32 = _column(np.int32)
    alloc_ns: Int64 = _time()
    free_ns: Int64 = _time(NONE)  # NONE: alive at the end
    free_order: Int64 = _column(np.int64, NONE)  # NONE: alive at the end
    size_bytes: Int64 = _size()  # as the allocator gave it: what was asked for is up to 1 MB less
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

    at_ns: Int64 = _time()
    line: Int32 = _line()  # the innermost marked statement
    top_line: Int32 = _line()  # the top-level statement it belongs to
    waited_ns: Int64 = _time(0)  # how long its thread had waited for a core by then, in all; 0 where not recorded


@dataclass(frozen=True, eq=False)
class PathMarks(Table):
    """From at_ns on, the thread was on this row of perfmagic.trace.paths.Paths."""

    at_ns: Int64 = _time()
    thread: Int64 = _column(np.int64)
    path: Int64 = _column(np.int64)


# Which memory each operator read and wrote, in the order in which the host called them.


@dataclass(frozen=True)
class Use:
    """A piece of memory that an operator used: the bytes [low, high) of a storage.

    storage: a number that no other storage of the recording has, also where one got the address of another.
    reads, writes: what the operator did there; what it overwrites as a whole it does not read.
    """

    storage: int
    low: int
    high: int
    reads: bool = False
    writes: bool = False

    def meets(self, low: int, high: int) -> bool:
        """Whether the piece shares a byte with another one of its storage."""
        return self.low < high and low < self.high


@dataclass(frozen=True)
class SeenOp:
    """One call of an operator that touches data; views and allocations are none.

    name: without its namespace.  start_ns, end_ns: of the call, in ns of the trace.  thread: that made it.
    device: where its results lie, as torch names it: "cpu", "sim:1".  source: where a copy came from, else "".
    shape: of its first result, or of what it wrote.  has_result: whether it gave or wrote a tensor.
    """

    name: str
    start_ns: int
    end_ns: int
    thread: int
    uses: tuple[Use, ...]
    device: str = "cpu"
    source: str = ""
    shape: tuple[int, ...] = ()
    has_result: bool = True


@dataclass(frozen=True)
class SeenOps:
    """The operators of a recording by their start.

    dropped: how many more there were beyond the limit.  unread: of how many it is not known which memory they used.
    """

    ops: tuple[SeenOp, ...] = ()
    dropped: int = 0
    unread: int = 0

    def __len__(self) -> int:
        return len(self.ops)


# Remarks about a record: what was repaired, what is missing, as data and as a sentence.


@dataclass(frozen=True)
class Remark(JsonForm):
    """One thing to know about the record: data, with the sentence beside it.

    kind: the stable name of what is said.
    words: the sentence.
    numbers: the numbers of the sentence, by names that say the unit: n_… counts, …_ns, …_bytes, first_byte.
    """

    kind: str
    words: str
    numbers: Mapping[str, Int64Number] = field(default_factory=dict, hash=False)
