"""The numbers of a recording, computed a second time from Kineto's own file, in the plainest way there is.

Nothing of perfmagic is used here, so that a mistake would have to be made twice to go unseen.
"""

import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

OPS = {"kernel", "gpu_memcpy", "gpu_memset"}
CALLS = {"cuda_runtime", "cuda_driver"}


def reference(path: Path) -> dict[str, Any]:
    """Totals of each device of a raw Kineto file, times in whole ns."""
    events = json.loads(path.read_text(), parse_float=Decimal)["traceEvents"]
    ops = [e for e in events if e.get("ph") == "X" and e.get("cat") in OPS]
    launched = {
        e["args"]["correlation"] for e in events if e.get("cat") in CALLS and "correlation" in e.get("args", {})
    }
    devices: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for op in ops:
        devices[int(op["args"]["device"])].append(op)
    return {str(device): _device(rows, launched) for device, rows in sorted(devices.items())}


def _device(ops: list[dict[str, Any]], launched: set[int]) -> dict[str, Any]:
    spans = [_span(op) for op in ops]
    streams: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for op, span in zip(ops, spans, strict=True):
        streams[str(op["args"]["stream"])].append(span)
    return {
        "n_ops": len(ops),
        "n_with_launch": sum(op["args"]["correlation"] in launched for op in ops),
        "kernel_sum_ns": sum(end - start for op, (start, end) in zip(ops, spans, strict=True) if op["cat"] == "kernel"),
        "copied_bytes": sum(int(op["args"]["bytes"]) for op in ops if op["cat"] == "gpu_memcpy"),
        "extent_ns": max(end for _, end in spans) - min(start for start, _ in spans),
        "busy_ns": _covered(spans),
        "busy_by_stream_ns": {stream: _covered(rows) for stream, rows in sorted(streams.items())},
    }


def _span(event: dict[str, Any]) -> tuple[int, int]:
    start, length = (int((Decimal(event[key]) * 1000).to_integral_value()) for key in ("ts", "dur"))
    return start, start + length


def _covered(spans: list[tuple[int, int]]) -> int:
    total, until = 0, None
    for start, end in sorted(spans):
        if until is None or start > until:
            total += end - start
            until = end
        elif end > until:
            total += end - until
            until = end
    return total
