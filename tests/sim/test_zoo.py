"""Small models trained some steps: the device gives what one thread of the CPU gives, and the same from run to run."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

nn = torch.nn
STEPS = 4


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.norm(self.conv(x)) + x)


class Last(nn.Module):
    """The output of a recurrent net after the last step."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net, self.head = net, nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.net(x)[0][-1])


def _resnet() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), Residual(4), Residual(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )


def _transformer(dropout: float) -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=dropout)
    return nn.Sequential(layer, nn.Flatten(0, 1), nn.Linear(8, 3))


# (model, shape of its input, whether no substitute for a CPU kernel is in it)
ZOO: dict[str, tuple[Callable[[], Any], tuple[int, ...], bool]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)), (6, 8), True),
    "resnet": (_resnet, (6, 1, 8, 8), True),
    "transformer": (lambda: _transformer(0.0), (3, 2, 8), True),
    "lstm": (lambda: Last(nn.LSTM(4, 6, num_layers=2)), (5, 6, 4), False),
    "gru": (lambda: Last(nn.GRU(4, 6)), (5, 6, 4), False),
    "dropout": (lambda: nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3)), (6, 8), False),
    "transformer with dropout": (lambda: _transformer(0.3), (3, 2, 8), False),
}
RANDOM = {"dropout", "transformer with dropout"}
OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, foreach=False),
}


def _train(net: Any, x: Any, y: Any, optimiser: Callable[[Any], Any]) -> list[Any]:
    steps, losses = optimiser(net.parameters()), []
    for _ in range(STEPS):
        steps.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        steps.step()
        losses.append(loss.detach())
    return [t.detach().cpu() for t in (*losses, *net.state_dict().values())]


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("model", [name for name in ZOO if name not in RANDOM])
def test_training_gives_what_one_thread_of_the_cpu_gives(model: str, optimiser: str) -> None:
    build, shape, exact = ZOO[model]
    torch.manual_seed(1)
    net, x, y = build(), torch.randn(shape), torch.randint(0, 3, (6,))
    results = {}
    for device in ("cpu", "sim:0", "sim:1"):
        # torch chooses its fused attention by device; for a device it does not know it takes the plain one
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            twin = copy.deepcopy(net).to(device)
            results[device] = _train(twin, x.to(device), y.to(device), OPTIMISERS[optimiser])
    for a, b, c in zip(*results.values(), strict=True):
        assert torch.equal(b, c)
        if exact:
            assert torch.equal(a, b)
        else:
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("model", ZOO)
def test_a_run_repeats_bit_for_bit(model: str) -> None:
    build, shape, _ = ZOO[model]

    def run() -> list[Any]:
        torch.manual_seed(2)
        net = build().to("sim")
        return _train(net, torch.randn(shape, device="sim"), torch.arange(6, device="sim") % 3, OPTIMISERS["adam"])

    first = run()
    with torch.sim.stream(torch.sim.Stream()):
        second = run()
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert len({loss.item() for loss in first[:STEPS]}) == STEPS  # it does train
