"""Everything a trace says in numbers, ready for JSON; docs/report.schema.json says of each key what it is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

import numpy as np

from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.replay.told import told_trust
from perfmagic.analysis.rows import Rows
from perfmagic.analysis.timeline.annotations import user_annotations
from perfmagic.analysis.timeline.categories import category_times
from perfmagic.analysis.timeline.collectives import collectives, missing_metadata
from perfmagic.analysis.timeline.concurrency import overlap_matrix
from perfmagic.analysis.timeline.copies import copies
from perfmagic.analysis.timeline.device_operators import achieved, device_operators
from perfmagic.analysis.timeline.idle import IdleGaps, idle_gaps
from perfmagic.analysis.timeline.kernels import TensorCoreShare, kernels, tensor_core_share
from perfmagic.analysis.timeline.launches import LaunchBound, launch_bound
from perfmagic.analysis.timeline.line_totals import LineStat, function_lines, lines
from perfmagic.analysis.timeline.memory import MemoryCurve, memory_curve
from perfmagic.analysis.timeline.operators import operators
from perfmagic.analysis.timeline.overlap import Breakdown, breakdown
from perfmagic.analysis.timeline.peaks import peaks_of
from perfmagic.analysis.timeline.queueing import delays, queues
from perfmagic.analysis.timeline.steps import steps
from perfmagic.analysis.timeline.streams import streams
from perfmagic.analysis.timeline.syncs import Syncs, syncs
from perfmagic.trace.columns import NONE, DeviceOps, Int64, OpKind
from perfmagic.trace.model import Trace
from perfmagic.trace.names import comm_kernel_names

SCHEMA_VERSION = 2  # raised by what changes the meaning of a key, or takes one away
WORST_STRETCHES = 50
LONGEST_GAPS = 20
PERCENTILES = {"min_ns": 0, "median_ns": 50, "p90_ns": 90, "p99_ns": 99, "max_ns": 100}


def report(trace: Trace, comm_names: str | None = None) -> dict[str, Any]:
    """All totals of a trace by device, its findings and its trust counts.

    Times are int ns, shares fractions; device numbers are text, as JSON has it. Source: docs/report.schema.json.
    """
    marked = steps(trace, comm_names)
    return {
        "schema_version": SCHEMA_VERSION,
        "meta": _meta(trace),
        "devices": {str(device): device_report(trace, device, comm_names) for device in trace.device_ids},
        "operators": _table(operators(trace), without=("thread", "shape")),
        "annotations": _table(user_annotations(trace)),
        "lines": _table(Rows((*lines(trace), *function_lines(trace)), LineStat)),
        "steps": _table(marked),
        "steps_note": marked.note,
        "syncs": _syncs(syncs(trace)),
        "comm_names": comm_names,
        "communication_kernels": list(comm_kernel_names(trace, comm_names)),
        "findings": [finding.to_dict() for finding in findings(trace, comm_names=comm_names)],
        "trust": told_trust(trace, comm_names).to_dict(),
    }


def device_report(trace: Trace, device: int, comm_names: str | None = None) -> dict[str, Any]:
    """The totals of one device."""
    ops = trace.ops.take(trace.ops.device == device)
    note = missing_metadata(trace, device, comm_names)
    return {
        "label": trace.device_info(device).label,
        **_counts(ops),
        **_times(breakdown(trace, device, comm_names), ops),
        "streams": _table(streams(trace, device)),
        "queues": _table(queues(trace, device)),
        "queued": delays(trace).sums_ns(trace.ops.device == device),
        "launch": _launch(trace, ops),
        "launch_bound": _launch_bound(launch_bound(trace, device)),
        "idle": _idle(trace, idle_gaps(trace, device)),
        "categories": _table(category_times(trace, device, comm_names)),
        **_operators(trace, device, comm_names),
        "kernels": _table(kernels(trace, device, comm_names)),
        "tensor_cores": _tensor_cores(tensor_core_share(trace, device, comm_names)),
        "copies": _table(copies(trace, device)),
        "collectives": _table(collectives(trace, device, comm_names)),
        "overlaps": _table(overlap_matrix(trace, device, comm_names)),
        "memory": _memory(memory_curve(trace, device)),
        "notes": [note.to_dict()] if note else [],
    }


def _operators(trace: Trace, device: int, comm_names: str | None) -> dict[str, Any]:
    """Device time by operator, what was achieved in all, and the peaks it is compared with."""
    rows = device_operators(trace, device, comm_names)
    known, peaks = achieved(trace, device, comm_names), peaks_of(trace.device_info(device))
    return {
        "device_operators": _table(rows),
        "operators_note": rows.note,
        "achieved": {key: value for key, value in asdict(known).items() if key != "device"},
        "peaks": None if peaks is None else asdict(peaks),
    }


def _table(rows: Rows[Any], without: Collection[str] = ("device",)) -> list[dict[str, Any]]:
    """The rows as dicts.

    without: columns that say nothing here: the device is known from where the table stands.
    """
    return [{key: value for key, value in row.items() if key not in without} for row in rows.to_dict()]


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
    kinds = {"n_kernels": OpKind.KERNEL, "n_copies": OpKind.MEMCPY, "n_memsets": OpKind.MEMSET}
    return {"n_ops": len(ops), **{key: int((ops.kind == kind).sum()) for key, kind in kinds.items()}}


def _times(parts: Breakdown, ops: DeviceOps) -> dict[str, Any]:
    return {
        "extent_ns": parts.extent_ns,
        "busy_ns": parts.busy_ns,
        "busy_frac": parts.busy_frac,
        "idle_ns": parts.idle_ns,
        "head_ns": parts.head_ns,
        "tail_ns": parts.tail_ns,
        "ops_total_ns": int((ops.end_ns - ops.start_ns).sum()),
        "compute_ns": parts.compute_ns,
        "communication_ns": parts.communication_ns,
        "copy_ns": parts.copy_ns,
        "memset_ns": parts.memset_ns,
        "exposed_communication_ns": parts.exposed_communication_ns,
        "exposed_copy_ns": parts.exposed_copy_ns,
        "overlap_compute_communication_ns": parts.compute_communication.overlap_ns,
        "overlap_compute_copy_ns": parts.compute_copy.overlap_ns,
        "overlap_communication_copy_ns": parts.communication_copy.overlap_ns,
        "partition": parts.to_dict()["partition"],
        "concurrency_ns": {str(k): ns for k, ns in parts.concurrency_ns.items()},
    }


def _launch(trace: Trace, ops: DeviceOps) -> dict[str, Any]:
    matched = ops.launch != NONE
    rows, start = ops.launch[matched], ops.start_ns[matched]
    delay, latency = start - trace.calls.start_ns[rows], start - trace.calls.end_ns[rows]
    return {
        "n_with_launch": int(matched.sum()),
        "n_without_launch": int((~matched).sum()),
        "n_before_launch": int((delay < 0).sum()),
        "n_before_return": int((latency < 0).sum()),
        "n_ops_by_call": _calls(trace, rows),
        "call_to_start": _distribution(delay),
        "return_to_start": _distribution(latency),
    }


def _calls(trace: Trace, rows: Int64) -> dict[str, int]:
    names, n = np.unique(trace.calls.name[rows], return_counts=True)
    return {trace.names[names[i]]: int(n[i]) for i in np.argsort(-n, kind="stable")}


def _distribution(values_ns: Int64) -> dict[str, float | int | None]:
    """Mean and percentiles: of n sorted values the one nearest to rank p · (n − 1)."""
    ordered = np.sort(values_ns)
    last = len(ordered) - 1
    ranked = {key: None if last < 0 else int(ordered[round(p / 100 * last)]) for key, p in PERCENTILES.items()}
    return {"mean_ns": None if last < 0 else round(int(ordered.sum()) / len(ordered), 1), **ranked}


def _launch_bound(stretches: Rows[LaunchBound]) -> dict[str, Any]:
    """The sums over all stretches, and those that lost the most time."""
    worst = Rows(sorted(stretches, key=lambda s: -s.lost_ns)[:WORST_STRETCHES], LaunchBound)
    return {
        "n_stretches": len(stretches),
        "n_ops": sum(s.n_ops for s in stretches),
        "busy_ns": sum(s.busy_ns for s in stretches),
        "lost_ns": sum(s.lost_ns for s in stretches),
        "stretches": _table(worst),
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
                "host_op": trace.names[gaps.host_op[row]] if gaps.host_op[row] != NONE else None,
            }
            for row in longest.tolist()
        ],
    }


def _tensor_cores(share: TensorCoreShare) -> dict[str, Any]:
    return {
        "tensor_ns": share.tensor_ns,
        "undecided_ns": share.undecided_ns,
        "matrix_ns": share.matrix_ns,
        "kernel_ns": share.kernel_ns,
        "frac_of_matrix": share.frac_of_matrix,
        "frac_of_kernels": share.frac_of_kernels,
    }


def _syncs(found: Syncs) -> list[dict[str, Any]]:
    """The blocking calls by who asked for them, the longest in sum first."""
    table = []
    for asked_by in np.unique(found.asked_by).tolist():
        rows = np.flatnonzero((found.asked_by == asked_by) & ~found.after_cell)
        table.append(
            {
                "asked_by": found.askers[asked_by],
                "n_asked": found.n_asked(rows),
                "n_calls": len(rows),
                "blocked_ns": int(found.blocked_ns[rows].sum()),
                "busy_ns": int(found.busy_ns[rows].sum()),
                "lines": sorted({int(line) for line in found.line[rows] if line > 0}),
            }
        )
    return sorted((row for row in table if row["n_calls"]), key=lambda row: -row["blocked_ns"])


def _memory(curve: MemoryCurve | None) -> dict[str, Any] | None:
    if curve is None:
        return None
    return {
        "peak_bytes": curve.peak_bytes,
        "peak_at_ns": curve.peak_at_ns,
        "peak_line": curve.peak_line,
        "reserved_max_bytes": curve.reserved_max_bytes,
    }
