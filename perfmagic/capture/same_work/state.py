"""The outside state that functions read, and whether a call changes it: parameters, gradients, buffers."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from types import FunctionType
from typing import Any

import numpy as np

from perfmagic.base.imported import torch_if_imported
from perfmagic.capture.same_work.contents import SCALARS, is_tensor, looked_at, vars_of
from perfmagic.capture.same_work.drawn import addresses, copied, size_bytes, write_back
from perfmagic.capture.same_work.values import is_plain_tensor

DEEPEST, MOST = 3, 2000  # nesting depth, and objects visited
MOST_KEPT_BYTES = 512_000_000  # of one function
SOME = 64  # items of a container
MOST_BYTES = 65_536  # of an array or tensor, at its beginning and its end
_CONTAINERS = (list, deque, set, dict)


class State:
    """Tensors and arrays that one function reaches by its names.

    held: containers and objects that it reaches, for their plain values and lengths.
    learned: parameters, buffers and tensors with requires_grad: the work of a training step, while others are scratch.
    """

    def __init__(self, values: Mapping[str, object]) -> None:
        self.found: dict[int, tuple[str, Any]] = {}
        self.learned: set[int] = set()
        self.held: dict[int, tuple[str, Any]] = {}
        self._kept: list[tuple[Any, Any]] = []
        for name, value in values.items():
            looked_at(partial(self._note, name, value, 0), None)

    def marks(self) -> dict[int, tuple[Any, ...]]:
        """A fingerprint of each tensor or array."""
        return {key: _mark(value) for key, (_, value) in self.found.items()}

    def changed(self, before: Mapping[int, tuple[Any, ...]], out: object) -> set[int]:
        """Those that changed, except for gradients that are also returned: these are results."""
        changed = {key for key, mark in self.marks().items() if before.get(key) != mark}
        returned = {*addresses(out)}
        return {
            key
            for key in changed
            if (grad := getattr(value := self.found[key][1], "grad", None)) is None
            or not returned & {*addresses(grad)}
            or _mark(value)[:1] != before.get(key, ())[:1]
        }

    def holds(self) -> dict[int, tuple[int, object]]:
        """The length of each container, and some of its plain values."""
        return {key: _holding(value) for key, (_, value) in self.held.items()}

    def sizes(self) -> dict[int, int]:
        """How much each container holds."""
        return {key: len(value) for key, (_, value) in self.held.items() if isinstance(value, _CONTAINERS)}

    def traces(self) -> dict[int, object]:
        """Fingerprints of containers and tensors, which also change with new objects in them."""
        return {**self.marks(), **{key: _objects(value) for key, (_, value) in self.held.items()}}

    def keep(self, before: State, marks: Mapping[int, tuple[Any, ...]], without: object) -> None:
        """Remember the values that one call has changed or made.

        before, marks: from before that call.  without: arguments, whose values are replaced.
        """
        given = {*addresses(without)}
        changed = [
            value
            for key, (_, value) in self.found.items()
            if _mark(value)[:1] != marks.get(key, (None,))[:1] and not given & {*addresses(value)}
        ]
        if before.found and sum(map(size_bytes, changed)) <= MOST_KEPT_BYTES:
            self._kept = [(value, copied(value)) for value in changed]

    def restore(self) -> None:
        """Restore the values that keep() remembered, so that calls of each function start from the same state."""
        for value, was in self._kept:
            write_back(value, was)

    def name(self, key: int) -> str:
        """The name by which the function reaches one."""
        return (self.found.get(key) or self.held[key])[0]

    def _note(self, name: str, value: Any, depth: int) -> None:
        if len(self.found) >= MOST:
            return
        if is_tensor(value) or type(value) is np.ndarray:
            self.found.setdefault(id(value), (name, value))
            if is_tensor(value) and value.requires_grad and value.is_leaf:
                self.learned.add(id(value))
            return
        if not self._note_of_torch(name, value) and depth < DEEPEST and id(value) not in self.held:
            if _is_held(value):
                self.held[id(value)] = name, value
            for each in _within(value):
                self._note(name, each, depth + 1)

    def _note_of_torch(self, name: str, value: Any) -> bool:
        torch = torch_if_imported()
        if torch is not None and hasattr(torch, "nn") and isinstance(value, torch.nn.Module):
            for part in (*value.parameters(), *value.buffers()):
                self.found.setdefault(id(part), (name, part))
                self.learned.add(id(part))
            return True
        if torch is not None and hasattr(torch, "optim") and isinstance(value, torch.optim.Optimizer):
            for each in (*value.param_groups, *value.state.values()):
                self._note(name, each, DEEPEST - 2)
            return True
        return False


def _is_held(value: Any) -> bool:
    if type(value) in (*_CONTAINERS, Counter, defaultdict):
        return True
    return type(value).__module__ != "builtins" and not isinstance(value, type) and bool(vars_of(value))


def _holding(value: Any) -> tuple[int, object]:
    if isinstance(value, (list, deque, set)):
        some = [*islice(value, SOME), *([] if isinstance(value, set) else [*value][-SOME:])]
        return len(value), [each for each in some if type(each) in SCALARS]
    items = _items(value)
    return len(items), [each for each in islice(dict.values(items), SOME) if type(each) in SCALARS]


def _objects(value: Any) -> frozenset[int]:
    items = _items(value)
    return frozenset(map(id, dict.values(items) if isinstance(items, dict) else items))


def _items(value: Any) -> Any:
    return value if isinstance(value, _CONTAINERS) else vars_of(value)


def _within(value: Any) -> Iterator[Any]:
    if type(value) is FunctionType:
        yield from read_by(value)
    elif isinstance(value, dict):
        yield from [*dict.values(value)][:MOST]
    elif isinstance(value, (list, tuple)):
        yield from [*value][:MOST]
    elif not isinstance(value, type) and type(value).__module__ != "builtins":
        yield from [*vars_of(value).values()][:MOST]


def read_by(function: FunctionType) -> list[Any]:
    """The globals and closure variables that a function reads."""
    found = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # a variable without a value yet
            found.append(cell.cell_contents)
    around = function.__globals__
    return found + [around[name] for name in function.__code__.co_names if name in around]


def read_around(function: object) -> dict[str, Any]:
    """These variables by number; empty for anything but a plain function."""
    return {str(i): v for i, v in enumerate(read_by(function))} if type(function) is FunctionType else {}


def _mark(value: Any) -> tuple[Any, ...]:
    if is_tensor(value):
        try:
            grad = value.grad if value.is_leaf else None
            seen = value._version, _content(value)
            return (seen, None if grad is None else (id(grad), grad._version))
        except RuntimeError:  # in inference mode, which counts no versions
            return ()
    return _sums(value.reshape(-1)) if value.dtype.kind in "biufcmM" else ()


def _content(tensor: Any) -> tuple[int, ...]:
    """Checksums of a tensor on the CPU: fused optimizers write without incrementing the version."""
    torch: Any = torch_if_imported()
    if not is_plain_tensor(tensor) or tensor.device.type != "cpu" or tensor.layout != torch.strided:
        return ()
    return _sums(tensor.detach().view(-1).view(torch.uint8).numpy()) if tensor.is_contiguous() else ()


def _sums(flat: Any) -> tuple[int, ...]:
    """Checksums of an array's beginning and end."""
    flat = flat.view(np.uint8) if flat.flags.c_contiguous else flat[:1000]
    return zlib.crc32(flat[:MOST_BYTES].tobytes()), zlib.crc32(flat[-MOST_BYTES:].tobytes())
