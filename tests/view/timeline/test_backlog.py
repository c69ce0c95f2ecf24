"""The geometry of the backlog: depth, area, layers, paths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmagic.view.timeline.lanes import Backlog, flow_stride, rank

from .build import UNHURRIED


def backlog_of(*waits: tuple[int, int]) -> Backlog:
    launch, start = np.array(waits, np.int64).reshape(-1, 2).T
    order = rank(start, launch)
    return Backlog(launch[order], start[order])


waits = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 300)).map(lambda w: (w[0], w[0] + w[1])), max_size=40)


def test_the_surface_is_the_queue_depth() -> None:
    backlog = backlog_of((0, 10), (2, 20), (4, 30))
    edges = np.array([0, 2, 4, 10, 20, 30, 40], float)
    assert backlog.depth(edges).tolist() == [1, 2, 3, 2, 1, 0]


def test_an_op_that_waits_half_a_slot_is_half_a_layer() -> None:
    assert backlog_of((0, 5)).depth(np.array([0.0, 10.0])).tolist() == [0.5]


@UNHURRIED
@given(waits, st.integers(1, 60))
def test_the_area_of_the_pile_is_the_sum_of_all_waiting(intervals: list[tuple[int, int]], columns: int) -> None:
    backlog = backlog_of(*intervals)
    edges = np.linspace(0, 1300, columns + 1)
    area = float((backlog.depth(edges) * np.diff(edges)).sum())
    assert area == pytest.approx(sum(b - a for a, b in intervals), abs=1e-6)


@UNHURRIED
@given(waits, st.integers(0, 40))
def test_layers_add_up_to_the_pile(intervals: list[tuple[int, int]], cut: int) -> None:
    backlog, edges = backlog_of(*intervals), np.linspace(0, 1300, 27)
    cut = min(cut, len(backlog))
    parts = backlog.layer_depth(0, cut, edges) + backlog.layer_depth(cut, len(backlog), edges)
    assert parts == pytest.approx(backlog.depth(edges), abs=1e-6)


def test_a_path_sinks_as_the_ops_before_it_start() -> None:
    backlog = backlog_of((0, 10), (1, 20), (2, 30))
    level = backlog.level(2, np.array([0, 2, 10, 20, 30, 40], float))
    assert np.isnan(level[[0, 4]]).all()
    assert level[1:4].tolist() == [2, 1, 0]


def test_a_path_may_rise_where_the_start_order_is_broken() -> None:
    backlog = backlog_of((0, 30), (10, 20))  # the op launched second starts first and has rank 0
    assert backlog.level(1, np.array([0, 10, 20, 30], float)).tolist() == [0, 1, 0]


def test_runs_hold_neighbouring_ranks_of_one_line() -> None:
    runs = backlog_of((0, 1), (0, 2), (0, 3), (0, 4)).runs(np.array([3, 3, 5, 3]))
    assert [(run.first, run.last, run.key) for run in runs] == [(0, 2, 3), (2, 3, 5), (3, 4, 3)]


def test_flow_lines_keep_their_distance_in_powers_of_two() -> None:
    assert [flow_stride(row, 6) for row in (10, 6, 5.9, 1, 0.05)] == [1, 1, 2, 8, 128]
