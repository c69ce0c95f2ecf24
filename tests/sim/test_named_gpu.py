"""perfmagic.device("H100"): a GPU that is not there, by its model."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import perfmagic
from perfmagic import sim
from perfmagic.base.errors import OptionError
from perfmagic.base.kinds import UNKNOWN_TIME
from perfmagic.base.work import Inputs
from perfmagic.predict.calls import call_of
from perfmagic.predict.gpus import gpu_named
from perfmagic.predict.kernels import times_ns
from perfmagic.results import TimelineResult


@pytest.fixture(autouse=True)
def _real_clock_after(_device: None) -> Iterator[None]:
    yield
    sim.load(clock="real")
    torch.sim.empty_cache()


def recorded(body: Callable[[], object]) -> TimelineResult:
    with perfmagic.timeline():
        body()
    found = perfmagic.last()
    assert isinstance(found, TimelineResult)
    return found


def op_ns(t: TimelineResult) -> dict[str, int]:
    ops = t.trace.ops
    rows = zip(ops.name, ops.start_ns, ops.end_ns, strict=True)
    return {t.trace.names[name]: int(end - start) for name, start, end in rows}


def test_a_kernel_takes_the_time_of_the_model() -> None:
    device = perfmagic.device("H100")
    x, w = torch.ones(64, 4096, device=device), torch.ones(4096, 4096, device=device)
    product = call_of("aten::mm", Inputs(((64, 4096), (4096, 4096)), ("float", "float")))
    assert product is not None
    assert op_ns(recorded(lambda: x @ w))["mm"] == round(times_ns([product], gpu_named("H100"))[0])


def test_a_faster_gpu_takes_less_and_half_precision_less_again() -> None:
    taken_ns = {}
    for name in ("T4", "A100", "H100"):
        device = perfmagic.device(name)
        for dtype in (torch.float32, torch.float16):
            x = torch.ones(512, 512, device=device, dtype=dtype)
            taken_ns[name, dtype] = op_ns(recorded(lambda x=x: x @ x))["mm"]
    for dtype in (torch.float32, torch.float16):
        assert taken_ns["T4", dtype] > taken_ns["A100", dtype] > taken_ns["H100", dtype]
    assert taken_ns["T4", torch.float16] < taken_ns["T4", torch.float32]


def test_tf32_is_taken_where_it_is_allowed() -> None:
    x = torch.ones(512, 512, device=perfmagic.device("A100"))
    plain = op_ns(recorded(lambda: x @ x))["mm"]
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        assert op_ns(recorded(lambda: x @ x))["mm"] < plain
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def test_an_operator_without_a_model_says_so_and_takes_its_bytes() -> None:
    x = torch.eye(64, device=perfmagic.device("H100"))
    found = op_ns(recorded(lambda: torch.linalg.svd(x)))
    assert [name for name in found if name.endswith(UNKNOWN_TIME)] == [f"_linalg_svd{UNKNOWN_TIME}"]
    assert all(found.values())


def test_an_unsafe_view_launches_nothing() -> None:
    a = torch.ones(2, 3, 4, device=perfmagic.device("H100"))
    b = torch.ones(4, 5, device=a.device)
    assert op_ns(recorded(lambda: a @ b)).keys() == {"mm"}


def test_bad_input_is_refused() -> None:
    with pytest.raises(OptionError, match="no GPU called 'H1000'"):
        perfmagic.device("H1000")
    with pytest.raises(OptionError, match="takes its times from its model"):
        perfmagic.device("H100", pace="mm=1ms")
    with pytest.raises(OptionError, match="a kind has no number here"):
        perfmagic.device("cuda:0")
    with pytest.raises(OptionError, match="clock 'x' is not known"):
        perfmagic.device("T4", clock="x")
    with pytest.raises(OptionError, match="no real clock"):
        perfmagic.device("H100", clock="real")


@pytest.mark.parametrize(("n_here", "kind"), [(0, "sim"), (1, "sim"), (2, "cuda")])
def test_two_gpus_are_simulated_where_there_are_fewer_of_them(
    monkeypatch: pytest.MonkeyPatch, n_here: int, kind: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_here > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_here)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H100 80GB HBM3")
    assert [device.type for device in perfmagic.devices(2, "H100")] == [kind, kind]


def test_a_gpu_has_the_memory_of_its_data_sheet() -> None:
    device = perfmagic.device("T4")
    assert torch.sim.mem_get_info()[1] == 16 * 10**9
    with pytest.raises(torch.OutOfMemoryError, match=r'needs less; perfmagic.device\("A100"\) has more.$'):
        torch.empty(16 * 10**9, dtype=torch.uint8, device=device)
    perfmagic.device("T4", memory="2GB")
    with pytest.raises(torch.OutOfMemoryError, match=r"largest free piece has [0-9.]+ \w+\.$"):
        torch.empty(3 * 10**9, dtype=torch.uint8, device=device)
    perfmagic.device("H100")
    assert torch.sim.mem_get_info()[1] == 80 * 10**9
    perfmagic.device(clock="virtual", pace="mm=1ms")
    assert torch.sim.mem_get_info()[1] not in (2 * 10**9, 80 * 10**9)


def test_batch_norm_takes_longer_while_it_learns() -> None:
    net = torch.nn.BatchNorm2d(64).to(perfmagic.device("H100"))
    x = torch.rand(64, 64, 56, 56).to("sim")
    training = op_ns(recorded(lambda: net(x)))["native_batch_norm"]
    net.eval()
    (evaluation,) = op_ns(recorded(lambda: net(x))).values()
    assert training > 1.2 * evaluation


def test_the_real_clock_leaves_the_model_of_a_gpu_behind() -> None:
    x = torch.ones(8, 8, device=perfmagic.device("H100"))
    perfmagic.device(clock="real")
    with perfmagic.timeline() as t:
        x @ x
    assert t.result is not None
    assert "H100" not in t.result.text(details=True)
    assert sim.current_pace() is None


def test_a_copy_between_gpus_takes_their_link() -> None:
    def copied_ns(gpu: str) -> int:
        perfmagic.device(gpu)
        x = torch.empty(1 << 24, device="sim:0")
        found = op_ns(recorded(lambda: x.to("sim:1")))
        return found["Memcpy PtoP (Device -> Device)"]

    assert copied_ns("H100") == pytest.approx((1 << 26) / 360e9 * 1e9, rel=0.05)
    assert copied_ns("T4") > 10 * copied_ns("H100")


def test_a_pace_by_hand_computes_all_values_again() -> None:
    perfmagic.device("H100")
    device = perfmagic.device("sim", pace="mm=1ms")
    assert torch.ones(2048, 2048, device=device).sum().item() == 2048**2


def test_a_record_of_two_gpus_has_the_name_of_neither() -> None:
    perfmagic.device("H100")

    def on_two() -> None:
        for gpu in ("T4", "H100"):
            x = torch.ones(64, 64, device=perfmagic.device(gpu))
            x @ x

    assert recorded(on_two).trace.meta.devices[0].predicted is None


@pytest.mark.parametrize("factor", [0, -1, float("nan"), "x"])
def test_a_factor_of_a_model_is_a_number_above_0(factor: Any) -> None:
    with pytest.raises(OptionError, match="is not a positive number"):
        perfmagic.DeviceModel("H100", host_factor=factor)


def test_copies_within_the_device_take_turns_with_kernels() -> None:
    x = torch.empty(4096, 4096, device=perfmagic.device("H100"))
    side = torch.sim.Stream()

    def both() -> None:
        with torch.sim.stream(side):
            x.clone()
        x + 1

    ops = recorded(both).trace.ops
    assert ops.start_ns[1] == ops.end_ns[0]


def test_products_of_complex_numbers_have_no_model() -> None:
    x = torch.ones(64, 64, device=perfmagic.device("H100"), dtype=torch.complex64)
    assert op_ns(recorded(lambda: x @ x)).keys() == {f"mm{UNKNOWN_TIME}"}
