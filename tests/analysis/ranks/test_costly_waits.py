"""What late ranks cost is exposed waiting, and never more than the table of the ranks has."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmagic.analysis.findings.catalogue import action
from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.findings import findings_of
from perfmagic.analysis.ranks.ranks import Ranks, ranks_of
from perfmagic.base.numerics.intervals import total_ns
from perfmagic.trace.model import Trace
from perfmagic.view.ranks.doc import ranks_doc
from tests.analysis.build import US, Builder
from tests.analysis.ranks.test_ranks import REDUCE, plain

Span = tuple[float, float]


def rank(number: int, compute: list[Span], comm: list[Span], *more: list[Span], world_size: int = 2) -> Trace:
    """Kernels on stream 7, all-reduces on stream 9; `more`: those of further groups, a stream each. In µs."""
    b = Builder()
    for start, end in compute:
        b.op(start, end, launch=start - 1, name="gemm")
    for stream, spans in enumerate((comm, *more), 9):
        for start, end in spans:
            b.op(start, end, launch=start - 1, name=REDUCE, stream=stream)
    trace = b.trace(rank=number, world_size=world_size)
    return replace(trace, meta=replace(trace.meta, boot="one", monotonic_base_ns=0))


def job(*traces: Trace) -> Ranks:
    return ranks_of(traces)


def by_rule(ranks: Ranks) -> dict[str, RankFinding]:
    return {finding.rule: finding for finding in findings_of(ranks)}


def rounds(*spans: Span, n: int = 4) -> list[Span]:
    """The same in each of n rounds of 1 ms."""
    return [(1000 * i + start, 1000 * i + end) for i in range(n) for start, end in spans]


def test_who_only_measures_links_is_not_told_to_overlap_them_with_compute() -> None:
    links = [rank(i, [], rounds((0, 500))) for i in range(2)]
    training = [rank(i, rounds((0, 500)), rounds((500, 900))) for i in range(2)]
    said = [by_rule(job(*traces))["rank_exposed"] for traces in (links, training)]
    assert [each.action for each in said] == ["", action("overlap")]
    assert ["Overlap" in each.sentence for each in said] == [False, True]


def test_waiting_beside_compute_costs_nothing_and_is_counted_separately() -> None:
    """Rank 0 comes to each of 4 collectives at 300, rank 1 at 600; rank 0 computes until 500."""
    ranks = job(
        rank(0, rounds((10, 300), (310, 500)), rounds((300, 800))),
        rank(1, rounds((10, 600)), rounds((600, 800))),
    )
    late = by_rule(ranks)["straggler"]
    assert ranks.table[0].waiting_ns == 4 * 300 * US
    assert ranks.table[0].exposed_waiting_ns == 4 * (100 + 10) * US
    assert late.cost_ns == 4 * (100 + 10) * US  # rank 0 computes 190 µs of its 480 beside the collective


def test_a_rank_whose_lateness_compute_hides_is_no_straggler() -> None:
    ranks = job(
        rank(0, rounds((10, 300), (300, 600)), rounds((300, 800))),
        rank(1, rounds((10, 600)), rounds((600, 800))),
    )
    assert (ranks.table[0].waiting_ns, ranks.table[0].exposed_waiting_ns) == (4 * 300 * US, 0)
    assert "straggler" not in by_rule(ranks)
    assert ranks.waits.costs_ns.sum() == 0


def test_compute_beside_the_collective_before_is_not_called_less() -> None:
    """Each computes 590 µs a round; rank 0 does 200 of them beside its collective, in which it waits 350 of 550."""
    ranks = job(
        rank(0, rounds((10, 400), (500, 700)), rounds((400, 950))),
        rank(1, rounds((10, 450), (500, 650)), rounds((750, 950))),
    )
    assert [row.compute_ns for row in ranks.table] == [4 * 590 * US] * 2
    late = by_rule(ranks)["straggler"]
    assert late.ranks == (1,)
    assert "in gemm" not in plain(late)


def test_what_a_rank_computed_longer_is_that_of_the_table_or_names_both() -> None:
    """Rank 1 computes 300 µs longer before each of the 4, and 100 µs less after the last."""
    traces = (
        rank(0, [*rounds((10, 300)), (3900, 4300)], rounds((300, 800))),
        rank(1, [*rounds((10, 600)), (3900, 4200)], rounds((600, 800))),
    )
    late = by_rule(job(*traces))["straggler"]
    assert late.cost_ns == 4 * 300 * US
    assert plain(late).startswith("rank 1 takes 1.10 ms more than its peers in gemm in every round")
    same = (
        rank(0, rounds((10, 300)), rounds((300, 800))),
        rank(1, rounds((10, 600)), rounds((600, 800))),
    )
    assert plain(by_rule(job(*same))["straggler"]).startswith("rank 1 takes 1.20 ms more than its peers in gemm")


def test_a_rank_that_is_late_to_one_of_several_kept_others_waiting_once() -> None:
    came = [(300, 800), (1300, 1800), (2300, 2800)]
    late = by_rule(
        job(rank(0, rounds((10, 300), n=3), came), rank(1, rounds((10, 300), n=3), [*came[:1], (1700, 1800), came[2]]))
    )["straggler"]
    assert plain(late).startswith("rank 1 takes 400 µs more than its peers in Python in 1 of 3 rounds")


def test_where_transfer_and_waiting_are_both_notable_both_stand_whichever_is_larger() -> None:
    def told(waits_us: float) -> RankFinding:
        late = 300 + waits_us
        found = job(
            rank(0, rounds((10, 300)), rounds((300, late + 200))),
            rank(1, rounds((10, late)), rounds((late, late + 200))),
        )
        return by_rule(found)["rank_exposed"]

    more, less = told(500), told(250)
    assert more.cause == "exposed communication is waiting and transfer"  # 250 in the median, 200
    assert less.cause == "exposed communication is transfer and waiting"
    assert (more.cost_ns, less.cost_ns) == (4 * 200 * US, 4 * 200 * US)
    assert less.advice == "Overlap the transfer with compute or move fewer bytes, and see what keeps the ranks waiting"
    assert told(0).cause == "exposed communication is mostly transfer"


def test_a_share_of_a_cell_is_of_the_cell_and_both_ranks_are_called_so() -> None:
    """Python works for 900 of 1,400 µs before the first op: more than the device's extent of 500."""

    def slow(number: int) -> Trace:
        trace = rank(number, [(900, 1100)], [(1100, 1400)])
        return replace(trace, meta=replace(trace.meta, returned_ns=1_350 * US))

    words = plain(by_rule(job(slow(0), slow(1)))["ranks_wait_for_python"])
    assert "the devices of both ranks waited for Python: each 899 µs, 64 % of its cell" in words


@pytest.mark.parametrize(
    ("ranks", "cores", "threads", "kind", "advice"),
    [
        (2, 2, 1, "cuda", "See what else runs there"),
        (2, 2, 1, "sim", "Each stream of a simulated device is a thread"),
        (4, 2, 1, "sim", "Run no more ranks than cores"),
        (2, 8, 8, "cuda", "torch.set_num_threads(4) in each rank, or OMP_NUM_THREADS=4 before it starts"),
        (2, 8, None, "cuda", "See what else runs there"),
    ],
)
def test_fewer_threads_are_advised_only_where_ranks_have_more_than_their_share(
    ranks: int, cores: int, threads: int | None, kind: str, advice: str
) -> None:
    traces = [rank(i, rounds((10, 300)), rounds((300, 800)), world_size=ranks) for i in range(ranks)]
    metas = [
        replace(
            one.meta,
            waited_for_core_ns=5_000_000,
            cores=cores,
            threads=threads,
            devices=tuple(replace(device, kind=kind) for device in one.meta.devices),
        )
        for one in traces
    ]
    by_rule_name = by_rule(job(*(replace(one, meta=meta) for one, meta in zip(traces, metas, strict=True))))
    assert advice in plain(by_rule_name["waited_for_core"])
    assert ("threads" in by_rule_name["waited_for_core"].advice) == (advice.startswith("torch.set"))


spans = st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 400)), max_size=8)


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(
    compute=st.lists(spans, min_size=3, max_size=3),
    came=st.lists(st.lists(st.integers(0, 350), min_size=3, max_size=3), min_size=1, max_size=6),
    other=st.lists(st.lists(st.integers(0, 350), min_size=3, max_size=3), max_size=4),
)
def test_what_late_ranks_cost_never_exceeds_the_exposed_waiting_of_the_table(
    compute: list[list[tuple[int, int]]], came: list[list[int]], other: list[list[int]]
) -> None:
    """Two groups whose collectives overlap, and compute anywhere; ranks come when they like."""

    def comm(times: list[list[int]], number: int, shift: int) -> list[Span]:
        return [(600 * i + shift + one[number], 600 * i + shift + max(one) + 60) for i, one in enumerate(times)]

    ranks = job(
        *(
            rank(n, [(a, a + d) for a, d in compute[n]], comm(came, n, 10), comm(other, n, 130), world_size=3)
            for n in range(3)
        )
    )
    exposed = np.array([row.exposed_waiting_ns for row in ranks.table])
    waits = ranks.waits
    assert (waits.costs_ns.sum(axis=0) <= exposed).all()
    assert (waits.costs_ns + waits.hidden_ns <= waits.waits_ns).all()
    beside = np.array([total_ns(row.bands["wait_beside"]) for row in ranks_doc(ranks).rows])
    assert (waits.hidden_ns.sum(axis=0) <= beside).all()
    # what is hatched is what the table and the words beside the rows say
    assert [total_ns(row.bands["wait"]) for row in ranks_doc(ranks).rows] == exposed.tolist()


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(came=st.lists(st.lists(st.integers(0, 350), min_size=2, max_size=2), min_size=1, max_size=6))
def test_where_nothing_is_computed_meanwhile_all_waiting_costs(came: list[list[int]]) -> None:
    traces = (
        rank(n, [(1, 5)], [(600 * i + 10 + at[n], 600 * i + 10 + max(at) + 60) for i, at in enumerate(came)])
        for n in range(2)
    )
    ranks = job(*traces)
    assert (ranks.waits.costs_ns == ranks.waits.waits_ns).all()
    assert ranks.waits.costs_ns.sum(axis=0).tolist() == [row.exposed_waiting_ns for row in ranks.table]
