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

    Of two collectives at once a µs counts for the one that the rank came to first. Of the first collective counts only
    what the last rank worked longer since its own step began.
    """
    exposed: dict[int, list[set[int]]] = {}
    shortest = [min(took.values()) for took in durations()]
    began = steps_began()
    worked = {rank: comm[0]["ts"] - began[rank] for rank, comm in collectives().items()}
    last_worked = worked[min(durations()[0], key=durations()[0].__getitem__)]
    for rank, comm in collectives().items():
        kernels = [e for e in events()[rank] if e.get("cat") == "kernel" and e not in comm]
        taken = {us for e in kernels for us in span(e)}
        for e, transfer in zip(comm, shortest, strict=True):
            taken.update(span(e)[len(span(e)) - transfer :])
        exposed[rank] = []
        for e, transfer in zip(comm, shortest, strict=True):
            waits = set(span(e)[: len(span(e)) - transfer])
            own = set(range(span(e).stop - transfer - max(0, last_worked - worked[rank]), span(e).stop))
            exposed[rank].append(waits - taken if exposed[rank] else (waits & own) - taken)
            taken |= waits
    return exposed


def steps_began() -> dict[int, int]:
    """When the step of each rank began, by the clocks of the files: they agree within 7 µs."""
    steps = {rank: [e for e in found if e["name"].startswith("ProfilerStep")] for rank, found in events().items()}
    return {rank: found[0]["ts"] for rank, found in steps.items()}


def test_how_far_apart_real_ranks_began_is_said_apart_from_who_is_late(dlrm: tuple[RankFinding, ...]) -> None:
    """By the clocks of the files, which agree within 7 µs."""
    began = steps_began()
    last = max(began, key=lambda rank: began[rank])
    apart_us = began[last] - min(began.values())
    (found,) = (finding for finding in dlrm if finding.rule == "ranks_start_up")
    assert (last, found.ranks, found.cost_ns) == (7, (7,), None)
    assert plain(found).startswith(
        f"start-up: ranks began up to {apart_us / 1000:.2f} ms apart, rank 7 last. Steps are judged from step 10 on"
    )


def test_of_the_other_real_ranks_those_whose_python_takes_longer_are_named(dlrm: tuple[RankFinding, ...]) -> None:
    beside = next(finding for finding in dlrm if finding.rule == "straggler")
    assert beside.ranks == (3, 4, 5)
    assert "more than their peers in Python in step 10" in plain(beside)
    assert plain(beside).endswith("Look at what Python does there, and at what else runs on its cores or NUMA node")


def test_of_real_ranks_on_one_host_no_other_host_is_blamed(dlrm: tuple[RankFinding, ...]) -> None:
    launching = sorted(min(e["tid"] for e in calls_of(rank)) for rank in events())
    assert launching == list(range(launching[0], launching[0] + 8))
    assert "what else runs on its cores or NUMA node" in " ".join(map(plain, dlrm))
    assert "on its host" not in " ".join(map(plain, dlrm))


def test_what_would_win_most_comes_first_and_of_real_ranks_that_is_python(dlrm: tuple[RankFinding, ...]) -> None:
    assert [finding.rule for finding in dlrm] == [
        "ranks_wait_for_python", "straggler", "straggler", "rank_exposed", "ranks_start_up",
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
