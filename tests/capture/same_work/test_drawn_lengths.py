"""Inputs whose lengths are drawn, too: each call gets other ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the work is torch's")

import perfmagic  # noqa: E402 - need torch
from perfmagic.capture.same_work.arguments import MadeArguments  # noqa: E402

pytestmark = pytest.mark.slow
Made = Callable[[Any], list[Any]]


def length(rng: Any) -> int:
    return int(torch.randint(1000, 60_000, (), generator=rng))


def tensor(rng: Any) -> list[Any]:
    return [torch.randn(length(rng), generator=rng)]


def array(rng: Any) -> list[Any]:
    return [torch.randn(length(rng), generator=rng).numpy()]


def rows(rng: Any) -> list[Any]:
    return [[torch.randn(n, generator=rng).numpy() for n in torch.randint(20, 200, (64,), generator=rng).tolist()]]


def padded(given: list[Any]) -> Any:
    n = max(map(len, given))
    return np.stack([np.pad(row, (0, n - len(row))) for row in given])


def filled(given: list[Any]) -> Any:
    out = np.zeros((len(given), max(map(len, given))), given[0].dtype)
    for to, row in zip(out, given, strict=True):
        to[: len(row)] = row
    return out


def largest(x: Any) -> Any:
    return (2 * torch.as_tensor(x)).sort().values[-5:].clone()


def by_topk(x: Any) -> Any:
    return torch.as_tensor(x).topk(5).values.flip(0).mul_(2)


def half(x: Any) -> Any:
    return by_topk(x[: len(x) // 2])


def half_filled(given: list[Any]) -> Any:
    out = filled(given)
    out[:, out.shape[1] // 2 :] = 0
    return out


def first_kept(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    kept: list[Any] = []

    def answers(x: Any) -> Any:
        if not kept:
            kept.append(function(x))
        return kept[0]

    return answers


def compared(first: Any, other: Any, make: Made) -> Any:
    return perfmagic.compare(first, other, inputs=make, samples=12, warmup=2)


KINDS = [(largest, by_topk, tensor), (largest, by_topk, array), (padded, filled, rows)]


@pytest.mark.parametrize(("first", "other", "make"), KINDS)
def test_an_honest_pair_gets_its_verdict(first: Any, other: Any, make: Made) -> None:
    assert compared(first, other, make).not_comparable is None


@pytest.mark.parametrize(("first", "other", "make"), KINDS)
def test_an_answer_that_is_kept_is_refused(first: Any, other: Any, make: Made) -> None:
    assert compared(first, first_kept(other), make).verdict == "not comparable"


@pytest.mark.parametrize(("first", "other", "make"), [(largest, half, tensor), (padded, half_filled, rows)])
def test_half_of_a_row_is_refused(first: Any, other: Any, make: Made) -> None:
    assert "results differ" in (compared(first, other, make).not_comparable or "")


@pytest.mark.parametrize("make", [tensor, array, rows])
def test_what_a_function_writes_to_its_inputs_leaves_the_chosen_values_alone(make: Made) -> None:
    arguments = MadeArguments(make, ())
    arguments.prepare(1)
    before = repr(arguments.chosen())
    arguments.write()
    for each in arguments.slots[0][0] if make is rows else arguments.slots[0]:
        each[:] = 7
    assert repr(arguments.chosen()) == before
