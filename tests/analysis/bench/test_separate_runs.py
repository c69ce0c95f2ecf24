"""Benchmarks from separate runs: run-to-run variation widens the interval of their ratio."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmagic.analysis.bench.compare import Comparison, compare
from perfmagic.analysis.bench.result import BenchSummary, summarise
from perfmagic.analysis.verdict import Verdict
from perfmagic.capture.bench.engine import BenchSpec
from perfmagic.capture.bench.interleave import measure_interleaved
from perfmagic.capture.bench.sampling import MOST_FRAC, ReferenceLoop
from perfmagic.trace.model import DeviceInfo
from tests.analysis.bench.test_result import record

pytestmark = pytest.mark.slow

N = 200


def series(median: float, seed: int = 0, n: int = N) -> np.ndarray:
    return median * (1 + 0.01 * np.random.default_rng(seed).standard_normal(n))


def result(samples: np.ndarray, loop_s: float = 0.0, **fields: Any) -> BenchSummary:
    """loop_s: what the fixed loop took beside each sample, 0 where it was not measured."""
    reference_s = tuple(series(loop_s, seed=9, n=len(samples))) if loop_s else ()
    return summarise(record(samples, reference_s=reference_s, **fields))


def compared(first: BenchSummary, second: BenchSummary, quantity: str | None = None) -> Comparison:
    return compare(replace(first, name="A"), replace(second, name="B"), quantity=quantity)[0]


def test_a_host_that_was_slower_in_one_of_them_makes_no_verdict() -> None:
    before, after = result(series(1e-3), 20e-6), result(series(1.3e-3, 1), 26e-6)
    found = compared(before, after)
    assert found.verdict == "unclear"
    assert found.ratio_low < 1 / 1.3 < 1.0 < 1.3**0.25 < found.ratio_high < 1.09
    assert (
        "a fixed loop beside the samples ran 1.30 times as fast during the first of them: interleave them" in found.why
    )
    assert "ran 1.30 times as fast during the second of them" in compared(after, before).why
    assert found.why.endswith(", or repeat each with runs=5")


def test_a_slower_body_on_a_host_of_one_speed_is_slower() -> None:
    found = compared(result(series(1e-3), 20e-6), result(series(1.3e-3, 1), 20e-6))
    assert (found.verdict, found.why.split(";")[0]) == ("slower", "1 separate run each")
    assert found.ratio == pytest.approx(1 / 1.3, rel=0.01)


@pytest.mark.parametrize(("loop_s", "verdict", "band"), [(20e-6, "unclear", 0.1), (0.0, "slower", 0.03)])
def test_ten_percent_prove_nothing_where_the_host_does_the_work(loop_s: float, verdict: str, band: float) -> None:
    found = compared(result(series(1e-3), loop_s), result(series(1.1e-3, 1), loop_s))
    assert (found.verdict, found.band_frac) == (verdict, band)
    assert compared(result(series(1e-3), loop_s), result(series(1.15e-3, 1), loop_s)).verdict == "slower"


def test_a_difference_larger_than_that_of_the_host_is_said() -> None:
    assert compared(result(series(1e-3), 20e-6), result(series(3e-3, 1), 26e-6)).verdict == "slower"


def test_a_host_that_was_faster_by_as_much_as_the_body_is_slower_makes_no_verdict() -> None:
    assert compared(result(series(1e-3), 26e-6), result(series(1e-3, 1), 20e-6)).verdict == "unclear"


def test_without_readings_the_samples_alone_are_judged() -> None:
    assert compared(result(series(1e-3)), result(series(1.3e-3, 1), 26e-6)).verdict == "slower"
    never = replace(result(series(1e-3), 20e-6), reference_s=(0.0,) * N)
    assert compared(never, result(series(1.3e-3, 1), 26e-6)).verdict == "slower"
    other = {"environment": {"python": "3.9"}}
    assert compared(result(series(1e-3), 20e-6, **other), result(series(1.3e-3, 1), 26e-6)).verdict == "slower"


def test_a_reading_more_or_less_than_samples_counts_by_its_median() -> None:
    before, after = result(series(1e-3), 20e-6), result(series(1.3e-3, 1), 26e-6)
    assert compared(replace(before, reference_s=before.reference_s[:-1]), after).verdict == "unclear"


def test_runs_that_overlap_make_no_verdict() -> None:
    starts = tuple(range(0, N, N // 4))
    each = N // 4

    def runs(*medians: float, seed: int) -> BenchSummary:
        samples = np.concatenate([series(median, seed + i, each) for i, median in enumerate(medians)])
        return result(samples, run_starts=starts)

    close = compared(runs(1.0, 1.0, 1.0, 1.2, seed=1), runs(1.12, 1.12, 1.12, 1.12, seed=5))
    assert (close.verdict, close.why.split(":")[0]) == ("unclear", "their whole runs overlap")
    parted = compared(runs(1.0, 1.01, 1.02, 1.0, seed=1), runs(1.12, 1.1, 1.12, 1.12, seed=5))
    assert (parted.verdict, parted.why.split(";")[0]) == ("slower", "4 separate runs each")
    assert parted.ratio_low == pytest.approx(1.0 / 1.12, rel=0.02)
    assert parted.ratio_high == pytest.approx(1.02 / 1.1, rel=0.02)
    beside_one = compared(runs(1.0, 1.0, 1.0, 1.3, seed=1), result(series(1.12, 5)))
    assert (beside_one.verdict, beside_one.why.split(":")[0]) == ("unclear", "their whole runs overlap")
    parted = compared(runs(1.0, 1.0, 1.0, 1.0, seed=1), result(series(1.2, 5)))
    assert parted.why.startswith("4 and 1 separate runs")


@pytest.mark.parametrize(
    ("kind", "simulated", "verdict"),
    [
        ("device-bound", False, "slower"),
        ("host-bound", False, "unclear"),
        ("device-bound", True, "unclear"),
        ("", False, "unclear"),
    ],
)
def test_the_host_matters_for_done_where_it_does_the_work(kind: str, simulated: bool, verdict: str) -> None:
    device = DeviceInfo(0, "sim" if simulated else "cuda", "a device")

    def of(median: float, loop_s: float, seed: int) -> BenchSummary:
        samples = series(median, seed)
        found = result(samples / 2, loop_s, done_s=samples, devices=(device,))
        return replace(found, verdict=Verdict(kind, 0.95 if kind == "device-bound" else 0.5, "") if kind else None)

    assert compared(of(1e-3, 20e-6, 0), of(1.3e-3, 26e-6, 1), "done").verdict == verdict
    assert compared(of(1e-3, 20e-6, 0), of(1.3e-3, 26e-6, 1), "returns").verdict == "unclear"


def test_the_loop_is_read_beside_each_sample_and_takes_two_percent_at_most() -> None:
    now_ns = 0

    def clock() -> int:
        nonlocal now_ns
        now_ns += 10_000
        return now_ns

    loop = ReferenceLoop(clock)
    for _ in range(1000):
        loop.beside(100_000)
    assert len(loop.taken_ns) == 1000
    read = now_ns / 2  # two looks at the clock a loop
    assert 0.8 * MOST_FRAC <= read / (1000 * 100_000) <= 1.1 * MOST_FRAC
    for _ in range(10):
        loop.beside(10_000_000)
    assert now_ns / 2 == read + 10 * 2 * 10_000


def test_a_loop_that_was_interrupted_counts_neither_long_nor_often() -> None:
    loops = iter([10_000, 10_000, 4_000_000, 10_000, 4_000_000, 4_000_000] + 1000 * [10_000])
    now_ns, began = 0, False

    def clock() -> int:
        nonlocal now_ns, began
        now_ns += next(loops) if began else 0
        began = not began
        return now_ns

    loop = ReferenceLoop(clock)
    for _ in range(100):
        loop.beside(100_000)
    # ten samples have room for a reading; one of two loops may be interrupted, and both are seldom
    assert sum(taken > 10_000 for taken in loop.taken_ns) == 10
    assert set(loop.taken_ns) == {10_000, 4_000_000}


def test_a_benchmark_carries_its_readings_into_its_file_and_back() -> None:
    specs = [BenchSpec(samples=12), BenchSpec(samples=12)]
    found = summarise(measure_interleaved([lambda: None] * 2, specs, decide_s=0)[0])
    assert len(found.reference_s) == len(found.returns.samples_s) == 12
    assert all(1e-6 < s < 10 for s in found.reference_s)
    assert BenchSummary.from_json(found.to_json()).reference_s == found.reference_s


def test_a_difference_below_what_the_loop_is_known_to_proves_nothing() -> None:
    """Two bodies of nothing: each run subtracted a loop of its own."""
    one, other = (result(series(s, seed, 6), calls_per_sample=100_000) for s, seed in ((0.2e-9, 1), (0.9e-9, 2)))
    found = compared(one, other)
    assert (found.verdict, "loop around a call" in found.why) == ("unclear", True)
    longer = [result(series(s, seed, 6), calls_per_sample=100_000) for s, seed in ((20e-9, 1), (90e-9, 2))]
    assert compared(*longer).verdict == "slower"


COMPARISONS = 400


class NoisyClock:
    """A machine on which all bodies take 100 ms, times its speed: noise, drift, steps and interruptions."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._rho, self._drift = self._random.choice([0.0, 0.3, 0.6, 0.9]), self._random.choice([0.0, 0.05, 0.3])
        self._noise, self._step_at, self._calls = 0.0, self._random.integers(10, 400), 0
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def body(self) -> None:
        """One call."""
        self._calls += 1
        self._noise = self._rho * self._noise + (1 - self._rho**2) ** 0.5 * self._random.standard_normal()
        speed = 1 + 0.03 * self._noise + self._drift * self._calls / 200
        speed *= 1.5 if self._calls > self._step_at else 1.0
        speed *= self._random.uniform(1.3, 3.0) if self._random.random() < 0.05 else 1.0
        self.now_ns += round(100e6 * max(speed, 0.5))


@pytest.mark.parametrize("part", range(4))
def test_equal_code_is_never_called_faster_or_slower(part: int) -> None:
    verdicts = []
    for seed in range(part * COMPARISONS // 4, (part + 1) * COMPARISONS // 4):
        clock = NoisyClock(seed)
        specs = [BenchSpec(name=name, warmup=1) for name in "ab"]
        records = measure_interleaved([clock.body, clock.body], specs, clock_ns=clock)
        verdicts.append(compare(*map(summarise, records))[0].verdict)
    assert len(verdicts) == COMPARISONS // 4
    assert set(verdicts) <= {"same", "unclear"}
