"""Writes what jax.profiler writes, field by field as xplane.proto has it: no GPU records one here."""

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

Stat = int | float | str
MOST = (1 << 64) - 1


class Event(NamedTuple):
    name: str
    start_ns: float
    end_ns: float
    stats: Mapping[str, Stat] = {}


class Line(NamedTuple):
    name: str
    events: Iterable[Event]
    ident: int = 0
    start_ns: int = 0


def varint(number: int) -> bytes:
    number &= MOST  # as int64 is written
    head = b""
    while number > 127:
        head += bytes([number & 127 | 128])
        number >>= 7
    return head + bytes([number])


def field(number: int, value: float | str | bytes) -> bytes:
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    body = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(body)) + body


def space(*planes: bytes, errors: Iterable[str] = ()) -> bytes:
    return b"".join([*(field(1, plane) for plane in planes), *(field(2, error) for error in errors)])


def plane(name: str, *lines: Line, said: Mapping[str, Stat] | None = None) -> bytes:
    """said: stats of the plane itself. Texts among stats are written once, as XLA does, and referred to."""
    events, stats = _Names(), _Names()
    body = field(2, name)
    for line in lines:
        rows = b"".join(field(4, _event(event, events, stats)) for event in line.events)
        body += field(3, field(1, line.ident) + field(2, line.name) + field(3, line.start_ns) + rows)
    own = b"".join(field(6, _stat(key, value, stats)) for key, value in (said or {}).items())
    return body + events.entries(4) + stats.entries(5) + own


def _event(event: Event, events: "_Names", stats: "_Names") -> bytes:
    start_ps, took_ps = round(event.start_ns * 1000), round((event.end_ns - event.start_ns) * 1000)
    said = b"".join(field(4, _stat(key, value, stats)) for key, value in event.stats.items())
    return field(1, events[event.name]) + field(2, start_ps) + field(3, took_ps) + said


def _stat(key: str, value: Stat, stats: "_Names") -> bytes:
    if isinstance(value, str) and len(value) > 20:
        return field(1, stats[key]) + field(7, stats[value])
    number = 2 if isinstance(value, float) else 5 if isinstance(value, str) else 4 if value < 0 else 3
    return field(1, stats[key]) + field(number, value)


class _Names(dict[str, int]):
    def __missing__(self, name: str) -> int:
        self[name] = number = len(self) + 1
        return number

    def entries(self, number: int) -> bytes:
        """A map from numbers to names."""
        maps = (field(1, n) + field(2, field(1, n) + field(2, name)) for name, n in self.items())
        return b"".join(field(number, entry) for entry in maps)
