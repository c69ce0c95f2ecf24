"""What a walk finds that a function carries from call to call, and what of it counts."""

import json

import numpy as np
import pytest

from perfmagic.capture.same_work.callees import of_its_library
from perfmagic.capture.same_work.carried import Walk, change, left_out


class Object:
    """Holds whatever it is given."""

    def __init__(self, value: object) -> None:
        self.value = value


class Awkward:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)


def amount_of(state: object, step: object) -> int:
    before = Walk({"state": state}).found
    step(state)
    return change(before, Walk({"state": state}).found).amount


@pytest.mark.parametrize(
    ("state", "step", "amount"),
    [
        ([np.zeros(9)], lambda s: s[0].__iadd__(1), 9),
        (Object({"a": [np.zeros(9)]}), lambda s: s.value["a"][0].__setitem__(slice(3), 1), 3),
        ({"mean": 0.5}, lambda s: s.update(mean=0.6), 1),
        ({"calls": 1}, lambda s: s.update(calls=2), 0),
        ([1, 2, 3], lambda s: s.__setitem__(slice(None), [2, 3, 4]), 3),
        ([0.0] * 100, lambda s: s.append(1.0), 1),
        ({"a": []}, lambda s: s["a"].extend(("x", "y")), 2),
        ([np.array([1.0, np.nan])], lambda s: None, 0),
        ([Awkward()], lambda s: None, 0),
        (bytearray(b"abc"), lambda s: s.__setitem__(0, 1), 1),
    ],
)
def test_what_changed_counts_wherever_it_lies(state: object, step: object, amount: int) -> None:
    assert amount_of(state, step) == amount


@pytest.mark.parametrize(("after", "amount"), [(b"0.5 0.75 0.1", 4), (b"8.125 9.25", 0), (b"0.5 0.75", 0)])
def test_what_is_written_anew_has_not_grown(after: bytes, amount: int) -> None:
    before = Walk({"log": bytearray(b"0.5 0.75")}).found
    assert change(before, Walk({"log": bytearray(after)}).found, grows=True).amount == amount


def test_what_goes_deeper_than_anybody_looks_is_named() -> None:
    nested: list[object] = []
    for _ in range(20):
        nested = [nested]
    assert Walk({"nested": nested}).found.unseen == {"nested"}


def test_the_other_may_carry_the_same_in_another_form_but_not_less() -> None:
    def of(*arrays: int) -> object:
        state = [np.zeros(n) for n in arrays]
        before = Walk({"state": state}).found
        for each in state:
            each.fill(1)
        return change(before, Walk({"state": state}).found)

    assert not left_out(of(4, 4, 4), of(12))
    assert left_out(of(4, 4, 12), of(4, 4))
    assert left_out(of(400), of(2))
    assert not left_out(of(), of(3))


def test_a_library_may_wrap_its_own_functions_and_nobody_else() -> None:
    mine = lambda *given: given  # noqa: E731 - as one would replace it
    mine.__name__ = "dumps"
    assert of_its_library(json.dumps, json.dumps)
    assert not of_its_library(json.dumps, json.loads)
    assert not of_its_library(json.dumps, mine)
    assert not of_its_library(mine, mine)
