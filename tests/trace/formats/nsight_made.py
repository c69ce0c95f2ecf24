"""Exports of Nsight Systems: made by hand from rows, and the recorded one that comes with the tests."""

import lzma
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

from tests.trace.recorded import FOLDER, UNPACKED

PID = (7 << 48) | (111 << 24)  # of the machine 7, the process 111
THREAD = PID | 42
MS = 1_000_000
Row = dict[str, Any]


def made(path: Path, **tables: list[Row]) -> Path:
    """A database with these tables; columns are the keys of their rows. strings={1: "k"} is StringIds."""
    with sqlite3.connect(path) as connection:
        for table, rows in tables.items():
            columns = list(dict.fromkeys(key for row in rows for key in row))
            named = ", ".join(f'"{column}"' for column in columns)
            connection.execute(f'create table "{table}" ({named})')
            values = [tuple(row.get(column) for column in columns) for row in rows]
            connection.executemany(f'insert into "{table}" values ({", ".join("?" * len(columns))})', values)
    connection.close()
    return path


def strings(*texts: str) -> list[Row]:
    """StringIds, numbered from 1."""
    return [{"id": number, "value": text} for number, text in enumerate(texts, 1)]


def kernel(start: int, end: int, correlation: int, *, pid: int = PID, device: int = 0, **more: Any) -> Row:
    place = {"start": start, "end": end, "deviceId": device, "streamId": 7, "correlationId": correlation}
    return {**place, "globalPid": pid, "demangledName": 1, "shortName": 1, **more}


def call(start: int, end: int, correlation: int, name: int = 2, *, tid: int = THREAD) -> Row:
    return {"start": start, "end": end, "globalTid": tid, "correlationId": correlation, "nameId": name}


def mark(kind: int, start: int, end: int | None, text: str | None, *, tid: int = THREAD, **more: Any) -> Row:
    """A row of NVTX_EVENTS.  kind: 33 category, 34 mark, 59 push/pop, 60 start/end, 75 domain."""
    return {"start": start, "end": end, "eventType": kind, "text": text, "globalTid": tid, **more}


def small(path: Path, **more: list[Row]) -> Path:
    """Two launches with their kernels, and what else is given."""
    return made(
        path,
        **{
            "StringIds": strings("void gemm<float>(int)", "cudaLaunchKernel_v7000"),
            "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(110, 150, 1), kernel(150, 190, 2)],
            "CUPTI_ACTIVITY_KIND_RUNTIME": [call(100, 105, 1), call(106, 109, 2)],
            **more,
        },
    )


@cache
def h100() -> Path:
    """67 ms of two H100 and two processes, see tests/data/traces/PROVENANCE.md."""
    stored = FOLDER / "nsight" / "h100_2gpu.sqlite.xz"
    target = UNPACKED / "h100_2gpu.sqlite"
    UNPACKED.mkdir(parents=True, exist_ok=True)
    content = lzma.decompress(stored.read_bytes())
    if not target.is_file() or target.read_bytes() != content:
        part = target.with_suffix(".part")
        part.write_bytes(content)
        part.replace(target)
    return target
