"""What the simulated device refuses to do: an op that no kernel ran must not hand out a result."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from perfmagic.base.errors import DeviceError
from perfmagic.sim import torch_private
from perfmagic.sim.operators import Operator

TORCH_ARITHMETIC = ("aten", "prims")  # their schemas are true: what is written, and what is an alias of what
COMMUNICATION = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem")
# torch's dispatch keys for tensors of the device that are no plain memory with sizes and strides
_KEYS_WITHOUT_STRIDES = {
    "SparsePrivateUse1": "sparse",
    "SparseCsrPrivateUse1": "sparse",
    "QuantizedPrivateUse1": "quantized",
    "NestedTensorPrivateUse1": "nested",
}
_QUANTIZED_DTYPES = {torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4}
_QUANTIZED = ("aten::quantize_", "aten::_make_per_tensor_quantized", "aten::_make_per_channel_quantized")
_NESTED = ("aten::_nested", "aten::nested", "aten::to_padded_tensor")


def refuse_communication(name: str) -> NoReturn:
    """Refuse a collective or message: gloo and the others read host memory before the stream has filled it."""
    raise DeviceError(
        f"{name} cannot use tensors on the simulated device: this process group does not wait for its streams",
        hint='make the group with torch.distributed.init_process_group("sim"); with another one, copy the tensors with '
        ".cpu(), communicate, and copy the results back with .to(device)",
    )


def refuse_unknown_operator(name: str) -> NoReturn:
    """Refuse a custom operator without a kernel for this device."""
    raise DeviceError(
        f"{name} has no kernel for the simulated device",
        hint=f'torch.library.register_kernel("{name}", "sim", function) gives it one; without it, use CPU tensors',
    )


def refuse_address(what: str) -> NoReturn:
    """Refuse access from the host to memory of the device."""
    message = f"{what}: memory of the simulated device has no address that the host can use"
    raise DeviceError(message, hint="copy the tensor to host memory with .cpu() first")


def refuse_flat_sharding() -> NoReturn:
    """Refuse the older FSDP, which compares addresses of its tensors."""
    raise DeviceError(
        "FullyShardedDataParallel needs addresses of tensors, which the simulated device does not have",
        hint="torch.distributed.fsdp.fully_shard works here",
    )


def refuse_compiling() -> None:
    """Raise DeviceError where torch.compile asks: it has no code generator for this device."""
    torch_private.refuse_while_compiling(
        "torch.compile cannot compile code for the simulated device",
        'call the function without torch.compile, or compile it for the CPU: device = perfmagic.device("cpu")',
    )


def refuse_scripted(place: Any) -> None:
    """Raise DeviceError for torch.jit.load(map_location="sim")."""
    if isinstance(place, (str, torch.device)) and str(place).partition(":")[0] == "sim":
        raise DeviceError(
            "torch.jit.load cannot place a module on the simulated device",
            hint='load with map_location="cpu" and run it on the CPU; or move the Python module with .to(device), load '
            "its load_state_dict(loaded.state_dict()), and script it there with torch.jit.script",
        )


def refuse_overlap() -> NoReturn:
    """Raise RuntimeError, as torch does, for a write to a tensor of which several elements are one in memory."""
    raise RuntimeError(
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation."
    )


def check_plain(t: torch.Tensor, name: str) -> None:
    """Raise DeviceError for a result or an argument that is sparse, quantized, nested or opaque."""
    if t.is_nested or name.startswith(_NESTED):
        _refuse_layout("nested", name)
    if t.layout is not torch.strided:
        _refuse_layout(str(t.layout).removeprefix("torch."), name)
    if t.is_quantized or t.dtype in _QUANTIZED_DTYPES or name.startswith(_QUANTIZED):
        _refuse_layout("quantized", name)


def is_refused(name: str) -> bool:
    """Whether an operator of that name makes a nested or quantized tensor, which torch must not even start."""
    return name.startswith((*_NESTED, *_QUANTIZED))


def refuse_name(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:  # noqa: ARG001 - as all handlers
    """Raise DeviceError for such an operator."""
    _refuse_layout("nested" if op.name.startswith(_NESTED) else "quantized", op.name)


def check_layout(name: str, kwargs: dict[str, Any]) -> None:
    """Raise DeviceError where another layout than the dense one is asked for."""
    layout = kwargs.get("layout")
    if layout is not None and layout is not torch.strided:
        _refuse_layout(str(layout).removeprefix("torch."), name)


def _refuse_layout(kind: str, name: str) -> NoReturn:
    message = f"{name}: the simulated device holds dense tensors only, not {kind} ones"
    raise DeviceError(message, hint="keep the tensor on the CPU, or make it dense there before it is moved")


def register_refusals() -> list[Any]:
    """Refuse what torch would do with such tensors without asking their class. Returns what has to stay alive."""
    library: Any = torch.library.Library("_", "IMPL")  # type: ignore[no-untyped-call]
    for key, kind in _KEYS_WITHOUT_STRIDES.items():

        def refuse(func: Any, *_: Any, kind: str = kind, **__: Any) -> NoReturn:
            _refuse_layout(kind, func.name())

        library.fallback(refuse, key)
    return [library]
