"""Start-up apart from steps: ranks of files that begin at different times, and one rank that is late once."""

from dataclasses import replace

import numpy as np
import pytest

from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.analysis.ranks.findings import findings_of
from perfmagic.analysis.ranks.rank_summary import rank_summary
from perfmagic.analysis.ranks.ranks import Ranks, ranks_of
from perfmagic.trace.columns import NONE, HostKind
from perfmagic.trace.model import Cell, Collective, Trace
from tests.analysis.build import US, Builder
from tests.analysis.findings.build import plain
from tests.analysis.ranks.test_ranks import REDUCE

MS = 1000.0
MARKS = ("ProfilerStep#{}", "Optimizer.step#SGD.step", "")


def job(
    start_ms: list[float], late: dict[tuple[int, int], float], *, mark: str = MARKS[0], n: int = 8, apart: bool = False
) -> Ranks:
    """Steps of 40 ms compute, a collective of 10, 5 of Python; before them each rank imports for so long.

    late: by rank and step how much longer it computes, in ms.  apart: the records begin once the imports are over.
    """
    builders = [Builder() for _ in start_ms]
    came = [ms * MS for ms in start_ms]
    begins = list(came) if apart else [0.0] * len(came)
    for i in range(n):
        began = list(came)
        done = [at + (40 + late.get((rank, i), 0)) * MS for rank, at in enumerate(came)]
        left = max(done) + 10 * MS
        for rank, b in enumerate(builders):
            b.op(came[rank] + 10, done[rank], launch=came[rank], name="gemm")
            b.op(done[rank], left, launch=came[rank] + 5, name=REDUCE, stream=9)
            if mark:
                since = began[rank] if mark == MARKS[0] else left + 1
                b.host_op(since, left + 5 * MS, mark.format(i), kind=HostKind.ANNOTATION)
        came = [left + 5 * MS] * len(came)
    traces = [b.trace(start=begins[rank], rank=rank, world_size=len(builders)) for rank, b in enumerate(builders)]
    return ranks_of([of_one_host(trace) for trace in traces])


def of_one_host(trace: Trace) -> Trace:
    return replace(trace, meta=replace(trace.meta, boot="one", monotonic_base_ns=0))


def told(job: Ranks) -> dict[str, RankFinding]:
    return {finding.rule: finding for finding in findings_of(job)}


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("mark", MARKS)
def test_a_start_up_of_half_a_second_hides_no_straggler_of_80_ms(mark: str, apart: bool) -> None:
    found = told(job([500, 0, 0, 0], {(1, 4): 80}, mark=mark, apart=apart))
    assert (found["straggler"].ranks, found["straggler"].cost_ns) == ((1,), 80 * 1000 * US)
    assert plain(found["ranks_start_up"].sentence).startswith("start-up: ranks began up to 500 ms apart, rank 0 last. ")
    assert found["ranks_start_up"].cost_ns is None


def test_equal_ranks_that_begin_together_have_no_start_up() -> None:
    assert not {"straggler", "ranks_start_up"} & told(job([0, 0, 0, 0], {})).keys()
    assert told(job([0, 0, 0, 500], {})).keys() & {"straggler", "late_too", "ranks_start_up"} == {"ranks_start_up"}


def test_step_0_that_compiles_is_start_up_and_one_that_does_not_is_judged() -> None:
    compiles = {(rank, 0): 900 + 30 * rank for rank in range(4)}
    found = job([0, 0, 0, 0], {**compiles, (2, 5): 80})
    assert {summary.start.step for summary in found.summaries.values()} == {1}
    assert told(found)["straggler"].ranks == (2,)
    assert {summary.start.step for summary in job([0, 0], {}).summaries.values()} == {0}


def test_what_is_launched_before_a_step_is_none_of_its_ops() -> None:
    """The device is still inside the collective of step 0 while Python has begun with step 1."""
    b = Builder()
    for i, (at, long) in enumerate([(0, 900), (100, 100), (200, 100), (300, 100)]):
        b.host_op(at, at + 99, f"ProfilerStep#{i}", kind=HostKind.ANNOTATION)
        start = 10 if i == 0 else 910 + 110 * i
        b.op(start, start + long, launch=at + 5, name=REDUCE)
    summary = rank_summary(b.trace(rank=0, world_size=2))
    assert summary.comm["step"].tolist() == [0, 1, 2, 3]
    assert (summary.start.began_ns, summary.start.since_ns, summary.start.step) == (0, 0, 0)  # each mark is as long
    later = rank_summary(replace(b.trace(rank=0, world_size=2), meta=replace(b.trace().meta, start_ns=60 * US)))
    assert (later.start.began_ns, later.start.since_ns, later.start.step) == (100 * US, 910 * US, 1)
    assert later.here(summary.comm["row"]).tolist() == [1, 2, 3]
    assert later.totals.communication_ns == 300 * US


def test_ranks_that_meet_in_pairs_first_are_judged_by_their_own_work() -> None:
    """Rank 0 begins 500 ms late and meets rank 1, which then meets rank 3: rank 1 is late for rank 0 alone."""
    starts, pairs = [500 * MS, 0, 0, 0], ((0, 1), (2, 3), (0, 2), (1, 3))
    builders = [Builder() for _ in starts]
    for i in range(4):
        for stream, pair in enumerate(pairs, 9):
            met = max(starts[rank] + 20 * MS for rank in pair)
            for rank in pair:
                b, at = builders[rank], starts[rank]
                if stream < 11:
                    b.host_op(at, at + 30 * MS, f"ProfilerStep#{i + 3}", kind=HostKind.ANNOTATION)
                b.op(at, at + 20 * MS, launch=at, name="gemm")
                b.op(at + 20 * MS, met + MS, launch=at, name=REDUCE, stream=stream)
                starts[rank] = met + MS
    groups = tuple(Collective("allreduce", group_size=2, group=f"g{pair}", ranks=pair) for pair in pairs)
    traces = [of_one_host(b.trace(rank=i, world_size=4)) for i, b in enumerate(builders)]
    number = (np.where(trace.ops.stream > 7, trace.ops.stream - 9, NONE) for trace in traces)
    named = [
        replace(t, collectives=groups, ops=replace(t.ops, collective=n)) for t, n in zip(traces, number, strict=True)
    ]
    found = told(ranks_of(named))
    assert found.keys() & {"straggler", "late_too", "ranks_in_turn", "ranks_start_up"} == {"ranks_start_up"}


def test_a_cell_begins_on_all_ranks_together_and_has_no_start_up() -> None:
    found = told(cells(job([500, 0, 0, 0], {}, mark="")))
    assert "ranks_start_up" not in found
    assert (found["straggler"].ranks, found["straggler"].cost_ns) == ((0,), 500 * 1000 * US)


def cells(job: Ranks) -> Ranks:
    return ranks_of([replace(trace, cell=Cell("step()")) for trace in job.traces.values()])
