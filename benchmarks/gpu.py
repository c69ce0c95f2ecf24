"""What does measuring cost on this GPU, and do the ways to measure agree?

    python benchmarks/gpu.py [--out DIR]        (make bench-gpu)

About two minutes. Prints a table last; with --out also writes bench.json with where it was measured. --device sim tries
the program without a GPU; what it prints then says nothing of one.
"""

import argparse
import contextlib
import json
import platform
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import perfmagic
from perfmagic.trace.model import Trace
from tests.gpu.cells import names_for, record_cell

LAUNCHES = 500  # at a time: below what a queue holds
ROUNDS = 7
KERNEL_US = (3, 10, 30, 100, 300, 1000, 3000)

Row = dict[str, Any]


class Gpu:
    """The device under test, with its names in torch."""

    def __init__(self, device: str) -> None:
        self.name = device
        self.m: Any = torch.get_device_module(device)
        self.cycles_per_us = 0.0
        if device == "cuda":
            self.cycles_per_us = self._cycles_per_us()

    def spin(self, us: float) -> None:
        """Occupy the current stream for so long."""
        self.m._sleep(int(us * self.cycles_per_us) if self.name == "cuda" else us / 1e6)

    def seconds(self, body: Callable[[], object]) -> float:
        """One run of a body between two events, on the device."""
        first, last = (self.m.Event(enable_timing=True) for _ in range(2))
        self.m.synchronize()
        first.record()
        body()
        last.record()
        self.m.synchronize()
        return float(first.elapsed_time(last)) / 1e3

    def _cycles_per_us(self) -> float:
        cycles = 20_000_000
        self.m._sleep(cycles)
        return min(cycles / (self.seconds(lambda: self.m._sleep(cycles)) * 1e6) for _ in range(3))


def launch_cost(gpu: Gpu) -> list[Row]:
    """Host time of a launch: plain, under the recorder, and with a mark on every line."""
    x, y = (torch.ones(4, device=gpu.name) for _ in range(2))
    source = "for _ in range(n):\n    torch.add(x, y, out=x)"
    names = names_for(gpu.name) | {"x": x, "y": y, "n": LAUNCHES}

    def plain() -> float:
        gpu.m.synchronize()
        since = time.perf_counter()
        for _ in range(LAUNCHES):
            torch.add(x, y, out=x)
        return (time.perf_counter() - since) / LAUNCHES

    def recorded() -> float:
        trace = record_cell(source, names)
        return (float(trace.meta.returned_ns or 0) - trace.meta.start_ns) / LAUNCHES / 1e9

    rows = {"plain": plain, "recorded, lines marked": recorded}
    return [
        {"what": f"launch, {name}", "us": round(min(f() for _ in range(ROUNDS)) * 1e6, 2)} for name, f in rows.items()
    ]


def reading(gpu: Gpu) -> list[Row]:
    """From the end of a recording to its columns."""
    x = torch.ones(4, device=gpu.name)
    names = names_for(gpu.name) | {"x": x}
    record_cell("x + 1", names)
    since = time.perf_counter()
    trace: Trace = record_cell(
        "for _ in range(20):\n    for _ in range(500):\n        x + 1\n    m.synchronize()", names
    )
    whole = time.perf_counter() - since
    body = (float(trace.meta.returned_ns or 0) - trace.meta.start_ns) / 1e9
    return [{"what": "end of recording to columns, per op", "us": round((whole - body) / len(trace.ops) * 1e6, 2)}]


def event_grain(gpu: Gpu) -> list[Row]:
    """The least difference two events tell."""
    events = [gpu.m.Event(enable_timing=True) for _ in range(400)]
    gpu.m.synchronize()
    for event in events:
        event.record()
    gpu.m.synchronize()
    gaps = [a.elapsed_time(b) * 1e3 for a, b in pairwise(events)]
    steps = sorted({round(gap, 4) for gap in gaps})
    grain = min((b - a for a, b in pairwise(steps)), default=0.0)
    return [{"what": "events one after another, median", "us": round(statistics.median(gaps), 3)},
            {"what": "least step between event times", "us": round(grain, 4)}]  # fmt: skip


def spans(gpu: Gpu) -> list[Row]:
    """20 kernels of known length: perfmagic's span, plain events, a graph, the profiler's sum; per kernel."""
    rows = []
    for us in KERNEL_US:

        def body(us: float = us) -> None:
            for _ in range(20):
                gpu.spin(us)

        body()
        span = perfmagic.syncbench(body, time=0.3).span_s
        trace = record_cell("body()", names_for(gpu.name) | {"body": body})
        row: Row = {
            "what": f"kernel of {us} µs",
            "span_us": None if span is None else round(span / 20 * 1e6, 3),
            "events_us": round(statistics.median(gpu.seconds(body) for _ in range(ROUNDS)) / 20 * 1e6, 3),
            "kernels_us": round(float((trace.ops.end_ns - trace.ops.start_ns).sum()) / len(trace.ops) / 1e3, 3),
        }
        if gpu.name == "cuda":
            row["graph_us"] = round(_graph(gpu, body) / 20 * 1e6, 3)
        rows.append(row)
    return rows


def _graph(gpu: Gpu, body: Callable[[], None]) -> float:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    graph.replay()
    return statistics.median(gpu.seconds(graph.replay) for _ in range(ROUNDS))


def cold_and_warm(gpu: Gpu) -> list[Row]:
    """The same product with its inputs in the cache, and after the cache was written over."""
    n = 1024 if gpu.name == "cuda" else 64
    a = torch.randn(n, n, device=gpu.name)
    flush = torch.empty(256 * 2**20 if gpu.name == "cuda" else 2**20, dtype=torch.int8, device=gpu.name)
    a @ a
    warm = statistics.median(gpu.seconds(lambda: a @ a) for _ in range(3 * ROUNDS))
    cold = []
    for _ in range(3 * ROUNDS):
        flush.zero_()
        cold.append(gpu.seconds(lambda: a @ a))
    return [{"what": f"{n}×{n} product, warm", "us": round(warm * 1e6, 2)},
            {"what": f"{n}×{n} product, cold", "us": round(statistics.median(cold) * 1e6, 2)}]  # fmt: skip


def same_again(gpu: Gpu) -> list[Row]:
    """The same body measured twice: how far apart are the medians?"""
    n = 512 if gpu.name == "cuda" else 32
    a = torch.randn(n, n, device=gpu.name)

    def body() -> None:
        for _ in range(10):
            a @ a

    found = [perfmagic.syncbench(body, time=0.5) for _ in range(6)]
    rows = []
    for quantity in ("returns_s", "done_s", "span_s"):
        values = [value for value in (getattr(result, quantity) for result in found) if value is not None]
        if values:
            spread = (max(values) - min(values)) / statistics.median(values)
            rows.append({"what": f"six times the same: {quantity}", "spread_percent": round(spread * 100, 2)})
    return rows


SECTIONS = (launch_cost, reading, event_grain, spans, cold_and_warm, same_again)


def main() -> int:
    """Measure, print, keep; 1 where a section failed, 2 where there is no device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda", choices=("cuda", "sim"))
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print(f"torch {torch.__version__} sees no CUDA device: nothing measured")
        return 2
    if options.device == "sim":
        perfmagic.device("sim")
    gpu, rows, failed = Gpu(options.device), [], []
    for section in SECTIONS:
        try:
            with contextlib.redirect_stdout(sys.stderr):
                rows += section(gpu)
        except Exception as error:  # noqa: BLE001, PERF203 - one section that fails must not cost the others
            traceback.print_exc()
            failed.append(f"{section.__name__}: {type(error).__name__}: {error}")
    where = {
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "simulated device, no GPU",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
        "command": " ".join(["python benchmarks/gpu.py", *sys.argv[1:]]),
    }
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"where": where, "rows": rows, "failed": failed}, ensure_ascii=False, indent=1)
        (options.out / "bench.json").write_text(text, encoding="utf-8")
    print(*(f"{key}: {value}" for key, value in where.items()), sep="\n")
    for row in rows:
        print(f"{row['what']:44}", *(f"{key} {value}" for key, value in row.items() if key != "what"))
    print(*(f"FAILED {line}" for line in failed), sep="\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
