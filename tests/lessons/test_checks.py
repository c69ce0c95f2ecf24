"""Graders judge a recorded timeline, and say in one sentence what is wrong with an answer."""

import weakref
from collections.abc import Callable
from typing import Any

import pytest

import perfmagic
from perfmagic import lessons, sim
from perfmagic.base.clock import virtual_clock
from perfmagic.lessons import NotYet, check, close, record

torch = pytest.importorskip("torch", reason="torch is not installed")

PACE = "matmul=4ms, copy=500MB/s"


@pytest.fixture
def devices() -> Any:
    return perfmagic.devices(2, "sim", clock="real", pace="matmul=1us")


def answer(devices: Any, *, waits: bool = True, item: bool = False) -> Callable[[], Any]:
    """Two products, the first's result copied on a stream of its own between them."""
    module = torch.get_device_module(devices[0])
    x, side = torch.ones(200, 200, device=devices[0]), module.Stream(devices[0])

    def run() -> Any:
        y = x.mm(x)
        if waits:
            side.wait_stream(module.current_stream(devices[0]))
        with module.stream(side):
            copied = y.to("cpu", non_blocking=True)
        z = x.mm(x)
        return z[0, 0].item() if item else (copied, z)

    return run


def refused(grader: Callable[..., object], *given: Any) -> str:
    """The reason of a refusal."""
    with pytest.raises(NotYet) as problem:
        grader(*given)
    return str(problem.value).replace("\xa0", " ")


def test_a_record_has_its_pace_on_the_virtual_clock_and_leaves_both_as_they_were(devices: Any) -> None:
    pace = sim.current_pace()
    value, t = record(lambda x: x.mm(x).sum().item(), torch.ones(2, 2, device=devices[0]), pace=PACE)
    assert value == 8.0
    assert t.trace.ops.end_ns[0] - t.trace.ops.start_ns[0] == 4_000_000
    assert sim.current_pace() == pace
    assert virtual_clock() is None
    assert perfmagic.last() is t
    with pytest.raises(ZeroDivisionError):
        record(lambda: 1 // 0, pace=PACE)
    assert virtual_clock() is None


def test_what_a_right_answer_did_passes_every_grader(devices: Any) -> None:
    _, t = record(answer(devices), pace=PACE)
    for grader in (lessons.race_free, lessons.waits, lessons.python_waits, lessons.overlap):
        grader(t)
    lessons.same_work(t, t)


def test_a_missing_wait_is_a_race(devices: Any) -> None:
    _, t = record(answer(devices, waits=False), pace=PACE)
    said = "a wait is missing: Memcpy DtoH (Device -> Pinned) uses on stream 1 what mm writes on stream 0"
    assert refused(lessons.race_free, t).startswith(said[:60])
    assert refused(lessons.waits, t) == "streams wait for each other 0 times, not 1"


def test_python_that_waits_is_counted(devices: Any) -> None:
    _, t = record(answer(devices, item=True), pace=PACE)
    assert refused(lessons.python_waits, t) == "Python waits for a device 1 time"
    lessons.python_waits(t, 1)


def test_one_wait_for_all_devices_is_one(devices: Any) -> None:
    def wait_twice() -> None:
        for device in devices:
            torch.ones(2, device=device)
        perfmagic.synchronize()
        perfmagic.synchronize()

    assert len(devices) > 1
    assert refused(lessons.python_waits, record(wait_twice, pace=PACE)[1]) == "Python waits for a device 2 times"


def test_copies_that_take_turns_with_products_do_not_overlap(devices: Any) -> None:
    x = torch.ones(200, 200, device=devices[0])
    _, t = record(lambda: x.mm(x).to("cpu", non_blocking=True), pace=PACE)
    assert refused(lessons.overlap, t) == "0 % of the copies run beside computation, not 25 %"
    _, t = record(lambda: x.mm(x), pace=PACE)
    assert refused(lessons.overlap, t) == "nothing is copied"


def test_devices_at_work_are_counted_on_average(devices: Any) -> None:
    xs = [torch.ones(2, 2, device=device) for device in devices]
    _, t = record(lambda: [x.mm(x) for x in xs], pace=PACE)
    lessons.at_work(t, 1.9)
    _, t = record(lambda: [x.mm(x).sum().item() for x in xs], pace=PACE)
    assert refused(lessons.at_work, t) == "the devices take turns: on average 1.0 work"
    assert refused(lessons.at_work, record(int)[1]) == "no device did anything"


def test_other_work_is_named_with_its_number(devices: Any) -> None:
    x = torch.ones(2, 2, device=devices[0])
    one, three = (record(lambda n=n: [x.mm(x) + 1 for _ in range(n)], pace=PACE)[1] for n in (1, 3))
    assert refused(lessons.same_work, one, three) == "add runs 1 time, not 3"
    assert refused(lessons.same_work, one, three, "mm") == "mm runs 1 time, not 3"
    lessons.same_work(one, three, "relu")


@pytest.mark.parametrize(
    ("found", "wanted", "words"),
    [
        (1, 2, "the answer is 1: too low"),
        (2.1, 2, "the answer is 2.10: too high"),
        (float("nan"), 2, "the answer is nan: too low"),
        (None, 2, "the answer is no number"),
        ([1, 2, 5], [1, 2, 4], "number 3 of the answer is 5: too high"),
        ([1], [1, 2], "the answer has 1 of 2 numbers"),
        (3, [1, 2], "the answer is no list of numbers"),
    ],
)
def test_a_number_that_is_off_is_too_high_or_too_low(found: object, wanted: Any, words: str) -> None:
    assert refused(close, found, wanted) == words


def test_a_number_within_its_share_is_right() -> None:
    close(2.01, 2, share=0.01)
    close((1, 2.0), [1, 2])


def test_a_check_says_right_or_raises_the_reason_in_one_line() -> None:
    assert repr(check(lambda n: lessons.require(n == 4, "no"), 4)) == "right"
    with pytest.raises(NotYet) as problem:
        check(lambda n: lessons.require(n == 4, "this is not four"), 5)
    assert problem.value._render_traceback_() == ["not yet: this is not four"]


def test_what_other_checks_assert_is_a_reason_and_an_exception_of_the_answer_passes() -> None:
    def grader(body: Callable[[], object]) -> None:
        body()
        raise AssertionError("it allocates 3 MB")

    assert refused(check, grader, int) == "it allocates 3 MB"
    with pytest.raises(ZeroDivisionError):
        check(grader, lambda: 1 // 0)


def test_an_answer_without_return_gets_a_reason_and_its_own_error_passes() -> None:
    def grader(answer: Callable[[], Any]) -> None:
        lessons.require(answer() + 1 == 4, "this is not three")

    assert refused(check, grader, lambda: None) == "a value is missing: does a function return nothing?"
    with pytest.raises(TypeError, match="NoneType"):
        check(grader, lambda: len(None))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="str"):
        check(grader, lambda: "3")


def test_a_refusal_keeps_nothing_alive_that_its_grader_made() -> None:
    made: list[weakref.ref[object]] = []

    def grader() -> None:
        tensor = torch.ones(3)
        made.append(weakref.ref(tensor))
        lessons.require(False, "not this")

    with pytest.raises(NotYet) as problem:
        check(grader)
    assert str(problem.value) == "not this"
    assert made[0]() is None


def test_an_op_is_behind_what_its_stream_or_a_chain_of_waits_holds_it_for(devices: Any) -> None:
    module, x = torch.get_device_module(devices[0]), torch.ones(2, 2, device=devices[0])
    side, last = (module.Stream(devices[0]) for _ in range(2))

    def chain() -> None:
        main = module.current_stream(devices[0])
        x.mm(x)
        side.wait_stream(main)
        x.mm(x)
        last.wait_stream(side)
        with module.stream(last):
            x.mm(x)
        last.wait_stream(main)

    _, t = record(chain, pace=PACE)
    assert [lessons.behind(t, 2, row) for row in (0, 1)] == [True, False]
    assert [lessons.behind(t, 1, row) for row in (0, 2)] == [True, False]
