"""Reference numbers of a recorded trace, in whole nanoseconds, by the plainest sweep there is.

    python tests/data/traces/reference_sweep.py TRACE.json.gz > expected/NAME.json
    python -m tests.json_rows        (an item of a list a line)

Nothing of perfmagic is used, and nothing outside the standard library. Device ops are complete events of kernels,
copies and memsets. *busy* is the union of their intervals on a device, *span* its first start to its last end.
Communication is what has nccl or rccl in its name. An op's launch is the first runtime or driver call with its
correlation id. *queue_length* counts launched and not started ops of a stream; a start comes before a launch of the
same instant, as an op is queued until it starts. *idle_by_cause_ns* is the work of reference_idle.py.
"""

import gzip
import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from reference_idle import Call, Work, idle_by_cause

KERNELS = {"kernel", "Kernel"}
COPIES = {"gpu_memcpy", "Memcpy"}
MEMSETS = {"gpu_memset", "Memset"}
CALLS = {"cuda_runtime", "cuda_driver", "Runtime"}
NAME_LENGTH = 160
TOP_KERNELS = 3

Spans = list[tuple[int, int]]


class Op(NamedTuple):
    """One device op, times in ns."""

    start_ns: int
    end_ns: int
    stream: str
    category: str
    name: str
    correlation: Any
    size_bytes: Any

    @property
    def span(self) -> tuple[int, int]:
        return self.start_ns, self.end_ns

    @property
    def communicates(self) -> bool:
        return "nccl" in self.name.lower() or "rccl" in self.name.lower()


def reference(path: Path) -> dict[str, Any]:
    """The numbers of every device of a file."""
    opener = gzip.open if path.read_bytes()[:2] == b"\x1f\x8b" else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as file:
        whole = json.load(file, parse_float=str)
    events = [e for e in (whole if isinstance(whole, list) else whole["traceEvents"]) if e.get("ph") == "X"]
    calls: dict[Any, Call] = {}
    every_call: list[Call] = []
    devices: dict[str, list[Op]] = defaultdict(list)
    for event in events:
        args = event.get("args") or {}
        if event.get("cat") in CALLS:
            call = Call(*_span_ns(event), event["name"], (event.get("pid"), event.get("tid")))
            every_call.append(call)
            if args.get("correlation") is not None:
                calls.setdefault(args["correlation"], call)
        elif event.get("cat") in KERNELS | COPIES | MEMSETS:
            where = str(event.get("tid")), event["cat"], event["name"]
            op = Op(*_span_ns(event), *where, args.get("correlation"), args.get("bytes"))
            devices[str(event.get("pid"))].append(op)
    found = {device: _device(sorted(ops, key=lambda op: op.span), calls) for device, ops in sorted(devices.items())}
    work = {
        device: [Work(*op.span, op.stream, op.name, calls.get(op.correlation)) for op in ops]
        for device, ops in devices.items()
    }
    for device, causes in idle_by_cause(work, every_call).items():
        found[device]["idle_by_cause_ns"] = dict(sorted(causes.items()))
    return found


def _span_ns(event: dict[str, Any]) -> tuple[int, int]:
    start = _ns(event["ts"])
    return start, start + _ns(event.get("dur", 0))


def _ns(microseconds: str | int) -> int:
    exact = microseconds if isinstance(microseconds, int) else Decimal(microseconds)
    return int(exact * 1000) if isinstance(exact, int) else int((exact * 1000).to_integral_value())


def _device(ops: list[Op], calls: dict[Any, Call]) -> dict[str, Any]:
    busy = union(op.span for op in ops)
    start_ns, end_ns = min(op.start_ns for op in ops), max(op.end_ns for op in ops)
    kernels = [op for op in ops if op.category in KERNELS]
    compute = union(op.span for op in kernels if not op.communicates)
    comm = union(op.span for op in kernels if op.communicates)
    copy = union(op.span for op in ops if op.category in COPIES)
    return {
        "n_events": len(ops),
        "n_kernel": len(kernels),
        "n_memcpy": sum(op.category in COPIES for op in ops),
        "n_memset": sum(op.category in MEMSETS for op in ops),
        "span_ns": end_ns - start_ns,
        "busy_ns": length(busy),
        "idle_ns": end_ns - start_ns - length(busy),
        "sum_dur_ns": sum(op.end_ns - op.start_ns for op in ops),
        "compute_ns": length(compute),
        "comm_ns": length(comm),
        "copy_ns": length(copy),
        "memset_ns": length(union(op.span for op in ops if op.category in MEMSETS)),
        "overlap_compute_comm_ns": length(intersection(compute, comm)),
        "overlap_compute_copy_ns": length(intersection(compute, copy)),
        "overlap_comm_copy_ns": length(intersection(comm, copy)),
        "streams": {stream: _stream(rows) for stream, rows in sorted(_by_stream(ops).items())},
        "concurrency_ns": _concurrency(ops, start_ns),
        "launch": _launches(ops, calls),
        "queue_length": _queues(ops, calls),
        "top_kernels": _top_kernels(kernels),
        "memcpy": _copies(op for op in ops if op.category in COPIES),
    }


def _by_stream(ops: list[Op]) -> dict[str, list[Op]]:
    streams: dict[str, list[Op]] = defaultdict(list)
    for op in ops:
        streams[op.stream].append(op)
    return streams


def _stream(ops: list[Op]) -> dict[str, int]:
    overlaps, latest_ns = 0, None
    for op in ops:
        overlaps += latest_ns is not None and op.start_ns < latest_ns
        latest_ns = op.end_ns if latest_ns is None else max(latest_ns, op.end_ns)
    return {
        "n": len(ops),
        "busy_ns": length(union(op.span for op in ops)),
        "same_stream_overlaps": overlaps,
        "zero_dur": sum(op.start_ns == op.end_ns for op in ops),
    }


def _concurrency(ops: list[Op], start_ns: int) -> dict[str, int]:
    """The time with exactly k streams active."""
    changes = []
    for rows in _by_stream(ops).values():
        for start, end in union(op.span for op in rows):
            changes += [(start, 1), (end, -1)]
    active, at_ns = 0, start_ns
    histogram: Counter[int] = Counter()
    for time_ns, change in sorted(changes):
        histogram[active] += time_ns - at_ns
        at_ns, active = time_ns, active + change
    return {str(active): ns for active, ns in sorted(histogram.items()) if ns}


def _launches(ops: list[Op], calls: dict[Any, Call]) -> dict[str, Any]:
    matched = [(op, calls[op.correlation]) for op in ops if op.correlation in calls]
    delays = sorted(op.start_ns - call[0] for op, call in matched)
    latencies = sorted(op.start_ns - call[1] for op, call in matched)
    return {
        "matched": len(matched),
        "unmatched": len(ops) - len(matched),
        "start_before_launch": sum(op.start_ns < call[0] for op, call in matched),
        "launch_apis": dict(Counter(call[2] for _, call in matched).most_common()),
        "queue_delay_ns": _distribution(delays),
        "latency_after_call_ns": {**_distribution(latencies), "negative": sum(ns < 0 for ns in latencies)},
    }


def _distribution(ordered: list[int]) -> dict[str, float | None]:
    shares = {f"p{p}": ordered[round(p / 100 * (len(ordered) - 1))] if ordered else None for p in (0, 50, 90, 99, 100)}
    return {"mean": round(statistics.fmean(ordered), 1) if ordered else None, **shares}


def _queues(ops: list[Op], calls: dict[Any, Call]) -> dict[str, dict[str, float]]:
    changes: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for op in ops:
        if op.correlation in calls:
            changes[op.stream] += [(calls[op.correlation][0], 1, 1), (op.start_ns, 0, -1)]
    found = {}
    for stream, points in changes.items():
        points.sort()
        depth = most = area = 0
        at_ns = points[0][0]
        for time_ns, _, change in points:
            area += depth * (time_ns - at_ns)
            at_ns, depth = time_ns, depth + change
            most = max(most, depth)
        mean = area / max(1, points[-1][0] - points[0][0])
        found[stream] = {"max": most, "time_weighted_mean": round(mean, 4)}
    return found


def _top_kernels(kernels: list[Op]) -> list[dict[str, Any]]:
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for op in kernels:
        totals[op.name][0] += 1
        totals[op.name][1] += op.end_ns - op.start_ns
    top = sorted(totals.items(), key=lambda item: -item[1][1])[:TOP_KERNELS]
    return [{"name": name[:NAME_LENGTH], "calls": calls, "total_ns": ns} for name, (calls, ns) in top]


def _copies(copies: Iterable[Op]) -> dict[str, dict[str, Any]]:
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for op in copies:
        row = totals[op.name]
        row[0] += 1
        row[1] += op.end_ns - op.start_ns
        row[2] += int(op.size_bytes or 0)
    return {
        name: {"n": n, "ns": ns, "bytes": size, "GBps": round(size / ns, 3) if ns else None}
        for name, (n, ns, size) in totals.items()
    }


def union(spans: Iterable[tuple[int, int]]) -> Spans:
    """The time covered by any of the spans, as disjoint spans in order."""
    merged: list[list[int]] = []
    for start, end in sorted(spans):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return [(start, end) for start, end in merged]


def intersection(first: Spans, second: Spans) -> Spans:
    """The time covered by both."""
    found, i, j = [], 0, 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if end > start:
            found.append((start, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return found


def length(spans: Spans) -> int:
    """The sum of their lengths."""
    return sum(end - start for start, end in spans)


if __name__ == "__main__":
    given = Path(sys.argv[1])
    print(json.dumps({"trace": given.name, "devices": reference(given)}, indent=1))
