"""Call stacks of an export: CPU samples, and the backtraces of CUDA's calls, as frames that last.

A sample says where a thread was at one instant. What it shares from the outermost frame on with the sample before is
taken to have lasted in between, if that one was near. A call's backtrace holds for the time of the call.
Source: schema of nsys export --type sqlite: COMPOSITE_EVENTS and SAMPLING_CALLCHAINS, whose id is the sample's;
CUDA_CALLCHAINS, which callchainId of a call names. stackDepth is 0 for the innermost frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np

from perfmagic.trace.columns import NONE, HostKind, Int64
from perfmagic.trace.formats.nsight.database import Columns, Database
from perfmagic.trace.formats.nsight.device import Names
from perfmagic.trace.formats.nsight.host import ANY_THREAD, CALLS

SAMPLES, CHAINS, BACKTRACES = "COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS", "CUDA_CALLCHAINS"
_NEAR = 4  # usual distances of two samples of a thread: further apart, the thread was elsewhere
_Stack = tuple[int, ...]  # rows of names, the outermost first
_Instants = list[tuple[int, int, int, _Stack]]  # thread, start_ns, end_ns, stack


class Frames(NamedTuple):
    """Columns of HostOps, the process of each row, and how far samples usually are apart, 0 without samples."""

    columns: Columns
    pid: Int64
    apart_ns: int


def frames_of(database: Database, names: Names, threads: Int64) -> Frames:
    """Where threads were.  threads: global ids of those that called a device or had ranges."""
    sampled, apart_ns = _samples(database, names, threads)
    rows = list(_lasting(sorted([*sampled, *_backtraces(database, names)])))
    tid, start, end, name = np.array(rows, np.int64).reshape(-1, 4).T
    columns = {"start_ns": start, "end_ns": end, "kind": np.full(len(start), HostKind.PYTHON), "name": name}
    return Frames({**columns, "thread": tid & ANY_THREAD}, tid & ~ANY_THREAD, apart_ns)


def _samples(database: Database, names: Names, threads: Int64) -> tuple[_Instants, int]:
    """The samples of some threads, each until the next one of its thread if that is near, and their usual distance."""
    found = database.columns(SAMPLES, "id", "start", "globalTid")
    kept = np.flatnonzero(np.isin(found["globalTid"], threads))
    kept = kept[np.lexsort((found["start"][kept], found["globalTid"][kept]))]
    number, start, tid = (found[name][kept] for name in ("id", "start", "globalTid"))
    stacks = _stacks(database, names, CHAINS, number)
    apart, same = np.diff(start), tid[1:] == tid[:-1]
    usual = int(np.median(apart[same])) if same.any() else 0
    end = start + np.append(np.where(same & (apart <= _NEAR * usual), apart, usual), usual)[: len(start)]
    rows = zip(tid.tolist(), start.tolist(), end.tolist(), number.tolist(), strict=True)
    return [(thread, begin, until, stacks[at]) for thread, begin, until, at in rows if at in stacks], usual


def _backtraces(database: Database, names: Names) -> _Instants:
    """The calls whose stack was recorded."""
    wanted = ("globalTid", "start", "end", "callchainId")
    parts = [database.columns(table, *wanted) for table in CALLS if "callchainId" in database.tables.get(table, ())]
    calls = np.concatenate(
        [np.stack([part[name] for name in wanted], 1) for part in parts] or [np.zeros((0, 4), np.int64)]
    )
    stacks = _stacks(database, names, BACKTRACES, calls[:, 3])
    return [(tid, start, end, stacks[at]) for tid, start, end, at in calls.tolist() if at in stacks]


def _stacks(database: Database, names: Names, table: str, wanted: Int64) -> dict[int, _Stack]:
    """The stack of each wanted id."""
    found = database.columns(table, "id", "symbol", "module", "unresolved", "stackDepth")
    kept = np.flatnonzero(np.isin(found["id"], wanted))
    if not len(kept):
        return {}
    kept = kept[np.lexsort((-found["stackDepth"][kept], found["id"][kept]))]
    ids, symbol, module, unresolved = (found[name][kept] for name in ("id", "symbol", "module", "unresolved"))
    texts = database.strings(np.concatenate([symbol, module]))
    # an address says nothing: where no symbol is known, the library stands for it
    shown = np.where((unresolved > 0) & (module != NONE), -2 - module, symbol)
    rows = names.rows(shown, lambda number: _name(number, texts))
    first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    parts = zip(ids[first].tolist(), np.split(rows, first[1:]), strict=True)
    return {number: tuple(row for row, _ in groupby(part.tolist())) for number, part in parts}


def _name(number: int, texts: dict[int, str]) -> str:
    if number < NONE:
        return f"[{texts.get(-2 - number, '?').rpartition('/')[2]}]"
    return texts.get(number, f"frame {number}")


def _lasting(instants: _Instants) -> Iterator[tuple[int, int, int, int]]:
    """Frames of stacks in time: thread, start_ns, end_ns, name. Equal ones of stacks that touch are one."""
    open_at: list[int] = []
    stack: _Stack = ()
    thread, until = NONE, 0
    for tid, begin, end, now in instants:
        start = max(begin, until) if tid == thread else begin
        if end <= start:
            continue
        same = 0
        if tid == thread and start == until:
            while same < min(len(stack), len(now)) and stack[same] == now[same]:
                same += 1
        yield from ((thread, at, until, name) for at, name in zip(open_at[same:], stack[same:], strict=True))
        open_at = open_at[:same] + [start] * (len(now) - same)
        thread, until, stack = tid, end, now
    yield from ((thread, at, until, name) for at, name in zip(open_at, stack, strict=True))
