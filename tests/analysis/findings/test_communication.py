"""Communication that the rule for names may miss is said, with the option that decides."""

from dataclasses import replace

import pytest

from perfmagic.analysis.findings.answers import find_answers
from perfmagic.analysis.findings.catalogue import action
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
        "possible communication: 10 kernels on stream 20 (1.00 ms: exchange_tokens) run on no other stream and count "
        'as compute. The job has 8 ranks. If these kernels communicate, pass comm_names="exchange_tokens"'
    )
    assert found.cost_ns is None
    (known,) = said(job(), comm_names="exchange_tokens")
    assert known.sentence.replace("\u00a0", " ") == "communication: all 1.00 ms overlapped with compute"


def test_a_job_of_several_ranks_without_communication_says_so() -> None:
    (found,) = said(job(side=""))
    assert found.sentence.startswith("no communication: the job has 8 ranks. No kernel counts as communication")
    (found,) = said(job(side="", world_size=None, asked="c10d::allreduce_"))
    assert found.sentence.startswith("no communication: the host calls torch.distributed")


def test_communication_that_compute_hides_says_how_long_it_took_and_exposed_one_is_one_finding() -> None:
    (found,) = said(job(side="ncclAllReduce"))
    assert (found.cause, found.cost_ns) == ("communication", None)
    b = Builder()
    b.op(10, 210, launch=0, name="gemm")
    b.op(210, 310, launch=5, name="ncclAllReduce", stream=20)
    assert said(b.trace()) == []
    assert "exposed_communication" in {one.rule for one in findings(b.trace())}


def many(n: int, length: float) -> list[Finding]:
    """What is exposed of n all-reduces after a product."""
    b = Builder()
    b.op(10, 210, launch=0, name="gemm")
    for i in range(n):
        b.op(210 + length * i, 210 + length * (i + 1), launch=5, name="ncclAllReduce")
    return [one for one in findings(b.trace()) if one.rule == "exposed_communication"]


def test_many_short_collectives_are_counted_and_larger_ones_advised() -> None:
    (short,) = many(100, 20)
    assert "There are 100, with a median duration of 20.0 µs" in short.sentence.replace("\u00a0", " ")
    assert "pack tensors into one buffer" in short.advice
    assert not any(one.advice for one in (*many(99, 20), *many(100, 30)))


def test_an_expression_that_matches_nothing_is_named_in_a_cell() -> None:
    (found,) = said(job(side=""), comm_names="foo")
    assert found.sentence == "no kernel matches comm_names='foo'. Correct the expression, or leave it out"


@pytest.mark.parametrize(
    "trace",
    [
        job(world_size=1),  # nobody to talk to
        job(side="", world_size=None),
        job(side="ncclAllReduce", length=10),  # little of it
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


def test_many_collectives_that_python_launches_late_are_one_answer_with_its_gain() -> None:
    b = Builder()
    for i in range(120):
        b.op(100 * i + 10, 100 * i + 50, launch=100 * i, name="ncclAllReduce")
    b.op(12_100, 12_200, launch=12_000, name="gemm")
    (answer, *_) = (a for a in find_answers(b.trace()).answers if "exposed_communication" in a.rules)
    assert answer.headline == "120 collectives are launched one by one"
    assert answer.action == action("one_buffer")
    # of 100 µs from one launch to the next the op takes 40, and begins while an earlier one runs
    assert answer.gain_ns == pytest.approx(119 * 60_000, rel=0.01)
    assert answer.at_most


def test_collectives_between_kernels_are_not_asked_to_share_a_buffer() -> None:
    b = Builder()
    for i in range(120):
        b.op(100 * i + 10, 100 * i + 50, launch=100 * i, name="ncclAllReduce")
        b.op(100 * i + 50, 100 * i + 60, launch=100 * i + 20, name="gemm")
    assert action("one_buffer") not in {answer.action for answer in find_answers(b.trace()).answers}
