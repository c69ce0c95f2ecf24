"""Small sound files of every kind that perfmagic opens, and everything that what they hold can be shown as."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import perfmagic
from perfmagic.analysis.bench.result import BenchSummary, summarise
from perfmagic.base.errors import PerfmagicError
from perfmagic.results import BenchResult, CompareResult, MemoryResult, RanksResult, RanksSweep, SweepResult
from perfmagic.results.timeline import TimelineResult
from perfmagic.trace.columns import NONE, PathMarks, Remark
from perfmagic.trace.model import Cell, Collective, DeviceInfo, LaunchShape, Trace, TraceMeta, make_trace
from perfmagic.trace.paths import NOWHERE, Paths, UserFunction
from perfmagic.trace.samples import ClockRecord
from tests.analysis.bench.test_result import FULL, VERDICT
from tests.results.test_saved_ranks import ranks_of

MS = 1_000_000
MAIN = 1
SOURCE = "%%timeline\nx = load()\nstep(x)"


def benchmark() -> BenchResult:
    """With everything that a benchmark can hold."""
    samples = np.array([1e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.3e-3, 1.01e-3, 1.04e-3, 1.08e-3])
    times = {"returns_s": samples, "done_s": 2 * samples, "queued_s": samples, "queued_calls": 5, "run_starts": (0, 4)}
    work = {"flop": 2.0, "moved_bytes": 8.0, "held_bytes": 1, "peak_bytes": 2}
    clocks = ClockRecord(0, (1500, 1400), 60, 250.0, ("power cap",), 1)
    around = {"environment": {"python": "3", "cores": 2}, "taken_unix_ns": 1_700_000_000_000_000_000}
    record = replace(FULL, **times, **work, **around, reference_s=(1e-5,) * 8, clocks=(clocks,))
    record = replace(record, settings={"samples": 8, "rel": 0.01})
    return BenchResult.of(summarise(record, VERDICT))


def comparison() -> CompareResult:
    """Of two whose samples were taken in turns, and one that was not."""
    one = replace(benchmark(), round_id="a", session="s")
    return perfmagic.compare(one, replace(one, name="other"), replace(benchmark(), name="third"))


def swept() -> SweepResult:
    """Of two variants."""
    from perfmagic.analysis.bench.sweep import sweep_result

    rows = [[benchmark(), replace(benchmark(), name="other")] for _ in range(3)]
    return SweepResult.of(sweep_result("n", [1, 2, 4], rows))


def timeline() -> Trace:
    """Of every table a few rows: two devices, four streams, copies, a collective, waits, memory, lines of functions."""
    names = ["gemm", "Memcpy HtoD", "ncclAllReduce", "cudaLaunchKernel", "cudaStreamSynchronize", "cudaStreamWaitEvent"]
    names += ["aten::mm", "step", "ReluBackward0", "net.weight", "Allocated", "model.py(3): step"]
    n = 8
    start = np.arange(n) * 2 * MS + MS
    functions = (UserFunction("cell", "In[3]", 1, ((2, "x = load()"), (3, "step(x)")), is_cell=True),)
    functions += (UserFunction("step", "model.py", 2, ((3, "    y = x @ x"),)),)
    at = np.arange(4) * 3 * MS
    paths = Paths(
        parent=np.array([0, 0, 0, 2], np.int32),
        function=np.array([NONE, 0, 0, 1], np.int32),
        line=np.array([0, 2, 3, 3], np.int32),
        functions=functions,
        marks=PathMarks.make({"at_ns": at, "thread": [MAIN] * 4, "path": [1, 2, 3, NOWHERE]}),
        main_thread=MAIN,
        unfollowed=(1,),
    )
    meta = TraceMeta(
        "cell",
        base_unix_ns=1_700_000_000_000_000_000,
        start_ns=1000,
        end_ns=int(start[-1]) + 3 * MS,
        returned_ns=int(start[-1]) + 2 * MS,
        devices=(DeviceInfo(0, "cuda", "NVIDIA H200", "", 2**37, 132, 9), DeviceInfo(1, "sim", "sim:1", "mm 1 ms")),
        races=((2, 3),),
        repairs=(Remark("times", "3 times were repaired", {"times": 3}),),
        notes=(Remark("note", "a note", {}),),
        rank=0,
        world_size=2,
        boot="a",
        monotonic_base_ns=5,
        waited_for_core_ns=10,
        cores=2,
        threads=1,
    )
    return make_trace(
        names,
        meta,
        ops={
            "start_ns": start,
            "end_ns": start + MS,
            "kind": [0, 1, 0, 0, 0, 0, 0, 0],
            "device": [0, 0, 0, 0, 0, 0, 1, 1],
            "stream": [7, 8, 9, 7, 7, 7, 1, 2],
            "name": [0, 1, 2, 0, 0, 0, 0, 0],
            "correlation": range(n),
            "size_bytes": [NONE, 4096, *[NONE] * 6],
            "collective": [NONE, NONE, 0, *[NONE] * 5],
            "sequence": [NONE, NONE, 4, *[NONE] * 5],
            "shape": [0, NONE, NONE, 0, 0, 0, NONE, NONE],
            "forward_ns": [NONE, NONE, NONE, MS, *[NONE] * 4],
        },
        calls={
            "start_ns": [*(start - MS // 2), int(start[-1]) + MS // 2, 3 * MS],
            "end_ns": [*(start - MS // 4), int(start[-1]) + 2 * MS, 3 * MS + 1000],
            "kind": [0] * n + [1, 2],
            "name": [3] * n + [4, 5],
            "thread": [MAIN] * (n + 2),
            "correlation": [*range(n), 100, 101],
        },
        host_ops={
            "start_ns": [*(start - MS // 2 - 1000), 0, 500],
            "end_ns": [*(start - MS // 8), 2 * MS, 3 * MS],
            "kind": [0] * n + [1, 2],
            "name": [6] * n + [7, 11],
            "thread": [MAIN] * (n + 2),
            "shape": [0] * n + [NONE, NONE],
            "dtype": [0] * n + [NONE, NONE],
            "value": [0] * n + [NONE, NONE],
        },
        waits={"at_ns": [3 * MS], "correlation": [101], "stream": [7], "on_stream": [8], "on_correlation": [1]},
        host_waits={"at_ns": [int(start[-1]) + MS // 2], "correlation": [100], "stream": [7]},
        counters={"at_ns": [MS, 2 * MS], "series": [10, 10], "device": [0, 0], "value": [1e6, 2e6]},
        marks={"at_ns": [0, 4 * MS, meta.returned_ns], "line": [2, 3, 0], "top_line": [2, 3, 0]},
        cell=Cell(SOURCE),
        shapes=[LaunchShape((128, 1, 1), (256, 1, 1), 32, 1024)],
        input_shapes=["[[64, 64], [64, 64]]"],
        input_dtypes=['["float", "float"]'],
        input_values=['["", ""]'],
        collectives=[Collective("allreduce", 1024, 1024, "float", 2, "default", (0, 1))],
        paths=paths,
        blocks={
            "order": [0, 2, 3, 5],
            "device": [0, 0, 0, 0],
            "alloc_ns": [0, 2 * MS, 3 * MS, 5 * MS],
            "free_ns": [NONE, 6 * MS, 4 * MS, NONE],
            "free_order": [NONE, 6, 4, NONE],
            "size_bytes": [100, 400, 300, 200],
            "thread": [MAIN] * 4,
            "free_thread": [NONE, MAIN, MAIN, NONE],
            "before": [1, 0, 0, 0],
            "node": [NONE, NONE, 8, NONE],
            "role": [1, 0, 0, 6],
            "holder": [9, NONE, NONE, 9],
        },
    )


def ranks() -> RanksResult:
    """Two, with pings between them."""
    from perfmagic.analysis.ranks.alignment import Ping

    pings = [Ping(0, 1, t, t + 1_000, t + 2_000, r) for r in range(2) for t in (1_000 * (r + 1), 9_000 * (r + 1))]
    return ranks_of(2, boot="host {}", rounds=2).aligned_by(pings)


def rank_sweep() -> RanksSweep:
    """On one and on two."""
    return RanksSweep.of([[ranks_of(1, rounds=2)], [ranks_of(2, rounds=2), ranks_of(2, rounds=3)]], "strong")


def show(result: Any, folder: Path) -> None:
    """Everything that a result can be shown as, and what it is compared with."""
    repr(result)
    result.text()
    result.html()
    json.dumps(result.to_dict(), allow_nan=False)
    result.to_frame()
    if isinstance(result, (BenchSummary, CompareResult, SweepResult)):
        type(result).from_json(result.to_json())
        _show_numbers(result)
    elif isinstance(result, MemoryResult):
        result.svg()
    else:
        result.to_html(folder / "page.html")
        if isinstance(result, TimelineResult):
            _show_trace(result, folder)


def _show_numbers(result: Any) -> None:
    if isinstance(result, BenchSummary):
        repr((result.details, result.bottleneck, result.flop_per_s, result.moved_bytes_per_s))
        show(perfmagic.compare(SOUND_BENCHMARK, result), Path())
    if isinstance(result, SweepResult):
        repr((result.points, result.numeric))


def _show_trace(result: TimelineResult, folder: Path) -> None:
    rows = (result.kernels, result.operators, result.categories, result.steps, result.annotations, result.copies)
    more = (result.collectives, result.queues, result.streams, result.syncs, result.idle_gaps, result.critical_path)
    for table in (*rows, *more, result.overlap, result.phases):
        with suppress(PerfmagicError):  # that a record does not explain is known of sound files, too
            json.dumps(table().to_dict(), allow_nan=False)
    perfmagic.open_trace(result.save(folder / "again.npz"))
    result.save(folder / "again.json")
    memory = MemoryResult(result.trace)
    if not memory.is_empty:
        show(memory, folder)


SOUND_BENCHMARK = benchmark()
