"""Torch's functions where "cuda" is the simulated device: arguments that name CUDA name that one instead.

No tensor of CUDA is ever made. A torch.device("cuda") is only a name, and stays what it is: code may compare it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NoReturn

import torch
from torch.overrides import TorchFunctionMode

from perfmagic.base.clock import at_work
from perfmagic.base.errors import DeviceError
from perfmagic.capture.devices import torch_private

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
