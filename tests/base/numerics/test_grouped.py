"""Many groups at once give what each gives alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfmagic.analysis.timeline.queueing import count_over_time, depth_within
from perfmagic.base.numerics.intervals import coded, depths, distinct, running_max, union, unions

rows = st.lists(st.tuples(st.integers(0, 3), st.integers(-20, 20), st.integers(0, 12)), max_size=40)


def _columns(found: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(found, np.int64).reshape(-1, 3)
    return table[:, 0] * 1000, table[:, 1], table[:, 1] + table[:, 2]


@given(rows)
def test_unions_of_groups_are_the_unions_of_each(found: list[tuple[int, int, int]]) -> None:
    group, start, end = _columns(found)
    groups, intervals = unions(group, start, end)
    for number in set(group.tolist()):
        mine = group == number
        assert intervals[groups == number].tolist() == union(start[mine], end[mine]).tolist()
    assert set(groups.tolist()) <= set(group.tolist())


@given(rows)
def test_depths_of_groups_are_the_depths_of_each(found: list[tuple[int, int, int]]) -> None:
    group, start, end = _columns(found)
    together = depths(group, start, end)
    assert together.group.tolist() == sorted(set(group.tolist()))
    for number, most, mean in zip(together.group, together.max, together.mean, strict=True):
        alone = count_over_time(start[group == number], end[group == number])
        assert most == alone.max
        assert mean == alone.mean


@given(rows)
def test_the_running_maximum_restarts_with_each_group(found: list[tuple[int, int, int]]) -> None:
    group, start, _ = _columns(sorted(found))
    expected = [max(start[: i + 1][group[: i + 1] == group[i]]) for i in range(len(group))]
    assert running_max(group, start).tolist() == expected


@given(st.lists(st.integers(-30, 30), max_size=40), st.sampled_from([1, 1000]))
def test_coded_values_are_those_of_unique(found: list[int], apart: int) -> None:
    values = np.array(found, np.int64) * apart
    distinct, places = np.unique(values, return_inverse=True)
    mine = coded(values)
    assert (mine[0].tolist(), mine[1].tolist()) == (distinct.tolist(), places.tolist())


@given(st.lists(st.integers(-30, 30), max_size=40), st.sampled_from([1, 1000]), st.sampled_from(["i1", "i4", "i8"]))
def test_distinct_values_are_those_of_unique(found: list[int], apart: int, dtype: str) -> None:
    values = np.array(found, dtype) * np.dtype(dtype).type(1 if dtype == "i1" else apart)
    mine = distinct(values)
    assert (mine.dtype, mine.tolist()) == (values.dtype, np.unique(values).tolist())


def test_a_running_maximum_of_groups_reaches_to_the_ends_of_int64() -> None:
    group = np.array([0, 0, 0, 1, 1])
    values = np.array([2**62, -(2**62), 5, -(2**63), 2**63 - 1])
    assert running_max(group, values).tolist() == [2**62, 2**62, 2**62, -(2**63), 2**63 - 1]


@given(rows, st.integers(-25, 25), st.integers(0, 30))
def test_the_depth_within_a_window_is_that_of_the_history(
    found: list[tuple[int, int, int]], since: int, length: int
) -> None:
    _, up, down = _columns(found)
    order = np.argsort(down, kind="stable")
    until = since + length
    levels = [int(((up <= at) & (down > at)).sum()) for at in range(since, max(until, since + 1))]
    most, mean = depth_within(up[order], down[order], since, until)
    assert most == max(levels)
    assert mean == sum(levels[:length]) / max(1, length)
