"""Pairs that do the same work in different ways: a judge that refuses them is of no use."""

import copy
import io
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from .cheats import Made, matrices, product


@dataclass(frozen=True)
class Honest:
    """make: gives the pair, for a device.  count: of matrices.  said: further options of compare()."""

    make: Callable[[str], Made]
    devices: tuple[str, ...]
    count: int
    said: dict[str, Any] = field(default_factory=dict)


HONEST: dict[str, Honest] = {}


def honest(*devices: str, count: int = 2, **said: Any) -> Callable[[Any], Any]:
    """List a maker of pairs."""

    def listed(make: Callable[[str], Made]) -> Callable[[str], Made]:
        HONEST[make.__name__] = Honest(make, devices or ("cpu", "sim"), count, said)
        return make

    return listed


@honest()
def fused(_device: str) -> Made:
    return lambda x, w: x * w + x, lambda x, w: torch.addcmul(x, x, w)


@honest()
def in_place(_device: str) -> Made:
    def other(x, w):
        out = x * w
        out += x
        return out.relu_()

    return lambda x, w: (x * w + x).relu(), other


@honest()
def into_a_workspace(device: str) -> Made:
    out = torch.empty(48, 48).to(device)
    return lambda x, w: x @ w, lambda x, w: torch.mm(x, w, out=out)


@honest("cpu", count=4)
def all_in_one_call(_device: str) -> Made:
    return lambda *given: [each * 2 for each in given], lambda *given: torch._foreach_mul([*given], 2)


@honest()
def other_layout(_device: str) -> Made:
    return lambda x, w: x @ w, lambda x, w: (w.t().contiguous() @ x.t().contiguous()).t()


@honest(count=4)
def batched(_device: str) -> Made:
    return lambda *g: torch.stack([each @ each for each in g]), lambda *g: torch.bmm(torch.stack(g), torch.stack(g))


@honest("cpu")
def compiled(_device: str) -> Made:
    inputs = matrices("cpu")(torch.Generator())
    return product, torch.jit.trace(product, inputs)


@honest(count=3)
def product_and_sum(_device: str) -> Made:
    return lambda b, x, w: x @ w + b, torch.addmm


@honest()
def by_another_name(_device: str) -> Made:
    return lambda x, w: torch.einsum("ij,jk->ik", x, w), lambda x, w: x @ w


@honest(count=1)
def other_order_of_a_sum(_device: str) -> Made:
    return lambda x: x.sum(0).sum(), lambda x: x.t().contiguous().sum()


@honest("cpu")
def numpy_and_torch(_device: str) -> Made:
    return lambda x, w: x.numpy() @ w.numpy(), lambda x, w: x @ w


@honest("cpu", dtype="float32")
def declared_precision(_device: str) -> Made:
    return lambda x, w: x.double() @ w.double(), lambda x, w: x @ w


@honest()
def the_same(_device: str) -> Made:
    return product, lambda x, w: product(x, w) + 0


@honest()
def other_brackets(_device: str) -> Made:
    return lambda x, w: (x @ w) @ w[:, :1], lambda x, w: x @ (w @ w[:, :1])


@honest("sim")
def two_streams_joined(_device: str) -> Made:
    stream = torch.sim.Stream()

    def other(x, w):
        stream.wait_stream(torch.sim.current_stream())
        with torch.sim.stream(stream):
            right = w @ w
        left = x @ x
        torch.sim.current_stream().wait_stream(stream)
        return left + right

    return lambda x, w: x @ x + w @ w, other


@honest("cpu")
def until_it_converges(_device: str) -> Made:
    def shrink(x, w):
        for _ in range(9):
            if float(x.abs().max()) < 0.05:
                break
            x = x @ w * 0.5
        return x

    return shrink, lambda x, w: shrink(x, w.clone())


@honest()
def training_step(_device: str) -> Made:
    def step(x, w):
        w -= 0.1 * (x.t() @ (x @ w))
        return w.sum()

    def other(x, w):
        w.sub_(torch.mm(x.t(), torch.mm(x, w)), alpha=0.1)
        return w.sum()

    return step, other


@honest()
def random_of_one_seed(_device: str) -> Made:
    return lambda x, _w: torch.dropout(x, 0.5, True), lambda x, _w: functional.dropout(x, 0.5)


# More than the eighteen: what a judge refused at first.


@honest("cpu")
def threads_of_a_pool(_device: str) -> Made:
    pool = ThreadPoolExecutor(2)
    return lambda x, w: [x @ w, w @ x], lambda x, w: [*pool.map(lambda g: g[0] @ g[1], [(x, w), (w, x)])]


@honest(fixed=(1,))
def folded_weights(_device: str) -> Made:
    kept: dict[int, Any] = {}

    def other(x, w):
        if id(w) not in kept:
            kept[id(w)] = w @ w
        return x @ kept[id(w)]

    return lambda x, w: x @ w @ w, other


@honest("cpu", values="given")
def skips_what_is_zero(_device: str) -> Made:
    return lambda x, w: x.tril() @ w, lambda x, w: x.tril() @ w if bool(x.any()) else torch.zeros_like(x)


@honest()
def softmax_by_hand(_device: str) -> Made:
    return lambda x, _w: torch.softmax(x, 1), lambda x, _w: x.exp() / x.exp().sum(1, keepdim=True)


@honest("cpu", random=True)
def unlike_random_numbers(_device: str) -> Made:
    return lambda x, _w: torch.randn_like(x), lambda x, _w: torch.empty_like(x).normal_()


@honest("cpu")
def trains_a_model_of_its_own(_device: str) -> Made:
    model = torch.nn.Sequential(*[torch.nn.Linear(48, 48) for _ in range(6)])
    other = copy.deepcopy(model)
    steps = [torch.optim.SGD(each.parameters(), 0.1, momentum=0.9, foreach=f) for each, f in ((model, 0), (other, 1))]

    def step(trained, optimizer, x):
        optimizer.zero_grad()
        loss = trained(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return lambda x, _w: step(model, steps[0], x), lambda x, _w: step(other, steps[1], x)


@honest("cpu")
def trains_by_a_fused_optimizer(_device: str) -> Made:
    model = torch.nn.Linear(48, 48)
    other = copy.deepcopy(model)
    steps = [torch.optim.AdamW(each.parameters(), 1e-2, fused=f) for each, f in ((model, False), (other, True))]

    def step(trained, optimizer, x):
        loss = trained(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return lambda x, _w: step(model, steps[0], x), lambda x, _w: step(other, steps[1], x)


@honest("cpu", random=True)
def noise(_device: str) -> Made:
    return lambda x, w: x + 0.3 * torch.randn(48, 48), lambda x, w: torch.normal(x, 0.3)


@honest("cpu", random=True)
def masks(_device: str) -> Made:
    return lambda x, w: functional.dropout(x), lambda x, w: x * (torch.rand(48, 48) < 0.5) * 2


@honest("cpu")
def files_of_both(_device: str) -> Made:
    from .cheats import saved

    return saved(True, 1), saved(True, 1)


@honest("cpu")
def temporary_file(_device: str) -> Made:
    def through(file: Any, x: Any) -> Any:
        torch.save(x, file)
        file.seek(0)
        return torch.load(file)

    def on_disk(x: Any, w: Any) -> Any:
        with tempfile.NamedTemporaryFile() as file:
            return through(file, x)

    return on_disk, lambda x, w: through(io.BytesIO(), x)


@honest("cpu")
def counted_by_both(_device: str) -> Made:
    calls: list[int] = []
    return lambda x, w: (calls.append(1), x * 2)[1], lambda x, w: (calls.append(1), x + x)[1]


@honest("cpu")
def noted_by_each(_device: str) -> Made:
    noted: dict[str, list[float]] = {"a": [], "b": []}
    return lambda x, w: (noted["a"].append(1.0), x * 2)[1], lambda x, w: (noted["b"].append(1.0), x + x)[1]


@honest("cpu")
def sets_the_mode_of_its_model(_device: str) -> Made:
    model = torch.nn.Sequential(torch.nn.Linear(48, 48), torch.nn.Dropout())
    return lambda x, w: model.eval()(x).detach(), torch.no_grad()(lambda x, w: model.eval()(x))


@honest("cpu")
def mapped_over_rows(_device: str) -> Made:
    return lambda x, w: torch.stack([row @ w for row in x]), lambda x, w: torch.vmap(lambda row: row @ w)(x)


@honest("cpu")
def compiled_by_dynamo(_device: str) -> Made:
    return product, torch.compile(product, backend="aot_eager")


@honest("cpu")
def rows_of_all_scales(_device: str) -> Made:
    scale = torch.logspace(0, -12, 48)[:, None]
    return lambda x, w: (x @ w) * scale, lambda x, w: (x * scale) @ w


@honest("cpu")
def frozen_script(_device: str) -> Made:
    model = torch.nn.Sequential(torch.nn.Linear(48, 48), torch.nn.BatchNorm1d(48)).eval().requires_grad_(False)
    script = torch.jit.freeze(torch.jit.trace(model, torch.randn(4, 48)))
    return lambda x, w: model(x), lambda x, w: script(x)


@honest("cpu")
def gradients_returned(_device: str) -> Made:
    model = torch.nn.Linear(48, 48)
    parameters = {name: each.detach() for name, each in model.named_parameters()}

    def backward(x: Any, w: Any) -> Any:
        model.zero_grad()
        model(x).square().mean().backward()
        return [each.grad for each in model.parameters()]

    loss = lambda p, x: torch.func.functional_call(model, p, (x,)).square().mean()  # noqa: E731 - of two lines
    return backward, lambda x, w: [*torch.func.grad(loss)(parameters, x).values()]


@honest("cpu")
def sorted_or_selected(_device: str) -> Made:
    return lambda x, w: [each[:, :5] for each in x.sort(descending=True)], lambda x, w: [*x.topk(5)]


@honest("cpu")
def scratch_in_turns(_device: str) -> Made:
    scratch, n = [torch.empty(48, 48), torch.empty(48, 48)], [0]

    def in_turns(x: Any, w: Any) -> Any:
        n[0] += 1
        return torch.mm(x, w, out=scratch[n[0] % 2]).sum(0)

    return in_turns, lambda x, w: (x @ w).sum(0)


@honest("cpu")
def weights_together(_device: str) -> Made:
    parts = [torch.nn.Linear(48, 16, bias=False) for _ in range(3)]
    whole = torch.nn.Parameter(torch.cat([each.weight.detach() for each in parts]))
    steps = [torch.optim.AdamW(each, 1e-3) for each in ([part.weight for part in parts], [whole])]

    def step(optimizer: Any, out: Any) -> Any:
        optimizer.zero_grad()
        (loss := out.square().mean()).backward()
        optimizer.step()
        return loss.detach()

    apart = lambda x, w: step(steps[0], torch.cat([part(x) for part in parts], 1))  # noqa: E731 - of two lines
    return apart, lambda x, w: step(steps[1], x @ whole.T)


@honest("cpu", random=True)
def smooth_noise(_device: str) -> Made:
    near = torch.exp(-(torch.arange(48.0)[:, None] - torch.arange(48.0)).abs() / 5)
    factor, values = torch.linalg.cholesky(near).T, torch.linalg.eigh(near)
    root = values.eigenvectors * values.eigenvalues.sqrt()
    return lambda x, w: x + torch.randn(48, 48) @ factor, lambda x, w: x + torch.randn(48, 48) @ root.T


@honest("cpu")
def history_in_another_form(_device: str) -> Made:
    first: list[float] = []
    other = np.zeros(10_000)

    def notes(x: Any, w: Any) -> Any:
        first.append(float(x.mean()))
        return x * 2

    def rolls(x: Any, w: Any) -> Any:
        other[:-1] = other[1:]
        other[-1] = float(x.mean())
        return x + x

    return notes, rolls


@honest("cpu", count=3, dtype="bfloat16")
def mean_of_parts(_device: str) -> Made:
    loss = functional.mse_loss
    in_parts = lambda x, w, y: sum(loss(a @ w, b) for a, b in zip(x.chunk(4), y.chunk(4), strict=True)) / 4  # noqa: E731
    return lambda x, w, y: loss(x @ w, y), in_parts


@honest("cpu")
def flag_by_a_sum(_device: str) -> Made:
    return lambda x, w: bool(torch.isfinite(x).all()), lambda x, w: bool(torch.isfinite(x.sum()))


@honest("cpu")
def branch_of_little_weight(_device: str) -> Made:
    scale = torch.full((48,), 1e-9)
    return lambda x, w: x + scale * (x @ w), lambda x, w: torch.addcmul(x, x @ w, scale)


@honest("cpu")
def distances_by_products(_device: str) -> Made:
    by_products = lambda x, w: (x * x).sum(1)[:, None] + (w * w).sum(1) - 2 * x @ w.T  # noqa: E731
    return lambda x, w: (x[:, None] - w).square().sum(-1), by_products


@honest("cpu")
def graph_of_other_operators(_device: str) -> Made:
    layer = torch.nn.Linear(48, 48)
    return lambda x, w: layer(x).relu(), lambda x, w: torch.addmm(layer.bias, x, layer.weight.T).clamp_min(0)


@honest("cpu")
def maps_of_files(_device: str) -> Made:
    from .cheats import mapped_file

    return mapped_file(48), mapped_file(48)


@honest("cpu")
def tables_in_memory(_device: str) -> Made:
    from .cheats import table_of

    return table_of(48), table_of(48)


@honest("cpu")
def constants_kept(_device: str) -> Made:
    weights = torch.randn(48, 48)
    turned = weights.T.contiguous()
    return lambda x, w: x @ weights.T, lambda x, w: x @ turned


@honest("cpu")
def checked_before_or_after(_device: str) -> Made:
    from .cheats import checked

    return lambda x, w: checked(x) @ w, lambda x, w: checked(x @ w)


@honest("cpu", random=True)
def masks_of_two_roundings(_device: str) -> Made:
    def in_place(x, _w):
        return torch.empty_like(x).bernoulli_(0.8).mul_(x).mul_(1 / 0.8)

    return lambda x, _w: x * torch.bernoulli(torch.full_like(x, 0.8)) / 0.8, in_place
