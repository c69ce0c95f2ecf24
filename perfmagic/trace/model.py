"""The trace: what was queued and what was executed, in columns.

`make_trace` is the one way to build it, for captures and for files: it sorts, joins every op to its launch and every
launch to its line, and freezes. Analyses only read. When devices executed something stands at the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, update_wrapper, wraps
from inspect import Parameter, signature
from typing import Annotated, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec
import numpy as np

from perfmagic.base.kinds import HOST_MEASURED, VIRTUAL_CLOCK, PredictedFor
from perfmagic.base.language import chained, phrase
from perfmagic.base.numerics.intervals import EMPTY, Intervals, distinct, running_max, union, unions
from perfmagic.base.units import rough_times
from perfmagic.trace.columns import (
    HOST_DEVICE,
    NO_LINE,
    NONE,
    Blocks,
    Counters,
    DeviceOps,
    Hazard,
    HostCalls,
    HostOps,
    HostWaits,
    Int32,
    Int64,
    LineMarks,
    PythonFrames,
    Remark,
    StreamWaits,
    apart,
    in_one_table,
    launch_rows,
    lines_at,
)
from perfmagic.trace.json_form import Count, Int64Number, Ns
from perfmagic.trace.paths import NOWHERE, Paths

PingNumbers = Annotated[tuple[Ns, ...], msgspec.Meta(min_length=6, max_length=6)]
# a pace as the simulated device keeps it, "paced: matmul ≥ 3 ms, copies 12 GB/s", for other languages
PACES = {
    "paced": "paced: {paces}",
    "pace reached in part": "pace reached in part: {paces}",
    "pace not reached": "pace not reached: {paces}",
    VIRTUAL_CLOCK: "virtual clock: {paces}",
    f"{VIRTUAL_CLOCK}, {HOST_MEASURED}": "virtual clock, host measured here: {paces}",
}
OF_WHAT = {
    "other kernels": "other kernels {rate}",
    "kernels": "kernels {rate}",
    "copies": "copies {rate}",
    "link": "link {rate}",
    "pageable": "pageable {rate}",
}
_PACE_PART = re.compile(rf"({'|'.join(OF_WHAT)}) (.+)")


@dataclass(frozen=True)
class DeviceInfo:
    """One device of a trace.

    index: as in DeviceOps.device.  kind: "cuda", "rocm", "sim", "cpu" or "unknown".  name: for people; of a simulated
    device "sim", or "sim:1" where there are several.
    pace: how a simulated device was paced, or by which GPU's model it was predicted, in words; empty for real ones.
    memory_bytes: all its memory.  multiprocessors: how many it has (AMD: compute units).
    compute_major: the first number of its compute capability.  None where the record does not say.
    predicted: the GPU whose model gave its times; None where a pace did, or where they were measured.
    """

    index: Int64Number
    kind: str
    name: str
    pace: str = ""
    memory_bytes: Int64Number | None = None
    multiprocessors: Int64Number | None = None
    compute_major: Int64Number | None = None
    predicted: PredictedFor | None = None

    @property
    def simulated(self) -> bool:
        return self.kind == "sim"

    @property
    def paced(self) -> bool:
        """Whether its times say nothing about a GPU: simulated, and no model of a GPU gave them."""
        return self.simulated and self.predicted is None

    @property
    def virtual(self) -> bool:
        """Whether its times are computed by its pace, and nothing was measured."""
        return self.pace.startswith(VIRTUAL_CLOCK)

    @property
    def host_measured(self) -> bool:
        """Whether Python took its own time there, on the recording machine; else a virtual clock counts it."""
        return self.pace.startswith(f"{VIRTUAL_CLOCK}, {HOST_MEASURED}")

    @property
    def label(self) -> str:
        """The name as pictures and tables show it; a simulated or predicted device always says so."""
        return self._label(of_times=True)

    @property
    def of_memory(self) -> str:
        """The label beside bytes, which are counted and have no interval."""
        return self._label(of_times=False)

    def _label(self, *, of_times: bool) -> str:
        number = f" {self.name}" if self.simulated and ":" in self.name else ""
        if self.predicted is not None:
            said = describe_prediction(self.predicted, of_times=of_times)
            if self.host_measured and of_times:
                said = phrase("{predicted} · host measured here", predicted=said)
            return chained("{a}: {b}", [*([self.name] if number else []), said])
        if self.name == f"device {self.index}":
            return phrase("device {n}", n=self.index)
        if not self.simulated:
            return self.name
        if self.pace:
            return phrase("simulated device{number}, {pace}", number=number, pace=describe_pace(self.pace))
        return phrase("simulated device{number}", number=number)


def with_models(infos: tuple[DeviceInfo, ...]) -> tuple[DeviceInfo, ...]:
    """The devices of a file. An older one says in words alone which model gave their times."""
    return tuple(replace(info, predicted=info.predicted or PredictedFor.read(info.pace)) for info in infos)


def describe_prediction(predicted: PredictedFor, *, of_times: bool = True) -> str:
    """For which GPU times are predicted, and how far off they may be."""
    gpu = predicted.gpu
    if predicted.fitted_on:
        gpu = phrase("{gpu}, fitted on {recording}", gpu=gpu, recording=predicted.fitted_on)
    if not of_times:
        return phrase("predicted for {gpu}, not recorded", gpu=gpu)
    return phrase("predicted for {gpu}, not recorded · ÷ × {spread}", gpu=gpu, spread=f"{predicted.spread:g}")


def describe_pace(pace: str) -> str:
    """The same text with its words known; as it is where it has another form."""
    kind, _, rest = pace.partition(": ")
    if pace == VIRTUAL_CLOCK:
        return phrase("virtual clock")
    if pace == f"{VIRTUAL_CLOCK}, {HOST_MEASURED}":
        return phrase("virtual clock, host measured here")
    if kind not in PACES:
        return pace
    in_turn = (chained("{a}, {b}", map(_pace_part, paces.split(", "))) for paces in rest.split("; then "))
    words = phrase(PACES[kind], paces=chained("{a}; then {b}", in_turn))
    return words if words == pace else pace


def _pace_part(part: str) -> str:
    match = _PACE_PART.fullmatch(part)
    if match is None:
        return part
    rates = (phrase("half") if rate == "half" else rate for rate in match[2].split(" and "))
    return phrase(OF_WHAT[match[1]], rate=chained("{a} and {b}", rates))


def devices_label(infos: Sequence[DeviceInfo]) -> str:
    """Several devices in few words: "2 simulated devices, paced: mm ≥ 1 ms", "2 × NVIDIA H200"; "" for none."""
    alike: dict[tuple[bool, str], list[DeviceInfo]] = {}
    for info in infos:
        alike.setdefault((info.simulated, info.pace if info.simulated else info.label), []).append(info)
    words = []
    for (simulated, what), some in alike.items():
        if len(some) == 1:
            words.append(some[0].label)
        elif (predicted := some[0].predicted) is not None:
            said = describe_prediction(predicted)
            if some[0].host_measured:
                said = phrase("{predicted} · host measured here", predicted=said)
            words.append(phrase("{n} devices {predicted}", n=len(some), predicted=said))
        else:
            pace = phrase(", {pace}", pace=describe_pace(what)) if what else ""
            sims = phrase("{n} simulated devices{pace}", n=len(some), pace=pace)
            words.append(sims if simulated else f"{len(some)} × {what}")
    return chained("{a}, {b}", words)


@dataclass(frozen=True)
class Cell:
    """The text that was run; line n of the editor is source.splitlines()[n - 1], the magic's own line included."""

    source: str

    def text(self, line: int) -> str:
        """The stripped text of a line, empty for a number outside the cell."""
        rows = self.source.splitlines()
        return rows[line - 1].strip() if 1 <= line <= len(rows) else ""


class Race(NamedTuple):
    """Two ops of different streams that use the same memory, with no wait between.

    later, earlier: their correlations, in the order of their launches.  kind: what each does with the memory.
    """

    later: Int64Number
    earlier: Int64Number
    kind: Hazard = Hazard.READ_AFTER_WRITE


SNAPSHOT = "snapshot"  # the origin of a trace that has nothing but blocks, as a CUDA allocator listed them


@dataclass(frozen=True)
class TraceMeta:
    """Where a trace is from and how far it can be trusted.

    origin: "cell", "block" or a file's name.  base_unix_ns: the instant 0 of all times.
    start_ns, end_ns: the window: the cell's start to the end of the final synchronise; for files, of the records.
    returned_ns: when the last line gave control back to Python; None for files.
    dropped_events: left out by a limit.  races: of simulated devices, see Race.
    repairs: what the reader repaired.  notes: what was not recorded, and why.
    repaired_ops, repaired_calls: device ops and calls whose duration was missing or impossible; repaired_ns: what those
    ops were given in all.
    What a rank's own process says: boot: what tells this run of its host from all others; monotonic_base_ns: the
    instant 0 on that host's monotonic clock, which all its processes share.  waited_for_core_ns: how long its threads
    were ready to run and had no core, added up.  cores: how many the process may use.
    threads: with which torch computes on them. "" and None where not recorded.
    pace: of its simulated devices, as perfmagic.Pace.to_json() has it; "" for none, for several and for a function.
    predicted: the changes, in words, with which a record was replayed to make this one; "" for a record.
    pings: exchanges with another rank that compare their clocks, each (first, second, asked_ns, answered_ns, back_ns,
    round), see perfmagic.analysis.ranks.alignment.
    """

    origin: str
    base_unix_ns: Ns = 0
    start_ns: Ns = 0
    end_ns: Ns = 0
    returned_ns: Ns | None = None
    devices: tuple[DeviceInfo, ...] = ()
    rank: Count | None = None
    world_size: Count | None = None
    torch_version: str = ""
    failed: str = ""  # the exception that ended the cell, in words
    dropped_events: Count = 0
    races: tuple[Race, ...] = ()
    repairs: tuple[Remark, ...] = ()
    notes: tuple[Remark, ...] = ()
    repaired_ops: Count = 0
    repaired_ns: Ns = 0
    repaired_calls: Count = 0
    boot: str = ""
    monotonic_base_ns: Ns | None = None
    waited_for_core_ns: Ns | None = None
    cores: Count | None = None
    threads: Count | None = None
    pings: tuple[PingNumbers, ...] = ()
    predicted: str = ""
    pace: str = ""

    @property
    def predicted_label(self) -> str:
        """The devices in words where a GPU's model gave their times, else ""."""
        return devices_label(self.devices) if any(info.predicted for info in self.devices) else ""


@dataclass(frozen=True)
class LaunchShape:
    """How a kernel was laid out: blocks of the grid and threads of a block, each by (x, y, z).

    registers: of each thread.  shared_bytes: of each block.  None where the record does not say.
    """

    grid: tuple[Int64Number, Int64Number, Int64Number]
    block: tuple[Int64Number, Int64Number, Int64Number]
    registers: Int64Number | None = None
    shared_bytes: Int64Number | None = None


@dataclass(frozen=True)
class Collective:
    """What the record says of a collective operation: its kind ("allreduce"), elements put in and got out, their type,
    the number of ranks and the name of their group. None, or empty, where it does not say.

    ranks: of the group, in the whole job. Fewer than group_size where the record leaves out the rest, as it does from
    the 31st on.
    """

    name: str
    in_elements: Int64Number | None = None
    out_elements: Int64Number | None = None
    dtype: str = ""
    group_size: Int64Number | None = None
    group: str = ""
    ranks: tuple[Int64Number, ...] = ()


@dataclass(frozen=True, eq=False)
class Trace:
    """What the host queued and what the devices executed.

    host_ops: operators and annotations.  python_frames: the rest of what the host did, put in order when asked for.
    paths: the lines of functions that ran, None where they were not followed.
    blocks: the memory that was allocated and released; no rows where it was not recorded.
    host_waits: what blocking calls wait for, where the record says so.
    """

    names: tuple[str, ...]
    ops: DeviceOps
    calls: HostCalls
    host_ops: HostOps
    waits: StreamWaits
    counters: Counters
    marks: LineMarks
    meta: TraceMeta
    cell: Cell | None = None
    shapes: tuple[LaunchShape, ...] = ()
    input_shapes: tuple[str, ...] = ()  # of operators, as the record writes them
    input_dtypes: tuple[str, ...] = ()  # JSON, as it writes them; "" where it has shapes and no types
    input_values: tuple[str, ...] = ()  # JSON: of each input its value where it is no tensor
    collectives: tuple[Collective, ...] = ()
    python_frames: PythonFrames = field(default_factory=PythonFrames)
    paths: Paths | None = None
    blocks: Blocks = field(default_factory=Blocks.make)
    host_waits: HostWaits = field(default_factory=HostWaits.make)

    @cached_property
    def device_ids(self) -> tuple[int, ...]:
        """Indices of the devices that executed something, rising."""
        return tuple(distinct(self.ops.device).tolist())

    @property
    def simulated(self) -> bool:
        return any(d.simulated for d in self.meta.devices)

    @property
    def paced(self) -> bool:
        """Whether times of its devices say nothing about a GPU."""
        return any(d.paced for d in self.meta.devices)

    @property
    def predicted(self) -> bool:
        """Whether a GPU's model gave the times of its devices."""
        return any(d.predicted is not None for d in self.meta.devices)

    @property
    def predicted_label(self) -> str:
        """The devices in words where a GPU's model gave their times, else ""."""
        return self.meta.predicted_label

    def device_info(self, index: int) -> DeviceInfo:
        """What is known of a device."""
        for info in self.meta.devices:
            if info.index == index:
                return info
        if index == HOST_DEVICE:
            return DeviceInfo(index, "cpu", "host")
        return DeviceInfo(index, "unknown", f"device {index}")

    @property
    def has_host_rows(self) -> bool:
        """Whether anything but calls was recorded of the host."""
        return bool(len(self.host_ops) or len(self.python_frames))

    def whole_host(self) -> HostOps:
        """Operators, annotations and Python frames in one table, as files have them."""
        return in_one_table(self.host_ops, self.python_frames.table)

    def launch_start_ns(self, rows: Any = slice(None)) -> Int64:
        """When each op was launched, its own start where the record has no launch; shape of ops, or of some rows."""
        return self._of_launch(self.calls.start_ns, rows)

    def launch_end_ns(self, rows: Any = slice(None)) -> Int64:
        """When the call that launched each op returned, its own start where there is no launch; likewise."""
        return self._of_launch(self.calls.end_ns, rows)

    def _of_launch(self, column: Int64, rows: Any) -> Int64:
        launch, start_ns = self.ops.launch[rows], self.ops.start_ns[rows]
        of_rows: Int64 = np.where(launch != NONE, column[launch], start_ns) if len(column) else start_ns
        return of_rows


def make_trace(
    names: Sequence[str],
    meta: TraceMeta,
    *,
    ops: Mapping[str, Any] | None = None,
    calls: Mapping[str, Any] | None = None,
    host_ops: Mapping[str, Any] | None = None,
    python_frames: Mapping[str, Any] | None = None,
    waits: Mapping[str, Any] | None = None,
    counters: Mapping[str, Any] | None = None,
    marks: Mapping[str, Any] | None = None,
    cell: Cell | None = None,
    shapes: Sequence[LaunchShape] = (),
    input_shapes: Sequence[str] = (),
    input_dtypes: Sequence[str] = (),
    input_values: Sequence[str] = (),
    collectives: Sequence[Collective] = (),
    paths: Paths | None = None,
    blocks: Mapping[str, Any] | None = None,
    host_waits: Mapping[str, Any] | None = None,
) -> Trace:
    """Build a trace from unsorted columns (see perfmagic.trace.columns), joined and frozen.

    `launch` and `line` columns are computed here and must not be given. Python frames may be among host_ops, or apart
    from them without kind and shape: they are then sorted on first use. Raises ValueError for columns that
    do not fit.
    """
    mark_table = LineMarks.make(marks)
    call_table = HostCalls.make(calls)
    call_table = replace(call_table, line=_call_lines(mark_table, paths, call_table))
    host_table = HostOps.make(host_ops)
    host_table = replace(host_table, line=lines_at(mark_table, host_table.start_ns))
    host_table, frames = apart(host_table)
    if python_frames is not None:
        if len(frames):
            raise ValueError("Python frames among host_ops and apart from them")
        frames = PythonFrames({**python_frames, "line": lines_at(mark_table, python_frames["start_ns"])})
    op_table = DeviceOps.make(ops)
    launch = launch_rows(op_table.correlation, call_table.correlation, call_table.kind)
    return Trace(
        names=tuple(names),
        ops=replace(op_table, launch=launch, line=_op_lines(op_table, launch, call_table)),
        calls=call_table,
        host_ops=host_table,
        python_frames=frames,
        waits=StreamWaits.make(waits),
        counters=Counters.make(counters),
        marks=mark_table,
        meta=meta,
        cell=cell,
        shapes=tuple(shapes),
        input_shapes=tuple(input_shapes),
        input_dtypes=tuple(input_dtypes),
        input_values=tuple(input_values),
        collectives=tuple(collectives),
        paths=paths,
        blocks=Blocks.make(blocks),
        host_waits=HostWaits.make(host_waits),
    )


def _op_lines(ops: DeviceOps, launch: Int64, calls: HostCalls) -> Int32:
    """The line of the call that launched each op, NO_LINE without one."""
    if not calls.line.any():
        return ops.line
    return np.where(launch != NONE, calls.line[launch], NO_LINE)


def _call_lines(marks: LineMarks, paths: Paths | None, calls: HostCalls) -> Int32:
    """The line of the cell that made each call: by its thread's own path where one is known, else by time."""
    by_time = lines_at(marks, calls.start_ns)
    if paths is None:
        return by_time
    path = paths.at(calls.thread, calls.start_ns)
    by_path = paths.cell_line[path]
    known = (path != NOWHERE) & (by_path != NO_LINE) & (by_time != NO_LINE) & paths.followed(calls.start_ns)
    return np.where(known, by_path, by_time).astype(np.int32)


# Results worked out once for each trace or table: these never change, so neither does what follows.

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K")  # Trace, a Table, or the traces of all ranks
_KEPT = "_kept_results"


class _Kept(dict[Any, dict[Any, Any]]):
    """The results kept on one trace, by function and options; a pickled or deep copy begins without any."""

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()


def once_per_trace(function: Callable[Concatenate[K, P], R]) -> Callable[Concatenate[K, P], R]:
    """Keep what a pure function of a trace or table gave on that trace; callers share the result, and only read.

    Its words have the times of a predicted trace with two digits. An option left out and its default are one key.
    """
    options_of = list(signature(function).parameters.values())[1:]
    in_words = in_its_digits(function)
    names = [option.name for option in options_of]
    defaults = {option.name: option.default for option in options_of if option.default is not Parameter.empty}

    def remembered(trace: K, /, *args: P.args, **options: P.kwargs) -> R:
        cached = vars(trace).setdefault(_KEPT, _Kept()).setdefault(function, {})
        given = defaults | dict(zip(names, args, strict=False)) | options
        key = tuple(map(given.get, names))
        if key not in cached:
            cached[key] = in_words(trace, *args, **options)
        result: R = cached[key]
        return result

    update_wrapper(remembered, function)
    return remembered


def in_its_digits(function: Callable[Concatenate[K, P], R]) -> Callable[Concatenate[K, P], R]:
    """Write times with two digits in a function of a trace that is predicted, or a method of what has one as .trace."""

    @wraps(function)
    def rounded(of: K, /, *args: P.args, **options: P.kwargs) -> R:
        if not getattr(getattr(of, "trace", of), "predicted", False):
            return function(of, *args, **options)
        with rough_times():
            return function(of, *args, **options)

    return rounded


# When devices, and the streams of each, executed something.

# when the op before the first one ended; far from the edge of int64: differences do not wrap
BEFORE_ALL_NS = -(2**62)


@once_per_trace
def busy_intervals(trace: Trace, device: int | None = None) -> Intervals:
    """When a device, or with None any device, executed at least one op. Source: docs/words.md, "busy"."""
    if device is None and len(trace.device_ids) == 1:
        return busy_intervals(trace, *trace.device_ids)  # kept once
    ops = trace.ops if device is None else trace.ops.select(trace.ops.device == device)
    return union(ops.start_ns, ops.end_ns)


@once_per_trace
def stream_rows(ops: DeviceOps) -> tuple[tuple[int, int, Int32], ...]:
    """(device, stream, rows of ops in start order) of every stream, rising."""
    order = np.lexsort((ops.stream, ops.device)).astype(np.int32)  # stable: rows of one stream keep their order
    order.flags.writeable = False
    device, stream = ops.device[order], ops.stream[order]
    cuts = np.flatnonzero((np.diff(device) != 0) | (np.diff(stream) != 0)) + 1
    return tuple((int(ops.device[r[0]]), int(ops.stream[r[0]]), r) for r in np.split(order, cuts) if len(r))


def _stream_after_stream(ops: DeviceOps) -> tuple[Int32, Int32]:
    """The rows of some ops stream after stream, and of each its stream's number."""
    of_streams = [rows for _, _, rows in stream_rows(ops)]
    number = np.repeat(np.arange(len(of_streams), dtype=np.int32), [len(rows) for rows in of_streams])
    return np.concatenate(of_streams), number


def by_stream(ops: DeviceOps) -> tuple[Int32, Int32, Int64]:
    """The rows of some ops stream after stream; of each its stream's number, and when earlier ops there had ended."""
    order, number = _stream_after_stream(ops)
    before = np.full(len(order), BEFORE_ALL_NS, np.int64)
    same = number[1:] == number[:-1]
    before[1:][same] = running_max(number, ops.end_ns[order])[:-1][same]
    return order, number, before


def stream_intervals(ops: DeviceOps) -> Intervals:
    """When each stream executed at least one op: rising and disjoint for each stream, one stream after another."""
    if not len(ops):
        return EMPTY
    order, number = _stream_after_stream(ops)
    return unions(number, ops.start_ns[order], ops.end_ns[order])[1]
