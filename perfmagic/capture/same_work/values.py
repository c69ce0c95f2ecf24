"""What a call gave, as plain values on the host: copied when the clock has stopped, compared later.

Only exact types count as plain: what a subclass does when somebody looks at it may be the work itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfmagic.base.imported import torch_if_imported

MOST_ELEMENTS = 2**16  # of each tensor: 0.2 ms to copy and to compare; every n-th, from a place that nobody knows
DEEPEST = 6  # containers in containers
_SCALARS = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True, eq=False)
class Leaf:
    """One value in what a call gave.

    kind: "tensor", "array", "number", "text", or the name of a type whose values nobody can know without running it.
    values: numbers in their own precision; None where there are none to look at.  dtype: as torch or numpy calls it.
    eps: of a floating type, else 0.  storage: where it lies, 0 where that has no address.
    """

    kind: str
    values: Any
    shape: tuple[int, ...] = ()
    dtype: str = ""
    device: str = "cpu"
    eps: float = 0.0
    gradient: bool = False
    storage: int = 0

    @property
    def plain(self) -> bool:
        """Whether its values are known."""
        return self.kind in ("tensor", "array", "number", "text")


def leaves(value: Any, seed: int = 0) -> list[Leaf]:
    """All values in what a call gave, in one order.  seed: which elements of large tensors are copied."""
    return list(_leaves(value, seed, 0))


def _leaves(value: Any, seed: int, depth: int) -> Iterator[Leaf]:
    inner = _inner(value) if depth < DEEPEST else None
    if inner is None:
        yield _leaf(value, seed)
        return
    for each in inner:
        yield from _leaves(each, seed, depth + 1)


def _inner(value: Any) -> list[Any] | None:
    """What a container holds, by the method of Python's own class; None for what is none."""
    if isinstance(value, (list, tuple)):
        return list(list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value))
    if isinstance(value, dict):
        return [item for _, item in sorted(dict.items(value), key=lambda pair: str(pair[0]))]
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if type(value) in _SCALARS or is_tensor(value) or isinstance(value, (np.ndarray, np.generic)) or _is_opaque(value):
        return None
    return [type(value).__qualname__, *vars(value).values()] if vars_of(value) else None


def vars_of(value: Any) -> dict[str, Any]:
    """The attributes of an object that has them in a plain dict."""
    try:
        return {**object.__getattribute__(value, "__dict__")}
    except AttributeError:
        return {}


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of any class."""
    torch = torch_if_imported()
    return torch is not None and hasattr(torch, "Tensor") and isinstance(value, torch.Tensor)


def is_plain_tensor(value: Any) -> bool:
    """Whether it is a tensor of a class that computes when it is called, not when it is read."""
    return is_tensor(value) and f"{type(value).__module__}.{type(value).__name__}" in _PLAIN_TENSORS


_PLAIN_TENSORS = ("torch.Tensor", "torch.nn.parameter.Parameter", "perfmagic.sim.tensor.SimTensor")


def _is_opaque(value: Any) -> bool:
    """Whether it does something when it is asked: functions, generators, futures, threads."""
    asked = callable(value) or hasattr(type(value), "__next__") or inspect.isawaitable(value)
    return bool(asked or {"__array__", "__torch_function__", "result", "join"} & set(dir(type(value))))


def _leaf(value: Any, seed: int) -> Leaf:
    if is_plain_tensor(value):
        return _tensor(value, seed)
    if type(value) is np.ndarray:
        flat = value.reshape(-1)
        start, step = _every(flat.size, seed)
        eps = float(np.finfo(value.dtype).eps) if value.dtype.kind in "fc" else 0.0
        at = value.__array_interface__["data"][0]
        return Leaf("array", flat[start::step].copy(), value.shape, str(value.dtype), eps=eps, storage=at)
    if isinstance(value, np.generic) or type(value) in (bool, int, float, complex):
        array = np.asarray(value).reshape(-1)
        if array.dtype == object:  # a whole number beyond 64 bits
            return Leaf("text", repr(value))
        return Leaf("number", array, (), str(array.dtype), eps=2.0**-52 if array.dtype.kind in "fc" else 0.0)
    if type(value) in _SCALARS:
        return Leaf("text", value)
    return Leaf(type(value).__name__, None)


def _tensor(tensor: Any, seed: int) -> Leaf:
    torch: Any = torch_if_imported()
    some = tensor.detach()
    if some.layout != torch.strided:
        some = some.to_dense()
    if some.is_quantized:
        some = some.dequantize()
    flat = some.resolve_conj().resolve_neg().reshape(-1)
    start, step = _every(flat.numel(), seed)
    host = flat[start::step].to("cpu", copy=True)
    kind = tensor.dtype
    floating = kind.is_floating_point or kind.is_complex
    if kind.is_floating_point and torch.finfo(kind).bits < 32:
        host = host.float()  # numpy has no bfloat16, and adds up too coarsely in half
    return Leaf(
        "tensor", host.numpy(), tuple(tensor.shape), str(kind).removeprefix("torch."), str(tensor.device.type),
        float(torch.finfo(kind).eps) if floating else 0.0, bool(tensor.requires_grad), address(tensor),
    )  # fmt: skip


def address(tensor: Any) -> int:
    """Where a tensor's memory begins; 0 where it has no address, as on the simulated device."""
    try:
        return int(tensor.untyped_storage().data_ptr()) if tensor.numel() else 0
    except (RuntimeError, NotImplementedError):
        return 0


def _every(n: int, seed: int) -> tuple[int, int]:
    """The first element that is looked at, and every how many-th."""
    step = max(1, n // MOST_ELEMENTS)
    return seed % step, step
