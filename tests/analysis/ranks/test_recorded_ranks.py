"""What eight recorded ranks of one job say together; each figure comes from a walk over the files themselves."""

import re
from functools import cache
from statistics import median

import pytest

from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.findings import rank_findings
from perfmagic.trace.kineto.reader import read_trace
from tests.analysis.build import US
from tests.analysis.ranks.raw import PATHS, Event, collectives, durations, events, span
from tests.analysis.ranks.test_ranks import plain

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dlrm() -> tuple[RankFinding, ...]:
    return rank_findings([read_trace(path) for path in PATHS])


@cache
def exposed_waits() -> dict[int, list[set[int]]]:
    """The µs in which each rank waits in each collective with no compute and no other data beside, from the files.

    Of two collectives at once a µs counts for the one that the rank came to first.
    """
    exposed: dict[int, list[set[int]]] = {}
    shortest = [min(took.values()) for took in durations()]
    for rank, comm in collectives().items():
        kernels = [e for e in events()[rank] if e.get("cat") == "kernel" and e not in comm]
        taken = {us for e in kernels for us in span(e)}
        for e, transfer in zip(comm, shortest, strict=True):
            taken.update(span(e)[len(span(e)) - transfer :])
        exposed[rank] = []
        for e, transfer in zip(comm, shortest, strict=True):
            waits = set(span(e)[: len(span(e)) - transfer])
            exposed[rank].append(waits - taken)
            taken |= waits
    return exposed


def test_a_real_rank_whose_start_up_is_late_is_named_with_the_figures_of_the_files(
    dlrm: tuple[RankFinding, ...],
) -> None:
    """Of eight DLRM ranks the clocks agree within 7 µs, so that their arrivals can be compared."""
    came = {rank: comm[0]["ts"] for rank, comm in collectives().items()}
    later_us = came[7] - median(ts for rank, ts in came.items() if rank != 7)
    late = next(finding for finding in dlrm if finding.rule == "late_start")
    assert late.ranks == (7,)
    words = plain(late)
    assert f"rank 7 comes to the first collective of all ranks {later_us / 1000:.2f} ms after the others" in words
    next_us = max(ts for rank, ts in came.items() if rank != 7)
    assert (late.cost_ns or 0) <= (came[7] - next_us) * US  # another began nearly as late


def test_of_the_other_real_ranks_the_two_whose_python_takes_longer_are_named(dlrm: tuple[RankFinding, ...]) -> None:
    (beside,) = (finding for finding in dlrm if finding.rule == "straggler")
    assert beside.ranks == (4, 5)
    assert "more than their peers in Python in step 10" in plain(beside)
    # from the end of the first collective to the beginning of the last, the time in which nothing ran on these two
    idle_us = {}
    for rank, comm in collectives().items():
        kinds = ("kernel", "gpu_memcpy", "gpu_memset")
        ops = [span(e) for e in events()[rank] if e.get("cat") in kinds]
        busy = {us for each in ops for us in each}
        idle_us[rank] = sum(us not in busy for us in range(span(comm[0]).stop, span(comm[-1]).start))
    more_us = sum(idle_us[rank] - median(us for of, us in idle_us.items() if of != rank) for rank in (4, 5))
    told_ms = float(re.search(r"take ([\d.]+) ms more", plain(beside))[1])
    assert 0.7 * more_us < told_ms * 1000 <= more_us  # some of it were operators and calls


def test_of_real_ranks_on_one_host_no_other_host_is_blamed(dlrm: tuple[RankFinding, ...]) -> None:
    launching = sorted(min(e["tid"] for e in calls_of(rank)) for rank in events())
    assert launching == list(range(launching[0], launching[0] + 8))
    assert "what else runs on its cores or NUMA node" in " ".join(map(plain, dlrm))
    assert "on its host" not in " ".join(map(plain, dlrm))


def test_what_would_win_most_comes_first_and_of_real_ranks_that_is_python(dlrm: tuple[RankFinding, ...]) -> None:
    assert [finding.rule for finding in dlrm] == [
        "ranks_wait_for_python", "straggler", "late_start", "rank_exposed",
    ]  # fmt: skip
    waited, extents, computed, left = [], [], [], []
    shortest = [min(took.values()) for took in durations()]
    for rank, comm in collectives().items():
        kinds = ("kernel", "gpu_memcpy", "gpu_memset")
        ops = sorted((e for e in events()[rank] if e.get("cat") in kinds), key=lambda e: e["ts"])
        waited.append(_idle_until_launched_us(ops, calls_of(rank)))
        extents.append(max(span(e).stop for e in ops) - ops[0]["ts"])
        computed.append(len({us for e in ops if e["cat"] == "kernel" and e not in comm for us in span(e)}))
        both = zip(comm, shortest, strict=True)
        waiting = {us for e, transfer in both for us in span(e)[: len(span(e)) - transfer]}
        left.append(extents[-1] - len(waiting - {us for e in ops if e not in comm for us in span(e)}))
    first = dlrm[0]
    assert first.ranks == tuple(range(8))
    assert first.cost_ns == pytest.approx(median(waited) * US, rel=0.015)
    words = plain(first)
    ms = [float(figure) for figure in re.findall(r"([\d.]+) ms", words)]
    assert ms[:2] == pytest.approx([min(waited) / 1000, max(waited) / 1000], rel=0.015)
    assert ms[2:4] == pytest.approx([min(computed) / 1000, max(computed) / 1000], abs=0.01)
    won_ns = median(sum(map(len, took_here)) for took_here in exposed_waits().values()) * US
    assert ms[4] == pytest.approx(won_ns / 1e6, abs=0.01)
    assert ms[5:] == pytest.approx([min(left) / 1000, max(left) / 1000], rel=0.005)
    shares = [100 * us / extent for us, extent in zip(waited, extents, strict=True)]
    assert [float(figure) for figure in re.findall(r"(\d+) %", words)] == pytest.approx(
        [min(shares), max(shares)], abs=1
    )
    assert min(waited) * US > won_ns


def calls_of(rank: int) -> list[Event]:
    return [e for e in events()[rank] if e.get("cat") == "cuda_runtime"]


def _idle_until_launched_us(ops: list[Event], calls: list[Event]) -> int:
    """How long nothing ran before the call that launched the next op was over."""
    launched = {e["args"]["correlation"]: e["ts"] + e["dur"] for e in calls}
    idle_us, free = 0, ops[0]["ts"]
    for op in ops:
        idle_us += max(0, min(op["ts"], launched.get(op["args"]["correlation"], free)) - free)
        free = max(free, op["ts"] + op["dur"])
    return idle_us
