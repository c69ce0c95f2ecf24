"""Attention on a named GPU: one kernel where torch has one there, with the values of the composed form."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import perfmagic
from perfmagic import sim
from perfmagic.sim import operators

FLASH, EFFICIENT = (f"_scaled_dot_product_{kind}_attention" for kind in ("flash", "efficient"))


@pytest.fixture(autouse=True)
def _real_clock_after(_device: None) -> Iterator[None]:
    yield
    sim.load(clock="real")
    torch.sim.empty_cache()


def kernels(device: Any, dtype: torch.dtype = torch.float16, **options: Any) -> list[str]:
    q = torch.rand(2, 4, 16, 8, device=device, dtype=dtype)
    with perfmagic.timeline():
        scaled_dot_product_attention(q, q, q, **options)
    trace = perfmagic.last().trace  # type: ignore[union-attr]
    return [trace.names[name] for name in trace.ops.name]


@pytest.mark.parametrize(
    ("gpu", "of_half"), [("H100", FLASH), ("MI300X", FLASH), ("T4", EFFICIENT), ("V100", EFFICIENT)]
)
def test_attention_is_the_kernel_that_torch_takes_there(gpu: str, of_half: str) -> None:
    device = perfmagic.device(gpu)
    for dtype, kernel in ((torch.float16, of_half), (torch.float32, EFFICIENT)):
        assert kernels(device, dtype) == kernels(device, dtype, is_causal=True) == [kernel]
    with torch.inference_mode():
        assert kernels(device) == [of_half]
    mask = torch.zeros(16, 16, dtype=torch.float16, device=device)
    assert kernels(device, attn_mask=mask) == [EFFICIENT]
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        assert kernels(device) == [EFFICIENT]


def test_what_no_fused_kernel_takes_is_composed() -> None:
    device = perfmagic.device("T4")
    assert kernels(device, torch.bfloat16).count("bmm") == 2
    assert kernels(device, torch.float64).count("bmm") == 2
    with sdpa_kernel(SDPBackend.MATH):
        assert kernels(device).count("bmm") == 2
    assert kernels(perfmagic.device("sim", clock="real")).count("bmm") == 2


@pytest.mark.parametrize("masked", [True, False])
def test_values_and_gradients_are_those_of_the_composed_form(masked: bool) -> None:
    torch.manual_seed(0)
    inputs = [torch.rand(2, 4, n, 8) for n in (16, 12, 12)]
    mask = torch.rand(2, 1, 16, 12) > 0.2 if masked else None

    def run(device: Any) -> list[torch.Tensor]:
        given = [t.clone().to(device).requires_grad_() for t in inputs]
        at = None if mask is None else mask.to(device)
        result = scaled_dot_product_attention(*given, attn_mask=at, is_causal=not masked, scale=0.3)
        result.square().sum().backward()
        return [result.detach().cpu(), *(t.grad.cpu() for t in given if t.grad is not None)]

    with sdpa_kernel(SDPBackend.MATH):
        expected = run("cpu")
    torch.testing.assert_close(run(perfmagic.device("H100")), expected)


def test_dropout_drops_as_many_weights_as_it_says_and_backward_drops_the_same() -> None:
    x = torch.rand(1, 2, 8, 64, dtype=torch.float64)
    ones, q = torch.ones(1, 2, 64, 8), torch.zeros(1, 2, 64, 8)
    made, _ = operators.attention(q, q, ones, 0.25, generator=torch.Generator().manual_seed(1))
    assert made.mean() == pytest.approx(1.0, abs=0.05)
    assert made.std() > 0.01

    q, k, v = (t.float().mT.clone().requires_grad_() for t in (x, x.flip(2), x.square()))
    with torch.no_grad():
        made, seed = operators.attention(q, k, v, 0.25, True, generator=torch.Generator().manual_seed(2))
    weights, kept = operators._weights(q, k, 0.25, True, None, None, int(seed.flatten()[0]))
    again = weights * kept @ v
    assert torch.equal(again, made)
    again.square().sum().backward()
    grads = operators.attention_backward(2 * made, q, k, v, made, seed, 0.25, True)
    torch.testing.assert_close(list(grads), [q.grad, k.grad, v.grad])


def test_shared_heads_are_one_kernel_without_dropout() -> None:
    q, k = (torch.rand(1, heads, 16, 8, device=perfmagic.device("A100")).half() for heads in (4, 2))
    with perfmagic.timeline():
        scaled_dot_product_attention(q, k, k, enable_gqa=True)
    trace = perfmagic.last().trace  # type: ignore[union-attr]
    assert [trace.names[name] for name in trace.ops.name] == [FLASH]
