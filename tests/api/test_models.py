"""perfmagic.DeviceModel.fit(): a GPU's model, as slow as a recording was."""

from dataclasses import replace
from pathlib import Path

import pytest

import perfmagic
from perfmagic.base.clock import HOST_NS
from perfmagic.base.errors import OptionError
from perfmagic.base.work import Inputs
from perfmagic.predict.calls import call_of
from perfmagic.predict.gpus import gpu_named
from perfmagic.predict.kernels import times_ns
from perfmagic.results import TimelineResult
from perfmagic.trace.model import DeviceInfo, Trace
from tests.analysis.shaped import Shaped
from tests.trace.recorded import real


def steps(kernel_us: float, custom_us: float = 0.0) -> Trace:
    shaped = Shaped()
    for _ in range(10):
        shaped.op(
            "aten::add",
            [[1024, 1024], [1024, 1024], []],
            ["float", "float", "Scalar"],
            (("vectorized_add", kernel_us),),
        )
    if custom_us:
        shaped.op("my::op", [[8, 8]], ["float"], (("my_kernel", custom_us),))
    return shaped.trace()


def saved(tmp_path: Path, trace: Trace) -> Path:
    path = tmp_path / "step.npz"
    TimelineResult(trace).save(path)
    return path


def test_kernels_that_took_twice_as_long_as_predicted_give_a_factor_of_two(tmp_path: Path) -> None:
    inputs = Inputs(((1024, 1024), (1024, 1024), ()), ("float", "float", "Scalar"))
    call = call_of("aten::add", inputs, "vectorized_add")
    assert call is not None
    alone_ns = float(times_ns([call], gpu_named("A100"))[0])
    model = perfmagic.DeviceModel.fit(saved(tmp_path, steps(2 * alone_ns / 1e3)))
    assert model.name == "A100 SXM4 80 GB"
    assert model.device_factor == pytest.approx(2, rel=1e-3)
    assert model.words == "predicted for A100 SXM4 80 GB, fitted on step.npz, 10 launches, not recorded · ÷ × 1.4"
    times = [
        each.kernel("aten::add", inputs, Inputs((), ()), 0, tf32=False, strided=False)
        for each in (perfmagic.DeviceModel("A100"), model)
    ]
    assert times[1].kernel_ns == pytest.approx(2 * times[0].kernel_ns, rel=1e-3)
    assert times[1].host_ns == pytest.approx(model.host_factor * times[0].host_ns)


def test_the_host_is_as_slow_as_between_the_launches(tmp_path: Path) -> None:
    trace = steps(20.0)
    calls = trace.calls
    between_ns = int(calls.end_ns[-1] - calls.end_ns[0])
    model = perfmagic.DeviceModel.fit(saved(tmp_path, trace), "H100")
    assert model.host_factor == pytest.approx(between_ns / (9 * (HOST_NS["operator"] + HOST_NS["launch"])))
    assert (model.name, model.device_factor) == ("H100 SXM", 1.0)
    assert model.host_ns["launch"] == round(HOST_NS["launch"] * model.host_factor)
    assert model.host_ns["module"] == 0  # none were recorded: their time is in that of the operators


def test_what_cannot_be_fitted_is_refused(tmp_path: Path) -> None:
    def refused(trace: Trace) -> str:
        with pytest.raises(OptionError) as error:
            perfmagic.DeviceModel.fit(saved(tmp_path, trace))
        return str(error.value)

    trace = steps(20.0)
    named = replace(trace.meta, devices=(DeviceInfo(0, "cuda", "NVIDIA H20", multiprocessors=78),))
    assert "which is not in the table" in refused(replace(trace, meta=named))
    assert "H200 SXM" in refused(replace(trace, meta=named))
    assert "the record has no shapes" in refused(Shaped().op("aten::add").op("aten::add").trace())
    assert "less than half" in refused(steps(20.0, custom_us=300.0))
    orphans = Shaped().op("aten::add", [[8], [8]], "float", ()).orphan("kernel", 10.0)
    assert "no launches" in refused(orphans.trace())


def test_one_record_of_a_machine_predicts_another() -> None:
    factors = [perfmagic.DeviceModel.fit(real(name)).device_factor for name in ("h100_vit", "h100_timesformer")]
    assert factors == pytest.approx([1, 1], abs=0.2)
