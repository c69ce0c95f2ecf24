"""torch.sim: what torch.cuda is to CUDA."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from perfmagic.capture.devices import torch_private
from perfmagic.capture.devices.sim import (
    autocast,
    dispatch,
    foreign,
    launch,
    memory,
    moving,
    peers,
    pinned,
    random,
    refusals,
    streams,
    waits,
)
from perfmagic.capture.devices.sim import device as devices
from perfmagic.capture.devices.sim.tensor import install
from perfmagic.errors import DeviceError

aten = torch.ops.aten


class ChosenDevice:
    """torch.sim.device(1): a with block on a device."""

    def __init__(self, device: Any) -> None:
        self._index = devices.sim_device(devices.device_of(device)).index

    def __enter__(self) -> None:
        self._before = devices.current_index()
        devices.choose(self._index)

    def __exit__(self, *exc_info: object) -> None:
        devices.choose(self._before)


def _set_device(device: Any) -> None:
    devices.choose(devices.device_of(device))


def make_module() -> types.ModuleType:
    """The module torch.sim."""
    module = types.ModuleType("torch.sim", "The simulated device: streams, events, random numbers.")
    members: dict[str, Any] = {
        "Stream": streams.Stream,
        "Event": streams.Event,
        "stream": streams.stream,
        "StreamContext": streams.stream,
        "current_stream": streams.current_stream,
        "default_stream": streams.default_stream,
        "set_stream": streams.set_stream,
        "synchronize": waits.synchronize,
        "_sleep": launch.sleep,
        "manual_seed": random.manual_seed,
        "manual_seed_all": random.manual_seed_all,
        "get_rng_state": random.get_rng_state,
        "set_rng_state": random.set_rng_state,
        "get_rng_state_all": random.get_rng_state_all,
        "set_rng_state_all": random.set_rng_state_all,
        "seed": random.seed,
        "seed_all": random.seed_all,
        "initial_seed": random.initial_seed,
        "device": ChosenDevice,
        "set_device": _set_device,
        "current_device": devices.current_index,
        "device_count": devices.device_count,
        "get_device_name": lambda _device=None: "simulated device",
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_initialized": True,  # torch.utils.checkpoint keeps random states only where it finds this
        **memory.functions(devices.memory_of),
        "_is_in_bad_fork": devices.forked,
        "get_amp_supported_dtype": lambda: [torch.bfloat16, torch.float16],
    }
    vars(module).update(members)
    return module


def _empty(  # torch passes all of these; layout and pin_memory mean nothing here
    size: Any,
    *,
    dtype: Any = None,
    layout: Any = None,  # noqa: ARG001
    device: Any = None,
    pin_memory: Any = None,  # noqa: ARG001
    memory_format: Any = None,
) -> Any:
    __tracebackhide__ = True
    kwargs = {"dtype": dtype, "device": device, "memory_format": memory_format}
    return dispatch.dispatch(aten.empty.memory_format, (size,), kwargs)


def _empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    layout: Any = None,  # noqa: ARG001
    device: Any = None,
    pin_memory: Any = None,  # noqa: ARG001
) -> Any:
    __tracebackhide__ = True
    return dispatch.dispatch(aten.empty_strided.default, (size, stride), {"dtype": dtype, "device": device})


def _tril_indices(*args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    return dispatch.dispatch(aten.tril_indices.default, args, kwargs)


def _triu_indices(*args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    return dispatch.dispatch(aten.triu_indices.default, args, kwargs)


def _copy_from(source: Any, target: Any, non_blocking: bool = False) -> Any:
    __tracebackhide__ = True
    return dispatch.dispatch(aten.copy_.default, (target, source, non_blocking), {})


def _whole(operator: Any, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    return dispatch.dispatch(operator, args, kwargs)


def _item(t: Any) -> Any:
    """torch.tensor([t]) leaves out the class of t, and with it the usual way here."""
    __tracebackhide__ = True
    return dispatch.dispatch(aten._local_scalar_dense.default, (t,), {})


def _no_memory_zeros(size: Any, **options: Any) -> Any:
    __tracebackhide__ = True
    return dispatch.dispatch(aten._efficientzerotensor.default, (size,), options)


def _refuse_storage(_storage: Any, location: str) -> None:
    """torch.load(…, map_location="sim") would make torch allocate memory that the device does not have, and crash."""
    if location.split(":", maxsplit=1)[0] == devices.NAME:
        raise DeviceError(
            "torch.load cannot place tensors on the simulated device",
            hint='load with map_location="cpu" and move the model or tensors with .to(device)',
        )


def register(rebuild: Callable[..., Any]) -> list[Any]:
    """Tell torch of the device. Returns what has to stay alive for that.  rebuild: makes a tensor from its pickle."""
    install(dispatch.dispatch, moving.to, rebuild)
    torch_private.tell_lost_errors()
    torch_private.provide_peer_copies(peers.functions())
    torch_private.leave_nccl_alone(peers.is_ours)
    torch_private.register_python_backend(devices.NAME, make_module())
    names = torch_private.host_kernels()
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for purpose, kernel in (("allocate", _empty), ("allocate_strided", _empty_strided), ("copy", _copy_from)):
        library.impl(names[purpose], kernel, "PrivateUse1")
    library.impl("tril_indices", _tril_indices, "PrivateUse1")  # of the factories only these consist of no others
    library.impl("triu_indices", _triu_indices, "PrivateUse1")
    # given a kernel here, an operator that torch takes apart comes whole: its out= variants are wrong for a class
    for name in torch_private.overloads_with_out("linalg_matrix_rank"):
        library.impl(name, partial(_whole, torch_private.operator_named(name)), "PrivateUse1")
    library.impl("_local_scalar_dense", _item, "PrivateUse1")
    library.impl("_efficientzerotensor", _no_memory_zeros, "PrivateUse1")
    library.impl(names["pin"], pinned.pinned_copy, "CPU")
    library.impl(names["is_pinned"], pinned.is_pinned, "CPU")
    torch_private.allow_in_checkpoints(rebuild)
    torch.serialization.register_package(5, lambda _storage: None, _refuse_storage)  # before torch's own, from 10 on
    return [library, *autocast.register(), *refusals.register(), *foreign.register()]
