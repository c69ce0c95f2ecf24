"""testing.peak_below and testing.no_growth, on the simulated device."""

import gc
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="a device allocates")

import perfmagic  # noqa: E402 - after the skip
from perfmagic import testing  # noqa: E402
from perfmagic.base import units  # noqa: E402
from perfmagic.base.errors import CaptureError, OptionError  # noqa: E402

pytestmark = pytest.mark.slow

SIZE = 12 * 2**20  # a segment of its own, so that nothing is rounded up


@pytest.fixture
def device() -> Any:
    found = perfmagic.device("sim")
    gc.collect()
    torch.sim.empty_cache()
    return found


def _allocated_bytes() -> int:
    """On all devices, as what is tested counts: other tests may have left something on any of them."""
    return sum(torch.sim.memory_allocated(index) for index in range(torch.sim.device_count()))


def _block(device: Any, n: int = SIZE) -> Any:
    return torch.empty(n, dtype=torch.uint8, device=device)


def test_a_peak_below_the_limit_is_returned(device: Any) -> None:
    before = _allocated_bytes()

    def step() -> None:
        a = _block(device)
        b = _block(device)
        del a, b
        _block(device, 512)

    _block(device, 8 * SIZE)  # a peak before the call is none of it
    assert testing.peak_below(step, before + 2 * SIZE) == before + 2 * SIZE


def test_a_peak_above_the_limit_fails_with_its_numbers(device: Any) -> None:
    held = _block(device)
    before = _allocated_bytes()

    def step() -> None:
        _block(device)

    with pytest.raises(AssertionError) as failed:
        testing.peak_below(step, before + 1_000_000)
    peak, limit = units.size(before + SIZE), units.size(before + 1_000_000)
    assert str(failed.value) == (
        f"step() allocated {peak} at its peak, of which {units.size(before)} were allocated before it; "
        f"the limit is {limit}, {units.size(SIZE - 1_000_000)} less"
    )
    del held


def test_what_is_kept_each_time_is_growth(device: Any) -> None:
    kept: list[Any] = []
    with pytest.raises(AssertionError, match=r"the body leaves 1\.00.MB more allocated with each call") as failed:
        testing.no_growth(lambda: kept.append(_block(device, 1_000_448)), rounds=3)
    assert len(kept) == 4
    assert "after 3 more" in str(failed.value)


def test_what_the_first_calls_make_and_what_is_replaced_is_no_growth(device: Any) -> None:
    kept: dict[int, Any] = {}
    calls: list[int] = []

    def step() -> None:
        calls.append(1)
        kept[min(len(calls), 3)] = _block(device)

    before = _allocated_bytes()
    assert testing.no_growth(step) == before + 3 * SIZE
    assert len(calls) == 6


def test_what_only_a_cycle_holds_is_no_growth(device: Any) -> None:
    def step() -> None:
        ring: list[Any] = [_block(device)]
        ring.append(ring)

    testing.no_growth(step)


def test_the_error_of_a_body_is_its_own(device: Any) -> None:
    def step() -> None:
        _block(device)
        raise KeyError("own")

    for check in (testing.no_growth, lambda body: testing.peak_below(body, 1)):
        with pytest.raises(KeyError, match="own"):
            check(step)


def test_bad_limits_and_rounds_are_refused(device: Any) -> None:
    for limit in ("1.2", "much", -5):
        with pytest.raises(OptionError, match="is not a number of bytes"):
            testing.peak_below(lambda: None, limit)
    with pytest.raises(OptionError, match="2 rounds or more"):
        testing.no_growth(lambda: None, rounds=1)


def test_without_a_device_that_reports_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "active_backends", lambda: ())
    for check in (testing.no_growth, lambda body: testing.peak_below(body, 1)):
        with pytest.raises(CaptureError, match=r"no device is in use that reports allocated memory\nHint: run"):
            check(lambda: None)
