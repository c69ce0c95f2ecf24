"""What a record says was computed is what torch counts: operators inside others count once."""

from collections.abc import Callable
from typing import Any

import pytest

import perfmagic
from perfmagic.capture.same_work.recorded import Done, work_in

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.nn import functional  # noqa: E402 - needs torch
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402 - needs torch
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402 - needs torch

New = Callable[..., Any]  # a tensor of this shape
CALLS: dict[str, Callable[[New], object]] = {
    "linear": lambda new: functional.linear(new(1, 512), new(256, 512), new(256)),
    "linear of a batch": lambda new: functional.linear(new(2, 3, 8), new(4, 8)),
    "mm": lambda new: new(2, 3) @ new(3, 4),
    "bmm": lambda new: new(2, 3, 4) @ new(2, 4, 5),
    "einsum": lambda new: torch.einsum("bij,bjk->bik", new(2, 3, 4), new(2, 4, 5)),
    "convolution": lambda new: functional.conv2d(new(2, 3, 9, 9), new(4, 3, 3, 3), padding=1),
    "transposed": lambda new: functional.conv_transpose2d(new(2, 3, 9, 9), new(3, 4, 3, 3)),
    "attention of products": lambda new: attention(new, SDPBackend.MATH),
    "recurrent": lambda new: torch.nn.LSTMCell(4, 5)(new(2, 4)),
    "network": lambda new: torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))(
        new(1, 8)
    ),
}


def attention(new: New, backend: Any) -> object:
    """Attention by one of torch's ways; torch counts that of the CPU's own kernel as nothing."""
    with sdpa_kernel(backend):
        return functional.scaled_dot_product_attention(*(new(2, 3, 8, 4) for _ in range(3)))


def recorded(call: Callable[[], object]) -> Done:
    """The work of a call on the CPU."""
    with perfmagic.timeline(device="cpu", shapes=True) as t:
        call()
    result: Any = t.result
    return work_in(result.trace)


@pytest.mark.parametrize("name", CALLS)
def test_flop_are_what_torch_counts(name: str) -> None:
    with torch.no_grad():
        with FlopCounterMode(display=False) as torch_counts:
            CALLS[name](torch.rand)
        assert recorded(lambda: CALLS[name](torch.rand)).flop == torch_counts.get_total_flops() > 0


def test_attention_in_one_kernel_takes_as_many_as_its_products() -> None:
    one = recorded(lambda: attention(torch.rand, SDPBackend.FLASH_ATTENTION)).flop
    products = recorded(lambda: attention(torch.rand, SDPBackend.MATH)).flop
    assert one == products > 0


def test_bytes_of_an_operator_that_calls_another_count_once() -> None:
    x = torch.rand(100, 10)
    done = recorded(x.relu)
    assert (done.bytes, set(done.ops)) == (2 * 4 * 1000, {"aten::relu", "aten::clamp_min"})
