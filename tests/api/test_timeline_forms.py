"""perfmagic.timeline as a block, as start() and stop(), and as a decorator; what is none of these is refused."""

import asyncio
from collections.abc import Iterator

import pytest

import perfmagic
from perfmagic.base.errors import CaptureError, OptionError

torch = pytest.importorskip("torch", reason="there are no operators without torch")


def operators(result: object) -> int:
    assert isinstance(result, perfmagic.TimelineResult)
    return sum(row.n_calls for row in result.operators() if row.name == "aten::mul")


def test_start_and_stop_record_what_is_between() -> None:
    t = perfmagic.timeline(device="cpu").start()
    torch.ones(2) * 2
    result = t.stop()
    torch.ones(2) * 3
    assert result is t.result is perfmagic.last()
    assert operators(result) == 1
    with perfmagic.timeline(device="cpu") as after:  # all was given back
        pass
    assert operators(after.result) == 0


def test_start_works_with_steps() -> None:
    t = perfmagic.timeline(device="cpu", wait=1, active=1).start()
    for _ in range(3):
        torch.ones(2) * 2
        t.step()
    assert operators(t.stop()) == 1


def test_stop_without_a_step_says_so() -> None:
    with pytest.raises(CaptureError, match="no step was recorded"):
        perfmagic.timeline(wait=1).start().stop()


def test_a_decorated_function_is_recorded_at_each_call() -> None:
    @perfmagic.timeline(device="cpu")
    def doubled(x: object, *, times: int = 1) -> object:
        """Twice."""
        return x * 2 * times  # type: ignore[operator]

    assert doubled.__doc__ == "Twice."
    for _ in range(2):
        assert doubled(torch.ones(1), times=3) == 6
        assert operators(perfmagic.last()) == 2


def test_a_decorated_coroutine_function_is_awaited_inside() -> None:
    @perfmagic.timeline(device="cpu")
    async def doubled() -> object:
        await asyncio.sleep(0)
        return torch.ones(1) * 2

    assert asyncio.run(doubled()) == 2
    assert operators(perfmagic.last()) == 1


def test_an_exception_of_a_decorated_function_is_passed_on() -> None:
    @perfmagic.timeline(device="cpu")
    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fails()
    last = perfmagic.last()
    assert isinstance(last, perfmagic.TimelineResult)
    assert last.trace.meta.failed == "ValueError: no"


def rows() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize("wrong", [
    lambda: perfmagic.timeline(rows),
    lambda: perfmagic.timeline(3),
    lambda: perfmagic.timeline()(rows),
    lambda: perfmagic.timeline(active=2)(len),
    lambda: perfmagic.timeline()(3),
])  # fmt: skip
def test_an_unrecordable_function_suggests_a_form_that_works(wrong: object) -> None:
    with pytest.raises(OptionError) as refused:
        wrong()  # type: ignore[operator]
    assert "perfmagic.timeline()" in str(refused.value.hint)
