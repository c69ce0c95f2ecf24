"""Tensor.to and Tensor.cpu between simulated devices, which torch itself takes for one and the same."""

from __future__ import annotations

from typing import Any

import torch

from perfmagic.capture.devices.sim.device import NAME, device_of, sim_device
from perfmagic.capture.devices.sim.tensor import SimTensor

_plain_to = torch.Tensor.to
_ORDER = ("dtype", "non_blocking", "copy")  # of the arguments after the device


def to(t: SimTensor, *args: Any, **options: Any) -> torch.Tensor:
    """Tensor.to in all its forms: a dtype, a device, another tensor."""
    __tracebackhide__ = True
    wanted = args[0] if args else options.get("device", options.get("other"))
    if wanted is None or isinstance(wanted, torch.dtype):
        return _plain_to(t, *args, **options)
    options = {k: v for k, v in options.items() if k not in ("device", "other")}
    if isinstance(wanted, torch.Tensor):
        options |= {"dtype": wanted.dtype, **dict(zip(_ORDER[1:], args[1:], strict=False))}
        wanted = wanted.device
    else:
        options |= dict(zip(_ORDER, args[1:], strict=False))
    target = torch.device(NAME, wanted) if isinstance(wanted, int) else torch.device(wanted)
    here = t._ref.buffer.device_index
    if target.type == NAME:
        target = torch.device(NAME, sim_device(device_of(target)).index)
        if target.index == here:
            return _plain_to(t, torch.device(NAME, 0), **options)
    elif target.type == "cpu" and here == 0:
        return _plain_to(t, target, **options)
    return _moved(t, target, options)


def _moved(t: torch.Tensor, target: torch.device, options: dict[str, Any]) -> torch.Tensor:
    """The tensor on another device, converted before it travels."""
    __tracebackhide__ = True
    shape = {k: options[k] for k in ("dtype", "memory_format") if options.get(k) is not None}
    if shape:
        t = _plain_to(t, **shape)
    non_blocking = bool(options.get("non_blocking", False))
    if t.requires_grad and torch.is_grad_enabled():
        moved: torch.Tensor = _Moved.apply(t, target, non_blocking)  # type: ignore[no-untyped-call]
        return moved
    return _copied(t, target, non_blocking)


class _Moved(torch.autograd.Function):
    """A move that sends the gradient back to the device the tensor came from."""

    @staticmethod
    def forward(ctx: Any, t: torch.Tensor, target: torch.device, non_blocking: bool) -> torch.Tensor:
        ctx.home = t.device
        return _copied(t, target, non_blocking)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradient.to(ctx.home), None, None


@torch.no_grad()
def _copied(t: torch.Tensor, target: torch.device, non_blocking: bool) -> torch.Tensor:
    if target.type != NAME:
        host = _plain_to(t, torch.device("cpu"), non_blocking=non_blocking and target.type == "cpu")
        return host if target.type == "cpu" else host.to(target)
    stride = torch.empty_like(torch.empty_strided(t.shape, t.stride(), device="meta")).stride()
    there = torch.empty_strided(t.shape, stride, dtype=t.dtype, device=target)
    return there.copy_(t, non_blocking=non_blocking)
