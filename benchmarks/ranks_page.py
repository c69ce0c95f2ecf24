"""How long does the page of several ranks take, from their traces to the first picture, and how long a redraw?

    python benchmarks/ranks_page.py [--quick]

Synthetic ranks of one host: every tenth op is a collective, to which one rank comes late. "python" is from traces in
memory to the data of the page: matching, clocks, findings, rows and each rank's own timeline. "painted" is Chromium
without a GPU, from the data to the first picture. A redraw is one frame at rest, a pixel read back, the median of 30.
"""

import argparse
import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pages

from perfmagic.results import RanksResult, TimelineResult
from perfmagic.results.ranks import grouped
from perfmagic.trace.columns import CallKind, HostKind, OpKind
from perfmagic.trace.model import DeviceInfo, Trace, TraceMeta, make_trace
from perfmagic.view.ranks.picture import ranks_svg

ZOOMS = (1.0, 0.1, 0.01)
NAMES = ("sgemm_128x64", "elementwise", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "cudaLaunchKernel", "aten::linear")
EVERY = 10  # ops to a collective


@dataclass(frozen=True)
class Case:
    """So many ranks of so many ops, and what their page may take until it is painted."""

    ranks: int
    ops: int
    painted_s: float


CASES = (Case(4, 10_000, 1.0), Case(64, 10_000, 3.0))


def synthetic(n_ranks: int, n_ops: int) -> list[Trace]:
    """Ranks that compute, each for its own time, and meet in every tenth op."""
    random = np.random.default_rng(7)
    rounds, inside = n_ops // EVERY, EVERY - 1
    length = random.gamma(2.0, 9000.0, (n_ranks, rounds, inside)).astype(np.int64) + 1000
    length[n_ranks // 2] += 4000  # the straggler
    work = length.sum(axis=2) + 500 * inside
    came = np.zeros((n_ranks, rounds), np.int64)
    left = np.zeros(rounds, np.int64)
    began = np.zeros((n_ranks, rounds), np.int64)
    at = np.zeros(n_ranks, np.int64)
    for k in range(rounds):
        began[:, k] = at
        came[:, k] = at + work[:, k]
        left[k] = came[:, k].max() + 30_000
        at[:] = left[k] + 500
    return [_trace(r, n_ranks, began[r], length[r], came[r], left) for r in range(n_ranks)]


def _trace(rank: int, n_ranks: int, began: Any, length: Any, came: Any, left: Any) -> Trace:
    rounds, inside = length.shape
    steps = length + 500
    start = began[:, None] + np.cumsum(steps, axis=1) - steps
    starts = np.concatenate([start.ravel(), came])
    ends = np.concatenate([(start + length).ravel(), left])
    name = np.concatenate([np.tile(np.arange(inside) % 2, rounds), np.full(rounds, 2)])
    stream = np.concatenate([np.full(rounds * inside, 7), np.full(rounds, 9)])
    n = len(starts)
    launch = np.maximum(0, starts - 200_000)
    return make_trace(
        NAMES,
        TraceMeta(
            "synthetic",
            end_ns=int(left[-1]),
            devices=(DeviceInfo(0, "cuda", "synthetic record"),),
            rank=rank,
            world_size=n_ranks,
            boot="one",
            monotonic_base_ns=0,
        ),
        ops={
            "start_ns": starts, "end_ns": ends, "kind": np.full(n, int(OpKind.KERNEL)), "stream": stream, "name": name,
            "correlation": np.arange(n),
        },
        calls={
            "start_ns": launch, "end_ns": launch + 800, "kind": np.full(n, int(CallKind.LAUNCH)),
            "name": np.full(n, 3), "correlation": np.arange(n),
        },
        host_ops={
            "start_ns": launch, "end_ns": launch + 1000, "kind": np.full(n, int(HostKind.OP)), "name": np.full(n, 4),
        },
    )  # fmt: skip


STILL = """const still = zooms.map((zoom) => redraws(zoom, () => view.paint(false)));
  const hover = performance.now();
  view.hover(500, 40);
  view.paint(false);
  rasterised();
  return {first, still, hover: performance.now() - hover};"""


def measure(case: Case, browser: Any, frames: int) -> dict[str, Any]:
    """One case in a new page."""
    timelines = [TimelineResult(trace) for trace in synthetic(case.ranks, case.ops)]
    since, since_cpu = time.perf_counter(), time.process_time()
    result: RanksResult = grouped(timelines)[0][0]
    wire = result.wire
    python_s, python_cpu_s = time.perf_counter() - since, time.process_time() - since_cpu
    since = time.perf_counter()
    svg = ranks_svg(result.doc)
    svg_s = time.perf_counter() - since
    found = pages.measured(browser, wire, STILL, width_px=1240, zooms=ZOOMS, frames=frames)
    painted_s = python_s + found["first"] / 1e3
    return {
        "case": f"{case.ranks} ranks × {case.ops:,} ops",
        "meetings": len(result.meetings()),
        "payload_MB": round(len(wire.payload) / 1e6, 2),
        "python_s": round(python_s, 2),
        "python_cpu_s": round(python_cpu_s, 2),
        "painted_after_s": round(found["first"] / 1e3, 3),
        "all_s": round(painted_s, 2),
        "static_picture_s": round(svg_s, 2),
        "static_picture_kB": round(len(svg) / 1e3, 1),
        "still_ms": pages.medians_ms(ZOOMS, found["still"]),
        "hover_ms": round(found["hover"], 1),
        "within": painted_s <= case.painted_s,
    }


def main() -> None:
    """Print one JSON object a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="five frames, the first case only")
    options = parser.parse_args()
    with pages.chromium() as browser:
        for case in CASES[:1] if options.quick else CASES:
            print(json.dumps(measure(case, browser, 5 if options.quick else 30), ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
