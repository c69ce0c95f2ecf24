"""Messages of protobuf without their classes: field by field, or many short messages at once as columns.

Source: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from perfmagic.base.units import count
from perfmagic.trace.columns import Bool, Int64

UInt64: TypeAlias = npt.NDArray[np.uint64]
PADDING = bytes(16)  # behind the data: a varint that begins in it may be read to its end
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MOST_FIELDS = 1000  # of one short message; events have some 20
_MOST_BYTES = 10  # of a varint: 64 bits, 7 in each


class WireError(ValueError):
    """These bytes are no message, or a message cut short. The text says why, and at which byte."""


def fields(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int | slice]]:
    """Number and value of each field of the message in data[begin:end]: a varint's int, else where its bytes lie.

    data: with PADDING behind it. Raises WireError.
    """
    at = begin
    while at < end:
        key = data[at]
        key, after = (key, at + 1) if key < 128 else varint(data, at)
        wire = key & 7
        if wire in (VARINT, BYTES):
            value = data[after]
            value, after = (value, after + 1) if value < 128 else varint(data, after)
        else:
            value = 8 if wire == FIXED64 else 4
        if wire not in (VARINT, FIXED64, BYTES, FIXED32) or key < 8:
            raise WireError(f"byte {count(at)} begins field {key >> 3} of type {wire}, which protobuf does not have")
        stop = after if wire == VARINT else after + value
        if stop > end:
            raise _beyond(at, stop - end)
        yield key >> 3, value if wire == VARINT else slice(after, stop)
        at = stop


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a byte, 0 to 2^64 - 1, and the byte behind it. Raises WireError."""
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    value = 0
    for place in range(_MOST_BYTES):
        byte = data[at + place]
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value & (1 << 64) - 1, at + place + 1
    raise _too_long(at)


def signed(value: int) -> int:
    """A varint as the int64 that it stands for."""
    return value - (1 << 64) if value >> 63 else value


class Fields(NamedTuple):
    """One field of each of some messages.

    rows: of the messages.  number, wire: of the field.  value: of varints.  begin, end: where the bytes of others lie.
    """

    rows: Int64
    number: Int64
    wire: Int64
    value: UInt64
    begin: Int64
    end: Int64

    def of(self, number: int, wire: int) -> Bool:
        """Which of them have a number. Raises WireError where one has another type."""
        mask: Bool = self.number == number
        wrong = mask & (self.wire != wire)
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            at = count(int(self.begin[first]))
            raise WireError(f"field {number} before byte {at} has type {int(self.wire[first])}, and {wire} is expected")
        return mask


def columns(data: bytes, begin: Int64, end: Int64) -> Iterator[Fields]:
    """The first field of every message, then the second of every message that has two, and so on.

    data: with PADDING behind it.  begin, end: of each message in it. Raises WireError.
    """
    octets = np.frombuffer(data, np.uint8)
    at, rows = begin.copy(), np.arange(len(begin))
    for _ in range(MOST_FIELDS):
        rows = rows[at[rows] < end[rows]]
        if not len(rows):
            return
        yield (found := _next_fields(octets, rows, at[rows], end[rows]))
        at[rows] = found.end
    raise WireError(f"a message at byte {count(int(begin[rows[0]]))} has more than {count(MOST_FIELDS)} fields")


def _next_fields(octets: Any, rows: Int64, at: Int64, end: Int64) -> Fields:
    key, after = _varints(octets, at)
    wire = (key & np.uint64(7)).astype(np.int64)
    value, length = np.zeros(len(at), np.uint64), np.where(wire == FIXED64, 8, 4).astype(np.uint64)
    counted = (wire == VARINT) | (wire == BYTES)
    value[counted], after[counted] = _varints(octets, after[counted])
    length[wire == VARINT] = 0
    length[wire == BYTES] = value[wire == BYTES]
    known = (counted | (wire == FIXED64) | (wire == FIXED32)) & (key > 7)
    if not known.all():
        first = int(np.flatnonzero(~known)[0])
        what = f"field {int(key[first]) >> 3} of type {int(wire[first])}"
        raise WireError(f"byte {count(int(at[first]))} begins {what}, which protobuf does not have")
    far = (after > end) | (length > np.maximum(end - after, 0).astype(np.uint64))
    if far.any():
        first = int(np.flatnonzero(far)[0])
        raise _beyond(int(at[first]), int(after[first]) + int(length[first]) - int(end[first]))
    return Fields(rows, (key >> np.uint64(3)).astype(np.int64), wire, value, after, after + length.astype(np.int64))


def _varints(octets: Any, at: Int64) -> tuple[UInt64, Int64]:
    """Numbers that begin at some bytes, and the bytes behind them."""
    octet = octets[at]
    value, after = (octet & 127).astype(np.uint64), at + 1
    rows = np.flatnonzero(octet > 127)
    for place in range(1, _MOST_BYTES):
        if not len(rows):
            return value, after
        octet = octets[after[rows]]
        value[rows] |= (octet & 127).astype(np.uint64) << np.uint64(7 * place)
        after[rows] += 1
        rows = rows[octet > 127]
    if len(rows):
        raise _too_long(int(at[rows[0]]))
    return value, after


def _beyond(at: int, by: int) -> WireError:
    return WireError(f"the field at byte {count(at)} ends {count(by)} bytes after its message: cut, or damaged")


def _too_long(at: int) -> WireError:
    return WireError(f"the number at byte {count(at)} has more than {_MOST_BYTES} bytes")
