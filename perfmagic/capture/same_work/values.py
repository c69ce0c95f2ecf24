"""The results of a call as plain values on the host: copied after the clock has stopped, compared later.

Only exact types count as plain: a subclass may do the work itself when it is read.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfmagic.base.imported import sim_loaded, torch_if_imported
from perfmagic.capture.same_work.contents import SCALARS, contents, is_tensor, looked_at, text_of

MOST_ELEMENTS = 2**16  # of each tensor: 0.2 ms to copy and to compare; every n-th, from an unpredictable offset
DEEPEST = 100  # containers in containers
ONE_BY_ONE = 16  # numbers in a list; longer ones are compared as arrays


@dataclass(frozen=True, eq=False)
class Leaf:
    """One value in the result of a call.

    kind: "tensor", "array", "number", "text", or the name of a type whose values cannot be read without running its
    code.  values: numbers in their own precision; None if there are none to compare.  dtype: as torch or numpy calls
    it.  eps: of a floating-point type, else 0.  storage: its address, 0 if it has none; id() if it is not plain.
    layout: how a tensor is stored, "" for strided.  reads_later: whether its values are computed on reading, as a
    generator's are.
    """

    kind: str
    values: Any
    shape: tuple[int, ...] = ()
    dtype: str = ""
    device: str = "cpu"
    eps: float = 0.0
    gradient: bool = False
    storage: int = 0
    reads_later: bool = False
    layout: str = ""

    @property
    def plain(self) -> bool:
        """Whether its values could be read."""
        return self.kind in ("tensor", "array", "number", "text")


def leaves(value: Any, seed: int = 0) -> list[Leaf]:
    """All values in the result of a call, in a fixed order.  seed: which elements of large tensors are copied."""
    return list(_leaves(value, seed, 0))


def _leaves(value: Any, seed: int, depth: int, around: frozenset[int] = frozenset()) -> Iterator[Leaf]:
    if (numbers := numbers_in(value)) is not None:
        start, step = sampled_every(numbers.size, seed)
        eps = 2.0**-52 if numbers.dtype.kind == "f" else 0.0
        yield Leaf("number", numbers[start::step], numbers.shape, str(numbers.dtype), eps=eps)
        return
    if type(value) in (list, tuple) and len(value) > ONE_BY_ONE and {*map(type, value)} == {str}:
        yield Leaf("text", tuple(value))
        return
    if id(value) in around:
        yield Leaf("text", "around")  # a cycle
        return
    inner = looked_at(lambda: contents(value), None) if depth < DEEPEST else None
    if inner is None:
        unread = Leaf(type(value).__name__, None, storage=id(value))
        yield looked_at(lambda: _leaf(value, seed), unread)
        return
    around |= {id(value)}
    for each in inner:
        yield from _leaves(each, seed, depth + 1, around)


def numbers_in(value: Any) -> Any:
    """A long list of plain numbers as an array, since single numbers would take seconds; None for anything else."""
    if type(value) not in (list, tuple) or len(value) <= ONE_BY_ONE or not {*map(type, value)} <= {int, float}:
        return None
    array = np.asarray(value)
    return array if array.dtype != object else None


def shared(value: Any) -> int:
    """How many writable parts of a result share memory with another part."""
    found: list[int] = []
    overlaps = _parts(value, found, 0)
    return overlaps + len(found) - len(set(found))


def _parts(value: Any, found: list[int], depth: int) -> int:
    """Note the containers in a value; the number of arrays whose own elements share memory."""
    if is_plain_tensor(value):
        return int(value.layout == torch_if_imported().strided and _overlaps(value.shape, value.stride()))  # type: ignore[union-attr]
    if type(value) is np.ndarray:
        return int(_overlaps(value.shape, value.strides))
    if type(value) not in (list, tuple, dict, set) or depth >= DEEPEST:
        return 0
    if type(value) is not tuple:
        found.append(id(value))
    if numbers_in(value) is not None:
        return 0
    return sum(_parts(each, found, depth + 1) for each in (value.values() if type(value) is dict else [*value]))


def containers(value: Any) -> set[int]:
    """The lists, dicts and sets in a value."""
    found: list[int] = []
    _parts(value, found, 0)
    return {*found}


def _overlaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    return any(n > 1 and stride == 0 for n, stride in zip(shape, strides, strict=True))


def is_plain_tensor(value: Any) -> bool:
    """Whether it is a tensor of a class that computes when it is called, not when it is read.

    Checked by the class itself: another class can have the same name.
    """
    if not is_tensor(value):
        return False
    torch: Any = torch_if_imported()
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return True
    return sim_loaded() and f"{type(value).__module__}.{type(value).__name__}" == _SIMULATED


_SIMULATED = "perfmagic.sim.tensor.SimTensor"


def _leaf(value: Any, seed: int) -> Leaf:
    if is_plain_tensor(value):
        return _tensor(value, seed)
    if type(value) is np.ndarray:
        flat = value.reshape(-1)
        start, step = sampled_every(flat.size, seed)
        eps = float(np.finfo(value.dtype).eps) if value.dtype.kind in "fc" else 0.0
        at = value.__array_interface__["data"][0]
        return Leaf("array", flat[start::step].copy(), value.shape, str(value.dtype), eps=eps, storage=at)
    if isinstance(value, np.generic) or type(value) in (bool, int, float, complex):
        array = np.asarray(value).reshape(-1)
        if array.dtype == object:  # a whole number beyond 64 bits
            return Leaf("text", repr(value))
        return Leaf("number", array, (), str(array.dtype), eps=2.0**-52 if array.dtype.kind in "fc" else 0.0)
    if type(value) in SCALARS:
        return Leaf("text", value)
    if (text := text_of(value)) is not None:
        return Leaf("text", text)
    reads_later = hasattr(type(value), "__next__") or inspect.isawaitable(value)
    return Leaf(type(value).__name__, None, reads_later=reads_later, storage=id(value))


def _tensor(tensor: Any, seed: int) -> Leaf:
    from perfmagic.capture.devices.torch_private import is_copied_lazily

    torch: Any = torch_if_imported()
    if is_copied_lazily(tensor):
        return Leaf("lazy copy", None)
    some, layout = tensor.detach(), "" if tensor.layout == torch.strided else str(tensor.layout)
    if some.layout != torch.strided:
        some = some.to_dense()
    if some.is_quantized:
        some = some.dequantize()
    flat = some.resolve_conj().resolve_neg().reshape(-1)
    start, step = sampled_every(flat.numel(), seed)
    host = flat[start::step].to("cpu", copy=True)
    kind = tensor.dtype
    floating = kind.is_floating_point or kind.is_complex
    if kind.is_floating_point and torch.finfo(kind).bits < 32:
        host = host.float()  # numpy has no bfloat16, and sums too coarsely in half precision
    return Leaf(
        "tensor", host.numpy(), tuple(tensor.shape), str(kind).removeprefix("torch."), str(tensor.device.type),
        float(torch.finfo(kind).eps) if floating else 0.0, tensor.grad_fn is not None, address(tensor), layout=layout,
    )  # fmt: skip


def address(tensor: Any) -> int:
    """Where a tensor's memory begins; 0 where it has no address, as on the simulated device."""
    try:
        return int(tensor.untyped_storage().data_ptr()) if tensor.numel() else 0
    except (RuntimeError, NotImplementedError):
        return 0


def sampled_every(n: int, seed: int) -> tuple[int, int]:
    """The first sampled element, and the step."""
    step = max(1, n // MOST_ELEMENTS)
    return seed % step, step
