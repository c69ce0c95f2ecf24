"""Kineto JSON to events: the typed way, for files that are what they should be.

Only the needed fields are decoded. Anything the types do not allow sends the whole file to `kineto_repair`, which reads
it event by event and says what it mended; both give a `Decoded`.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from perfmagic.trace.columns import NONE

# Below 2^43 µs neighbouring doubles are less than 1 ns apart; above, only the digits of the file are exact.
EXACT_BELOW_US = 2.0**43

Loose = int | float | str | None


class Args(msgspec.Struct, gc=False):
    """The arguments of an event that some table needs."""

    correlation: int = NONE
    stream: Loose = None
    device: Loose = None
    bytes: Loose = None
    collective: Any = msgspec.field(default=None, name="Collective name")
    wait_on_stream: int = NONE
    wait_on_device: int = NONE  # perfmagic writes it; Kineto does not say
    wait_on_correlation: int = msgspec.field(default=NONE, name="wait_on_cuda_event_record_corr_id")
    allocated: Loose = msgspec.field(default=None, name="Total Allocated")
    reserved: Loose = msgspec.field(default=None, name="Total Reserved")
    device_id: Loose = msgspec.field(default=None, name="Device Id")
    value: Any = None
    grid: Any = None
    block: Any = None
    registers: Loose = msgspec.field(default=None, name="registers per thread")
    shared: Loose = msgspec.field(default=None, name="shared memory")
    call: Any = None  # written by perfmagic: a CallKind the name does not tell


class Event(msgspec.Struct, gc=False):
    """One row of traceEvents; ts and dur in µs, NaN where the row has none."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | float | str = 0
    tid: int | float | str = 0
    ts: float = math.nan
    dur: float = math.nan
    args: Args | None = None


class Header(msgspec.Struct):
    """What stands beside the events; nothing else of a file is kept (real ones carry user and host names)."""

    baseTimeNanoseconds: Any = None  # noqa: N815 - the file's own spelling, as all below
    deviceProperties: Any = None  # noqa: N815
    distributedInfo: Any = None  # noqa: N815
    perfmagic: Any = None


class _File(Header):
    traceEvents: list[Event] = msgspec.UNSET  # type: ignore[assignment]  # noqa: N815


class _ExactEvent(msgspec.Struct, gc=False):
    ts: Decimal = Decimal("nan")


class _ExactFile(msgspec.Struct):
    traceEvents: list[_ExactEvent]  # noqa: N815


@dataclass
class Decoded:
    """The events of a file in its order, with their times in µs as exactly as the file gives them."""

    header: Header
    events: list[Event]
    ts_us: Sequence[float | Decimal]
    dur_us: Sequence[float | Decimal]


def decode(data: bytes) -> Decoded:
    """All events of a sound file.

    Raises msgspec.DecodeError where the text is no JSON or a field has an unexpected type, RecursionError where it
    nests too deep.
    """
    with _collector_off():
        bare_list = data.lstrip()[:1] == b"["
        if bare_list:
            header, events = Header(), msgspec.json.decode(data, type=list[Event])
        else:
            file = msgspec.json.decode(data, type=_File)
            if not isinstance(file.traceEvents, list):
                raise msgspec.ValidationError("no traceEvents")
            header, events = file, file.traceEvents
        read_us = [event.ts for event in events]
        digits_matter = any(abs(ts) >= EXACT_BELOW_US and not ts.is_integer() for ts in read_us)
        ts_us: Sequence[float | Decimal] = _exact_ts(data, bare_list) if digits_matter else read_us
        return Decoded(header, events, ts_us, [event.dur for event in events])


def _exact_ts(data: bytes, bare_list: bool) -> list[float | Decimal]:
    if bare_list:
        exact = msgspec.json.decode(data, type=list[_ExactEvent])
    else:
        exact = msgspec.json.decode(data, type=_ExactFile).traceEvents
    return [event.ts for event in exact]


@contextmanager
def _collector_off() -> Iterator[None]:
    """Without the cycle collector, which would walk every new row again and again and find nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
