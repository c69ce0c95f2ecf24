"""A run without a remedy has one answer all the same: what limits it, or what its record lacks."""

from __future__ import annotations

import pytest

from perfmagic.analysis.findings import answers
from perfmagic.analysis.findings.answer import Answer
from perfmagic.analysis.findings.answers import find_answers
from perfmagic.analysis.findings.catalogue import ACTION_CHARS, ACTIONS, HEADLINE_CHARS, HEADLINES
from perfmagic.analysis.verdict import KINDS, NO_RECORDS
from perfmagic.trace.model import DeviceInfo, Trace
from tests.analysis.build import Builder
from tests.analysis.findings.build import plain
from tests.trace.recorded import real_trace


def only(trace: Trace) -> Answer:
    (answer,) = find_answers(trace).answers
    return answer


def said(trace: Trace) -> tuple[str, str]:
    answer = only(trace)
    assert len(answer.headline) <= HEADLINE_CHARS
    assert len(answer.action) <= ACTION_CHARS
    return plain(answer.headline), plain(answer.action)


def busy(*, simulated: bool) -> Trace:
    """A device that is busy with two kernels, which the host queued far ahead."""
    b = Builder()
    launched = [b.launch(10 * i, 10 * i + 5) for i in range(2)]
    b.op(100, 800, of=launched[0], name="long_kernel")
    b.op(800, 1000, of=launched[1], name="short_kernel")
    device = DeviceInfo(0, "sim" if simulated else "cuda", "Test device")
    return b.trace(end=1000, returned=30, devices=[device])


def test_every_kind_of_verdict_has_words() -> None:
    known = {*answers._BY_KIND, "device-bound", "open", NO_RECORDS}
    assert known == {*KINDS}
    for _, fact, remedy in answers._BY_KIND.values():
        assert fact in HEADLINES
        assert remedy in ACTIONS


def test_of_a_busy_device_it_names_the_operator_with_most_of_its_time() -> None:
    headline, action = said(busy(simulated=False))
    assert headline == "long_kernel takes 78 % of the device's time"
    assert action == "Do less work here: fewer or smaller inputs, or lower precision"


def test_of_a_busy_simulated_device_it_says_that_python_may_stay() -> None:
    headline, action = said(busy(simulated=True))
    assert headline == "The device had work nearly all the time"
    assert action.startswith("Leave Python alone")


def two_devices(*, waits: bool, at_once: bool = False) -> Trace:
    """One device after the other: because Python waits for the first one, or for what it computes."""
    b = Builder()
    b.op(10, 500, of=b.launch(0, 5), device=0)
    first_ns = 20 if at_once else 500
    if waits:
        b.sync(10, 500)
    b.op(first_ns + 20, first_ns + 510, of=b.launch(first_ns if waits else 5, first_ns + 5 if waits else 8), device=1)
    devices = [DeviceInfo(n, "sim", "Test device") for n in range(2)]
    return b.trace(end=first_ns + 510, returned=first_ns + 10 if waits else 30, devices=devices)


def test_of_devices_that_take_turns_it_says_so() -> None:
    headline, action = said(two_devices(waits=False))
    assert headline == "The devices take turns: 1.0 of 2 work at once, on average"
    assert action.startswith("Give each device work")
    assert said(two_devices(waits=False, at_once=True))[1].startswith("Leave Python alone")


def test_a_wait_that_costs_a_device_s_time_is_the_answer() -> None:
    answer = only(two_devices(waits=True))
    assert plain(answer.action) == "Queue the next work before Python waits for results"
    assert answer.gain_ns is not None
    assert answer.gain_ns > 300_000


@pytest.mark.parametrize("more", [False, True])
def test_only_a_wait_before_more_work_asks_to_queue_that_first(more: bool) -> None:
    b = Builder()
    b.op(10, 500, of=b.launch(0, 5))
    b.sync(10, 560)
    if more:
        b.op(575, 1000, of=b.launch(570, 575))
    trace = b.trace(end=1000 if more else 560, returned=576 if more else 560)
    assert (said(trace)[1] == "Queue the next work before Python waits for results") is more


def copies(*, own_stream: bool, copy_ns: int = 100) -> Trace:
    """Five products, each with a copy of its result, which waits for it."""
    b, free_ns, copied_ns = Builder(), 5, 0
    for i in range(5):
        free_ns = (free_ns if own_stream else max(free_ns, copied_ns)) + 100
        product = b.launch(3 * i, 3 * i + 1)
        b.op(free_ns - 100, free_ns, of=product)
        copied_ns = max(free_ns, copied_ns) + copy_ns
        name = "Memcpy DtoH (Device -> Pinned)"
        if own_stream:
            b.wait(3 * i + 1, 9, 7, product)
        launched = b.launch(3 * i + 2, 3 * i + 3)
        b.op(copied_ns - copy_ns, copied_ns, of=launched, name=name, stream=9 if own_stream else 7)
    return b.trace(end=copied_ns, returned=20, devices=[DeviceInfo(0, "sim", "Test device")])


def test_what_is_left_of_copies_on_a_stream_of_their_own_asks_for_no_stream() -> None:
    assert said(copies(own_stream=False))[1].startswith("Copy results on another stream")
    headline, action = said(copies(own_stream=True))
    assert headline == "Copies overlap compute already, but take as long or longer"
    assert action.startswith("Move fewer bytes")
    assert not said(copies(own_stream=True, copy_ns=20))[1].startswith("Copy")


def test_communication_that_decides_is_the_answer_and_no_fact_beside_it() -> None:
    answer = only(real_trace("mi300_resnet_2streams"))
    assert answer.rules == ("exposed_communication",)
    assert answer.action
    assert answer.headline not in find_answers(real_trace("mi300_resnet_2streams")).also_seen


def test_it_says_how_long_a_device_was_idle_behind_a_queue() -> None:
    answers = find_answers(real_trace("mi300_sglang_hipgraph"))
    (answer,) = answers.answers
    assert plain(answer.headline) == "Ops were queued, yet the device ran none for 463 ms"
    assert [text for text in answers.also_seen if "stood idle" in text] == []


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("cpu_only_no_device_props", "Record the device, too"),
        ("a100_triton", "Record a whole step"),
        ("sampled_rank0of128", "Record again"),
    ],
)
def test_of_a_record_that_lacks_something_it_says_what_to_record(name: str, action: str) -> None:
    assert only(real_trace(name)).action.startswith(action)


def test_of_a_cell_without_device_work_it_names_a_device() -> None:
    b = Builder()
    b.host_op(0, 10, name="aten::mm")
    answers = find_answers(b.trace(end=20, returned=20))
    assert answers.decides == "No device was used"
    assert answers.answers[0].action.startswith("Create the tensors on a device")
