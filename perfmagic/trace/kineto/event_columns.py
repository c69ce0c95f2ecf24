"""The events of one table as columns: what each event's category, name and arguments say."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import repeat
from operator import attrgetter
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from perfmagic.base.kinds import WITH_VALUES
from perfmagic.trace.columns import HOST_DEVICE, MOST_BYTES, NONE, CallKind, Float64, HostKind, Int64, OpKind, call_kind
from perfmagic.trace.kineto.decode import (
    COUNTER,
    INSTANT,
    CallArgs,
    Chunk,
    Count,
    CounterArgs,
    HostArgs,
    LinkArgs,
    Loose,
    OpArgs,
    Other,
    Span,
    WaitArgs,
)
from perfmagic.trace.kineto.gathered import (
    COLLECTIVES,
    COUNTERS,
    DTYPES,
    INPUTS,
    LIMIT_NS,
    LINKS,
    MEMORY,
    NAMES,
    SHAPES,
    VALUES,
    Codes,
    Columns,
    Gathered,
    Part,
    digits_matter,
    slim,
    to_ns,
)

# Event arguments: decoded in batches, and read as numbers and ranks however they were written.

_RANK = re.compile(r"\b\d{1,9}\b")
_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)  # as many digits as int64 has

ArgsT = TypeVar("ArgsT", bound=msgspec.Struct)


def _args_text(events: Sequence[Span | Count]) -> bytes:
    """The arguments of some events as one list of JSON: decoded at once, they take a third of the time."""
    return b"[" + b",".join([event.args or b"null" for event in events]) + b"]"


def _reader(kind: type[ArgsT]) -> Callable[[bytes], list[ArgsT]]:
    """Decodes a list of arguments; an event without any has the defaults."""
    decode: Callable[[bytes], list[ArgsT | None]] = msgspec.json.Decoder(list[kind | None]).decode  # type: ignore[valid-type]
    none = kind()  # shared, read-only

    def read(text: bytes) -> list[ArgsT]:
        return [none if args is None else args for args in decode(text)]

    return read


op_args, call_args, host_args = _reader(OpArgs), _reader(CallArgs), _reader(HostArgs)
wait_args, counter_args, link_args = _reader(WaitArgs), _reader(CounterArgs), _reader(LinkArgs)


def counter_values(event: Count) -> list[tuple[str, float]]:
    """The series and value of each argument of a counter; NaN where the value is not a number."""
    args = msgspec.json.decode(event.args) if event.args else None
    if not isinstance(args, dict):
        return []
    named = [event.name if key == "value" else f"{event.name} {key}" for key in args]
    return list(zip(named, numbers(list(args.values())).tolist(), strict=True))


def numbers(values: list[Any]) -> Float64:
    """Numbers, also those written as text; NaN for all else."""
    if {*map(type, values)} <= {int, float}:
        with suppress(struct.error):  # too large ones
            return cast("Float64", packed(values, "d"))
    return np.array([_number(value) for value in values], np.float64)


def _number(value: Any) -> float:
    if value is None or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return math.nan


def column(values: Sequence[Any], code: str) -> Any:
    """Numbers as an array, by the struct module's code of their type. Raises OverflowError as np.array does."""
    try:
        return packed(values, code)
    except struct.error:
        return np.array(values, code)


def packed(values: Sequence[Any], code: str) -> Any:
    """The same in a third of the time that np.array takes. Raises struct.error for what it does not take."""
    buffer = bytearray(len(values) * struct.calcsize(code))
    struct.pack_into(f"{len(values)}{code}", buffer, 0, *values)
    return np.frombuffer(buffer, code)


def whole(values: list[Loose], events: Sequence[Any] = (), other: Callable[[Any], Loose] | None = None) -> Int64:
    """Numbers as `either` reads them. other: gives the value to take from the event where there is no number."""
    if other is None and None in values[:1] and values.count(None) == len(values):
        return np.full(len(values), NONE, np.int64)
    try:
        return cast("Int64", packed(values, "q"))
    except struct.error:  # some are no integers, or too large ones
        pass
    if other is None and {*map(type, values)} <= {int, type(None)}:
        with suppress(OverflowError):
            return np.array([NONE if value is None else value for value in values], np.int64)
    others = map(other, events) if other else repeat(NONE)
    return np.array([either(*pair) for pair in zip(values, others, strict=False)], np.int64)


def either(value: Loose, other: Loose) -> int:
    """A number as the file has it, the last number in a text ("stream 7"), or else the other value."""
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, str):
        digits = value.replace("(", " ").split()
        numbers = [int(part) for part in digits if _INTEGER.fullmatch(part)]
        value = numbers[-1] if numbers else None
    if value is None or not -(2**63) <= value < 2**63:
        return NONE if other == NONE else either(other, NONE)
    return int(value)


def ranks_of(value: Any) -> tuple[int, ...]:
    """The ranks of a group, which Kineto writes as text: "[0, 1, ...]" where there are more."""
    return _ranks_in(str(value)) if isinstance(value, (str, list)) else ()


@lru_cache(maxsize=64)  # few groups, many collectives
def _ranks_in(text: str) -> tuple[int, ...]:
    return tuple(map(int, _RANK.findall(text)))


# By category, never by "has a stream": Inductor's cpu_op rows carry one. The capitalised ones are of 2021.
OP_KINDS = {
    "kernel": OpKind.KERNEL,
    "Kernel": OpKind.KERNEL,
    "gpu_memcpy": OpKind.MEMCPY,
    "Memcpy": OpKind.MEMCPY,
    "gpu_memset": OpKind.MEMSET,
    "Memset": OpKind.MEMSET,
}
HOST_KINDS = {"cpu_op": HostKind.OP, "Operator": HostKind.OP, "user_annotation": HostKind.ANNOTATION}
_MEMORY_NAME = "[memory]"
_ALLOCATED, _RESERVED = "Total Allocated", "Total Reserved"
_EVENT_SYNC, _CONTEXT_SYNC = "Event Sync", "Context Sync"
_NO_STREAM = -2
_HOST_TYPE = 0  # c10::DeviceType::CPU
_NO_TOTALS = CounterArgs()  # shared, read-only
_PID, _TID = attrgetter("pid"), attrgetter("tid")


class _Known(dict[Any, int]):
    """What a function gave, by its argument."""

    def __init__(self, function: Callable[[Any], int]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, key: Any) -> int:
        self[key] = number = self._function(key)
        return number


class EventColumns:
    """Makes columns of events, one method a table; names, shapes and collectives go to the books of `gathered`.

    categories: the number of each category met, which grows while events are read.
    """

    def __init__(self, gathered: Gathered, categories: Codes) -> None:
        self._gathered = gathered
        self._categories = categories
        self._shape_of = _Known(self._new_shape)
        self._has_values = _Known(lambda name: any(word in name for word in WITH_VALUES))
        self._call_kind_of = _Known(lambda name: int(call_kind(name)))

    def ops(self, events: list[Span], category: Int64, _chunk: Chunk) -> Columns:
        """Kernels, copies and memsets."""
        args = op_args(_args_text(events))
        named = [a.collective for a in args]
        collective = np.full(len(args), NONE, np.int32)
        counted: Columns = {}
        if named.count(None) < len(named):
            collective[:] = [self._collective(a) for a in args]
            counted["sequence"] = whole([a.sequence for a in args])
        shape_of = self._shape_of
        return {
            "kind": np.array([OP_KINDS.get(name, 0) for name in self._categories], np.int8)[category],
            "device": whole([a.device for a in args], events, _PID),
            "stream": whole([a.stream for a in args], events, _TID),
            "name": self._interned(events),
            "correlation": column([a.correlation for a in args], "q"),
            "size_bytes": whole([a.bytes for a in args]),
            "collective": collective,
            "shape": column([shape_of[bytes(a.grid), bytes(a.block), a.registers, a.shared] for a in args], "i"),
            **counted,
        }

    def calls(self, events: list[Span], _category: Int64, _chunk: Chunk) -> Columns:
        """Calls of the runtime and the driver."""
        args = call_args(_args_text(events))
        kind_of = self._call_kind_of
        kind = column([kind_of[event.name] for event in events], "b")
        said = [a.call for a in args]
        if said.count(None) < len(said):
            for row, call in enumerate(said):
                if isinstance(call, str) and call in CallKind.__members__:
                    kind[row] = CallKind[call]
        return {
            "kind": kind,
            "name": self._interned(events),
            "thread": whole([event.tid for event in events]),
            "correlation": column([a.correlation for a in args], "q"),
        }

    def host_ops(self, events: list[Span], category: Int64, chunk: Chunk) -> Columns:
        """Operators and annotations."""
        shape, dtype, value = np.full((3, len(events)), NONE, np.int32)
        text = _args_text(events)
        if b'"Input Dims"' in text:
            inputs, dtypes, values = (self._gathered.books[book] for book in (INPUTS, DTYPES, VALUES))
            args_of = host_args(text)
            dims = [bytes(args.dims) for args in args_of]
            types = [bytes(args.types) for args in args_of]
            shape = column([inputs[said] if said else NONE for said in dims], "i")
            dtype = column(
                [dtypes[said] if said and known else NONE for said, known in zip(types, dims, strict=True)], "i"
            )
            has_values = self._has_values
            rows = [row for row, event in enumerate(events) if dims[row] and has_values[event.name]]
            value[rows] = [values[bytes(args_of[row].values)] for row in rows]
        linked: Columns = {}
        if chunk.links:
            links = link_args(text)
            linked = {name: whole([getattr(link, name) for link in links]) for name in LINKS}
        return {
            "kind": np.array([HOST_KINDS.get(name, 0) for name in self._categories], np.int8)[category],
            "name": self._interned(events),
            "thread": whole([event.tid for event in events]),
            "shape": shape,
            "dtype": dtype,
            "value": value,
            **linked,
        }

    def frames(self, events: list[Span], _category: Int64, _chunk: Chunk) -> Columns:
        """Python frames."""
        return {"name": self._interned(events), "thread": whole([event.tid for event in events])}

    def waits(self, events: list[Span], _category: Int64, _chunk: Chunk) -> Columns:
        """Streams that wait for an event."""
        args = wait_args(_args_text(events))
        return {
            "correlation": column([a.correlation for a in args], "q"),
            "device": whole([a.device for a in args], events, _PID),
            "stream": whole([a.stream for a in args], events, _TID),
            "on_stream": column([a.on_stream for a in args], "q"),
            "on_correlation": column([a.on_correlation for a in args], "q"),
            "on_device": column([a.on_device for a in args], "q"),
        }

    def host_waits(self, events: list[Span], _category: Int64, _chunk: Chunk) -> Columns:
        """Calls of the host that wait: for a stream, for an event, or for all of the device."""
        args = wait_args(_args_text(events))
        of_event = np.array([event.name == _EVENT_SYNC for event in events], bool)
        of_all = np.array([event.name == _CONTEXT_SYNC for event in events], bool)
        stream = whole([a.stream for a in args], events, _TID)
        stream = np.where(of_event, [a.on_stream for a in args], np.where(of_all, NONE, stream))
        # an event whose record is not known says nothing: no stream has this number
        unknown = of_event & (np.array([a.on_correlation for a in args], np.int64) < 0)
        return {
            "correlation": column([a.correlation for a in args], "q"),
            "device": whole([a.device for a in args], events, _PID),
            "stream": np.where(unknown, _NO_STREAM, stream),
            "on_correlation": np.array([max(a.on_correlation, NONE) for a in args], np.int64),
        }

    def counters(self, events: list[Any], category: Int64, chunk: Chunk, part: Part) -> None:
        """A row for each value of a counter, and for the totals memory events carry (those of 2021 carry none)."""
        memory = [row for row in self.rows_of(INSTANT, category) if events[row].name == _MEMORY_NAME]
        rows, n = memory + self.rows_of(COUNTER, category), len(memory)
        if not rows:
            return
        selected = [events[row] for row in rows]
        counts = selected[n:]
        totals = [event.args or _NO_TOTALS for event in selected[:n]]
        counted = [(at, *value) for at, event in enumerate(counts, n) for value in counter_values(event)]
        names, each = self._gathered.books[NAMES], np.arange(n)
        of_memory = [names[name] for name in (_ALLOCATED, _RESERVED)] if memory else []
        at = np.concatenate((each, each, np.array([at for at, _, _ in counted], np.int64)))
        series = np.concatenate((np.repeat(of_memory, n), [names[name] for _, name, _ in counted]))
        value = np.concatenate(
            (
                numbers([a.allocated for a in totals]),
                numbers([a.reserved for a in totals]),
                np.array([number for _, _, number in counted], np.float64),
            )
        )
        possible = np.abs(value) <= MOST_BYTES  # false for NaN
        self._gathered.impossible += int((~possible & ~np.isnan(value)).sum())
        args = totals + (counter_args(_args_text(counts)) if counts else [])
        columns = {"device": whole([a.device_id for a in args], selected, _PID)}
        columns |= time_columns(selected, rows, chunk)
        if possible.any():
            counted_rows: Columns = {name: column[at[possible]] for name, column in columns.items()}
            counted_rows |= {"series": series[possible].astype(np.int32), "value": value[possible]}
            part.columns[COUNTERS] = slim(counted_rows)
        if memory:
            self._memory(selected[:n], totals, {name: column[:n] for name, column in columns.items()}, part)

    def _memory(self, events: list[Any], args: list[CounterArgs], columns: Columns, part: Part) -> None:
        """What was given and taken back, and where, which those of 2021 do not say.  columns: device, times."""
        address = whole([a.address for a in args])
        if (address == NONE).all():
            return
        on_host = whole([a.device_type for a in args]) == _HOST_TYPE
        of_memory = {
            "device": np.where(on_host, HOST_DEVICE, columns["device"]),
            "thread": whole([event.tid for event in events]),
            "address": address,
            "size_bytes": whole([a.bytes for a in args]),
            "allocated": whole([a.allocated for a in args]),
        }
        part.columns[MEMORY] = slim(columns | of_memory)

    def rows_of(self, kind: Other | str, category: Int64) -> list[int]:
        """Which events are of a category, or of a kind that is no span."""
        return np.flatnonzero(category == self._categories[kind]).tolist() if kind in self._categories else []

    def _interned(self, events: list[Span]) -> Any:
        names = self._gathered.books[NAMES]
        return column([names[event.name] for event in events], "i")

    def _new_shape(self, key: tuple[bytes, bytes, Loose, Loose]) -> int:
        """The number of a kernel's launch shape; NONE where the record has none (copies, and traces of 2021)."""
        sides: list[Any] = [msgspec.json.decode(text) if text else None for text in key[:2]]
        if not all(isinstance(side, list) and len(side) == 3 for side in sides):
            return NONE
        if not all(type(n) is int and n > 0 for side in sides for n in side):
            return NONE
        optional = (None if (n := either(value, NONE)) == NONE else n for value in key[2:])
        return self._gathered.books[SHAPES][(tuple(sides[0]), tuple(sides[1]), *optional)]

    def _collective(self, args: OpArgs) -> int:
        if not args.collective:
            return NONE
        sizes = (None if (n := either(v, NONE)) == NONE else n for v in (args.in_elements, args.out_elements))
        group_size = either(args.group_size, NONE)
        words = (str(args.dtype or ""), None if group_size == NONE else group_size, str(args.group or ""))
        return self._gathered.books[COLLECTIVES][(_with_peer(args), *sizes, *words, ranks_of(args.ranks))]


def time_columns(events: Sequence[Any], rows: list[int], chunk: Chunk) -> Columns:
    """When some events of a chunk began and how long they took, where the file says so."""
    ts_us, dur_us = column([event.ts for event in events], "d"), column([event.dur for event in events], "d")
    if chunk.ts_us is not None or digits_matter(ts_us):
        exact = chunk.exact_ts_us()
        start_ns, has_start = to_ns([exact[row] for row in rows])
    else:
        start_ns, has_start = to_ns(ts_us)
    has_start &= np.abs(start_ns) < LIMIT_NS
    dur_ns, has_dur = to_ns(dur_us if chunk.dur_us is None else [chunk.dur_us[row] for row in rows])
    return {"start_ns": start_ns, "dur_ns": dur_ns, "has_start": has_start, "has_dur": has_dur}


def _with_peer(args: OpArgs) -> str:
    """The kind of a collective; of a message also the other rank of the whole job: "send to 1", "recv from 0".

    Source: torch/csrc/profiler/util.cpp, saveNcclMeta: a send has a Dst Rank, a receive a Src Rank.
    """
    kind = str(args.collective)
    if kind == "send" and (peer := either(args.target, NONE)) != NONE:
        return f"send to {peer}"
    if kind == "recv" and (peer := either(args.source, NONE)) != NONE:
        return f"recv from {peer}"
    return kind
