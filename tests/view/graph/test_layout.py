"""The layout of a graph: columns are steps, rows lie in their lanes, and nothing lies on anything else."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmagic.view.graph.picture import BOX_PX, GAP_PX, WAYPOINT_PX, Layout, layout

_GRAPHS = st.integers(1, 25).flatmap(
    lambda n: st.tuples(
        st.tuples(*(st.sets(st.integers(0, max(0, i - 1)), max_size=3) if i else st.just(set()) for i in range(n))),
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
        st.sets(st.integers(0, n - 1)),
    )
)
LABEL_PX = 12


def _rows(placed: Layout, n: int) -> dict[int, tuple[int, int, float, float]]:
    """Column, lane, top and bottom of each item, with its label."""
    return {
        i: (placed.column[i], placed.lane[i], placed.top_px[i], placed.top_px[i] + (BOX_PX if i < n else WAYPOINT_PX))
        for i in range(len(placed.column))
    }


@settings(max_examples=50)
@given(_GRAPHS)
def test_nothing_lies_on_anything_else_and_all_lies_in_its_lane(
    graph: tuple[tuple[set[int], ...], list[int], set[int]],
) -> None:
    needs, lane, labelled = graph
    placed = layout(needs, lane, most_columns=5, label_px=dict.fromkeys(labelled, LABEL_PX))
    rows = _rows(placed, len(needs))
    above = {i: LABEL_PX if i in labelled else 0 for i in rows}
    for a, b in combinations(rows, 2):
        if rows[a][:2] == rows[b][:2]:
            upper, lower = sorted((a, b), key=lambda i: rows[i][2])
            assert rows[upper][3] <= rows[lower][2] - above[lower]
    for i, (column, on, top, bottom) in rows.items():
        assert top - above[i] >= GAP_PX / 2
        assert bottom <= placed.lane_px[column // placed.per_band, on] - GAP_PX / 2


@pytest.mark.slow
@given(_GRAPHS)
def test_each_stands_behind_what_it_needs_and_its_lines_rise_column_by_column(
    graph: tuple[tuple[set[int], ...], list[int], set[int]],
) -> None:
    needs, lane, _ = graph
    placed = layout(needs, lane)
    assert set(placed.lines) == {(needed, i) for i, mine in enumerate(needs) for needed in mine}
    for (before, after), items in placed.lines.items():
        columns = [placed.column[item] for item in items]
        assert (items[0], items[-1]) == (before, after)
        assert columns == list(range(columns[0], columns[-1] + 1))
        assert len(columns) > 1
    assert placed.lane[: len(needs)] == lane


def test_lines_that_leave_a_box_share_their_way() -> None:
    placed = layout([[], [0], [1], [0, 2], [0, 3]], [0] * 5)
    assert placed.lines[0, 4][:3] == placed.lines[0, 3][:3]
    assert len(placed.column) == 5 + 3


def test_many_columns_stand_in_bands_of_equal_length() -> None:
    placed = layout([[], *([i] for i in range(24))], [0] * 25, most_columns=12)
    assert placed.per_band == 9
    assert set(placed.lane_px) == {(0, 0), (1, 0), (2, 0)}


def test_joined_boxes_of_two_columns_do_not_cross() -> None:
    needs = [[], [], [], [2], [1], [0]]
    placed = layout(needs, [0] * 6)
    first = sorted((0, 1, 2), key=lambda i: placed.top_px[i])
    second = sorted((3, 4, 5), key=lambda i: placed.top_px[i])
    assert [needs[i][0] for i in second] == first
