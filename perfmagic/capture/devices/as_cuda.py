"""While a cell runs on a GPU that is not there, "cuda" and torch.cuda are that GPU: for `%%timeline --on H100`.

Three things are put in place, and taken back after the cell: a torch function mode (CudaMode), functions of
torch.cuda, and the functions of torch that say "cuda" themselves. What has no counterpart is refused at its line. Code
that asked torch.cuda.is_available() when it was imported keeps the answer of then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.overrides import TorchFunctionMode

from perfmagic import sim
from perfmagic.base.clock import at_work
from perfmagic.base.errors import DeviceError
from perfmagic.capture.devices import backends, torch_private

if TYPE_CHECKING:
    from perfmagic.predict.model import DeviceModel

# Torch's functions where "cuda" is the simulated device: arguments that name CUDA name that one instead.

_DEVICE = torch.device  # code may find another one there


def meant(device: Any) -> Any:
    """The simulated device for what names CUDA; anything else as it is. Raises DeviceError for a second GPU."""
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        device = _DEVICE(device)
    if not isinstance(device, _DEVICE) or device.type != "cuda":
        return device
    if device.index:
        refuse(f"cuda:{device.index} is not there: --on has one device", "leave the number out, or use %%ranks")
    return _DEVICE("sim", 0)


def refuse(message: str, hint: str) -> NoReturn:
    """Raise DeviceError at the user's line."""
    __tracebackhide__ = True
    raise DeviceError(message, hint=hint)


class CudaMode(TorchFunctionMode):
    """Stands between a thread's code and torch's functions.  has_cuda: tensors of a real device may come up."""

    def __init__(self, *, has_cuda: bool) -> None:
        super().__init__()
        self._check = _refuse_real if has_cuda else _check_nothing
        self._special: dict[Any, Callable[..., Any]] = {
            torch.device: torch.device,
            torch.Tensor.cuda: _cuda,
            torch.Tensor.is_cuda.__get__: _is_cuda,  # type: ignore[attr-defined]
            torch.Tensor.register_hook: partial(self._register, torch.Tensor.register_hook),
            torch.Tensor.register_post_accumulate_grad_hook: partial(
                self._register, torch.Tensor.register_post_accumulate_grad_hook
            ),
        }
        self.is_on = True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        __tracebackhide__ = True
        func, args, kwargs = self._called(func, args, kwargs or {})
        return func(*args, **kwargs)

    @at_work
    def _called(self, func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        """The function that is meant, and its arguments."""
        __tracebackhide__ = True
        special = self._special.get(func)
        if special is not None:
            return special, args, kwargs
        if getattr(func, "__name__", "") == "__get__":
            return func, args, kwargs
        self._check(args)
        for value in args:
            if isinstance(value, _DEVICE):
                args = tuple(map(meant, args))
                break
        if func in _TAKE_WORDS:
            args = tuple(map(meant, args))
        device = kwargs.get("device")
        if device is None:
            device = torch_private.default_device_for(func)
        if device is not None:
            kwargs = {**kwargs, "device": _DEVICE("sim", device) if type(device) is int else meant(device)}
        if kwargs.get("pin_memory") and func not in _PIN:
            return self._pinned, (func, *args), {**kwargs, "pin_memory": False}
        return func, args, kwargs

    @staticmethod
    def _pinned(func: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return func(*args, **kwargs).pin_memory()

    def within(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the user's that torch calls in a backward pass, without the mode: there it needs it, too."""

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if not self.is_on or torch_private.in_function_mode():
                return function(*args, **kwargs)
            with self:
                return function(*args, **kwargs)

        return run

    def _register(self, register: Callable[..., Any], t: Any, hook: Callable[..., Any]) -> Any:
        return register(t, self.within(hook))


_TAKE_WORDS = {torch.Tensor.to, torch_private.parse_to()}
_PIN = {torch.Tensor.pin_memory}


def _cuda(t: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = torch.preserve_format) -> Any:
    __tracebackhide__ = True
    place = _DEVICE("cuda", device) if isinstance(device, int) else device or _DEVICE("cuda")
    return t.to(meant(place), non_blocking=non_blocking, memory_format=memory_format)


def _is_cuda(t: Any) -> bool:
    return t.device.type in ("sim", "cuda")


_is_really_cuda: Callable[[Any], bool] = torch.Tensor.is_cuda.__get__  # type: ignore[attr-defined]


def _check_nothing(_args: Any) -> None:
    pass


def _refuse_real(args: Any) -> None:
    __tracebackhide__ = True
    for value in args:
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, torch.Tensor) and _is_really_cuda(each):
                message = f"a tensor of the real {each.device} is used in a cell that runs on a predicted GPU"
                refuse(message, "make it in the cell, or move it with .cpu() in a cell before")


_MISSING = object()
_WITH_BF16 = 8  # the first compute capability


class AsCuda:
    """A resource of an owner: "cuda" means the simulated device in this thread's code.

    model: of the GPU that code finds.
    """

    def __init__(self, model: DeviceModel) -> None:
        self._model = model
        self._saved: list[tuple[Any, str, Any]] = []
        self._mode: CudaMode | None = None
        self._default: Any = None
        self._peak_bytes = 0

    def acquire(self) -> None:
        self._default = torch_private.default_device()
        has_cuda = backends.cuda_available()
        backends.AS_CUDA.append(self._model)
        mode = CudaMode(has_cuda=has_cuda)
        entries = torch_private.backward_entries(mode.within)
        for place, name, value in [*self._of_torch_cuda(), *_of_torch(), *entries]:
            self._saved.append((place, name, vars(place).get(name, _MISSING)))
            setattr(place, name, value)
        sim.call("cuda")
        self._mode = mode
        mode.__enter__()  # type: ignore[no-untyped-call]

    def give_back(self) -> None:
        if self._mode is not None:
            if torch_private.default_device() != self._default:
                torch.set_default_device(self._default)
            torch_private.leave_mode(self._mode)
            self._mode.is_on = False
            self._mode = None
        sim.call("")
        while self._saved:
            place, name, value = self._saved[-1]
            delattr(place, name) if value is _MISSING else setattr(place, name, value)
            self._saved.pop()
        if self._model in backends.AS_CUDA:
            backends.AS_CUDA.remove(self._model)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """In the block, tensors say where they really are."""
        sim.call("")
        try:
            yield
        finally:
            sim.call("cuda" if self._mode is not None else "")

    def peak_bytes(self) -> int:
        """The most memory that was allocated, also before the cell reset torch.cuda's own count."""
        return max(self._peak_bytes, int(sim.torch_module().max_memory_allocated()))

    def _reset_peak(self, device: Any = None) -> None:
        self._peak_bytes = self.peak_bytes()
        sim.torch_module().reset_peak_memory_stats(device)

    def _of_torch_cuda(self) -> list[tuple[Any, str, Any]]:
        """What torch.cuda has instead: what torch.sim has under the same name, facts of the GPU, and refusals."""
        cuda: Any = torch.cuda
        alike = {name: value for name, value in vars(sim.torch_module()).items() if hasattr(cuda, name)}
        names = {**alike, **_facts(self._model), **_without_effect(), **_refused()}
        names = {name: value for name, value in names.items() if not name.startswith("__")}
        names["is_available"] = _always(cuda.is_available)
        names["_sleep"] = lambda cycles: sim.torch_module()._sleep(cycles / _CYCLES_PER_S)
        for reset in ("reset_peak_memory_stats", "reset_max_memory_allocated"):
            names[reset] = self._reset_peak
        return [(cuda, name, value) for name, value in names.items()]


_CYCLES_PER_S = 1.5e9  # of torch.cuda._sleep: about the clock of the table's GPUs


def _always(real: Callable[[], bool]) -> Callable[[], bool]:
    """True for code of the user's; our own asks the function that it stands for."""

    def is_available() -> bool:
        return True

    vars(is_available)["real"] = real
    return is_available


def _facts(model: DeviceModel) -> dict[str, Any]:
    gpu = model.gpu
    major, minor = gpu.capability
    properties = SimpleNamespace(
        name=gpu.name,
        major=major,
        minor=minor,
        total_memory=gpu.memory_bytes,
        multi_processor_count=gpu.multiprocessors,
    )
    return {
        "device_count": lambda: 1,
        "get_device_name": lambda _device=None: gpu.name,
        "get_device_capability": lambda _device=None: (major, minor),
        "get_device_properties": lambda _device=None: properties,
        "is_bf16_supported": lambda including_emulation=True: including_emulation or major >= _WITH_BF16,
        "is_tf32_supported": lambda: major >= _WITH_BF16,
        "is_current_stream_capturing": lambda: False,
        "mem_get_info": lambda _device=None: _free_and_total(gpu.memory_bytes),
    }


def _free_and_total(memory_bytes: int) -> tuple[int, int]:
    return max(0, memory_bytes - sim.torch_module().memory_reserved()), memory_bytes


def _nothing(*_args: Any, **_kwargs: Any) -> int:
    return 0


@contextmanager
def _range(*_args: Any, **_kwargs: Any) -> Any:
    yield


def _without_effect() -> dict[str, Any]:
    nvtx = SimpleNamespace(range_push=_nothing, range_pop=_nothing, mark=_nothing, range=_range)
    return {"init": _nothing, "ipc_collect": _nothing, "nvtx": nvtx}


def _refused() -> dict[str, Any]:
    def no_graph(*_args: Any, **_kwargs: Any) -> None:
        __tracebackhide__ = True
        refuse("CUDA graphs cannot be captured on a GPU that is not there", "leave them out: --on predicts each launch")

    def no_counterpart() -> None:
        __tracebackhide__ = True
        refuse("this asks CUDA itself, and --on has no CUDA", "leave it out, or run the cell on that GPU")

    graphs = dict.fromkeys(("CUDAGraph", "graph", "make_graphed_callables", "graph_pool_handle"), no_graph)
    return {**graphs, "_lazy_init": no_counterpart}


def _of_torch() -> list[tuple[Any, str, Any]]:
    """Functions and classes of torch that say "cuda" themselves, or take it where no mode sees it."""
    autocast = torch.amp.autocast_mode.autocast
    begin, dtype_of, is_enabled, load = (
        autocast.__init__,
        torch.get_autocast_dtype,
        torch.is_autocast_enabled,
        torch.load,
    )

    def begin_autocast(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            device_type, dtype = "sim", dtype or dtype_of("cuda")
        begin(self, device_type, dtype, *args, **kwargs)

    def load_on_host(file: Any, map_location: Any = None, **kwargs: Any) -> Any:
        place = meant(map_location)
        if place is map_location:
            return load(file, map_location, **kwargs)
        return _moved(load(file, "cpu", **kwargs), place)

    def no_compiler(*_args: Any, **_kwargs: Any) -> None:
        __tracebackhide__ = True
        refuse("torch.compile makes code for a GPU that is there", "leave torch.compile out of a cell with --on")

    return [
        (autocast, "__init__", begin_autocast),
        (torch, "get_autocast_dtype", lambda kind: dtype_of(_plain(kind))),
        (torch, "get_autocast_gpu_dtype", lambda: dtype_of("sim")),
        (torch, "is_autocast_enabled", lambda kind="cuda": is_enabled(_plain(kind))),
        (torch, "load", load_on_host),
        (torch, "compile", no_compiler),
        (torch, "Generator", _GeneratorClass("Generator", (), {"real": torch.Generator})),
    ]


def _plain(kind: str) -> str:
    return "sim" if kind == "cuda" else kind


def _moved(value: Any, place: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(place)
    if isinstance(value, dict):
        return type(value)((key, _moved(each, place)) for key, each in value.items())
    return type(value)(_moved(each, place) for each in value) if type(value) in (list, tuple) else value


class _GeneratorClass(type):
    """torch.Generator, whose generators for CUDA are the host's: the device draws from them by their seed."""

    real: Any

    def __call__(cls, device: Any = "cpu") -> Any:
        return cls.real("cpu" if meant(device) is not device else device)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.real)
