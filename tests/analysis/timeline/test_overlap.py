from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmagic.analysis.timeline.overlap import breakdown
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder, queued

HTOD = "Memcpy HtoD (Pinned -> Device)"
DTOH = "Memcpy DtoH (Device -> Pinned)"


def three_classes() -> Trace:
    """compute 10–30, copy 20–50, communication 40–60, a pause, compute 70–80, all seen through a window 0–100."""
    b = Builder()
    b.op(10, 30, launch=1, name="gemm")
    b.op(20, 50, launch=2, name=HTOD, stream=8, size=3000)
    b.op(40, 60, launch=3, name="ncclAllReduce", stream=9)
    b.op(70, 80, launch=4, name="add")
    return b.trace(start=0, end=100)


def test_the_extent_runs_from_the_first_start_to_the_last_end_and_head_and_tail_are_apart() -> None:
    result = breakdown(three_classes(), 0)
    assert (result.extent_start_ns, result.extent_end_ns, result.extent_ns) == (10 * US, 80 * US, 70 * US)
    assert (result.head_ns, result.tail_ns) == (10 * US, 20 * US)


def test_busy_is_the_union_of_all_streams_and_idle_the_rest_of_the_extent() -> None:
    result = breakdown(three_classes(), 0)
    assert (result.busy_ns, result.idle_ns, result.busy_frac) == (60 * US, 10 * US, pytest.approx(6 / 7))
    assert result.intervals["idle"].tolist() == [[60 * US, 70 * US]]


def test_each_class_is_summed_by_its_own_union() -> None:
    result = breakdown(three_classes(), 0)
    assert (result.compute_ns, result.copy_ns) == (30 * US, 30 * US)
    assert (result.communication_ns, result.memset_ns) == (20 * US, 0)
    assert [result.class_ns(name) for name in ("htod", "dtoh", "dtod", "ptop")] == [30 * US, 0, 0, 0]


def test_an_overlap_is_given_in_time_and_as_a_share_of_each_class() -> None:
    result = breakdown(three_classes(), 0)
    assert result.compute_copy.overlap_ns == 10 * US
    assert result.compute_copy.frac_of_first == pytest.approx(1 / 3)
    assert result.communication_copy.overlap_ns == 10 * US
    assert result.communication_copy.frac_of_first == pytest.approx(1 / 2)
    assert result.communication_copy.frac_of_second == pytest.approx(1 / 3)
    assert result.compute_communication.overlap_ns == 0


def test_exposed_is_the_part_without_compute() -> None:
    result = breakdown(three_classes(), 0)
    assert (result.exposed_communication_ns, result.exposed_copy_ns) == (20 * US, 20 * US)


def test_a_class_is_alone_where_no_other_runs_which_is_less_than_exposed() -> None:
    result = breakdown(three_classes(), 0)
    assert asdict(result.partition) == {
        "compute_alone_ns": 20 * US,
        "compute_with_other_ns": 10 * US,
        "communication_alone_ns": 10 * US,
        "copy_alone_ns": 10 * US,
        "memset_alone_ns": 0,
        "several_without_compute_ns": 10 * US,  # the copy and the communication
        "idle_ns": 10 * US,
    }
    assert result.exposed_copy_ns == result.exposed_communication_ns == 20 * US


@pytest.mark.parametrize("name", ["gemm", "ncclX", HTOD])
def test_a_memset_beside_it_leaves_no_class_alone(name: str) -> None:
    b = Builder()
    b.op(0, 30, name=name)
    b.op(10, 50, name="Memset (Device)", stream=8)
    parts = breakdown(b.trace(), 0).partition
    assert sorted(ns for ns in asdict(parts).values() if ns) == [10 * US, 20 * US, 20 * US]
    assert parts.memset_alone_ns == 20 * US
    assert (parts.compute_with_other_ns if name == "gemm" else parts.several_without_compute_ns) == 20 * US


def test_concurrency_counts_streams_and_not_ops() -> None:
    b = queued((0, 10, 0))
    b.op(5, 12, launch=0)  # on the same stream
    b.op(8, 20, launch=0, stream=8)
    assert breakdown(b.trace(), 0).concurrency_ns == {1: 16 * US, 2: 4 * US}


def test_a_device_without_ops_has_nothing_to_report() -> None:
    result = breakdown(three_classes(), 5)
    assert (result.n_ops, result.extent_ns, result.busy_frac, result.tail_ns) == (0, 0, 0.0, 0)


def test_other_devices_do_not_count() -> None:
    b = queued((0, 10, 0))
    b.op(50, 60, launch=0, device=1)
    assert breakdown(b.trace(), 1).extent_ns == 10 * US


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 60),
            st.integers(0, 20),
            st.integers(0, 3),
            st.sampled_from(["gemm", "add", "ncclX", HTOD, DTOH, "Memset (Device)"]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_the_partition_adds_up_to_the_extent(rows: list[tuple[int, int, int, str]]) -> None:
    b = Builder()
    for start, length, stream, name in rows:
        b.op(start, start + length, name=name, stream=stream)
    result = breakdown(b.trace(), 0)
    assert result.partition.total_ns == result.extent_ns
    assert min(asdict(result.partition).values()) >= 0
    assert result.partition.copy_alone_ns <= result.exposed_copy_ns <= result.copy_ns
    assert result.partition.communication_alone_ns <= result.exposed_communication_ns <= result.communication_ns
    assert sum(result.concurrency_ns.values()) == result.extent_ns
    assert all(np.all(rows[:, 0] < rows[:, 1]) for rows in result.intervals.values())
