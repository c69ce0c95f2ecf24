"""Operators that are not torch's own arithmetic: collectives, and those of extensions and of users.

Nothing is known of them but what their authors say. So none is run on memory of the device behind the back of its
author: an operator runs if it has a kernel for this device or for every device, which then is given tensors on the
device, as on CUDA. What has none is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perfmagic.capture.devices import torch_private
from perfmagic.capture.devices.sim.operators import Operator
from perfmagic.capture.devices.sim.refusals import COMMUNICATION, refuse_communication, refuse_unknown_operator

Taker = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_takers: dict[str, Taker] = {}


def take_over(namespace: str, taker: Taker | None) -> None:
    """Have all operators of a namespace on tensors of the device run by taker(operator, args, kwargs).

    This is how a process group that knows the device takes the place of the refusal. None: refuse again.
    """
    if taker is None:
        _takers.pop(namespace, None)
    else:
        _takers[namespace] = taker


def run_foreign(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator by what was registered for it. Raises DeviceError where nothing was."""
    __tracebackhide__ = True
    taker = _takers.get(op.namespace)
    if taker is not None:
        return taker(op.func, args, kwargs)
    if op.namespace in COMMUNICATION:
        refuse_communication(op.name)
    if op.composite:
        return op.func.decompose(*args, **kwargs)
    kernel = torch_private.kernel_for_any_device(op.func)
    if kernel is None:
        refuse_unknown_operator(op.name)
    return kernel(*args, **kwargs)
