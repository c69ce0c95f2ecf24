"""Kineto JSON to events: the typed way, for files that are what they should be; of large files in a helper, too.

The text is read in blocks and cut between events: a file is never loaded whole. Only the needed fields are decoded.
A value of the wrong type sends the whole file to `repair`, which reads it event by event and reports each repair.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import queue
import re
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import repeat
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, ClassVar, Protocol, Union, cast

import msgspec
import numpy as np

from perfmagic.base.errors import OptionError
from perfmagic.trace.columns import (
    NONE,
    Float64,
    Int64,
    keep_freed_memory,
)
from perfmagic.trace.kineto.gathered import (
    Gathered,
)

if TYPE_CHECKING:
    import subprocess

# What the typed way stops at: damage, to be repaired by the tolerant way.
UNSOUND = (msgspec.MsgspecError, json.JSONDecodeError, UnicodeDecodeError, RecursionError, OverflowError)

Loose = int | float | str | None
NO_TEXT = msgspec.Raw(b"")


class OpArgs(msgspec.Struct, gc=False):
    """The arguments of a device op; grid and block are JSON text, decoded once for each launch shape that occurs."""

    correlation: int = NONE
    stream: Loose = None
    device: Loose = None
    bytes: Loose = None
    grid: msgspec.Raw = NO_TEXT
    block: msgspec.Raw = NO_TEXT
    registers: Loose = msgspec.field(default=None, name="registers per thread")
    shared: Loose = msgspec.field(default=None, name="shared memory")
    collective: Any = msgspec.field(default=None, name="Collective name")
    in_elements: Loose = msgspec.field(default=None, name="In msg nelems")
    out_elements: Loose = msgspec.field(default=None, name="Out msg nelems")
    dtype: Any = None
    group_size: Loose = msgspec.field(default=None, name="Group size")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    source: Loose = msgspec.field(default=None, name="Src Rank")
    target: Loose = msgspec.field(default=None, name="Dst Rank")
    sequence: Loose = msgspec.field(default=None, name="Seq")


class CallArgs(msgspec.Struct, gc=False):
    """The arguments of a runtime or driver call."""

    correlation: int = NONE
    call: Any = None  # written by perfmagic: a CallKind the name does not tell


class HostArgs(msgspec.Struct, gc=False):
    """The arguments of an operator: of its inputs the shapes, the types and the values of plain ones, as JSON text."""

    dims: msgspec.Raw = msgspec.field(default=NO_TEXT, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=NO_TEXT, name="Input type")
    values: msgspec.Raw = msgspec.field(default=NO_TEXT, name="Concrete Inputs")


class LinkArgs(msgspec.Struct, gc=False):
    """The arguments of an operator that tie a backward to its forward: both have the number of one autograd node."""

    sequence: Loose = msgspec.field(default=None, name="Sequence number")
    forward_thread: Loose = msgspec.field(default=None, name="Fwd thread id")  # 0: it is a forward operator itself


class WaitArgs(msgspec.Struct, gc=False):
    """The arguments of a stream wait."""

    correlation: int = NONE
    stream: Loose = None
    device: Loose = None
    on_stream: int = msgspec.field(default=NONE, name="wait_on_stream")
    on_device: int = msgspec.field(default=NONE, name="wait_on_device")  # perfmagic writes it; Kineto does not say
    on_correlation: int = msgspec.field(default=NONE, name="wait_on_cuda_event_record_corr_id")


class CounterArgs(msgspec.Struct, gc=False):
    """The arguments of memory events; of counters, the device."""

    allocated: Loose = msgspec.field(default=None, name="Total Allocated")
    reserved: Loose = msgspec.field(default=None, name="Total Reserved")
    device_id: Loose = msgspec.field(default=None, name="Device Id")
    device_type: Loose = msgspec.field(default=None, name="Device Type")
    bytes: Loose = msgspec.field(default=None, name="Bytes")
    address: Loose = msgspec.field(default=None, name="Addr")


class Other:
    """The category of an event that is not a span: the words for such events."""

    __slots__ = ("words",)

    def __init__(self, words: str) -> None:
        self.words = words


INSTANT, COUNTER, END = Other("instant"), Other("counter"), Other("end")


# Events by phase: those that no table takes are not decoded. A third of a file are flows.
# ts and dur are µs, NaN where the row has none; args are JSON text.
class Span(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """A row of traceEvents that takes time."""

    cat: str = ""
    name: str = ""
    pid: int | float | str = 0
    tid: int | float | str = 0
    ts: float = math.nan
    dur: float = math.nan
    args: msgspec.Raw = NO_TEXT


class Begin(Span, gc=False, tag="B"):
    """The beginning of a span whose end is a row of its own."""


class End(msgspec.Struct, gc=False, tag_field="ph", tag="E"):
    """The end of the span that began last in its place."""

    cat: ClassVar[Other] = END
    dur: ClassVar[float] = math.nan
    pid: int | float | str = 0
    tid: int | float | str = 0
    ts: float = math.nan


class Instant(msgspec.Struct, gc=False, tag_field="ph", tag="i"):
    """A row without a duration, among them what the allocator did."""

    cat: ClassVar[Other] = INSTANT
    dur: ClassVar[float] = math.nan
    name: str = ""
    pid: int | float | str = 0
    tid: int | float | str = 0
    ts: float = math.nan
    args: CounterArgs | None = None


class OldInstant(Instant, gc=False, tag="I"):
    """The same, as files of 2021 write it."""


class Count(msgspec.Struct, gc=False, tag_field="ph", tag="C"):
    """Values of counters at an instant."""

    cat: ClassVar[Other] = COUNTER
    dur: ClassVar[float] = math.nan
    name: str = ""
    pid: int | float | str = 0
    ts: float = math.nan
    args: msgspec.Raw = NO_TEXT


class Unread(msgspec.Struct, gc=False, tag_field="ph", tag=""):
    """A row no table takes."""

    cat: ClassVar[Other] = Other("other")


def _unread(phases: str, words: str) -> dict[str, Any]:
    other = Other(words)
    return {p: msgspec.defstruct(f"Unread_{p}", [], bases=(Unread,), tag=p, namespace={"cat": other}) for p in phases}


Event = Span | End | Instant | Count | Unread
# All phases of the format. A row with another, or without one, sends the file to the tolerant way.
EVENT_TYPES: dict[str, Any] = {
    "X": Span,
    "B": Begin,
    "E": End,
    "i": Instant,
    "I": OldInstant,
    "C": Count,
    "": Unread,
    **_unread("stf", "flow"),
    **_unread("M", "metadata"),
    **_unread("bneSTpFPNODvVRca()", "other"),
}


class Header(msgspec.Struct):
    """The keys beside the events that are read; no other is kept, as files carry user and host names."""

    baseTimeNanoseconds: Any = None  # noqa: N815 - the file's own spelling, as all below
    deviceProperties: Any = None  # noqa: N815
    distributedInfo: Any = None  # noqa: N815
    perfmagic: Any = None


class _File(Header, kw_only=True):
    traceEvents: list[Any]  # noqa: N815


class _ExactEvent(msgspec.Struct, gc=False):
    ts: Decimal = Decimal("nan")


@dataclass
class Chunk:
    """Some events of a file, in its order.

    text: their JSON, where it is sound.  links: autograd's numbers are wanted, and some may have one.
    ts_us, dur_us: times as exactly as the file gives them, where the events are not.
    """

    events: list[Event]
    text: bytes = b""
    links: bool = False
    ts_us: list[float | Decimal] | None = None
    dur_us: list[float | Decimal] | None = None

    def exact_ts_us(self) -> list[float | Decimal]:
        """The starts digit by digit."""
        if self.ts_us is None:
            self.ts_us = [event.ts for event in _EXACT.decode(self.text)]
        return self.ts_us


_EVENT_LIST = msgspec.json.Decoder(list[Union[tuple(EVENT_TYPES.values())]])  # type: ignore[misc]  # noqa: UP007
_EXACT = msgspec.json.Decoder(list[_ExactEvent])
_HEADER = msgspec.json.Decoder(_File)
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*\{\s*$")
MOST_HEADER_BYTES = 256 << 20  # before the events; so much is no trace
_FARTHEST = 256  # bytes from the end of an event to the first key of the next, indentation included
_FIRST_KEYS = (b'"ph"', b'"name"', b'"cat"', b'"args"', b'"pid"', b'"tid"', b'"ts"', b'"dur"', b'"id"')
_TRIES = 64  # places of a key that is not the first of its event, before the next key is tried


class SoundFile:
    """The events of a sound file in pieces of JSON text, each a list of events."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks

    def read(self, take: Callable[[bytes], None]) -> Header:
        """Give the events to `take` piece by piece; returns the file's other keys.

        Raises one of UNSOUND where the text is no JSON, is cut, or a field has an unexpected type; `take` does so too.
        """
        before, block = self._start()
        kept = b""  # what was read behind the last place between two events
        while block:
            end = _last_event_end(block)
            if end:
                try:
                    # one copy: blocks are large
                    take(b"".join((b"[", kept, memoryview(block)[:end], b"]")))
                except msgspec.DecodeError as error:
                    if isinstance(error, msgspec.ValidationError):
                        raise
                    # the place may lie behind the list, in a header that comes last
                    kept = b"".join((kept, block, *self._blocks))
                    break
                kept = block[block.index(b"{", end) :]
            else:
                kept += block
            block = next(self._blocks, b"")
        # at most the events of one block, the end of the list, and the keys after it
        text = "[" + kept.decode()
        _, end = json.JSONDecoder(parse_int=str).raw_decode(text)  # int() refuses numbers of thousands of digits
        take(text[:end].encode())
        return _header(before + b"]" + text[end:].encode())

    def _start(self) -> tuple[bytes, bytes]:
        """The text up to the first event, and what was read behind it."""
        buffer = bytearray()
        for block in self._blocks:
            seen = max(0, len(buffer) - _FARTHEST)
            buffer += block
            if not seen and bytes(buffer[:_FARTHEST]).lstrip().startswith(b"["):
                return b"[", bytes(buffer[buffer.index(b"[") + 1 :])
            if match := _EVENTS.search(buffer, seen):
                return bytes(buffer[: match.end()]), bytes(buffer[match.end() :])
            if len(buffer) > MOST_HEADER_BYTES:
                break
        raise msgspec.ValidationError("no traceEvents")


def _header(text: bytes) -> Header:
    if text.startswith(b"["):
        msgspec.json.decode(text)
        return Header()
    return _HEADER.decode(text)


def decoded(text: bytes, *, links: bool = False) -> Chunk:
    """The events of a list in JSON.  links: with autograd's numbers. Raises one of UNSOUND, as SoundFile does."""
    linked = links and b'"Sequence number"' in text
    return Chunk(_EVENT_LIST.decode(text), text, linked)


def _last_event_end(buffer: bytes) -> int:
    """Where the last event but one ends, 0 where no place between two events is seen.

    Quotes in strings are escaped: a match lies outside strings. It may still lie inside an event's arguments; the
    chunk is then not valid JSON, and the file is read by `repair`.
    """
    for key in _FIRST_KEYS:
        at = len(buffer)
        for _ in range(_TRIES):
            at = buffer.rfind(key, 0, at)
            if at < 0:
                break
            if match := _BETWEEN.search(buffer, max(0, at - _FARTHEST), at):
                return match.start() + 1
    return 0


# Numbers of events, however they were written.

_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)  # as many digits as int64 has


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


VARIABLE = "PERFMAGIC_HELPER"  # 0: none, for batch systems that count processes or give each one core
ALONE_BYTES = 24 << 20  # of text that is read before a helper pays: it takes about as long to start
_WAITING = 2  # chunks that stand ready for the helper
_FRAME = struct.Struct("<qq")  # a chunk's number and length
_GREETING = b"perfmagic"  # before the columns: tells them from what else may print
_PROGRAM = """import gc, sys
gc.disable()
sys.path[:] = {path!r}
from perfmagic.trace.kineto.decode import serve
from perfmagic.trace.kineto.event_columns import Tables
serve(Tables())"""


class HelperLostError(Exception):
    """The helper ended before it gave its columns: it met damage, or was killed. Chunks it took are lost."""


class Helper:
    """Decodes chunks beside this process, once so much was read that it pays. As a context it never outlives the block.

    wanted: False for one that takes nothing.  text_bytes: about how long the file's text is. Raises OptionError where
    the environment's switch is neither 0 nor 1.
    """

    def __init__(self, *, wanted: bool = True, text_bytes: float = math.inf) -> None:
        pays = text_bytes >= 3 * ALONE_BYTES  # its start costs as much as a third, and it saves half of the rest
        self._wanted = _allowed() and wanted and pays and _has_cores() and _interpreter() is not None
        self._read_bytes = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: queue.Queue[tuple[int, bytes] | None] = queue.Queue(_WAITING)
        self._feeder = threading.Thread(target=self._feed, name="perfmagic-feeder", daemon=True)
        self._lost = False

    def __enter__(self) -> Helper:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._process is None:
            return
        self._process.kill()  # is about to end by itself where all went well
        self._process.wait()
        list(self.taken_back())
        self._ready.put(None)  # a write under way has failed with the process
        self._feeder.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what was not written
                pipe.close()  # type: ignore[union-attr]  # both were asked for

    def takes(self, number: int, text: bytes) -> bool:
        """Whether the helper takes a chunk; where not, it is for the caller. Raises HelperLostError."""
        self._read_bytes += len(text)
        if not self._wanted or self._read_bytes < ALONE_BYTES:
            return False
        if self._process is None and not self._start():
            return False
        if self._lost:
            raise HelperLostError
        try:
            self._ready.put_nowait((number, text))
        except queue.Full:
            return False
        return True

    def taken_back(self) -> Iterator[tuple[int, bytes]]:
        """The chunks that still wait for the helper: the caller is free, and decodes them itself."""
        with suppress(queue.Empty):
            while True:
                if entry := self._ready.get_nowait():
                    yield entry

    def gathered(self) -> Gathered | None:
        """What the helper's chunks hold, None where there was no helper. Raises HelperLostError."""
        if self._process is None:
            return None
        self._ready.put(None)
        self._feeder.join()
        columns: IO[bytes] = self._process.stdout  # type: ignore[assignment]  # was asked for
        if self._lost or columns.read(len(_GREETING)) != _GREETING:
            raise HelperLostError
        try:
            gathered: Gathered = pickle.load(columns)  # from this process's own child
        except (EOFError, pickle.UnpicklingError) as error:
            raise HelperLostError from error
        return gathered

    def _start(self) -> bool:
        import subprocess  # by large files alone

        program = _PROGRAM.format(path=[os.fspath(Path(entry).resolve()) for entry in sys.path])
        try:
            self._process = subprocess.Popen(
                [str(_interpreter()), "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # its threads spin for 0.05 s each, and none is needed
            )  # fmt: skip
        except OSError:  # too many processes, too little memory: not forbidden, only slower
            self._wanted = False
            return False
        self._feeder.start()
        return True

    def _feed(self) -> None:
        """Write what is ready, in a thread: the pipe is full while the helper decodes."""
        pipe: IO[bytes] = self._process.stdin  # type: ignore[assignment, union-attr]  # started with the process
        try:
            while entry := self._ready.get():
                pipe.write(_FRAME.pack(entry[0], len(entry[1])))
                pipe.write(entry[1])
                pipe.flush()
            pipe.close()
        except OSError:
            self._lost = True


class TakesChunks(Protocol):
    """What gathers the rows of chunks."""

    gathered: Gathered

    def add(self, chunk: Chunk, number: int) -> None: ...


def serve(tables: TakesChunks) -> None:
    """The helper's side: chunks from standard input to its end, then columns to standard output."""
    keep_freed_memory()
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr  # nothing else may print into the columns
    source = sys.stdin.buffer
    try:
        while head := source.read(_FRAME.size):
            number, length = _FRAME.unpack(head)
            tables.add(decoded(source.read(length)), number)
    except (*UNSOUND, struct.error):
        sys.exit(1)  # the reader without a helper finds and reports the damage
    with out:
        out.write(_GREETING)
        pickle.dump(tables.gathered, out, protocol=5)


def _allowed() -> bool:
    choice = os.environ.get(VARIABLE, "") or "1"
    if choice not in ("0", "1"):
        raise OptionError(f"{VARIABLE}: {choice!r} is neither 0 nor 1", hint=f"{VARIABLE}=0 reads without a helper")
    return choice == "1"


def _interpreter() -> str | None:
    """The path of Python, None where it is embedded in another program, which must not be started again."""
    name = Path(sys.executable or "").name.lower()
    return None if getattr(sys, "frozen", False) or not name.startswith(("python", "pypy")) else sys.executable


def _has_cores() -> bool:
    """Whether there is a second core, and others leave it free: a helper that waits for one makes reading slower."""
    usable: Any = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    n_cores = os.cpu_count() or 1
    load: Any = getattr(os, "getloadavg", lambda: (0.0,))  # not on Windows
    return (len(usable(0)) if usable else n_cores) > 1 and load()[0] <= n_cores - 1
