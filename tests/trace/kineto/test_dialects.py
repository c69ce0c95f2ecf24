"""Chrome JSON of programs other than torch.profiler: kernels, copies, calls, ranges and Python functions are found."""

from pathlib import Path
from typing import Any

import pytest

import perfmagic
from perfmagic.trace.columns import CallKind, HostKind, OpKind
from perfmagic.trace.kineto.reader import read_trace
from tests.trace.recorded import as_bytes, event

Rows = list[dict[str, Any]]
CUPTI: Rows = [
    event("CUDA_Runtime", "Runtime: cudaLaunchKernel", 10, 2, pid=99, tid=5, correlationId=7),
    event(
        "GPU_Kernel",
        "Kernel: gemm",
        20,
        30,
        pid="Device_1",
        tid="GPU1_Stream7",
        correlationId=7,
        deviceId=1,
        streamId=7,
    ),
    event("MemCopy", "MemCopy: HtoD", 60, 5, correlationId=8, deviceId=1, streamId=9, size=4096),
]
NSYS2JSON: Rows = [
    event("cuda_api", "cudaStreamSynchronize", 10, 50, pid="Host 0", tid="CUDA API 5", correlationId=7),
    event("cuda", "gemm", 20, 30, pid="Device 2", tid="Stream 7", correlationId=6),
    event("nvtx", "forward", 5, 60, pid="Host 0", tid="NVTX 5"),
]
ROCM: Rows = [
    event("hip_api", "hipLaunchKernel", 10, 2, corr_id=3),
    event("kernel_dispatch", "Cijk_gemm", 20, 30, corr_id=3, device_id=4, stream_id=1),
    event("memory_copy", "MEMORY_COPY_HOST_TO_DEVICE", 60, 5, corr_id=4, device_id=4),
]


def test_cupti_rows_are_launches_kernels_and_copies() -> None:
    trace = read_trace(as_bytes(CUPTI))
    assert [trace.names[name] for name in trace.ops.name] == ["gemm", "MemCopy: HtoD"]
    assert trace.ops.kind.tolist() == [OpKind.KERNEL, OpKind.MEMCPY]
    assert (trace.ops.device.tolist(), trace.ops.stream.tolist()) == ([1, 1], [7, 9])
    assert (trace.ops.launch.tolist(), trace.calls.kind.tolist()) == ([0, -1], [CallKind.LAUNCH])
    assert trace.ops.size_bytes.tolist() == [-1, 4096]


def test_a_converted_nsight_report_has_its_device_and_ranges() -> None:
    trace = read_trace(as_bytes(NSYS2JSON))
    assert (trace.ops.device.tolist(), trace.ops.stream.tolist()) == ([2], [7])
    assert trace.calls.kind.tolist() == [CallKind.SYNC]
    assert trace.host_ops.kind.tolist() == [HostKind.ANNOTATION]


def test_rocm_rows_are_joined_by_their_own_ids() -> None:
    trace = read_trace(as_bytes(ROCM))
    assert trace.ops.kind.tolist() == [OpKind.KERNEL, OpKind.MEMCPY]
    assert (trace.ops.launch.tolist(), trace.ops.device.tolist()) == ([0, -1], [4, 4])


def test_functions_of_viztracer_are_python_frames() -> None:
    rows = [
        event("FEE", "step (/home/ann/train.py:12)", 10, 50, tid=3),
        event("FEE", "time.sleep", 20, 30, tid=3),
    ]
    trace = read_trace(as_bytes(rows))
    frames = trace.python_frames.table
    assert [trace.names[name] for name in frames.name] == ["/home/ann/train.py(12): step", "time.sleep"]
    assert (frames.start_ns.tolist(), frames.end_ns.tolist()) == ([0, 10_000], [50_000, 40_000])


@pytest.mark.parametrize("rows", [CUPTI, NSYS2JSON, ROCM], ids=["cupti", "nsys2json", "rocm"])
def test_each_of_them_opens_with_what_it_has(tmp_path: Path, rows: Rows) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(as_bytes(rows))
    result = perfmagic.open_trace(path)
    assert "device" in result.text()
    assert result.to_dict()["devices"]


def test_torch_s_own_words_are_left_as_they_are() -> None:
    rows = [event("kernel", "Kernel: mine", 20, 30, correlation=7, stream=1, device=0, size=9)]
    trace = read_trace(as_bytes(rows))
    assert ([trace.names[name] for name in trace.ops.name], trace.ops.size_bytes.tolist()) == (["Kernel: mine"], [-1])
