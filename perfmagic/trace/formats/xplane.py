"""What jax.profiler writes: an XSpace in protobuf, HOST.xplane.pb.

A plane is a device or the host, a line one of its streams or threads. Source: xplane.proto and xplane_schema.cc in
xla/tsl/profiler of openxla/xla.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from perfmagic.base.errors import TraceError
from perfmagic.base.files import printable
from perfmagic.base.language import phrase
from perfmagic.base.units import count
from perfmagic.trace.columns import MOST_BYTES, NONE, HostKind, Int64, OpKind, Remark, call_kind
from perfmagic.trace.formats.protobuf import PADDING, WireError, fields
from perfmagic.trace.formats.xspace import Events, Line, Plane, batches, line_of, place_of, plane_of, text_of
from perfmagic.trace.json_form import FAR_NS
from perfmagic.trace.kineto.decode import Header
from perfmagic.trace.kineto.event_columns import Tables
from perfmagic.trace.kineto.file import DEFAULT_LIMIT_BYTES, Blocks, Source, text_blocks
from perfmagic.trace.kineto.gathered import CALLS, FRAMES, HOST_OPS, NAMES, OPS, SHAPES, Codes, Columns, Part
from perfmagic.trace.kineto.reader import build
from perfmagic.trace.model import DeviceInfo, Trace

# an XSpace begins with a plane, that with its number where it has one, and its name
_HEAD = re.compile(rb"\n[\x80-\xff]{,9}[\0-\x7f](?:\x08[\x80-\xff]{,9}[\0-\x7f])?\x12[\x01-\x7f](?:/\w|Task Env)")
_DEVICE = re.compile(r"/device:(\w+):(\d{1,9})$")
_STREAM = re.compile(r"Stream #(\d{1,18})")
_METADATA = "/host:metadata"  # says the version of each platform that JAX has: cpu_version and
_DEVICES = {f"{platform}_version" for platform in ("gpu", "cuda", "rocm", "tpu")}
_DERIVED = "XLA Ops"  # of what ran in streams, as are "XLA Modules", "Steps" and others; TPUs have no streams
_CALL = re.compile(r"(?:cuda|cu|hip)[A-Z]|hsa_")
_FRAME = re.compile(r"\$(?P<file>.+):(?P<line>\d+) (?P<function>.+)", re.DOTALL)
_COPY = re.compile(r"mem_?cpy|copy(?:Host|Device)", re.IGNORECASE)
_DIRECTION = re.compile(r"Memcpy([HDAP])2([HDAP])$")
_SIDES = re.compile(r"kind_src:(\w+) kind_dst:(\w+)")
_SIZE = re.compile(r"\bsize:(\d{1,18})")
_LAYOUT = re.compile(r"\b(grid|block):(\d{1,9}),(\d{1,9}),(\d{1,9})|\b(regs|\w+_shared):(\d{1,18})")
_MOST_REGISTERS = 1024  # of a thread, AMD's most is 512: an old recorder for ROCm writes addresses there
_STEP = "ProfilerStep#{}"  # as torch.profiler names a step
_MOST_STEPS = 10**9
_OF_AMD = re.compile(r"hip[A-Z]|hsa_")
_Describer: TypeAlias = Callable[[str, str, str, str], tuple[int, int, int, int]]
_MOST_PLANES = 10_000  # a device and a host each have one
_HINT = "copy the file again, or record again: with jax.profiler.trace(FOLDER)"


def sniff(head: bytes) -> bool:
    """Whether a file begins with a plane of an XSpace."""
    return _HEAD.match(head) is not None


def read(file: Path | Blocks, max_unpacked_bytes: int, *, helper: bool) -> list[Trace]:  # noqa: ARG001 - none is needed
    """The trace of a file, as perfmagic.trace.formats.registry.Reader has it."""
    return [read_space(file, printable(file.name), max_unpacked_bytes)]


def read_space(source: Source, name: str, max_unpacked_bytes: int = DEFAULT_LIMIT_BYTES) -> Trace:
    """The trace of a file or its content.  name: what it is called. Raises TraceError."""
    repairs: list[Remark] = []
    data = b"".join((*text_blocks(source, name, max_unpacked_bytes, repairs), PADDING))
    try:
        return _Space(data).trace(name, repairs)
    except WireError as error:
        raise TraceError(f"{name} is not a complete xplane.pb: {error}", hint=_HINT) from None


class _Space:
    """The whole file, on its way into the tables that Kineto's files are read into."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._tables = Tables()
        self._threads = Codes()
        self._devices: dict[int, DeviceInfo] = {}
        self._derived: list[str] = []
        self._loop = NONE  # the name of what is called a step first
        parts = list(fields(data, 0, len(data) - len(PADDING)))
        self._said = [text_of(data, value) for number, value in parts if number in (2, 3)]
        places = [place_of(value) for number, value in parts if number == 1]
        if len(places) > _MOST_PLANES:
            raise WireError(f"it has {count(len(places))} planes, more than {count(_MOST_PLANES)}")
        self._planes = [plane_of(data, place) for place in places]
        began = (plane.said.get("profile_start_time") for plane in self._planes)
        base_ns = next((ns for ns in began if isinstance(ns, int)), 0)
        self._base_ns = base_ns if base_ns < FAR_NS else 0

    def trace(self, name: str, repairs: list[Remark]) -> Trace:
        """The trace. Raises WireError, and TraceError for a file without records."""
        for plane in self._planes:
            device = _DEVICE.match(plane.name)
            if device is not None:
                self._add_device(plane, device[1], int(device[2]))
            elif plane.name.startswith("/host:"):
                self._add_host(plane)
        if self._tables.empty:
            planes = ", ".join(plane.name or "one without a name" for plane in self._planes[:5])
            message = f"{name} holds no record of a device or of the host; its planes: {planes or 'none'}"
            raise TraceError(message, hint="record again around code that computes: with jax.profiler.trace(FOLDER)")
        trace = build(self._tables, Header(), name, repairs)
        devices = tuple(self._devices[index] for index in trace.device_ids if index in self._devices)
        return replace(trace, meta=replace(trace.meta, devices=devices, notes=(*self._notes(trace), *trace.meta.notes)))

    def _notes(self, trace: Trace) -> Iterator[Remark]:
        on = {name for plane in self._planes if plane.name == _METADATA for name in plane.stats.values()} & _DEVICES
        if not len(trace.ops) and on:
            yield Remark("device_lost", phrase("JAX had a device, but its profiler recorded nothing of it"))
        elif not len(trace.ops):
            said = phrase("no device was recorded: what XLA computes on the CPU is among host operators")
            yield Remark("no_device_plane", said)
        for device in self._derived:
            said = phrase("{device} has no streams in the record: XLA's own list of ops is shown", device=device)
            yield Remark("derived_ops", said)
        for text in self._said:
            yield Remark("recorder_said", phrase("the profiler said: {text}", text=printable(text)))

    def _add(self, tables: dict[int, Columns]) -> None:
        self._tables.gathered.parts.append(Part(0, columns=tables))

    def _add_device(self, plane: Plane, kind: str, index: int) -> None:
        """The ops of a device: of its streams; where it has none of the line that XLA derives from what ran."""
        lines = [line_of(self._data, place) for place in plane.lines]
        streams = {line.name: int(match[1]) for line in lines if (match := _STREAM.match(line.name))}
        used = [line for line in lines if line.name in (streams or (_DERIVED,)) and len(line.begin)]
        if not used:
            return
        info = self._devices[index] = self._device_info(plane, kind, index)
        described = self._describer(rocm=info.kind == "rocm")
        if not streams:
            self._derived.append(info.name)
            self._add_ops(Events(self._data, plane, used), [0] * len(used), described, info, only_innermost=True)
        for batch in batches(used) if streams else ():
            of_lines = [streams[line.name] for line in batch]
            self._add_ops(Events(self._data, plane, batch), of_lines, described, info)

    def _device_info(self, plane: Plane, kind: str, index: int) -> DeviceInfo:
        said, called = plane.said, (name for each in self._planes for name in each.events.values())
        is_amd = str(said.get("device_vendor", "")).upper() == "AMD" or any(map(_OF_AMD.match, called))
        sizes = [said.get(key) for key in ("memory_size", "core_count", "compute_cap_major")]
        memory, cores, major = (size if isinstance(size, int) and 0 < size < MOST_BYTES else None for size in sizes)
        platform = "unknown" if kind != "GPU" else "rocm" if is_amd else "cuda"
        return DeviceInfo(index, platform, f"{kind} {index}", "", memory, cores, major)

    def _add_ops(
        self,
        events: Events,
        streams: list[int],
        described: _Describer,
        info: DeviceInfo,
        *,
        only_innermost: bool = False,
    ) -> None:
        rows = _innermost(events) if only_innermost else np.arange(len(events))
        said = (events.texts(f"{what}_details") for what in ("memcpy", "memset", "kernel"))
        of_each = zip(map(events.names.__getitem__, events.name.tolist()), *said, strict=True)
        kind, name, size, shape = np.array([described(*each) for each in of_each], np.int64).T[:, rows]
        ops = {
            "kind": kind,
            "device": np.full(len(rows), info.index),
            "stream": np.array(streams, np.int64)[events.line[rows]],
            "name": name,
            "correlation": events.numbers("correlation_id")[rows],
            "size_bytes": size,
            "shape": shape,
        }
        self._add({OPS: events.times(self._base_ns, rows) | ops})

    def _describer(self, *, rocm: bool) -> _Describer:
        """Gives kind, name, bytes and shape of an op by its name and what is said of copies, memsets and kernels."""
        books = self._tables.gathered.books

        @cache
        def described(name: str, copied: str, zeroed: str, laid_out: str) -> tuple[int, int, int, int]:
            is_copy = copied or (not laid_out and _COPY.search(name))
            is_set = zeroed or (not laid_out and "memset" in name.lower())
            kind = OpKind.MEMCPY if is_copy else OpKind.MEMSET if is_set else OpKind.KERNEL
            size = _SIZE.search(copied or zeroed)
            # rocprofiler counts threads where CUDA counts blocks, and the file does not say which recorded it
            shape = None if rocm else _shape(laid_out)
            shape_number = NONE if shape is None else books[SHAPES][shape]
            return kind, books[NAMES][_copy_name(name, copied)], int(size[1]) if size else NONE, shape_number

        return described

    def _add_host(self, plane: Plane) -> None:
        """Calls of the runtime, Python frames and all else of the threads of a host."""
        for lines in batches(line_of(self._data, place) for place in plane.lines):
            self._add_threads(Events(self._data, plane, lines), lines)

    def _add_threads(self, events: Events, lines: list[Line]) -> None:
        thread = np.array([self._threads[line.ident] + 1 for line in lines], np.int64)[events.line]
        correlation = events.numbers("correlation_id")
        is_call, is_frame = (
            np.array([bool(test(name)) for name in events.names], bool)[events.name]
            for test in (_CALL.match, lambda name: name.startswith("$"))
        )
        is_call &= correlation != NONE
        is_op = ~is_call & ~is_frame & (events.dur_ns != 0)  # what takes no time marks an instant
        tables: dict[int, Columns] = {}
        for table, mask in ((CALLS, is_call), (FRAMES, is_frame), (HOST_OPS, is_op)):
            rows = np.flatnonzero(mask)
            if len(rows):
                tables[table] = {**events.times(self._base_ns, rows), "thread": thread[rows]}
                tables[table] |= self._host_columns(table, events, rows)
        if CALLS in tables:
            tables[CALLS]["correlation"] = correlation[is_call]
        self._add(tables)

    def _host_columns(self, table: int, events: Events, rows: Int64) -> Columns:
        """Name and kind of some events of a host."""
        book = self._tables.gathered.books[NAMES]
        used, name = np.unique(events.name[rows], return_inverse=True)
        names = [events.names[each] for each in used.tolist()]
        numbers = np.array([book[_frame(each) if table == FRAMES else each] for each in names], np.int64)[name]
        if table == FRAMES:
            return {"name": numbers}
        if table == CALLS:
            return {"name": numbers, "kind": np.array([call_kind(each) for each in names], np.int8)[name]}
        step = events.numbers("step_num")[rows]
        is_step = (step >= 0) & (step < _MOST_STEPS)
        for at in np.flatnonzero(is_step).tolist():
            self._loop = numbers[at] if self._loop == NONE else self._loop
            if numbers[at] == self._loop:  # others count as well: an evaluation
                numbers[at] = book[_STEP.format(step[at])]
        return {"name": numbers, "kind": np.where(is_step, HostKind.ANNOTATION, HostKind.OP)}


# What names and details say.


def _innermost(events: Events) -> Int64:
    """The rows of events that hold no other one of their line: a loop and its body are not counted twice."""
    start, end = events.start_ns, events.start_ns + events.dur_ns
    order = np.lexsort((-end, start, events.line))
    holds = np.zeros(len(order), bool)
    after, before = order[1:], order[:-1]
    holds[:-1] = (
        (events.line[after] == events.line[before]) & (end[after] <= end[before]) & (start[after] < end[before])
    )
    return np.sort(order[~holds])


def _copy_name(name: str, copied: str) -> str:
    """The name of a copy as Kineto writes it: what reads names knows that form. Others stay as they are."""
    match, sides = _DIRECTION.match(name), _SIDES.search(copied)
    if match is None:
        return name
    between = f" ({sides[1].capitalize()} -> {sides[2].capitalize()})" if sides else ""
    return f"Memcpy {match[1]}to{match[2]}{between}"


def _shape(laid_out: str) -> tuple[Any, ...] | None:
    """Grid, block, registers and shared bytes of a kernel, as LaunchShape has them; None where they are not said."""
    sides: dict[str, tuple[int, ...]] = {}
    sizes: dict[str, int] = {}
    for side, x, y, z, key, value in _LAYOUT.findall(laid_out):
        if side:
            sides[side] = (int(x), int(y), int(z))
        else:
            sizes[key] = int(value)
    if len(sides) < 2:
        return None
    registers = sizes.pop("regs", None)
    known = registers if registers is not None and registers <= _MOST_REGISTERS else None
    return sides["grid"], sides["block"], known, sum(sizes.values()) if sizes else None


def _frame(name: str) -> str:
    """A frame of JAX's tracer as Kineto writes it: "$train.py:3 step" → "train.py(3): step"."""
    match = _FRAME.fullmatch(name)
    if match is not None:
        return f"{match['file']}({match['line']}): {match['function']}"
    return f"<built-in function {name.rpartition(' ')[2]}>"
