"""Small traces and findings by hand, for the tests of the pictures."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings

from perfmagic.analysis.findings.find import findings
from perfmagic.trace.columns import CallKind, OpKind
from perfmagic.trace.model import Cell, DeviceInfo, Trace, TraceMeta, make_trace
from perfmagic.view.timeline.doc import TimelineDoc, timeline_doc

MS = 1_000_000
UNHURRIED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
HOSTILE = 'k</text><script>alert("1")</script>&\x00\x1b[31m\u202e\ud800矩阵'
SIM = DeviceInfo(0, "sim", "sim", "each op at least 3 ms")


def queue_of(n_ops: int = 11, *, op_ms: float = 3.0, name: str = "sim::mm", device: DeviceInfo = SIM) -> Trace:
    """A cell that queues n ops at once and then asks for the number."""
    launch = [int((0.1 + 0.1 * i) * MS) for i in range(n_ops)]
    start = [int((0.1 + 0.1 * n_ops + op_ms * i) * MS) for i in range(n_ops)]
    end = [s + int(op_ms * MS) for s in start]
    finish = end[-1] + MS // 10
    return make_trace(
        (name, "launch", "sync"),
        TraceMeta("cell", end_ns=finish, returned_ns=finish, devices=(device,)),
        ops={
            "start_ns": start,
            "end_ns": end,
            "kind": [OpKind.KERNEL] * n_ops,
            "name": [0] * n_ops,
            "correlation": range(n_ops),
        },
        calls={
            "start_ns": [*launch, launch[-1] + MS // 10],
            "end_ns": [*(at + 50_000 for at in launch), finish],
            "kind": [CallKind.LAUNCH] * n_ops + [CallKind.SYNC],
            "name": [1] * n_ops + [2],
            "correlation": range(n_ops + 1),
        },
        marks={"at_ns": [0, launch[-1] + MS // 10, finish], "line": [2, 3, 0], "top_line": [2, 3, 0]},
        cell=Cell("%%timeline\nfor _ in range(10): y = y @ w\n打印(结果.item())"),
    )


def many_streams(n_streams: int) -> Trace:
    """One op of 1 ms a stream, all at once, without launches."""
    return make_trace(
        ("gemm",),
        TraceMeta("file.json", end_ns=2 * MS, devices=(DeviceInfo(0, "cuda", "NVIDIA A100"),)),
        ops={
            "start_ns": [0] * n_streams,
            "end_ns": [MS + i for i in range(n_streams)],
            "kind": [0] * n_streams,
            "stream": range(n_streams),
            "name": [0] * n_streams,
        },
    )


def noisy(n_ops: int, n_streams: int = 12) -> Trace:
    """Ops of many lengths and classes on many streams: the worst a picture meets."""
    random = np.random.default_rng(7)
    start = np.sort(random.integers(0, 10**9, n_ops))
    kind = random.choice([0, 0, 0, 1, 2], n_ops)
    name = np.where(kind == 1, random.integers(4, 7, n_ops), random.integers(0, 4, n_ops))
    launch = np.maximum(0, start - random.integers(0, 10**8, n_ops))
    names = ("gemm", "relu", "ncclKernel", HOSTILE, "Memcpy HtoD", "Memcpy DtoH", "Memcpy DtoD")
    return make_trace(
        (*names, "launch"),
        TraceMeta("noise.json", end_ns=10**9, devices=(DeviceInfo(0, "cuda", HOSTILE), DeviceInfo(1, "cuda", "B"))),
        ops={
            "start_ns": start,
            "end_ns": start + random.integers(1, 10**6, n_ops),
            "kind": kind,
            "name": name,
            "stream": random.integers(0, n_streams, n_ops),
            "device": random.integers(0, 2, n_ops),
            "correlation": np.arange(n_ops),
        },
        calls={
            "start_ns": launch,
            "end_ns": launch + 5000,
            "kind": np.zeros(n_ops),
            "name": np.full(n_ops, len(names)),
            "correlation": np.arange(n_ops),
        },
    )


def doc_of(trace: Trace, **options: int) -> TimelineDoc:
    return timeline_doc(trace, findings(trace), **options)


def with_meta(trace: Trace, **changes: object) -> Trace:
    return replace(trace, meta=replace(trace.meta, **changes))


def decoded(data: bytes, layout: Sequence[dict[str, Any]], table: str, name: str) -> list[int]:
    """The numbers of a column as the browser reads them, the plain way."""
    column = next(c for c in layout if (c["table"], c["name"]) == (table, name))
    at, n, width = (column[key] for key in ("at", "rows", "width"))
    stored = [sum(data[at + p * n + i] << (8 * p) for p in range(width)) for i in range(n)]
    if column["code"] == "plain":
        return stored
    values = [-(v + 1) // 2 if v % 2 else v // 2 for v in stored]
    return np.cumsum(values).tolist() if column["code"] == "delta" else values
