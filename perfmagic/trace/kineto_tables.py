"""Events to the columns of a trace, chunk by chunk: what is decoded of a chunk is gone before the next."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from perfmagic.trace.columns import NONE, Bool, CallKind, HostKind, Int64, OpKind
from perfmagic.trace.kineto_decode import CallArgs, Chunk, CounterArgs, Event, HostArgs, Loose, OpArgs, WaitArgs
from perfmagic.trace.kineto_times import DAY_NS, LIMIT_NS, Begin, End, Times, digits_matter, mend_times, to_ns
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
    "python_function": HostKind.PYTHON,
}
OPS, CALLS, HOST_OPS, WAITS, COUNTERS = range(1, 6)  # which table an event goes to; 0: none
TABLES = (OPS, CALLS, HOST_OPS, WAITS, COUNTERS)
_TABLE_OF = {
    **dict.fromkeys(_OP_KINDS, OPS),
    **dict.fromkeys(_CALL_CATEGORIES, CALLS),
    **dict.fromkeys(_HOST_KINDS, HOST_OPS),
    "cuda_sync": WAITS,
}
MOST_BYTES = 2**50  # a pebibyte
MOST_DEVICES = 2**31 - 1
_OVERHEAD = "overhead"
_WAIT_NAME = "Stream Wait Event"
_MEMORY_NAME = "[memory]"
_SPANS = ("X", "B")
_PAIRED = ("B", "E")
_LOOKED_AT = ("C", "i", "I", *_PAIRED)  # phases of events that are looked at one by one
_ALLOCATED, _RESERVED = "Total Allocated", "Total Reserved"
_TIMES = ("start_ns", "dur_ns", "has_start", "has_dur", "spans")

ArgsT = TypeVar("ArgsT", bound=msgspec.Struct)
Columns = dict[str, Any]


class _Known(dict[Any, int]):
    """What a function gave, by its argument."""

    def __init__(self, function: Callable[[Any], int]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, key: Any) -> int:
        self[key] = number = self._function(key)
        return number


class _Codes(dict[Any, int]):
    """Numbers for values as they come."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


class Tables:
    """Takes chunks of events with `add`, then `finish` gives the columns `make_trace` wants, without `end_ns`."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()  # kinds of events, as long as no table took one
        self._names = _Codes()
        self._categories = _Codes()
        self._phases = _Codes()
        self._shapes = _Codes()
        self._shape_of = _Known(self._new_shape)
        self._inputs = _Codes()
        self._collectives = _Codes()
        self._parts: dict[int, list[Columns]] = {table: [] for table in TABLES}
        self.overheads = 0  # records of what the profiler itself did, and how long it took
        self.overhead_us = 0.0
        self._impossible = 0  # counts no memory has
        self._rows = dict.fromkeys(TABLES, 0)
        self.mended: dict[int, Bool] = {}  # of each table finished: which rows have a duration that is not the file's
        self._pairs: list[tuple[str, int, tuple[Any, Any], int, int]] = []  # phase, start_ns, place, table, its row

    @property
    def names(self) -> list[str]:
        return list(map(printable, self._names))

    @property
    def shapes(self) -> list[LaunchShape]:
        """How kernels were laid out, by the numbers in `shape` of ops."""
        return [LaunchShape(*key) for key in self._shapes]

    @property
    def input_shapes(self) -> list[str]:
        """Shapes of operators' inputs as JSON, by the numbers in `shape` of host_ops."""
        return [json.dumps(msgspec.json.decode(text)) for text in self._inputs]

    @property
    def collectives(self) -> list[Collective]:
        return [Collective(*key) for key in self._collectives]

    @property
    def empty(self) -> bool:
        """Whether neither a device nor a host record came."""
        return not any(self._rows[table] for table in (OPS, CALLS, HOST_OPS))

    def add(self, chunk: Chunk) -> None:
        """Take the events of one chunk."""
        events = chunk.events
        if not events:
            return
        category, phase, table = self._classified(events)
        self._note_overhead(events, category)
        if self.empty:
            self.seen.update(event.cat or {"M": "metadata"}.get(event.ph, "other") for event in events)
        for number in TABLES:
            found = np.flatnonzero(table == number)
            if len(found):
                rows = found.tolist()
                if number == COUNTERS:
                    self._counters(events, rows, chunk)
                    continue
                mine = [events[row] for row in rows]
                columns = self._MAKERS[number](self, mine, category[found], chunk)
                times = self._time_columns(mine, rows, chunk)
                spans = _looked_up(self._phases, _SPANS, phase[found])
                self._parts[number].append(columns | times | {"spans": spans})
        self._note_pairs(chunk, table)
        for number in TABLES:
            if number != COUNTERS:
                self._rows[number] += int((table == number).sum())

    def finish(self, repairs: list[str]) -> tuple[dict[int, Columns], Times]:
        """The columns of each table with its times, without rows that have no place in time.

        Also the times of all rows as the file's clock has them. Adds to repairs what was mended.
        """
        joined = {table: _joined(self._parts.pop(table)) for table in TABLES}
        sizes = [self._rows[table] for table in TABLES]
        parts = [[joined[table].pop(name, np.zeros(0, np.int64)) for table in TABLES] for name in _TIMES]
        start_ns, dur_ns, has_start, has_dur, spans = (np.concatenate(part) for part in parts)
        kinds = (has_start.astype(bool), has_dur.astype(bool), spans.astype(bool))
        times = Times(
            start_ns, dur_ns, *kinds, usable=np.ones(len(start_ns), bool), mended=np.zeros(len(start_ns), bool)
        )
        mend_times(times, self._paired(sizes), repairs)
        _mend_sizes(joined, self._impossible, repairs)
        first = np.cumsum([0, *sizes])
        result = {}
        for i, table in enumerate(TABLES):
            mine = slice(first[i], first[i + 1])
            kept = times.usable[mine]
            self.mended[table] = times.mended[mine][kept]
            columns = {"start_ns": times.start_ns[mine], "end_ns": times.end_ns[mine], **joined[table]}
            result[table] = columns if kept.all() else {name: column[kept] for name, column in columns.items()}
        return result, times

    def _note_overhead(self, events: list[Event], category: Int64) -> None:
        if _OVERHEAD in self._categories:
            rows = np.flatnonzero(category == self._categories[_OVERHEAD]).tolist()
            took_us = [events[row].dur for row in rows if 0 <= events[row].dur * 1000 < DAY_NS]  # false for NaN
            self.overheads += len(took_us)
            self.overhead_us += sum(took_us)

    def _classified(self, events: list[Event]) -> tuple[Int64, Int64, Any]:
        """Of each event the number of its category and of its phase, and which table it goes to, 0 for none."""
        categories, phases = self._categories, self._phases
        category = np.array([categories[event.cat] for event in events], np.int64)
        phase = np.array([phases[event.ph] for event in events], np.int64)
        table = np.array([_TABLE_OF.get(name, 0) for name in categories], np.int8)[category]
        table[~_looked_up(phases, _SPANS, phase)] = 0
        for row in np.flatnonzero(table == WAITS).tolist():
            if events[row].name != _WAIT_NAME:
                table[row] = 0
        for row in np.flatnonzero(_looked_up(phases, _LOOKED_AT, phase)).tolist():
            event = events[row]
            if event.ph == "C" or (event.ph in ("i", "I") and event.name == _MEMORY_NAME):
                table[row] = COUNTERS
        return category, phase, table

    def _time_columns(self, events: list[Event], rows: list[int], chunk: Chunk) -> Columns:
        ts_us: Sequence[Any] = [event.ts for event in events]
        dur_us: Sequence[Any] = [event.dur for event in events]
        if chunk.ts_us is not None or digits_matter(ts_us):
            exact = chunk.exact_ts_us()
            ts_us = [exact[row] for row in rows]
        if chunk.dur_us is not None:
            dur_us = [chunk.dur_us[row] for row in rows]
        start_ns, has_start = to_ns(ts_us)
        has_start &= np.abs(start_ns) < LIMIT_NS
        dur_ns, has_dur = to_ns(dur_us)
        return {"start_ns": start_ns, "dur_ns": dur_ns, "has_start": has_start, "has_dur": has_dur}

    def _note_pairs(self, chunk: Chunk, table: Any) -> None:
        events = chunk.events
        if not any(phase in self._phases for phase in _PAIRED):
            return
        rows = [row for row, event in enumerate(events) if event.ph in _PAIRED]
        if not rows:
            return
        number_in_table = np.zeros(len(events), np.int64)
        for number in TABLES:
            mine = table == number
            number_in_table[mine] = self._rows[number] + np.arange(int(mine.sum()))
        times = self._time_columns([events[row] for row in rows], rows, chunk)
        for row, start_ns in zip(rows, times["start_ns"].tolist(), strict=True):
            event = events[row]
            place = (event.pid, event.tid)
            self._pairs.append((event.ph, start_ns, place, int(table[row]), int(number_in_table[row])))

    def _paired(self, sizes: list[int]) -> list[Begin | End]:
        first = dict(zip(TABLES, np.cumsum([0, *sizes]).tolist(), strict=False))
        return [
            End(start_ns, place) if phase == "E" else Begin(start_ns, place, first[table] + row if table else -1)
            for phase, start_ns, place, table, row in self._pairs
        ]

    def _ops(self, events: list[Event], category: Int64, _chunk: Chunk) -> Columns:
        args = _op_args(events)
        return {
            "kind": np.array([_OP_KINDS.get(name, 0) for name in self._categories], np.int8)[category],
            "device": _whole([a.device for a in args], [e.pid for e in events]),
            "stream": _whole([a.stream for a in args], [e.tid for e in events]),
            "name": self._interned(events),
            "correlation": np.array([a.correlation for a in args], np.int64),
            "size_bytes": _whole([a.bytes for a in args]),
            "collective": np.array([self._collective(a) for a in args], np.int32),
            "shape": np.array([self._shape(a) for a in args], np.int32),
        }

    def _calls(self, events: list[Event], _category: Int64, _chunk: Chunk) -> Columns:
        args = _call_args(events)
        name = self._interned(events)
        unique, inverse = np.unique(name, return_inverse=True)
        names = list(self._names)
        kind = np.array([call_kind(names[i]) for i in unique.tolist()], np.int8)[inverse.reshape(-1)]
        for row, arg in enumerate(args):
            if arg.call is not None and arg.call in CallKind.__members__:
                kind[row] = CallKind[arg.call]
        return {
            "kind": kind,
            "name": name,
            "thread": _whole([event.tid for event in events]),
            "correlation": np.array([a.correlation for a in args], np.int64),
        }

    def _host_ops(self, events: list[Event], category: Int64, chunk: Chunk) -> Columns:
        shape = np.full(len(events), NONE, np.int32)
        if chunk.inputs:
            inputs = self._inputs
            for row, args in enumerate(_host_args(events)):
                dims = bytes(args.dims)
                if dims:
                    shape[row] = inputs[dims]
        return {
            "kind": np.array([_HOST_KINDS.get(name, 0) for name in self._categories], np.int8)[category],
            "name": self._interned(events),
            "thread": _whole([event.tid for event in events]),
            "shape": shape,
        }

    def _waits(self, events: list[Event], _category: Int64, _chunk: Chunk) -> Columns:
        args = _wait_args(events)
        return {
            "correlation": np.array([a.correlation for a in args], np.int64),
            "device": _whole([a.device for a in args], [e.pid for e in events]),
            "stream": _whole([a.stream for a in args], [e.tid for e in events]),
            "on_stream": np.array([a.on_stream for a in args], np.int64),
            "on_correlation": np.array([a.on_correlation for a in args], np.int64),
            "on_device": np.array([a.on_device for a in args], np.int64),
        }

    def _counters(self, events: list[Event], rows: list[int], chunk: Chunk) -> None:
        """A row for each value of a counter, and for the totals that memory events carry (those of 2021 carry none)."""
        memory = [row for row in rows if events[row].ph != "C"]
        totals = _counter_args([events[row] for row in memory])
        counted = [(row, *value) for row in rows if events[row].ph == "C" for value in _values(events[row])]
        names = self._names
        at = np.array([*memory, *memory, *(row for row, _, _ in counted)], np.int64)
        value = np.array(
            [
                *_numbers([args.allocated for args in totals]),
                *_numbers([args.reserved for args in totals]),
                *(number for _, _, number in counted),
            ],
            np.float64,
        )
        of_memory = [names[name] for name in (_ALLOCATED, _RESERVED) for _ in memory]
        series = np.array([*of_memory, *(names[name] for _, name, _ in counted)], np.int32)
        possible = np.abs(value) <= MOST_BYTES  # false for NaN
        self._impossible += int((~possible & ~np.isnan(value)).sum())
        kept = at[possible].tolist()
        mine = [events[row] for row in kept]
        if not mine:
            return
        columns = {
            "device": _whole([args.device_id for args in _counter_args(mine)], [e.pid for e in mine]),
            "series": series[possible],
            "value": value[possible],
            "spans": np.zeros(len(mine), bool),
        }
        self._parts[COUNTERS].append(columns | self._time_columns(mine, kept, chunk))
        self._rows[COUNTERS] += len(mine)

    def _interned(self, events: list[Event]) -> Any:
        names = self._names
        return np.array([names[event.name] for event in events], np.int32)

    def _shape(self, args: OpArgs) -> int:
        """The number of a kernel's launch shape; NONE where the record has none (copies, and traces of 2021)."""
        grid, block = args.grid, args.block
        if grid is None or block is None:
            return NONE
        try:
            key = (*grid, *block, args.registers, args.shared)
            return self._shape_of[key]
        except TypeError:  # not a list, or a list of lists
            return NONE

    def _new_shape(self, key: tuple[Any, ...]) -> int:
        grid, block = key[:3], key[3:6]
        if len(key) != 8 or not all(type(n) is int and n > 0 for n in (*grid, *block)):
            return NONE
        optional = (None if (n := _either(value, NONE)) == NONE else n for value in key[6:])
        return self._shapes[(grid, block, *optional)]

    def _collective(self, args: OpArgs) -> int:
        if not args.collective:
            return NONE
        sizes = (None if (n := _either(v, NONE)) == NONE else n for v in (args.in_elements, args.out_elements))
        group_size = _either(args.group_size, NONE)
        words = (str(args.dtype or ""), None if group_size == NONE else group_size, str(args.group or ""))
        return self._collectives[(str(args.collective), *sizes, *words)]

    _MAKERS: dict[int, Callable[[Tables, list[Event], Int64, Chunk], Columns]] = {  # noqa: RUF012 - never written
        OPS: _ops,
        CALLS: _calls,
        HOST_OPS: _host_ops,
        WAITS: _waits,
    }


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


def _joined(parts: list[Columns]) -> Columns:
    if not parts:
        return {}
    return {name: np.concatenate([part.pop(name) for part in parts]) for name in list(parts[0])}


def _reader(kind: type[ArgsT]) -> Callable[[list[Event]], list[ArgsT]]:
    """Decodes the arguments of events at once, which takes a third of the time of one by one; none are the defaults."""
    decode: Callable[[bytes], list[ArgsT | None]] = msgspec.json.Decoder(list[kind | None]).decode  # type: ignore[valid-type]
    none = kind()  # nobody writes to it

    def read(events: list[Event]) -> list[ArgsT]:
        found = decode(b"[" + b",".join([event.args or b"null" for event in events]) + b"]")
        return [none if args is None else args for args in found]

    return read


_op_args, _call_args, _host_args = _reader(OpArgs), _reader(CallArgs), _reader(HostArgs)
_wait_args, _counter_args = _reader(WaitArgs), _reader(CounterArgs)


def _values(event: Event) -> list[tuple[str, float]]:
    """Series and value of each argument of a counter, NaN for what is no number."""
    args = msgspec.json.decode(event.args) if event.args else None
    if not isinstance(args, dict):
        return []
    named = [event.name if key == "value" else f"{event.name} {key}" for key in args]
    return list(zip(named, _numbers(list(args.values())), strict=True))


def _numbers(values: list[Any]) -> list[float]:
    """Numbers, also those written as text; NaN for all else."""
    return [value if type(value) is int and abs(value) < MOST_BYTES else _number(value) for value in values]


def _number(value: Any) -> float:
    if value is None or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return math.nan


def printable(text: str) -> str:
    """The text without halves of surrogate pairs, which no file can hold."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def _looked_up(codes: _Codes, wanted: Sequence[str], numbers: Int64) -> Bool:
    """Which numbers stand for one of the wanted words."""
    found: Bool = np.array([word in wanted for word in codes], bool)[numbers]
    return found


def _whole(values: list[Loose], others: list[Loose] | None = None) -> Int64:
    """Numbers as `_either` reads them."""
    try:
        if {*map(type, values)} <= {int}:
            return np.array(values, np.int64)
    except OverflowError:
        pass
    if others is None:
        return np.array([_either(value, NONE) for value in values], np.int64)
    return np.array([_either(*pair) for pair in zip(values, others, strict=True)], np.int64)


def _either(value: Loose, other: Loose) -> int:
    """A number as the file has it, the last number in a text ("stream 7"), or else the other value."""
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, str):
        digits = value.replace("(", " ").split()
        found = [int(part) for part in digits if part.lstrip("-").isdecimal()]
        value = found[-1] if found else None
    if value is None or not -(2**63) <= value < 2**63:
        return NONE if other == NONE else _either(other, NONE)
    return int(value)
