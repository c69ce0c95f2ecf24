"""Pairs of small traces that differ in one thing."""

from dataclasses import replace
from typing import Any

from perfmagic.trace.columns import HostKind
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from tests.analysis.build import Builder
from tests.trace.recorded import as_bytes, event

SOFTMAX = ("gemm", "softmax", "gemm")


def program(
    *calls: tuple[str, tuple[str, ...]], kernel_us: float = 10, steps: int = 0, repeat: int = 1, **header: Any
) -> Trace:
    """Operators one after the other, each with its kernels; of `steps`, each step runs all of them."""
    b, at = Builder(), 0.0
    for step in range(max(1, steps)):
        began = at
        for name, kernels in calls * repeat:
            b.host_op(at, at + 5 * len(kernels) + 2, name)
            for i, kernel in enumerate(kernels):
                start = at + 20 + (kernel_us + 2) * i
                b.op(start, start + kernel_us, launch=at + 1 + 5 * i, name=kernel)
            at += 20 + (kernel_us + 2) * len(kernels)
        if steps:
            b.host_op(began, at, f"ProfilerStep#{step + 3}", kind=HostKind.ANNOTATION)
    trace = b.trace()
    return replace(trace, meta=replace(trace.meta, origin="file", **header))


def eager(**options: Any) -> Trace:
    return program(("aten::linear", ("bias_gemm",)), ("aten::attention", SOFTMAX), **options)


def fused(**options: Any) -> Trace:
    return program(("aten::linear", ("bias_gemm",)), ("aten::attention", ("flash_fwd",)), **options)


def with_shapes(shapes: list[list[int]], kernel: str = "sgemm") -> Trace:
    """One aten::mm for each shape of its inputs, 100 µs apart, of 10 µs on the device."""
    events = []
    for i, shape in enumerate(shapes):
        at = 100 * i
        dims = {"Input Dims": [shape, shape]}
        events += [
            event("cpu_op", "aten::mm", at, 9, pid=99, tid=99) | {"args": dims},
            event("cuda_runtime", "cudaLaunchKernel", at + 2, 2, pid=99, tid=99, correlation=i + 1),
            event("kernel", kernel, at + 20, 10, stream=7, device=0, correlation=i + 1),
        ]
    return read_trace(as_bytes(events, deviceProperties=[{"id": 0, "name": "Test GPU"}]))


def cell(source: str, times_us: dict[int, float]) -> Trace:
    """A cell whose lines take so long on the host, each launching an op of 5 µs; line 1 is the magic."""
    b, at = Builder(), 0.0
    for line, length in times_us.items():
        b.line(at, line)
        b.op(at + 10, at + 15, launch=at + 2)
        at += length
    b.line(at, 0)
    return b.trace(end=at + 20, returned=at, cell=source)
