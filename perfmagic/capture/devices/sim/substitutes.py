"""Operators the CPU does not have, or not with a generator of one's own, said with those it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

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
    parts = (
        grad_c * g * i * (1 - i),
        grad_c * cx * f * (1 - f),
        grad_c * i * (1 - g * g),
        hy * through * o * (1 - o),
    )
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

    def run(*args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(one, Tensor) and one.dtype == torch.float16 for one in args):
            return func(*args, **kwargs)
        result = func(*(_as(one, torch.float16, torch.float32) for one in args), **kwargs)
        if isinstance(result, tuple):
            return tuple(_as(one, torch.float32, torch.float16) for one in result)
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
    aten._thnn_fused_lstm_cell.default: lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: lstm_cell_backward,
    **{func: with_float32(func) for func in _PRODUCTS},
}


def substitute_for(func: Any) -> Callable[..., Any]:
    """What runs on the stream's thread for an operator: nearly always the operator itself."""
    run: Callable[..., Any] = _substitutes.get(func, func)
    return run
