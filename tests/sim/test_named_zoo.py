"""What today's models launch on a named GPU has a predicted time, or says that it has none; nothing takes 0 ns."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import perfmagic
from perfmagic import sim
from perfmagic.base.kinds import UNKNOWN_TIME

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _real_clock_after(_device: None) -> Iterator[None]:
    yield
    sim.load(clock="real")
    torch.sim.empty_cache()


def launched(body: Callable[[], object]) -> dict[str, int]:
    """The least time of each kernel that a call launches, by name."""
    with perfmagic.timeline():
        body()
    trace = perfmagic.last().trace  # type: ignore[union-attr]
    found: dict[str, int] = {}
    for name, length_ns in zip(trace.ops.name, trace.ops.end_ns - trace.ops.start_ns, strict=True):
        key = trace.names[name]
        found[key] = min(found.get(key, 1 << 60), int(length_ns))
    return found


class First(nn.Module):
    """The first result of a module that has several."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Any) -> Any:
        found = self.net(x)
        return found[0] if isinstance(found, tuple) else found


class Attention(nn.Module):
    """A layer of a language model: rotary positions, grouped heads, RMS norm, a gated MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.RMSNorm(32), nn.Linear(32, 64, bias=False), nn.Linear(32, 32)
        self.gate, self.down = nn.Linear(32, 128), nn.Linear(64, 32)

    def forward(self, x: Any) -> Any:
        q, k, v = (t.unflatten(-1, (-1, 8)).transpose(1, 2) for t in self.qkv(self.norm(x)).split([32, 16, 16], -1))
        angle = torch.arange(x.shape[1], device=x.device)[:, None] * 1.0 / 10000 ** torch.linspace(0, 1, 4).to(x.device)
        turn = torch.cat((angle.cos(), angle.cos()), -1), torch.cat((angle.sin(), angle.sin()), -1)
        q, k = (t * turn[0] + torch.cat((-t[..., 4:], t[..., :4]), -1) * turn[1] for t in (q, k))
        k, v = (t.repeat_interleave(2, 1) for t in (k, v))
        y = functional.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        a, b = self.gate(self.norm(x)).chunk(2, -1)
        return x + self.down(functional.silu(a) * b)


def _seq(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "cnn": (
        lambda: _seq(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Dropout(0.1), nn.Conv2d(8, 8, 3, groups=8), nn.GroupNorm(2, 8), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(8, 10),
        ),
        (4, 3, 16, 16),
    ),
    "mobilenet": (
        lambda: _seq(
            nn.Conv2d(3, 8, 1), nn.Hardswish(), nn.Conv2d(8, 8, 3, groups=8, padding=1), nn.ReLU6(), nn.AvgPool2d(2),
            nn.PReLU(), nn.Dropout2d(0.2), nn.Hardsigmoid(), nn.InstanceNorm2d(8),
        ),
        (2, 3, 8, 8),
    ),
    "unet": (
        lambda: _seq(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Upsample(scale_factor=2),
            nn.ReflectionPad2d(1), nn.PixelUnshuffle(2), nn.PixelShuffle(2), nn.UpsamplingBilinear2d(scale_factor=2),
            nn.ZeroPad2d(1), nn.ReplicationPad2d(1), nn.Softmax2d(),
        ),
        (2, 3, 4, 4),
    ),
    "conv1d": (
        lambda: _seq(
            nn.Conv1d(3, 8, 3), nn.BatchNorm1d(8), nn.GLU(1), nn.LayerNorm(14), nn.GELU(), nn.ConvTranspose1d(4, 3, 3),
            nn.MaxPool1d(2), nn.AdaptiveAvgPool1d(4), nn.Softmax(-1), nn.LeakyReLU(), nn.ELU(), nn.SELU(), nn.CELU(),
            nn.Mish(), nn.Softplus(), nn.LogSigmoid(), nn.Sigmoid(), nn.Tanh(), nn.Softsign(), nn.Hardtanh(),
        ),
        (4, 3, 16),
    ),
    "conv3d": (
        lambda: _seq(
            nn.Conv3d(3, 4, 3), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2), nn.AdaptiveAvgPool3d(1),
        ),
        (2, 3, 6, 6, 6),
    ),
    "lstm": (lambda: First(nn.LSTM(8, 16, num_layers=2, batch_first=True, bidirectional=True)), (2, 5, 8)),
    "gru": (lambda: First(nn.GRU(8, 16, dropout=0.1, num_layers=2)), (2, 5, 8)),
    "rnn": (lambda: First(nn.RNN(8, 16)), (2, 5, 8)),
    "bert": (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (2, 8, 32)),
    "bert in evaluation": (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), (2, 8, 32)),
    "llama": (lambda: _seq(Attention(), Attention()), (2, 8, 32)),
}  # fmt: skip
OPTIMISERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "adam, fused": lambda p: torch.optim.Adam(p, fused=True),
    "adam, a tensor at a time": lambda p: torch.optim.Adam(p, foreach=False, amsgrad=True),
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "sgd, fused": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, fused=True),
    "adagrad": torch.optim.Adagrad,
    "rmsprop": lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.9),
    "adamax": torch.optim.Adamax,
    "adadelta": torch.optim.Adadelta,
    "nadam": torch.optim.NAdam,
}


def _train(net: nn.Module, x: Any, optimiser: Any, *, scaled: bool = False) -> Callable[[], None]:
    scaler = torch.amp.GradScaler("sim", enabled=scaled)

    def step() -> None:
        for _ in range(2):
            optimiser.zero_grad()
            loss = net(x).float().square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimiser)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimiser)
            scaler.update()

    return step


def check(found: dict[str, int], unknown: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    assert found
    assert min(found.values()) > 0
    assert {name.removesuffix(UNKNOWN_TIME) for name in found if name.endswith(UNKNOWN_TIME)} <= unknown


@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains_in_predicted_kernels(name: str) -> None:
    build, shape = MODELS[name]
    device = perfmagic.device("H100")
    net, x = build().to(device), torch.randn(shape).to(device)
    check(launched(_train(net, x, torch.optim.AdamW(net.parameters()))))
    for no_grad in (torch.no_grad, torch.inference_mode):
        with no_grad():
            check(launched(lambda: net(x)))
    with torch.autocast("sim", dtype=torch.bfloat16):
        check(launched(_train(net, x, torch.optim.SGD(net.parameters(), 0.1), scaled=True)))


@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_optimiser_steps_in_predicted_kernels(name: str) -> None:
    device = perfmagic.device("A100")
    net, x = nn.Linear(8, 8).to(device), torch.randn(4, 8).to(device)
    check(launched(_train(net, x, OPTIMISERS[name](net.parameters()))))


# Calls of a kind, as Python expressions of the names below
CALLS = {
    "losses": """
        [loss(grad, x).backward() for loss in (
            f.binary_cross_entropy_with_logits, f.mse_loss, f.l1_loss, f.smooth_l1_loss, f.huber_loss, f.kl_div)]
    """,
    "binary cross entropy": "f.binary_cross_entropy(grad.sigmoid(), x).backward()",
    "cross entropy": "f.cross_entropy(grad, ids, label_smoothing=0.1, ignore_index=1).backward()",
    "cosine": "(f.cosine_similarity(grad, x).sum() + f.normalize(grad).sum()).backward()",
    "embeddings": "(words[0](at).sum() + words[1](at).sum()).backward()",
    "slices": "(grad[0].sum() + grad[:, 2:4].sum() + grad[..., ::2].sum() + grad[at].sum()).backward()",
    "index": "x[ids], x[x > 0.5], x.gather(0, at), x.scatter(0, at, x), x.scatter_add(0, at, x)",
    "masks": "x.masked_fill(x > 0, 0), x.masked_select(x > 0), torch.where(x > 0, x, 0.0), x.tril(-1)",
    "writes": "x.index_put_((ids,), row), x.index_add_(0, ids, x), x.index_copy_(0, ids, x), x.addcmul_(x, x)",
    "shapes": "torch.stack([x, x]), torch.cat([x, x], 1), x.repeat(2, 2), x.tile(2), x.flip(0), x.roll(1)",
    "more shapes": """
        x.repeat_interleave(2, 0), f.pad(x, (1, 1)), x.t().contiguous(), x.rot90(), x.diff(), x.unfold(0, 2,
        1).clone()
    """,
    "windows": """
        f.unfold(image, 2), f.fold(f.unfold(image, 2), (8, 8), 2), f.grid_sample(image, image.permute(0, 2, 3,
        1))
    """,
    "resize": """
        [f.interpolate(image, scale_factor=2, mode=mode) for mode in ("nearest", "bilinear", "bicubic", "area")]
    """,
    "new": """
        torch.arange(5, device=d), torch.full((2,), 3.0, device=d), torch.eye(3, device=d), torch.linspace(0, 1,
        5, device=d), torch.zeros_like(x), torch.randn_like(x), torch.randint(3, (4,), device=d)
    """,
    "products": """
        x @ x, x @ row, x[None] @ x[None], torch.addmm(x, x, x), torch.einsum("ij,kj->ik", x, x),
        torch.outer(row, row), row @ row, torch.baddbmm(x[None], x[None], x[None]), f.linear(half, half),
        torch.addmv(row, x, row), f.bilinear(x, x, x[None].expand(4, 8, 8))
    """,
    "means": """
        x.sum(), x.mean(0), x.std(), x.var(1), x.max(), x.max(0), x.min(), x.amax(0), x.argmax(), x.any(),
        x.all(), x.norm(), x.prod(), x.cumsum(0), x.cumprod(0), x.logsumexp(0), x.softmax(-1), x.log_softmax(0),
        torch.std_mean(x), x.logcumsumexp(0), x.cummax(0)
    """,
    "elements": """
        x.pow(2), x.sqrt(), x.exp(), x.log1p(), x.clamp(0, 1), x.sign(), x.round(), x.isnan(), x.lerp(x, 0.5),
        x.erf(), x.floor_divide(2), x % 2, x.atan2(x), x.half().float(), ~(x > 0), x.nan_to_num(), x.sinc(),
        x.exp2(), torch.polar(x, x).abs(), x.bool() & x.bool(), x.long() << 1, x.digamma(), x.frac(), x.trunc(),
        torch.view_as_complex(x.view(8, 4, 2)) * 2
    """,
    "norms": "f.rms_norm(x, (8,)), f.layer_norm(grad, (8,)).sum().backward(), f.group_norm(image, 2)",
    "activations": """
        [each(grad).sum().backward() for each in (f.mish, f.glu, f.gelu, f.silu, f.relu6, f.softplus, f.logsigmoid,
        f.hardswish, f.elu, f.selu, f.tanhshrink, f.softshrink, f.hardshrink)]
    """,
    "one hot": "f.one_hot(ids, 4)",
    "attention": "sdpa(*[image] * 3, dropout_p=0.1).sum().backward()",
    "double attention": "sdpa(*[image.double()] * 3).sum()",
    "distances": "torch.cdist(x, x), f.pairwise_distance(x, x), torch.tril_indices(4, 4, device=d)",
    "fft": "torch.fft.fft(x)",
    "sort": """
        x.sort(), x.topk(2), x.argsort(), x.unique(), x.kthvalue(2), x.median(), torch.searchsorted(row, row),
        x.histc(4)
    """,
    "random": """
        torch.multinomial(x + 1, 2), torch.randperm(5, device=d), torch.bernoulli(x), x.uniform_(),
        f.dropout(x), x.exponential_(), f.gumbel_softmax(x)
    """,
    "linear algebra": """
        torch.linalg.svd(x), torch.linalg.inv(x + torch.eye(8, device=d)), torch.linalg.qr(x),
        torch.linalg.norm(x)
    """,
}


def _names(d: Any) -> dict[str, Any]:
    return {
        "x": torch.rand(8, 8, device=d),
        "row": torch.rand(8, device=d),
        "half": torch.rand(8, 8, device=d).bfloat16(),
        "grad": torch.rand(8, 8, device=d).requires_grad_(),
        "at": torch.zeros(2, 8, dtype=torch.long, device=d),
        "ids": torch.zeros(8, dtype=torch.long, device=d),
        "image": torch.rand(1, 2, 8, 8, device=d).requires_grad_(),
        "words": (nn.Embedding(10, 4, device=d), nn.EmbeddingBag(10, 4, device=d)),
        "sdpa": functional.scaled_dot_product_attention,
        "f": functional,
        "torch": torch,
        "d": d,
    }


# What these take depends on values, or on algorithms that libraries choose
UNKNOWN = {
    "sort": {"_unique2", "kthvalue", "median", "searchsorted", "histc"},
    "random": {"multinomial", "randperm"},
    "linear algebra": {"_linalg_svd", "linalg_inv_ex", "_linalg_check_errors", "linalg_qr"},
    "distances": {"_cdist_forward"},
    "products": {"_trilinear"},
    "fft": {"_fft_r2c"},
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_function_is_predicted_or_its_time_is_unknown(name: str) -> None:
    names = _names(perfmagic.device("H100"))
    found = launched(lambda: eval(f"({CALLS[name].strip()})", names))
    assert min(found.values()) > 0
    assert {each.removesuffix(UNKNOWN_TIME) for each in found if UNKNOWN_TIME in each} == UNKNOWN.get(name, set())
