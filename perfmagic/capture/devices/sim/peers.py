"""Copies to and from several devices of one process, which torch.nn.parallel is made of.

A torch without CUDA has none of them: torch.nn.parallel.comm, scatter, gather, replicate and DataParallel call these.
Devices come as numbers, -1 for the host. Source: torch/csrc/cuda/comm.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from perfmagic.capture.devices.sim.device import NAME
from perfmagic.capture.devices.sim.streams import Stream, stream
from perfmagic.capture.devices.sim.tensor import SimTensor

Tensors = Sequence[torch.Tensor]


def functions() -> dict[str, tuple[Callable[..., Any], Callable[..., bool]]]:
    """Each by torch's name, with what says of its arguments whether they are about the simulated device."""
    return {
        "_broadcast": (_broadcast, is_ours),
        "_broadcast_out": (_broadcast_out, is_ours),
        "_broadcast_coalesced": (_broadcast_coalesced, is_ours),
        "_scatter": (_scatter, is_ours),
        "_scatter_out": (_scatter_out, is_ours),
        "_gather": (_gather, is_ours),
        "_gather_out": (_gather_out, is_ours),
    }


def is_ours(tensors: Any, *others: Any) -> bool:
    """Tensors of the device; or of the host, on their way to numbered devices while ours is torch's accelerator."""
    flat = [*(tensors if isinstance(tensors, (list, tuple)) else (tensors,))]
    out = others[0] if others and isinstance(others[0], (list, tuple)) else ()
    if any(isinstance(t, SimTensor) for t in (*flat, *out)):
        return True
    current = torch.accelerator.current_accelerator()
    return current is not None and current.type == NAME


def _place(index: int) -> torch.device:
    return torch.device("cpu") if index < 0 else torch.device(NAME, index)


def _on(t: torch.Tensor, place: torch.device) -> torch.Tensor:
    """The tensor there; on the host it is complete."""
    return t if t.device == place else t.to(place, non_blocking=place.type == NAME)


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    """A copy on each device; on the tensor's own the tensor itself, which has to be the first."""
    if tensor.device.type == NAME and tensor.device != _place(devices[0]):
        raise RuntimeError(f"broadcast: the tensor is on {tensor.device}, which must be the first of {list(devices)}")
    return [_on(tensor, _place(index)) for index in devices]


def _broadcast_out(tensor: torch.Tensor, out: Tensors) -> list[torch.Tensor]:
    """The same into tensors that are there."""
    for t in out:
        if t.shape != tensor.shape:
            raise RuntimeError(f"broadcast: an output has the shape {tuple(t.shape)}, not {tuple(tensor.shape)}")
        t.copy_(tensor, non_blocking=t.device.type == NAME)
    return list(out)


def _broadcast_coalesced(tensors: Tensors, devices: Sequence[int], _buffer_size: int) -> list[list[torch.Tensor]]:
    """For each device a copy of each tensor."""
    if any(t.device != _place(devices[0]) for t in tensors):
        raise RuntimeError(f"all tensors must be on {_place(devices[0])}, the first of the devices")
    return [
        [t.detach() if index == devices[0] else _on(t.detach(), _place(index)) for t in tensors] for index in devices
    ]


def _scatter(
    tensor: torch.Tensor, devices: Sequence[int], sizes: Sequence[int] | None, dim: int, streams: Sequence[Any] | None
) -> list[torch.Tensor]:
    """A part of the tensor on each device, copied on a stream given for it."""
    if sizes is not None and (len(sizes) != len(devices) or sum(sizes) != tensor.shape[dim]):
        raise RuntimeError(
            f"scatter: chunks of {list(sizes)} do not make up {tensor.shape[dim]} for {len(devices)} devices"
        )
    parts = tensor.chunk(len(devices), dim) if sizes is None else torch.split(tensor, list(sizes), dim)
    found = []
    for number, (part, index) in enumerate(zip(parts, devices, strict=False)):
        with stream(_ours(streams, number)):
            found.append(_on(part.contiguous(), _place(index)))
    return found


def _scatter_out(tensor: torch.Tensor, out: Tensors, dim: int, streams: Sequence[Any] | None) -> list[torch.Tensor]:
    """The same into tensors that are there, whose sizes say what each gets."""
    for number, (part, t) in enumerate(zip(torch.split(tensor, [t.shape[dim] for t in out], dim), out, strict=True)):
        with stream(_ours(streams, number)):
            t.copy_(part, non_blocking=t.device.type == NAME)
    return list(out)


def _ours(streams: Sequence[Any] | None, number: int) -> Stream | None:
    """torch's own streams, which torch.nn.parallel gives, stand for the current one here."""
    given = streams[number] if streams else None
    return given if isinstance(given, Stream) else None


def _gather(tensors: Tensors, dim: int, destination: int | None) -> torch.Tensor:
    """All tensors one after the other on one device."""
    place = tensors[0].device if destination is None else _place(destination)
    return torch.cat([_on(t, place) for t in tensors], dim)


def _gather_out(tensors: Tensors, out: torch.Tensor, dim: int) -> torch.Tensor:
    """The same into a tensor that is there."""
    for part, t in zip(torch.split(out, [t.shape[dim] for t in tensors], dim), tensors, strict=True):
        part.copy_(t, non_blocking=out.device.type == NAME)
    return out
