"""The host's side of an export: CUDA's calls, what they wait for, calls of the operating system."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from perfmagic.trace.columns import NONE, Bool, HostKind, Int64, call_kind
from perfmagic.trace.formats.nsight.database import Columns, Database
from perfmagic.trace.formats.nsight.device import Names

ANY_THREAD = 0xFFFFFF  # the low bits of a global thread id; what stands above names the machine and the process
CALLS = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
SYNCS, EVENTS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
SYSTEM = "OSRT_API"
_EVENT_SYNC, _STREAM_WAIT, _STREAM_SYNC, _CONTEXT_SYNC = 1, 2, 3, 4  # ENUM_CUPTI_SYNC_TYPE
_VERSION = re.compile(r"_v\d{4,}$")  # of an entry point: cudaLaunchKernel_v7000


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
