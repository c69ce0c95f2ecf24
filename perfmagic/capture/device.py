"""The devices whose queues can be measured, behind one small protocol.

A backend is one kind of asynchronous device (all of its devices together): CUDA and ROCm through torch.cuda, the
simulated device, any other accelerator torch can synchronise. The CPU has no queue and therefore no backend.
Nothing here initialises CUDA or loads the simulated device unless the caller asked for exactly that.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Protocol

from perfmagic.errors import DeviceError, OptionError, TorchMissingError
from perfmagic.trace.model import DeviceInfo

SIM_INDEX_BASE = 1000  # where one trace holds CUDA and simulated devices, sim:0 is device 1000: indices stay unique


class Backend(Protocol):
    """One kind of asynchronous device."""

    kind: str

    def in_use(self) -> bool:
        """Whether this process has started using it; asking does not start it."""

    def infos(self) -> tuple[DeviceInfo, ...]:
        """Its devices, for labels."""

    def synchronize(self) -> None:
        """Block until every one of its devices is idle; raises what failed on them asynchronously."""

    def progress(self) -> int | None:
        """A number that grows with everything queued, None where the device does not tell."""

    def has_events(self) -> bool:
        """Whether event() and elapsed_ns() work."""

    def event(self) -> Any:
        """Record a timing event on the calling thread's current stream."""

    def elapsed_ns(self, first: Any, second: Any) -> int:
        """Time between two recorded events that have both been reached."""

    def occupy(self, seconds: float) -> bool:
        """Keep the current stream busy so long, so that work queues up behind; False where that is impossible."""


class CudaBackend:
    """torch.cuda: NVIDIA, and AMD where torch is a ROCm build."""

    kind = "cuda"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._cycles_per_second = 0.0

    def in_use(self) -> bool:
        return bool(self._torch.cuda.is_initialized())

    def infos(self) -> tuple[DeviceInfo, ...]:
        kind = "rocm" if getattr(self._torch.version, "hip", None) else "cuda"
        cuda = self._torch.cuda
        return tuple(DeviceInfo(i, kind, cuda.get_device_name(i)) for i in self._in_use())

    def synchronize(self) -> None:
        for index in self._in_use():
            self._torch.cuda.synchronize(index)

    def _in_use(self) -> tuple[int, ...]:
        """Those with a context: waiting for another GPU would give this process memory on it."""
        from perfmagic.capture.torch_private import cuda_devices_in_use

        return cuda_devices_in_use()

    def progress(self) -> None:
        return None

    def has_events(self) -> bool:
        return True

    def event(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed_ns(self, first: Any, second: Any) -> int:
        return round(float(first.elapsed_time(second)) * 1e6)

    def occupy(self, seconds: float) -> bool:
        from perfmagic.capture.torch_private import cuda_sleep_cycles

        if not self._cycles_per_second:
            self._cycles_per_second = self._calibrate(cuda_sleep_cycles)
        return bool(self._cycles_per_second) and cuda_sleep_cycles(int(seconds * self._cycles_per_second))

    def _calibrate(self, sleep: Any) -> float:
        """Cycles a second of the device's sleep kernel, 0.0 where there is none; the first call warms it up."""
        cycles = 2_000_000
        for _ in range(2):
            first = self.event()
            if not sleep(cycles):
                return 0.0
            last = self.event()
            last.synchronize()
        return cycles / (self.elapsed_ns(first, last) / 1e9)


class SimBackend:
    """The simulated device of perfmagic.capture.sim."""

    kind = "sim"

    def __init__(self) -> None:
        self._sim: Any = importlib.import_module("perfmagic.capture.sim")

    def in_use(self) -> bool:
        return bool(self._sim.loaded())

    def infos(self) -> tuple[DeviceInfo, ...]:
        return (DeviceInfo(0, "sim", "sim", self._sim.pace_words()),)

    def synchronize(self) -> None:
        self._sim.synchronize()

    def progress(self) -> int:
        return int(self._sim.progress())

    def has_events(self) -> bool:
        return True

    def event(self) -> Any:
        event = self._sim.Event(enable_timing=True)
        event.record()
        return event

    def elapsed_ns(self, first: Any, second: Any) -> int:
        return round(float(first.elapsed_time(second)) * 1e6)

    def occupy(self, seconds: float) -> bool:
        self._torch_module()._sleep(seconds)
        return True

    def _torch_module(self) -> Any:
        return sys.modules["torch"].sim  # registered when sim is loaded


class AcceleratorBackend:
    """Any other accelerator of torch (mps, xpu, npu): it can be waited for, and no more."""

    def __init__(self, torch: Any, kind: str) -> None:
        self._torch = torch
        self.kind = kind

    def in_use(self) -> bool:
        return True

    def infos(self) -> tuple[DeviceInfo, ...]:
        return (DeviceInfo(0, self.kind, self.kind),)

    def synchronize(self) -> None:
        self._torch.accelerator.synchronize()

    def progress(self) -> None:
        return None

    def has_events(self) -> bool:
        return False

    def event(self) -> Any:
        raise DeviceError(f"no timing events on {self.kind}", hint="%%bench gives returns and done there")

    def elapsed_ns(self, first: Any, second: Any) -> int:
        raise DeviceError(f"no timing events on {self.kind}", hint="%%bench gives returns and done there")

    def occupy(self, seconds: float) -> bool:
        return False


def torch_if_imported() -> Any | None:
    """torch where the user has imported it already, else None; never imports it."""
    return sys.modules.get("torch")


def require_torch(wanted_for: str) -> Any:
    """Import torch, or raise TorchMissingError naming what it is wanted for."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        if error.name not in (None, "torch"):
            raise  # torch is there and something it needs is not: its own words say more
        raise TorchMissingError(wanted_for) from None


def active_backends() -> tuple[Backend, ...]:
    """The backends this process is using now, those whose work a cell may have to wait for."""
    return tuple(b for b in _possible() if b.in_use())


def sim_loaded() -> bool:
    """Whether the simulated device has been loaded; asking does not load it."""
    sim = sys.modules.get("perfmagic.capture.sim")
    return sim is not None and bool(sim.loaded())


def cuda_available() -> bool:
    """Whether torch has been imported and sees a CUDA or ROCm device; creates no context."""
    torch = torch_if_imported()
    return torch is not None and hasattr(torch, "cuda") and bool(torch.cuda.is_available())


def _possible() -> list[Backend]:
    torch = torch_if_imported()
    if torch is None or not hasattr(torch, "cuda"):  # absent, or its import is still under way
        return []
    found: list[Backend] = []
    if torch.cuda.is_available():
        found.append(CudaBackend(torch))
    elif (kind := _other_accelerator(torch)) is not None:
        found.append(AcceleratorBackend(torch, kind))
    if sim_loaded():
        found.append(SimBackend())
    return found


def _other_accelerator(torch: Any) -> str | None:
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None or sim_loaded():  # loading sim makes it torch's current accelerator
        return None
    current = accelerator.current_accelerator()
    if current is None or current.type in ("cuda", "sim") or not accelerator.is_available():
        return None
    return str(current.type)


def device(kind: str = "auto", *, pace: Any = None) -> Any:
    """The device to run on: torch.device("cuda") where there is one, else the simulated device.

    kind: "auto", "cuda", "sim" or "cpu".  pace: how a simulated device is slowed down (see perfmagic.Pace).
    Raises TorchMissingError without torch, DeviceError for "cuda" where there is none, OptionError for another word.
    """
    torch = require_torch("perfmagic.device()")
    if kind not in ("auto", "cuda", "sim", "cpu"):
        raise OptionError(f"device kind {kind!r} is not known", hint="one of auto, cuda, sim, cpu")
    if kind == "cpu":
        return torch.device("cpu")
    has_cuda = torch.cuda.is_available()
    if kind == "cuda" and not has_cuda:
        raise DeviceError(
            f"cuda was asked for, but torch {torch.__version__} sees no CUDA device here",
            hint='perfmagic.device("sim") gives a simulated device that behaves like one',
        )
    if has_cuda and kind != "sim":
        return torch.device("cuda")
    importlib.import_module("perfmagic.capture.sim").load(pace)
    return torch.device("sim", 0)


def synchronize(device: Any = None) -> None:
    """Wait until the given device (default: every device in use) has finished all queued work."""
    kind = None if device is None else str(device).split(":")[0]
    for backend in active_backends():
        if kind in (None, backend.kind):
            backend.synchronize()
