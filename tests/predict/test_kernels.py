"""Times of calls: laws that hold whatever was fitted, and recordings that the fit has not seen."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.predict import ROWS, Fit, predicted_ns, read
from perfmagic.base.work import Inputs
from perfmagic.predict.calls import Call, call_of
from perfmagic.predict.gpus import GPUS, Gpu, gpu_named
from perfmagic.predict.kernels import SPREAD, SPREAD_UNSEEN, data_sheet_ns, fitted, spread_of, times_ns

GPU = st.sampled_from(GPUS)
LENGTH = st.integers(1, 20_000)
DTYPE = st.sampled_from(["fp32", "tf32", "fp16", "bf16", "fp64"])


def ns(call: Call, gpu: Gpu) -> float:
    return float(times_ns([call], gpu)[0])


def product(batch: int, m: int, n: int, k: int, dtype: str) -> Call:
    size = 2.0 * batch * (m * k + k * n + m * n)
    return Call("product", dtype, 2.0 * batch * m * n * k, size, ((batch, m, n, k),))


@given(GPU, st.sampled_from(["elementwise", "reduce", "softmax", "copy", "norm"]), st.floats(0, 1e10), st.floats(1, 10))
def test_more_bytes_are_never_faster(gpu: Gpu, kind: str, size: float, more: float) -> None:
    assert ns(Call(kind, size_bytes=size), gpu) <= ns(Call(kind, size_bytes=size * more), gpu)


def skinny(m: int, n: int = 4096, k: int = 4096) -> Call:
    call = call_of("aten::mm", Inputs(((m, k), (k, n)), ("c10::BFloat16", "c10::BFloat16")))
    assert call is not None
    return call


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_more_rows_are_never_faster(gpu: Gpu) -> None:
    times = times_ns([skinny(m) for m in range(1, 300)], gpu)
    assert np.all(np.diff(times) >= 0)


def test_a_token_of_7b_takes_what_gpt_fast_publishes() -> None:
    """9.5 ms on an A100 80 GB, of which the products are all but the norms, attention and what is between."""
    layer = [(3 * 4096, 4096), (4096, 4096), *[(11008, 4096)] * 2, (4096, 11008)]
    calls = [skinny(1, n, k) for n, k in layer] * 32 + [skinny(1, 32000)]
    assert 8.5e6 < float(times_ns(calls, gpu_named("A100 SXM4 80 GB")).sum()) < 9.5e6


@given(GPU, DTYPE, st.tuples(st.integers(1, 64), LENGTH, LENGTH, LENGTH), st.integers(0, 3), LENGTH)
def test_a_larger_product_is_never_faster(
    gpu: Gpu, dtype: str, sizes: tuple[int, int, int, int], which: int, more: int
) -> None:
    larger = [size + more * (at == which) for at, size in enumerate(sizes)]
    assert ns(product(*sizes, dtype), gpu) <= ns(product(*larger, dtype), gpu) * (1 + 1e-12)


@given(GPU, st.integers(1, 4000), st.integers(1, 4000))
def test_more_blocks_of_attention_are_never_faster(gpu: Gpu, blocks: int, more: int) -> None:
    few, many = (Call("attention", "bf16", 1e8 * n, 1e5 * n, blocks=n) for n in (blocks, blocks + more))
    assert ns(few, gpu) <= ns(many, gpu) * (1 + 1e-12)


@given(GPU, DTYPE, st.tuples(st.integers(1, 8), LENGTH, LENGTH, LENGTH))
def test_a_product_takes_longer_than_the_data_sheet_says(
    gpu: Gpu, dtype: str, sizes: tuple[int, int, int, int]
) -> None:
    call = product(*sizes, dtype)
    arithmetic = Call(call.kind, dtype, call.flop, 0.0, call.products)
    assert ns(arithmetic, gpu) > data_sheet_ns(arithmetic, gpu)


def test_calls_together_take_what_they_take_alone() -> None:
    calls = [
        product(1, 512, 512, 512, "bf16"),
        Call("elementwise", size_bytes=1e8),
        Call("attention", "bf16", 1e9, 1e6),
    ]
    gpu = gpu_named("H100")
    assert times_ns(calls, gpu).tolist() == [ns(call, gpu) for call in calls]
    assert times_ns([], gpu).tolist() == []


def test_a_kind_that_no_recording_has_gets_what_a_fit_begins_with() -> None:
    gpu = gpu_named("A100")
    floor_ns = fitted()["factors"]["floor"]
    assert ns(Call("unheard of", size_bytes=2e9), gpu) == pytest.approx(floor_ns + 2 / 2039 / 0.6 * 1e9)


def test_the_interval_is_wider_on_gpus_without_recordings() -> None:
    assert {spread_of(gpu_named(name)) for name in ("H100", "A100", "MI300X", "T4", "V100")} == {SPREAD}
    assert {spread_of(gpu_named(name)) for name in ("B200", "H200", "L4", "RTX 3090", "MI250")} == {SPREAD_UNSEEN}


RECORDS = read(ROWS)


@pytest.mark.slow
def test_the_parameters_are_what_the_rows_give() -> None:
    factors = Fit(RECORDS).factors()
    assert factors.keys() == fitted()["factors"].keys()
    kept = np.array([fitted()["factors"][name] for name in factors])
    assert np.array(list(factors.values())) == pytest.approx(kept, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["vit", "owlv2", "timesformer", "bert", "qwen"])
def test_a_model_that_was_not_fitted_is_predicted_on_known_gpus(model: str) -> None:
    factors = Fit([record for record in RECORDS if record.model != model]).factors()
    for record in RECORDS:
        if record.model == model:
            error = record.total_ns(predicted_ns(record, factors)) / record.recorded_ns
            assert abs(math.log(error)) < math.log(SPREAD), record.gpu.name


@pytest.mark.slow
def test_a_gpu_that_was_not_fitted_is_predicted_within_the_wider_interval_four_times_of_five() -> None:
    inside = []
    for generation in ("hopper", "cdna3"):
        factors = Fit([record for record in RECORDS if record.gpu.generation != generation]).factors()
        for record in RECORDS:
            if record.gpu.generation == generation and record.model not in ("resnet", "flex"):
                error = record.total_ns(predicted_ns(record, factors)) / record.recorded_ns
                inside.append(abs(math.log(error)) < math.log(SPREAD_UNSEEN))
    assert np.mean(inside) >= 0.8
