"""Pinned or pageable, one stream or one for the copies: each of the four says why it overlaps compute, or does not."""

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

from perfmagic import sim  # noqa: E402
from perfmagic.analysis.findings.facts import Facts  # noqa: E402 - after the skip
from perfmagic.analysis.findings.find import findings  # noqa: E402
from perfmagic.analysis.timeline.overlap import breakdown  # noqa: E402
from perfmagic.trace.model import Trace  # noqa: E402
from tests.gpu.cells import record_cell  # noqa: E402

pytestmark = pytest.mark.slow

# three batches: a copy of 2 MB, then a product of 20 ms; a pinned copy takes 10 ms, a pageable one twice that
SETUP = """
host = [torch.ones(500_000){pin} for _ in range(3)]
a = torch.randn(32, 32, device="sim")
copying = m.{stream}
a @ a
m.synchronize()
"""
CELL = """
for batch in host:
    with m.stream(copying):
        there = batch.to("sim", non_blocking={non_blocking})
    a @ a
"""


@pytest.fixture(autouse=True)
def _paced() -> Iterator[None]:
    sim.load()
    sim.set_pace("matmul=20ms, copy=200MB/s")
    yield
    sim.synchronize()
    sim.set_pace(None)


def recorded(*, pinned: bool, own: bool, non_blocking: bool = True) -> Trace:
    names = {"torch": torch, "m": torch.get_device_module("sim")}
    words = {"pin": ".pin_memory()" if pinned else "", "stream": "Stream()" if own else "current_stream()"}
    exec(SETUP.format(**words), names)
    return record_cell(CELL.format(non_blocking=non_blocking), names, device="sim")


def said(trace: Trace, rule: str) -> str:
    """The sentence of a rule; "" without one."""
    found = [finding.sentence for finding in findings(trace) if finding.rule == rule]
    return " ".join(found).replace("\u00a0", " ")


def beside_ns(trace: Trace) -> int:
    return breakdown(trace, 0).compute_copy.overlap_ns


def test_pageable_on_one_stream_overlaps_nothing_and_would_not_if_pinned() -> None:
    trace = recorded(pinned=False, own=False)
    assert beside_ns(trace) == 0
    sentence = said(trace, "pageable")
    assert "3 pageable HtoD copies blocked Python for" in sentence
    assert "They share stream 0 with kernels, and a stream runs its ops in order" in sentence
    assert "even pinned, they would not overlap there" in sentence
    assert "to overlap with compute, they also need a stream of their own" in sentence
    assert "(twice that of pageable memory on a simulated device)" in sentence


def test_pageable_on_its_own_stream_holds_python_before_the_kernel_that_would_run_beside() -> None:
    trace = recorded(pinned=False, own=True)
    sentence = said(trace, "pageable")
    assert "to themselves" in sentence
    assert "Python, blocked until the copy was staged, launched nothing that could overlap" in sentence
    assert "pin_memory() and non_blocking=True let them overlap with compute" in sentence


def test_pinned_on_one_stream_overlaps_nothing_because_a_stream_has_an_order() -> None:
    trace = recorded(pinned=True, own=False)
    assert beside_ns(trace) == 0
    assert said(trace, "pageable") == ""
    assert "The pinned copies share stream 0 with kernels, and a stream runs its ops in order" in said(
        trace, "exposed_copy"
    )


def overlap_is_reported(trace: Trace) -> bool:
    """Whether the findings say so where copies overlapped with compute; a loaded machine can separate them."""
    pinned = Facts(trace).pinned_copies
    assert pinned.own_stream
    words = "of copies overlapped with compute: they use pinned memory"
    return (words in said(trace, "streams")) == pinned.overlap


def test_pinned_on_its_own_stream_overlaps_and_says_why() -> None:
    trace = recorded(pinned=True, own=True)
    assert said(trace, "pageable") == ""
    assert overlap_is_reported(trace)


def test_a_pinned_copy_that_python_waits_for_runs_beside_the_kernel_before_it() -> None:
    assert overlap_is_reported(recorded(pinned=True, own=True, non_blocking=False))


def test_a_synchronize_behind_all_is_no_reason_why_queued_copies_ran_alone() -> None:
    names = {"torch": torch, "m": torch.get_device_module("sim")}
    exec(SETUP.format(pin=".pin_memory()", stream="Stream()"), names)
    cell = """
a @ a
copying.wait_stream(m.current_stream())
with m.stream(copying):
    there = [batch.to("sim", non_blocking=True) for batch in host]
m.synchronize()
"""
    sentence = said(record_cell(cell, names, device="sim"), "exposed_copy")
    assert "to themselves, but Python had queued no kernel that could overlap them" in sentence
    assert "non_blocking" not in sentence  # it was given


def test_a_copy_and_the_wait_that_ends_it_are_one_finding() -> None:
    trace = recorded(pinned=False, own=False, non_blocking=False)
    assert "3 pageable HtoD copies" in said(trace, "pageable")
    assert "of that in the wait for the stream after each" in said(trace, "pageable")
    assert ".to()" not in said(trace, "sync")
