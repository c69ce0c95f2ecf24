"""What a picture draws: operators, or groups where there are too many."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmagic.analysis.graph import groups
from perfmagic.analysis.graph.groups import MIXED, MOST_UNITS, Drawn, drawn
from perfmagic.trace.columns import SeenOp, SeenOps
from perfmagic.trace.model import Trace

from .made import DTOH, HTOD, KERNEL, chain, graph, op, recorded, two_devices

Calls = list[tuple[SeenOp, tuple[str, int, int, int] | None]]
Marks = Sequence[tuple[int, int, int]]
Made = tuple[Trace, SeenOps]


def in_lanes(n: int, lane: Callable[[int], str | None], *, apart: int = 1, lines: Marks = ((0, 2, 2),)) -> Made:
    """n operators, each needs the one `apart` before it. lane: what one launches; None: nothing."""
    calls: Calls = []
    for i in range(n):
        at, what = 10 * i, lane(i)
        launched = (what, 0, at + 1, at + 9) if what else None
        calls.append((op("f", at, at + 1, reads=[i], writes=[i + apart]), launched))
    return recorded(calls, [*lines, (10 * n, 0, 0)])


def test_few_operators_are_boxes_of_their_own() -> None:
    picture = drawn(graph(chain(MOST_UNITS)))
    assert (len(picture.units), picture.by) == (MOST_UNITS, "operator")


def test_more_are_grouped_by_line() -> None:
    picture = drawn(graph(chain(MOST_UNITS + 4, lines=16)))
    assert picture.by == "line"
    assert [(unit.name, len(unit.nodes)) for unit in picture.units] == [(f"line {n}", 4) for n in range(2, 18)]


def test_where_one_line_does_it_all_a_few_operators_make_a_box() -> None:
    picture = drawn(graph(chain(3 * MOST_UNITS)))
    assert picture.by == "few operators"
    assert {len(unit.nodes) for unit in picture.units} == {3}


def test_a_loop_of_many_rounds_is_one_box() -> None:
    calls = [(op("add", 10 * i, 10 * i + 8, reads=[i], writes=[i + 1]), None) for i in range(400)]
    loop = [(10 * i, 11 + i % 2, 10) for i in range(100, 400)]
    before = [(100 * i, 2 + i, 2 + i) for i in range(10)]
    picture = drawn(graph(recorded(calls, [*before, *loop, (4000, 0, 0)])))
    assert picture.by == "statement of the cell"
    assert [(unit.name, len(unit.nodes)) for unit in picture.units][-1] == ("line 10", 300)


def test_a_cell_of_very_many_statements_has_several_in_a_box() -> None:
    picture = drawn(graph(chain(180, lines=90)))
    assert picture.by == "stretch of lines"
    assert picture.units[0].name == "lines 2–3"
    assert len(picture.units) == 45


@pytest.mark.slow
def test_very_many_operators_that_take_turns_in_two_lanes_are_stretches_of_time() -> None:
    """Each would be a group of its own: 20,000 groups of which each needs all before it were hours."""
    picture = drawn(graph(in_lanes(20_000, lambda i: KERNEL if i % 2 else None)))
    assert len(picture.units) <= MOST_UNITS
    assert sum(len(unit.nodes) for unit in picture.units) == 20_000


def test_sizes_of_groups_are_bisected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try reads all nodes, and where lanes take turns late it reads nearly all before it fails."""
    made = in_lanes(2000, lambda i: KERNEL if i > 1800 and i % 2 else None)
    tried = []
    by_lane = groups._by_lane  # what a try costs is this
    monkeypatch.setattr(groups, "_by_lane", lambda *given: tried.append(given) or by_lane(*given))
    picture = drawn(graph(made))
    assert picture.by == MIXED
    assert len(tried) <= 8


def test_groups_of_operators_are_about_as_small_as_they_can_be() -> None:
    """Two lanes that need nothing of each other: each size makes two groups of a stretch, so half as many fit."""
    picture = drawn(graph(in_lanes(1200, lambda i: KERNEL if i % 2 else None, apart=2)))
    assert picture.by == "few operators"
    assert MOST_UNITS * 7 // 8 <= len(picture.units) <= MOST_UNITS  # the smallest size makes twice as many


def test_a_line_that_comes_back_to_a_lane_gets_two_boxes() -> None:
    """Else the boxes of its two lanes would need each other."""
    lines = [(100 * i, 2 + i, 2 + i) for i in range(10)]
    picture = drawn(graph(in_lanes(70, lambda i: (KERNEL, DTOH, HTOD)[i % 3], lines=lines)))
    assert len(picture.units) > 10
    _check_order(picture)


def test_data_that_goes_back_and_forth_in_one_statement_is_grouped_by_time() -> None:
    picture = drawn(graph(in_lanes(240, lambda i: (KERNEL, DTOH)[i % 2])))
    assert (picture.by, len(picture.units)) == (MIXED, MOST_UNITS)
    assert not any(picture.matters(unit) for unit in picture.units)
    _check_order(picture)


def _check_order(picture: Drawn) -> None:
    units = picture.units
    assert all(one < at for at, unit in enumerate(units) for one in unit.needs)
    nodes = sorted(node for unit in units for node in unit.nodes)
    assert nodes == list(range(len(nodes)))


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 8)), min_size=13, max_size=40))
def test_groups_never_need_each_other(calls: list[tuple[int, int, int]]) -> None:
    made: Calls = []
    marks = []
    for i, (line, lane, back) in enumerate(calls):
        at, what = 10 * i, (KERNEL, HTOD, DTOH)[lane]
        made.append((op("f", at, at + 1, reads=[max(0, i - back), i], writes=[i + 1]), (what, 0, at + 1, at + 9)))
        marks.append((at, 2 + line, 2 + line))
    picture = drawn(graph(recorded(made, [*marks, (10 * len(calls), 0, 0)])), most=12)
    assert len(picture.units) <= 12
    _check_order(picture)


def test_what_ran_in_turn_while_a_lane_was_idle_is_distinguished_from_what_ran_at_once() -> None:
    picture = drawn(graph(two_devices()))
    first, second = picture.units[1], picture.units[4]
    assert (first.name, second.name) == ("mm", "mm")
    assert picture.side_by_side(first, second) is False
    at_once = [
        (op("a", 0, 1, writes=[1]), (KERNEL, 0, 1, 50)),
        (op("b", 2, 3, writes=[2]), (KERNEL, 1, 5, 50)),
    ]
    both = drawn(graph(recorded(at_once)))
    assert both.side_by_side(*both.units) is True


def test_short_boxes_and_lanes_with_little_work_are_not_compared() -> None:
    calls = [
        (op("a", 0, 1, writes=[1]), (KERNEL, 0, 10, 1000)),
        (op("b", 1, 2, writes=[2]), (KERNEL, 0, 1000, 1005)),
        (op("c", 2, 3, writes=[3]), (HTOD, 0, 20, 90)),
    ]
    picture = drawn(graph(recorded(calls)))
    assert [picture.matters(unit) for unit in picture.units] == [True, False, False]


def test_what_ran_in_turn_while_both_lanes_worked_is_neither() -> None:
    calls = [
        (op("a", 0, 1, writes=[1]), (KERNEL, 0, 10, 20)),
        (op("b", 1, 2, writes=[2]), (KERNEL, 1, 10, 20)),
        (op("c", 2, 3, writes=[3]), (KERNEL, 0, 20, 30)),
        (op("d", 3, 4, writes=[4]), (KERNEL, 1, 20, 30)),
    ]
    picture = drawn(graph(recorded(calls)))
    assert picture.side_by_side(picture.units[0], picture.units[3]) is None
