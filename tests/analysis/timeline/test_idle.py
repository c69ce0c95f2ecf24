import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmagic.analysis.timeline.idle import idle_gaps
from perfmagic.base.numerics.intervals import covered_ns, union
from tests.analysis.build import US, Builder, queued


def causes(b: Builder) -> dict[str, float]:
    sums = idle_gaps(b.trace(), 0).by_cause_ns
    return {cause: ns / US for cause, ns in sums.items() if ns}


def test_a_gap_before_the_launch_is_the_hosts_and_the_rest_launch_latency() -> None:
    assert causes(queued((0, 10, 0), (30, 40, 25))) == {"in_python": 15, "launching": 5}


def test_a_copy_to_pageable_memory_blocks_like_a_sync() -> None:
    b = Builder()
    b.op(0, 10, launch=(0, 13), name="Memcpy DtoH (Device -> Pageable)")
    b.op(30, 40, launch=25)
    assert causes(b) == {"in_python": 12, "blocked": 3, "launching": 5}


def test_an_op_is_launching_while_its_call_runs_and_for_less_than_ten_microseconds_after_it() -> None:
    assert causes(queued((0, 10, 0), (31.999, 40, (20, 22)))) == {"in_python": 10, "launching": 11.999}
    b = queued((0, 10, 0), (32, 40, (20, 22)))
    assert causes(b) == {"in_python": 10, "launching": 2, "unexplained": 10}


def test_a_recorded_stream_wait_makes_the_gap_a_dependency() -> None:
    b = Builder()
    b.op(0, 10, launch=0, stream=7)
    copy = b.op(5, 20, launch=1, stream=8)
    b.wait(2, 7, 8, copy)
    b.op(20, 20, launch=3, stream=9)  # an op without length neither ends a gap nor starts one
    b.op(24, 40, launch=4, stream=7)
    assert causes(b) == {"between_ops": 4}
    b.op(60, 70, launch=4, stream=7)
    assert causes(b) == {"between_ops": 4, "unexplained": 20}


def test_a_wait_for_work_on_another_stream_holds_until_that_work_ends() -> None:
    b = Builder()
    b.op(0, 10, launch=0, stream=7)
    other = b.op(50, 90, launch=1, stream=7)
    b.wait(2, 8, 7, other)
    b.op(92, 99, launch=3, stream=8)
    assert causes(b) == {"between_ops": 2, "unexplained": 40}


def test_the_part_of_a_gap_that_a_wait_on_another_device_s_work_explains_is_dependency() -> None:
    b = Builder()
    b.op(0, 10, launch=0, stream=7)
    zero = b.op(40, 40, launch=1, stream=8)  # the other stream's work ends at 40 without making the device busy
    b.wait(2, 7, 8, zero)
    b.op(43, 50, launch=3, stream=7)
    assert causes(b) == {"other_stream": 30, "between_ops": 3}


def test_a_wait_for_a_stream_of_another_device_is_not_taken_for_one_of_the_same() -> None:
    b = Builder()
    b.op(0, 10, launch=0, stream=7)
    there = b.op(5, 40, launch=1, stream=7, device=1)
    b.wait(2, 7, 7, there, on_device=1)
    b.op(43, 50, launch=3, stream=7)
    assert causes(b) == {"other_stream": 30, "between_ops": 3}


def test_an_op_launched_before_the_wait_is_not_held_by_it() -> None:
    b = Builder()
    b.op(0, 10, launch=0, stream=7)
    zero = b.op(40, 40, launch=1, stream=8)
    b.op(43, 50, launch=3, stream=7)
    b.wait(4, 7, 8, zero)
    assert causes(b) == {"unexplained": 33}


def test_the_hosts_part_is_split_over_the_lines_it_was_on() -> None:
    b = Builder()
    b.line(0, 2)
    b.line(14, 3)
    b.line(22, 4)
    b.op(0, 10, launch=0)
    b.op(30, 40, launch=25)
    gaps = idle_gaps(b.trace(), 0)
    assert gaps.by_line_ns == {2: 4 * US, 3: 8 * US, 4: 3 * US}
    assert gaps.line.tolist() == [3]


def test_a_gap_without_a_host_part_belongs_to_the_line_of_the_op_that_ended_it() -> None:
    b = Builder()
    b.line(0, 2)
    b.line(5, 3)
    b.op(1, 10, launch=0)
    b.op(30, 40, launch=6)
    gaps = idle_gaps(b.trace(), 0)
    assert gaps.by_line_ns == {}
    assert gaps.line.tolist() == [3]


def test_the_host_op_is_the_innermost_one_on_the_launching_thread() -> None:
    b = Builder()
    b.host_op(0, 100, "outer")
    b.host_op(12, 26, "inner")
    b.host_op(13, 24, "elsewhere", thread=2)
    b.op(0, 10, launch=0)
    b.op(30, 40, launch=25)
    trace = b.trace()
    assert trace.names[idle_gaps(trace, 0).host_op[0]] == "inner"


def test_the_op_that_ended_a_gap_is_the_one_launched_first() -> None:
    b = queued((0, 10, 0))
    b.op(30, 35, launch=28, stream=8)
    late = b.op(30, 40, launch=25)
    gaps = idle_gaps(b.trace(), 0)
    assert b.trace().ops.correlation[gaps.op[0]] == late
    assert gaps.cause(0) == "in_python"


def test_no_gap_no_rows() -> None:
    assert len(idle_gaps(Builder().trace(), 0)) == 0
    gaps = idle_gaps(queued((0, 10, 0)).trace(), 0)
    assert (len(gaps), gaps.total_ns, set(gaps.by_cause_ns.values())) == (0, 0, {0})


SPANS = st.tuples(st.integers(0, 80), st.integers(0, 20))


@settings(deadline=None, max_examples=60)
@given(st.lists(SPANS, max_size=6), SPANS)
def test_covered_time_agrees_with_counting_instants(rows: list[tuple[int, int]], asked: tuple[int, int]) -> None:
    starts, lengths = np.array(rows, np.int64).reshape(-1, 2).T
    inside = {t for start, length in rows for t in range(start, start + length)}
    start, end = asked[0], asked[0] + asked[1]
    got = covered_ns(union(starts, starts + lengths), np.array([start]), np.array([end]))
    assert got.tolist() == [len(inside & set(range(start, end)))]
