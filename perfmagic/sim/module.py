"""torch.sim, what torch.cuda is to CUDA; how torch gets to know the device; autocast."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

import torch

from perfmagic.base.clock import VIRTUAL
from perfmagic.base.errors import DeviceError
from perfmagic.sim import copies, dispatch, launch, memory, random, refusals, streams, torch_private
from perfmagic.sim import device as devices
from perfmagic.sim.groups import foreign
from perfmagic.sim.operators import map_tree
from perfmagic.sim.tensor import FarTensor, SimTensor, install

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
        "synchronize": streams.synchronize,
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


class _Reducer(threading.local):
    """Whether this thread is making the reducer of DistributedDataParallel."""

    is_made = False


_reducer = _Reducer()


@contextmanager
def used_parameters_on_host() -> Iterator[None]:
    """A reducer made in the block keeps its map of used parameters in host memory, where the ranks reduce it.

    torch would copy the map to the device from pinned memory, for which it wants an allocator written in C++.
    """
    _reducer.is_made = True
    try:
        yield
    finally:
        _reducer.is_made = False


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
    if _reducer.is_made and dtype == torch.int32:  # the map alone has this type
        return torch.empty(size, dtype=dtype)
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
        message = "torch.load cannot place tensors on the simulated device"
        raise DeviceError(message, hint='load with map_location="cpu" and move the model or tensors with .to(device)')


def register(rebuild: Callable[..., Any]) -> list[Any]:
    """Tell torch of the device. Returns what has to stay alive for that.  rebuild: makes a tensor from its pickle."""
    install(dispatch.dispatch, to=copies.to, rebuild=rebuild, resize=launch.resize)
    torch_private.tell_lost_errors()
    torch_private.provide_peer_copies(copies.functions())
    torch_private.leave_nccl_alone(copies.is_ours)
    torch_private.apply_replicas_in_turn(lambda: bool(VIRTUAL))
    torch_private.make_reducers_in(used_parameters_on_host)
    torch_private.register_python_backend(devices.NAME, make_module())
    torch_private.take_lists_of(SimTensor, FarTensor)
    torch_private.refuse_loading(refusals.refuse_scripted)
    names = torch_private.host_kernels()
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for purpose, kernel in (("allocate", _empty), ("allocate_strided", _empty_strided), ("copy", _copy_from)):
        library.impl(names[purpose], kernel, "PrivateUse1")
    library.impl("tril_indices", _tril_indices, "PrivateUse1")  # of the factories only these consist of no others
    library.impl("triu_indices", _triu_indices, "PrivateUse1")
    # given a kernel here, an operator that torch takes apart comes whole: its out= variants are wrong for a class
    for name in torch_private.overloads_with_out("linalg_matrix_rank"):
        library.impl(name, partial(_whole, torch_private.operator_named(name)), "PrivateUse1")
    # before autograd, which would take it apart first
    for name in ("ctc_loss.Tensor", "scaled_dot_product_attention", "_fused_rms_norm"):
        library.impl(name, partial(_whole, torch_private.operator_named(name)), "AutogradPrivateUse1")
    library.impl("_local_scalar_dense", _item, "PrivateUse1")
    library.impl("_efficientzerotensor", _no_memory_zeros, "PrivateUse1")
    library.impl(names["pin"], copies.pinned_copy, "CPU")
    library.impl(names["is_pinned"], copies.is_tensor_pinned, "CPU")
    torch_private.allow_in_checkpoints(rebuild)
    torch.serialization.register_package(5, lambda _storage: None, _refuse_storage)  # before torch's own, from 10 on
    return [library, *_register_autocast(), *refusals.register_refusals(), *foreign.register_foreign()]


# torch.autocast("sim"): which operators take a lower precision, and which keep float32, as with CUDA.
# Source: torch/csrc autocast_mode.h, the lists for CUDA of 2.13, those of them that do not consist of others.

_AUTOCAST = "AutocastPrivateUse1"
_LOWER = (
    "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "matmul", "linear", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", "convolution", "prelu",
    "scaled_dot_product_attention", "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell",
)  # fmt: skip
_FLOAT32 = (
    "acos", "asin", "cosh", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh", "tan",
    "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm", "native_layer_norm",
    "group_norm", "nll_loss", "nll_loss2d", "cross_entropy_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
    "kl_div", "binary_cross_entropy_with_logits", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "prod",
    "sum", "sum.dim_IntList", "cdist", "norm.Scalar", "norm.ScalarOpt_dim", "dist",
)  # fmt: skip


def _register_autocast() -> list[Any]:
    """Teach autocast the device. Returns what has to stay alive for that."""
    everything: Any = torch.library.Library("_", "IMPL")  # type: ignore[no-untyped-call]
    everything.fallback(torch.library.fallthrough_kernel, _AUTOCAST)
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for names, wanted in ((_LOWER, _lower), (_FLOAT32, _float32)):
        for name in names:
            operator = torch_private.operator_named(name)
            if operator is not None:
                library.impl(name, _casting(operator, wanted), _AUTOCAST)
    library.impl("binary_cross_entropy", _refuse_cross_entropy, _AUTOCAST)
    return [everything, library]


def _refuse_cross_entropy(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(
        "binary_cross_entropy is unsafe under autocast: its values overflow. "
        "Use binary_cross_entropy_with_logits, which takes what was there before the sigmoid."
    )


def _lower() -> torch.dtype:
    return torch.get_autocast_dtype("sim")


def _float32() -> torch.dtype:
    return torch.float32


def _casting(operator: Any, wanted: Callable[[], torch.dtype]) -> Callable[..., Any]:
    def cast_and_call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        dtype = wanted()

        def cast(t: torch.Tensor) -> torch.Tensor:
            other = t.is_floating_point() and t.dtype not in (dtype, torch.float64) and t.device.type == "sim"
            return t.to(dtype) if other else t

        with torch.autocast("sim", enabled=False):
            return operator(*map_tree(args, torch.Tensor, cast), **map_tree(kwargs, torch.Tensor, cast))

    return cast_and_call
