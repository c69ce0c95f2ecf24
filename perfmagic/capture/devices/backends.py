"""The devices whose queues can be measured, behind one small protocol.

A backend is one kind of asynchronous device (all of its devices together): CUDA and ROCm through torch.cuda, the
simulated device, any other accelerator torch can synchronise. The CPU has no queue and therefore no backend.
Nothing here initialises CUDA or loads the simulated device unless the caller asked for exactly that.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from perfmagic.base import units
from perfmagic.base.clock import VIRTUAL
from perfmagic.base.errors import DeviceError, OptionError, TorchMissingError
from perfmagic.base.imported import sim_loaded, torch_if_imported
from perfmagic.capture.sleep import count_sleeps
from perfmagic.predict.gpus import gpu_of
from perfmagic.predict.model import DeviceModel
from perfmagic.trace.model import DeviceInfo

# Metal itself has some 400 kB; torch's first tensor takes 8 MiB (MPSAllocator.h: kMinSmallHeap)
_MPS_IDLE_BYTES = 1 << 20
AS_CUDA: list[DeviceModel] = []  # the GPU that code finds as "cuda", while a cell runs on one that is not there
SIM_INDEX_BASE = 1000  # where one trace holds CUDA and simulated devices, sim:0 is device 1000: indices stay unique


class Backend(Protocol):
    """One kind of asynchronous device."""

    kind: str

    def in_use(self) -> bool:
        """Whether this process has started using it; asking does not start it."""

    def infos(self) -> tuple[DeviceInfo, ...]:
        """Its devices, each with an index of its own, for labels."""

    def synchronize(self, index: int | None = None) -> None:
        """Block until one of its devices, or with None every one, is idle; raises what failed there asynchronously."""

    def progress(self, index: int | None = None) -> int | None:
        """A number that grows with everything queued on one of its devices, or on any; None where it does not tell."""

    def has_events(self) -> bool:
        """Whether event() and elapsed_ns() work."""

    def event(self) -> Any:
        """Record a timing event on the calling thread's current stream. Raises DeviceError where there are none."""

    def elapsed_ns(self, first: Any, second: Any) -> int:
        """Time between two recorded events that have both been reached."""

    def occupy(self, seconds: float) -> bool:
        """Keep the current stream busy so long, so that work queues up behind; False where that is impossible."""

    def memory_bytes(self) -> tuple[int, int] | None:
        """Allocated now, and the most since reset_peak_memory, on all its devices; None where it does not tell."""

    def reset_peak_memory(self) -> None:
        """Reset the peak."""


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

    def synchronize(self, index: int | None = None) -> None:
        for device in self._in_use() if index is None else (index,):
            self._torch.cuda.synchronize(device)

    def _in_use(self) -> tuple[int, ...]:
        """Those with a context: waiting for another GPU would give this process memory on it."""
        from perfmagic.capture.devices.torch_private import cuda_devices_in_use

        return cuda_devices_in_use()

    def progress(self, index: int | None = None) -> None:
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
        from perfmagic.capture.devices.torch_private import cuda_sleep_cycles

        if not self._cycles_per_second:
            self._cycles_per_second = self._calibrate(cuda_sleep_cycles)
        return bool(self._cycles_per_second) and cuda_sleep_cycles(int(seconds * self._cycles_per_second))

    def memory_bytes(self) -> tuple[int, int]:
        cuda, used = self._torch.cuda, self._in_use()
        return sum(cuda.memory_allocated(i) for i in used), sum(cuda.max_memory_allocated(i) for i in used)

    def reset_peak_memory(self) -> None:
        for i in self._in_use():
            self._torch.cuda.reset_peak_memory_stats(i)

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
    """The simulated device of perfmagic.sim."""

    kind = "sim"

    def __init__(self) -> None:
        self._sim: Any = importlib.import_module("perfmagic.sim")

    def in_use(self) -> bool:
        return bool(self._sim.loaded())

    def infos(self) -> tuple[DeviceInfo, ...]:
        devices = self._sim.devices_in_use()
        used = [device.index for device in devices]
        return tuple(
            DeviceInfo(
                d.index, "sim", sim_name(d.index, used), d.pace_description, predicted=d.model and d.model.predicted
            )
            for d in devices
        )

    def synchronize(self, index: int | None = None) -> None:
        self._sim.synchronize(index)

    def progress(self, index: int | None = None) -> int:
        return sum(d.progress for d in self._sim.devices_in_use() if index in (None, d.index))

    def has_events(self) -> bool:
        return True

    def event(self) -> Any:
        event = self._sim.torch_module().Event(enable_timing=True)
        event.record()
        return event

    def elapsed_ns(self, first: Any, second: Any) -> int:
        return round(float(first.elapsed_time(second)) * 1e6)

    def occupy(self, seconds: float) -> bool:
        self._sim.torch_module()._sleep(seconds)
        return True

    def memory_bytes(self) -> tuple[int, int]:
        sim, used = self._sim.torch_module(), [device.index for device in self._sim.devices_in_use()]
        return sum(sim.memory_allocated(i) for i in used), sum(sim.max_memory_allocated(i) for i in used)

    def reset_peak_memory(self) -> None:
        for device in self._sim.devices_in_use():
            self._sim.torch_module().reset_peak_memory_stats(device.index)


class AcceleratorBackend:
    """Any other accelerator of torch (mps, xpu, npu): it can be waited for, and no more.

    It is asked through its own module: where the simulated device is loaded, torch.accelerator means that one.
    """

    def __init__(self, torch: Any, kind: str) -> None:
        self._module = torch.get_device_module(kind)
        self.kind = kind

    def in_use(self) -> bool:
        if self.kind == "mps":
            return int(self._module.driver_allocated_memory()) > _MPS_IDLE_BYTES
        return not hasattr(self._module, "is_initialized") or bool(self._module.is_initialized())

    def infos(self) -> tuple[DeviceInfo, ...]:
        return (DeviceInfo(0, self.kind, self.kind),)

    def synchronize(self, index: int | None = None) -> None:
        if self.kind == "mps":  # there is one, and it takes no number
            self._module.synchronize()
            return
        for device in range(self._module.device_count()) if index is None else (index,):
            self._module.synchronize(device)

    def progress(self, index: int | None = None) -> None:
        return None

    def has_events(self) -> bool:
        return False

    def event(self) -> Any:
        raise DeviceError(f"no timing events on {self.kind}", hint="%%bench gives returns and done there")

    def elapsed_ns(self, first: Any, second: Any) -> int:
        raise DeviceError(f"no timing events on {self.kind}", hint="%%bench gives returns and done there")

    def occupy(self, seconds: float) -> bool:
        return False

    def memory_bytes(self) -> None:
        return None

    def reset_peak_memory(self) -> None:
        """It keeps no count."""


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


def cuda_available() -> bool:
    """Whether torch has been imported and sees a CUDA or ROCm device; creates no context."""
    torch = torch_if_imported()
    return torch is not None and hasattr(torch, "cuda") and _sees_cuda(torch)


def _sees_cuda(torch: Any) -> bool:
    """Whether there is a real one, also where code finds a GPU that is not there (as_cuda.py)."""
    return bool(getattr(torch.cuda.is_available, "real", torch.cuda.is_available)())


def _possible() -> list[Backend]:
    torch = torch_if_imported()
    if torch is None or not hasattr(torch, "cuda"):  # absent, or its import is still under way
        return []
    return [backend for find in FINDERS if (backend := find(torch)) is not None]


def _find_cuda(torch: Any) -> Backend | None:
    return CudaBackend(torch) if _sees_cuda(torch) else None


def _find_accelerator(torch: Any) -> Backend | None:
    """The accelerator that torch has instead of CUDA and has no backend of its own here."""
    from perfmagic import sim

    kind = None if _sees_cuda(torch) else sim.found_accelerator()
    return None if kind in (None, "cuda", "sim") else AcceleratorBackend(torch, kind)


def _find_sim(_torch: Any) -> Backend | None:
    return SimBackend() if sim_loaded() else None


# one for each kind of device: its backend, or None where this machine has no such device
FINDERS: tuple[Callable[[Any], Backend | None], ...] = (_find_cuda, _find_accelerator, _find_sim)


_of_this_rank: list[Any] = []


def choose_device(kind: str, index: int) -> Any:
    """What device() gives in this process from now on: a rank of several has a device of its own."""
    chosen = device(kind)
    _of_this_rank[:] = [require_torch("perfmagic.device()").device(chosen.type, index) if kind != "cpu" else chosen]
    return _of_this_rank[0]


def device(
    kind: str | DeviceModel = "auto",
    *,
    pace: Any = None,
    memory: str | int | None = None,
    clock: str | None = None,
    host: str | None = None,
    values: str | None = None,
    item: float | None = None,
) -> Any:
    """The device to run on: torch.device("cuda") where there is one, else the simulated device; a rank's is its own.

    kind: "auto", "cuda", "sim" or "cpu"; or a GPU, "H100": itself where this machine has it, else a simulated device
    on a virtual clock that takes the times of a model (perfmagic.DeviceModel).
    pace: how all simulated devices are slowed down from now on (see perfmagic.Pace); a recording keeps the pace it was
    made at (TimelineResult.pace).
    memory: of a simulated device, as "2GB", "512 MiB" or bytes; more raises torch.OutOfMemoryError. 0: as much as the
    host gives, as at first; a GPU by its name has what its data sheet says.
    clock: "virtual" for a simulated device whose times are computed by the pace, also where a CUDA device is there;
    "auto" for one only where there is none; "real" for measured times. The process keeps it, a rank its session's.
    host: its virtual time. "counted", as at first: constants for an operator, a view, an event, a wait and a module.
    "measured": for modules and all other Python what it takes here, time.sleep and CPU tensors too; constants for the
    rest, without what the simulated device computes and torch takes to call it. Not in ranks. Kept as the clock is.
    values: what a virtual clock computes: "real", all, as at first; "small", what takes a CPU little time, as for a GPU
    by its name; "none", shapes only, without host memory for tensors of the device. What needs a value that is not
    there is refused; floating-point tensors arrive on the host as NaN, and checks for inf and NaN find none.
    item: the number that each read of one such value (t.item(), if t) gives instead; until values or item is given.
    Raises TorchMissingError without torch, DeviceError for "cuda" where there is none, for pace or memory in a rank on
    the CPU, for another clock in a recording, for host, values or item on the real clock; OptionError for other words.

    >>> device = perfmagic.device("sim", pace="matmul=1ms")
    >>> x = torch.ones(8, 8, device=device)
    >>> (x @ x)[0, 0].item()
    8.0
    """
    torch = require_torch("perfmagic.device()")
    memory_bytes = None if memory is None else bytes_given(memory)
    model = _model_named(kind, pace)
    if AS_CUDA:
        return _device_in_cell(torch, model, (pace, memory, clock, host), {"values": values, "item": item})
    plain = clock in (None, "auto") and host != "counted" and values is None and item is None and kind is not model
    if model is not None and plain and _is_here(torch, model):
        return _announced(torch.device("cuda"), model)
    if model is not None:
        pace, clock, (values, item) = model, _virtual(clock, model.name), _values_of_gpu(values, item)
    kind = _kind_meant("sim" if model is not None else str(kind), clock)
    given: dict[str, Any] = {"clock": clock, "host": host, "values": values, "item": item}
    if _of_this_rank and kind in ("auto", _of_this_rank[0].type):
        given["clock"] = None if clock == "auto" else clock
        return _device_of_this_rank(pace=pace, memory_bytes=memory_bytes, **given)
    has_cuda = torch.cuda.is_available()
    if kind == "cuda" and not has_cuda:
        message = f"cuda was asked for, but torch {torch.__version__} sees no CUDA device here"
        raise DeviceError(message, hint='perfmagic.device("sim") gives a simulated device that behaves like one')
    is_simulated = kind == "sim" or (kind == "auto" and not has_cuda)
    if clock == "auto":
        given["clock"] = "virtual" if is_simulated else "real"
    if not is_simulated:
        return _real_device(torch.device("cuda" if kind == "auto" else kind), **given)
    return _load_sim(torch, pace, memory_bytes=memory_bytes, **given)


def virtual_gpu(model: DeviceModel, item: float | None = None) -> Any:
    """The simulated device as a GPU, also on a machine that has it.  item: see device()."""
    return _load_sim(require_torch("perfmagic.device()"), model, clock="virtual", values="small", item=item)


def _load_sim(torch: Any, pace: Any, **given: Any) -> Any:
    importlib.import_module("perfmagic.sim").load(pace, **given)
    if VIRTUAL:
        count_sleeps()
    importlib.import_module("perfmagic.sim").groups.register()
    return torch.device("sim", 0)


def _device_in_cell(torch: Any, model: DeviceModel | None, given: tuple[object, ...], values: dict[str, Any]) -> Any:
    """The device of a cell that runs on a GPU by --on. Raises DeviceError where another one is asked for in it."""
    asked = model is not None and model.gpu != AS_CUDA[-1].gpu
    if asked or any(value is not None for value in given):
        message = f"this cell runs on {AS_CUDA[-1].gpu.name}, as --on says"
        raise DeviceError(message, hint="perfmagic.device() in it, or choose the device in a cell before without --on")
    importlib.import_module("perfmagic.sim").load(**values)
    return torch.device("cuda")


def _real_device(device: Any, *, clock: str | None, **given: object) -> Any:
    """A device that is not simulated, with the clock of the process as asked for. Raises DeviceError for more."""
    said = next((name for name, value in given.items() if value is not None), "")
    if said:
        message = f"{said}= needs a simulated device on a virtual clock"
        raise DeviceError(message, hint=f'perfmagic.device(clock="virtual", {said}=…)')
    if clock is not None and sim_loaded():
        importlib.import_module("perfmagic.sim").load(clock=clock)
    return device


_KINDS = ("auto", "cuda", "sim", "cpu")  # that device() takes


def _model_named(kind: str | DeviceModel, pace: Any) -> DeviceModel | None:
    """The model of the GPU that is asked for by its name; None for a kind of device.

    Raises OptionError for another word, and for a pace beside a GPU's name.
    """
    if kind in _KINDS:
        return None
    if pace is not None:
        raise OptionError(
            f"device({kind!r}, pace=…): a GPU takes its times from its model", hint='device("sim", pace=…)'
        )
    if isinstance(kind, DeviceModel):
        return kind
    if str(kind).partition(":")[0] in _KINDS:
        raise OptionError(
            f"device({str(kind)!r}): a kind has no number here", hint=f"one of {', '.join(_KINDS)}; devices(2)"
        )
    return DeviceModel(str(kind))


def _is_here(torch: Any, model: DeviceModel, n: int = 1) -> bool:
    """Whether this machine has that very GPU, n times."""
    if torch.cuda.device_count() < n:
        return False
    name = torch.cuda.get_device_name(0) if torch.cuda.is_available() else ""
    return bool(name) and gpu_of(DeviceInfo(0, "cuda", name)) == model.gpu


def _values_of_gpu(values: str | None, item: float | None) -> tuple[str, float | None]:
    """Small values unless others are given. What item= gave before stays where neither is given."""
    if values is None and item is None and sim_loaded():
        item = importlib.import_module("perfmagic.sim").VALUES.item
    return values or "small", item


def _announced(device: Any, model: DeviceModel) -> Any:
    """The device, once a notice has said that it is the real one."""
    print(f"{model.name} is in this machine: its times are measured")  # noqa: T201 - asked for where it is shown
    return device


def _virtual(clock: str | None, gpu: str) -> str:
    """The clock of a GPU that is not there. Raises OptionError for the real one, and for another word."""
    _check_clock(clock)
    if clock == "real":
        raise OptionError("a GPU that is not there has no real clock", hint=f'device("{gpu}") without clock')
    return "virtual"


def _kind_meant(kind: str, clock: str | None) -> str:
    """The kind that is asked for: a virtual clock is the simulated device's. Raises OptionError for other words."""
    _check_clock(clock)
    if clock == "virtual" and kind not in ("auto", "sim"):
        raise OptionError(f"{kind} has no virtual clock", hint='device("sim", clock="virtual")')
    return "sim" if clock == "virtual" else kind


def _check_clock(clock: str | None) -> None:
    if clock not in (None, "auto", "real", "virtual"):
        raise OptionError(f"clock {clock!r} is not known", hint="one of auto, real, virtual")


def _device_of_this_rank(**given: Any) -> Any:
    """The rank's own device, once it has what is given (arguments of perfmagic.sim.load)."""
    own = _of_this_rank[0]
    said = next((name for name, value in given.items() if value is not None), "")
    if said and own.type == "cpu":
        raise _no_device_to_slow(said.removesuffix("_bytes"))
    if said and own.type == "sim":
        importlib.import_module("perfmagic.sim").load(**given)
    return own


def _no_device_to_slow(given: str) -> DeviceError:
    message = f"device({given}=…): this rank computes on the CPU, and {given} is of a simulated device"
    return DeviceError(message, hint=f"%%ranks --device sim; on the CPU perfmagic.device() without {given}")


def bytes_given(memory: str | int) -> int:
    """How much memory is meant. Raises OptionError for what cannot be read."""
    size_bytes = units.bytes_of(memory)
    if size_bytes is None:
        raise OptionError(
            f"memory={memory!r} is not a number of bytes", hint='for example memory="2GB", or 2_000_000_000'
        )
    return size_bytes


def devices(
    n: int,
    kind: str | DeviceModel = "auto",
    *,
    pace: Any = None,
    memory: str | int | None = None,
    clock: str | None = None,
    host: str | None = None,
    values: str | None = None,
    item: float | None = None,
) -> tuple[Any, ...]:
    """n devices to run on: CUDA devices where there are n, else simulated ones.

    kind, pace, memory, clock, host, values, item: as in device(), memory of each device.
    Raises what device() raises, DeviceError for more CUDA devices than there are.
    """
    torch = require_torch("perfmagic.devices()")
    given: object = n
    if not isinstance(given, int) or n < 1:
        raise OptionError(f"devices({n!r}): a whole number is needed, at least 1", hint="devices(2)")
    if kind == "cuda" and torch.cuda.device_count() < n:
        message = f"{n} CUDA devices were asked for, torch sees {torch.cuda.device_count()}"
        raise DeviceError(message, hint=f"perfmagic.devices({n}) gives simulated devices where there are not enough")
    if kind == "auto" and torch.cuda.device_count() < n:
        kind = "sim"
    model = _model_named(kind, pace)
    if model is not None and not _is_here(torch, model, n):
        kind, pace, clock, (values, item) = "sim", model, _virtual(clock, model.name), _values_of_gpu(values, item)
    first = device(kind, pace=pace, memory=memory, clock=clock, host=host, values=values, item=item)
    if first.type == "sim":
        importlib.import_module("perfmagic.sim").load(devices=n)
    return tuple(torch.device(first.type, i) for i in range(n)) if first.type != "cpu" else (first,) * n


def sim_name(index: int, used: Sequence[int]) -> str:
    """How a simulated device is called: by its number only where there are several."""
    return f"sim:{index}" if len(used) > 1 else "sim"


def synchronize(device: Any = None) -> None:
    """Wait until a device ("cuda:1", "sim", a torch.device), or every device in use, has finished all queued work.

    A name without a number means all devices of its kind. The CPU has nothing to wait for.
    Raises what failed on the device, OptionError for a word that names no device.
    """
    kind, _, number = str("" if device is None else device).partition(":")
    if number and not number.isdecimal():
        raise OptionError(f"synchronize: {device!r} names no device", hint='for example "cuda:1" or "sim"')
    for backend in active_backends():
        if kind in ("", backend.kind) or (kind == "cuda" and backend.kind == "rocm"):
            backend.synchronize(int(number) if number else None)
