"""The gate for CI: when a second recording or benchmark fails it, and when nothing can be said."""

from dataclasses import replace

import numpy as np
import pytest

from perfmagic.analysis.bench.compare import CompareSummary, compare
from perfmagic.analysis.diff.diff import TraceDiff, jobs_diff, sides, trace_diff
from perfmagic.analysis.gate import Gate, gate_benchmarks, gate_steps
from perfmagic.base.kinds import VIRTUAL_CLOCK, PredictedFor
from perfmagic.trace.columns import HostKind
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import DeviceInfo, Trace
from tests.analysis.bench.test_compare import result, series
from tests.analysis.build import Builder
from tests.trace.recorded import as_bytes, event

pytestmark = pytest.mark.slow
CPU = (DeviceInfo(0, "cpu", "CPU"),)


def on_cpu(lengths_us: list[float], names: tuple[str, ...] = ("aten::mm",)) -> Trace:
    """Steps of such lengths on the CPU alone, each with the same operators."""
    b, at = Builder(), 0.0
    for number, length in enumerate(lengths_us):
        for i, name in enumerate(names):
            b.host_op(at + i * length / len(names), at + (i + 0.9) * length / len(names), name)
        b.host_op(at, at + length, f"ProfilerStep#{number + 3}", kind=HostKind.ANNOTATION)
        at += length
    return b.trace(devices=CPU)


def on_gpu(kernel_us: float, n: int = 12, *, marked: bool = True, **device: object) -> Trace:
    """Steps that Python queues in 10 µs each, ahead of kernels of such a length."""
    b = Builder()
    for i in range(n):
        b.host_op(10 * i, 10 * i + 9, "aten::mm")
        b.op(5 + kernel_us * i, 5 + kernel_us * (i + 1), launch=10 * i + 1)
        if marked:
            b.host_op(10 * i, 10 * i + 10, f"ProfilerStep#{i + 3}", kind=HostKind.ANNOTATION)
    return b.trace(devices=(replace(DeviceInfo(0, "cuda", "Test GPU"), **device),))


def judged(first: Trace, second: Trace, limit: float = 0.05) -> Gate:
    return gate_steps(trace_diff(first, second), limit)


def noisy(middle_us: float, seed: int, n: int = 20, noise: float = 0.03) -> list[float]:
    return (middle_us * (1 + noise * np.random.default_rng(seed).standard_normal(n))).tolist()


def test_a_slower_device_fails_though_python_ran_ahead_of_it() -> None:
    found = judged(on_gpu(100), on_gpu(110))
    assert (found.verdict, found.status) == ("slower", 1)
    said = "slower: a step takes 110 µs in B, 100 µs in A: +10 %, the limit is 5 %; 11 and 11 steps"
    assert found.sentence.replace("\u00a0", " ") == said
    assert judged(on_gpu(110), on_gpu(100)).verdict == "not slower"


@pytest.mark.parametrize(
    ("now_us", "limit", "verdict"),
    [(100, 0.05, "not slower"), (104, 0.05, "not slower"), (106, 0.05, "slower"), (102, 0.0, "unclear")],
)
def test_the_limit_decides_but_not_below_what_two_runs_differ_by(now_us: float, limit: float, verdict: str) -> None:
    found = judged(on_gpu(100), on_gpu(now_us), limit)
    assert found.verdict == verdict
    assert ("two runs of one program differ by up to 3" in found.sentence) == (verdict == "unclear")


def test_times_of_a_virtual_clock_are_compared_exactly() -> None:
    clock = {"kind": "sim", "name": "sim", "pace": VIRTUAL_CLOCK}
    assert judged(on_gpu(100, **clock), on_gpu(101, **clock), 0).verdict == "slower"
    assert judged(on_gpu(100, n=2, **clock), on_gpu(101, n=2, **clock), 0).verdict == "slower"
    assert judged(on_gpu(100, **clock), on_gpu(100, **clock), 0).verdict == "not slower"


def test_a_prediction_fails_only_beyond_what_its_model_leaves_open() -> None:
    def predicted(kernel_us: float, gpu: str = "H100 SXM") -> Trace:
        return on_gpu(kernel_us, kind="sim", name="sim", pace=VIRTUAL_CLOCK, predicted=PredictedFor(gpu, 1.4, ""))

    assert judged(predicted(100), predicted(150)).verdict == "slower"
    assert judged(predicted(100), predicted(100)).verdict == "not slower"
    assert judged(predicted(100), predicted(100, "A100 SXM4 80 GB")).status == 2


def test_steps_of_the_cpu_alone_are_compared_by_their_length() -> None:
    assert judged(on_cpu(noisy(100, 1)), on_cpu(noisy(130, 2))).verdict == "slower"
    assert judged(on_cpu(noisy(100, 1)), on_cpu(noisy(80, 2))).verdict == "not slower"


def test_few_steps_and_recordings_without_steps_pass_and_say_so() -> None:
    for first, second, why in (
        (on_cpu([100, 101, 99]), on_cpu([200, 201, 199]), "record 4 or more whole steps of each"),
        (on_gpu(100, marked=False), on_gpu(200, marked=False), "mark steps, with prof.step()"),
        (on_gpu(100), on_gpu(200, marked=False), "no steps are marked in both"),
    ):
        found = judged(first, second)
        assert (found.verdict, found.status) == ("unclear", 0)
        assert found.sentence.startswith("unclear, which passes: ")
        assert why in found.sentence


def typed(dtype: str, shape: list[int]) -> Trace:
    events = []
    for i in range(6):
        at = 100 * i
        given = {"Input Dims": [shape, shape], "Input type": [dtype, dtype]}
        events += [
            event("user_annotation", f"ProfilerStep#{i + 3}", at, 100, pid=99, tid=99),
            event("cpu_op", "aten::mm", at, 90, pid=99, tid=99) | {"args": given},
        ]
    return read_trace(as_bytes(events))


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (on_gpu(100), on_gpu(100, name="Other GPU"), "A ran on Test GPU, B on Other GPU"),
        (on_gpu(100), on_cpu([100] * 12), "B has no device ops"),
        (on_cpu([100] * 12), on_cpu([100] * 12, ("aten::conv2d",)), "no operators with the same inputs in common"),
        (typed("float", [8, 8]), typed("c10::BFloat16", [8, 8]), "inputs of other types"),
        (typed("float", [8, 8]), typed("float", [9, 9]), "no operators with the same inputs in common"),
        (replace(on_gpu(9), meta=replace(on_gpu(9).meta, failed="E")), on_gpu(9), "the code of A failed"),
    ],
)
def test_other_work_is_never_judged(first: Trace, second: Trace, why: str) -> None:
    found = judged(first, second)
    assert (found.verdict, found.status) == ("not comparable", 2)
    assert why in found.sentence


def job(*lengths: list[float], world_size: int = 2) -> dict[int, Trace]:
    traces = [on_cpu(each) for each in lengths]
    return {i: replace(t, meta=replace(t.meta, rank=i, world_size=world_size)) for i, t in enumerate(traces)}


def jobs(first: dict[int, Trace], second: dict[int, Trace]) -> TraceDiff:
    pairs = {rank: sides(a, second[rank], ("A", "B"), ("", ""), (None, None)) for rank, a in first.items()}
    return jobs_diff(*({rank: pair[i] for rank, pair in pairs.items()} for i in (0, 1)))


def test_a_job_takes_as_long_as_its_slowest_rank() -> None:
    even = job([100] * 8, [100] * 8)
    found = jobs(even, job([100] * 8, [150] * 8))
    assert found.step_times.b_ns == (150_000,) * 8
    assert gate_steps(found, 0.05).verdict == "slower"
    assert gate_steps(jobs(even, job([100] * 8, [100] * 8, world_size=4)), 0.05).status == 2


def test_of_equal_programs_none_fails_and_a_tenth_more_is_found() -> None:
    """60 pairs of recordings with 20 steps of 3 % noise, and as many with the second a tenth slower."""
    equal, slower = (
        [judged(on_cpu(noisy(100, i)), on_cpu(noisy(now, 1000 + i))).verdict for i in range(60)] for now in (100, 112)
    )
    assert equal.count("slower") == 0
    assert slower.count("slower") >= 45
    assert slower.count("not slower") == 0


def test_steps_that_a_busy_machine_made_longer_do_not_fail() -> None:
    calm = on_cpu(noisy(100, 1))
    assert judged(calm, on_cpu(noisy(140, 2))).verdict == "slower"
    busy = judged(calm, on_cpu([*noisy(140, 2), 95]))
    assert busy.verdict == "unclear"
    assert "the quickest steps differ by less than the limit" in busy.sentence


def test_benchmarks_are_compared_by_the_interval_of_their_ratio() -> None:
    def gate(now_s: float, **fields: object) -> Gate:
        pair = result(series(1e-3), "before"), replace(result(series(now_s, seed=1), "after"), **fields)
        return gate_benchmarks(CompareSummary(compare(*pair), pair), 0.05)

    assert [gate(now_s).verdict for now_s in (1e-3, 1.2e-3, 1.05e-3)] == ["not slower", "slower", "unclear"]
    assert gate(1.2e-3).sentence.startswith(
        "slower: a call takes 1.20\u00a0ms in after, 1.00\u00a0ms in before (returns)"
    )
    assert gate(1e-3, cold_bytes=1 << 20).status == 2


def test_benchmarks_of_other_machines_are_not_judged() -> None:
    here = {"system": "Linux", "machine": "x86_64", "cores": 2, "processor": "Fast", "threads": 2, "driver": "550"}
    for changed in ({"processor": "Faster"}, {"threads": 1}, {"driver": "560"}, {"cores": 4}):
        pair = [replace(result(series(1e-3), n), environment=e) for n, e in (("a", here), ("b", {**here, **changed}))]
        found = gate_benchmarks(CompareSummary(compare(*pair), tuple(pair)), 0.05)
        assert found.status == 2, changed
        assert str(next(iter(changed.values()))) in found.sentence
