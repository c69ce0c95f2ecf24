"""Everything a trace says in numbers, ready for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.annotations import user_annotations
from perfmagic.analysis.timeline.collectives import collectives
from perfmagic.analysis.timeline.concurrency import overlap_matrix
from perfmagic.analysis.timeline.copies import CopyStat, copies
from perfmagic.analysis.timeline.idle import IdleGaps, idle_gaps
from perfmagic.analysis.timeline.kernels import TensorCoreShare, kernels, tensor_core_share, top_kernels
from perfmagic.analysis.timeline.launches import LaunchBound, launch_bound
from perfmagic.analysis.timeline.memory import MemoryCurve, memory_curve
from perfmagic.analysis.timeline.operators import operators
from perfmagic.analysis.timeline.overlap import Breakdown, breakdown
from perfmagic.analysis.timeline.queueing import QueueStat, delays, queues
from perfmagic.analysis.timeline.steps import steps
from perfmagic.analysis.timeline.streams import StreamStat, streams
from perfmagic.analysis.timeline.syncs import Syncs, syncs
from perfmagic.analysis.timeline.trust import trust
from perfmagic.numerics.grouped import depths
from perfmagic.trace.columns import NONE, DeviceOps, Int64, OpKind
from perfmagic.trace.model import Trace
from perfmagic.trace.names import comm_kernel_names

NAME_LENGTH = 160  # characters of a kernel name in the table of kernels; some have thousands
TABLE_ROWS = 50  # of the tables that have a row a name; a compiled model has hundreds of kernels
LONGEST_GAPS = 20
PERCENTILES = (0, 50, 90, 99, 100)


def report(trace: Trace, comm_names: str | None = None) -> dict[str, Any]:
    """All totals of a trace by device, its findings and its trust counts.

    Times are int ns, shares fractions; device and stream numbers are text, as JSON has it. Source: docs/words.md.
    """
    return {
        "meta": _meta(trace),
        "devices": {str(device): device_report(trace, device, comm_names) for device in trace.device_ids},
        "operators": _table(operators(trace)[:TABLE_ROWS]),
        "annotations": _table(user_annotations(trace)[:TABLE_ROWS]),
        "steps": _table(steps(trace, comm_names)),
        "syncs": _syncs(syncs(trace)),
        "comm_kernels": list(comm_kernel_names(trace, comm_names)),
        "findings": [finding.to_dict() for finding in findings(trace, comm_names=comm_names)],
        "trust": trust(trace).to_dict(),
    }


def device_report(trace: Trace, device: int, comm_names: str | None = None) -> dict[str, Any]:
    """The totals of one device."""
    ops = trace.ops.take(trace.ops.device == device)
    return {
        "label": trace.device_info(device).label,
        **_counts(ops),
        **_times(breakdown(trace, device, comm_names), ops),
        "streams": {str(s.stream): _stream(s) for s in streams(trace, device)},
        "queues": {str(q.stream): _queue(q) for q in queues(trace, device)},
        "launch": _launch(trace, ops),
        "queue_length": _queue_length(trace, ops),
        "top_kernels": [
            {"name": k.name[:NAME_LENGTH], "calls": k.n, "total_ns": k.total_ns}
            for k in top_kernels(trace, device, comm_names=comm_names)
        ],
        "memcpy": {c.name: _copy(c) for c in copies(trace, device)},
        "memory": _memory(memory_curve(trace, device)),
        "kernels": _table(kernels(trace, device, comm_names)[:TABLE_ROWS]),
        "tensor_core": _tensor_core(tensor_core_share(trace, device, comm_names)),
        "overlap": _table(overlap_matrix(trace, device, comm_names)),
        "launch_bound": _launch_bound(launch_bound(trace, device)),
        "collectives": _table(collectives(trace, device, comm_names)),
        "collectives_note": collectives(trace, device, comm_names).note,
        "queued": delays(trace).sums_ns(trace.ops.device == device),
        "idle": _idle(trace, idle_gaps(trace, device)),
    }


def _table(rows: Rows[Any]) -> list[dict[str, Any]]:
    """The rows as dicts, names cut; the device is known from where the table stands."""
    tables = [{key: value for key, value in row.items() if key != "device"} for row in rows.to_dict()]
    return [row | ({"name": row["name"][:NAME_LENGTH]} if "name" in row else {}) for row in tables]


def _tensor_core(share: TensorCoreShare) -> dict[str, Any]:
    return {
        "tensor_ns": share.tensor_ns,
        "undecided_ns": share.undecided_ns,
        "matrix_ns": share.matrix_ns,
        "kernel_ns": share.kernel_ns,
        "frac_of_matrix": share.frac_of_matrix,
        "frac_of_kernels": share.frac_of_kernels,
    }


def _idle(trace: Trace, gaps: IdleGaps) -> dict[str, Any]:
    """Idle time by cause, and the longest gaps."""
    longest = np.argsort(-gaps.length_ns, kind="stable")[:LONGEST_GAPS]
    return {
        "by_cause_ns": gaps.by_cause_ns,
        "n_gaps": len(gaps),
        "longest": [
            {
                "start_ns": int(gaps.start_ns[row]),
                "length_ns": int(gaps.length_ns[row]),
                "cause": gaps.cause(row),
                "line": int(gaps.line[row]),
                "host_op": trace.names[gaps.host_op[row]][:NAME_LENGTH] if gaps.host_op[row] != NONE else None,
            }
            for row in longest.tolist()
        ],
    }


def _syncs(found: Syncs) -> list[dict[str, Any]]:
    """The blocking calls by who asked for them, the longest in sum first."""
    table = []
    for asked_by in np.unique(found.asked_by).tolist():
        rows = (found.asked_by == asked_by) & ~found.after_cell
        table.append(
            {
                "asked_by": found.askers[asked_by],
                "n": int(rows.sum()),
                "blocked_ns": int(found.blocked_ns[rows].sum()),
                "busy_ns": int(found.busy_ns[rows].sum()),
                "lines": sorted({int(line) for line in found.line[rows] if line > 0}),
            }
        )
    return sorted((row for row in table if row["n"]), key=lambda row: -row["blocked_ns"])


def _launch_bound(stretches: Rows[LaunchBound]) -> dict[str, Any]:
    """The sums over all stretches, and those that lost the most time."""
    worst = Rows(sorted(stretches, key=lambda s: -s.lost_ns)[:TABLE_ROWS], LaunchBound)
    return {
        "n_stretches": len(stretches),
        "n_ops": sum(s.n_ops for s in stretches),
        "busy_ns": sum(s.busy_ns for s in stretches),
        "lost_ns": sum(s.lost_ns for s in stretches),
        "stretches": _table(worst),
    }


def _memory(curve: MemoryCurve | None) -> dict[str, Any] | None:
    if curve is None:
        return None
    return {
        "peak_bytes": curve.peak,
        "peak_at_ns": curve.peak_at_ns,
        "peak_line": curve.peak_line,
        "reserved_max_bytes": curve.reserved_max,
    }


def _meta(trace: Trace) -> dict[str, Any]:
    meta = trace.meta
    return {
        "origin": meta.origin,
        "start_ns": meta.start_ns,
        "end_ns": meta.end_ns,
        "returned_ns": meta.returned_ns,
        "rank": meta.rank,
        "world_size": meta.world_size,
        "torch_version": meta.torch_version,
        "failed": meta.failed,
        "devices": [{"index": d.index, "kind": d.kind, "label": d.label, "pace": d.pace} for d in meta.devices],
    }


def _counts(ops: DeviceOps) -> dict[str, int]:
    kinds = {"n_kernel": OpKind.KERNEL, "n_memcpy": OpKind.MEMCPY, "n_memset": OpKind.MEMSET}
    return {"n_events": len(ops), **{key: int((ops.kind == kind).sum()) for key, kind in kinds.items()}}


def _times(parts: Breakdown, ops: DeviceOps) -> dict[str, Any]:
    return {
        "span_ns": parts.extent_ns,
        "busy_ns": parts.busy_ns,
        "busy_frac": parts.busy_frac,
        "idle_ns": parts.idle_ns,
        "head_ns": parts.head_ns,
        "tail_ns": parts.tail_ns,
        "sum_dur_ns": int((ops.end_ns - ops.start_ns).sum()),
        "compute_ns": parts.compute_ns,
        "comm_ns": parts.comm_ns,
        "copy_ns": parts.copy_ns,
        "memset_ns": parts.memset_ns,
        "overlap_compute_comm_ns": parts.compute_comm.ns,
        "overlap_compute_copy_ns": parts.compute_copy.ns,
        "overlap_comm_copy_ns": parts.comm_copy.ns,
        "exposed_comm_ns": parts.exposed_comm_ns,
        "exposed_copy_ns": parts.exposed_copy_ns,
        "partition": parts.to_dict()["partition"],
        "concurrency_ns": {str(k): ns for k, ns in parts.concurrency_ns.items()},
    }


def _stream(stat: StreamStat) -> dict[str, int]:
    return {
        "n": stat.n_ops,
        "busy_ns": stat.busy_ns,
        "same_stream_overlaps": stat.overlaps,
        "zero_dur": stat.zero_durations,
    }


def _queue(stat: QueueStat) -> dict[str, int]:
    """As the timeline shows it: ops launched before the window count too."""
    return {
        "ops_max": stat.ops_max,
        "launches_max": stat.launches_max,
        "run_ahead_max_ns": stat.run_ahead_max_ns,
    }


def _launch(trace: Trace, ops: DeviceOps) -> dict[str, Any]:
    matched = ops.launch != NONE
    rows, start = ops.launch[matched], ops.start_ns[matched]
    delay, latency = start - trace.calls.start_ns[rows], start - trace.calls.end_ns[rows]
    return {
        "matched": int(matched.sum()),
        "unmatched": int((~matched).sum()),
        "start_before_launch": int((delay < 0).sum()),
        "launch_apis": _apis(trace, rows),
        "queue_delay_ns": _distribution(delay),
        "latency_after_call_ns": {**_distribution(latency), "negative": int((latency < 0).sum())},
    }


def _apis(trace: Trace, rows: Int64) -> dict[str, int]:
    names, n = np.unique(trace.calls.name[rows], return_counts=True)
    return {trace.names[names[i]]: int(n[i]) for i in np.argsort(-n, kind="stable")}


def _distribution(values: Int64) -> dict[str, float | int | None]:
    """Mean and percentiles: of n sorted values the one nearest to rank p · (n − 1)."""
    ordered = np.sort(values)
    last = len(ordered) - 1
    ranks = {f"p{p}": None if last < 0 else int(ordered[round(p / 100 * last)]) for p in PERCENTILES}
    return {"mean": None if last < 0 else round(int(ordered.sum()) / len(ordered), 1), **ranks}


def _queue_length(trace: Trace, ops: DeviceOps) -> dict[str, Any]:
    """Depth in ops of each stream, over the ops with a launch record alone."""
    known = np.flatnonzero(ops.launch != NONE)
    found = depths(ops.stream[known], trace.calls.start_ns[ops.launch[known]], ops.start_ns[known])
    columns = (found.group, found.max, found.mean)
    return {
        str(stream): {"max": max(0, most), "time_weighted_mean": round(mean, 4)}
        for stream, most, mean in zip(*(column.tolist() for column in columns), strict=True)
    }


def _copy(stat: CopyStat) -> dict[str, Any]:
    per_ns = round(stat.size_bytes / stat.duration_ns, 3) if stat.duration_ns else None
    return {"n": stat.n, "ns": stat.duration_ns, "bytes": stat.size_bytes, "GBps": per_ns}
