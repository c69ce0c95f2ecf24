"""Comparisons with a prediction: what its error leaves open is no difference."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

import perfmagic
from perfmagic.analysis.bench.compare import compare
from perfmagic.base.kinds import HOST_MEASURED, HOST_SPREAD
from perfmagic.predict.ratio import HOST, ratio_range
from perfmagic.results import TimelineResult
from perfmagic.results.bench import BenchResult
from perfmagic.trace.samples import Float64
from tests.sim.test_named_gpu import recorded


def bench(gpu: str, n: int = 1, size: int = 2048, *, synced: bool = True, name: str = "") -> BenchResult:
    x = torch.ones(size, size, device=perfmagic.device(gpu))
    measure = perfmagic.syncbench if synced else perfmagic.bench
    return measure(lambda: [x @ x for _ in range(n)], name=name or f"{n} on {gpu}")


def verdict(a: BenchResult, b: BenchResult) -> str:
    return compare(a, b)[0].verdict


def measured(result: BenchResult, label: str = "NVIDIA A100-SXM4-80GB") -> BenchResult:
    """The same as if it had been measured."""
    return replace(result, device_label=label, simulated=False, predicted_for=None)


def with_host(result: BenchResult, noise: Float64) -> BenchResult:
    """The same with a measured host, and samples that are so much longer than the median."""
    done = result.done
    assert done is not None
    noisy = replace(done, samples_s=tuple((noise * done.median_s).tolist()))
    return replace(result, device_label=f"{result.device_label} · {HOST_MEASURED}", done=noisy)


def test_the_error_of_an_operator_is_the_same_in_both_runs() -> None:
    assert ratio_range({"mm": 10.0}, {"mm": 8.0}, 1.4) == (1.25, 1.25)
    low, high = ratio_range({"mm": 10.0}, {"softmax": 8.0}, 1.4)
    assert (low, high) == pytest.approx((1.25 / 1.4**2, 1.25 * 1.4**2))
    low, high = ratio_range({"mm": 10.0, HOST: 2.0}, {"mm": 8.0, HOST: 2.0}, 1.4)
    assert low == pytest.approx((10 / 1.4 + 2 * HOST_SPREAD) / (8 / 1.4 + 2 * HOST_SPREAD))
    assert high == pytest.approx((14 + 2 / HOST_SPREAD) / (8 * 1.4 + 2 / HOST_SPREAD))


def test_variants_on_one_predicted_gpu_are_told_apart() -> None:
    few, more = bench("H100", 10), bench("H100", 11)
    found = compare(few, more)[0]
    assert found.verdict == "slower"
    assert found.words == "11 on H100 is predicted to be slower than 10 on H100"
    assert found.times.replace("\xa0", " ").count("(predicted)") == 2
    assert "times as fast" not in found.sentence
    assert verdict(few, bench("H100", 10, name="again")) == "same"


def test_a_difference_within_the_noise_of_a_measured_host_is_unclear() -> None:
    few, more = bench("H100", 10), bench("H100", 11)
    steady = [with_host(result, np.ones(40)) for result in (few, more)]
    assert verdict(*steady) == "slower"
    assert verdict(*(with_host(result, np.tile([0.5, 1.5], 20)) for result in (few, more))) == "unclear"
    assert verdict(*(with_host(result, np.ones(1)) for result in (few, more))) == "unclear"
    found = compare(few, steady[1])[0]
    assert (found.verdict, found.ratio_high) == ("unclear", pytest.approx(found.ratio * HOST_SPREAD))
    assert "only recordings can tell" in found.sentence


@pytest.mark.slow
def test_two_gpus_are_told_apart_only_beyond_the_interval() -> None:
    assert verdict(bench("T4", 5), bench("H100", 5)) == "faster"
    near = compare(bench("A100", 20, synced=False), bench("A30", 20, 1024, synced=False))[0]
    assert near.ratio_low is not None
    assert near.ratio == pytest.approx(near.ratio_low * 1.5, rel=1e-6)


def test_a_prediction_within_its_error_of_a_measurement_is_unclear() -> None:
    predicted = bench("A100", 20)
    found = compare(measured(bench("A100", 17)), predicted)[0]
    assert found.verdict == "unclear"
    assert "only recordings can tell" in found.sentence
    assert found.predicted == "name"
    assert found.times.count("(predicted)") == 1
    assert verdict(measured(bench("A100", 50)), predicted) == "faster"


def test_measurements_are_compared_as_before() -> None:
    device = perfmagic.device(clock="virtual", pace="mm=1ms")
    x = torch.ones(64, 64, device=device)
    a, b = (perfmagic.syncbench(lambda n=n: [x @ x for _ in range(n)], samples=8) for n in (1, 2))
    found = compare(a, b)[0]
    assert (found.predicted, found.verdict) == ("none", "slower")


def timeline(gpu: str, n: int, what: Callable[[torch.Tensor], object] = lambda x: x @ x) -> TimelineResult:
    x = torch.ones(2048, 2048, device=perfmagic.device(gpu))
    return recorded(lambda: [what(x) for _ in range(n)])


def test_timelines_of_two_gpus_say_how_many_times_as_fast_one_is() -> None:
    a, b = timeline("A100", 50), timeline("H100", 50)
    found = perfmagic.compare(a, b)
    assert found.no_verdict == ""
    ratio = a.doc.header.total_ns / b.doc.header.total_ns
    low, high = (f"{ratio * by:.2g}" for by in (1 / 1.4, 1.4))
    assert found.total.startswith(
        f"H100 SXM is predicted to be {ratio:.2g} × as fast as A100 SXM4 80 GB ({low} to {high} ×"
    )
    assert perfmagic.compare(b, a).total.partition("(")[0] == found.total.partition("(")[0]


@pytest.mark.slow
def test_two_gpus_within_the_interval_leave_open_which_is_faster() -> None:
    found = perfmagic.compare(timeline("H200", 50, torch.relu), timeline("H100", 50, torch.relu))
    assert found.no_verdict.startswith("which is faster is unclear: A on H200 SXM takes × ")


def test_timelines_on_one_predicted_gpu_are_compared() -> None:
    found = perfmagic.compare(timeline("H100", 10), timeline("H100", 12)).to_dict()
    assert found["no_verdict"] == ""
    assert found["headline"].startswith("predicted for H100 SXM: B is ")
    assert "longer" in found["headline"]


def test_a_difference_within_the_interval_of_one_gpu_is_no_verdict() -> None:
    found = perfmagic.compare(timeline("H100", 10, torch.relu), timeline("H100", 11, torch.exp)).to_dict()
    assert "as far as its model says" in found["no_verdict"]
    found = perfmagic.compare(timeline("H100", 10, torch.relu), timeline("H100", 40, torch.exp)).to_dict()
    assert "as far as its model says" not in found["no_verdict"]


def test_layouts_that_the_model_does_not_know_are_said() -> None:
    device = perfmagic.device("H100")
    plain = torch.nn.Conv2d(8, 8, 3, device=device)
    x = torch.ones(2, 8, 16, 16, device=device)
    images = x.to(memory_format=torch.channels_last)

    def run(data: torch.Tensor) -> TimelineResult:
        with perfmagic.timeline() as t:
            plain(data)
        return t.result

    a, b = run(x), run(images)
    assert "1 convolution took a channels_last tensor: the model ignores layouts" in b.text(details=True)
    said = "only B has channels_last tensors: a GPU takes another time for them, the model does not"
    for first, second, shown in ((a, b, True), (a, a, False), (b, b, False)):
        assert (said in perfmagic.compare(first, second).notes) is shown
    programs = {"A": x, "B": images}
    benches = [perfmagic.syncbench(lambda data=data: plain(data), name=name) for name, data in programs.items()]
    assert said in perfmagic.compare(*benches).comparisons[0].note
