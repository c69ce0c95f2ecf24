"""Networks and operators on the simulated device give what the CPU gives."""

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")
from perfmagic.base.errors import DeviceError  # noqa: E402 - after the skip

pytestmark = pytest.mark.slow

nn = torch.nn
F = torch.nn.functional


def _conv() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    )


def _transformer() -> Any:
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)


CASES = {
    "conv": (_conv, (2, 1, 8, 8)),
    "transformer": (_transformer, (2, 5, 8)),
    "groupnorm": (lambda: nn.Sequential(nn.Conv1d(4, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.GELU()), (2, 4, 6)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("training", [True, False])
def test_forward_and_backward_are_those_of_the_cpu_bit_for_bit(case: str, training: bool) -> None:
    build, shape = CASES[case]
    torch.manual_seed(1)
    net = build().train(training)
    twin = copy.deepcopy(net).to("sim")
    x = torch.randn(shape)
    there = x.to("sim").requires_grad_()
    here = x.clone().requires_grad_()
    # torch chooses its fused attention by device; for a device it does not know it takes the plain one
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        net(here).square().sum().backward()
    twin(there).square().sum().backward()
    assert torch.equal(here.grad, there.grad.cpu())
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad.cpu())
    for a, b in zip(net.buffers(), twin.buffers(), strict=True):
        assert torch.equal(a, b.cpu())


def test_a_transformer_in_evaluation_without_gradients_gives_the_cpu_values() -> None:
    torch.manual_seed(2)
    net = _transformer().eval()
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        torch.testing.assert_close(copy.deepcopy(net).to("sim")(x.to("sim")).cpu(), net(x))


def test_a_change_through_a_view_is_seen_in_all_views() -> None:
    a = torch.arange(12.0, device="sim").view(3, 4)
    row = a[1]
    row.add_(100)
    turned = a.t()
    a[0, 0] = 7
    assert a.tolist() == [[7, 1, 2, 3], [104, 105, 106, 107], [8, 9, 10, 11]]
    assert row.tolist() == [104, 105, 106, 107]
    assert turned.contiguous().tolist()[0] == [7, 104, 8]


def test_gradients_pass_through_an_in_place_change_of_a_view() -> None:
    w = torch.ones(3, 3, device="sim", requires_grad=True)
    y = w * 2
    y[0].mul_(3)
    y.sum().backward()
    assert w.grad.tolist() == [[6, 6, 6], [2, 2, 2], [2, 2, 2]]


def test_a_reshape_in_place_changes_the_shape_and_keeps_the_memory() -> None:
    a = torch.arange(6.0, device="sim").view(2, 3)
    other = a.view(6)
    a.t_()
    other[0] = 9
    assert a.shape == (3, 2)
    assert a.tolist() == [[9, 3], [1, 4], [2, 5]]
    assert a.unsqueeze_(0).shape == (1, 3, 2)


def test_values_read_by_the_host_are_right() -> None:
    a = torch.arange(4, device="sim")
    assert (a.sum().item(), int(a[1]), bool((a >= 0).all()), f"{a[3] / 2:.2f}") == (6, 1, True, "1.50")
    assert torch.equal(a, a.clone())
    assert not torch.equal(a, a + 1)
    assert "device='sim:0'" in repr(a)


def test_a_copy_of_a_network_has_its_own_parameters() -> None:
    net = nn.Linear(2, 2).to("sim")
    twin = copy.deepcopy(net)
    with torch.no_grad():
        twin.weight.zero_()
    assert isinstance(twin.weight, nn.Parameter)
    assert twin.weight.device.type == "sim"
    assert net.weight.abs().sum().item() > 0


def test_numpy_asks_for_a_copy_to_the_host_first() -> None:
    with pytest.raises(TypeError, match=r"Tensor\.cpu\(\)"):
        torch.ones(2, device="sim").numpy()


def test_a_device_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RuntimeError, match="sim:16 does not exist"):
        torch.ones(2, device="sim:16")


@pytest.mark.parametrize(
    "make",
    [
        lambda: (torch.nn.Conv2d(3, 8, 3), torch.randn(2, 3, 8, 8)),
        lambda: (torch.nn.ConvTranspose2d(3, 8, 3), torch.randn(2, 3, 8, 8)),
        lambda: (torch.nn.LayerNorm(8), torch.randn(4, 8)),
        lambda: (torch.nn.GroupNorm(2, 8), torch.randn(4, 8, 3)),
    ],
    ids=["conv", "conv transpose", "layer norm", "group norm"],
)
def test_a_first_layer_trains_though_its_input_needs_no_gradient(make) -> None:
    torch.manual_seed(3)
    layer, x = make()
    there = copy.deepcopy(layer).to("sim")
    layer(x).square().sum().backward()
    there(x.to("sim")).square().sum().backward()
    for on_cpu, on_sim in zip(layer.parameters(), there.parameters(), strict=True):
        assert torch.equal(on_cpu.grad, on_sim.grad.cpu())


def test_loading_onto_the_device_raises_a_device_error(tmp_path) -> None:
    torch.save(torch.ones(3), tmp_path / "x.pt")
    with pytest.raises(DeviceError, match=r"torch\.load cannot place tensors"):
        torch.load(tmp_path / "x.pt", map_location="sim")
    assert torch.load(tmp_path / "x.pt", map_location="cpu").sum() == 3
