"""One suite for two devices: what is claimed of the simulated device is asked of CUDA in the same words.

Where there is no GPU the CUDA half is left out as in tests/gpu; where torch takes no device written in Python, the
simulated half is skipped by name.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest

from perfmagic.base.clock import virtual_clock
from tests.sim_gate import gates

torch = pytest.importorskip("torch", reason="devices are reached through torch")

HOLD_S = 0.5  # on a GPU nothing can be held until it is released: it sleeps, and the host needs far less than that
_TRIAL_CYCLES = 100_000_000


# which devices are asked: the clock of a simulated one, None for a real one that torch knows by that name
CLOCKS = {"sim": "real", "virtual": "virtual", "cuda": None}
REAL = [pytest.param(name, marks=pytest.mark.gpu) for name, clock in CLOCKS.items() if clock is None]


@pytest.fixture(params=[*(name for name, clock in CLOCKS.items() if clock), *REAL])
def device_module(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """torch.sim on threads or a virtual clock, or torch.cuda; idle, on device and stream 0, before and after."""
    clock = CLOCKS[request.param]
    if clock is not None:
        load_sim(clock)
    module = torch.get_device_module(request.param if clock is None else "sim")
    module.synchronize()
    yield module
    module.set_device(0)
    for index in range(module.device_count()):
        module.set_stream(module.default_stream(index))
        with suppress(RuntimeError):  # what a test provoked and did not collect
            module.synchronize(index)
    module.set_device(0)
    if clock == "virtual":
        load_sim("real")


def load_sim(clock: str) -> None:
    from perfmagic import sim
    from perfmagic.base.errors import DeviceError

    try:
        sim.load(clock=clock)
    except DeviceError as error:
        pytest.skip(str(error))
    sim.set_pace(None)


@pytest.fixture
def kind(device_module: ModuleType) -> str:
    """What torch calls the device: "sim" or "cuda"."""
    return device_module.__name__.rsplit(".", 1)[-1]


@pytest.fixture
def device(kind: str) -> Any:
    return torch.device(kind, 0)


@pytest.fixture
def late(device_module: ModuleType) -> bool:
    """Whether ops run after their launch; on a virtual clock they have run, and only the clock says "not yet"."""
    return virtual_clock() is None


@pytest.fixture
def two_devices(kind: str, device_module: ModuleType) -> tuple[Any, Any]:
    if device_module.device_count() < 2:
        pytest.skip(f"there is one {kind} device here")
    return torch.device(kind, 0), torch.device(kind, 1)


@pytest.fixture(scope="session")
def cycles_per_s() -> Callable[[], float]:
    """How fast the clock behind torch.cuda._sleep is."""
    known: list[float] = []

    def measure() -> float:
        if not known:
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(_TRIAL_CYCLES)
            first.record()
            torch.cuda._sleep(_TRIAL_CYCLES)
            last.record()
            last.synchronize()
            known.append(_TRIAL_CYCLES / (first.elapsed_time(last) / 1e3))
        return known[0]

    return measure


@pytest.fixture
def sleep(kind: str, device_module: ModuleType, cycles_per_s: Callable[[], float]) -> Callable[[float], None]:
    """sleep(seconds) occupies the current stream for so long: torch.cuda counts cycles, torch.sim seconds."""
    if kind == "sim":
        return device_module._sleep
    rate = cycles_per_s()
    return lambda seconds: device_module._sleep(int(seconds * rate))


@pytest.fixture
def hold(kind: str, sleep: Callable[[float], None]) -> Iterator[Callable[[], Callable[[], None]]]:
    """hold() keeps the current stream busy until what it returned is called (threads of sim), or for HOLD_S."""
    if kind == "sim" and virtual_clock() is None:
        with gates() as hold_sim:
            yield hold_sim
        return

    def hold_for_some_time() -> Callable[[], None]:
        sleep(HOLD_S)
        return lambda: None

    yield hold_for_some_time
