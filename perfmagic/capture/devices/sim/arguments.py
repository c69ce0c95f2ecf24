"""The arguments of a launch, and which simulated device it belongs to.

torch's own code takes every tensor here to be on sim:0 (see SimTensor): a device it names is not always the one meant.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from perfmagic.capture.devices import torch_private
from perfmagic.capture.devices.sim.device import NAME, device_of, sim_device
from perfmagic.capture.devices.sim.infer import flat
from perfmagic.capture.devices.sim.operators import Operator, argument
from perfmagic.capture.devices.sim.tensor import FarTensor, Ref, SimTensor, beside


class Arguments:
    """The arguments of one call, taken apart in one pass.

    args, kwargs: as a job holds them, with Refs for tensors on the device.  refs: those.  host: other tensors.
    key: all that the result's shape depends on.
    """

    __slots__ = ("args", "host", "key", "kwargs", "refs")

    def __init__(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.refs: list[Ref] = []
        self.host: list[torch.Tensor] = []
        self.key: list[Any] = [op]
        self.args: tuple[Any, ...] = tuple([self._take(a) for a in args])
        self.kwargs = {name: self._named(name, value) for name, value in kwargs.items()} if kwargs else kwargs

    def _named(self, name: str, value: Any) -> Any:
        self.key.append(name)
        return self._take(value)

    def _take(self, value: Any) -> Any:
        kind = type(value)
        if kind is SimTensor or kind is FarTensor:
            ref: Ref = value._ref
            self.refs.append(ref)
            self.key.append(ref.spec)
            return ref
        if kind is list or kind is tuple:
            self.key.append((kind, len(value)))
            return kind([self._take(v) for v in value])
        if isinstance(value, torch.Tensor):
            return self._take_host(value)
        # the value of a factor never decides a shape, and some change at every step (Adam's bias correction)
        self.key.append(kind if kind is torch.Generator or (kind is float and self.refs) else (kind, value))
        return value

    def _take_host(self, value: torch.Tensor) -> torch.Tensor:
        self.key.append((tuple(value.shape), value.stride(), value.dtype))
        self.host.append(value)
        return value.detach().clone()  # as it is now: the op runs later


def check_devices(op: Operator, taken: Arguments, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise RuntimeError, as torch does, where tensors of two devices, or of host and device, would meet.

    A tensor without dimensions may be on the host where CUDA takes one, and so may indices; what an op writes may not.
    """
    __tracebackhide__ = True
    if len(taken.refs) < 2 and not taken.host:
        return
    places = {ref.buffer.device_index for ref in taken.refs}
    if len(places) > 1:
        places = _place(taken.refs)
    if len(places) > 1:
        _refuse_mix(op, *(f"sim:{place}" for place in sorted(places)[:2]))
    if not taken.host or not taken.refs:
        return
    elsewhere = [t for t in taken.host if t.dim() or not op.takes_host_scalars]
    if op.takes_host_indices:
        values = args[2] if len(args) > 2 else kwargs.get("values", args[0])
        elsewhere = [t for t in (args[0], values) if _is_host(t) and (t is args[0] or t.dim())]
    elsewhere += [t for place in op.writes for t in flat(argument(place, args, kwargs)) if _is_host(t)]
    if elsewhere:
        _refuse_mix(op, f"sim:{min(places)}", str(elsewhere[0].device))


def _is_host(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(value, SimTensor)


def _refuse_mix(op: Operator, one: str, other: str) -> NoReturn:
    __tracebackhide__ = True
    raise RuntimeError(f"{op.kernel}: expected all tensors to be on the same device, but found {one} and {other}")


def _place(refs: list[Ref]) -> set[int]:
    """Put what is unplaced beside the others; gives the devices of all. Its bytes stay counted where they were."""
    places = {ref.buffer.device_index for ref in refs if not ref.buffer.unplaced}
    for ref in refs:
        if ref.buffer.unplaced and len(places) == 1:
            ref.buffer.device_index, ref.buffer.unplaced = min(places), False
    return places


def brought(target: Any, factor: SimTensor) -> torch.Tensor:
    """A factor of one element on the device of what it multiplies."""
    home = target if isinstance(target, SimTensor) else target[0]
    return factor if factor.dim() or factor.device == home.device else factor.to(home.device)


def device_index(kwargs: dict[str, Any], taken: Arguments) -> int:
    """The device an op runs on."""
    device = kwargs.get("device")
    if taken.refs and (device is None or torch.device(device).index is None):
        return taken.refs[0].buffer.device_index
    index = sim_device(device_of(device)).index
    if index or device is None:
        return index
    # torch's own code says sim:0 for all of them: in a function about a tensor on another device, and in a gradient
    if not beside.index and taken.refs and torch_private.in_backward():
        return taken.refs[0].buffer.device_index
    return beside.index


def is_elsewhere(kwargs: dict[str, Any]) -> bool:
    """Is the result wanted on a device that is not simulated?"""
    device = kwargs.get("device")
    return device is not None and torch.device(device).type != NAME


def is_unplaced(index: int, taken: Arguments) -> bool:
    """Did a gradient formula ask for it? Those run where nothing tells what tensor they are about."""
    return index == 0 and not taken.refs and torch_private.in_backward()
