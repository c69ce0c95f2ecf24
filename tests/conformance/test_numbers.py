"""Random numbers, autocast, gradients across devices, errors that come late, processes."""

import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow


torch = pytest.importorskip("torch", reason="devices are reached through torch")

F = torch.nn.functional
_WAIT_S = 300  # nothing is timed: only a process that hangs gets there


def test_the_same_seed_gives_the_same_numbers(device_module, device) -> None:
    torch.manual_seed(5)
    first = torch.randn(8, device=device).tolist()
    second = torch.randn(8, device=device).tolist()
    torch.manual_seed(5)
    assert torch.randn(8, device=device).tolist() == first != second
    device_module.manual_seed(5)
    assert torch.randn(8, device=device).tolist() == first


def test_the_device_never_takes_numbers_of_the_host(device_module, device) -> None:
    torch.manual_seed(6)
    alone = torch.randn(4)
    torch.manual_seed(6)
    torch.randn(100, device=device)
    F.dropout(torch.ones(100, device=device), 0.5)
    assert torch.equal(torch.randn(4), alone)


def test_a_state_brings_the_same_numbers_back(device_module, device) -> None:
    torch.randn(3, device=device)
    state = device_module.get_rng_state()
    first = [torch.rand(5, device=device).tolist(), torch.randint(0, 100, (5,), device=device).tolist()]
    device_module.set_rng_state(state)
    assert [torch.rand(5, device=device).tolist(), torch.randint(0, 100, (5,), device=device).tolist()] == first


def test_numbers_belong_to_the_launch_whichever_stream_runs_first(device_module, device, hold) -> None:
    side = device_module.Stream()

    def draw(held: bool) -> list[Any]:
        torch.manual_seed(7)
        release = hold() if held else (lambda: None)
        a = torch.rand(5, device=device)
        with device_module.stream(side):
            b = torch.randn(5, device=device)
        side.synchronize()
        release()
        device_module.synchronize()
        return [a.tolist(), b.tolist()]

    assert draw(held=True) == draw(held=False)


def test_dropout_drops_the_same_after_the_same_seed(device_module, device) -> None:
    x = torch.ones(1000, device=device)
    torch.manual_seed(8)
    first = F.dropout(x, 0.5)
    torch.manual_seed(8)
    assert torch.equal(F.dropout(x, 0.5), first)
    assert 300 < (first == 0).sum().item() < 700


def test_checkpointing_draws_again_what_forward_drew(device_module, device) -> None:
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(9)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 8)).to(device)
    x = torch.ones(4, 8, device=device)

    def gradient(call: Any) -> Any:
        net.zero_grad()
        torch.manual_seed(10)
        call().sum().backward()
        return net[0].weight.grad.clone()

    plain = gradient(lambda: net(x))
    assert torch.equal(gradient(lambda: checkpoint(net, x, use_reentrant=False)), plain)


def test_autocast_lowers_products_and_keeps_sums_in_float32(device_module, device, kind) -> None:
    a = torch.ones(8, 8, device=device)
    target = torch.zeros(8, dtype=torch.long, device=device)
    with torch.autocast(kind, dtype=torch.bfloat16):
        low = a @ a
        wide = [F.softmax(low, 1), F.layer_norm(low, (8,)), F.cross_entropy(low, target), low.sum(), low.exp()]
        cell = torch.nn.LSTM(8, 8).to(device)(a)[0]
        assert F.linear(a, a).dtype == torch.bfloat16
        assert torch.bmm(a[None], a[None]).dtype == torch.bfloat16
        assert F.conv1d(a[None], a[:, :, None]).dtype == torch.bfloat16
        assert (low + a).dtype == torch.float32
        assert F.relu(low).dtype == torch.bfloat16
        with torch.autocast(kind, enabled=False):
            assert (a @ a).dtype == torch.float32
        with pytest.raises(RuntimeError, match="unsafe"):
            F.binary_cross_entropy(a.sigmoid(), a)
    assert (low.dtype, cell.dtype) == (torch.bfloat16, torch.bfloat16)
    assert {t.dtype for t in wide} == {torch.float32}
    assert (a @ a).dtype == torch.float32


def test_gradients_under_autocast_have_the_type_of_the_weights(device_module, device, kind) -> None:
    layer = torch.nn.Linear(4, 4).to(device)
    with torch.autocast(kind, dtype=torch.bfloat16):
        loss = layer(torch.ones(2, 4, device=device)).sum()
    loss.backward()
    assert layer.weight.grad.dtype == torch.float32
    assert layer.weight.grad.tolist() == [[2.0] * 4] * 4


def test_gradients_go_where_the_parameters_are(two_devices, device_module) -> None:
    near, far = two_devices
    first, second = torch.nn.Linear(3, 4).to(near), torch.nn.Linear(4, 2).to(far)
    x = torch.ones(5, 3)
    y = first(x.to(near))
    second(y.to(far)).sum().backward()
    assert [p.grad.device for p in (*first.parameters(), *second.parameters())] == [near, near, far, far]
    first.cpu()
    second.cpu()
    expected = second.weight.sum(0)[:, None].expand(4, 3) * 5
    torch.testing.assert_close(first.weight.grad, expected.detach())


@pytest.mark.parametrize("foreach", [False, True])
def test_an_optimiser_steps_over_two_devices(two_devices, device_module, foreach) -> None:
    layers = [torch.nn.Linear(3, 3).to(d) for d in two_devices]
    parameters = [p for layer in layers for p in layer.parameters()]
    before = [p.detach().cpu() for p in parameters]
    optimiser = torch.optim.Adam(parameters, lr=0.5, foreach=foreach)
    layers[1](layers[0](torch.ones(2, 3, device=two_devices[0])).to(two_devices[1])).sum().backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=foreach)
    optimiser.step()
    assert [p.device for p in parameters] == [d for d in two_devices for _ in range(2)]
    changed = [(p.detach().cpu() - b).abs().max().item() for p, b in zip(parameters, before, strict=True)]
    assert all(0.4 < c < 0.6 for c in changed)


def test_tensors_of_two_devices_do_not_mix(two_devices, device_module) -> None:
    a, b = (torch.ones(2, device=d) for d in two_devices)
    for mix in (lambda: a + b, lambda: torch.cat([a, b]), lambda: a @ b):
        with pytest.raises(RuntimeError, match="same device"):
            mix()


def test_tensors_of_host_and_device_do_not_mix(device_module, device) -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device=device) + torch.ones(2)
    assert (torch.ones(2, device=device) * torch.tensor(3.0)).tolist() == [3, 3]


def test_an_error_in_backward_reaches_the_caller_and_the_process_lives_on(device_module, device) -> None:
    def fail(_gradient: object) -> None:
        raise ValueError("said by a hook")

    w = torch.ones(2, device=device, requires_grad=True)
    y = w * 2
    y.register_hook(fail)
    with pytest.raises(ValueError, match="said by a hook"):
        y.sum().backward()
    (w * 3).sum().backward()
    assert w.grad.tolist() == [3, 3]


_LATE = """
import sys, torch
if sys.argv[1] == "sim":
    from perfmagic import sim
    sim.load()
module = torch.get_device_module(sys.argv[1])
table = torch.zeros(10, 4, device=sys.argv[1])
wrong = torch.tensor([99], device=sys.argv[1])
module.synchronize()
row = table[wrong]
print("launched")
try:
    module.synchronize()
except RuntimeError:
    print("told")
"""


@pytest.mark.slow
def test_a_wrong_index_is_reported_at_the_next_wait(device_module, kind) -> None:
    """In a process of its own: on CUDA nothing on the device works after it."""
    done = subprocess.run([sys.executable, "-c", _LATE, kind], capture_output=True, text=True, timeout=_WAIT_S)
    assert done.stdout.split() == ["launched", "told"], done.stderr


def test_a_wrong_shape_is_reported_at_the_call(device_module, device) -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.ones(2, 3, device=device) @ torch.ones(2, 3, device=device)


@pytest.mark.parametrize(
    "change", ["add_(1)", "mul_(x)", "copy_(torch.ones(3, 4))", "normal_()", "__setitem__(0, 1.0)"]
)
def test_a_change_in_place_of_an_expanded_tensor_fails_at_the_call(device_module, device, change) -> None:
    x = torch.zeros(3, 1, device=device).expand(3, 4)
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        eval(f"x.{change}", {"torch": torch, "x": x})
    device_module.synchronize()  # nothing is left to be told


def test_an_expanded_tensor_is_filled(device_module, device) -> None:
    x = torch.zeros(3, 1, device=device)
    x.expand(3, 4).fill_(2)
    x.expand(3, 4)[:2].zero_()
    assert x.flatten().tolist() == [0, 0, 2]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("lengths_on", ["host", "device"])
def test_ctc_loss_takes_lengths_on_the_host_and_on_the_device(device_module, device, reduction, lengths_on) -> None:
    torch.manual_seed(0)
    values, targets = torch.randn(20, 4, 6), torch.randint(1, 6, (4, 8))
    lengths = torch.full((4,), 20), torch.tensor([8, 5, 7, 3])
    there = [one.to(device) for one in lengths] if lengths_on == "device" else lengths

    def loss(place: Any, given: Any) -> tuple[torch.Tensor, torch.Tensor]:
        leaf = values.to(place).requires_grad_()
        found = torch.nn.functional.ctc_loss(leaf.log_softmax(2), targets.to(place), *given, reduction=reduction)
        return found.cpu(), torch.autograd.grad(found.sum(), leaf)[0].cpu()

    for mine, expected in zip(loss(device, there), loss("cpu", lengths), strict=True):
        assert torch.allclose(mine, expected, atol=1e-5)
    with torch.inference_mode():
        scores = values.to(device).log_softmax(2)
        without = torch.nn.functional.ctc_loss(scores, targets.to(device), *there, reduction=reduction)
    assert torch.allclose(without.cpu(), loss("cpu", lengths)[0], atol=1e-5)


class _Squares(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> Any:
        return torch.full((2,), float(i * i))


@pytest.mark.parametrize("pinned", [False, True])
def test_a_loader_with_workers_feeds_the_device(device_module, device, pinned) -> None:
    loader = torch.utils.data.DataLoader(_Squares(), batch_size=4, num_workers=2, pin_memory=pinned)
    batches = list(loader)
    assert [batch.is_pinned() for batch in batches] == [pinned] * 2
    assert [batch.to(device, non_blocking=True).sum().item() for batch in batches] == [28, 252]


def test_setting_a_default_device_puts_new_tensors_there(two_devices, device_module) -> None:
    far = two_devices[1]
    with far:
        made = [torch.ones(2), torch.tensor([1.0]), torch.nn.Linear(2, 2).weight, torch.arange(3)]
    assert {t.device for t in made} == {far}
    assert torch.ones(2).device.type == "cpu"
