"""The host's side of an export: CUDA's calls, what they wait for, NVTX ranges, calls of the operating system."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from perfmagic.trace.columns import NONE, Bool, HostKind, Int64, call_kind
from perfmagic.trace.formats.nsight.database import MOST_CHARACTERS, Columns, Database
from perfmagic.trace.formats.nsight.device import Names

ANY_THREAD = 0xFFFFFF  # the low bits of a global thread id; what stands above names the machine and the process
CALLS = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
SYNCS, EVENTS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
NVTX, SYSTEM = "NVTX_EVENTS", "OSRT_API"
_CATEGORY, _MARK, _PUSH_POP, _START_END, _DOMAIN = 33, 34, 59, 60, 75  # ENUM_NSYS_EVENT_TYPE
_EVENT_SYNC, _STREAM_WAIT, _STREAM_SYNC, _CONTEXT_SYNC = 1, 2, 3, 4  # ENUM_CUPTI_SYNC_TYPE
_VERSION = re.compile(r"_v\d{4,}$")  # of an entry point: cudaLaunchKernel_v7000
# torch.autograd.profiler.emit_nvtx(): "aten::mul, seq = 7, op_id = 12, sizes = [[2, 3]]"
_OPERATOR = re.compile(r"([^,]+(?:::[^,]+)?)(?=, (?:seq = -?\d+|op_id = \d+|sizes = ))")
_PAYLOADS = ("uint64Value", "int64Value", "uint32Value", "int32Value", "doubleValue", "floatValue")
_RANGE = ("start_ns", "end_ns", "kind", "name", "thread")
_OPEN = np.iinfo(np.int64).max  # the end of a range that never ended


def calls_of(database: Database, names: Names) -> tuple[Columns, Int64]:
    """Columns of HostCalls, and the process of each row."""
    wanted = ("start", "end", "globalTid", "correlationId", "nameId")
    parts = [database.columns(table, *wanted) for table in CALLS]
    found = {name: np.concatenate([part[name] for part in parts]) for name in wanted}
    texts = database.strings(found["nameId"])
    rows = names.rows(found["nameId"], lambda number: _VERSION.sub("", texts.get(number, f"call {number}")))
    kind_of = np.array([int(call_kind(text)) for text in names.texts] or [0], np.int8)
    columns = {
        "start_ns": found["start"],
        "end_ns": found["end"],
        "kind": kind_of[rows],
        "name": rows,
        "thread": found["globalTid"] & ANY_THREAD,
        "correlation": found["correlationId"],
    }
    return columns, found["globalTid"] & ~ANY_THREAD


class Waits(NamedTuple):
    """Columns of StreamWaits and HostWaits, each with the process of its rows."""

    streams: tuple[Columns, Int64]
    hosts: tuple[Columns, Int64]


def waits_of(database: Database) -> Waits:
    """What streams and calls waited for. A wait for an event is known where its record is."""
    place = ("start", "deviceId", "streamId", "correlationId", "globalPid", "syncType", "eventId", "eventSyncId")
    found = database.columns(SYNCS, *place)
    kind = found["syncType"]
    record = _records(database, found)
    known = record["row"] != NONE
    of_event, of_all = kind == _EVENT_SYNC, kind == _CONTEXT_SYNC
    waits = (kind == _STREAM_WAIT) & known
    streams = {
        "at_ns": found["start"],
        "correlation": found["correlationId"],
        "device": found["deviceId"],
        "stream": found["streamId"],
        "on_stream": record["streamId"],
        "on_correlation": record["correlationId"],
        "on_device": record["deviceId"],
    }
    hosts = {
        "at_ns": found["start"],
        "correlation": found["correlationId"],
        "device": np.where(of_event, record["deviceId"], found["deviceId"]),
        "stream": np.select([of_event, of_all], [record["streamId"], np.full(len(kind), NONE)], found["streamId"]),
        "on_correlation": np.where(of_event, record["correlationId"], NONE),
    }
    blocks = (of_event & known) | of_all | (kind == _STREAM_SYNC)
    return Waits(_some(streams, waits, found["globalPid"]), _some(hosts, blocks, found["globalPid"]))


def _some(columns: Columns, rows: Bool, pid: Int64) -> tuple[Columns, Int64]:
    return {name: column[rows] for name, column in columns.items()}, pid[rows]


def _records(database: Database, syncs: Columns) -> Columns:
    """The record of the event that each synchronisation waits for, in columns; its row is NONE where it is not known.

    Newer exports name it by eventSyncId; in older ones it is the latest record of that event.
    """
    wanted = ("deviceId", "streamId", "correlationId", "globalPid", "eventId", "eventSyncId")
    events = database.columns(EVENTS, *wanted)
    by_sync: dict[tuple[int, int], int] = {}
    by_event: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row, (pid, event, sync) in enumerate(zip(*(events[of].tolist() for of in wanted[3:]), strict=True)):
        by_sync[pid, sync] = row
        by_event.setdefault((pid, event), []).append((events["correlationId"][row], row))
    rows = []
    asked = zip(*(syncs[of].tolist() for of in ("globalPid", "eventId", "eventSyncId", "correlationId")), strict=True)
    for pid, event, sync, correlation in asked if len(events["eventId"]) else ():
        before = [row for number, row in by_event.get((pid, event), ()) if number < correlation]
        rows.append(by_sync.get((pid, sync), NONE) if sync >= 0 else max(before, default=NONE))
    at = np.array(rows or np.full(len(syncs["eventId"]), NONE), np.int64)
    chosen = {name: np.where(at >= 0, np.append(events[name], NONE)[at], NONE) for name in wanted[:3]}
    return {"row": at, **chosen}


class _Range(NamedTuple):
    start: int
    end: int
    tid: int
    kind: int
    domain: int
    category: int
    text: str | None
    text_id: int
    payload: Any


def ranges_of(database: Database, names: Names) -> tuple[Columns, Int64]:
    """NVTX ranges and marks as columns of HostOps, and the process of each row. The end of an open range is NONE.

    Ranges that need not nest, those of start and end, lie on lanes of their own: threads with negative numbers.
    """
    if not {"start", "globalTid"} <= database.tables.get(NVTX, set()):
        return {name: np.zeros(0, np.int64) for name in _RANGE}, np.zeros(0, np.int64)
    rows = list(_ranges(database))
    texts = database.strings(np.array([row.text_id for row in rows], np.int64))
    domains = {(row.tid & ~ANY_THREAD, row.domain): _said(row, texts) for row in rows if row.kind == _DOMAIN}
    categories = {
        (row.tid & ~ANY_THREAD, row.domain, row.category): _said(row, texts) for row in rows if row.kind == _CATEGORY
    }
    shown = sorted((row for row in rows if row.kind in (_MARK, _PUSH_POP, _START_END)), key=_order)
    named: dict[tuple[Any, ...], tuple[int, int]] = {}
    numbers = []
    lanes = _Lanes()
    for row in shown:
        pid = row.tid & ~ANY_THREAD
        key = (row.text, row.text_id, pid, row.domain, row.category, row.payload)
        if key not in named:
            words, kind = _name(_said(row, texts), domains.get(key[2:4]), categories.get(key[2:5]), row.payload)
            named[key] = names.row(words), kind
        end = row.start if row.kind == _MARK else row.end
        numbers.append((row.start, end, named[key][1], named[key][0], lanes.thread(row, end), pid))
    table = np.array(numbers, np.int64).reshape(-1, 6).T
    return dict(zip(_RANGE, table, strict=False)), table[5]


def _ranges(database: Database) -> Iterator[_Range]:
    have = database.tables[NVTX]
    texts = [f"substr({name}, 1, {MOST_CHARACTERS})" for name in ("text", "jsonText") if name in have]
    spoken, json_text = (texts[0] if "text" in have else "null"), (texts[-1] if "jsonText" in have else "null")
    payloads = ", ".join([json_text, *(f"nullif({name}, 0)" for name in _PAYLOADS if name in have)])
    payload = f"coalesce({payloads}, null)"
    picked = [
        "start",
        f"ifnull(end, {NONE})" if "end" in have else str(NONE),
        "ifnull(globalTid, 0)",
        "eventType" if "eventType" in have else str(_PUSH_POP),
        "ifnull(domainId, 0)" if "domainId" in have else "0",
        f"ifnull(category, {NONE})" if "category" in have else str(NONE),
        spoken,
        f"ifnull(textId, {NONE})" if "textId" in have else str(NONE),
        payload,
    ]
    kinds = f"({_CATEGORY}, {_MARK}, {_PUSH_POP}, {_START_END}, {_DOMAIN})"
    asked = f"select {', '.join(picked)} from {NVTX}" + (f" where eventType in {kinds}" if "eventType" in have else "")
    return map(_Range._make, database.ask(asked))


def _order(row: _Range) -> tuple[int, int]:
    return row.start, -(_OPEN if row.end == NONE else row.end)


def _said(row: _Range, texts: dict[int, str]) -> str:
    return str(row.text) if row.text is not None else texts.get(row.text_id, "")


def _name(words: str, domain: str | None, category: str | None, payload: Any) -> tuple[str, HostKind]:
    """What a range is called, and whether it is an operator of torch, which emit_nvtx() numbers."""
    operator = _OPERATOR.match(words)
    text = operator[1] if operator else words
    text = f"{domain}: {text}" if domain else text
    text = f"{text} [{category}]" if category else text
    text = f"{text} ({payload})" if payload is not None else text
    return text, HostKind.OP if operator else HostKind.ANNOTATION


class _Lanes:
    """Threads on which ranges nest. What crosses another one of its thread gets the first free lane of its process."""

    def __init__(self) -> None:
        self._open: dict[int, list[int]] = {}
        self._free_from: dict[int, list[int]] = {}

    def thread(self, row: _Range, end: int) -> int:
        """The thread or lane of a range; ranges must come in the order of their starts."""
        end = _OPEN if end == NONE else end
        if row.kind != _START_END:
            around = self._open.setdefault(row.tid, [])
            while around and around[-1] <= row.start:
                around.pop()
            if not around or end <= around[-1]:
                around.append(end)
                return row.tid & ANY_THREAD
        lanes = self._free_from.setdefault(row.tid & ~ANY_THREAD, [])
        lane = next((number for number, free in enumerate(lanes) if free <= row.start), len(lanes))
        lanes[lane : lane + 1] = [end]
        return -1 - lane


def system_calls_of(database: Database, names: Names, threads: Int64) -> tuple[Columns, Int64]:
    """Calls of the operating system as columns of HostOps, and the process of each row.

    threads: global ids of those that called a device or had ranges: others only wait.
    """
    found = database.columns(SYSTEM, "start", "end", "globalTid", "nameId")
    kept = np.isin(found["globalTid"], threads)
    start, end, tid, name = (found[of][kept] for of in ("start", "end", "globalTid", "nameId"))
    texts = database.strings(name)
    columns = {
        "start_ns": start,
        "end_ns": end,
        "kind": np.full(len(start), HostKind.ANNOTATION),
        "name": names.rows(name, lambda number: texts.get(number, f"system call {number}")),
        "thread": tid & ANY_THREAD,
    }
    return columns, tid & ~ANY_THREAD
