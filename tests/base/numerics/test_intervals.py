"""Interval algebra against a brute force: one bit for every nanosecond."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmagic.base.numerics.intervals import (
    EMPTY,
    Intervals,
    clip,
    complement,
    concurrency_ns,
    covered_before,
    intersect,
    merge,
    occupancy,
    overlap_ns,
    subtract,
    total_ns,
    union,
)

pytestmark = pytest.mark.slow

END_NS = 40
untimed = settings(deadline=None)  # nothing here is about speed, and machines are shared
rows = st.lists(st.tuples(st.integers(0, END_NS), st.integers(0, END_NS)), max_size=12)
edges = st.tuples(st.integers(0, END_NS), st.integers(0, END_NS)).map(sorted)


def _set(pairs: list[tuple[int, int]]) -> Intervals:
    start, end = np.array(pairs, np.int64).reshape(-1, 2).T
    return union(start, end)


def _bits(intervals: Any) -> Any:
    bits = np.zeros(END_NS, bool)
    for start, end in intervals:
        bits[start:end] = True
    return bits


def _assert_is(found: Intervals, bits: Any) -> None:
    """The intervals cover exactly these bits, sorted, disjoint and not touching."""
    assert found.dtype == np.int64
    assert found.shape[1:] == (2,)
    assert (found[:, 0] < found[:, 1]).all()
    assert (found[1:, 0] > found[:-1, 1]).all()
    assert np.array_equal(_bits(found), bits)


@untimed
@given(rows)
def test_a_union_covers_what_any_interval_covers(a: list[tuple[int, int]]) -> None:
    _assert_is(_set(a), _bits(a))
    assert total_ns(_set(a)) == _bits(a).sum()


@untimed
@given(rows, rows, rows)
def test_merging_unions_gives_the_union(a: Any, b: Any, c: Any) -> None:
    _assert_is(merge(_set(a), _set(b), _set(c)), _bits(a) | _bits(b) | _bits(c))


@untimed
@given(rows, rows)
def test_an_intersection_covers_what_both_cover(a: Any, b: Any) -> None:
    _assert_is(intersect(_set(a), _set(b)), _bits(a) & _bits(b))
    assert overlap_ns(_set(a), _set(b)) == overlap_ns(_set(b), _set(a)) == (_bits(a) & _bits(b)).sum()


@untimed
@given(rows, rows)
def test_a_difference_covers_what_only_the_first_covers(a: Any, b: Any) -> None:
    _assert_is(subtract(_set(a), _set(b)), _bits(a) & ~_bits(b))


@untimed
@given(rows, edges)
def test_a_complement_covers_the_rest_of_the_window(a: Any, window: list[int]) -> None:
    _assert_is(complement(_set(a), *window), ~_bits(a) & _bits([window]))


@untimed
@given(rows, edges)
def test_a_clip_covers_the_part_in_the_window(a: Any, window: list[int]) -> None:
    _assert_is(clip(_set(a), *window), _bits(a) & _bits([window]))


@untimed
@given(st.lists(rows, max_size=4), edges)
def test_the_concurrency_histogram_counts_the_sets_active_at_each_instant(sets: Any, window: list[int]) -> None:
    level = sum((_bits(a).astype(int) for a in sets), np.zeros(END_NS, int))[window[0] : window[1]]
    expected = {int(k): int(n) for k, n in zip(*np.unique(level, return_counts=True), strict=True)}
    assert concurrency_ns([_set(a) for a in sets], *window) == expected


@untimed
@given(rows, st.integers(1, 9))
def test_the_occupancy_of_a_slot_is_its_covered_share(a: Any, columns: int) -> None:
    fine = np.repeat(_bits(a), columns).reshape(columns, END_NS).mean(axis=1)
    assert occupancy(_set(a), 0, END_NS, columns) == pytest.approx(fine)


@untimed
@given(rows, st.lists(st.integers(-5, END_NS + 5), max_size=8))
def test_what_is_covered_before_an_instant_adds_up(a: Any, at: list[int]) -> None:
    found = covered_before(_set(a), np.array(at, np.int64))
    assert found.tolist() == [float(_bits(a)[: max(0, t)].sum()) for t in at]


def test_touching_intervals_merge_and_empty_ones_vanish() -> None:
    assert _set([(5, 7), (1, 3), (3, 5), (9, 9), (8, 2)]).tolist() == [[1, 7]]
    assert _set([(4, 4)]).shape == (0, 2)


def test_nanoseconds_of_the_epoch_stay_exact() -> None:
    epoch = 1_712_195_495_519_689_047
    assert total_ns(_set([(epoch, epoch + 1), (epoch + 3, epoch + 5)])) == 3


def test_an_empty_set_is_never_busy() -> None:
    assert occupancy(EMPTY, 0, 10, 3).tolist() == [0, 0, 0]
    assert occupancy(_set([(0, 9)]), 5, 5, 2).tolist() == [0, 0]
    assert covered_before(EMPTY, np.array([1, 2])).tolist() == [0, 0]


def test_a_set_inside_another_is_its_own_intersection() -> None:
    inner, outer = union(np.array([2, 6]), np.array([3, 9])), union(np.array([0, 5, 20]), np.array([4, 9, 21]))
    assert intersect(inner, outer) is inner
    assert intersect(outer, inner) is inner
    assert intersect(inner, outer[:1]).tolist() == [[2, 3]]


def test_the_gaps_between_intervals_share_their_memory() -> None:
    a = union(np.array([10, 30, 70, 71]), np.array([20, 50, 71, 90]))
    gaps = complement(a, 10, 90)
    assert gaps.tolist() == [[20, 30], [50, 70]]
    assert np.shares_memory(gaps, a)
    assert complement(gaps, 20, 70).tolist() == [[30, 50]]
    assert complement(a[1:], 30, 90).tolist() == [[50, 70]]
    assert complement(a[:1], 10, 20).shape == (0, 2)
