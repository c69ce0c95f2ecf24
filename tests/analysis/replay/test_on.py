"""t.what_if(on(…)): a record taken to another GPU."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import perfmagic
from perfmagic.analysis.replay.changes.gpu import ratios, scaled_frac
from perfmagic.base.errors import OptionError
from perfmagic.changes import faster, on, overlap_communication
from perfmagic.predict.gpus import gpu_named
from perfmagic.predict.kernels import SPREAD, SPREAD_UNSEEN
from perfmagic.results import TimelineResult
from perfmagic.trace.model import DeviceInfo, Trace
from tests.analysis.shaped import BF16, FLOAT, Shaped
from tests.trace.recorded import eight_ranks, real_trace, recorded

NOT_IN_TABLE = "no whole GPU of that name is in the table"
DOUBLE, FP8 = ["double", "double"], ["c10::Float8_e4m3fn", "c10::Float8_e4m3fn"]


def products(n: int = 20, length_us: float = 1000.0, custom_us: float = 0.0) -> Trace:
    """n large products back to back on an A100, and maybe one kernel of no known operator."""
    shaped = Shaped()
    for _ in range(n):
        shaped.op("aten::mm", [[8192, 8192], [8192, 8192]], BF16, (("ampere_bf16_s16816gemm", length_us),))
    if custom_us:
        shaped.op("my::attention", [[8, 8]], BF16, (("my_kernel", custom_us),))
    return shaped.trace()


def test_a_run_that_the_device_holds_changes_as_its_kernels_do() -> None:
    trace = products()
    found = TimelineResult(trace).what_if(on("H100"))
    left = ratios(trace, gpu_named("H100"))
    assert len(set(left.tolist())) == 1
    assert 0.25 < left[0] < 0.6  # 989 of 312 TFLOP/s
    gained_ns = found.prediction.recorded_ns - found.predicted_ns
    assert gained_ns == pytest.approx((1 - left[0]) * 20e6, rel=1e-3)
    low_ns, high_ns = found.interval_ns
    assert (found.predicted_ns / low_ns, high_ns / found.predicted_ns) == pytest.approx((SPREAD, SPREAD), rel=1e-6)


def test_the_words_say_that_it_is_predicted_with_two_digits() -> None:
    found = TimelineResult(products()).what_if(on("h100"))
    text = found.sentence.replace("\xa0", " ")
    assert text.startswith("on H100 SXM, predicted from this A100 SXM4 80 GB record: about ")
    assert text.endswith("instead of 21.0 ms")
    rough, low, high = (f"{ns / 1e6:.2g}" for ns in (found.predicted_ns, *found.interval_ns))
    assert f"about {rough} ms ({low} ms to {high} ms)" in text


def test_a_time_is_one_number_of_two_digits_wherever_it_stands() -> None:
    t = TimelineResult(products())
    found = t.what_if(on("H100"))
    rough = f"{found.predicted_ns / 1e6:.2g} ms"
    assert f"about {rough} " in found.sentence.replace("\xa0", " ")
    assert f"\npredicted {rough}, critical path" in found.text().replace("\xa0", " ")
    assert found.check(t).sentence.replace("\xa0", " ").startswith(f"{rough} predicted (")


def test_a_slower_gpu_gains_less_than_nothing() -> None:
    found = TimelineResult(products()).what_if(on("T4"))
    low_ns, high_ns = found.interval_ns
    recorded_ns = found.prediction.recorded_ns
    assert found.gain_ns == (recorded_ns - high_ns, recorded_ns - low_ns)
    assert found.gain_ns[1] < 0


def test_the_path_on_a_slower_gpu_is_as_long_as_the_run() -> None:
    found = TimelineResult(products()).what_if(on("T4"))
    assert sum(share.ns for share in found.path) == found.predicted_ns


def test_a_prediction_is_checked_and_not_compared() -> None:
    t = TimelineResult(products())
    with pytest.raises(OptionError) as error:
        perfmagic.compare(t, t.what_if(on("T4")))
    assert ".check(t)" in str(error.value.hint)


def test_rules_about_names_of_kernels_are_silent_on_another_gpu() -> None:
    shaped = Shaped()
    for _ in range(20):
        shaped.op("aten::mm", [[8192, 8192], [8192, 8192]], FLOAT, (("ampere_sgemm_128x64_nn", 1000.0),))
    t = TimelineResult(shaped.trace())
    assert perfmagic.explain(t.trace, "tensor_cores").findings
    drawn = t.what_if(on("H100")).timeline()
    said = perfmagic.explain(drawn.trace, "tensor_cores")
    assert not said.findings
    assert said.reason == "kernel names and grids are those of the recorded GPU"
    assert "predicted for H100 SXM, not recorded · ÷ × 1.4 ·" in drawn.text().replace("\xa0", " ")
    slower = t.what_if(faster(k=0.5)).timeline()
    assert perfmagic.explain(slower.trace, "tensor_cores").findings


def test_a_difference_within_the_interval_leaves_open_which_is_faster() -> None:
    near = TimelineResult(products()).what_if(on("A100 SXM4 40 GB"))
    assert near.sentence.endswith(": which is faster is unclear")
    assert not TimelineResult(products()).what_if(on("T4")).sentence.endswith("open")


def test_the_same_gpu_changes_nothing_at_all() -> None:
    for trace, name in ((products(), "A100"), (real_trace("h100_qwen_orphans"), "H100")):
        left = ratios(trace, gpu_named(name))
        assert set(left[~np.isnan(left)].tolist()) == {1.0}
        found = TimelineResult(trace).what_if(on(name))
        assert found.predicted_ns == found.prediction.recorded_ns


def test_there_and_back_is_the_record_again() -> None:
    trace = real_trace("h100_qwen_orphans")
    there = ratios(trace, gpu_named("A100"))
    back = ratios(_as(trace, "NVIDIA A100-SXM4-80GB", 108), gpu_named("H100"))
    known = ~np.isnan(there)
    assert known.sum() > 1000
    assert np.isnan(back[~known]).all()
    assert there[known] * back[known] == pytest.approx(np.ones(known.sum()), rel=1e-9)


def _as(trace: Trace, name: str, multiprocessors: int) -> Trace:
    devices = tuple(replace(info, name=name, multiprocessors=multiprocessors) for info in trace.meta.devices)
    return replace(trace, meta=replace(trace.meta, devices=devices))


def test_a_gpu_without_recordings_has_the_wider_interval() -> None:
    found = TimelineResult(products()).what_if(on("L4"))
    assert found.interval_ns[1] / found.predicted_ns == pytest.approx(SPREAD_UNSEEN, rel=1e-6)


def test_kernels_without_a_model_stay_as_recorded_and_are_counted() -> None:
    trace = products(custom_us=5000)
    assert scaled_frac(trace, gpu_named("H100")) == pytest.approx(0.8)
    found = TimelineResult(trace).what_if(on("H100"))
    assert "(80 % of the kernels' time is scaled, the rest stays)" in found.sentence.replace("\xa0", " ")
    drawn = found.timeline().trace
    length_ns = drawn.ops.end_ns - drawn.ops.start_ns
    assert length_ns[-1] == 5_000_000
    refused = TimelineResult(products(custom_us=25_000)).what_if(on("H100")).refused
    assert refused == "only 44\xa0% of the kernels' time is of operators with a model, less than half"


def test_doubles_are_slow_where_a_gpu_has_few_units_for_them() -> None:
    shaped = Shaped()
    for _ in range(20):
        shaped.op("aten::mm", [[8192, 8192], [8192, 8192]], DOUBLE, (("ampere_dgemm", 10_000.0),))
    left = ratios(shaped.trace(), gpu_named("RTX 4090"))
    assert left == pytest.approx(np.full(20, 19.5 / 1.291), rel=0.1)


def test_float8_has_no_model_where_a_gpu_has_none() -> None:
    shaped = Shaped()
    for name, dtypes in (("aten::mm", BF16), ("aten::_scaled_mm", FP8)):
        shaped.op(name, [[4096, 4096], [4096, 4096]], dtypes, (("gemm", 1000.0),))
    trace = _as(shaped.trace(), "NVIDIA H100 80GB HBM3", 132)
    assert scaled_frac(trace, gpu_named("A100")) == pytest.approx(0.5)
    assert scaled_frac(trace, gpu_named("L4")) == 1


def test_the_interval_holds_whether_the_kernels_without_a_model_change_or_stay() -> None:
    trace = products(custom_us=15_000)
    found = TimelineResult(trace).what_if(on("H100"))
    left = ratios(trace, gpu_named("H100"))[0]
    others_ns = found.prediction.recorded_ns - 35e6
    stay_ns, change_ns = (others_ns + 20e6 * left + 15e6 * other for other in (1, left))
    assert found.predicted_ns == pytest.approx(stay_ns, rel=1e-3)
    assert found.interval_ns == pytest.approx((change_ns / SPREAD, stay_ns * SPREAD), rel=1e-3)


def with_communication() -> TimelineResult:
    """Products and collectives of an A100, one after the other."""
    shaped = Shaped()
    for _ in range(20):
        shaped.op("aten::mm", [[8192, 8192], [8192, 8192]], BF16, (("gemm", 1000.0),))
        shaped.bare((("ncclDevKernel_AllReduce_Sum", 500.0),))
    return TimelineResult(shaped.trace())


def test_with_another_gpu_a_bound_is_an_interval_up_to_the_run_without_it() -> None:
    t = with_communication()
    assert t.what_if(overlap_communication()).prediction.at_most
    plain, both = t.what_if(on("T4")), t.what_if(on("T4"), overlap_communication())
    assert not both.prediction.at_most
    assert ": about " in both.sentence
    assert plain.predicted_ns - both.predicted_ns == pytest.approx(20 * 500e3, rel=0.01)
    assert both.interval_ns == (round(both.predicted_ns / SPREAD), plain.interval_ns[1])


def test_a_run_whose_other_ranks_stay_has_the_error_of_the_model_too() -> None:
    predicted = with_communication().what_if(on("H100")).prediction
    assert predicted.if_others
    assert predicted.alone_ns == pytest.approx(SPREAD * predicted.recorded_ns, rel=0.01)


def test_a_run_is_on_one_gpu() -> None:
    with pytest.raises(OptionError, match="a run is on one GPU, not on L4 and T4"):
        TimelineResult(products()).what_if(on("L4"), on("T4"))


def test_the_host_stays_as_recorded() -> None:
    trace = products()
    drawn = TimelineResult(trace).what_if(on("MI300X")).timeline().trace
    assert drawn.calls.start_ns.tolist() == trace.calls.start_ns.tolist()
    assert drawn.calls.end_ns.tolist() == trace.calls.end_ns.tolist()


def test_the_predicted_timeline_is_of_the_other_gpu_and_says_so() -> None:
    drawn = TimelineResult(products()).what_if(on("MI300X")).timeline().trace
    info = drawn.device_info(0)
    assert (info.kind, info.name, info.multiprocessors) == ("rocm", "MI300X", 304)
    row = TimelineResult(drawn).device_operators()[0]
    assert row.peak_flop_per_s == 1307.4e12


def test_pinned_copies_change_with_the_generation_of_pcie_and_pageable_ones_do_not() -> None:
    for name, ratio in (("Memcpy HtoD (Pinned -> Device)", 25 / 50), ("Memcpy HtoD (Pageable -> Device)", np.nan)):
        shaped = Shaped().op("aten::copy_", [[8, 8], [8, 8]], BF16, ((name, 100.0),), call="cudaMemcpyAsync")
        trace = shaped.trace()
        for event in shaped.events:
            if event["name"] == name:
                event["cat"] = "gpu_memcpy"
        trace = shaped.trace()
        assert ratios(trace, gpu_named("H100")).tolist() == pytest.approx([ratio], nan_ok=True)
        assert np.isnan(ratios(trace, gpu_named("A100 PCIe 40 GB"))).all()


def test_it_composes_with_other_changes() -> None:
    t = TimelineResult(products())
    alone, half = t.what_if(on("H100")), t.what_if(faster(k=2), on("H100"))
    kernels_ns = ratios(t.trace, gpu_named("H100"))[0] * 20e6
    assert alone.predicted_ns - half.predicted_ns == pytest.approx(kernels_ns / 2, rel=1e-3)


def test_what_cannot_be_taken_to_another_gpu_is_refused_with_what_to_do() -> None:
    unknown = TimelineResult(_as(products(), "NVIDIA Quadro GP100", 56)).what_if(on("H100")).refused
    assert unknown == f"the record is of NVIDIA Quadro GP100, and {NOT_IN_TABLE}"
    part = TimelineResult(_as(products(), "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 14)).what_if(on("H100")).refused
    assert NOT_IN_TABLE in part
    sim = _of_sim(products())
    assert NOT_IN_TABLE in TimelineResult(sim).what_if(on("H100")).refused
    shaped = Shaped()
    for _ in range(20):
        shaped.op("aten::mm", None, None, (("gemm", 1000.0),))
    without = TimelineResult(shaped.trace()).what_if(on("H100")).refused
    assert without.startswith("the record has no shapes: ")
    assert "record_shapes=True" in without
    assert NOT_IN_TABLE in TimelineResult(recorded("gp100_gpu_user_annotation")).what_if(on("H100")).refused


def _of_sim(trace: Trace) -> Trace:
    return replace(trace, meta=replace(trace.meta, devices=(DeviceInfo(0, "sim", "sim"),)))


@pytest.mark.parametrize(
    ("given", "near"), [("H10", "H100"), ("H1000", "H100"), ("MI300", "MI300X"), ("RTX4091", "RTX 4090")]
)
def test_an_unknown_gpu_is_named_with_the_nearest(given: str, near: str) -> None:
    with pytest.raises(OptionError) as error:
        on(given)
    assert str(error.value.hint).startswith(f"the nearest names: {near}")


def test_the_prediction_can_be_pickled() -> None:
    found = TimelineResult(products()).what_if(on("H100"))
    assert pickle.loads(pickle.dumps(found)).sentence == found.sentence


def test_a_job_is_taken_to_another_gpu_as_a_whole_or_not_at_all() -> None:
    ranks = perfmagic.open_traces(eight_ranks()).ranks
    assert ranks is not None
    assert "of the kernels' time is of operators with a model" in ranks.what_if(on("H100")).refused


def test_a_gpu_is_a_name() -> None:
    with pytest.raises(OptionError, match="on: 100 is not the name of a GPU"):
        on(100)  # type: ignore[arg-type]
