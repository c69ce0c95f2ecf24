"""The longest chain, list schedules, and what could have begun earlier."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from perfmagic.analysis.graph.graph import earlier_by, longest_chain, schedule

DIAMOND = [[], [0], [0], [1, 2]]


def test_the_longest_chain_of_a_diamond_takes_the_longer_side() -> None:
    assert longest_chain(DIAMOND, [1, 5, 9, 2]) == (12, [0, 2, 3])


def test_without_nodes_there_is_no_chain() -> None:
    assert longest_chain([], []) == (0, [])
    assert schedule([], [], []) == ([], 0)


def test_both_sides_of_a_diamond_run_at_once_on_two_lanes_and_in_turn_on_one() -> None:
    assert schedule(DIAMOND, [1, 5, 9, 2], [0, 0, 1, 0]) == ([0, 1, 1, 10], 12)
    assert schedule(DIAMOND, [1, 5, 9, 2], [0, 0, 0, 0]) == ([0, 10, 1, 15], 17)


def test_who_waits_for_nothing_that_it_needs_could_have_begun_earlier() -> None:
    start, end = [0, 10, 30, 50], [10, 20, 40, 60]
    assert earlier_by(DIAMOND, start, end, [0, 0, 1, 0]) == [0, 0, 20, 10]
    assert earlier_by(DIAMOND, start, end, [0, 0, 0, 0]) == [0, 0, 10, 10]


_GRAPHS = st.integers(1, 14).flatmap(
    lambda n: st.tuples(
        st.tuples(*(st.sets(st.integers(0, max(0, i - 1)), max_size=3) if i else st.just(set()) for i in range(n))),
        st.lists(st.integers(0, 9), min_size=n, max_size=n),
        st.lists(st.integers(0, 2), min_size=n, max_size=n),
    )
)


@given(_GRAPHS)
def test_a_schedule_keeps_needs_and_lanes_and_lies_between_its_bounds(
    graph: tuple[tuple[set[int], ...], list[int], list[int]],
) -> None:
    needs, duration, lane = graph
    start, took = schedule(needs, duration, lane)
    end = [s + d for s, d in zip(start, duration, strict=True)]
    assert took == max(end)
    for node, needed in enumerate(needs):
        assert all(end[one] <= start[node] for one in needed)
    for one in set(lane):
        spans = sorted((start[i], end[i]) for i in range(len(lane)) if lane[i] == one and duration[i])
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
    span, chain = longest_chain(needs, duration)
    assert sum(duration[i] for i in chain) == span
    assert all(a in needs[b] for a, b in pairwise(chain))
    busiest = max(sum(d for d, on in zip(duration, lane, strict=True) if on == one) for one in set(lane))
    assert max(span, busiest) <= took <= sum(duration)


def test_a_pipeline_is_not_held_up_by_its_short_parts() -> None:
    # three batches: long and short on lane 0, long on lane 1; longest rest first would do the three long ones at first
    needs = [[], [0], [1], [], [3], [4], [], [6], [7]]
    start, took = schedule(needs, [10, 1, 10] * 3, [0, 0, 1] * 3)
    assert start == [0, 10, 11, 11, 21, 22, 22, 32, 33]
    assert took == 43
