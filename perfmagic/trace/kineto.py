"""Reading the traces that torch.profiler writes (Kineto, Chrome JSON), of every version since 2021.

Bytes (`kineto_file`) → events (`kineto_decode`, or `kineto_repair` for damaged files) → exact times (`kineto_times`) →
the tables of a Trace, here. Works without torch.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from perfmagic.errors import TraceError
from perfmagic.trace.columns import NONE, CallKind, HostKind, Int32, Int64, OpKind
from perfmagic.trace.kineto_decode import Args, Decoded, Event, Loose, decode
from perfmagic.trace.kineto_file import DEFAULT_LIMIT_BYTES, read_bytes, unpack
from perfmagic.trace.kineto_header import base_unix_ns, device_infos, rank_and_world, restored
from perfmagic.trace.kineto_repair import repair
from perfmagic.trace.kineto_times import Times, event_times
from perfmagic.trace.model import LaunchShape, Trace, TraceMeta, make_trace
from perfmagic.trace.names import call_kind
from perfmagic.units import count

# By category, never by "has a stream": Inductor's cpu_op rows carry one. The capitalised ones are of 2021.
_OP_KINDS = {
    "kernel": OpKind.KERNEL,
    "Kernel": OpKind.KERNEL,
    "gpu_memcpy": OpKind.MEMCPY,
    "Memcpy": OpKind.MEMCPY,
    "gpu_memset": OpKind.MEMSET,
    "Memset": OpKind.MEMSET,
}
_CALL_CATEGORIES = frozenset({"cuda_runtime", "cuda_driver", "Runtime"})
_HOST_KINDS = {
    "cpu_op": HostKind.OP,
    "Operator": HostKind.OP,
    "user_annotation": HostKind.ANNOTATION,
    "python_function": HostKind.PYTHON,
}
_OP, _CALL, _HOST, _WAIT, _COUNTER = range(1, 6)  # which table an event goes to
_TABLE_OF = {
    **dict.fromkeys(_OP_KINDS, _OP),
    **dict.fromkeys(_CALL_CATEGORIES, _CALL),
    **dict.fromkeys(_HOST_KINDS, _HOST),
}
_WAIT_NAME = "Stream Wait Event"
_MEMORY_NAME = "[memory]"
_NO_ARGS = Args()


def read_trace(
    source: str | os.PathLike[str] | bytes,
    *,
    origin: str | None = None,
    max_unpacked_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Trace:
    """What a saved trace says: Chrome JSON as torch.profiler writes it, gzipped or not, whatever its name ends in.

    source: a file, or its content.  origin: what the trace is called; the file's name (never its folder) if left out.
    Times are exact nanoseconds since the first record; `meta.base_unix_ns` is that instant in unix time, where the file
    has one. The window is the extent of device ops, calls and operators; annotations and Python frames count only where
    there is nothing else, because a step annotation may stretch far beyond the records a file was cut down to.
    Damage is mended and said in `meta.repairs`; a sound file has none.
    Raises TraceError where the file cannot be read or holds neither a host nor a device record.
    """
    repairs: list[str] = []
    if isinstance(source, bytes):
        data, name = source, origin or "trace"
    else:
        path = Path(source)
        data, name = read_bytes(path, max_unpacked_bytes), origin or path.name
    decoded = _decoded(unpack(data, name, max_unpacked_bytes, repairs), name, repairs)
    return _build(decoded, name, repairs)


def _decoded(data: bytes, origin: str, repairs: list[str]) -> Decoded:
    try:
        return decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
        return repair(data, origin, repairs)


def _build(decoded: Decoded, origin: str, repairs: list[str]) -> Trace:
    tables = _tables(decoded.events)
    times = event_times(decoded, tables > 0, repairs)
    tables[~times.usable] = 0
    if not np.isin(tables, (_OP, _CALL, _HOST)).any():
        raise _no_records(decoded.events, origin)
    saved = restored(decoded.header, repairs)
    base_ns, zero_ns = base_unix_ns(decoded.header, int(times.start_ns[tables > 0].min()), saved)
    builder = _Tables(decoded.events, times, zero_ns)
    ops = builder.ops(np.flatnonzero(tables == _OP))
    calls = builder.calls(np.flatnonzero(tables == _CALL))
    host_ops = builder.host_ops(np.flatnonzero(tables == _HOST))
    counters = builder.counters(np.flatnonzero(tables == _COUNTER))  # the last to add names
    window = _window(ops, calls, host_ops)
    rank, world_size = rank_and_world(decoded.header)
    meta = TraceMeta(
        origin=origin,
        base_unix_ns=base_ns,
        start_ns=window[0],
        end_ns=window[1],
        devices=device_infos(decoded.header, np.unique(ops["device"]).tolist(), builder.names),
        rank=rank,
        world_size=world_size,
        repairs=tuple(repairs),
    )
    return make_trace(
        builder.names,
        saved.meta(meta) if saved else meta,
        ops=ops,
        calls=calls,
        host_ops=host_ops,
        waits=builder.waits(np.flatnonzero(tables == _WAIT)),
        counters=counters,
        marks=saved.marks if saved else None,
        cell=saved.cell if saved else None,
        shapes=builder.shapes,
    )


def _tables(events: list[Event]) -> Any:
    """Which table each event goes to, 0 for none."""
    found = np.zeros(len(events), np.int8)
    for row, event in enumerate(events):
        if event.ph in ("X", "B"):
            table = _TABLE_OF.get(event.cat)
            if table:
                found[row] = table
            elif event.cat == "cuda_sync" and event.name == _WAIT_NAME:
                found[row] = _WAIT
        elif event.ph == "C" or (event.ph in ("i", "I") and event.name == _MEMORY_NAME):
            found[row] = _COUNTER
    return found


def _no_records(events: list[Event], origin: str) -> TraceError:
    found = Counter(event.cat or {"M": "metadata"}.get(event.ph, "other") for event in events)
    what = ", ".join(f"{count(n)} {kind}" for kind, n in found.most_common(5)) or "no events at all"
    return TraceError(
        f"{origin} holds no record of a device or of the host, only {what}" if found else f"{origin} holds {what}",
        hint="record again with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])",
    )


def _window(ops: dict[str, Any], calls: dict[str, Any], host_ops: dict[str, Any]) -> tuple[int, int]:
    operators = host_ops["kind"] == HostKind.OP
    parts = [
        (ops["start_ns"], ops["end_ns"]),
        (calls["start_ns"], calls["end_ns"]),
        (host_ops["start_ns"][operators], host_ops["end_ns"][operators]),
    ]
    if not any(len(start) for start, _ in parts):
        parts = [(host_ops["start_ns"], host_ops["end_ns"])]
    return min(int(s.min()) for s, _ in parts if len(s)), max(int(e.max()) for _, e in parts if len(e))


class _Tables:
    """Columns for `make_trace`, from the events of each table; names are interned as they come."""

    def __init__(self, events: list[Event], times: Times, zero_ns: int) -> None:
        self._events = events
        self._start_ns = times.start_ns - zero_ns
        self._end_ns = times.end_ns - zero_ns
        self._codes: dict[str, int] = {}
        self._shapes: dict[LaunchShape, int] = {}

    @property
    def names(self) -> list[str]:
        return list(self._codes)

    @property
    def shapes(self) -> list[LaunchShape]:
        return list(self._shapes)

    def ops(self, rows: Int64) -> dict[str, Any]:
        events, args = self._rows(rows)
        return {
            **self._span(rows),
            "kind": [_OP_KINDS[e.cat] for e in events],
            "device": [_integer(a.device, e.pid) for e, a in zip(events, args, strict=True)],
            "stream": [_integer(a.stream, e.tid) for e, a in zip(events, args, strict=True)],
            "name": self._intern(e.name for e in events),
            "correlation": [a.correlation for a in args],
            "size_bytes": [_integer(a.bytes) for a in args],
            "collective": [bool(a.collective) for a in args],
            "shape": [self._shape(a) for a in args],
        }

    def calls(self, rows: Int64) -> dict[str, Any]:
        events, args = self._rows(rows)
        name = self._intern(e.name for e in events)
        kind_of_name = np.array([call_kind(n) for n in self.names], np.int8)
        kind = kind_of_name[name] if len(name) else name
        for row, arg in enumerate(args):
            if arg.call in CallKind.__members__:
                kind[row] = CallKind[arg.call]
        return {
            **self._span(rows),
            "kind": kind,
            "name": name,
            "thread": [_integer(e.tid) for e in events],
            "correlation": [a.correlation for a in args],
        }

    def host_ops(self, rows: Int64) -> dict[str, Any]:
        events = [self._events[row] for row in rows.tolist()]
        return {
            **self._span(rows),
            "kind": np.array([_HOST_KINDS[e.cat] for e in events], np.int8),
            "name": self._intern(e.name for e in events),
            "thread": [_integer(e.tid) for e in events],
        }

    def waits(self, rows: Int64) -> dict[str, Any]:
        events, args = self._rows(rows)
        return {
            "at_ns": self._start_ns[rows],
            "correlation": [a.correlation for a in args],
            "device": [_integer(a.device, e.pid) for e, a in zip(events, args, strict=True)],
            "stream": [_integer(a.stream, e.tid) for e, a in zip(events, args, strict=True)],
            "on_stream": [a.wait_on_stream for a in args],
            "on_correlation": [a.wait_on_correlation for a in args],
            "on_device": [a.wait_on_device for a in args],
        }

    def counters(self, rows: Int64) -> dict[str, Any]:
        """Values of counter events, and the totals that memory events carry (those of 2021 carry none)."""
        at_ns, series, device, value = [], [], [], []
        for row in rows.tolist():
            event = self._events[row]
            for name, number in _values(event):
                at_ns.append(self._start_ns[row])
                series.append(name)
                device.append(_integer((event.args or _NO_ARGS).device_id, event.pid))
                value.append(number)
        return {"at_ns": at_ns, "series": self._intern(series), "device": device, "value": value}

    def _rows(self, rows: Int64) -> tuple[list[Event], list[Args]]:
        events = [self._events[row] for row in rows.tolist()]
        return events, [event.args or _NO_ARGS for event in events]

    def _span(self, rows: Int64) -> dict[str, Any]:
        return {"start_ns": self._start_ns[rows], "end_ns": self._end_ns[rows]}

    def _shape(self, args: Args) -> int:
        """The number of a kernel's launch shape; NONE where the record has none (copies, and traces of 2021)."""
        grid, block = _dimensions(args.grid), _dimensions(args.block)
        if grid is None or block is None:
            return NONE
        optional = (_integer(args.registers), _integer(args.shared))
        shape = LaunchShape(grid, block, *(None if n == NONE else n for n in optional))
        return self._shapes.setdefault(shape, len(self._shapes))

    def _intern(self, names: Iterable[str]) -> Int32:
        codes = self._codes
        return np.array([codes.setdefault(name, len(codes)) for name in names], np.int32)


def _dimensions(value: Any) -> tuple[int, int, int] | None:
    sound = isinstance(value, list) and len(value) == 3 and all(type(n) is int and n > 0 for n in value)
    return (value[0], value[1], value[2]) if sound else None


def _values(event: Event) -> list[tuple[str, float]]:
    args = event.args or _NO_ARGS
    if event.ph == "C":
        pairs = [(event.name, args.value)]
    else:
        pairs = [("Total Allocated", args.allocated), ("Total Reserved", args.reserved)]
    return [(name, float(value)) for name, value in pairs if isinstance(value, (int, float))]


def _integer(value: Loose, other: Loose = NONE) -> int:
    """A number as the file has it, the last number in a text ("stream 7"), or else the other value."""
    if isinstance(value, str):
        digits = value.replace("(", " ").split()
        found = [int(part) for part in digits if part.lstrip("-").isdecimal()]
        value = found[-1] if found else None
    if value is None or not -(2**63) <= value < 2**63:
        return _integer(other) if other != NONE else NONE
    return int(value)
