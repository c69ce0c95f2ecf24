"""The parts of an XSpace: planes, their lines, and the events of some lines in columns.

Source: xplane.proto in xla/tsl/profiler of openxla/xla. Names stand in a plane once, and events have their numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from perfmagic.base.units import count
from perfmagic.trace.columns import NONE, Bool, Int64
from perfmagic.trace.formats.protobuf import BYTES, FIXED64, VARINT, WireError, columns, fields, signed
from perfmagic.trace.json_form import FAR_NS
from perfmagic.trace.kineto.gathered import Columns

BATCH = 1 << 16  # events that are decoded at once
_MOST_LINES = 100_000  # of a plane: streams, or threads


@dataclass
class Plane:
    """A plane.  lines: where each lies.  events, stats: names by their numbers.  said: stats of its own, by name."""

    name: str = ""
    lines: list[slice] = field(default_factory=list)
    events: dict[int, str] = field(default_factory=dict)
    stats: dict[int, str] = field(default_factory=dict)
    said: dict[str, int | str] = field(default_factory=dict)


def _no_places() -> array[int]:
    return array("q")


@dataclass
class Line:
    """A line.  begin, end: of each event in the file."""

    ident: int = 0
    name: str = ""
    start_ns: int = 0
    begin: array[int] = field(default_factory=_no_places)
    end: array[int] = field(default_factory=_no_places)


def plane_of(data: bytes, place: slice) -> Plane:
    """The plane in some bytes. Raises WireError."""
    plane, own = Plane(), []
    for number, value in fields(data, place.start, place.stop):
        if number == 2:
            plane.name = text_of(data, value)
        elif number == 3:
            plane.lines.append(place_of(value))
        elif number in (4, 5):
            key, name = _named(data, place_of(value))
            (plane.events if number == 4 else plane.stats)[key] = name
        elif number == 6:
            own.append(place_of(value))
    if len(plane.lines) > _MOST_LINES:
        raise WireError(f"the plane has {count(len(plane.lines))} lines, more than {count(_MOST_LINES)}")
    for each in own:
        found = dict(fields(data, each.start, each.stop))
        name = plane.stats.get(_whole(found.pop(1, 0)), "")
        for number, value in found.items():
            plane.said[name] = text_of(data, value) if number == 5 else _whole(value) if number in (3, 4) else ""
    return plane


def _named(data: bytes, place: slice) -> tuple[int, str]:
    """An entry of a map from numbers to names: of an event its short name where it has one."""
    entry = dict(fields(data, place.start, place.stop))
    at = place_of(entry.get(2, slice(0, 0)))
    inner = dict(fields(data, at.start, at.stop))
    shown = text_of(data, inner.get(4, slice(0, 0))) if not isinstance(inner.get(4), int) else ""
    return _whole(entry.get(1, 0)), shown or text_of(data, inner.get(2, slice(0, 0)))


def line_of(data: bytes, place: slice) -> Line:
    """The line in some bytes. Raises WireError."""
    line = Line()
    for number, value in fields(data, place.start, place.stop):
        if number == 4 and isinstance(value, slice):
            line.begin.append(value.start)
            line.end.append(value.stop)
        elif number == 4:
            place_of(value)
        elif number == 1:
            line.ident = _whole(value)
        elif number in {2, 11}:
            line.name = text_of(data, value) or line.name
        elif number == 3:
            line.start_ns = max(-FAR_NS, min(signed(_whole(value)), FAR_NS))
    return line


def batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """The same lines in parts of some thousand events: what is decoded of one is gone before the next."""
    batch: list[Line] = []
    room = BATCH
    for line in lines:
        for at in range(0, len(line.begin), BATCH):
            batch.append(replace(line, begin=line.begin[at : at + BATCH], end=line.end[at : at + BATCH]))
            room -= len(batch[-1].begin)
            if room <= 0:
                yield batch
                batch, room = [], BATCH
    if batch:
        yield batch


def place_of(value: int | slice) -> slice:
    """Where the bytes of a field lie. Raises WireError for a number."""
    if isinstance(value, slice):
        return value
    raise WireError(f"a number ({value}) where a message or a text has to be")


def _whole(value: int | slice) -> int:
    if isinstance(value, slice):
        raise WireError(f"bytes, from byte {count(value.start)} on, where a number has to be")
    return value


def text_of(data: bytes, value: int | slice) -> str:
    """The text of a field. Raises WireError for a number."""
    return data[place_of(value)].decode("utf-8", "replace")


class Events:
    """The events of some lines, in columns; times in ns.

    line: which of the lines.  names, name: each different name, and which is an event's.
    """

    def __init__(self, data: bytes, plane: Plane, lines: Sequence[Line]) -> None:
        self._data, self._plane = data, plane
        begin, end = (
            np.concatenate([np.array(getattr(line, each), np.int64) for line in lines]) for each in ("begin", "end")
        )
        self.line = np.repeat(np.arange(len(lines)), [len(line.begin) for line in lines])
        numbers, stats = np.zeros((3, len(begin)), np.uint64), []
        for found in columns(data, begin, end):
            for number in (1, 2, 3):
                mask = found.of(number, VARINT)
                numbers[number - 1, found.rows[mask]] = found.value[mask]
            mask = found.of(4, BYTES)
            stats.append((found.rows[mask], found.begin[mask], found.end[mask]))
        used, self.name = np.unique(numbers[0], return_inverse=True)
        self.names = [plane.events.get(key, f"event {key}") for key in used.tolist()]
        offset_ps, duration_ps = numbers[1:].view(np.int64)
        first_ns = np.array([line.start_ns for line in lines], np.int64)[self.line]
        self.start_ns = first_ns + offset_ps // 1000
        self.dur_ns = first_ns + (offset_ps + duration_ps) // 1000 - self.start_ns
        self._read_stats(*(np.concatenate(parts) for parts in zip(*stats, strict=True)) if stats else [begin[:0]] * 3)

    def _read_stats(self, row: Int64, begin: Int64, end: Int64) -> None:
        self._row, n = row, len(row)
        self._key, self._value = np.zeros((2, n), np.uint64)
        self._kind, self._begin, self._end = np.zeros((3, n), np.int64)
        for found in columns(self._data, begin, end):
            mask = found.of(1, VARINT)
            self._key[found.rows[mask]] = found.value[mask]
            for number, wire in ((2, FIXED64), (3, VARINT), (4, VARINT), (5, BYTES), (6, BYTES), (7, VARINT)):
                mask = found.of(number, wire)
                rows = found.rows[mask]
                self._kind[rows], self._value[rows] = number, found.value[mask]
                self._begin[rows], self._end[rows] = found.begin[mask], found.end[mask]

    def __len__(self) -> int:
        return len(self.line)

    def numbers(self, stat: str) -> Int64:
        """A number of each event, NONE where it has none."""
        numbers = np.full(len(self), NONE, np.int64)
        at = np.flatnonzero(self._of(stat) & ((self._kind == 3) | (self._kind == 4)))
        numbers[self._row[at]] = self._value[at].view(np.int64)
        return numbers

    def texts(self, stat: str) -> list[str]:
        """A text of each event, "" where it has none."""
        texts = [""] * len(self)
        for at in np.flatnonzero(self._of(stat)).tolist():
            if self._kind[at] == 5:
                texts[self._row[at]] = text_of(self._data, slice(int(self._begin[at]), int(self._end[at])))
            elif self._kind[at] == 7:
                texts[self._row[at]] = self._plane.stats.get(int(self._value[at]), "")
        return texts

    def _of(self, stat: str) -> Bool:
        return np.isin(self._key, np.array([key for key, name in self._plane.stats.items() if name == stat], np.uint64))

    def times(self, base_ns: int, rows: Any) -> Columns:
        """The columns with the times of some, as tables of files have them."""
        known = np.ones(len(self.line[rows]), bool)
        return {
            "start_ns": self.start_ns[rows] + base_ns,
            "dur_ns": self.dur_ns[rows],
            "has_start": known,
            "has_dur": known,
        }
