"""What is known of an operator from its schema: looked up once, used at every launch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from perfmagic.base.kinds import WITH_VALUES
from perfmagic.sim import torch_private

# Operators the CPU does not have, or not with a generator of one's own, said with those it has.

Tensor = torch.Tensor
aten = torch.ops.aten


def lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """aten::_thnn_fused_lstm_cell: hidden state, cell state, and the opened gates that backward wants."""
    gates = input_gates + hidden_gates
    if input_bias is not None and hidden_bias is not None:
        gates = gates + input_bias + hidden_bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat((i, f, g, o), 1)


def lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """aten::_thnn_fused_lstm_cell_backward_impl: gradients of the gates, of cx, and of the bias."""
    i, f, g, o = workspace.chunk(4, 1)
    through = cy.tanh()
    hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    grad_c = hy * o * (1 - through * through)
    if grad_cy is not None:
        grad_c = grad_c + grad_cy
    parts = (grad_c * g * i * (1 - i), grad_c * cx * f * (1 - f), grad_c * i * (1 - g * g), hy * through * o * (1 - o))
    gates = torch.cat(parts, 1)
    return gates, grad_c * f, gates.sum(0) if has_bias else None


def dropout(t: Tensor, p: float, train: bool | None, *, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """aten::native_dropout: the result, and which elements stayed. Source: native_dropout_cpu in torch 2.13.0."""
    mask = torch.ones(t.shape, dtype=torch.bool)
    if p == 0 or train is False or not t.numel():
        return t.clone(), mask
    mask.bernoulli_(1 - p, generator=generator)
    return t.mul(mask).mul_(0.0 if p == 1 else 1 / (1 - p)), mask


def gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """aten::_thnn_fused_gru_cell: hidden state, and what backward wants: both gates, the candidate, hx and its part."""
    if input_bias is not None and hidden_bias is not None:
        input_gates, hidden_gates = input_gates + input_bias, hidden_gates + hidden_bias
    ir, iz, candidate = input_gates.chunk(3, 1)
    hr, hz, part = hidden_gates.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (candidate + r * part).tanh()
    return n + z * (hx - n), torch.cat((r, z, n, hx, part), 1)


def gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """aten::_thnn_fused_gru_cell_backward: gradients of both gates, of hx, and of both biases."""
    r, z, n, hx, part = workspace.chunk(5, 1)
    grad_n = grad_hy * (1 - z) * (1 - n * n)
    grad_r = grad_n * part * (1 - r) * r
    grad_z = grad_hy * (hx - n) * (1 - z) * z
    inputs, hidden = torch.cat((grad_r, grad_z, grad_n), 1), torch.cat((grad_r, grad_z, grad_n * r), 1)
    biases = (inputs.sum(0), hidden.sum(0)) if has_bias else (None, None)
    return inputs, hidden, grad_hy * z, *biases


def attention(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False,
    *, attn_mask: Tensor | None = None, scale: float | None = None, generator: torch.Generator,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """aten::_scaled_dot_product_flash_attention_for_cpu, and with dropout, which that one lacks.

    With dropout the second result, for backward, is the seed: backward recomputes everything else.
    """
    if not dropout_p:
        plain = aten._scaled_dot_product_flash_attention_for_cpu
        return plain(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)  # type: ignore[no-any-return]
    seed = int(torch.randint(1 << 24, (), generator=generator))  # as float32 holds it
    weights, kept = _weights(query, key, dropout_p, is_causal, attn_mask, scale, seed)
    return (weights * kept @ value.float()).to(query.dtype), torch.full(query.shape[:3], float(seed))


def attention_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor, dropout_p: float,
    is_causal: bool, *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """aten::_scaled_dot_product_flash_attention_for_cpu_backward, and with dropout."""
    if not dropout_p:
        plain, options = aten._scaled_dot_product_flash_attention_for_cpu_backward, {"attn_mask": attn_mask}
        return plain(grad, query, key, value, out, logsumexp, 0.0, is_causal, scale=scale, **options)  # type: ignore[no-any-return]
    weights, kept = _weights(query, key, dropout_p, is_causal, attn_mask, scale, int(logsumexp.flatten()[0]))
    grad = grad.float()
    through = grad @ value.float().mT * kept
    scores = weights * (through - (through * weights).sum(-1, keepdim=True)) * _scale(query, scale)
    grads = scores @ key.float(), scores.mT @ query.float(), (weights * kept).mT @ grad
    of_query, of_key, of_value = (each.to(query.dtype) for each in grads)
    return of_query, of_key, of_value


def _weights(
    query: Tensor, key: Tensor, dropout_p: float, is_causal: bool, mask: Tensor | None, scale: float | None, seed: int
) -> tuple[Tensor, Tensor]:
    """The weights of attention, and by what dropout multiplies each."""
    scores = query.float() @ key.float().mT * _scale(query, scale)
    if is_causal:
        scores.masked_fill_(torch.ones(scores.shape[-2:], dtype=torch.bool).tril_().logical_not_(), -math.inf)
    weights = torch.softmax(scores if mask is None else scores + mask, -1)
    kept = torch.empty_like(weights).bernoulli_(1 - dropout_p, generator=torch.Generator().manual_seed(seed))
    return weights, kept / (1 - dropout_p) if dropout_p < 1 else kept


def _scale(query: Tensor, scale: float | None) -> float:
    return query.shape[-1] ** -0.5 if scale is None else scale


def rms_norm_backward(
    grad: Tensor, t: Tensor, normalized_shape: list[int], rstd: Tensor, weight: Tensor | None, mask: list[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """aten::_fused_rms_norm_backward, which torch has for GPUs: gradients of the input, and of the weight."""
    dims = tuple(range(-len(normalized_shape), 0))
    normed, through = t.float() * rstd, grad.float() * (1.0 if weight is None else weight.float())
    of_input = rstd * (through - normed * (through * normed).mean(dims, keepdim=True))
    of_weight = (grad.float() * normed).reshape(-1, *normalized_shape).sum(0)
    return of_input.to(t.dtype) if mask[0] else None, of_weight.to(t.dtype) if mask[1] else None


def rand_like(t: Tensor, *, generator: torch.Generator, **options: Any) -> Tensor:
    """aten::rand_like, which torch gives no generator."""
    return torch.empty_like(t, **options).uniform_(generator=generator)


def randn_like(t: Tensor, *, generator: torch.Generator, **options: Any) -> Tensor:
    """aten::randn_like, which torch gives no generator."""
    return torch.empty_like(t, **options).normal_(generator=generator)


def randint_like(t: Tensor, *bounds: int, generator: torch.Generator, **options: Any) -> Tensor:
    """aten::randint_like with one bound or two, which torch gives no generator."""
    low, high = (0, *bounds)[-2:]
    return torch.empty_like(t, **options).random_(low, high, generator=generator)


def with_float32(func: Callable[..., Any]) -> Callable[..., Any]:
    """A product whose float16 inputs are multiplied and added as float32, as a GPU's matrix cores do.

    CPUs without float16 arithmetic take up to 200 times as long for float16 itself.
    """
    func = torch_private.direct(func)

    def run(*args: Any, **kwargs: Any) -> Any:
        if args[0].dtype != torch.float16:  # as all of them
            return func(*args, **kwargs)
        result = func(*(_as(arg, torch.float16, torch.float32) for arg in args), **kwargs)
        if isinstance(result, tuple):
            return tuple(_as(part, torch.float32, torch.float16) for part in result)
        return _as(result, torch.float32, torch.float16)

    return run


def _as(value: Any, old: torch.dtype, new: torch.dtype) -> Any:
    return value.to(new) if isinstance(value, Tensor) and value.dtype == old else value


_PRODUCTS = (
    *(aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default, aten.addbmm.default),
    *(aten.mv.default, aten.addmv.default, aten.dot.default, aten.linear.default),
    *(aten.convolution.default, aten.convolution_backward.default),
)
_substitutes: dict[Any, Callable[..., Any]] = {
    aten.rand_like.default: rand_like,
    aten.randn_like.default: randn_like,
    aten.randint_like.default: randint_like,
    aten.randint_like.low_dtype: randint_like,
    aten._thnn_fused_gru_cell.default: gru_cell,
    aten._thnn_fused_gru_cell_backward.default: gru_cell_backward,
    aten.native_dropout.default: dropout,
    aten._scaled_dot_product_flash_attention_for_cpu.default: attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: attention_backward,
    aten._thnn_fused_lstm_cell.default: lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: lstm_cell_backward,
    aten._fused_rms_norm_backward.default: rms_norm_backward,
    **{func: with_float32(func) for func in _PRODUCTS},
}


def substitute_for(func: Any) -> Callable[..., Any]:
    """What runs on the stream's thread for an operator: nearly always the operator itself."""
    return _substitutes.get(func) or torch_private.direct(func)


def shapes_by(func: Any) -> Callable[..., Any]:
    """What tells on meta tensors which shapes an operator returns: itself, unless torch has no meta kernel of it."""
    if func.name().split(".")[0] in _RETURN_NOTHING:
        return lambda *_, **__: None
    return substitute_for(func) if func in _WITHOUT_META else func


_RETURN_NOTHING = ("aten::_fused_sgd_", "aten::_fused_adagrad_")  # and torch has no meta kernel of them
_WITHOUT_META = {aten._thnn_fused_gru_cell.default, aten._thnn_fused_gru_cell_backward.default}

# CUDA, too, takes indices that are on the host
_HOST_INDICES = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default}
# torch brings the factor to each device itself, where it thinks that a tensor is: clip_grad_norm_ on two devices
_BRING_FACTOR = {aten.mul_.Tensor, aten._foreach_mul_.Tensor}

# Whose plain inputs a GPU's model wants, and no record: sizes, training or evaluation, heads
_MODELLED_BY_VALUES = ("upsample", "batch_norm", "encoder_layer_fwd", "embedding_dense_backward")

# these write arguments their schema does not declare (running statistics)
_UNDECLARED_WRITES = {"aten::native_batch_norm": (3, 4)}

# these take no generator in torch; what runs instead of them takes one by name
_GENERATOR_BY_NAME = dict.fromkeys(
    (
        "aten::native_dropout",
        "aten::rand_like",
        "aten::randn_like",
        "aten::randint_like",
        "aten::_scaled_dot_product_flash_attention_for_cpu",
    ),
    (1 << 30, "generator"),
)

# besides elementwise ops: what fills, what makes a range, and the lists of optimisers
_HOST_SCALARS = (
    "aten::fill", "aten::masked_fill", "aten::index_fill", "aten::linspace", "aten::logspace", "aten::normal",
    "aten::_foreach_", "aten::_fused_",
)  # fmt: skip

Place = tuple[int, str]  # of an argument: position and name


@dataclass(frozen=True, eq=False)  # there is one for each: hashed and compared as an object, which costs no time
class Operator:
    """One operator.

    name: as in the host lane ("aten::add_").  kernel: as on the device ("add").  writes: arguments changed in place.
    returned: those of them it returns; None for an op that returns something new.  seeded: draws random numbers.
    generator: where its generator goes, None if it takes none.  composite: torch knows of which others it consists.
    takes_host_scalars: a tensor without dimensions may be on the host, as with CUDA.
    takes_host_indices: indices may be on the host.  brings_factor: its factor may be on another device.
    names_device: a device is one of its positional arguments.  fills_out: what it writes are out= tensors.
    has_values: a record keeps its plain inputs.
    runs: what a stream's thread calls on real memory, nearly always func.
    """

    func: Any
    name: str
    namespace: str
    kernel: str
    writes: tuple[Place, ...]
    returned: tuple[Place, ...] | None
    returns_one: bool
    is_view: bool
    reshapes: bool
    seeded: bool
    generator: Place | None
    composite: bool
    takes_host_scalars: bool
    takes_host_indices: bool
    brings_factor: bool
    names_device: bool
    fills_out: bool
    has_values: bool
    runs: Callable[..., Any]


_operators: dict[int, Operator] = {}  # by id, as the hash of an OpOverload is a call into Python; kept alive by `func`


def operator_of(func: Any) -> Operator:
    """What is known of an operator."""
    known = _operators.get(id(func))
    if known is None:
        known = _operators[id(func)] = _read(func)
    return known


def _read(func: Any) -> Operator:
    schema = torch_private.schema_of(func)
    places = [(i, a.name) for i, a in enumerate(schema.arguments)]
    writes = [p for p, a in zip(places, schema.arguments, strict=True) if a.alias_info and a.alias_info.is_write]
    undeclared = [places[i] for i in _UNDECLARED_WRITES.get(schema.name, ())]
    reshapes = torch.Tag.inplace_view in func.tags
    outs = [a for a in schema.arguments if a.kwarg_only and a.alias_info and a.alias_info.is_write]
    aliases = any(r.alias_info is not None for r in schema.returns)
    return Operator(
        func=func,
        name=schema.name,
        namespace=schema.name.split("::")[0],
        kernel=schema.name.split("::")[-1].rstrip("_").replace("_for_cpu", ""),
        writes=tuple(writes + undeclared),
        returned=_returned(schema, writes),
        returns_one=len(schema.returns) == 1,
        is_view=aliases and not writes,
        reshapes=reshapes,
        seeded=torch.Tag.nondeterministic_seeded in func.tags,
        generator=next((p for p in places if p[1] == "generator"), _GENERATOR_BY_NAME.get(schema.name)),
        composite=torch_private.is_composite(func),
        takes_host_scalars=torch.Tag.pointwise in func.tags or schema.name.startswith(_HOST_SCALARS),
        takes_host_indices=func in _HOST_INDICES,
        brings_factor=func in _BRING_FACTOR,
        names_device=any(not a.kwarg_only and str(a.type) == "Device" for a in schema.arguments),
        fills_out=bool(outs),
        has_values=any(word in schema.name for word in (*WITH_VALUES, *_MODELLED_BY_VALUES)),
        runs=substitute_for(func),
    )


def _returned(schema: Any, writes: list[Place]) -> tuple[Place, ...] | None:
    if not writes or any(r.alias_info is None for r in schema.returns):
        return None
    by_alias = {frozenset(schema.arguments[i].alias_info.before_set): (i, name) for i, name in writes}
    return tuple(by_alias[frozenset(r.alias_info.before_set)] for r in schema.returns)


def argument(place: Place, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The argument at a place, given by position or by name; None if it was left out."""
    position, name = place
    return args[position] if position < len(args) else kwargs.get(name)


def flat(value: Any) -> list[Any]:
    """What is in a tree of tuples and lists, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in flat(v)]
    return [value]


def map_tree(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """value with everything of a kind changed, through tuples, lists and dicts."""
    __tracebackhide__ = True
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple):
        return tuple(map_tree(v, kind, change) for v in value)
    if isinstance(value, list):
        return [map_tree(v, kind, change) for v in value]
    if isinstance(value, dict):
        return {k: map_tree(v, kind, change) for k, v in value.items()}
    return value
