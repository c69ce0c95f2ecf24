"""Operators that are not torch's own arithmetic: collectives, and those of extensions and of users.

Nothing is known of them but what their authors say. So none is run on memory of the device behind the back of its
author: an operator runs if it has a kernel for this device or for every device, which then is given tensors on the
device, as on CUDA. What has none is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from perfmagic.capture.devices import torch_private
from perfmagic.capture.devices.sim.infer import flat
from perfmagic.capture.devices.sim.operators import Operator, operator_of
from perfmagic.capture.devices.sim.refusals import COMMUNICATION, refuse_communication, refuse_unknown_operator
from perfmagic.capture.devices.sim.tensor import SimTensor

# these take lists of lists, into which torch's dispatcher does not look for tensors of the device
_LISTS_OF_LISTS = ("allgather_", "allgather_coalesced_", "gather_", "reduce_scatter_", "scatter_")

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


def register() -> list[Any]:
    """Look at what torch's dispatcher does not see of a collective. Returns what has to stay alive for that."""
    torch_private.before_message(_look_at_message)
    library: Any = torch.library.Library("c10d", "IMPL")  # type: ignore[no-untyped-call]
    for name in _LISTS_OF_LISTS:
        operator = torch_private.operator_named(name, "c10d")
        if operator is not None:
            # inference mode passes the keys of autograd by, but not this one
            library.impl(name, partial(_look_inside, operator), "BackendSelect", with_keyset=True)
    return [library]


def _look_inside(func: Any, keys: Any, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    if any(isinstance(value, SimTensor) for value in flat(args)):
        return run_foreign(operator_of(func), args, kwargs)
    return torch_private.go_on_below("BackendSelect", func, keys, args, kwargs)


def _look_at_message(tensor: Any, group: Any) -> None:
    """Refuse a message of a batch before any is sent; the batch asks for the device's process group before its ops."""
    __tracebackhide__ = True
    if isinstance(tensor, SimTensor) and "c10d" not in _takers and not knows_device(group):
        refuse_communication("torch.distributed.P2POp")


def knows_device(group: Any) -> bool:
    """Does a process group, the default one for None, take tensors on the device? Ours says so of itself."""
    return bool(getattr(torch.distributed.group.WORLD if group is None else group, "takes_simulated_tensors", False))
