"""Files of different jobs never share a table of ranks."""

from dataclasses import replace

import pytest

from perfmagic.analysis.ranks.findings import rank_findings
from perfmagic.analysis.ranks.jobs import difference, jobs
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Collective, DeviceInfo, Trace
from tests.analysis.build import Builder
from tests.trace.recorded import eight_ranks, real_trace

NOON = 1_700_000_000_000_000_000


def traced(
    rank: int | None, world_size: int | None = 8, device: str = "NVIDIA A100", at: int = NOON, group: str = ""
) -> Trace:
    b = Builder()
    b.op(10, 20, launch=0)
    trace = b.trace(devices=(DeviceInfo(0, "cuda", device),))
    meta = replace(trace.meta, rank=rank, world_size=world_size, base_unix_ns=at, origin=f"rank{rank}.json")
    known = (Collective("allreduce", 1, 1, "Float", world_size, group, ()),) if group else ()
    return replace(trace, meta=meta, collectives=known)


def test_ranks_of_one_job_belong_together_whatever_their_order() -> None:
    (job,) = jobs([traced(3), traced(0), traced(7)])
    assert job.members == (1, 0, 2)
    assert job.apart == ""


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (traced(1, 2, "Tesla V100"), "8 ranks, not 2 ranks"),
        (traced(1, 8, "Tesla V100"), "NVIDIA A100, not Tesla V100"),
        (traced(0), "rank 0 twice"),
        (traced(None), "no rank in the file"),
        (traced(1, at=NOON + 3_600_000_000_000), "recorded 3600 s apart"),
        (traced(1, group="b"), "other process groups"),
    ],
    ids=["world size", "device", "rank twice", "no rank", "another time", "other groups"],
)
def test_what_differs_between_jobs_is_said(other: Trace, why: str) -> None:
    first = traced(0, group="a")
    assert difference(first, other).replace("\u00a0", " ") == why
    assert [job.members for job in jobs([first, other])] == [(0,), (1,)]


def test_what_the_files_do_not_say_separates_nothing() -> None:
    assert difference(traced(0), traced(1, device="device 1")) == ""
    assert difference(traced(0, at=0), traced(1)) == ""
    assert difference(traced(0, group="x"), traced(1, device="Tesla V100", group="x")) == ""  # they name a common group


def test_two_cycles_of_each_rank_are_two_jobs() -> None:
    assert [job.members for job in jobs([traced(0), traced(0), traced(1), traced(1)])] == [(0, 2), (1, 3)]


def test_mixed_files_are_reported_first_and_never_compared() -> None:
    (mixed,) = rank_findings([traced(3), traced(1, 2, "Tesla V100")])
    assert mixed.rule == "mixed_jobs"
    assert mixed.sentence == (
        "these files are of 2 jobs, which are not compared: rank 1 of 2 on Tesla V100 (rank1.json); "
        "rank 3 of 8 on NVIDIA A100 (rank3.json): 2 ranks, not 8 ranks. Open the ranks of one job together"
    )


def test_recorded_files_of_different_jobs_are_distinguished() -> None:
    traces = [real_trace(name) for name in ("a100_nccl_rank0of2", "v100_4streams_nccl_graphs")]
    assert [job.members for job in jobs(traces)] == [(0,), (1,)]
    eight = [read_trace(path) for path in sorted(eight_ranks().glob("*.gz"))]
    assert [len(job.members) for job in jobs([*eight, *traces])] == [8, 1, 1]
