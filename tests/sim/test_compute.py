"""Networks and operators on the simulated device give what the CPU gives."""

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")
from perfmagic.base.errors import DeviceError  # noqa: E402 - after the skip

pytestmark = pytest.mark.slow


nn = torch.nn
F = torch.nn.functional


def _train(net: Any, x: Any, y: Any, optimiser: Callable[[Any], Any], steps: int = 3) -> list[Any]:
    opt = optimiser(net.parameters())
    for _ in range(steps):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
    return [p.detach().cpu() for p in net.parameters()]


def _mlp() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4))


@pytest.mark.parametrize(
    "optimiser",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.Adam(p, lr=0.01),
        lambda p: torch.optim.AdamW(p, lr=0.01, foreach=False),
    ],
    ids=["sgd", "adam", "adamw"],
)
def test_training_gives_the_weights_of_the_cpu_bit_for_bit(optimiser: Any) -> None:
    net = _mlp()
    twin = copy.deepcopy(net).to("sim")
    x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
    on_host = _train(net, x, y, optimiser)
    on_device = _train(twin, x.to("sim"), y.to("sim"), optimiser)
    assert all(torch.equal(a, b) for a, b in zip(on_host, on_device, strict=True))


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


def test_an_lstm_trains_to_the_cpu_values() -> None:
    torch.manual_seed(3)
    net = nn.LSTM(4, 5, num_layers=2)
    twin = copy.deepcopy(net).to("sim")
    x = torch.randn(3, 2, 4)
    out, _ = net(x)
    out_there, _ = twin(x.to("sim"))
    torch.testing.assert_close(out_there.cpu(), out)
    out.square().sum().backward()
    out_there.square().sum().backward()
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(b.grad.cpu(), a.grad)


def test_an_embedding_gets_its_gradient_where_it_was_looked_up() -> None:
    table = nn.Embedding(10, 4).to("sim")
    table(torch.tensor([1, 2, 2], device="sim")).sum().backward()
    assert table.weight.grad[:, 0].tolist() == [0, 1, 2, 0, 0, 0, 0, 0, 0, 0]


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


def test_setting_data_takes_over_the_other_values() -> None:
    p = nn.Parameter(torch.ones(2, device="sim"))
    p.data = p.data - 0.25
    assert p.tolist() == [0.75, 0.75]
    assert isinstance(p, nn.Parameter)


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


def test_a_state_dict_is_saved_and_comes_back() -> None:
    net, twin = nn.Linear(3, 2).to("sim"), nn.Linear(3, 2).to("sim")
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    twin.load_state_dict(torch.load(file, weights_only=False))
    assert torch.equal(net.weight, twin.weight)
    on_host = nn.Linear(3, 2)
    on_host.load_state_dict({k: v.cpu() for k, v in net.state_dict().items()})
    assert torch.equal(on_host.weight, net.weight.detach().cpu())


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
