"""A snapshot of CUDA's allocator, as torch.cuda.memory._dump_snapshot writes it: blocks, and the lines that allocated
them.

Structure: torch/cuda/memory.py, _snapshot (read in 2.13). A pickle can run any code; this one is read as plain data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from perfmagic.base.errors import TraceError
from perfmagic.base.files import open_regular
from perfmagic.base.user_lines import is_users
from perfmagic.trace.columns import MOST_BYTES, NONE, PathMarks
from perfmagic.trace.formats.plain_pickle import plain_pickle
from perfmagic.trace.json_form import FAR_NS, Line, typed
from perfmagic.trace.model import SNAPSHOT, DeviceInfo, Trace, TraceMeta, make_trace
from perfmagic.trace.paths import NOWHERE, Paths, UserFunction

MOST_FILE_BYTES = 2**31  # of a file, which unpacks to several times its size
_NODE = re.compile(r"\b(\w+Backward\d*|AccumulateGrad)::apply")
_ALIVE = ("active_allocated", "active_awaiting_free")
_ROW_BYTES = 8  # a block or an entry takes more in a file; a list that is shared by many lists takes less
_HINT = "torch.cuda.memory._record_memory_history(); …; torch.cuda.memory._dump_snapshot('snapshot.pickle')"


_Size = Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)]
_Address = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Device = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class _Frame(msgspec.Struct):
    filename: str
    line: Line
    name: str


class _Block(msgspec.Struct):
    size: _Size
    state: str
    address: _Address | None = None


class _Segment(msgspec.Struct):
    address: _Address
    blocks: Any  # a list of _Block, counted before any is read
    device: _Device = 0


class _Entry(msgspec.Struct):
    action: str
    addr: _Address = 0
    size: _Size | None = None
    time_us: Annotated[int, msgspec.Meta(ge=0, le=FAR_NS // 1000)] = 0
    frames: Any = None  # many entries share a list: see _Found.stack


class _Snapshot(msgspec.Struct):
    """The parts of torch's snapshot that are read here."""

    segments: tuple[_Segment, ...]
    device_traces: tuple[Any, ...]  # lists of _Entry, likewise


def read_snapshot(path: str | Path) -> Trace:
    """The blocks of every device in a snapshot.

    Raises TraceError for a file that is no snapshot, that asks for code, or that is larger than 2 GiB.
    """
    file = Path(path)
    try:
        with open_regular(file) as opened:
            if os.fstat(opened.fileno()).st_size > MOST_FILE_BYTES:
                raise TraceError(f"{file.name} is larger than 2 GiB", hint="record fewer entries: max_entries=100_000")
            data = opened.read()
        content = plain_pickle(data)
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror}") from None
    except TraceError:
        raise
    except ValueError as error:
        raise TraceError(f"{file.name} is not a snapshot of CUDA's memory: {error}", hint=_HINT) from error
    if not isinstance(content, dict) or not {"segments", "device_traces"} <= content.keys():
        raise TraceError(f"{file.name} is a pickle, but not a snapshot of CUDA's memory", hint=_HINT)
    try:
        return _trace(typed(content, _Snapshot), most_rows=len(data) // _ROW_BYTES)
    except TraceError:
        raise
    except ValueError as error:
        raise TraceError(f"{file.name} differs from a snapshot of torch: {error}", hint=_HINT) from error


@dataclass
class _Lines:
    """Paths of the user's lines, numbered in order of appearance."""

    functions: dict[tuple[str, str], int] = field(default_factory=dict)
    paths: dict[tuple[int, int, int], int] = field(default_factory=dict)  # parent, function, line

    def path(self, frames: Sequence[_Frame]) -> int:
        """The path of a stack, whose innermost frame comes first; NOWHERE if none is the user's."""
        at = NOWHERE
        for frame in reversed(frames):
            if not is_users(frame.filename):
                continue
            function = self.functions.setdefault((frame.filename, frame.name), len(self.functions))
            at = self.paths.setdefault((at, function, frame.line), len(self.paths) + 1)
        return at

    def whole(self, marks: PathMarks) -> Paths:
        rows = [(NOWHERE, NONE, 0), *self.paths]
        parent, function, line = (np.array(column, np.int32) for column in zip(*rows, strict=True))
        functions = tuple(
            UserFunction(Path(file).name if name == "<module>" else name, file, 1) for file, name in self.functions
        )
        return Paths(parent, function, line, functions, marks, main_thread=0)


@dataclass
class _Found:
    lines: _Lines = field(default_factory=_Lines)
    names: dict[str, int] = field(default_factory=dict)
    rows: list[dict[str, int]] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)
    at_ns: int = 0
    stacks: dict[int, tuple[int, int]] = field(default_factory=dict)

    def stack(self, frames: Any) -> tuple[int, int]:
        """The path of a stack, and its node. Each list is read once: entries share lists, else a small file grows."""
        if id(frames) not in self.stacks:
            known = typed(frames or [], list[_Frame])
            self.stacks[id(frames)] = self.lines.path(known), self.node(known)
        return self.stacks[id(frames)]

    def event(self, entry: _Entry, zero_us: int) -> int:
        """When an entry happened; entries keep their order even if the clock is too coarse to show it."""
        self.at_ns = max(self.at_ns + 2, (entry.time_us - zero_us) * 1000)
        return self.at_ns

    def node(self, frames: Sequence[_Frame]) -> int:
        """The index of the name of the backward node that a stack is in, NONE outside of any."""
        for frame in frames:
            known = _NODE.search(frame.name)
            if known is not None:
                return self.names.setdefault(known[1], len(self.names))
        return NONE

    def device(self, number: int, entries: Sequence[_Entry], alive: Mapping[int, int]) -> None:
        """The blocks of one device. alive: sizes, by address, of blocks that remain at the end."""
        zero_us = entries[0].time_us if entries else 0
        given: dict[int, dict[str, int]] = {}
        recorded: set[int] = set()
        for order, entry in enumerate(entries):
            address = entry.addr
            if entry.action not in ("alloc", "free_completed"):
                continue
            if entry.size is None:
                raise ValueError(f"entry {order} of device {number} has no size")
            at_ns, (path, node) = self.event(entry, zero_us), self.stack(entry.frames)
            if entry.action == "alloc":
                self.marks += [(at_ns, path), (at_ns + 1, NOWHERE)]  # the end of the line is not recorded
                row = self._row(number, entry.size, address, order, at_ns) | {"node": node}
                given[address] = row
                self.rows.append(row)
                recorded.add(address)
                continue
            row = given.pop(address) if address in given else self._before(number, entry.size, address)
            row |= {"free_order": order, "free_ns": at_ns, "free_thread": 0, "free_node": node}
            recorded.add(address)
        for address, size in alive.items():
            if address not in recorded:
                self._before(number, size, address)

    def _before(self, device: int, size: int, address: int) -> dict[str, int]:
        row = self._row(device, size, address, NONE, 0) | {"before": 1}
        self.rows.append(row)
        return row

    def _row(self, device: int, size: int, address: int, order: int, at_ns: int) -> dict[str, int]:
        return {
            **dict.fromkeys(("free_ns", "free_order", "free_thread", "node", "free_node"), NONE),
            "device": device,
            "size_bytes": size,
            "address": address,
            "order": order,
            "alloc_ns": at_ns,
            "thread": 0,
            "before": 0,
        }


def _trace(snapshot: _Snapshot, most_rows: int) -> Trace:
    lists = [*(segment.blocks for segment in snapshot.segments), *snapshot.device_traces]
    n_rows = sum(len(items) for items in lists if isinstance(items, list))
    if n_rows > most_rows:
        raise ValueError(f"its lists hold {n_rows:,} rows, more than fit in the file")
    alive: dict[int, dict[int, int]] = {}
    for segment in snapshot.segments:
        sizes = alive.setdefault(segment.device, {})
        at = segment.address
        for block in typed(segment.blocks, list[_Block]):
            if block.state in _ALIVE:
                sizes[at if block.address is None else block.address] = block.size
            at += block.size
    made = _Found()
    for device, entries in enumerate(snapshot.device_traces):
        made.device(device, typed(entries, list[_Entry]), alive.get(device, {}))
    if not made.rows:
        raise TraceError("this snapshot has no blocks", hint=_HINT)
    columns = {name: [row[name] for row in made.rows] for name in made.rows[0]}
    marks = sorted(made.marks)
    paths = made.lines.whole(
        PathMarks.make(
            {"at_ns": [at for at, _ in marks], "thread": [0] * len(marks), "path": [path for _, path in marks]}
        )
    )
    devices = sorted({row["device"] for row in made.rows})
    meta = TraceMeta(
        SNAPSHOT,
        end_ns=made.at_ns + 2,
        devices=tuple(DeviceInfo(device, "cuda", f"cuda:{device}") for device in devices),
    )
    return make_trace(list(made.names), meta, blocks=columns, paths=paths)
