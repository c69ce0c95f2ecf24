"""Inputs that are changed in one place: where, and what it costs to have them."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the inputs are tensors")

import perfmagic  # noqa: E402 - needs torch
from perfmagic.capture.same_work.arguments import MadeArguments  # noqa: E402 - need torch
from perfmagic.capture.same_work.beyond import disturbed as module  # noqa: E402
from perfmagic.capture.same_work.beyond.answers import Answers  # noqa: E402
from perfmagic.capture.same_work.beyond.places import disturbed  # noqa: E402
from perfmagic.capture.same_work.beyond.read_by_both import _with_another_item  # noqa: E402
from perfmagic.capture.same_work.results import Results  # noqa: E402
from perfmagic.capture.same_work.same_work import PREPARED_NS, Asked, SameWork  # noqa: E402
from perfmagic.capture.same_work.values import MOST_ELEMENTS, leaves  # noqa: E402

LARGE = 5 * MOST_ELEMENTS + 3


@pytest.mark.parametrize("kind", ["tensor", "array"])
@pytest.mark.parametrize("factor", [None, 32.0])
@pytest.mark.parametrize("at", [0.0, 0.123, 0.5, 0.999999])
def test_a_change_of_large_inputs_lies_where_results_of_their_size_are_compared(
    kind: str, factor: float | None, at: float
) -> None:
    seed, values = 12_345, np.random.default_rng(0).standard_normal(LARGE)
    before = torch.from_numpy(values) if kind == "tensor" else values
    after = disturbed(before, factor, at, stretch=False, seed=seed)
    assert int((before != after).sum()) == 1
    (was,), (now,) = leaves(before, seed), leaves(after, seed)
    assert np.count_nonzero(was.values != now.values) == 1


def test_only_one_value_becomes_infinite_as_several_have_no_order() -> None:
    assert int(disturbed(torch.ones(64), math.inf, 0.3, stretch=True).isinf().sum()) == 1


def test_two_equal_values_of_which_either_may_be_chosen_refuse_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count(1)
    apart = torch.linspace(1, 1 - 1e-4, 64)
    monkeypatch.setattr(module, "nearby", lambda array: array if next(calls) % 3 else array * apart)  # else too rare
    last = lambda x: (x + 0, 63 - x.flip(0).argmax())  # noqa: E731 - a name
    first = lambda x: (x + 0, x.argmax())  # noqa: E731 - a name
    make = lambda rng: [torch.randn(64, generator=rng).abs()]  # noqa: E731 - a name
    assert perfmagic.compare(last, first, inputs=make, samples=20).not_comparable is None


def test_where_results_answer_to_a_change_anywhere_is_tried_first_and_remembered() -> None:
    answers = Answers(Results(2, equal=None, random=False, eps=0.0), LARGE, [[], []])
    assert answers.ways(0, stretch=True) == (False,)
    assert answers.ways(0, stretch=False) == (False, True)
    answers.only_where_compared[0] = True
    assert answers.ways(0, stretch=False) == (True,)
    small = Answers(Results(2, equal=None, random=False, eps=0.0), MOST_ELEMENTS, [[], []])
    assert small.ways(0, stretch=False) == (False,)


@pytest.mark.parametrize(("made_ns", "times"), [(0, 3), (PREPARED_NS + 1, 0)])
def test_arguments_that_take_long_to_make_are_those_that_were_made_last(made_ns: int, times: int) -> None:
    made: list[Any] = []

    def make(rng: torch.Generator) -> list[torch.Tensor]:
        made.append(torch.randn(4, generator=rng))
        return [made[-1]]

    arguments = MadeArguments(make, ())
    arguments.made_ns = made_ns
    same = SameWork(["f", "g"], Asked(), arguments, [True, True], [None, None])
    made.clear()
    seen = []
    for _ in range(3):
        same.other_values()
        seen.append(same.arguments.chosen()[0].clone())
    assert len(made) == times
    assert len({tuple(each.tolist()) for each in seen}) == max(1, times)


def test_values_that_were_chosen_before_come_again_with_their_seed() -> None:
    arguments = MadeArguments(lambda rng: [torch.randn(4, generator=rng)], ())
    same = SameWork(["f", "g"], Asked(), arguments, [True, True], [None, None])
    same.new_values()
    seed, values = same.results.seed, arguments.chosen()
    same.new_values()
    same.choose_again(seed, values)
    assert same.results.seed == seed
    assert arguments.chosen()[0] is values[0]


def test_an_item_of_the_users_list_or_dict_comes_back_also_when_a_call_made_the_list_shorter() -> None:
    rows, table = [*range(50)], {str(i): i for i in range(50)}
    for container in (rows, table):
        before = container.copy()
        undo = _with_another_item(container)()
        assert container != before
        undo()
        assert container == before
    short = [1, 2]
    undo = _with_another_item(short)()
    short.clear()
    undo()
    assert len(short) == 1
