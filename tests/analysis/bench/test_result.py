import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmagic.analysis.bench.queue_model import QueueModel, queue_model_of
from perfmagic.analysis.bench.result import BenchSummary, Quantity, summarise
from perfmagic.analysis.verdict import Verdict
from perfmagic.base.errors import OptionError
from perfmagic.trace.columns import CallKind, OpKind
from perfmagic.trace.model import DeviceInfo, TraceMeta, make_trace
from perfmagic.trace.samples import BenchRecord, Condition
from perfmagic.view.bench.bench import bench_svg
from perfmagic.view.bench.doc import bench_doc

pytestmark = pytest.mark.slow

SIM = DeviceInfo(0, "sim", "sim", "pace 1 ms")


def record(returns_s=(), done_s=(), span_s=(), **more) -> BenchRecord:
    given = {
        "name": "",
        "synced": True,
        "returns_s": np.array(returns_s, np.float64),
        "done_s": np.array(done_s, np.float64),
        "span_s": np.array(span_s, np.float64),
        "first_calls_s": np.array([0.8, 0.3]),
        "warmup_calls": 20,
        "body_runs": 42,
        "loop_overhead_s": 1e-7,
        "span_calls_per_sample": 1,
        "stopped_by": "stopped after 2 s",
        **more,
    }
    return BenchRecord(**given)


def words(result: BenchSummary) -> str:
    return repr(result).replace("\u00a0", " ")


def trace(returned_ns: int = 30, sync_ns: tuple[int, int] = (30, 100)):
    """Three launches of 10 ns each, ops of 20 ns from 10 on, a synchronise that ends at 100."""
    return make_trace(
        ["op"],
        TraceMeta("cell", end_ns=100, returned_ns=returned_ns, devices=(SIM,)),
        ops={"start_ns": [10, 30, 50], "end_ns": [30, 50, 70], "kind": [OpKind.KERNEL] * 3, "name": [0] * 3},
        calls={
            "start_ns": [0, 10, 20, sync_ns[0]],
            "end_ns": [10, 20, 30, sync_ns[1]],
            "kind": [CallKind.LAUNCH] * 3 + [CallKind.SYNC],
            "name": [0] * 4,
        },
    )


FULL = record(
    [0.003, 0.001, 0.002, 0.0021, 0.0019, 0.002, 0.1],
    [0.29] * 7,
    [0.28] * 5,
    name="matmul",
    devices=(SIM,),
    trace=trace(),
    conditions=(Condition("did not settle", {"seconds": 2.0}),),
    settings={"setup_each": True},
    code="y = x @ x",
)
VERDICT = Verdict("device-bound", 0.97, "the queue hides the launches", (2,), 5)


def test_a_result_saved_without_its_magic_takes_it_from_the_code():
    saved = json.loads(summarise(replace(FULL, code="%%bench -r 5\ny = x @ x", settings={"warmup": 0})).to_json())
    del saved["magic"], saved["warmed_up"]
    again = BenchSummary.from_json(json.dumps(saved))
    assert (again.magic, again.warmed_up) == ("%%bench", False)


def test_a_quantity_states_median_interval_minimum_spread_and_outliers():
    quantity = summarise(FULL).returns
    assert quantity.median_s == 0.002
    assert (quantity.low_s, quantity.high_s) == (0.001, 0.1)
    assert (quantity.min_s, quantity.iqr_s, quantity.n) == (0.001, pytest.approx(0.0006), 7)
    assert (quantity.outliers, quantity.is_outlier) == (1, (False,) * 6 + (True,))


def test_five_samples_have_a_median_and_no_interval():
    quantity = Quantity.of([1.0, 2.0, 3.0, 4.0, 5.0])
    assert quantity.median_s == 3.0
    assert quantity.low_s is None
    assert quantity.high_s is None


def test_an_interval_never_leaves_the_samples():
    quantity = Quantity.of([1e-9] * 20 + [1e-6] * 21)  # bimodal and autocorrelated: wide
    assert quantity.widened > 3
    assert (quantity.low_s, quantity.high_s) == (1e-9, 1e-6)


def test_json_gives_back_an_equal_result_with_every_sample():
    result = summarise(FULL, VERDICT)
    again = BenchSummary.from_json(result.to_json())
    assert again == result
    assert again.returns.samples_s == tuple(FULL.returns_s.tolist())
    assert (again.verdict, again.queue_model) == (VERDICT, result.queue_model)
    assert again.record is None
    assert again != replace(result, n_calls=1)


def test_json_of_a_result_without_anything_is_read_back_too():
    result = summarise(record(failed="interrupted", stopped_by="ended early: interrupted", first_calls_s=np.array([])))
    assert BenchSummary.from_json(result.to_json()) == result
    assert result.returns is None
    assert result.returns_s is None
    assert result.first_call_s is None


@pytest.mark.parametrize("text", ["{", "[1]", "{}", '{"format": "perfmagic bench 1"}', '{"format": "other"}'])
def test_other_text_is_refused_in_one_line(text):
    with pytest.raises(OptionError):
        BenchSummary.from_json(text)


def test_the_repr_is_a_learners_sentence_and_says_simulated():
    assert words(summarise(FULL, VERDICT)) == (
        "matmul: Python returned after 2.00 ms (mean 16.0 ms) · device finished after 290 ms · device span 280 ms · "
        "device-bound: the queue hides the launches · 7 samples · warm · stopped after 2 s · body ran 42 times · "
        "simulated device, pace 1 ms"
    )


def test_the_repr_without_a_device_says_when_python_returned_and_no_more():
    result = summarise(record([7.3e-8] * 20, calls_per_sample=13_000, warmed_up=False))
    assert words(result) == (
        "Python returned after 73 ns · 20 samples of 13,000 calls · not warmed up · stopped after 2 s · "
        "body ran 42 times"
    )
    assert not result.simulated


def test_the_repr_of_a_failed_run_says_how_it_ended():
    failed = record([0.002], failed="interrupted", stopped_by="ended early: interrupted")
    assert "ended early: interrupted · 1 sample · warm · body ran" in words(summarise(failed))
    assert words(summarise(replace(failed, returns_s=np.array([])))).startswith("no sample was completed")


def test_equal_devices_are_counted_in_the_label():
    infos = tuple(DeviceInfo(i, "cuda", "NVIDIA H200") for i in range(8))
    assert summarise(record([1.0], [1.0], devices=infos)).device_label == "8 × NVIDIA H200"


def test_autocorrelated_and_drifting_samples_are_said_with_their_numbers():
    rising = np.linspace(0.009, 0.011, 90)
    found = summarise(record(rising, rising * 2))
    assert "interval widened for autocorrelation: returns × 7.7, done × 7.7" in found.details
    advice = ": runs=5 shows whether it goes on"
    assert [w.sentence.replace("\u00a0", " ") for w in found.warnings] == [
        f"{name} rose from {way} during the run{advice}"
        for name, way in (("returns", "9.33 ms to 10.7 ms"), ("done", "18.7 ms to 21.3 ms"))
    ]


def test_a_recorded_run_unlike_the_samples_is_said():
    slow = summarise(record([1e-9] * 6, [49e-9] * 6, trace=trace()))
    (warning,) = slow.warnings
    assert warning.sentence.replace("\u00a0", " ").startswith("the recorded run took 100 ns, the samples 49 ns:")
    assert summarise(record([1e-9] * 6, [51e-9] * 6, trace=trace())).warnings == ()


def test_the_frame_has_one_row_a_sample_in_the_order_taken_with_its_run():
    pytest.importorskip("pandas")
    assert set(summarise(FULL).to_frame().run) == {0}
    frame = summarise(replace(FULL, run_starts=(0, 3, 5))).to_frame()
    assert len(frame) == 7 + 5 + 7
    assert frame[frame.quantity == "returns"].seconds.tolist() == FULL.returns_s.tolist()
    assert frame[frame.quantity == "done"].run.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert set(frame[frame.quantity == "span"].run) == {2}


def test_the_queue_model_predicts_from_launches_and_device_time():
    model = queue_model_of(record([30e-9], [100e-9]), trace())
    assert (model.n, model.t1_s, model.t2_s) == (3, pytest.approx(10e-9), pytest.approx(20e-9))
    assert model.t3_s == pytest.approx(30e-9)
    assert model.predicted_s == pytest.approx(100e-9)  # 10 + 2 · 20 + 20 + 30
    assert (model.sequential_s, model.measured_s) == (pytest.approx(180e-9), pytest.approx(100e-9))
    assert model.caveat == ""


def test_a_model_of_slow_launches_ends_one_op_after_the_last_launch():
    model = queue_model_of(record([90e-9], [140e-9]), trace())
    assert (model.predicted_s, model.caveat) == (pytest.approx((3 * 30 + 20 + 30) * 1e-9), "")


def test_a_model_that_misses_the_measured_time_says_so():
    model = queue_model_of(record([90e-9], [100e-9]), trace())
    assert model.caveat == "it is more than a quarter off: the model is of equal ops, launched evenly"


@given(st.integers(1, 40), st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_the_model_is_what_a_queue_does_op_by_op(n, t1, t2, t3):
    """Python launches one op after the other; an op begins when it is launched and the one before has ended."""
    launched = ended = 0
    for _ in range(n):
        launched += t1
        ended = max(launched, ended) + t2
    model = QueueModel(n, t1 / 1e6, t2 / 1e6, t3 / 1e6, measured_s=1.0)
    assert model.predicted_s == pytest.approx((ended + t3) / 1e6)


def test_the_model_of_a_cell_that_waits_says_that_t1_includes_waiting():
    model = queue_model_of(record([80e-9], [100e-9]), trace(returned_ns=80, sync_ns=(30, 75)))
    assert model.caveat == "the cell waits for the device itself, so t1 includes waiting"


def test_a_cell_on_several_queues_has_no_model():
    assert queue_model_of(record([20e-9], [100e-9]), two_streams()) is None


def test_no_ops_or_no_done_make_no_model():
    assert queue_model_of(record([1.0], []), trace()) is None
    assert queue_model_of(record([1.0], [1.0]), make_trace([], TraceMeta("cell"))) is None


def two_streams():
    ops = {"start_ns": [10, 10], "end_ns": [90, 95], "kind": [OpKind.KERNEL] * 2, "name": [0, 0], "stream": [7, 8]}
    return make_trace(["k"], TraceMeta("cell", end_ns=100, returned_ns=20), ops={**ops, "correlation": [-1, -1]})


def test_a_span_that_leaves_out_streams_is_said_and_not_drawn():
    partial = summarise(record([0.1] * 6, [0.4] * 6, [0.001] * 6, trace=two_streams()))
    assert partial.span_partial
    assert any(
        "works on 2 streams and the device span sees the current one only" in w.sentence for w in partial.warnings
    )
    assert bench_doc(partial).span_s is None
    assert bench_doc(partial).device_idle is None
    whole = summarise(record([0.1] * 6, [0.4] * 6, [0.3] * 6, trace=trace()))
    assert not whole.span_partial
    assert bench_doc(whole).span_s == 0.3
    assert BenchSummary.from_json(partial.to_json()).span_partial


def test_a_starved_device_is_not_taken_for_another_stream():
    starved = summarise(record([9e-8] * 6, [1e-7] * 6, [2e-8] * 6, trace=trace()))  # one by one the ops took 60 ns
    assert not starved.span_partial
    elsewhere = summarise(record([9e-8] * 6, [1e-7] * 6, [2e-9] * 6, trace=trace()))
    assert any("a stream that is not the current one" in w.sentence for w in elsewhere.warnings)


def test_a_body_of_nothing_is_drawn():
    result = summarise(record([0.0] * 8))
    svg = bench_svg(bench_doc(result))
    assert "nan" not in svg.lower()
    assert "inf" not in svg.lower().replace("info", "")


@pytest.mark.parametrize("form", ["perfmagic bench 1", "perfmagic bench 2", "perfmagic bench 3"])
def test_results_of_earlier_formats_are_read(form: str) -> None:
    result = summarise(FULL, VERDICT)
    data = result.to_dict()
    for name in ("returns", "done", "span"):
        data[name]["far_out"], data[name]["levels"] = data[name].pop("outliers"), data[name].pop("modes")
    data["course"] = data.pop("queue_model")
    data["warnings"] = [warning["sentence"] for warning in data["warnings"]]
    if form == "perfmagic bench 1":
        data["options"] = ""
    again = BenchSummary.from_json(json.dumps({**data, "format": form}))
    assert (again.returns, again.queue_model) == (result.returns, result.queue_model)
    assert [warning.sentence for warning in again.warnings] == [warning.sentence for warning in result.warnings]
    assert [warning.kind for warning in again.warnings] == ["", ""]


def test_a_verdict_that_the_samples_contradict_is_said_to_be_unclear() -> None:
    busy = record([5e-5] * 20, [1.09e-3] * 20, [1.0e-3] * 20)
    result = summarise(busy, Verdict("host-bound", 0.5, "the queue was empty"))
    assert "bottleneck unclear: the samples do not confirm the recorded run, which was host-bound" in repr(result)
    assert "the queue was empty" not in repr(result)
