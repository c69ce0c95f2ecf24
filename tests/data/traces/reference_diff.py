"""Counts and durations of two recorded traces side by side, by the plainest sweep there is.

    python tests/data/traces/reference_diff.py A.json.gz B.json.gz

Nothing of perfmagic is used, and nothing outside the standard library. A device op is a complete event of a kernel,
copy or memset; its launch is the first runtime or driver call with its correlation id; its operator is the innermost
operator (category cpu_op) of the launching thread that runs when the launch starts. Calls of an operator inside one of
the same name and shape add nothing to its time on the host. *charged* goes through the instants of a device one by one:
of the ops that run, the first by class (kernels that are not nccl or rccl, those that are, copies, memsets) has it.
"""

import gzip
import json
import sys
from collections import Counter, defaultdict
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

OPS = {"kernel": 0, "Kernel": 0, "gpu_memcpy": 2, "Memcpy": 2, "gpu_memset": 3, "Memset": 3}
CALLS = {"cuda_runtime", "cuda_driver", "Runtime"}


def complete_events(path: Path) -> list[dict[str, Any]]:
    opener = gzip.open if path.read_bytes()[:2] == b"\x1f\x8b" else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as file:
        whole = json.load(file, parse_float=str)
    return [e for e in (whole if isinstance(whole, list) else whole["traceEvents"]) if e.get("ph") == "X"]


def span_ns(event: dict[str, Any]) -> tuple[int, int]:
    start = int(Decimal(event["ts"]) * 1000)
    return start, start + int(Decimal(event.get("dur", 0)) * 1000)


def kernels(events: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Runs and summed duration by name."""
    n, total = Counter(), Counter()
    for event in events:
        if event.get("cat") in OPS:
            start, end = span_ns(event)
            n[event["name"]] += 1
            total[event["name"]] += end - start
    return {name: (n[name], total[name]) for name in n}


def charged(events: list[dict[str, Any]]) -> dict[str, int]:
    """Busy time by class of op, each instant once, of the only device; and the idle time between its ops."""
    ops = []
    for event in events:
        if event.get("cat") in OPS:
            name = event["name"].lower()
            comm = OPS[event["cat"]] == 0 and ("nccl" in name or "rccl" in name)
            ops.append((*span_ns(event), 1 if comm else OPS[event["cat"]]))
    edges = sorted({at for start, end, _ in ops for at in (start, end)})
    starts, ends = defaultdict(list), defaultdict(list)
    for start, end, rank in ops:
        if end > start:
            starts[start].append(rank)
            ends[end].append(rank)
    running, found = Counter(), Counter()
    for at, then in pairwise(edges):
        running.update(starts[at])
        running.subtract(ends[at])
        first = min((rank for rank, n in running.items() if n > 0), default=None)
        found["idle" if first is None else ("compute", "communication", "copy", "memset")[first]] += then - at
    return dict(found)


def operators(events: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[int, int, int, int]]:
    """By name and shape: calls, time on the host, device ops launched by it itself, their summed duration."""
    calls: dict[Any, dict[str, Any]] = {}
    by_thread: dict[Any, list[tuple[int, int, tuple[str, str]]]] = defaultdict(list)
    for event in events:
        args = event.get("args") or {}
        if event.get("cat") in CALLS and args.get("correlation") is not None:
            calls.setdefault(args["correlation"], event)
        elif event.get("cat") in ("cpu_op", "Operator"):
            dims = args.get("Input Dims", args.get("Input dims"))
            shape = "" if dims is None else json.dumps(dims)
            by_thread[event["tid"]].append((*span_ns(event), (event["name"], shape)))
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    asked: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        launch = calls.get((event.get("args") or {}).get("correlation"))
        if event.get("cat") in OPS and launch is not None:
            start, end = span_ns(event)
            asked[launch["tid"]].append((span_ns(launch)[0], end - start))
    for thread, rows in by_thread.items():
        _sweep(sorted(rows, key=lambda row: (row[0], -row[1])), sorted(asked[thread]), found)
    return {key: (n, host, ops, device) for key, (n, host, ops, device) in found.items()}


def _sweep(
    rows: list[tuple[int, int, tuple[str, str]]], asked: list[tuple[int, int]], found: dict[tuple[str, str], list[int]]
) -> None:
    """One thread: calls and launches by time, with the stack of calls that run."""
    stack: list[tuple[int, tuple[str, str]]] = []
    events = [(start, 0, end, key) for start, end, key in rows] + [(at, 1, ns, None) for at, ns in asked]
    for at, kind, value, key in sorted(events, key=lambda one: (one[0], one[1], -one[2] if one[1] == 0 else 0)):
        while stack and stack[-1][0] <= at:
            stack.pop()
        if kind == 0 and key is not None:
            if key[0] == "record_param_comms" and stack:
                continue  # torch's note about the collective that runs
            found[key][0] += 1
            found[key][1] += 0 if any(above == key for _, above in stack) else value - at
            if value > at:
                stack.append((value, key))
        elif stack:
            found[stack[-1][1]][2] += 1
            found[stack[-1][1]][3] += value


if __name__ == "__main__":
    first, second = (kernels(complete_events(Path(name))) for name in sys.argv[1:3])
    rows = [(name, *first.get(name, (0, 0)), *second.get(name, (0, 0))) for name in first.keys() | second.keys()]
    for row in sorted(rows, key=lambda row: -abs(row[4] - row[2])):
        print(*row[1:], row[0][:100], sep="\t")
