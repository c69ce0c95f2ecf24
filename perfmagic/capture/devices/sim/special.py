"""Operators that are done in another way than by launching one kernel."""

from __future__ import annotations

from typing import Any

import torch

from perfmagic.capture.devices.sim.operators import Operator
from perfmagic.errors import DeviceError

BY_RESULT = {"linear", "linalg_matrix_rank"}  # out= variants that are made from the result


def decompose(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Inference mode leaves out autograd, and with it torch's own step from such an operator to what it consists of."""
    __tracebackhide__ = True
    return op.func.decompose(*args, **kwargs)


def by_result(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """out= variants that torch gets wrong for a class of tensors, or without values: the result is copied there."""
    __tracebackhide__ = True
    out = kwargs["out"]
    result = op.func.overloadpacket(*args, **{name: value for name, value in kwargs.items() if name != "out"})
    if out.shape != result.shape:
        out.resize_(result.shape)
    return out.copy_(result)


def refuse_device(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001 - as all handlers
    """For operators that take a device by position, which would run where it is."""
    raise DeviceError(f"{op.name} is not done on the simulated device", hint="use Tensor.to(device)")


def pin(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001 - as all handlers
    """As on CUDA."""
    raise RuntimeError(f"cannot pin a tensor on {args[0].device}: only memory of the host can be pinned")


def zeros(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001 - as all handlers
    """torch's zeros without memory, which formulas of gradients use, have memory here."""
    return torch.zeros(*args, **{name: value for name, value in kwargs.items() if name in ("dtype", "device")})


def pack(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001 - as all handlers
    """pack_padded_sequence: the lengths are on the host, and so are the sizes of the steps, as on any device."""
    __tracebackhide__ = True
    padded, lengths, batch_first = args
    rows, columns = padded.shape[:2]
    order, steps = op.func(torch.arange(rows * columns).view(rows, columns, 1), lengths, batch_first)
    there = torch.empty(len(order), dtype=torch.int64, device=padded.device).copy_(order.view(-1))
    return padded.reshape(rows * columns, *padded.shape[2:]).index_select(0, there), steps
