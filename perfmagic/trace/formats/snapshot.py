"""A snapshot of CUDA's allocator, as torch.cuda.memory._dump_snapshot writes it: its blocks, and the lines they are of.

Structure: torch/cuda/memory.py, _snapshot (read in 2.13). A pickle may hold any program; this is read as plain data.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from perfmagic.errors import TraceError
from perfmagic.trace.columns import NONE, PathMarks
from perfmagic.trace.model import SNAPSHOT, DeviceInfo, Trace, TraceMeta, make_trace
from perfmagic.trace.paths import NOWHERE, Paths, UserFunction

MOST_BYTES = 2**31  # of a file: what it unpacks to is several times that
# whose frames say nothing of the user: installed packages, the standard library, and what has no file of Python's
_LIBRARY = re.compile(r"(?:site|dist)-packages|[/\\]lib[/\\]python\d|[/\\]torch[/\\]|^<(?!ipython)|^\?\?")
_SOURCES = (".py", ">")  # a file, or a cell
_NODE = re.compile(r"(\w+Backward\d*|AccumulateGrad)::apply")
_ALIVE = ("active_allocated", "active_awaiting_free")
_HINT = "torch.cuda.memory._record_memory_history(); …; torch.cuda.memory._dump_snapshot('snapshot.pickle')"


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, and a snapshot holds plain data")


def read_snapshot(path: str | Path) -> Trace:
    """The blocks of every device in a snapshot.

    Raises TraceError for a file that is no snapshot, that asks for code, or that is larger than 2 GiB.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MOST_BYTES:
            raise TraceError(f"{file.name} is larger than 2 GiB", hint="record fewer entries: max_entries=100_000")
        found = _Plain(io.BytesIO(file.read_bytes())).load()
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror}") from error
    except TraceError:
        raise
    except Exception as error:  # a damaged pickle raises anything
        raise TraceError(f"{file.name} is no snapshot of CUDA's memory: {error}", hint=_HINT) from error
    if not isinstance(found, dict) or not {"segments", "device_traces"} <= found.keys():
        raise TraceError(f"{file.name} is a pickle, and no snapshot of CUDA's memory", hint=_HINT)
    try:
        return _trace(found)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise TraceError(f"{file.name} is not as torch writes a snapshot: {error!r}", hint=_HINT) from error


@dataclass
class _Lines:
    """Paths of the user's lines, numbered as they come."""

    functions: dict[tuple[str, str], int] = field(default_factory=dict)
    paths: dict[tuple[int, int, int], int] = field(default_factory=dict)  # parent, function, line

    def path(self, frames: Sequence[Mapping[str, Any]]) -> int:
        """The path of a stack, whose innermost frame comes first; NOWHERE without a line of the user's."""
        at = NOWHERE
        for frame in reversed(frames):
            file, name = str(frame["filename"]), str(frame["name"])
            if not file.endswith(_SOURCES) or _LIBRARY.search(file):
                continue
            function = self.functions.setdefault((file, name), len(self.functions))
            at = self.paths.setdefault((at, function, int(frame["line"])), len(self.paths) + 1)
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

    def event(self, entry: Mapping[str, Any], zero_us: int) -> int:
        """When an entry happened: entries follow each other, also where the clock is too coarse to say so."""
        self.at_ns = max(self.at_ns + 2, (int(entry.get("time_us", 0)) - zero_us) * 1000)
        return self.at_ns

    def node(self, frames: Iterable[Mapping[str, Any]]) -> int:
        """The name of the backward node that a stack is in, NONE outside of one."""
        for frame in frames:
            known = _NODE.search(str(frame["name"]))
            if known is not None:
                return self.names.setdefault(known[1], len(self.names))
        return NONE

    def device(self, number: int, entries: Sequence[Mapping[str, Any]], alive: Mapping[int, int]) -> None:
        """The blocks of one device. alive: sizes by address of what was there in the end."""
        zero_us = int(entries[0].get("time_us", 0)) if entries else 0
        given: dict[int, dict[str, int]] = {}
        told: set[int] = set()
        for order, entry in enumerate(entries):
            action, address = entry["action"], int(entry.get("addr", 0))
            if action not in ("alloc", "free_completed"):
                continue
            at_ns, frames = self.event(entry, zero_us), entry.get("frames") or ()
            if action == "alloc":
                path = self.lines.path(frames)
                self.marks += [(at_ns, path), (at_ns + 1, NOWHERE)]  # when the line ended nobody says
                row = self._row(number, int(entry["size"]), address, order, at_ns) | {"node": self.node(frames)}
                given[address] = row
                self.rows.append(row)
                told.add(address)
                continue
            row = given.pop(address) if address in given else self._before(number, int(entry["size"]), address)
            row |= {"free_order": order, "free_ns": at_ns, "free_thread": 0, "free_node": self.node(frames)}
            told.add(address)
        for address, size in alive.items():
            if address not in told:
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


def _trace(found: Mapping[str, Any]) -> Trace:
    alive: dict[int, dict[int, int]] = {}
    for segment in found["segments"]:
        mine = alive.setdefault(int(segment.get("device", 0)), {})
        at = int(segment["address"])
        for block in segment["blocks"]:
            if block["state"] in _ALIVE:
                mine[int(block.get("address", at))] = int(block["size"])
            at += int(block["size"])
    made = _Found()
    for device, entries in enumerate(found["device_traces"]):
        made.device(device, entries, alive.get(device, {}))
    if not made.rows:
        raise TraceError("this snapshot holds no block", hint=_HINT)
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
