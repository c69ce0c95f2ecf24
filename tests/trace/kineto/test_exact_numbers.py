"""Every number of the reference sweep, met to the nanosecond on real traces."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmagic.analysis.timeline.idle import idle_causes
from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.base.numerics.intervals import Intervals, overlap_ns, total_ns, union
from perfmagic.trace.columns import NONE, OpKind
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from perfmagic.trace.names import OpClass, op_classes
from tests.trace.recorded import EXPECTED, FOLDER, real

pytestmark = pytest.mark.slow


def test_the_reference_numbers_are_what_the_sweep_prints() -> None:
    for name in ("a100_alexnet_cuda_sync", "a100_event_sync_3streams", "gp100_gpu_user_annotation"):
        printed = subprocess.run(
            [sys.executable, FOLDER / "reference_sweep.py", real(name)], capture_output=True, text=True, check=True
        ).stdout
        assert json.loads(printed) == json.loads((FOLDER / "expected" / f"{name}.json").read_text())


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda path: path.stem)
def test_a_real_trace_gives_exactly_the_reference_numbers(expected: Path) -> None:
    reference = json.loads(expected.read_text())["devices"]
    trace = read_trace(real(expected.stem.replace("__", "/")))
    assert trace.meta.repairs == ()
    assert {str(device) for device in trace.device_ids} == set(reference)
    classes = op_classes(trace, comm_names="nccl|rccl")
    for device, numbers in reference.items():
        found = _numbers(trace, classes, trace.ops.device == int(device))
        found["idle_by_cause_ns"] = _idle(trace, int(device))
        assert found == {key: numbers[key] for key in found if key not in ("streams", "launch")} | {
            "streams": {s: {k: v[k] for k in ("n", "busy_ns", "zero_dur")} for s, v in numbers["streams"].items()},
            "idle_by_cause_ns": numbers["idle_by_cause_ns"],
            "launch": {k: numbers["launch"][k] for k in ("matched", "unmatched", "start_before_launch")}
            | {"launch_apis": numbers["launch"]["launch_apis"]},
        }


def _numbers(trace: Trace, classes: Any, on_device: Any) -> dict[str, Any]:
    ops = trace.ops
    compute = _union(trace, on_device & ((classes == OpClass.MATRIX) | (classes == OpClass.COMPUTE)))
    comm = _union(trace, on_device & (classes == OpClass.COMMUNICATION))
    copy = _union(trace, on_device & (ops.kind == OpKind.MEMCPY))
    busy_ns = total_ns(_union(trace, on_device))
    span_ns = int(ops.end_ns[on_device].max() - ops.start_ns[on_device].min())
    return {
        "n_events": int(on_device.sum()),
        "n_kernel": int((on_device & (ops.kind == OpKind.KERNEL)).sum()),
        "n_memcpy": int((on_device & (ops.kind == OpKind.MEMCPY)).sum()),
        "n_memset": int((on_device & (ops.kind == OpKind.MEMSET)).sum()),
        "span_ns": span_ns,
        "busy_ns": busy_ns,
        "idle_ns": span_ns - busy_ns,
        "sum_dur_ns": int((ops.end_ns - ops.start_ns)[on_device].sum()),
        "compute_ns": total_ns(compute),
        "comm_ns": total_ns(comm),
        "copy_ns": total_ns(copy),
        "memset_ns": total_ns(_union(trace, on_device & (ops.kind == OpKind.MEMSET))),
        "overlap_compute_comm_ns": overlap_ns(compute, comm),
        "overlap_compute_copy_ns": overlap_ns(compute, copy),
        "overlap_comm_copy_ns": overlap_ns(comm, copy),
        "streams": _streams(trace, on_device),
        "launch": _launches(trace, on_device),
    }


def _idle(trace: Trace, device: int) -> dict[str, int]:
    sums = {cause: total_ns(where) for cause, where in idle_causes(trace, device).sets.items()}
    assert sum(sums.values()) == breakdown(trace, device).idle_ns
    return {cause: ns for cause, ns in sums.items() if ns}


def _union(trace: Trace, rows: Any) -> Intervals:
    return union(trace.ops.start_ns[rows], trace.ops.end_ns[rows])


def _streams(trace: Trace, on_device: Any) -> dict[str, dict[str, int]]:
    result = {}
    for stream in np.unique(trace.ops.stream[on_device]).tolist():
        rows = on_device & (trace.ops.stream == stream)
        zero = trace.ops.start_ns[rows] == trace.ops.end_ns[rows]
        result[_stream_key(trace, stream)] = {
            "n": int(rows.sum()),
            "busy_ns": total_ns(_union(trace, rows)),
            "zero_dur": int(zero.sum()),
        }
    return result


def _stream_key(trace: Trace, stream: int) -> str:
    return f"stream {stream}" if "2021" in trace.meta.origin else str(stream)


def _launches(trace: Trace, on_device: Any) -> dict[str, Any]:
    launch = trace.ops.launch[on_device]
    matched = launch != NONE
    before = trace.ops.start_ns[on_device][matched] < trace.calls.start_ns[launch[matched]]
    names, counts = np.unique(trace.calls.name[launch[matched]], return_counts=True)
    return {
        "matched": int(matched.sum()),
        "unmatched": int((~matched).sum()),
        "start_before_launch": int(before.sum()),
        "launch_apis": {trace.names[n]: int(k) for n, k in zip(names.tolist(), counts.tolist(), strict=True)},
    }
