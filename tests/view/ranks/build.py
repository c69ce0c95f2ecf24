"""Several ranks for the tests of their pictures and pages."""

from dataclasses import replace

from perfmagic.analysis.ranks.ranks import Ranks, ranks_of
from perfmagic.results import RanksResult, TimelineResult
from perfmagic.trace.model import Trace
from perfmagic.view.ranks.doc import RanksDoc, ranks_doc
from tests.analysis.build import Builder
from tests.analysis.ranks.test_ranks import rank


def ranks(n: int = 4, *, skew_us: float = 0) -> Ranks:
    """n ranks of four rounds of 1 ms; rank 2 computes longer. skew_us: by how much rank 1's clock is off."""
    traces = [
        rank(i, compute_us=800 if i == 2 else 300 + 20 * (i % 8), world_size=n, skew_us=skew_us if i == 1 else 0)
        for i in range(n)
    ]
    ranks = ranks_of(traces)
    assert ranks is not None
    return ranks


def four_ranks() -> RanksDoc:
    return ranks_doc(ranks(), [f"rank{i}.json" for i in range(4)])


def result(n: int = 4, *, skew_us: float = 0) -> RanksResult:
    job = ranks(n, skew_us=skew_us)
    return RanksResult(tuple(TimelineResult(job.traces[i], title=f"rank{i}.json") for i in job.ranks), job)


def ring(number: int) -> Trace:
    """One of four ranks of one host that pass messages around once: each sends from 100 to 140 µs, which arrive at 150.

    Python runs line 1 from 0 to 90 µs and is blocked from 200 to 300.
    """
    b = Builder()
    before, after = (number - 1) % 4, (number + 1) % 4
    b.line(0, 1)
    b.line(90, 0)
    b.host_op(1, 4, f"nccl:send {number}->{after}")
    b.op(100, 140, launch=2, name="ncclDevKernel_SendRecv", stream=8)
    b.host_op(5, 9, f"nccl:recv {number}<-{before}")
    b.op(10 * number + 20, 150, launch=6, name="ncclDevKernel_SendRecv", stream=9)
    b.sync(200, 300)
    b.op(310, 320, launch=305, name="gemm")
    trace = b.trace(rank=number, world_size=4)
    return replace(trace, meta=replace(trace.meta, boot="one", monotonic_base_ns=0))


def ring_doc() -> RanksDoc:
    ranks_of_ring = ranks_of([ring(i) for i in range(4)])
    assert ranks_of_ring is not None
    return ranks_doc(ranks_of_ring)
