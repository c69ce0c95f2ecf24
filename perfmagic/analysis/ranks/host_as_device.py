"""A rank that computes on the CPU as if the CPU were its device, so that all that is said of ranks holds for it.

Operations of gloo are rows on threads of their own ("gloo:all_reduce"), from start to end: perfmagic's process group
notes them, and torch.profiler records those of torch's own. They are the rank's communication, but for those that were
given up. Its operators are its compute. Nothing is queued: such an op starts when it is called.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from perfmagic.trace.collective_names import GIVEN_UP
from perfmagic.trace.columns import NONE, Bool, DeviceOps, HostKind, HostOps, Int64, OpKind
from perfmagic.trace.model import Collective, DeviceInfo, Trace, TraceMeta, devices_label
from perfmagic.trace.remarks import Remark

_GLOO = re.compile(r"^gloo:(\w.*?)(?: in group (\S+) of ranks ([\d, ]+))?$")
_ASKS = re.compile(r"^_?c10d(?:_functional)?::")  # asks for a collective, and does nothing else
LEFT_ALONE = "device_left_alone"  # its words are the device's label
GLOO_STREAM = -2  # gloo runs a queue on several threads: one stream, whatever thread takes it


def host_as_device(trace: Trace) -> Trace:
    """The trace with what its CPU computed and communicated as device ops; unchanged where it has device ops, or where
    neither communication on the CPU nor the rank's own record says that it is a rank.

    A rank that had another device to compute on, and did not, gets a note of the kind LEFT_ALONE.
    """
    found = [_kind(name, trace.meta) for name in trace.names]
    is_gloo = np.array([kind != "" for kind in found], bool)
    host = trace.host_ops
    known = all(device.kind in ("cpu", "sim") for device in trace.meta.devices)  # a GPU's record may only be missing
    is_rank = known and trace.meta.rank is not None and bool(trace.meta.boot)
    if len(trace.ops) or not len(host) or not (is_rank or is_gloo[host.name].any()):
        return trace
    asks = np.array([_ASKS.match(name) is not None for name in trace.names], bool)
    moves = is_gloo[host.name]
    given_up = np.array([name.endswith(GIVEN_UP) for name in trace.names], bool)[host.name]
    computes = _outermost(host, (host.kind == HostKind.OP) & ~moves & ~asks[host.name] & ~given_up)
    kept = np.flatnonzero(moves | computes)
    kinds = sorted({kind for i, kind in enumerate(found) if kind and (host.name == i).any()})
    number = np.array([kinds.index(kind) if kind in kinds else NONE for kind in found], np.int32)
    ops = DeviceOps.make(
        {
            "start_ns": host.start_ns[kept],
            "end_ns": host.end_ns[kept],
            "kind": np.full(len(kept), OpKind.KERNEL),
            "stream": np.where(moves[kept], GLOO_STREAM, host.thread[kept]),
            "name": host.name[kept],
            "collective": number[host.name[kept]],
            "line": host.line[kept],
        }
    )
    notes = trace.meta.notes
    if any(device.kind != "cpu" for device in trace.meta.devices):
        notes += (Remark(LEFT_ALONE, devices_label(trace.meta.devices), {"n_computed": int(computes.sum())}),)
    return replace(
        trace,
        ops=ops,
        collectives=tuple(_collective(kind) for kind in kinds),
        meta=replace(trace.meta, devices=(DeviceInfo(0, "cpu", "CPU"),), notes=notes),
    )


def _collective(name: str) -> Collective:
    """What is known of a collective by its name, as _kind gives it: its group, where it is not the first."""
    found = _GLOO.match(f"gloo:{name}")
    if found is None or not found[2]:
        return Collective(name, group="gloo")
    ranks = tuple(int(rank) for rank in found[3].split(","))
    return Collective(found[1], group=f"gloo {found[2]}", group_size=len(ranks), ranks=ranks)


def _kind(name: str, meta: TraceMeta) -> str:
    """What gloo was asked for by a row of the host, with its group; "" for another row.

    torch's own group does not record between which ranks a message goes: of two ranks there is one other.
    """
    found = _GLOO.match(name)
    kind = name.removeprefix("gloo:") if found and not name.endswith(GIVEN_UP) else ""
    if kind in ("send", "recv") and meta.world_size == 2 and meta.rank is not None:
        return f"{kind} {'to' if kind == 'send' else 'from'} {1 - meta.rank}"
    return kind


def _outermost(host: HostOps, among: Bool) -> Bool:
    """Which of some rows run inside no other of them on their thread; rows are in the order of their start."""
    outer = np.zeros(len(host), bool)
    for thread in np.unique(host.thread[among]):
        rows: Int64 = np.flatnonzero(among & (host.thread == thread))
        before = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(host.end_ns[rows])[:-1]))
        outer[rows[host.start_ns[rows] >= before]] = True
    return outer
