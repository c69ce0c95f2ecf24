"""Who may run on GPUs that are not there, and which."""

import pytest

torch = pytest.importorskip("torch", reason="the device is one of torch's")

import perfmagic  # noqa: E402 - after the skip
from perfmagic import sim  # noqa: E402
from perfmagic.base.errors import DeviceError, OptionError  # noqa: E402
from perfmagic.capture.devices import as_cuda, backends  # noqa: E402
from perfmagic.capture.recording import on_gpus  # noqa: E402
from perfmagic.capture.recording.on_gpus import OnGpus, models_named  # noqa: E402


def test_gpus_are_named_by_text_by_a_list_or_by_models() -> None:
    model = perfmagic.DeviceModel("T4", host_factor=2.0)
    assert [m.name for m in models_named("H100, t4")] == ["H100 SXM", "T4"]
    assert models_named(["H100", model])[1] is model
    assert models_named(None) == ()


@pytest.mark.parametrize("on", ["", " , ", [], 100, ["H100", 1], "H1000", ["T4", "t4"]])
def test_anything_else_is_refused(on: object) -> None:
    with pytest.raises(OptionError):
        models_named(on)


def test_a_rank_of_several_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_gpus, "is_rank", lambda: True)
    with pytest.raises(DeviceError, match="one process"), perfmagic.timeline(on="H100"):
        pass
    assert not backends.AS_CUDA


def test_a_run_within_a_run_is_refused() -> None:
    with perfmagic.timeline(on="H100"):
        with pytest.raises(DeviceError, match="already"), perfmagic.timeline(on="T4"):
            pass
        assert torch.ones(1, device="cuda").is_cuda


def test_the_host_is_one_whatever_models_are_given() -> None:
    slow = perfmagic.DeviceModel("T4", host_factor=4.0)
    with perfmagic.timeline(on=["H100", slow]):
        model = sim.current_pace()
        assert isinstance(model, on_gpus.SideBySide)
        assert model.others[0].host_ns == model.host_ns


def test_a_tensor_of_a_real_gpu_is_refused_at_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.ones(2)
    monkeypatch.setattr(as_cuda, "_is_really_cuda", lambda t: t is real)
    mode = as_cuda.CudaMode(has_cuda=True)
    with mode:
        assert (torch.ones(2) + 1).tolist() == [2.0, 2.0]
        with pytest.raises(DeviceError, match=r"real cpu.*predicted GPU"):
            real + 1
        with pytest.raises(DeviceError, match="real"):
            torch.cat([torch.ones(2), real])


def test_giving_back_is_harmless_before_and_again() -> None:
    run = OnGpus(models_named("H100"))
    run.give_back()
    run.acquire()
    run.give_back()
    run.give_back()
    assert torch.cuda.is_available() == backends.cuda_available()
