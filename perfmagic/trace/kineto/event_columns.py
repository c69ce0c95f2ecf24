"""Events to the columns of a trace: what each event's category, name and arguments say.

They come chunk by chunk: what is decoded of a chunk is gone before the next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from perfmagic.base.kinds import WITH_VALUES
from perfmagic.trace.columns import HOST_DEVICE, MOST_BYTES, NONE, CallKind, HostKind, Int64, OpKind, call_kind
from perfmagic.trace.kineto.decode import (
    COUNTER,
    INSTANT,
    Begin,
    CallArgs,
    Chunk,
    Count,
    CounterArgs,
    End,
    Event,
    HostArgs,
    LinkArgs,
    Loose,
    OpArgs,
    Other,
    Span,
    WaitArgs,
    column,
    either,
    numbers,
    whole,
)
from perfmagic.trace.kineto.dialects import CATEGORIES, in_kineto_words
from perfmagic.trace.kineto.gathered import (
    CALLS,
    COLLECTIVES,
    COUNTERS,
    DAY_NS,
    DTYPES,
    FRAMES,
    HOST_OPS,
    HOST_WAITS,
    INPUTS,
    LIMIT_NS,
    LINKS,
    MEMORY,
    NAMES,
    OPS,
    SHAPES,
    SPAN_TABLES,
    VALUES,
    WAITS,
    Codes,
    Columns,
    Gathered,
    PairEnd,
    Part,
    digits_matter,
    slim,
    to_ns,
    together,
)
from perfmagic.trace.model import Collective, LaunchShape

# Event arguments: decoded in batches, and read as ranks however they were written.

_RANK = re.compile(r"\b\d{1,9}\b")

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


# All tables, filled at once.

_TABLE_OF = {
    **dict.fromkeys(OP_KINDS, OPS),
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime"), CALLS),
    **dict.fromkeys(HOST_KINDS, HOST_OPS),
    "python_function": FRAMES,
    "cuda_sync": WAITS,
}
_OVERHEAD = "overhead"
_WAIT_NAME = "Stream Wait Event"
_HOST_WAIT_NAMES = ("Stream Sync", "Event Sync", "Context Sync")


class Tables:
    """Takes chunks of events with `add`; perfmagic.trace.kineto.gathered makes of them the columns of a trace.

    A file's chunks may be spread over several: `take_over` brings them together, with the same result.
    """

    def __init__(self) -> None:
        self.gathered = Gathered()
        self._categories = Codes()
        make = self._make = EventColumns(self.gathered, self._categories)
        self._makers: dict[int, Callable[[list[Span], Int64, Chunk], Columns]] = {
            OPS: make.ops,
            CALLS: make.calls,
            HOST_OPS: make.host_ops,
            WAITS: make.waits,
            HOST_WAITS: make.host_waits,
            FRAMES: make.frames,
        }

    @property
    def names(self) -> list[str]:
        return list(self.gathered.books[NAMES])

    @property
    def shapes(self) -> list[LaunchShape]:
        """How kernels were laid out, by the numbers in `shape` of ops."""
        return [LaunchShape(*key) for key in self.gathered.books[SHAPES]]

    @property
    def input_shapes(self) -> list[str]:
        """Shapes of operators' inputs as JSON, by the numbers in `shape` of host_ops."""
        return self._texts(INPUTS)

    @property
    def input_dtypes(self) -> list[str]:
        """Types of operators' inputs as JSON, by the numbers in `dtype` of host_ops; empty where there are none."""
        return self._texts(DTYPES)

    @property
    def input_values(self) -> list[str]:
        """Plain inputs of convolutions and attention as JSON, by the numbers in `value` of host_ops; () without any."""
        return self._texts(VALUES)

    def _texts(self, book: int) -> list[str]:
        return [json.dumps(msgspec.json.decode(text)) if text else "" for text in self.gathered.books[book]]

    @property
    def collectives(self) -> list[Collective]:
        return [Collective(*key) for key in self.gathered.books[COLLECTIVES]]

    @property
    def empty(self) -> bool:
        """Whether neither a device nor a host record came."""
        return not any(part.rows(table) for part in self.gathered.parts for table in (OPS, CALLS, HOST_OPS, FRAMES))

    def add(self, chunk: Chunk, number: int = 0) -> None:
        """Take the events of one chunk. number: its place in the file, where others take chunks, too; it must rise."""
        events = chunk.events
        if not events:
            return
        category, table = self._classified(events)
        if self.empty:
            self._count_kinds(category)
        others = [code for name, code in self._categories.items() if name in CATEGORIES]
        if others and (rows := np.flatnonzero(np.isin(category, others)).tolist()):
            in_kineto_words(events, rows)
            category, table = self._classified(events)
        times_us = (cast("Span", events[row]).dur for row in self._make.rows_of(_OVERHEAD, category))
        took_us = [time_us for time_us in times_us if 0 <= time_us * 1000 < DAY_NS]  # false for NaN
        self.gathered.overheads += len(took_us)
        self.gathered.overhead_us += sum(took_us)
        part = Part(number)
        for code in SPAN_TABLES:
            matching = np.flatnonzero(table == code)
            if len(matching):
                rows = matching.tolist()
                spans = cast("list[Span]", [events[row] for row in rows])
                columns = self._makers[code](spans, category[matching], chunk)
                part.columns[code] = slim(columns | time_columns(spans, rows, chunk))
        self._make.counters(events, category, chunk, part)
        if not {*map(type, events)}.isdisjoint((Begin, End)):
            _note_pairs(chunk, table, part)
        part.known = tuple(map(len, self.gathered.books))
        self.gathered.parts.append(part)

    def take_over(self, others: Sequence[Gathered]) -> None:
        """Add the chunks that other tables took. Nothing can be added after that."""
        self.gathered = together([self.gathered, *others])

    def _count_kinds(self, category: Int64) -> None:
        for kind, n in zip(self._categories, np.bincount(category).tolist(), strict=False):
            if n:
                self.gathered.seen[kind.words if isinstance(kind, Other) else kind or "other"] += n

    def _classified(self, events: list[Event]) -> tuple[Int64, Any]:
        """Of each event the number of its category, and which table its span goes to, 0 for none."""
        categories = self._categories
        category = column([categories[event.cat] for event in events], "q")
        table = np.array([_TABLE_OF.get(name, 0) for name in categories], np.int8)[category]
        for row in np.flatnonzero(table == WAITS).tolist():
            name = cast("Span", events[row]).name
            if name != _WAIT_NAME:
                table[row] = HOST_WAITS if name in _HOST_WAIT_NAMES else 0
        return category, table


def _note_pairs(chunk: Chunk, table: Any, part: Part) -> None:
    events = chunk.events
    rows = [row for row, event in enumerate(events) if isinstance(event, (Begin, End))]
    row_in_table = np.zeros(len(events), np.int64)
    for code in SPAN_TABLES:
        selected = table == code
        row_in_table[selected] = np.arange(int(selected.sum()))
    times = time_columns([events[row] for row in rows], rows, chunk)
    for row, start_ns in zip(rows, times["start_ns"].tolist(), strict=True):
        event = cast("Begin | End", events[row])
        pair = PairEnd(start_ns, (event.pid, event.tid), begins=isinstance(event, Begin))
        part.pairs.append((pair, int(table[row]), int(row_in_table[row])))
