"""Collective operations: how much each moved between ranks, and how fast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic import units
from perfmagic.analysis.rows import Rows
from perfmagic.trace.columns import NONE
from perfmagic.trace.model import Collective, Trace
from perfmagic.trace.names import OpClass, op_classes
from perfmagic.trace.remarks import Remark

_PARAM_COMMS = "record_param_comms"

# Bytes of one element, by the names torch gives its types (c10/core/ScalarType.h).
DTYPE_BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz", "Float8_e5m2fnuz"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int", "ComplexHalf"), 4),
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}


@dataclass(frozen=True)
class CollectiveStat:
    """The device ops of one kind of collective operation in one group.

    n_ops: device ops.  total_ns: their summed duration, waiting for other ranks included.  size_bytes: summed, of one
    rank's buffer where all of it is: what goes in, of a gather what comes out; None where the record does not say.
    algorithm_bytes_per_s: size by time.  bus_bytes_per_s: of the data that has to pass one rank's links, comparable
    with the hardware's; None where the number of ranks, or what the operation has to move, is not known. Source of the
    factors: NCCL tests, PERFORMANCE.md.
    """

    device: int
    name: str
    dtype: str
    group: str
    group_size: int | None
    n_ops: int
    total_ns: int
    size_bytes: int | None

    @property
    def algorithm_bytes_per_s(self) -> float | None:
        if self.size_bytes is None or not self.total_ns:
            return None
        return self.size_bytes / self.total_ns * 1e9

    @property
    def bus_bytes_per_s(self) -> float | None:
        factor = bus_factor(self.name, self.group_size)
        rate = self.algorithm_bytes_per_s
        return None if factor is None or rate is None else rate * factor


def bus_factor(name: str, ranks: int | None) -> float | None:
    """How often each byte of the buffer passes a rank's links: 2 (n - 1) / n for an all-reduce of n ranks.

    None where the operation is not one whose traffic follows from its size and the number of ranks.
    """
    plain = name.lower().removeprefix("c10d::").replace("_", "").removesuffix("oop")
    if not ranks or ranks < 1:
        return None
    if "allreduce" in plain:
        return 2 * (ranks - 1) / ranks
    if any(word in plain for word in ("allgather", "reducescatter", "alltoall")):
        return (ranks - 1) / ranks
    return 1.0 if plain in ("broadcast", "reduce", "send", "recv") else None


def size_bytes(collective: Collective) -> int | None:
    """The bytes of one rank's whole buffer, None where the record does not say."""
    each = DTYPE_BYTES.get(collective.dtype)
    counts = [n for n in (collective.in_elements, collective.out_elements) if n is not None]
    return None if each is None or not counts else max(counts) * each


def collectives(trace: Trace, device: int, comm_names: str | None = None) -> Rows[CollectiveStat]:
    """The collectives of a device by name, type and group, the longest in sum first.

    Communication kernels without metadata are not among them; `note` says how many there are and what to do.
    comm_names: what is communication, as in perfmagic.trace.names.op_classes.
    """
    rows = np.flatnonzero((trace.ops.device == device) & (trace.ops.collective != NONE))
    length = (trace.ops.end_ns - trace.ops.start_ns)[rows]
    of_row = trace.ops.collective[rows]
    found: dict[tuple[str, str, str, int | None], list[tuple[int, int, int | None]]] = {}
    for number in np.unique(of_row).tolist():
        what = trace.collectives[number]
        mine, each = of_row == number, size_bytes(what)
        n = int(mine.sum())
        sums = (n, int(length[mine].sum()), None if each is None else n * each)
        found.setdefault((what.name, what.dtype, what.group, what.group_size), []).append(sums)
    stats = [_stat(device, key, sums) for key, sums in found.items()]
    ordered = sorted(stats, key=lambda s: (-s.total_ns, s.name, s.dtype))
    note = missing_metadata(trace, device, comm_names)
    return Rows(ordered, CollectiveStat, note=note.words if note else "")


def missing_metadata(trace: Trace, device: int, comm_names: str | None = None) -> Remark | None:
    """How many communication kernels of a device say nothing of sizes and groups, why, and what to do; None for none.

    The profiler copies both from the record_param_comms that torch.distributed records on the host around a launch:
    files of PyTorch that did not yet do so have those records, and kernels without metadata.
    Source: pytorch #184637; the recorded traces of 2022 to 2025.
    """
    ops = trace.ops
    rows = (ops.device == device) & (op_classes(trace, comm_names) == OpClass.COMMUNICATION) & (ops.collective == NONE)
    n = int(rows.sum())
    if not n:
        return None
    total_ns = int((ops.end_ns - ops.start_ns)[rows].sum())
    which = f"{units.plural(n, 'communication kernel')} ({units.duration(total_ns)})"
    words = f"{which} without collective metadata (size, group): {_why(trace)}"
    return Remark("no_collective_metadata", words, {"n_ops": n, "total_ns": total_ns})


def _why(trace: Trace) -> str:
    if not trace.has_host_rows:
        return "no host operator was recorded. Record ProfilerActivity.CPU too: the metadata come from there"
    recorded = _PARAM_COMMS in (trace.names[name] for name in np.unique(trace.host_ops.name).tolist())
    if not recorded:
        return f"the host has no {_PARAM_COMMS}: only calls through torch.distributed record metadata"
    if (trace.ops.collective != NONE).any():
        return "others have it. Coalesced operations, other libraries and launches outside the record have none"
    return f"the host has {_PARAM_COMMS}, which this PyTorch did not copy to the kernels. Record with a newer one"


def _stat(
    device: int, key: tuple[str, str, str, int | None], sums: list[tuple[int, int, int | None]]
) -> CollectiveStat:
    name, dtype, group, group_size = key
    sizes = [size for _, _, size in sums]
    return CollectiveStat(
        device=device,
        name=name,
        dtype=dtype,
        group=group,
        group_size=group_size,
        n_ops=sum(n for n, _, _ in sums),
        total_ns=sum(ns for _, ns, _ in sums),
        size_bytes=None if None in sizes else sum(size for size in sizes if size is not None),
    )
