"""The simulated device for the tests of this folder: loaded once, left idle, unpaced and unrecorded after each test."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

from perfmagic import sim  # noqa: E402 - after the skip
from perfmagic.base.clock import virtual_clock  # noqa: E402
from perfmagic.base.errors import DeviceError  # noqa: E402
from perfmagic.sim.values import VALUES  # noqa: E402
from tests.sim_gate import gates  # noqa: E402


@pytest.fixture
def hold() -> Iterator[Callable[[], Callable[[], None]]]:
    """hold() keeps the current stream busy until what it returned is called, or the test is over."""
    with gates() as hold_current_stream:
        yield hold_current_stream


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    sim.load(memory_bytes=0, clock="real")
    sim.set_pace(None)
    VALUES.active = False  # what other tests left without values is gone
    torch.set_num_threads(1)
    yield
    sim.set_pace(None)
    while sim.log().recording:
        sim.log().stop()
    with suppress(DeviceError):  # a failure the test provoked and did not collect
        sim.synchronize()
    if virtual_clock() is not None:
        sim.load(clock="real", memory_bytes=0)
        torch.sim.empty_cache()
