"""Benchmarks below the roofs that are given: where each lies follows from its work and its time."""

import pytest

import perfmagic
from perfmagic.base.errors import OptionError

pytestmark = pytest.mark.slow

PEAKS = perfmagic.Peaks("this machine", flop_per_s={"fp32": 1e12}, bytes_per_s=1e11)


def _bench(name: str, flop: float | None = 2e3, moved_bytes: float | None = 1e3) -> perfmagic.BenchResult:
    return perfmagic.bench(lambda: sum(range(1000)), samples=5, flops=flop, bytes=moved_bytes, name=name)


def test_each_benchmark_lies_where_its_work_and_time_say() -> None:
    one, other = _bench("one"), _bench("other", flop=3e3)
    found = {row.name: row for row in perfmagic.roofline(one, other, peaks=PEAKS).data.operators}
    assert found["one"].flop_per_byte == 2
    assert found["other"].flop_per_byte == 3
    assert found["one"].flop_per_s == pytest.approx(2e3 / one.work_s, rel=1e-3)


def test_the_roof_of_a_benchmark_is_the_lower_of_memory_and_arithmetic() -> None:
    below_slope, below_flat = _bench("slope", flop=2e3), _bench("flat", flop=2e5)
    data = perfmagic.roofline(below_slope, below_flat, peaks=PEAKS).data
    found = {row.name: row for row in data.operators}
    row = found["slope"]  # 2 FLOP/byte at 100 GB/s
    assert row.roof_frac == pytest.approx(row.flop_per_s / 2e11)
    row = found["flat"]  # 200 FLOP/byte would be 20 TFLOP/s; the peak is 1
    assert row.roof_frac == pytest.approx(row.flop_per_s / 1e12)
    assert "of its roof" in perfmagic.roofline(below_slope, peaks=PEAKS).text()


def test_a_sweep_has_a_point_for_each_value() -> None:
    swept = perfmagic.sweep(lambda n: sum(range(n)), [10, 100], samples=5, flops=1e3, bytes=1e2)
    data = perfmagic.roofline(swept, peaks=PEAKS).data
    assert [row.name for row in data.operators] == ["n=10", "n=100"]  # as swept, not by time: numbers follow n


def test_words_speak_of_benchmarks_and_of_no_device_time() -> None:
    result = perfmagic.roofline(_bench("one"), peaks=PEAKS)
    first, about = result.text().splitlines()[:2]
    assert first.replace("\xa0", " ") == "one reaches <1 % of its roof"
    assert about == "  this machine: 1 benchmark, roofs from given peaks"
    assert "of the time" not in result.svg()
    assert "one, " in result.svg()


@pytest.mark.parametrize("lacks", ["flop", "moved_bytes"])
def test_a_benchmark_that_does_not_say_its_work_is_refused(lacks: str) -> None:
    with pytest.raises(OptionError, match="one does not say what it computes and moves"):
        perfmagic.roofline(_bench("one", **{lacks: None}), peaks=PEAKS)


def test_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="needs a benchmark"):
        perfmagic.roofline(peaks=PEAKS)


def test_a_benchmark_of_the_simulated_device_says_so_below_a_gpus_roofs() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(64, device=perfmagic.device())
    measured = perfmagic.bench(lambda: x + x, samples=5, flops=64, bytes=768, name="add")
    (row,) = perfmagic.roofline(measured, peaks=perfmagic.Peaks("H100", {"fp32": 67e12}, 3.35e12)).data.operators
    assert row.name == "add (simulated)"
