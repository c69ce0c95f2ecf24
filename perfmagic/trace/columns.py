"""The tables of a trace: frozen dataclasses of equal-length numpy columns, and joining rows of different tables.

Time is int64 nanoseconds since `TraceMeta.base_unix_ns`, intervals are half-open [start_ns, end_ns). Names are int32
rows of `Trace.names`. Numbers of threads, streams and launches are int32 where they fit, else int64. Every table is
sorted by its first column. Columns are read-only, so a document may share them.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from perfmagic.base.kinds import NONE as NONE
from perfmagic.base.kinds import CallKind as CallKind
from perfmagic.base.kinds import Hazard as Hazard
from perfmagic.base.kinds import HostKind as HostKind
from perfmagic.base.kinds import OpKind as OpKind
from perfmagic.base.numerics.intervals import Intervals
from perfmagic.trace.json_form import FAR_NS, MOST_LINES, Int64Number, JsonForm

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int8 = npt.NDArray[np.int8]
Bool = npt.NDArray[np.bool_]
Float64 = npt.NDArray[np.float64]

HOST_DEVICE = -1  # the host, for blocks of its memory beside those of devices
MOST_BYTES = 2**50  # a pebibyte
WHOLE_BUFFER = '["bytes"]'  # the types of an input that stands for a rank's whole buffer in a collective
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
    GATHERED = 7  # fully_shard()'s own: whole parameters or gradients of a layer, for a time


def _column(dtype: Any, default: Any = None, least: int | None = None, most: int | None = None) -> Any:
    """least, most: what a file may hold; None where any number of the dtype will do."""
    return field(metadata={"dtype": dtype, "default": default, "least": least, "most": most})


def _time(default: int | None = None) -> Any:
    return _column(np.int64, default, -FAR_NS, FAR_NS)


def _line(default: int | None = None) -> Any:
    return _column(np.int32, default, NO_LINE, MOST_LINES)


def _size(default: int | None = None) -> Any:
    return _column(np.int64, default, NONE, MOST_BYTES)


def _number(default: int) -> Any:
    """A column that is kept in 32 bits where all of its numbers fit: half of the columns of a large trace are such."""
    return field(metadata=_column(np.int64, default).metadata | {"narrow": True})


TableT = TypeVar("TableT", bound="Table")


@dataclass(frozen=True, eq=False)
class Table:
    """Base of the tables: equal length, declared dtypes, read-only."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    @classmethod
    def make(cls: type[TableT], columns: Mapping[str, Any] | None = None) -> TableT:
        """A table from columns given by name, sorted by the first one (ties by the second, else input order; LineMarks:
        input order, as lines begin at one instant where no virtual time passes).

        Columns left out get their default. Raises ValueError for unequal lengths or an unknown or missing column.
        """
        given = columns if isinstance(columns, UsedUp) else dict(columns or {})
        specs = fields(cls)
        unknown = given.keys() - {f.name for f in specs}
        if unknown:
            raise ValueError(f"{cls.__name__} has no column {', '.join(sorted(unknown))}")
        n = len(next(iter(given.values()))) if given else 0
        arrays: dict[str, npt.NDArray[Any]] = {}
        for f in specs:
            if f.name in given:
                column = _as_dtype(given.pop(f.name), f.metadata["dtype"])
                arrays[f.name] = narrow(column) if f.metadata.get("narrow") else column
            elif f.metadata["default"] is None and n:
                raise ValueError(f"{cls.__name__} needs the column {f.name}")
            else:
                arrays[f.name] = constant(n, f.metadata["default"] or 0, f.metadata["dtype"])
            if arrays[f.name].shape != (n,):
                raise ValueError(f"{cls.__name__}.{f.name} has shape {arrays[f.name].shape}, expected ({n},)")
        first, second = specs[0].name, specs[1].name
        keys = (arrays[first],) if cls is LineMarks else (arrays[second], arrays[first])
        order = np.lexsort(keys)
        for name, a in arrays.items():  # one by one: what was given goes when its copy is there
            arrays[name] = constant(n, a[0], a.dtype) if _is_constant(a) else _frozen(a[order])
        return cls(**arrays)

    def select(self: TableT, rows: npt.NDArray[Any]) -> TableT:
        """The given rows (a mask or indices in rising order) as a table of the same kind: this one for all."""
        if len(rows) == len(self) and (rows.all() if rows.dtype == bool else (np.diff(rows) == 1).all()):
            return self
        n = int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows)
        return type(self)(**{name: _selected(column, rows, n) for name, column in self.to_dict().items()})

    def to_dict(self) -> dict[str, npt.NDArray[Any]]:
        """The columns by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


class UsedUp(dict[str, Any]):
    """Columns that Table.make takes out one by one, so that they are in memory once."""


_MOST_KEPT_BYTES = (32 << 20) - (8 << 10)  # DEFAULT_MMAP_THRESHOLD_MAX of glibc's malloc.c, less what it adds


def keep_freed_memory() -> None:
    """Let glibc keep what columns leave, for the next ones: the system would clear every page again.

    From a large block that is freed, malloc learns to give back none up to its size: mallopt(3), M_MMAP_THRESHOLD.
    """
    np.empty(_MOST_KEPT_BYTES, np.uint8)  # no page of it is touched


def _as_dtype(given: Any, dtype: Any) -> npt.NDArray[Any]:
    """What was given as a column of some type; one value for all rows stays one."""
    column = np.asarray(given)
    once = len(column) > _FEW_ROWS and not any(column.strides)
    return constant(len(column), column[0], dtype) if once else np.asarray(column, dtype)


def narrow(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column in 32 bits where all of its numbers fit, and each row has its own."""
    fits = len(column) and any(column.strides) and -(2**31) <= column.min() <= column.max() < 2**31
    return column.astype(np.int32) if fits else column


_FEW_ROWS = 4096  # whose columns are not worth a look


def constant(n: int, value: int, dtype: Any) -> npt.NDArray[Any]:
    """A column with one value in all rows, which takes no memory for each."""
    return np.broadcast_to(np.array(value, dtype), n) if n > _FEW_ROWS else _frozen(np.full(n, value, dtype))


def _is_constant(a: npt.NDArray[Any]) -> bool:
    return len(a) > _FEW_ROWS and bool(a[0] == a[-1]) and bool((a == a[0]).all())


def _selected(column: npt.NDArray[Any], rows: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
    """n rows of a column: one with a single value keeps taking no memory for each."""
    once = len(column) and not any(column.strides)
    return np.broadcast_to(column[0], n) if once else _frozen(column[rows])


def _frozen(a: npt.NDArray[Any]) -> npt.NDArray[Any]:
    a = np.ascontiguousarray(a)
    a.flags.writeable = False
    return a


@dataclass(frozen=True, eq=False)
class DeviceOps(Table):
    """Kernels, copies and memsets, as executed. One row per op."""

    start_ns: Int64 = _time()
    end_ns: Int64 = _time()
    kind: Int8 = _column(np.int8)  # OpKind
    device: Int32 = _column(np.int32, 0)
    stream: Int64 = _number(0)
    name: Int32 = _column(np.int32)
    correlation: Int64 = _number(NONE)
    size_bytes: Int64 = _size(NONE)  # of copies and memsets
    collective: Int32 = _column(np.int32, NONE)  # row of Trace.collectives, where the record names one
    sequence: Int64 = _column(np.int64, NONE)  # of a collective among those of its group, where the record counts them
    shape: Int32 = _column(np.int32, NONE)  # row of Trace.shapes, of kernels
    forward_ns: Int64 = _time(NONE)  # of a backward: when the operator of its forward began; NONE: not known
    forward_thread: Int64 = _column(np.int64, 0)  # on which thread it ran
    launch: Int64 = _number(NONE)  # row of HostCalls that queued it
    line: Int32 = _line(NO_LINE)  # cell line running when it was launched


@dataclass(frozen=True, eq=False)
class HostCalls(Table):
    """Runtime and driver calls: launches, synchronisations, waits, allocations."""

    start_ns: Int64 = _time()
    end_ns: Int64 = _time()
    kind: Int8 = _column(np.int8)  # CallKind
    name: Int32 = _column(np.int32)
    thread: Int64 = _number(0)
    correlation: Int64 = _number(NONE)
    line: Int32 = _line(NO_LINE)


@dataclass(frozen=True, eq=False)
class HostOps(Table):
    """Operators and annotations on the host's threads; rows of one thread nest.

    Python frames are rows of this kind, too, in a table of their own: perfmagic.trace.columns.
    """

    start_ns: Int64 = _time()
    end_ns: Int64 = _time()
    kind: Int8 = _column(np.int8)  # HostKind
    name: Int32 = _column(np.int32)
    thread: Int64 = _number(0)
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
    itself counted. Those of two devices are not comparable.
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


class Use(NamedTuple):
    """A piece of memory that an operator used: the bytes [low, high) of a storage.

    storage: a number that no other storage of the recording has, also where one got the address of another.
    reads, writes: what the operator did there; what it overwrites as a whole it does not read.
    """

    storage: int
    low: int
    high: int
    reads: bool = False
    writes: bool = False


class SeenOp(NamedTuple):
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


# Python frames: most rows of a trace recorded with stacks, and few readers ask for them. They are kept as they came,
# and put in order, as rows of HostOps, when they are read.

_KEPT = ("start_ns", "end_ns", "name", "thread", "line")  # kind and shape are the same in all rows
_DTYPES = {column.name: column.metadata["dtype"] for column in fields(HostOps)}
_NONE: dict[str, Any] = {name: [] for name in _KEPT}


class PythonFrames:
    """The Python frames of a trace, in no order until `table` is asked for; how many there are is known before."""

    def __init__(self, columns: Mapping[str, Any] | None = None) -> None:
        """columns: of HostOps but kind and shape, in any order; without `line` the frames have no lines.

        Raises ValueError where one is missing, or they differ in length.
        """
        given = {"line": constant(len(columns["start_ns"]), 0, np.int32), **columns} if columns else _NONE
        if given.keys() != {*_KEPT} or len({len(column) for column in given.values()}) > 1:
            raise ValueError(f"Python frames need columns {', '.join(_KEPT)} of one length")
        columns = {name: np.asarray(given[name], _DTYPES[name]) for name in _KEPT}
        self._columns = {name: constant(len(a), a[0], a.dtype) if _is_constant(a) else a for name, a in columns.items()}
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
        kind = constant(len(columns["start_ns"]), HostKind.PYTHON, np.int8)
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


# Joining: an op to its launch, an instant to a line.


def launch_rows(op_correlation: Int64, call_correlation: Int64, call_kind: Int8) -> Int64:
    """The row of the call that queued each op, NONE where the record has none; shape of op_correlation.

    Joined by the correlation id, among launches first and other calls only where no launch carries the id (older files
    name driver calls freely). Of several calls with one id the first wins; one launch may have many ops (graphs).
    Source: docs/words.md, "launch"; ids of op rows use another number space and must not be passed here.
    """
    rows = np.flatnonzero(call_correlation != NONE)
    if not len(rows) or not len(op_correlation):
        return np.full(len(op_correlation), NONE, np.int64)
    not_launch = (call_kind[rows] != CallKind.LAUNCH).astype(np.int64)
    rows = rows[np.lexsort((rows, not_launch, call_correlation[rows]))]
    ids = call_correlation[rows]
    at = np.minimum(np.searchsorted(ids, op_correlation, side="left"), len(ids) - 1)
    matched = (ids[at] == op_correlation) & (op_correlation != NONE)
    return narrow(np.where(matched, rows[at], NONE))


def lines_at(marks: LineMarks, at_ns: Int64) -> Int32:
    """The innermost marked line running at each instant, NO_LINE outside the cell; shape of at_ns.

    By time, not by thread: launches made for the cell by autograd's threads count to the line that waits for them.
    """
    return _at(marks, marks.line, at_ns)


def layer_lines_at(marks: LineMarks, at_ns: Int64) -> Int32:
    """The line a picture counts each instant to, NO_LINE outside the cell; shape of at_ns. See layer_lines."""
    return _at(marks, layer_lines(marks), at_ns)


def layer_lines(marks: LineMarks) -> Int32:
    """For each mark the line a picture shows: a statement that passes each of its lines once (a `with`, an `if`) is
    shown line by line, one that comes back to a line (a loop) as a whole: by the one line of its body, as findings and
    the critical path name it, or by its first line where the body has several.
    """
    shown = marks.line.copy()
    if not len(marks):
        return shown
    begins = [0, *(np.flatnonzero(marks.top_line[1:] != marks.top_line[:-1]) + 1).tolist()]
    for begin, end in pairwise([*begins, len(marks)]):
        lines = marks.line[begin:end]
        runs = 1 + int(np.count_nonzero(lines[1:] != lines[:-1]))
        if runs > len(np.unique(lines)):
            body = np.unique(lines[lines != marks.top_line[begin]])
            shown[begin:end] = body[0] if len(body) == 1 else marks.top_line[begin]
    return shown


def _at(marks: LineMarks, values: Int32, at_ns: Int64) -> Int32:
    if not len(marks):
        return constant(len(at_ns), NO_LINE, np.int32)
    row = np.searchsorted(marks.at_ns, at_ns, side="right") - 1
    return np.where(row >= 0, values[np.maximum(row, 0)], NO_LINE).astype(np.int32)


# Which forward a backward belongs to: both carry the number of one autograd node.


def forward_rows(number: Int64, at_ns: Int64, wanted: Int64, before_ns: Int64) -> Int64:
    """For each wanted number the row of the latest forward with that number that began before; NONE without one.

    number, at_ns: of the forwards.  wanted, before_ns: of the backwards. Each thread counts for itself, so that a
    number may come twice: the latest is taken.
    """
    order = np.lexsort((at_ns, number))
    number, at_ns = number[order], at_ns[order]
    low = np.searchsorted(number, wanted, side="left")
    high = np.searchsorted(number, wanted, side="right")
    forward = np.full(len(wanted), NONE, np.int64)
    for i in np.flatnonzero(high > low).tolist():
        at = int(low[i]) + int(np.searchsorted(at_ns[low[i] : high[i]], before_ns[i], side="left")) - 1
        if at >= low[i]:
            forward[i] = order[at]
    return forward


# What the name of a CUDA or HIP runtime or driver call says: what it does, and whether it waits.

# First match wins. Read in the runtime and driver headers of CUDA 12.8 and ROCm 6.4.
_CALL_KINDS = (
    (re.compile(r"Launch(?!HostFunc)|Memcpy|Memset"), CallKind.LAUNCH),
    (re.compile(r"Synchronize"), CallKind.SYNC),
    (re.compile(r"StreamWait(?:Event|Value)"), CallKind.WAIT),
    (re.compile(r"EventRecord"), CallKind.RECORD),
    (re.compile(r"Malloc|Free|HostAlloc|Host(?:Unr|R)egister|Mem(?:Alloc|Create|Release|Map|Unmap)"), CallKind.MEMORY),
)
_RUNTIME_NAME = re.compile(r"(?:cuda|cu|hip|hsa_)")

_BLOCKING_COPY = re.compile(r"^(?:cuda|hip|cu)Memcpy(?!.*(?:Async|DtoD|Peer))")

_WAITS_FOR_ALL = re.compile(r"^(?:cuda|hip)DeviceSynchronize|^(?:cu|hip)CtxSynchronize")


def is_blocking_copy(name: str) -> bool:
    """Whether a runtime or driver call is a copy between host and device that returns only when it is done.

    cudaMemcpy, cuMemcpyDtoH, and HIP's hipMemcpyWithStream, which is what .item() calls there.
    """
    return _BLOCKING_COPY.match(name) is not None


def waits_for_all(name: str) -> bool:
    """Whether a runtime or driver call waits for all the streams of a device."""
    return _WAITS_FOR_ALL.match(name) is not None


def call_kind(name: str) -> CallKind:
    """What a CUDA or HIP runtime or driver call does, by its name."""
    if _RUNTIME_NAME.match(name):
        for pattern, kind in _CALL_KINDS:
            if pattern.search(name):
                return kind
    return CallKind.OTHER
