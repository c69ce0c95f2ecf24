"""Several simulated devices: torch's own code takes all their tensors to be on sim:0, and nothing may come of that."""

import copy
import io
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

import perfmagic  # noqa: E402 - after the skip
from perfmagic import sim  # noqa: E402 - after the skip
from perfmagic.base.errors import DeviceError  # noqa: E402

pytestmark = pytest.mark.slow

nn = torch.nn
F = torch.nn.functional
Hold = Callable[[], Callable[[], None]]
D0, D1 = "sim:0", "sim:1"


def _where(*tensors: Any) -> set[str]:
    return {str(t.device) for t in tensors}


# functions whose forward or gradient makes tensors of its own "where x is"
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "index by list": lambda x: x[[0, 1]],
    "index by mask": lambda x: x[x > 0],
    "index column list": lambda x: x[:, [0, 2]],
    "max of rows": lambda x: x.max(1).values,
    "sort": lambda x: x.sort(1).values,
    "topk": lambda x: x.topk(2).values,
    "median": lambda x: x.median(1).values,
    "cumprod": lambda x: x.cumprod(1),
    "prod": lambda x: x.prod(),
    "std": lambda x: x.std(1),
    "quantile": lambda x: x.quantile(0.5),
    "where a number": lambda x: torch.where(x > 0, x, 0.0),
    "masked_fill": lambda x: x.masked_fill(x > 0, 0),
    "gather": lambda x: x.gather(1, torch.zeros(2, 2, dtype=torch.long, device=x.device)),
    "index_select": lambda x: x.index_select(0, torch.tensor([1], device=x.device)),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "cov": torch.cov,
    "cosine": lambda x: F.cosine_similarity(x, x.detach() + 1),
    "causal attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    "cross entropy": lambda x: F.cross_entropy(x, torch.tensor([0, 1], device=x.device), label_smoothing=0.1),
    "ctc": lambda x: F.ctc_loss(x.view(2, 1, 3).log_softmax(2), torch.tensor([[1]], device=x.device), (2,), (1,)),
    "embedding": lambda x: F.embedding(torch.tensor([0, 1, 1], device=x.device), x),
    "new_tensor": lambda x: x * x.new_tensor([1.0, 2.0, 3.0]),
    "norm": torch.linalg.norm,
    "max_pool": lambda x: F.max_pool1d(x[None], 2),
    "through float64": lambda x: x.to(torch.float64).float(),
    "through the other device": lambda x: x.to(D0).mul(2).to(D1).to(x.device),
    "through the host": lambda x: x.cpu().to(x.device),
    "type_as": lambda x: x.cpu().type_as(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_on_a_second_device_are_those_of_the_cpu(name: str) -> None:
    outcome = {}
    for device in ("cpu", D0, D1):
        leaf = torch.randn(2, 3, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()
        y = FUNCTIONS[name](leaf * 1)
        (y * torch.ones_like(y)).sum().backward()
        assert _where(y, leaf.grad) == {device}
        outcome[device] = y.detach().cpu(), leaf.grad.cpu()
    for device in (D0, D1):
        torch.testing.assert_close(outcome[device], outcome["cpu"])


def test_setting_parts_of_a_tensor_on_a_second_device() -> None:
    b = torch.arange(6.0).view(2, 3).to(D1)
    b[b > 4] = -1.0
    b[0, 0] = 7
    b[:, [1]] = torch.tensor(9.0)
    b[1] += 1
    assert b.tolist() == [[7, 9, 2], [4, 10, 0]]
    assert F.one_hot(torch.tensor([0, 2], device=D1)).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert _where(F.one_hot(torch.tensor([0, 2], device=D1), 4)) == {D1}


def test_in_place_ops_on_views_of_a_moved_tensor_reach_it_and_not_its_origin() -> None:
    a = torch.arange(6.0, device=D0).view(2, 3)
    b = a.to(D1)
    b.t()[0].mul_(10)
    b[1].add_(100)
    assert b.tolist() == [[0, 1, 2], [130, 104, 105]]
    assert a.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_every_way_to_make_a_tensor_like_another_puts_it_beside_that_one() -> None:
    b = torch.ones(2, device=D1)
    beside = [
        b.new_zeros(2), b.new_ones(2), b.new_full((2,), 3.0), b.new_empty(2), b.new_tensor([1, 2]),
        torch.zeros_like(b), torch.ones_like(b), torch.full_like(b, 2), torch.empty_like(b), torch.rand_like(b),
        torch.randn_like(b), torch.randint_like(b, 3), torch.bernoulli(b),
    ]  # fmt: skip
    assert _where(*beside) == {D1}
    given = [torch.zeros_like(b, device=D0), torch.rand_like(b, device=D0), b.new_ones(2, device=D0)]
    assert _where(*given) == {D0}
    on_host = [torch.zeros_like(b, device="cpu"), torch.full_like(b, 2, device="cpu"), b.new_ones(2, device="cpu")]
    assert _where(*on_host, torch.rand_like(b, device="cpu")) == {"cpu"}
    assert on_host[1].tolist() == [2, 2]


def test_factories_make_tensors_on_the_device_that_is_named() -> None:
    made = [
        torch.tril_indices(3, 3, device=D1), torch.triu_indices(3, 3, device=D1), torch.arange(3, device=D1),
        torch.randperm(3, device=D1), torch.tensor([1, 2], device=D1), torch.as_tensor([1], device=D1),
        torch.eye(2, device=D1), torch.hann_window(4, device=D1), torch.normal(0.0, 1.0, (2,), device=D1),
    ]  # fmt: skip
    assert _where(*made) == {D1}
    assert made[0].tolist() == torch.tril_indices(3, 3).tolist()


def test_all_forms_of_to() -> None:
    a, b = torch.ones(2, device=D0), torch.ones(2, dtype=torch.float64, device=D1)
    assert (a.to(b).device, a.to(b).dtype, b.to(a).device) == (b.device, b.dtype, a.device)
    assert torch.ones(2).to(b).device == b.device
    assert _where(b.to(torch.float16), b.half(), b.long(), b.to(device=D1, dtype=torch.half, copy=True)) == {D1}
    assert b.to(D1) is b.to(1) is b.to(b) is b
    assert b.to(D1, copy=True) is not b
    assert a.type_as(b).device == b.device
    with torch.sim.device(1):
        assert a.to("sim").device == b.device


def test_a_module_moves_between_devices_and_keeps_its_parameters_and_gradients() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(D0)
    weight, expected = net[0].weight, copy.deepcopy(net.state_dict())
    net(torch.ones(2, 3, device=D0)).sum().backward()
    for device in (D1, D0, D1):
        net.to(device)
        assert net[0].weight is weight
        assert _where(*net.state_dict().values(), *(p.grad for p in net.parameters())) == {device}
        assert isinstance(weight, nn.Parameter)
        assert weight.requires_grad
    net.to("cpu")
    assert type(net[0].weight) is nn.Parameter
    assert torch.equal(net[0].weight, expected["0.weight"].cpu())
    assert {p.dtype for p in net.to(D1, torch.bfloat16).parameters()} == {torch.bfloat16}


def test_setting_data_moves_a_parameter() -> None:
    p = nn.Parameter(torch.ones(2, device=D0))
    p.data = torch.zeros(2, device=D1)
    p.data[p.data == 0] = 3.0
    assert (str(p.device), p.tolist()) == (D1, [3, 3])
    p.data = torch.ones(2, device=D0)
    assert _where(p, p * 2) == {D0}


def test_gradients_of_two_devices_meet_where_the_tensor_is() -> None:
    w = torch.randn(3, 3, device=D0, requires_grad=True)
    (w.sum().to(D1) + (w.to(D1) * 2).sum()).backward()
    assert w.grad.tolist() == [[3.0] * 3] * 3
    x = torch.ones(3, device=D1, requires_grad=True)
    torch.zeros(3, device=D0).copy_(x).sum().backward()
    assert (_where(x.grad), x.grad.tolist()) == ({D1}, [1, 1, 1])
    y = torch.zeros(2, 3, device=D0)
    y[1] = x * 2
    y.sum().backward()
    assert (_where(x.grad), x.grad.tolist()) == ({D1}, [3, 3, 3])


def test_a_second_derivative_crosses_devices() -> None:
    x = torch.full((2,), 2.0, device=D1, requires_grad=True)
    (slope,) = torch.autograd.grad((x.to(D0) ** 3).sum(), x, create_graph=True)
    slope.sum().backward()
    assert (_where(x.grad), x.grad.tolist()) == ({D1}, [12, 12])


OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "sgd foreach": lambda p: torch.optim.SGD(p, 0.1, foreach=True),
    "sgd fused": lambda p: torch.optim.SGD(p, 0.1, fused=True),
    "adam": lambda p: torch.optim.Adam(p, 0.1),
    "adamw foreach": lambda p: torch.optim.AdamW(p, 0.1, foreach=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, 0.1, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.1),
}


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("clipped", [None, False, True], ids=["unclipped", "clipped", "clipped foreach"])
def test_training_over_two_devices_gives_the_weights_of_one(name: str, clipped: bool | None) -> None:
    torch.manual_seed(4)
    layers = nn.Linear(4, 4), nn.Linear(4, 2)

    def train(devices: tuple[str, str]) -> list[Any]:
        first, second = (copy.deepcopy(layer).to(d) for layer, d in zip(layers, devices, strict=True))
        parameters = [*first.parameters(), *second.parameters()]
        optimiser = OPTIMISERS[name](parameters)
        for _ in range(2):
            optimiser.zero_grad()
            hidden = first(torch.ones(3, 4, device=devices[0])).relu()
            second(hidden.to(devices[1])).square().mean().backward()
            if clipped is not None:
                nn.utils.clip_grad_norm_(parameters, 0.1, foreach=clipped)
            optimiser.step()
        assert _where(*first.parameters()) == {devices[0]}
        return [p.detach().cpu() for p in parameters]

    assert all(torch.equal(a, b) for a, b in zip(train((D0, D1)), train((D0, D0)), strict=True))


def test_optimisers_and_clipping_take_lists_as_on_cuda() -> None:
    parameters = [nn.Parameter(torch.ones(2, device=D0)) for _ in range(150)]
    optimiser = torch.optim.AdamW(parameters)

    def launched() -> int:
        for p in parameters:
            p.grad = torch.ones_like(p)
        with perfmagic.timeline():
            nn.utils.clip_grad_norm_(parameters, 0.1)
            optimiser.step()
        return len(perfmagic.last().trace.ops)  # type: ignore[union-attr]

    launched()  # makes the state, a tensor at a time
    assert launched() < 20


def test_a_scaler_finds_what_is_not_finite_on_each_device() -> None:
    p = nn.Parameter(torch.ones(2, device=D1))
    scaler, optimiser = torch.amp.GradScaler("sim", init_scale=4.0), torch.optim.SGD([p], 1.0)
    scaler.scale(p.sum()).backward()
    scaler.step(optimiser)
    assert p.tolist() == [0, 0]
    p.grad = torch.full((2,), float("inf"), device=D1)
    scaler.update()
    scaler.step(optimiser)
    assert p.tolist() == [0, 0]
    scaler.update()
    assert scaler.get_scale() == 2.0


def test_sequences_of_different_lengths_run_through_a_recurrent_net() -> None:
    torch.manual_seed(5)
    net = nn.LSTM(3, 4)
    parts = [torch.randn(4, 3), torch.randn(2, 3)]
    expected = nn.utils.rnn.pad_packed_sequence(net(nn.utils.rnn.pack_sequence(parts))[0])[0]
    for device in (D0, D1):
        there = net.to(device)
        packed = nn.utils.rnn.pack_sequence([p.to(device) for p in parts])
        out, lengths = nn.utils.rnn.pad_packed_sequence(there(packed)[0])
        out.sum().backward()
        assert (_where(out), lengths.tolist()) == ({device}, [4, 2])
        torch.testing.assert_close(out.detach().cpu(), expected.detach())


def test_a_default_device_is_taken_by_everything_that_names_none() -> None:
    torch.set_default_device(D1)
    try:
        made = [torch.ones(2), torch.tensor([1.0]), nn.Linear(2, 2).weight, nn.LSTM(2, 2)(torch.ones(1, 1, 2))[0]]
    finally:
        torch.set_default_device(None)
    assert _where(*made) == {D1}
    with torch.device("sim"), torch.sim.device(1):
        assert _where(torch.ones(2)) == {D1}


def test_threads_work_on_devices_of_their_own() -> None:
    wrong: list[object] = []

    def work(index: int) -> None:
        torch.sim.set_device(index)
        for _ in range(50):
            t = torch.zeros(4, device="sim")
            t[t < 1] = 3.0
            if t.device.index != index or t.sum().item() != 12:
                wrong.append(t)

    threads = [threading.Thread(target=work, args=(i,)) for i in (0, 1, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert torch.sim.current_device() == 0


def test_saved_tensors_come_back_where_they_were_or_where_they_are_wanted() -> None:
    net = nn.Linear(3, 2).to(D1)

    def load(**options: Any) -> Any:
        file = io.BytesIO()
        torch.save(net.state_dict(), file)
        file.seek(0)
        return torch.load(file, **options)["weight"]

    assert _where(load(), load(weights_only=False)) == {D1}
    assert _where(load(map_location="cpu"), load(map_location=lambda storage, _place: storage)) == {"cpu"}
    assert torch.equal(load(map_location="cpu"), net.weight.detach().cpu())
    assert _where(pickle.loads(pickle.dumps(net.weight))) == {D1}
    twin = nn.Linear(3, 2).to(D0)
    twin.load_state_dict(net.state_dict())
    assert torch.equal(twin.weight.cpu(), net.weight.cpu())
    assert _where(*copy.deepcopy(nn.ModuleList([net, twin])).parameters()) == {D0, D1}


def test_the_state_of_an_optimiser_is_saved_and_comes_back() -> None:
    net = nn.Linear(3, 2).to(D1)
    optimiser = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 3, device=D1)).sum().backward()
    optimiser.step()
    file = io.BytesIO()
    torch.save(optimiser.state_dict(), file)
    file.seek(0)
    twin = torch.optim.Adam(net.parameters())
    twin.load_state_dict(torch.load(file))
    twin.step()
    assert _where(*(s["exp_avg"] for s in twin.state.values())) == {D1}


def test_each_device_has_its_own_random_numbers() -> None:
    torch.manual_seed(3)
    first = [torch.rand(3, device=d).tolist() for d in (D0, D1, D1)]
    torch.manual_seed(3)
    assert torch.rand(3, device=D1).tolist() == first[1]  # whatever the other device has drawn
    states = torch.sim.get_rng_state_all()
    second = torch.rand(3, device=D1).tolist()
    assert second == first[2]
    torch.sim.set_rng_state_all(states)
    assert torch.rand(3, device=D1).tolist() == second
    with torch.random.fork_rng([0, 1], device_type="sim"):
        torch.rand(3, device=D0)
    assert torch.rand(3, device=D0).tolist() == first[0]


def test_errors_in_backward_say_what_they_say_elsewhere(hold: Hold) -> None:
    def fail(_gradient: object) -> None:
        raise ValueError("said by a hook")

    for device in (D0, D1):
        w = torch.ones(2, device=device, requires_grad=True)
        y = w * 2
        y.register_hook(fail)
        with pytest.raises(ValueError, match="said by a hook"):
            y.sum().backward()
        with pytest.raises(ValueError, match="said by a hook"):
            torch.autograd.grad(y.sum(), w)


def test_an_op_that_fails_on_one_device_is_reported_by_that_device() -> None:
    table = torch.zeros(3, 2, device=D1)
    F.embedding(torch.tensor([9], device=D1), table)
    sim.synchronize(0)
    with pytest.raises(DeviceError, match="index out of range"):
        sim.synchronize(1)


def test_tensors_of_two_devices_are_refused_with_both_names() -> None:
    a, b = torch.ones(2, device=D0), torch.ones(2, device=D1)
    mixes: list[Callable[[], Any]] = [
        lambda: a + b, lambda: torch.cat([a, b]), lambda: torch.equal(a, b), lambda: b[torch.tensor([0], device=D0)],
    ]  # fmt: skip
    for mix in mixes:
        with pytest.raises(RuntimeError, match="found sim:0 and sim:1"):
            mix()
    b.record_stream(torch.sim.Stream())
