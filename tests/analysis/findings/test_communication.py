"""Communication that the rule for names may miss is said, with the option that decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.findings.finding import Finding
from perfmagic.trace.model import DeviceInfo, Trace
from tests.analysis.build import Builder


def job(
    *, side: str = "my_lib::exchange_tokens", length: int = 100, world_size: int | None = 8, asked: str = ""
) -> Trace:
    """Ten products of 200 µs on one stream, beside each of them an op on another."""
    b = Builder()
    for i in range(10):
        b.op(300 * i + 10, 300 * i + 210, launch=300 * i, name="gemm")
        if side:
            b.op(300 * i + 20, 300 * i + 20 + length, launch=300 * i + 5, name=f"void {side}<8>(int*)", stream=20)
    if asked:
        b.host_op(0, 5, asked)
    trace = b.trace()
    devices = (DeviceInfo(0, "cuda", "NVIDIA H100"),)
    return replace(trace, meta=replace(trace.meta, world_size=world_size, devices=devices))


def said(trace: Trace, comm_names: str | None = None) -> list[Finding]:
    return [found for found in findings(trace, comm_names) if found.rule == "communication"]


def test_long_kernels_alone_on_a_stream_are_named_with_the_option_to_set() -> None:
    (found,) = said(job())
    assert found.sentence.replace("\u00a0", " ") == (
        "is this communication? 10 kernels on stream 20 (1.00 ms: exchange_tokens) run on no other stream and count as "
        'compute. The job has 8 ranks. If it is, say so: comm_names="exchange_tokens"'
    )
    assert found.cost_ns is None
    assert said(job(), comm_names="exchange_tokens") == []


def test_a_job_of_several_ranks_without_communication_says_so() -> None:
    (found,) = said(job(side=""))
    assert found.sentence.startswith("no communication: the job has 8 ranks. No kernel counts as communication")
    (found,) = said(job(side="", world_size=None, asked="c10d::allreduce_"))
    assert found.sentence.startswith("no communication: the host calls torch.distributed")


def test_an_expression_that_matches_nothing_is_named_in_a_cell() -> None:
    (found,) = said(job(side=""), comm_names="foo")
    assert found.sentence == "no kernel matches comm_names='foo'. Correct the expression, or leave it out"


@pytest.mark.parametrize(
    "trace",
    [
        job(world_size=1),  # nobody to talk to
        job(side="", world_size=None),
        job(side="ncclAllReduce"),
        job(length=20, world_size=None),  # as short as an elementwise kernel
        job(side="flash_fwd_kernel", world_size=None),  # attention on a stream of its own
    ],
    ids=["one rank", "not distributed", "communication is known", "short kernels", "a matrix kernel"],
)
def test_nothing_is_said_without_reason(trace: Trace) -> None:
    assert said(trace) == []


def test_a_stream_that_shares_its_kernels_with_another_one_is_no_library() -> None:
    b = Builder()
    for i in range(10):
        b.op(300 * i, 300 * i + 200, launch=300 * i, name="fill")
        b.op(300 * i, 300 * i + 100, launch=300 * i + 5, name="fill", stream=20)
    trace = b.trace()
    devices = (DeviceInfo(0, "cuda", "NVIDIA H100"),)
    assert said(replace(trace, meta=replace(trace.meta, devices=devices))) == []
