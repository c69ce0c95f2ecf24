"""Reading what Nsight Systems exports: nsys export --type sqlite, schemas of 2022 to 2026.

A database (`database`) → columns of the device (`device`) and of the host (`host`), of all processes → a Trace a
process, here. A launch belongs to its op by process and correlation id: ids of two processes overlap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfmagic.base.errors import TraceError
from perfmagic.base.files import printable
from perfmagic.base.free_memory import available_bytes
from perfmagic.base.language import counted, phrase
from perfmagic.base.units import count, duration, size
from perfmagic.trace.columns import NONE, HostKind, Int64, Remark
from perfmagic.trace.formats.nsight import device, host, nvtx, stacks
from perfmagic.trace.formats.nsight.database import MAGIC, ROW_BYTES, Columns, Database, opened, text_of
from perfmagic.trace.formats.nsight.host import ANY_THREAD
from perfmagic.trace.json_form import FAR_NS
from perfmagic.trace.model import LaunchShape, Trace, TraceMeta, make_trace

_STACKS = (stacks.SAMPLES, stacks.CHAINS, stacks.BACKTRACES)
_READ = (*device.TABLES, *host.CALLS, host.SYNCS, host.EVENTS, nvtx.NVTX, host.SYSTEM, device.MEMORY, *_STACKS)
_WHOLE = (*device.TABLES, *host.CALLS, nvtx.NVTX)  # one of them makes a database an export
_NAMED = 5  # tables that an error names
_PID_BITS = 24  # of a global id: the thread's below the process's
_RANK = re.compile(r"^(?:RANK|OMPI_COMM_WORLD_RANK|PMI_RANK|SLURM_PROCID)=\"?(\d{1,6})\"?$")
_WORLD = re.compile(r"^(?:WORLD_SIZE|OMPI_COMM_WORLD_SIZE|PMI_SIZE|SLURM_NTASKS)=\"?(\d{1,6})\"?$")
_LOST = re.compile(r"not all|dropped|lost|missing|incomplete", re.IGNORECASE)
_MOST_TEXTS, _MOST_WORDS = 2, 160  # diagnostics that are quoted, and characters of each


def sniff(head: bytes) -> bool:
    """Whether a file is a database: which tables it has is known once it is open."""
    return head.startswith(MAGIC)


def read(file: Path, max_unpacked_bytes: int, *, helper: bool) -> list[Trace]:  # noqa: ARG001 - no process is needed
    """A trace for each process that used a device, on one axis; see perfmagic.trace.formats.registry.Reader.

    Several processes are ranks, numbered by MPI_RANKS, else by device and process id.
    """
    with opened(file) as database:
        if not any(table in database.tables for table in _WHOLE):
            some = ", ".join(sorted(database.tables)[:_NAMED]) or "no table"
            message = f"{file.name} is an SQLite database of another program: it has {some}"
            raise TraceError(message, hint="open an export of Nsight Systems: nsys export --type sqlite NAME.nsys-rep")
        _check_size(database, max_unpacked_bytes)
        return _traces(database, printable(file.name))


def _check_size(database: Database, limit_bytes: int) -> None:
    n = database.rows(_READ)
    if n * ROW_BYTES > limit_bytes:
        needed = f"{size(n * ROW_BYTES)} in memory, more than the limit of {size(limit_bytes)}"
        hint = "raise it with open_trace(path, max_unpacked_bytes=...) or --max-gb, or record less (--duration)"
        raise TraceError(f"{database.name} has up to {count(n)} rows to read, {needed}", hint=hint)
    free_bytes = available_bytes()
    if 0 < free_bytes < n * ROW_BYTES:
        needed = f"{size(n * ROW_BYTES)} in memory, and {size(free_bytes)} are free on this machine"
        hint = "record less (--duration), or open it where more memory is free"
        raise TraceError(f"{database.name} has up to {count(n)} rows to read, {needed}", hint=hint)


@dataclass(frozen=True)
class _Table:
    """Columns of all processes, and the process of each row."""

    columns: Columns
    pid: Int64

    def of(self, pid: int, zero_ns: int) -> Columns:
        """The rows of one process, in its own time."""
        mine = self.pid == pid
        return {name: column[mine] - (zero_ns if name.endswith("_ns") else 0) for name, column in self.columns.items()}


@dataclass
class _Export:
    """All that a database says.  repairs: on rows that were left out.  apart_ns: samples of the CPU, 0 for none."""

    ops: _Table
    calls: _Table
    ranges: _Table
    waits: host.Waits
    memory: _Table
    shapes: list[LaunchShape]
    names: list[str]
    repairs: list[Remark]
    apart_ns: int


def _export(database: Database) -> _Export:
    repairs: list[Remark] = []
    names = device.Names()
    side = device.device_side(database, names)
    calls, call_pid = host.calls_of(database, names)
    ranges, range_pid = nvtx.ranges_of(database, names)
    threads = np.unique(np.concatenate([call_pid | calls["thread"], range_pid | np.maximum(ranges["thread"], 0)]))
    system, system_pid = host.system_calls_of(database, names, threads)
    ends = [table["end_ns"] for table in (side.ops, calls)]
    last_ns = max((int(end.max()) for end in ends if len(end)), default=int(ranges["end_ns"].max(initial=0)))
    ranges["end_ns"] = np.where(ranges["end_ns"] == NONE, np.maximum(last_ns, ranges["start_ns"]), ranges["end_ns"])
    frames = stacks.frames_of(database, names, threads)
    hosts = {name: np.concatenate([ranges[name], system[name], frames.columns[name]]) for name in ranges}
    op_pid = side.pid if not len(side.pid) or (side.pid >= 0).any() else _only_process(side.pid, call_pid)
    memory, memory_pid = device.memory_of(database, names)
    return _Export(
        _possible(_Table(side.ops, op_pid), repairs),
        _possible(_Table(calls, call_pid), repairs),
        _possible(_Table(hosts, np.concatenate([range_pid, system_pid, frames.pid])), repairs),
        host.waits_of(database),
        _Table(memory, memory_pid),
        side.shapes,
        list(names.texts),
        repairs,
        frames.apart_ns,
    )


def _only_process(pid: Int64, call_pid: Int64) -> Int64:
    """The process of ops whose export does not name it: the one that made the calls."""
    return np.full(len(pid), call_pid[0] if len(call_pid) else 0)


def _possible(table: _Table, repairs: list[Remark]) -> _Table:
    """The rows whose times and numbers a trace can hold; others are left out, which is a repair."""
    start, end = table.columns["start_ns"], table.columns["end_ns"]
    good = (start >= -FAR_NS) & (end <= FAR_NS) & (start <= end)
    for name in ("device", "kind"):
        if name in table.columns:
            good &= np.abs(table.columns[name]) < 2**31
    if good.all():
        return table
    n = int((~good).sum())
    words = counted(
        n, "{n} record with an impossible time was left out", "{n} records with impossible times were left out"
    )
    repairs.append(Remark("impossible_times", words, {"n": n}))
    return _Table({name: column[good] for name, column in table.columns.items()}, table.pid[good])


def _traces(database: Database, name: str) -> list[Trace]:
    export = _export(database)
    processes = (np.unique(table.pid).tolist() for table in (export.ops, export.calls, export.ranges))
    pids: list[int] = next(filter(None, processes), [])  # a launcher calls CUDA, too, and runs nothing on a device
    if not pids:
        message = f"{name} is an export of Nsight Systems without kernels, calls or ranges"
        raise TraceError(message, hint="record with nsys profile --trace=cuda,nvtx")
    ranks, world_size, guessed = _ranks(database, export, pids)
    zero_ns = min(int(t.columns["start_ns"].min()) for t in _spans(export) if len(t.pid))
    made, base_ns = [], _base_unix_ns(database, zero_ns)
    for pid in sorted(pids, key=lambda pid: ranks.get(pid, 0)):
        title = name if len(pids) == 1 else f"{name}, rank {ranks[pid]}"
        about = _About(title, ranks.get(pid), world_size, guessed, len(pids) > 1, base_ns, zero_ns)
        made.append(_trace(database, export, pid, about))
    return made


def _spans(export: _Export) -> list[_Table]:
    device_and_calls = [table for table in (export.ops, export.calls) if len(table.pid)]
    return device_and_calls or [export.ranges]


def _process(pid: int) -> int:
    """The number that the operating system gave a process."""
    return pid >> _PID_BITS & ANY_THREAD


def _ranks(database: Database, export: _Export, pids: list[int]) -> tuple[dict[int, int], int | None, bool]:
    """The rank of each process, how many there are in all, and whether both are guessed by the order of devices."""
    numbered = database.columns("MPI_RANKS", "globalTid", "rank")
    by_pid = dict(zip((numbered["globalTid"] & ~ANY_THREAD).tolist(), numbered["rank"].tolist(), strict=True))
    if by_pid and len({by_pid.get(pid) for pid in pids} - {None}) == len(pids):
        return by_pid, len(set(by_pid.values())), False
    if len(pids) == 1:
        rank, world = (_environment(database, pattern) for pattern in (_RANK, _WORLD))
        return ({} if rank is None else {pids[0]: rank}), world, False
    first = {pid: int(export.ops.columns["device"][export.ops.pid == pid].min(initial=2**31)) for pid in pids}
    order = sorted(pids, key=lambda pid: (first[pid], pid))
    return {pid: rank for rank, pid in enumerate(order)}, len(pids), True


def _environment(database: Database, pattern: re.Pattern[str]) -> int | None:
    """A number of the environment that a process was started with."""
    if not {"name", "value"} <= database.tables.get("META_DATA_CAPTURE", set()):
        return None
    asked = "select value from META_DATA_CAPTURE where name like '%ENVIRONMENT_VARIABLE'"
    found = (pattern.match(text_of(value)) for (value,) in database.ask(asked))
    return next((int(match[1]) for match in found if match), None)


def _base_unix_ns(database: Database, zero_ns: int) -> int:
    """The unix time of an instant; 0 where the export does not say."""
    epoch = database.columns("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")["utcEpochNs"][:1]
    begins = database.columns("ANALYSIS_DETAILS", "startTime")["startTime"][:1]
    if not len(epoch) or not 0 < epoch[0] < FAR_NS:
        return 0
    return int(epoch[0]) + zero_ns - max(int(begins.sum()), 0)


@dataclass(frozen=True)
class _About:
    origin: str
    rank: int | None
    world_size: int | None
    guessed: bool
    of_several: bool
    base_unix_ns: int
    zero_ns: int


def _trace(database: Database, export: _Export, pid: int, about: _About) -> Trace:
    zero = about.zero_ns
    ops, calls, ranges = (table.of(pid, zero) for table in (export.ops, export.calls, export.ranges))
    streams, hosts = (_Table(*table).of(pid, zero) for table in export.waits)
    memory = export.memory.of(pid, zero)
    spans = [table for table in (ops, calls) if len(table["start_ns"])] or [ranges]
    used = np.unique(ops["device"]).tolist()
    meta = TraceMeta(
        origin=about.origin,
        base_unix_ns=about.base_unix_ns,
        start_ns=min(int(table["start_ns"].min()) for table in spans),
        end_ns=max(int(table["end_ns"].max()) for table in spans),
        devices=device.device_infos(database, _process(pid), used),
        rank=about.rank,
        world_size=about.world_size,
        repairs=tuple(export.repairs),
        notes=(*_notes(database, ops, calls, ranges, about), *_of_samples(export)),
        # the processes of one recording share a clock
        boot=f"{database.name} {about.base_unix_ns} {zero}" if about.of_several else "",
        monotonic_base_ns=zero if about.of_several else None,
    )
    return make_trace(
        export.names,
        meta,
        ops=ops,
        calls=calls,
        host_ops=ranges,
        waits=streams,
        host_waits=hosts,
        counters=memory,
        shapes=export.shapes,
    )


def _notes(database: Database, ops: Columns, calls: Columns, ranges: Columns, about: _About) -> list[Remark]:
    notes = []
    if about.guessed:
        words = phrase("ranks are numbered by device and process: the export does not name them")
        notes.append(Remark("ranks_guessed", words))
    if len(ops["start_ns"]) and not len(calls["start_ns"]):
        notes.append(Remark("no_launches", phrase("no launch was recorded: when ops were queued is unknown")))
    if not (ranges["kind"] == HostKind.OP).any():
        words = phrase("no host operator was recorded: NVTX ranges take their place")
        notes.append(Remark("no_host_ops", words))
    return [*notes, *_diagnostics(database)]


def _of_samples(export: _Export) -> list[Remark]:
    if not export.apart_ns:
        return []
    apart = duration(export.apart_ns)
    words = phrase("frames are CPU samples about {apart} apart: what was shorter may be missing", apart=apart)
    return [Remark("sampled_frames", words, {"apart_ns": export.apart_ns})]


def _diagnostics(database: Database) -> list[Remark]:
    """What nsys itself says it lost."""
    if "text" not in database.tables.get("DIAGNOSTIC_EVENT", set()):
        return []
    said = {text_of(text) for (text,) in database.ask("select substr(text, 1, 400) from DIAGNOSTIC_EVENT")}
    texts = sorted(text for text in said if _LOST.search(text))
    words = [phrase("Nsight Systems says: {text}", text=printable(text[:_MOST_WORDS])) for text in texts[:_MOST_TEXTS]]
    return [Remark("nsys_lost", text) for text in words]
