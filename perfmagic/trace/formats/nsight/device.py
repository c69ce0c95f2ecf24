"""The device's side of an export: kernels, copies, memsets and graphs as ops; GPUs; CUDA events; memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from perfmagic.trace.columns import NONE, Int32, Int64, OpKind
from perfmagic.trace.formats.nsight.database import Columns, Database, text_of
from perfmagic.trace.model import DeviceInfo, LaunchShape

# CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind as nsys numbers them (ENUM_CUDA_MEMCPY_OPER, ENUM_CUDA_MEM_KIND)
_COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP", 11: "HtoD", 12: "DtoH", 13: "DtoD"}
_MEMORY = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device", "Managed")
_PLACE = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_LAYOUT = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread")
_SHARED = ("staticSharedMemory", "dynamicSharedMemory")
ALLOCATED = "Total Allocated"  # as Kineto calls it
TABLES = tuple(f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"))


@dataclass
class Names:
    """Texts by their row of Trace.names."""

    texts: dict[str, int] = field(default_factory=dict)

    def row(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def rows(self, ids: Int64, text_of: Callable[[int], str]) -> Int32:
        """The row of each id, whose text is worked out once."""
        known, at = np.unique(ids, return_inverse=True)
        return np.array([self.row(text_of(number)) for number in known.tolist()], np.int32)[at]


@dataclass(frozen=True)
class DeviceSide:
    """Columns of DeviceOps, the process of each row, and the shapes of kernels."""

    ops: Columns
    pid: Int64
    shapes: list[LaunchShape]


def device_side(database: Database, names: Names) -> DeviceSide:
    """What the devices executed, in no order."""
    kernels = database.columns(TABLES[0], *_PLACE, "demangledName", "shortName", *_LAYOUT, *_SHARED)
    copies = database.columns(TABLES[1], *_PLACE, "bytes", "copyKind", "srcKind", "dstKind")
    sets = database.columns(TABLES[2], *_PLACE, "bytes", "memKind")
    graphs = database.columns(TABLES[3], *_PLACE, "graphId")
    named = np.where(kernels["demangledName"] >= 0, kernels["demangledName"], kernels["shortName"])
    texts = database.strings(named)
    shape, shapes = _shapes(kernels)
    kinds = copies["copyKind"] * 64 + (copies["srcKind"] & 7) * 8 + (copies["dstKind"] & 7)
    parts = (
        (kernels, OpKind.KERNEL, names.rows(named, lambda number: texts.get(number, f"kernel {number}"))),
        (copies, OpKind.MEMCPY, names.rows(kinds, _copy_name)),
        (sets, OpKind.MEMSET, names.rows(sets["memKind"], lambda kind: f"Memset ({_memory(kind)})")),
        (graphs, OpKind.KERNEL, names.rows(graphs["graphId"], lambda number: f"CUDA graph {number}")),
    )
    place = {name: np.concatenate([part[name] for part, _, _ in parts]) for name in _PLACE}
    n = [len(part["start"]) for part, _, _ in parts]
    sizes = [part.get("bytes", np.full(len(part["start"]), NONE)) for part, _, _ in parts]
    ops = {
        "start_ns": place["start"],
        "end_ns": place["end"],
        "kind": np.repeat([kind for _, kind, _ in parts], n),
        "device": place["deviceId"],
        "stream": place["streamId"],
        "correlation": place["correlationId"],
        "name": np.concatenate([rows for _, _, rows in parts]),
        "size_bytes": np.concatenate(sizes),
        "shape": np.concatenate([shape, np.full(sum(n[1:]), NONE)]),
    }
    return DeviceSide(ops, place["globalPid"], shapes)


def _copy_name(kinds: int) -> str:
    """A copy's name as Kineto writes it; memory of an old export, which has no kinds, is not named."""
    kind, source, target = kinds >> 6, kinds >> 3 & 7, kinds & 7
    where = "" if source == target == len(_MEMORY) else f" ({_memory(source)} -> {_memory(target)})"
    return f"Memcpy {_COPIES.get(kind, 'DtoD')}{where}"


def _memory(kind: int) -> str:
    return _MEMORY[kind] if 0 <= kind < len(_MEMORY) else "Unknown"


def _shapes(kernels: Columns) -> tuple[Int64, list[LaunchShape]]:
    """The row of each kernel's shape, NONE without one, and the shapes."""
    static, dynamic = (kernels[name] for name in _SHARED)
    shared = np.where((static < 0) & (dynamic < 0), NONE, np.maximum(static, 0) + np.maximum(dynamic, 0))
    table = np.stack([*(kernels[name] for name in _LAYOUT), shared], 1)
    known, at = np.unique(table, axis=0, return_inverse=True)
    row = np.where(kernels["gridX"] > 0, at.reshape(-1), NONE)
    return row, [_shape(*numbers) for numbers in known.tolist()]


def _shape(*numbers: int) -> LaunchShape:
    registers, shared = (None if number < 0 else number for number in numbers[6:])
    return LaunchShape((numbers[0], numbers[1], numbers[2]), (numbers[3], numbers[4], numbers[5]), registers, shared)


def device_infos(database: Database, pid: int, used: Sequence[int]) -> tuple[DeviceInfo, ...]:
    """The devices of a process.  used: as its CUDA numbers them, which CUDA_VISIBLE_DEVICES changes."""
    have = database.tables.get("TARGET_INFO_GPU", set())
    if not {"id", "name"} <= have:
        return tuple(DeviceInfo(index, "cuda", f"device {index}") for index in used)
    sizes = ("totalMemory", "smCount", "computeMajor")
    known = database.columns("TARGET_INFO_GPU", "id", "cuDevice", *sizes)
    labels = [text_of(name) for (name,) in database.ask("select ifnull(name, '') from TARGET_INFO_GPU")]
    places = known["cuDevice"] if (known["cuDevice"] >= 0).any() else known["id"]
    row_of = dict(zip(places.tolist(), range(len(labels)), strict=True))
    row_of |= _visible(database, pid, dict(zip(known["id"].tolist(), range(len(labels)), strict=True)))
    found = []
    for index in used:
        row = row_of.get(index)
        numbers = (None,) * 3 if row is None else [int(known[of][row]) if known[of][row] > 0 else None for of in sizes]
        name = "" if row is None else labels[row]
        found.append(DeviceInfo(index, "cuda", name or f"device {index}", "", *numbers))
    return tuple(found)


def _visible(database: Database, pid: int, row_of_gpu: dict[int, int]) -> dict[int, int]:
    """The row of each device that a process sees, where the export says so.  pid: as the operating system has it."""
    seen = database.columns("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid")
    mine = (seen["pid"] == pid) | (seen["pid"] < 0)
    pairs = zip(seen["cudaId"][mine].tolist(), seen["gpuId"][mine].tolist(), strict=True)
    return {index: row_of_gpu[gpu] for index, gpu in pairs if gpu in row_of_gpu}


_DEVICE_MEMORY, _FREED = 2, 1  # ENUM_CUDA_MEM_KIND, ENUM_CUDA_DEV_MEM_EVENT_OPER
MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"


def memory_of(database: Database, names: Names) -> tuple[Columns, Int64]:
    """The memory that CUDA had given out, as columns of Counters, and the process of each row.

    Allocations are recorded with nsys profile --cuda-memory-usage=true. Those from before are not known.
    """
    found = database.columns(MEMORY, "start", "globalPid", "deviceId", "bytes", "memKind", "memoryOperationType")
    kept = np.flatnonzero((found["memKind"] == _DEVICE_MEMORY) & (found["bytes"] >= 0))
    kept = kept[np.lexsort((found["start"][kept], found["deviceId"][kept], found["globalPid"][kept]))]
    at, pid, device = (found[of][kept] for of in ("start", "globalPid", "deviceId"))
    total = np.cumsum(np.where(found["memoryOperationType"][kept] == _FREED, -1, 1) * found["bytes"][kept])
    if len(kept):
        first = np.append(True, (np.diff(pid) != 0) | (np.diff(device) != 0))
        before = np.append(0, total[:-1])[first]
        total = np.maximum(total - before[np.cumsum(first) - 1], 0)
    series = np.full(len(kept), names.row(ALLOCATED) if len(kept) else 0)
    return {"at_ns": at, "series": series, "device": device, "value": total.astype(np.float64)}, pid
