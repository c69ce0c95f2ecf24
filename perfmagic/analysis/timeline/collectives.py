"""Collective operations: how much each moved between ranks, and how fast."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perfmagic.base import units
from perfmagic.base.language import counted, phrase, sentences
from perfmagic.base.numerics.intervals import distinct
from perfmagic.trace.columns import NONE, Int64, Remark
from perfmagic.trace.hoststack import COLLECTIVE_NOTE, host_stack
from perfmagic.trace.model import Collective, Trace, once_per_trace
from perfmagic.trace.names import OpClass, collective_name, op_classes
from perfmagic.trace.rows import Rows

# what torch.distributed records around the launch, with the tensors: nccl:all_reduce, nccl:_all_gather_base
_ASKED = re.compile(r"^(?:nccl|gloo|ucc|xccl|mpi):(\w+)")


# Bytes of one element, by the names torch gives its types (c10/core/ScalarType.h).
DTYPE_BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz", "Float8_e5m2fnuz"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int", "ComplexHalf"), 4),
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    "ComplexDouble": 16,
    # and those of C++, by which operators' inputs are recorded
    **dict.fromkeys(("signed char", "unsigned char", "bool", "c10::Float8_e4m3fn", "c10::Float8_e5m2"), 1),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "short", "short int"), 2),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("double", "long", "long int", "c10::complex<float>"), 8),
    "c10::complex<double>": 16,
    "bytes": 1,  # of perfmagic.trace.columns.WHOLE_BUFFER
}


Kind = tuple[str, str, str, int | None]  # name, dtype, group, size of the group


@dataclass(frozen=True)
class CollectiveStat:
    """The device ops of one kind of collective operation in one group.

    name: the operation.
    dtype: the type of an element, as torch names it.
    group: the name of the group of ranks.
    group_size: ranks in the group, a count; None where the record does not say.
    n_ops: device ops.
    total_ns: their summed duration, waiting for other ranks included.
    size_bytes: the summed size of one rank's whole buffer; None where the record does not say.
    algorithm_bytes_per_s: `size_bytes` by `total_ns`.
    bus_bytes_per_s: the data that has to pass one rank's links by `total_ns`; None where the number of ranks, or
    the traffic, is not known.

    Source of the factors: NCCL tests, PERFORMANCE.md.
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
    plain = name.lower().partition(" ")[0].removeprefix("c10d::").replace("_", "").removesuffix("oop")
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


@once_per_trace
def op_bytes(trace: Trace, comm_names: str | None = None) -> Mapping[int, int]:
    """The bytes of one rank's whole buffer of each communication op for which the record says it, by row of trace.ops.

    From the op's metadata; in files of PyTorch before those, from the inputs of the nccl: operator around the launch.
    A gather's whole buffer is its input times the ranks of the job.
    """
    ops = trace.ops
    known = {row: size_bytes(trace.collectives[ops.collective[row]]) for row in np.flatnonzero(ops.collective != NONE)}
    own = ops.size_bytes.tolist()  # of what a CPU communicates
    known = {row: size if size is not None or own[row] == NONE else own[row] for row, size in known.items()}
    bytes_of_op = {int(row): size for row, size in known.items() if size is not None}
    for row, asked in asked_collectives(trace, comm_names).items():
        if row not in bytes_of_op and (size := size_bytes(asked)) is not None:
            bytes_of_op[row] = size
    return bytes_of_op


def input_bytes(shapes: str, dtypes: str) -> int:
    """The bytes of all inputs of an operator, as the record writes their shapes and types; NONE where it says none."""
    pairs = zip(json.loads(shapes), json.loads(dtypes), strict=False)
    sizes = [math.prod(shape) * DTYPE_BYTES[dtype] for shape, dtype in pairs if shape and dtype in DTYPE_BYTES]
    return sum(sizes) if sizes else NONE


@once_per_trace
def asked_collectives(trace: Trace, comm_names: str | None = None) -> Mapping[int, Collective]:
    """What the host asked for when it launched each communication op without metadata, by row of trace.ops.

    All ranks of the job are assumed to take part: those records do not name the group.
    """
    host, ops = trace.host_ops, trace.ops
    communicates = op_classes(trace, comm_names) == OpClass.COMMUNICATION
    rows = np.flatnonzero(communicates & (ops.collective == NONE) & (ops.launch != NONE))
    if not len(host) or not len(rows):
        return {}
    named = np.array([_ASKED.match(name) is not None for name in trace.names], bool)[host.name]
    call = ops.launch[rows]
    asked = host_stack(trace, named).innermost_at(trace.calls.thread[call], trace.calls.start_ns[call])
    asked_for: dict[int, Collective] = {}
    alike: dict[tuple[int, int, int], Collective] = {}  # a training step asks for the same ones again and again
    for row, by in zip(rows.tolist(), asked.tolist(), strict=True):
        if by == NONE or host.shape[by] == NONE or host.dtype[by] == NONE:
            continue
        key = (int(host.name[by]), int(host.shape[by]), int(host.dtype[by]))
        asked_for[row] = alike.setdefault(key, alike.get(key) or _asked(trace, by))
    return asked_for


def _asked(trace: Trace, row: int) -> Collective:
    """A collective from the operator that asked for it; row: of trace.host_ops."""
    host = trace.host_ops
    match = _ASKED.match(trace.names[host.name[row]])
    name = collective_name(match[1].strip("_")) if match else ""
    shapes, types = json.loads(trace.input_shapes[host.shape[row]]), json.loads(trace.input_dtypes[host.dtype[row]])
    counts = [math.prod(shape) for shape, dtype in zip(shapes, types, strict=False) if shape and dtype in DTYPE_BYTES]
    dtype = next((dtype for shape, dtype in zip(shapes, types, strict=False) if shape and dtype in DTYPE_BYTES), "")
    n_in = sum(counts) if counts else None
    ranks = trace.meta.world_size
    n_out = n_in * ranks if "gather" in name and n_in is not None and ranks is not None else n_in
    return Collective(name, n_in, n_out, dtype, ranks)


def collectives(trace: Trace, device: int, comm_names: str | None = None) -> Rows[CollectiveStat]:
    """The collectives of a device by name, type and group, the longest in sum first.

    Communication kernels without metadata are among them where the operator that asked for them has its inputs; `note`
    says how many have none, and what to do.
    comm_names: what is communication, as in perfmagic.trace.names.op_classes.
    """
    ops = trace.ops
    rows = np.flatnonzero((ops.device == device) & (ops.collective != NONE))
    length = (ops.end_ns - ops.start_ns)[rows]
    of_row = ops.collective[rows]
    sums_by_kind: dict[Kind, list[tuple[int, int, int | None]]] = {}
    for number in np.unique(of_row).tolist():
        what = trace.collectives[number]
        same, each = of_row == number, size_bytes(what)
        n = int(same.sum())
        sums = (n, int(length[same].sum()), None if each is None else n * each)
        sums_by_kind.setdefault(_kind(what), []).append(sums)
    for row, what in asked_collectives(trace, comm_names).items():
        if ops.device[row] == device:
            sums = (1, int(ops.end_ns[row] - ops.start_ns[row]), size_bytes(what))
            sums_by_kind.setdefault(_kind(what), []).append(sums)
    stats = [_stat(device, kind, sums) for kind, sums in sums_by_kind.items()]
    ordered = sorted(stats, key=lambda s: (-s.total_ns, s.name, s.dtype))
    note = missing_metadata(trace, device, comm_names)
    return Rows(ordered, CollectiveStat, note=note.words if note else "")


def missing_metadata(trace: Trace, device: int, comm_names: str | None = None) -> Remark | None:
    """How many communication kernels of a device have no sizes and groups, why, and what to do; None for none.

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
    sentence = counted(
        n,
        "{n} communication kernel ({time}) without collective metadata (size, group): {why}",
        "{n} communication kernels ({time}) without collective metadata (size, group): {why}",
        time=units.duration(total_ns),
        why=_why(trace),
    )
    asked = asked_collectives(trace, comm_names)
    sized = sum(int(row) in asked for row in np.flatnonzero(rows))
    if sized:
        n_ranks, sizes = trace.meta.world_size, units.count(sized)
        guessed = phrase("sizes of {n} are from the inputs of the operators that asked for them", n=sizes)
        both = phrase("{sizes}, assuming that both ranks took part", sizes=guessed)
        ranks = counted(
            n_ranks or 0,
            "{sizes}, assuming that the rank took part",
            "{sizes}, assuming that all {n} ranks took part",
            sizes=guessed,
        )
        assumed = {0: guessed, 2: both}.get(n_ranks or 0, ranks)
        return Remark("no_collective_metadata", sentences(sentence, assumed), {"n_ops": n, "total_ns": total_ns})
    return Remark("no_collective_metadata", sentence, {"n_ops": n, "total_ns": total_ns})


def _why(trace: Trace) -> str:
    if not trace.has_host_rows:
        return phrase("no host operator was recorded. Record ProfilerActivity.CPU too: the metadata come from there")
    recorded = COLLECTIVE_NOTE in (trace.names[name] for name in distinct(trace.host_ops.name).tolist())
    if not recorded:
        return phrase(
            "the host has no {name}: only calls through torch.distributed record metadata", name=COLLECTIVE_NOTE
        )
    if (trace.ops.collective != NONE).any():
        return phrase("others have it. Coalesced operations, other libraries and launches outside the record have none")
    return phrase(
        "the host has {name}, which this PyTorch did not copy to the kernels. Record with a newer one",
        name=COLLECTIVE_NOTE,
    )


def _kind(collective: Collective) -> Kind:
    return collective_name(collective.name), collective.dtype, collective.group, collective.group_size


def _stat(device: int, kind: Kind, sums: list[tuple[int, int, int | None]]) -> CollectiveStat:
    name, dtype, group, group_size = kind
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


# What a table of device ops says of each beside its times: how much it moved, and the function it came from.


def op_sizes(trace: Trace, comm_names: str | None = None) -> list[int | None]:
    """The bytes of each copy, memset and collective (one rank's whole buffer), None where unknown; in order of ops."""
    known = op_bytes(trace, comm_names)
    return [known.get(row, None if size == NONE else size) for row, size in enumerate(trace.ops.size_bytes.tolist())]


FAR = 4  # times as long as others: eight ranks of one step took 1 to 2.5 times (dlrm_8ranks in traces/)


@dataclass(frozen=True, eq=False)
class Late:
    """Collectives that began long before the last rank did.

    rows: of trace.ops.  usual_ns: what another of their kind took that moved as many bytes or more; shape of rows.
    """

    rows: Int64
    usual_ns: Int64


def late_collectives(trace: Trace, device: int, comm_names: str | None = None) -> Late:
    """The collectives of a device that took far longer than their bytes need."""
    ops = trace.ops
    asked, size_bytes = asked_collectives(trace, comm_names), op_bytes(trace, comm_names)
    kinds: dict[tuple[str, str, int | None], list[int]] = {}
    for row in sorted(size_bytes):
        recorded = ops.collective[row]
        collective = trace.collectives[recorded] if recorded != NONE else asked[row]
        if ops.device[row] == device and collective.group_size != 1:
            kind = collective_name(collective.name), collective.group, collective.group_size
            kinds.setdefault(kind, []).append(row)
    late, usual = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for of_kind in kinds.values():
        rows = np.array(of_kind, np.int64)
        sizes, length_ns = np.array([size_bytes[row] for row in of_kind]), (ops.end_ns - ops.start_ns)[rows]
        order = np.argsort(sizes, kind="stable")
        least_ns = np.minimum.accumulate(length_ns[order][::-1])[::-1]  # of those that are as large or larger
        others_ns = least_ns[np.searchsorted(sizes[order], sizes)]
        far = length_ns > FAR * others_ns
        late.append(rows[far])
        usual.append(others_ns[far])
    return Late(np.concatenate(late), np.concatenate(usual))
