"""Intervals of clock offsets: they hold the truth wherever all facts do, and a contradiction is named."""

from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmagic.base.numerics import clocks
from perfmagic.base.numerics.clocks import UNKNOWN, Bounds, joined, no_facts

pytestmark = pytest.mark.slow

FAR = 10**15


@st.composite
def true_facts(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Offsets, and facts (i, j, most) that hold for them."""
    n = draw(st.integers(2, 7))
    offsets = draw(st.lists(st.integers(-FAR, FAR), min_size=n, max_size=n))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(0, FAR))
    facts = [(i, j, offsets[j] - offsets[i] + slack) for i, j, slack in draw(st.lists(pairs, max_size=30)) if i != j]
    return offsets, facts


Case = tuple[list[int], list[tuple[int, int, int]]]


def bounds_of(n: int, facts: list[tuple[int, int, int]]) -> Bounds:
    most = no_facts(n)
    for i, j, value in facts:
        most[i, j] = min(most[i, j], value)
    return joined(most)


@given(true_facts())
def test_the_interval_holds_the_truth(case: Case) -> None:
    offsets, facts = case
    found = bounds_of(len(offsets), facts)
    assert not found.contradiction
    for i, mine in enumerate(offsets):
        for j, other in enumerate(offsets):
            interval = found.interval(i, j)
            if interval is None:
                continue
            assert interval[0] <= other - mine <= interval[1]
            middle = (interval[0] + interval[1]) // 2
            half = found.half_width(i, j)
            assert abs(middle - (other - mine)) <= half


@given(true_facts(), st.lists(st.integers(0, FAR), min_size=14, max_size=14))
def test_middles_keep_every_fact_and_so_do_the_nearest_to_what_is_wanted(case: Case, slack: list[int]) -> None:
    offsets, some = case
    n = len(offsets)
    around = [(i, (i + 1) % n, offsets[(i + 1) % n] - offsets[i] + slack[i]) for i in range(n)]  # so that none is open
    facts = [*some, *around]
    found = bounds_of(n, facts)
    nearest = found.nearest(np.zeros(len(offsets), np.int64))
    assert all(nearest[j] - nearest[i] <= most for i, j, most in facts)
    middles = found.middles()
    assert all(middles[j] - middles[i] <= most for i, j, most in facts)
    assert found.nearest(middles).tolist() == middles.tolist()  # what is allowed is kept
    for chosen in (middles, nearest):
        errors = (chosen[None, :] - chosen[:, None]) - np.subtract.outer(offsets, offsets).T
        farthest = found.farthest(chosen)
        assert np.abs(errors).max() <= farthest


@given(true_facts(), st.integers(1, FAR))
def test_facts_in_a_circle_that_cannot_hold_are_named(case: Case, short: int) -> None:
    offsets, facts = case
    n = len(offsets)
    # all around once: the offsets cancel, so that the sum of the facts must be at least 0
    circle = [(i, (i + 1) % n, offsets[(i + 1) % n] - offsets[i]) for i in range(n)]
    circle[-1] = (n - 1, 0, circle[-1][2] - short)
    found = bounds_of(n, [*facts, *circle])
    assert found.contradiction
    tightest: dict[tuple[int, int], int] = {}
    for i, j, most in [*facts, *circle]:
        tightest[i, j] = min(most, tightest.get((i, j), most))
    way = [*found.contradiction, found.contradiction[0]]
    assert sum(tightest[i, j] for i, j in pairwise(way)) == -found.by < 0


def test_three_clocks_by_hand() -> None:
    # 0 and 1 know each other within 2, 1 and 2 within 6; of 0 and 2 no fact speaks
    found = bounds_of(3, [(0, 1, 12), (1, 0, -8), (1, 2, 3), (2, 1, 9)])
    assert found.interval(0, 1) == (8, 12)
    assert found.interval(0, 2) == (-1, 15)
    assert found.half_width(0, 2) == 8
    assert found.farthest(np.array([0, 10, 7])) == 8
    assert found.farthest(np.array([0, 8, 11])) == 12  # true may be (0, 8, -1)
    assert found.middles().tolist() == [0, 10, 7]


def test_a_clock_of_which_no_fact_speaks_is_open() -> None:
    found = bounds_of(3, [(0, 1, 1), (1, 0, 1), (0, 2, 5)])
    assert found.interval(0, 1) == (-1, 1)
    assert found.interval(0, 2) is None
    assert found.half_width(2, 1) is None
    assert found.farthest(np.zeros(3, np.int64)) is None
    assert found.middles() is None
    assert int(found.most[2, 0]) == UNKNOWN


@given(true_facts(), st.lists(st.integers(0, FAR), min_size=14, max_size=14))
def test_of_many_clocks_bounds_hold_the_truth_too_and_what_is_chosen_keeps_every_fact(
    case: Case, slack: list[int]
) -> None:
    offsets, some = case
    n = len(offsets)
    around = [(i, (i + 1) % n, offsets[(i + 1) % n] - offsets[i] + slack[i]) for i in range(n)]
    facts = [*some, *around]
    exact = bounds_of(n, facts)
    with mock.patch.object(clocks, "EXACT", 1):
        found = bounds_of(n, facts)
        nearest = found.nearest(np.zeros(n, np.int64))
    assert not found.contradiction
    assert (found.most >= exact.most).all()  # fewer paths are looked at
    assert (found.most[0] == exact.most[0]).all()  # but all from the first clock, and to it
    assert (found.most[:, 0] == exact.most[:, 0]).all()
    middles = found.middles()
    for chosen in (nearest, middles):
        assert all(chosen[j] - chosen[i] <= most for i, j, most in facts)
    assert (found.nearest(nearest) == nearest).all()


@given(true_facts())
def test_of_many_clocks_one_that_nothing_bounds_stays_open(case: Case) -> None:
    offsets, facts = case
    with mock.patch.object(clocks, "EXACT", 1):
        found = bounds_of(len(offsets) + 1, facts)
    assert found.interval(0, len(offsets)) is None
    assert found.farthest(np.array([*offsets, 0], np.int64)) is None


def test_of_many_clocks_a_contradiction_names_clocks_of_it() -> None:
    with mock.patch.object(clocks, "EXACT", 1):
        pair = bounds_of(4, [(1, 2, -5), (2, 1, 3), (0, 1, 10), (1, 0, 10)])
        around = bounds_of(4, [(0, 1, -5), (1, 2, 1), (2, 0, 1), (3, 0, 9), (0, 3, 9)])
    assert (set(pair.contradiction), pair.by) == ({1, 2}, 2)
    assert {0, 1, 2} <= set(around.contradiction)
