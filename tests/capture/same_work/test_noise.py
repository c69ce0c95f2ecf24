"""Random results: the same distribution by other ways passes for many seeds, repeated draws do not for any."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the random numbers are torch's")

from perfmagic.capture.same_work.beyond.noise import DRAWS, as_given, of_equal_values  # noqa: E402 - need torch
from perfmagic.capture.same_work.values import leaves  # noqa: E402

pytestmark = pytest.mark.slow
SEEDS, N = 40, 96
Drawn = Callable[[Any], Any]


def dropout(x: Any) -> Any:
    return x * torch.bernoulli(torch.full_like(x, 0.8)) / 0.8


def dropout_in_place(x: Any) -> Any:
    return torch.empty_like(x).bernoulli_(0.8).mul_(x).mul_(1 / 0.8)


def gated(x: Any) -> Any:
    return x + (torch.rand(()) < 0.5) * torch.linspace(0, 1, N)


def noisy(x: Any) -> Any:
    return x + torch.randn_like(x)


def rolled(part: Any) -> Any:
    return torch.cat([part.roll(7 * i, 1) for i in range(N // len(part))])


def rolled_mask(x: Any) -> Any:
    return x * rolled(torch.bernoulli(torch.full_like(x[:8], 0.8))) / 0.8


def mask_of_rows(x: Any) -> Any:
    return x * torch.bernoulli(torch.full_like(x[:, :1], 0.8)) / 0.8


def turned(x: Any) -> Any:
    part = torch.randn_like(x[: N // 2])
    return x + torch.cat([part, -part])


def found(first: Drawn, other: Drawn, seed: int) -> set[str]:
    """What one series of draws says against the other."""
    torch.manual_seed(seed)
    x = torch.randn(N, N)
    alike = torch.full_like(x, float(x.mean()))
    series = [[[leaves(f(v)) for _ in range(DRAWS)] for f in (first, other)] for v in (x, alike)]
    return {as_given(*series[0]), of_equal_values(*series[1])} - {""}


@pytest.mark.parametrize(("first", "other"), [(dropout, dropout_in_place), (noisy, lambda x: torch.normal(x, 1.0))])
def test_the_same_distribution_is_refused_for_no_seed(first: Drawn, other: Drawn) -> None:
    assert [seed for seed in range(SEEDS) if found(first, other, seed)] == []


def test_one_choice_a_call_is_no_other_distribution() -> None:
    assert [seed for seed in range(SEEDS) if "random unlike" in found(gated, gated, seed)] == []


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (dropout, rolled_mask),
        (dropout, mask_of_rows),
        (noisy, turned),
        (noisy, lambda x: x + rolled(torch.randn_like(x[:8]))),
        (noisy, lambda x: x + torch.randn(N)),
    ],
)
def test_draws_that_come_again_are_refused_for_every_seed(first: Drawn, other: Drawn) -> None:
    assert [seed for seed in range(SEEDS) if not found(first, other, seed)] == []
