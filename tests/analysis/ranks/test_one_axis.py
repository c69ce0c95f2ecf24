"""Ranks on one axis: clocks put right by the ends of collectives, exposed communication split into its parts."""

from dataclasses import replace

import pytest

from perfmagic.analysis.ranks.ranks import Ranks, ranks_of
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder
from tests.analysis.ranks.raw import PATHS
from tests.analysis.ranks.test_ranks import rank


def two(first: Trace, second: Trace) -> Ranks:
    return ranks_of([first, second])


def overlapped(number: int, arrives: float) -> Trace:
    """Compute until 300 µs; a collective from `arrives` to 1000, of which the last 100 µs move data."""
    b = Builder()
    b.op(0, 300, launch=0, name="gemm")
    b.op(arrives, 1000, launch=1, name="ncclAllReduce", stream=9)
    b.op(1000, 1010, launch=2, name="gemm")
    return b.trace(rank=number, world_size=2)


def test_exposed_communication_is_waiting_and_transfer_and_the_parts_add_up() -> None:
    early, late = two(overlapped(0, 100), overlapped(1, 900)).table
    assert (early.waiting_ns, early.transfer_ns, early.n_last) == (800 * US, 100 * US, 0)
    # of the 800 µs of waiting compute hides 200
    assert (early.exposed_waiting_ns, early.exposed_transfer_ns) == (600 * US, 100 * US)
    assert early.exposed_communication_ns == 700 * US
    assert (late.waiting_ns, late.exposed_transfer_ns, late.n_last) == (0, 100 * US, 1)


def test_communication_that_the_other_rank_does_not_have_is_neither() -> None:
    b = Builder()
    b.op(0, 10, launch=0, name="gemm")
    b.op(100, 300, launch=1, name="ncclAllGather", stream=9)
    other = b.trace(rank=1, world_size=2)
    first, _ = two(overlapped(0, 100), other).table
    assert (first.exposed_waiting_ns, first.exposed_transfer_ns) == (0, 0)
    assert first.exposed_unmatched_ns == first.exposed_communication_ns == 700 * US


def test_clocks_that_agree_are_not_touched() -> None:
    alignment = two(rank(0), rank(1, compute_us=800)).alignment
    assert alignment.moved_ns == {}
    assert alignment.residual_ns == (0, 0)
    assert alignment.words.startswith("one clock, ends of collectives agree within 0")


def test_a_clock_that_is_off_is_moved_by_what_the_ends_say() -> None:
    alignment = two(rank(0), rank(1, compute_us=800, skew_us=-77_000)).alignment
    assert alignment.moved_ns == {1: 77_000 * US}
    assert alignment.residual_ns == (0, 0)
    assert "clocks moved by up to 77.0 ms" in alignment.words.replace("\u00a0", " ")
    assert alignment.offset_ns[1] - alignment.offset_ns[0] == 77_000 * US


def test_ranks_of_one_group_are_joined_through_another() -> None:
    traces = [rank(i, skew_us=1000 * i, world_size=3) for i in range(3)]
    alignment = ranks_of(traces).alignment
    assert (alignment.moved_ns, alignment.unknown) == ({1: -1000 * US, 2: -2000 * US}, ())


def test_without_a_common_collective_clocks_stay_or_begin_together() -> None:
    b = Builder()
    b.op(0, 10, launch=0, name="gemm")
    lonely = b.trace(rank=1, world_size=2)
    alignment = two(rank(0), lonely).alignment
    assert alignment.residual_ns is None
    assert "no collective is matched" in alignment.words
    far = replace(lonely, meta=replace(lonely.meta, base_unix_ns=10**18))
    alignment = two(rank(0), far).alignment
    assert alignment.begin_together
    assert max(alignment.offset_ns.values()) - min(alignment.offset_ns.values()) < 1_000_000


@pytest.mark.slow
def test_the_clocks_of_eight_recorded_ranks_are_one_and_their_bandwidth_comes_from_the_shapes() -> None:
    eight = ranks_of([read_trace(path) for path in PATHS])
    assert eight.alignment.moved_ns == {}
    assert eight.alignment.residual_ns[1] == 7 * US
    # all-to-all of 6144, 24, 384, 3392, 6144 elements of 4, 8, 4, 4, 4 bytes; all-reduce of 394241, 112, 226960 floats
    moved = (4 * (6144 * 2 + 384 + 3392) + 8 * 24) * 7 / 8 + 4 * (394241 + 112 + 226960) * 2 * 7 / 8
    row = eight.table[0]
    assert row.bus_bytes_per_s == pytest.approx(moved / row.transfer_ns * 1e9)
