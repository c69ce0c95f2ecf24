"""Values of arguments and of state: copied, written in place, redrawn."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from perfmagic.base.imported import torch_if_imported
from perfmagic.capture.same_work.contents import is_tensor, looked_at
from perfmagic.capture.same_work.values import address

MOST_DRAWN, STRETCH = 2**16, 509  # values drawn one by one, and the length of repeated stretches; odd, as rows are even
MOST_NUDGES = 65_521  # a prime: repeated values get different nudges

MOST_TRIED, UNTIED, NUDGE = 4096, 0.99, 2.0**-5  # numbers, the share of distinct ones, the largest decrease
MOSTLY = 0.8  # share of booleans that stay true


def mapped(value: Any, how: Callable[[Any], Any]) -> Any:
    """A value with each array in it changed, also inside lists, tuples and dicts."""
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(mapped(each, how) for each in value)
    if type(value) is dict:
        return {key: mapped(each, how) for key, each in value.items()}
    return how(value) if is_array(value) else value


def into(old: Any, new: Any, factor: float = 1.0) -> Any:
    """The old object with the new values if they fit, else a copy.  factor: multiplies floating-point values.

    Never the new arrays themselves: a function, or the next write, would change the chosen values.
    """
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        old[:] = [into(a, b, factor) for a, b in zip(old, new, strict=True)]
        return old
    if type(old) is tuple and type(new) is tuple and len(old) == len(new):
        return tuple(into(a, b, factor) for a, b in zip(old, new, strict=True))
    if type(old) is dict and type(new) is dict and old.keys() == new.keys():
        old.update({key: into(old[key], value, factor) for key, value in new.items()})
        return old
    if not is_array(old) or type(old) is not type(new) or old.shape != new.shape or old.dtype != new.dtype:
        return mapped(new, partial(_copied_times, factor))
    if is_tensor(old):
        _write_tensor(old, new, factor)
    elif not old.flags.writeable:
        return _copied_times(factor, new)
    elif factor == 1 or not is_floating(new):
        np.copyto(old, new)
    else:
        np.multiply(new, factor, out=old)
    return old


def write_back(old: Any, was: Any) -> None:
    """Restore an array's values; a parameter keeps its gradient. A read-only numpy array is left alone."""
    if not is_tensor(old):
        if old.flags.writeable:
            np.copyto(old, was)
        return
    torch: Any = torch_if_imported()
    with torch.inference_mode(old.is_inference()), torch.no_grad():
        old.copy_(was)


def count_up(value: Any) -> None:
    """Increment the version counters of the tensors in a value, as a write does."""

    def of_one(array: Any) -> Any:
        if is_tensor(array) and not array.is_inference():
            torch_if_imported().autograd.graph.increment_version(array)  # type: ignore[union-attr] # it made the tensor
        return array

    mapped(value, of_one)


def _write_tensor(old: Any, new: Any, factor: float) -> None:
    torch: Any = torch_if_imported()
    with torch.no_grad():
        if factor == 1 or not is_floating(new):
            old.copy_(new)
        else:
            torch.mul(new, factor, out=old)
    if old.is_leaf and old.grad is not None:
        old.grad = None


def is_array(value: Any) -> bool:
    """Whether it is a tensor or a numpy array."""
    return is_tensor(value) or type(value) is np.ndarray


def is_floating(value: Any) -> bool:
    """Whether it is an array of floating-point numbers."""
    if is_tensor(value):
        return bool(value.dtype.is_floating_point) and value.layout == torch_if_imported().strided  # type: ignore[union-attr]
    return type(value) is np.ndarray and value.dtype.kind == "f"


def is_whole(value: Any) -> bool:
    """Whether it is an array of integers or booleans."""
    return is_array(value) and str(value.dtype).removeprefix("torch.").startswith(("int", "uint", "bool"))


def has_any(value: Any, kind: Callable[[Any], bool]) -> bool:
    """Whether any array in a value fulfils a predicate, such as is_floating."""
    found: list[bool] = []
    mapped(value, lambda array: found.append(kind(array)))
    return any(found)


def size_of(value: Any) -> int:
    """The number of elements; 1 for anything but an array."""
    return int(value.numel()) if is_tensor(value) else int(value.size) if is_array(value) else 1


def size_bytes(value: Any) -> int:
    """Bytes of the arrays in it."""
    if isinstance(value, (list, tuple)):
        return sum(map(size_bytes, value))
    if isinstance(value, dict):
        return sum(map(size_bytes, value.values()))
    if is_tensor(value):
        return int(value.numel() * value.element_size())
    return int(value.nbytes) if is_array(value) else 0


def copied(array: Any) -> Any:
    """A copy with its own memory, the same layout and the same requires_grad."""
    if not is_tensor(array):
        return array.copy()
    return array.detach().clone().requires_grad_(array.requires_grad)


def drawn_from(array: Any, n: int) -> Any:
    """n values drawn from those of an array, which keeps mean, deviation and range; around them if all are equal.

    Large arrays repeat stretches from random offsets: drawing each value takes as long as a large product.
    """
    if not is_tensor(array):
        flat, rng = array.reshape(-1), np.random.default_rng(secrets.randbits(64))
        drawn = flat[rng.integers(0, max(1, flat.size), min(n, MOST_DRAWN))]
        if flat.size > 1 and not (flat != flat[0]).any():
            drawn = (drawn + rng.standard_normal(len(drawn))).astype(array.dtype)
        if n > MOST_DRAWN:
            stretches = np.lib.stride_tricks.sliding_window_view(drawn, STRETCH)
            drawn = stretches[rng.integers(0, len(stretches), -(-n // STRETCH))].reshape(-1)[:n]
        return drawn
    torch: Any = torch_if_imported()
    flat, made = array.detach().reshape(-1), generator()
    drawn = flat[torch.randint(0, max(1, flat.numel()), (min(n, MOST_DRAWN),), generator=made).to(flat.device)].cpu()
    if flat.numel() > 1 and not bool((flat != flat[0]).any()):
        drawn = drawn + torch.randn(len(drawn), generator=made).to(drawn.dtype)
    if n > MOST_DRAWN:
        stretches = drawn.unfold(0, STRETCH, 1)
        drawn = stretches[torch.randint(0, len(stretches), (-(-n // STRETCH),), generator=made)].reshape(-1)[:n]
    return drawn.to(array.device)


def drawn_apart(array: Any, n: int) -> Any:
    """Like drawn_from(), but without ties if the array has none: each value is slightly decreased."""
    drawn, flat = drawn_from(array, n), array.reshape(-1)
    if not looked_at(lambda: _untied(flat), False):
        return drawn
    if not is_tensor(array):
        less = 1 - NUDGE * np.random.default_rng(secrets.randbits(64)).random(min(n, MOST_NUDGES))
        return (drawn * np.resize(less, n)).astype(array.dtype)
    torch: Any = torch_if_imported()
    less = 1 - NUDGE * torch.rand(min(n, MOST_NUDGES), generator=generator(), dtype=drawn.dtype)
    return drawn * less.repeat(-(-n // MOST_NUDGES))[:n].to(array.device)


def _untied(flat: Any) -> bool:
    """Whether nearly all numbers are distinct: drawing from them would add ties."""
    some = flat.detach()[:MOST_TRIED].cpu() if is_tensor(flat) else flat[:MOST_TRIED]
    n = len(some.unique() if is_tensor(some) else np.unique(some))
    return len(some) > 1 and n > UNTIED * len(some) and not bool((some == some.round()).all())


def read_through(value: Any) -> None:
    """Read all bytes of a value."""
    if isinstance(value, (bytes, bytearray)):
        zlib.crc32(value)
    elif isinstance(value, (list, tuple, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            read_through(each)
    elif is_array(value) and size_of(value):
        value.max() if is_floating(value) else None


def below(array: Any) -> Any:
    """For equal integers, numbers up to their value, sorted down; for equal booleans, a mix of both, sorted too.

    Lengths and masks therefore stay valid.
    """
    if not is_whole(array) or size_of(array) < 2 or bool((array != array.reshape(-1)[0]).any()):
        return array
    is_truth = str(array.dtype).endswith("bool")
    most, rng = int(array.reshape(-1)[0]), np.random.default_rng(secrets.randbits(64))
    if most < 1 and not is_truth:
        return array
    shape = tuple(array.shape)
    drawn = rng.integers(1, most + 1, shape) if most > 1 else (rng.random(shape) < MOSTLY).astype(int)
    ordered = np.sort(drawn, axis=-1)[..., ::-1].copy()
    ordered[..., 0] = max(1, most)
    ordered = ordered if most else 1 - ordered
    if not is_tensor(array):
        return ordered.astype(array.dtype)
    torch: Any = torch_if_imported()
    return torch.from_numpy(ordered).to(array.dtype).to(array.device)


def times(factor: float, array: Any) -> Any:
    """A floating-point array times a number; any other array unchanged."""
    if factor == 1 or not is_floating(array):
        return array
    return array.detach() * factor if is_tensor(array) else (array * factor).astype(array.dtype)


def _copied_times(factor: float, array: Any) -> Any:
    return copied(array) if factor == 1 else into(copied(array), array, factor)


def drawn_anew(array: Any) -> Any:
    """New values of the same shape; other than floating-point arrays stay."""
    return drawn_apart(array, size_of(array)).reshape(array.shape) if is_floating(array) else array


def alike(array: Any) -> Any:
    """An array filled with its mean."""
    if not is_floating(array):
        return array
    return array.detach() * 0 + array.detach().mean() if is_tensor(array) else array * 0 + array.mean(dtype=array.dtype)


def nearby(array: Any) -> Any:
    """The same values, each moved by at most one rounding."""
    if not is_floating(array):
        return array
    if not is_tensor(array):
        moves = 1 + np.finfo(array.dtype).eps * np.array([-1, 0, 1], array.dtype)
        return (array * drawn_from(moves, array.size).reshape(array.shape)).astype(array.dtype)
    torch: Any = torch_if_imported()
    moves = 1 + torch.finfo(array.dtype).eps * torch.tensor([-1.0, 0.0, 1.0], dtype=array.dtype)
    return array.detach() * drawn_from(moves, array.numel()).reshape(array.shape).to(array.device)


def addresses(value: Any) -> list[int]:
    """The addresses of the arrays in a result; id() for those without one."""
    found = []

    def note(array: Any) -> Any:
        place = address(array) if is_tensor(array) else array.__array_interface__["data"][0]
        found.append(place or id(array))
        return array

    if is_array(value):
        note(value)
    else:
        mapped(value, note)
    return found


def generator() -> Any:
    """A generator that no function can predict: torch's if torch is imported, else numpy's."""
    torch = torch_if_imported()
    if torch is None or not hasattr(torch, "Generator"):
        return np.random.default_rng(secrets.randbits(64))
    return torch.Generator().manual_seed(secrets.randbits(63))
