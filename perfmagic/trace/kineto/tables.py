"""Events to the columns of a trace, chunk by chunk: what is decoded of a chunk is gone before the next."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any, cast

import msgspec
import numpy as np

from perfmagic.trace.columns import NONE, Bool, CallKind, HostKind, Int64, OpKind
from perfmagic.trace.kineto.args import (
    call_args,
    counter_args,
    counter_values,
    either,
    host_args,
    numbers,
    op_args,
    printable,
    ranks_of,
    wait_args,
    whole,
)
from perfmagic.trace.kineto.decode import (
    COUNTER,
    INSTANT,
    Begin,
    Chunk,
    Count,
    CounterArgs,
    End,
    Event,
    Instant,
    Loose,
    OpArgs,
    Other,
    Span,
)
from perfmagic.trace.kineto.parts import (
    CALLS,
    COLLECTIVES,
    COUNTERS,
    FRAMES,
    HOST_OPS,
    INPUTS,
    NAMES,
    OPS,
    SHAPES,
    TABLES,
    WAITS,
    Codes,
    Columns,
    Gathered,
    Part,
    together,
)
from perfmagic.trace.kineto.times import DAY_NS, LIMIT_NS, PairEnd, Times, digits_matter, mend_times, to_ns
from perfmagic.trace.model import Collective, LaunchShape
from perfmagic.trace.names import call_kind
from perfmagic.units import plural, size

# By category, never by "has a stream": Inductor's cpu_op rows carry one. The capitalised ones are of 2021.
_OP_KINDS = {
    "kernel": OpKind.KERNEL,
    "Kernel": OpKind.KERNEL,
    "gpu_memcpy": OpKind.MEMCPY,
    "Memcpy": OpKind.MEMCPY,
    "gpu_memset": OpKind.MEMSET,
    "Memset": OpKind.MEMSET,
}
_CALL_CATEGORIES = ("cuda_runtime", "cuda_driver", "Runtime")
_HOST_KINDS = {
    "cpu_op": HostKind.OP,
    "Operator": HostKind.OP,
    "user_annotation": HostKind.ANNOTATION,
}
_TABLE_OF = {
    **dict.fromkeys(_OP_KINDS, OPS),
    **dict.fromkeys(_CALL_CATEGORIES, CALLS),
    **dict.fromkeys(_HOST_KINDS, HOST_OPS),
    "python_function": FRAMES,
    "cuda_sync": WAITS,
}
MOST_BYTES = 2**50  # a pebibyte
MOST_DEVICES = 2**31 - 1
_SPAN_TABLES = (OPS, CALLS, HOST_OPS, WAITS, FRAMES)
_OVERHEAD = "overhead"
_WAIT_NAME = "Stream Wait Event"
_MEMORY_NAME = "[memory]"
_ALLOCATED, _RESERVED = "Total Allocated", "Total Reserved"
_TIMES = ("start_ns", "dur_ns", "has_start", "has_dur")
_NO_TIMES = {name: np.zeros(0, bool if name.startswith("has") else np.int64) for name in _TIMES}
_NO_TOTALS = CounterArgs()  # nobody writes to it
_CAT, _PID, _TID = attrgetter("cat"), attrgetter("pid"), attrgetter("tid")


class _Known(dict[Any, int]):
    """What a function gave, by its argument."""

    def __init__(self, function: Callable[[Any], int]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, key: Any) -> int:
        self[key] = number = self._function(key)
        return number


class Tables:
    """Takes chunks of events with `add`, then `finish` gives the columns `make_trace` wants, without `end_ns`.

    A file's chunks may be spread over several: `take_over` brings them together, with the same result.
    """

    def __init__(self) -> None:
        self.gathered = Gathered()
        self._categories = Codes()
        self._shape_of = _Known(self._new_shape)
        self._call_kind_of = _Known(lambda name: int(call_kind(name)))
        self.mended: dict[int, Bool] = {}  # of each table finished: which rows have a duration that is not the file's

    @property
    def names(self) -> list[str]:
        return list(map(printable, self.gathered.books[NAMES]))

    @property
    def shapes(self) -> list[LaunchShape]:
        """How kernels were laid out, by the numbers in `shape` of ops."""
        return [LaunchShape(*key) for key in self.gathered.books[SHAPES]]

    @property
    def input_shapes(self) -> list[str]:
        """Shapes of operators' inputs as JSON, by the numbers in `shape` of host_ops."""
        return [json.dumps(msgspec.json.decode(text)) for text in self.gathered.books[INPUTS]]

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
        if self.empty:
            self.gathered.seen.update(map(_kind, events))
        category, table = self._classified(events)
        self._note_overhead(events, category)
        part = Part(number)
        for code in _SPAN_TABLES:
            found = np.flatnonzero(table == code)
            if len(found):
                rows = found.tolist()
                spans: list[Span] = list(map(events.__getitem__, rows))  # type: ignore[arg-type]
                part.columns[code] = self._MAKERS[code](self, spans, category[found], chunk)
                part.columns[code] |= _time_columns(spans, rows, chunk)
        self._counters(events, category, chunk, part)
        if not {*map(type, events)}.isdisjoint((Begin, End)):
            _note_pairs(chunk, table, part)
        part.known = tuple(map(len, self.gathered.books))
        self.gathered.parts.append(part)

    def take_over(self, others: Sequence[Gathered]) -> None:
        """Add the chunks that other tables took. Nothing can be added after that."""
        self.gathered = together([self.gathered, *others])

    def finish(self, repairs: list[str]) -> tuple[dict[int, Columns], Times]:
        """The columns of each table with its times, without rows that have no place in time.

        Also the times of all rows as the file's clock has them. Adds to repairs what was mended.
        """
        parts = self.gathered.parts
        found = list(_paired(parts))
        joined = {table: _joined(parts, table) for table in TABLES}
        times_of = [[joined[table].pop(name, _NO_TIMES[name]) for table in TABLES] for name in _TIMES]
        sizes = [len(start_ns) for start_ns in times_of[0]]
        start_ns, dur_ns, has_start, has_dur = map(np.concatenate, times_of)
        spans = np.repeat([table in _SPAN_TABLES for table in TABLES], sizes)
        whole, none = np.ones(len(start_ns), bool), np.zeros(len(start_ns), bool)
        times = Times(start_ns, dur_ns, has_start, has_dur, spans, usable=whole, mended=none)
        first = dict(zip(TABLES, np.cumsum([0, *sizes]).tolist(), strict=False))
        pairs = [replace(pair, row=first[table] + row) if table else pair for pair, table, row in found]
        mend_times(times, pairs, repairs)
        _mend_sizes(joined, self.gathered.impossible, repairs)
        end_ns = times.end_ns
        result = {}
        for table, size_rows in zip(TABLES, sizes, strict=True):
            mine = slice(first[table], first[table] + size_rows)
            kept = times.usable[mine]
            self.mended[table] = times.mended[mine][kept]
            columns = {"start_ns": times.start_ns[mine], "end_ns": end_ns[mine], **joined[table]}
            result[table] = columns if kept.all() else {name: column[kept] for name, column in columns.items()}
        return result, times

    def _note_overhead(self, events: list[Event], category: Int64) -> None:
        times_us = (cast("Span", events[row]).dur for row in self._rows_of(_OVERHEAD, category))
        took_us = [time_us for time_us in times_us if 0 <= time_us * 1000 < DAY_NS]  # false for NaN
        self.gathered.overheads += len(took_us)
        self.gathered.overhead_us += sum(took_us)

    def _classified(self, events: list[Event]) -> tuple[Int64, Any]:
        """Of each event the number of its category, and which table its span goes to, 0 for none."""
        categories = self._categories
        category = np.fromiter(map(categories.__getitem__, map(_CAT, events)), np.int64, len(events))
        table = np.array([_TABLE_OF.get(name, 0) for name in categories], np.int8)[category]
        for row in np.flatnonzero(table == WAITS).tolist():
            if cast("Span", events[row]).name != _WAIT_NAME:
                table[row] = 0
        return category, table

    def _ops(self, events: list[Span], category: Int64, _chunk: Chunk) -> Columns:
        args = op_args(events)
        named = [a.collective for a in args]
        collective = np.full(len(args), NONE, np.int32)
        counted: Columns = {}
        if named.count(None) < len(named):
            collective[:] = [self._collective(a) for a in args]
            counted["sequence"] = whole([a.sequence for a in args])
        shape_of = self._shape_of
        return {
            "kind": np.array([_OP_KINDS.get(name, 0) for name in self._categories], np.int8)[category],
            "device": whole([a.device for a in args], events, _PID),
            "stream": whole([a.stream for a in args], events, _TID),
            "name": self._interned(events),
            "correlation": np.array([a.correlation for a in args], np.int64),
            "size_bytes": whole([a.bytes for a in args]),
            "collective": collective,
            "shape": np.array([shape_of[bytes(a.grid), bytes(a.block), a.registers, a.shared] for a in args], np.int32),
            **counted,
        }

    def _calls(self, events: list[Span], _category: Int64, _chunk: Chunk) -> Columns:
        args = call_args(events)
        kind_of = self._call_kind_of
        kind = np.array([kind_of[event.name] for event in events], np.int8)
        said = [a.call for a in args]
        if said.count(None) < len(said):
            for row, call in enumerate(said):
                if isinstance(call, str) and call in CallKind.__members__:
                    kind[row] = CallKind[call]
        return {
            "kind": kind,
            "name": self._interned(events),
            "thread": whole([event.tid for event in events]),
            "correlation": np.array([a.correlation for a in args], np.int64),
        }

    def _host_ops(self, events: list[Span], category: Int64, chunk: Chunk) -> Columns:
        shape = np.full(len(events), NONE, np.int32)
        if chunk.inputs:
            inputs = self.gathered.books[INPUTS]
            for row, args in enumerate(host_args(events)):
                dims = bytes(args.dims)
                if dims:
                    shape[row] = inputs[dims]
        return {
            "kind": np.array([_HOST_KINDS.get(name, 0) for name in self._categories], np.int8)[category],
            "name": self._interned(events),
            "thread": whole([event.tid for event in events]),
            "shape": shape,
        }

    def _frames(self, events: list[Span], _category: Int64, _chunk: Chunk) -> Columns:
        return {"name": self._interned(events), "thread": whole([event.tid for event in events])}

    def _waits(self, events: list[Span], _category: Int64, _chunk: Chunk) -> Columns:
        args = wait_args(events)
        return {
            "correlation": np.array([a.correlation for a in args], np.int64),
            "device": whole([a.device for a in args], events, _PID),
            "stream": whole([a.stream for a in args], events, _TID),
            "on_stream": np.array([a.on_stream for a in args], np.int64),
            "on_correlation": np.array([a.on_correlation for a in args], np.int64),
            "on_device": np.array([a.on_device for a in args], np.int64),
        }

    def _counters(self, events: list[Event], category: Int64, chunk: Chunk, part: Part) -> None:
        """A row for each value of a counter, and for the totals memory events carry (those of 2021 carry none)."""
        found = [(row, cast("Instant", events[row])) for row in self._rows_of(INSTANT, category)]
        memory = [(row, event) for row, event in found if event.name == _MEMORY_NAME]
        rows = [row for row, _ in memory] + self._rows_of(COUNTER, category)
        if not rows:
            return
        mine = [events[row] for row in rows]
        counts = cast("list[Count]", mine[len(memory) :])
        args = [event.args or _NO_TOTALS for _, event in memory] + counter_args(counts)
        totals = args[: len(memory)]
        counted = [(at, *value) for at, event in enumerate(counts, len(memory)) for value in counter_values(event)]
        names, each = self.gathered.books[NAMES], np.arange(len(memory))
        of_memory = [names[name] for name in (_ALLOCATED, _RESERVED)] if memory else []
        at = np.concatenate((each, each, np.array([at for at, _, _ in counted], np.int64)))
        series = np.concatenate((np.repeat(of_memory, len(memory)), [names[name] for _, name, _ in counted]))
        value = np.concatenate(
            (
                numbers([a.allocated for a in totals]),
                numbers([a.reserved for a in totals]),
                np.array([number for _, _, number in counted], np.float64),
            )
        )
        possible = np.abs(value) <= MOST_BYTES  # false for NaN
        self.gathered.impossible += int((~possible & ~np.isnan(value)).sum())
        if possible.any():
            device = whole([a.device_id for a in args], mine, _PID)
            columns = {"device": device} | _time_columns(mine, rows, chunk)
            part.columns[COUNTERS] = {name: column[at[possible]] for name, column in columns.items()} | {
                "series": series[possible].astype(np.int32),
                "value": value[possible],
            }

    def _rows_of(self, kind: Other | str, category: Int64) -> list[int]:
        return np.flatnonzero(category == self._categories[kind]).tolist() if kind in self._categories else []

    def _interned(self, events: list[Span]) -> Any:
        names = self.gathered.books[NAMES]
        return np.fromiter([names[event.name] for event in events], np.int32, len(events))

    def _new_shape(self, key: tuple[bytes, bytes, Loose, Loose]) -> int:
        """The number of a kernel's launch shape; NONE where the record has none (copies, and traces of 2021)."""
        sides: list[Any] = [msgspec.json.decode(text) if text else None for text in key[:2]]
        if not all(isinstance(side, list) and len(side) == 3 for side in sides):
            return NONE
        if not all(type(n) is int and n > 0 for side in sides for n in side):
            return NONE
        optional = (None if (n := either(value, NONE)) == NONE else n for value in key[2:])
        return self.gathered.books[SHAPES][(tuple(sides[0]), tuple(sides[1]), *optional)]

    def _collective(self, args: OpArgs) -> int:
        if not args.collective:
            return NONE
        sizes = (None if (n := either(v, NONE)) == NONE else n for v in (args.in_elements, args.out_elements))
        group_size = either(args.group_size, NONE)
        words = (str(args.dtype or ""), None if group_size == NONE else group_size, str(args.group or ""))
        return self.gathered.books[COLLECTIVES][(str(args.collective), *sizes, *words, ranks_of(args.ranks))]

    _MAKERS: dict[int, Callable[[Tables, list[Span], Int64, Chunk], Columns]] = {  # noqa: RUF012 - never written
        OPS: _ops,
        CALLS: _calls,
        HOST_OPS: _host_ops,
        WAITS: _waits,
        FRAMES: _frames,
    }


def _kind(event: Event) -> str:
    return event.cat.words if isinstance(event.cat, Other) else event.cat or "other"


def _time_columns(events: Sequence[Any], rows: list[int], chunk: Chunk) -> Columns:
    ts_us = np.fromiter([event.ts for event in events], np.float64, len(events))
    dur_us = np.fromiter([event.dur for event in events], np.float64, len(events))
    if chunk.ts_us is not None or digits_matter(ts_us):
        exact = chunk.exact_ts_us()
        start_ns, has_start = to_ns([exact[row] for row in rows])
    else:
        start_ns, has_start = to_ns(ts_us)
    has_start &= np.abs(start_ns) < LIMIT_NS
    dur_ns, has_dur = to_ns(dur_us if chunk.dur_us is None else [chunk.dur_us[row] for row in rows])
    return {"start_ns": start_ns, "dur_ns": dur_ns, "has_start": has_start, "has_dur": has_dur}


def _note_pairs(chunk: Chunk, table: Any, part: Part) -> None:
    events = chunk.events
    rows = [row for row, event in enumerate(events) if isinstance(event, (Begin, End))]
    row_in_table = np.zeros(len(events), np.int64)
    for code in _SPAN_TABLES:
        mine = table == code
        row_in_table[mine] = np.arange(int(mine.sum()))
    times = _time_columns([events[row] for row in rows], rows, chunk)
    for row, start_ns in zip(rows, times["start_ns"].tolist(), strict=True):
        event = cast("Begin | End", events[row])
        pair = PairEnd(start_ns, (event.pid, event.tid), begins=isinstance(event, Begin))
        part.pairs.append((pair, int(table[row]), int(row_in_table[row])))


def _paired(parts: list[Part]) -> Iterator[tuple[PairEnd, int, int]]:
    """Begin and end events, by the table of the beginning and its row there."""
    before = dict.fromkeys(TABLES, 0)
    for part in parts:
        for pair, table, row in part.pairs:
            yield pair, table, row + (before[table] if table else 0)
        for table in TABLES:
            before[table] += part.rows(table)


def _mend_sizes(tables: dict[int, Columns], lost: int, repairs: list[str]) -> None:
    """Leave out sizes that no memory has, and say so of the counts that were; device numbers beyond all are NONE."""
    if "size_bytes" in tables[OPS]:
        sizes = tables[OPS]["size_bytes"]
        impossible = (sizes != NONE) & ((sizes < 0) | (sizes > MOST_BYTES))
        sizes[impossible] = NONE
        lost += int(impossible.sum())
    if lost:
        repairs.append(f"{plural(lost, 'size or count', 'sizes or counts')} beyond {size(MOST_BYTES)}, left out")
    far = 0
    for table, name in ((OPS, "device"), (WAITS, "device"), (WAITS, "on_device"), (COUNTERS, "device")):
        if name in tables[table]:
            devices = tables[table][name]
            impossible = (devices < NONE) | (devices > MOST_DEVICES)
            devices[impossible] = NONE
            far += int(impossible.sum())
    if far:
        repairs.append(f"{plural(far, 'device number')} beyond {MOST_DEVICES}, read as {NONE}")


def _joined(parts: list[Part], table: int) -> Columns:
    """The columns of all parts, which lose them; NONE where a part lacks one that another has."""
    mine = [part.columns.pop(table) for part in parts if table in part.columns]
    lacking = [np.broadcast_to(np.int64(NONE), len(columns["start_ns"])) for columns in mine]
    names = dict.fromkeys(chain.from_iterable(mine))
    return {
        name: np.concatenate([each.pop(name, none) for each, none in zip(mine, lacking, strict=True)]) for name in names
    }
