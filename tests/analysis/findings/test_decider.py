"""A run without a remedy has one answer all the same: what limits it, or what its record lacks."""

from __future__ import annotations

import pytest

from perfmagic.analysis.findings import decider
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
    known = {*decider._BY_KIND, "device-bound", "open", NO_RECORDS}
    assert known == {*KINDS}
    for _, fact, remedy in decider._BY_KIND.values():
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


def test_communication_that_decides_is_the_answer_and_no_fact_beside_it() -> None:
    answer = only(real_trace("mi300_resnet_2streams"))
    assert answer.rules == ("exposed_communication",)
    assert answer.action
    assert answer.headline not in find_answers(real_trace("mi300_resnet_2streams")).also_seen


def test_of_a_device_that_stood_still_behind_a_queue_it_says_for_how_long() -> None:
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
