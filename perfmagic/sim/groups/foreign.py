"""Operators that are not torch's own arithmetic: collectives, and those of extensions and of users."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from perfmagic.sim import torch_private
from perfmagic.sim.operators import Operator, flat, operator_of
from perfmagic.sim.refusals import COMMUNICATION, refuse_communication, refuse_unknown_operator
from perfmagic.sim.tensor import SimTensor

# these take lists of lists, into which torch's dispatcher does not look for tensors of the device
_LISTS_OF_LISTS = ("allgather_", "allgather_coalesced_", "gather_", "reduce_scatter_", "scatter_")

ForeignHandler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_foreign_handlers: dict[str, ForeignHandler] = {}


def set_handler(namespace: str, handler: ForeignHandler | None) -> None:
    """Run all operators of a namespace on tensors of the device by handler(operator, args, kwargs).

    A process group that knows the device registers itself so. None: refuse these operators again.
    """
    if handler is None:
        _foreign_handlers.pop(namespace, None)
    else:
        _foreign_handlers[namespace] = handler


def run_foreign(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator by what was registered for it. Raises DeviceError where nothing was."""
    __tracebackhide__ = True
    handler = _foreign_handlers.get(op.namespace)
    if handler is not None:
        return handler(op.func, args, kwargs)
    if op.namespace in COMMUNICATION:
        refuse_communication(op.name)
    if op.composite:
        return op.func.decompose(*args, **kwargs)
    kernel = torch_private.kernel_for_any_device(op.func)
    if kernel is None:
        refuse_unknown_operator(op.name)
    return kernel(*args, **kwargs)


def register_foreign() -> list[Any]:
    """Register kernels for collectives whose tensors the dispatcher does not see. Keep the result alive."""
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
    """Refuse a message of a batch before any is sent."""
    __tracebackhide__ = True
    if isinstance(tensor, SimTensor) and "c10d" not in _foreign_handlers and not knows_device(group):
        refuse_communication("torch.distributed.P2POp")


def knows_device(group: Any) -> bool:
    """Whether a process group takes tensors on the device; None for the default group."""
    return bool(getattr(torch.distributed.group.WORLD if group is None else group, "takes_simulated_tensors", False))
