"""Dumps of torch's flight recorder: what each rank asked of NCCL, gloo and others, and which of it has ended.

Structure: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp, dump and dump_json (read in 2.13, whose version is
2.10); ids and coalesced calls: ProcessGroupNCCL.cpp. A pickle may hold any program; this is read as plain data.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from perfmagic.base.errors import TraceError
from perfmagic.base.files import open_regular, plain_json
from perfmagic.base.terminal import printable
from perfmagic.base.user_lines import is_torchs, is_users
from perfmagic.trace.formats.plain_pickle import nested_pickle
from perfmagic.trace.json_form import EXACT, Amount, Count, Int64Number, Ns, typed

MOST_FILE_BYTES = 2**28  # 2,000 calls, torch's default, take half a megabyte
ENDED = "completed"
_RANK = re.compile(r"rank[-_]?(\d+)|(\d+)(?:\.\w+)*$")
_WRITES_NO_STATE = ("gloo",)  # these calls are retired when they end, and stay "scheduled"
_COALESCED = "coalesced"  # the end of a group of calls; those in it have no state of their own
_NAME = re.compile(r"(?:(\w+):)?(\S+)(?: (\d+)(?:->|<-)(\d+))?")  # "nccl:all_reduce", "nccl:send 1->2"
_HINT = "TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 make torch write one for each rank"
_BYTES = {  # of an element, by c10's name of its type
    **dict.fromkeys(("Byte", "Char", "Bool"), 1),
    **dict.fromkeys(("Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz", "Float8_e5m2fnuz", "Float8_e8m0fnu"), 1),
    **dict.fromkeys(("Short", "Half", "BFloat16", "UInt16"), 2),
    **dict.fromkeys(("Int", "Float", "UInt32", "ComplexHalf"), 4),
    **dict.fromkeys(("Long", "Double", "UInt64", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}

_LISTS = "frames", "input_sizes", "output_sizes", "input_dtypes", "output_dtypes"
_Sizes = tuple[tuple[Count, ...], ...]
_Data = tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[str, ...], ...], int | None]


class _Frame(msgspec.Struct):
    name: str
    filename: str
    line: Int64Number = 0


class _Entry(msgspec.Struct):
    profiling_name: str
    state: str
    process_group: tuple[str, str] = ("", "")
    collective_seq_id: Count = 0
    seq_id: Count = 0  # before version 2
    p2p_seq_id: Count = 0
    record_id: Count = 0
    is_p2p: bool = False
    retired: bool = False
    input_sizes: _Sizes = ()
    output_sizes: _Sizes = ()
    input_dtypes: tuple[str, ...] = ()
    output_dtypes: tuple[str, ...] = ()
    time_created_ns: Ns = 0
    duration_ms: Amount | None = None


class _Group(msgspec.Struct):
    name: str = ""
    desc: str = ""
    ranks: Annotated[str, msgspec.Meta(pattern=r"^\[[\d, ]*\]$")] = "[]"


@dataclass(frozen=True, slots=True)
class Group:
    """A process group.  ranks: empty where the dump does not say.  desc: what its maker calls it."""

    name: str
    desc: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A line of code; file is "" where no stack was recorded."""

    file: str = ""
    line: int = 0
    function: str = ""


NO_PLACE = Place()


class Stack(NamedTuple):
    """place: the user's innermost line.  frames: innermost first."""

    place: Place
    frames: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One collective, or one end of a message.

    name: "all_reduce".  number: of the collectives of its group, or of its messages.  peer: the other end of a message
    by its place in the group, None of a collective.  state: "scheduled", "started" or "completed".  inputs, outputs:
    elements of each tensor.  dtypes: of both.  size_bytes: of the larger side.  created_ns: by the host's clock.
    duration_ns: None where it was not recorded.  place: the user's innermost line.  stack: innermost first.
    """

    group: Group
    name: str
    number: int
    peer: int | None
    state: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dtypes: tuple[tuple[str, ...], ...]
    size_bytes: int | None
    created_ns: int
    duration_ns: int | None
    place: Place
    stack: tuple[Place, ...]

    @property
    def ended(self) -> bool:
        return self.state == ENDED


@dataclass(frozen=True)
class Dump:
    """What one rank recorded, in order.

    version: of the format.  library: "nccl 2.27.3", as far as known.  groups: those whose ranks are known.  n_lost:
    earlier calls that the dump no longer holds.
    """

    rank: int
    file: str
    version: str
    library: str
    groups: tuple[Group, ...]
    calls: tuple[Call, ...]
    n_lost: int


def read_dump(path: Path) -> Dump:
    """The dump of one rank.

    Raises TraceError for a file that is not a dump, is damaged, or asks for code. It also refuses one larger than 256
    MiB, or without a rank in its name.
    """
    try:
        with open_regular(path) as opened:
            if os.fstat(opened.fileno()).st_size > MOST_FILE_BYTES:
                raise TraceError(f"{path.name} is larger than 256 MiB", hint="record fewer calls: TORCH_FR_BUFFER_SIZE")
            data = opened.read()
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from None
    named = _RANK.search(path.name)
    if named is None:
        message = f"{path.name} does not say of which rank it is"
        raise TraceError(message, hint="name dumps nccl_trace_rank_0, nccl_trace_rank_1, …, as torch does")
    try:
        return _dump(data, int(named[1] or named[2]), path.name)
    except ValueError as error:
        message = f"{path.name} is not a dump of torch's flight recorder: {error}"
        raise TraceError(message, hint="copy the file again" if "it is whole" in str(error) else _HINT) from error


def _dump(data: bytes, rank: int, file: str) -> Dump:
    if not data:
        raise ValueError("it is empty")
    content = nested_pickle(data) if data[:1] == b"\x80" else plain_json(data)
    if not isinstance(content, dict) or not content.keys() & {"entries", "pg_config"}:
        raise ValueError("it has neither entries nor pg_config")
    entries = content.get("entries") or []
    if not isinstance(entries, list):
        raise ValueError("its entries are not a list")
    _count(entries, most=len(data))
    groups = _groups(content.get("pg_config"))
    known = {group.name: group for group in groups}
    read = typed(entries, list[_Entry])
    version, of_library = (printable(str(content.get(key) or "")) for key in ("version", "comm_lib_version"))
    library = " ".join(filter(None, (_parsed(read[0].profiling_name)[0] if read else "", of_library)))
    stacks = _Stacks()
    frames = [stacks.stack(entry.get("frames")) for entry in entries]
    n_lost = read[0].record_id if read else 0
    return Dump(rank, file, version, library, groups, tuple(_calls(read, frames, known)), n_lost)


def _count(entries: Sequence[Any], most: int) -> None:
    """Raise ValueError where lists hold more than fits in the file: one list may stand in many places."""
    n = len(entries)
    for entry in entries:
        held = [entry.get(key) for key in _LISTS] if isinstance(entry, dict) else ()
        for lists in held:
            if isinstance(lists, (list, tuple)) and n <= most:
                n += len(lists)
                for inner in lists:
                    if isinstance(inner, (list, tuple)):
                        n += len(inner)
        if n > most:
            raise ValueError("its lists hold more than fits in the file")


def _groups(config: Any) -> tuple[Group, ...]:
    """The groups whose ranks a dump gives; gloo writes one without a name for all of them."""
    if not isinstance(config, dict):
        return ()
    found = [typed(group, _Group) for group in config.values() if isinstance(group, dict)]
    named = ((group, tuple(map(int, re.findall(r"\d+", group.ranks)))) for group in found if group.name)
    return tuple(Group(printable(group.name), printable(group.desc), ranks) for group, ranks in named if ranks)


class _Stacks:
    """The stacks of a dump: frames stand in many of them, and most calls have one of a few; each is read once."""

    def __init__(self) -> None:
        self._frames: dict[int, Place] = {}
        self._known: dict[tuple[int, ...], Stack] = {}
        self._alike: dict[tuple[Any, ...], Stack] = {}

    def stack(self, frames: Any) -> Stack:
        frames = frames if isinstance(frames, list) else []
        key = tuple(map(id, frames))
        if key not in self._known:
            written = tuple(map(_as_written, frames))
            known = self._alike.get(written) if all(written) else None
            self._known[key] = self._alike[written] = known or self._read(frames)
        return self._known[key]

    def _read(self, frames: Sequence[Any]) -> Stack:
        places = tuple(self._frames.get(id(frame)) or self._place(frame) for frame in frames)
        return Stack(_users_place(places), places)

    def _place(self, frame: Any) -> Place:
        known = typed(frame, _Frame)
        place = self._frames[id(frame)] = Place(printable(known.filename), known.line, printable(known.name))
        return place


def _as_written(frame: Any) -> tuple[str, int, str] | None:
    """What a frame holds, None where its types are not those of one: reading it says so."""
    if type(frame) is dict:
        file, line, name = frame.get("filename"), frame.get("line"), frame.get("name")
        if type(file) is str and type(line) is int and type(name) is str:
            return file, line, name
    return None


def _calls(entries: Sequence[_Entry], stacks: Sequence[Stack], known: dict[str, Group]) -> Iterable[Call]:
    """One call for each collective and each message; calls of a coalesced group have the state of its end."""
    parts: dict[tuple[str, bool, int], list[int]] = {}
    for i, entry in enumerate(entries):
        number = entry.p2p_seq_id if entry.is_p2p else entry.collective_seq_id or entry.seq_id
        parts.setdefault((entry.process_group[0], entry.is_p2p, number), []).append(i)
    for (name, is_message, number), members in parts.items():
        end = entries[members[-1]]
        if name not in known:
            known[name] = Group(printable(name), printable(end.process_group[1]), ())
        named = [i for i in members if not _parsed(entries[i].profiling_name)[1].endswith(_COALESCED)] or members
        for of_call in [[i] for i in named] if is_message else [named]:
            yield _call(known[name], number, [entries[i] for i in of_call], end, stacks[of_call[0]])


def _call(group: Group, number: int, parts: Sequence[_Entry], end: _Entry, stack: Stack) -> Call:
    library, name, here, there = _parsed(parts[0].profiling_name)
    read = [(part.input_sizes, part.output_sizes, part.input_dtypes, part.output_dtypes) for part in parts]
    inputs, outputs, dtypes, size_bytes = _data(*(map(_chained, zip(*read, strict=True)) if parts[1:] else read[0]))
    ended = end.state == ENDED or (library in _WRITES_NO_STATE and end.retired)
    return Call(
        group=group,
        name=name,
        number=number,
        peer=None if here is None else int(there),
        state=ENDED if ended else end.state,
        inputs=inputs,
        outputs=outputs,
        dtypes=dtypes,
        size_bytes=size_bytes,
        created_ns=parts[0].time_created_ns,
        duration_ns=None if end.duration_ms is None else round(end.duration_ms * 1e6),
        place=stack.place,
        stack=stack.frames,
    )


def _users_place(stack: Sequence[Place]) -> Place:
    """The innermost line of the user's, else the innermost one outside of torch."""
    users = [place for place in stack if is_users(place.file)]
    others = [place for place in stack if not is_torchs(place.file)]
    return next(iter((*users, *others, *stack)), NO_PLACE)


def _chained(tuples: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(chain.from_iterable(tuples))


@lru_cache(maxsize=4096)
def _data(inputs: _Sizes, outputs: _Sizes, *dtypes: tuple[str, ...]) -> _Data:
    """The elements of each input and output, their types, and the bytes of the larger side."""
    elements = _elements(inputs), _elements(outputs)
    sizes = filter(None, (_bytes(*side) for side in zip(elements, dtypes, strict=True)))
    return *elements, dtypes, max(sizes, default=None)


def _elements(sizes: Iterable[Sequence[int]]) -> tuple[int, ...]:
    numbers = tuple(math.prod(size) for size in sizes)
    if max(numbers, default=0) > EXACT:
        raise ValueError(f"a tensor has {max(numbers):.3g} elements")
    return numbers


def _bytes(elements: Sequence[int], dtypes: Sequence[str]) -> int | None:
    """None where the dump does not say, or a type is not known here."""
    if len(elements) != len(dtypes) or not all(kind in _BYTES for kind in dtypes):
        return None
    return sum(n * _BYTES[kind] for n, kind in zip(elements, dtypes, strict=True))


@lru_cache(maxsize=4096)
def _parsed(profiling_name: str) -> tuple[str, str, str | None, str]:
    """The library, the name of the call, and the two ends of a message."""
    name = printable(profiling_name)
    match = _NAME.fullmatch(name)
    return (match[1] or "", match[2], match[3], match[4] or "") if match else ("", name, None, "")
