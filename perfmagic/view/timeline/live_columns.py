"""Columns of whole numbers as few bytes: differences, byte planes, one zlib stream.

A column is stored as unsigned little-endian numbers of `width` bytes (0 where all are zero), its bytes sorted by
significance: first the lowest byte of every row, then the next. High planes are nearly constant, so that zlib's
fastest level is enough.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmagic.trace.columns import Int64

PLAIN, SIGNED, DELTA = "plain", "signed", "delta"  # how the reader gets values back from the stored numbers
LEVEL = 1  # of zlib: on shuffled columns level 6 saves 4 % more and takes three times as long
MAX_NAME = 1000  # characters; longer ones are cut, with "…"
EXACT_ABOVE = 2**53  # a browser's numbers are whole up to here: 104 days in nanoseconds


@dataclass
class ColumnWriter:
    """Collects columns; `layout` says where each lies in the bytes that `payload` gives, before compression."""

    layout: list[dict[str, Any]] = field(default_factory=list)
    _chunks: list[bytes] = field(default_factory=list)
    _at: int = 0

    def plain(self, table: str, name: str, values: npt.ArrayLike) -> None:
        """Numbers from 0."""
        self._add(table, name, PLAIN, np.asarray(values, np.int64))

    def signed(self, table: str, name: str, values: npt.ArrayLike) -> None:
        """Numbers of either sign that are near zero: 0, -1, 1, -2 … are stored as 0, 1, 2, 3, and so on."""
        self._add(table, name, SIGNED, zigzag(np.asarray(values, np.int64)))

    def delta(self, table: str, name: str, values: npt.ArrayLike) -> None:
        """Numbers that change little or seldom from row to row."""
        column = np.asarray(values, np.int64)
        self._add(table, name, DELTA, zigzag(column - np.concatenate(([0], column[:-1]))))

    def spans(self, table: str, start_ns: Int64, end_ns: Int64, origin_ns: int) -> None:
        """Intervals as the gap since the previous end and a duration: both shorter than any time."""
        start, end = start_ns - origin_ns, end_ns - origin_ns
        self.signed(table, "gap", start - np.concatenate(([0], end[:-1])) if len(start) else start)
        self.plain(table, "duration", end - start)

    def text(self, name: str, data: bytes) -> None:
        """A piece of UTF-8."""
        self._place("", name, "text", 1, len(data), data)

    def rows(self, table: str) -> int:
        """How many rows were written of a table."""
        return next((column["rows"] for column in self.layout if column["table"] == table), 0)

    def payload(self) -> bytes:
        """All columns, compressed."""
        return zlib.compress(b"".join(self._chunks), LEVEL)

    def _add(self, table: str, name: str, code: str, values: Int64) -> None:
        highest = int(values.max(initial=0))
        if values.min(initial=0) < 0 or highest >= EXACT_ABOVE:
            raise ValueError(f"column {table}.{name} holds numbers a browser cannot: up to {highest}")
        width = (highest.bit_length() + 7) // 8
        planes = np.ascontiguousarray(values, "<i8").view(np.uint8).reshape(-1, 8)[:, :width]
        self._place(table, name, code, width, len(values), planes.T.tobytes())

    def _place(self, table: str, name: str, code: str, width: int, rows: int, data: bytes) -> None:
        where = {"table": table, "name": name, "code": code, "width": width, "rows": rows, "at": self._at}
        self.layout.append(where)
        self._chunks.append(data)
        self._at += len(data)


def zigzag(values: Int64) -> Int64:
    """Whole numbers of either sign as numbers from 0: 0, -1, 1, -2 → 0, 1, 2, 3."""
    return (values << 1) ^ (values >> 63)


def cut(text: str) -> str:
    """A name of bounded length that UTF-8 can hold."""
    sound = text.encode("utf-8", "replace").decode()
    return sound if len(sound) <= MAX_NAME else sound[: MAX_NAME - 1] + "…"
