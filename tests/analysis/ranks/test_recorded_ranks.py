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


def won_us(late: set[int], theirs: list[int]) -> float:
    """How much less exposed waiting the median of the others had, were some ranks in time at some collectives."""
    less: dict[int, int] = {rank: 0 for rank in collectives() if rank not in late}
    waits = exposed_waits()
    for k in theirs:
        inside = durations()[k]
        ahead = min(inside[rank] for rank in less) - min(inside.values())
        for rank in less:
            met = collectives()[rank][k]["ts"] + inside[rank] - min(inside.values())
            less[rank] += len(waits[rank][k] & set(range(met - ahead, met)))
    return median(less.values())


def test_a_real_straggler_that_began_late_is_named_with_the_figures_of_the_files(dlrm: tuple[RankFinding, ...]) -> None:
    """Of eight DLRM ranks the clocks agree within 7 µs, so that the beginnings of their steps can be compared."""
    steps = {rank: [e for e in found if e["name"].startswith("ProfilerStep")] for rank, found in events().items()}
    began = {rank: found[0]["ts"] for rank, found in steps.items()}
    its = [k for k, inside in enumerate(durations()) if inside[7] == min(inside.values())]
    exposed = exposed_waits()
    waits = {rank: sum(len(exposed[rank][k]) for k in its) for rank in range(7)}
    won = round(won_us({7}, its))
    later = began[7] - median(began[rank] for rank in range(7))

    late = next(finding for finding in dlrm if finding.rule == "straggler")
    assert (late.rule, late.ranks, late.cost_ns) == ("straggler", (7,), won * US)
    assert late.cause.replace("\u00a0", " ") == f"rank 7 began {later / 1000:.2f} ms after the others in the median"
    words = plain(late)
    assert f"at {len(its)} of 8 matched collectives" in words
    middle, most = (f"{ns / 1000:.2f} ms" for ns in (median(waits.values()), max(waits.values())))
    assert f"wait {middle} for rank 7 in the median, rank 1 the longest, {most}" in words
    assert f"the others would wait {won / 1000:.2f} ms less in the median" in words
    first = sum(len(exposed[rank][0]) for rank in range(7))
    assert f"{100 * first / sum(waits.values()):.0f} % of the waiting for rank 7 is in its first collective" in words


def test_of_the_other_real_ranks_the_two_that_come_late_are_named_with_what_their_python_took(
    dlrm: tuple[RankFinding, ...],
) -> None:
    their_places = [k for k, inside in enumerate(durations()) if min(inside.values()) in (inside[4], inside[5])]
    theirs = [durations()[k] for k in their_places]
    exposed = exposed_waits()
    won = round(won_us({4, 5}, their_places))
    waits = [sum(len(exposed[rank][k]) for k in their_places) for rank in exposed if rank not in (4, 5)]

    (beside,) = (finding for finding in dlrm if finding.rule == "late_too")
    assert (beside.ranks, beside.cost_ns) == ((4, 5), won * US)
    assert beside.cause.replace("\u00a0", " ").startswith(
        f"ranks 4 and 5 arrive last at {len(theirs)} of 8 matched collectives"
    )
    assert f"the other 6 ranks wait {median(waits) / 1000:.2f} ms" in plain(beside)
    assert f"were these in time, the others would wait {won / 1000:.2f} ms less" in plain(beside).replace(
        "Were", "were"
    )

    launched: dict[int, list[int]] = {}
    for rank, comm in collectives().items():
        by_id = {e["args"]["correlation"]: e["ts"] for e in calls_of(rank)}
        launched[rank] = [by_id[e["args"]["correlation"]] for e in comm]
    python_us = 0.0
    for k in range(1, 8):  # nothing blocks between the launches of these for longer than 10 µs
        inside = durations()[k]
        if inside in theirs:
            between = {rank: at[k] - at[k - 1] for rank, at in launched.items()}
            last = min(inside, key=lambda rank: inside[rank])
            python_us += between[last] - median(between[rank] for rank in between if rank not in (4, 5))
    words = plain(beside)
    assert f"From launching the collective before to launching each of these {len(theirs)}, the Python of" in words
    told_us = re.search(r"the one that came last took (\d+) µs longer in all than the ranks that were in time", words)
    assert float(told_us[1]) == pytest.approx(python_us, abs=15)
    assert "executed nothing" not in words


def test_of_real_ranks_on_one_host_no_other_host_is_blamed(dlrm: tuple[RankFinding, ...]) -> None:
    launching = sorted(min(e["tid"] for e in calls_of(rank)) for rank in events())
    assert launching == list(range(launching[0], launching[0] + 8))
    assert "what else runs on its cores or NUMA node" in " ".join(map(plain, dlrm))
    assert "on its host" not in " ".join(map(plain, dlrm))


def test_what_would_win_most_comes_first_and_of_real_ranks_that_is_python(dlrm: tuple[RankFinding, ...]) -> None:
    assert [finding.rule for finding in dlrm] == [
        "ranks_wait_for_python", "late_too", "straggler", "rank_exposed", "none_late",
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
