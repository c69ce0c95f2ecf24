"""Does the first call change what later ones find? A list that is sorted in place is sorted when they come.

What a body reads is looked at before its first call and after it. Each look is shallow and short: the items of a
container, the bytes of an array or some of them, the count of changes that a tensor keeps.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

MOST_ITEMS = 1_000_000  # of a container; 5 ms
MOST_BYTES = 4_000_000  # of an array, taken in even steps; 4 ms
_CONTAINERS = (list, dict, set, bytearray, deque)


class Inputs:
    """What some names stood for when it was made."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._seen = {name: mark for name, value in values.items() if (mark := _mark(value)) is not None}

    def changed(self, values: Mapping[str, object]) -> tuple[str, ...]:
        """The names whose objects have changed since, or that stand for another one now."""
        return tuple(name for name, mark in self._seen.items() if name in values and not _same(mark, values[name]))


def read_by_code(source: str, namespace: Mapping[str, object]) -> dict[str, object]:
    """Names that code reads before it assigns them, and what they stand for.  source: without magics."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return {}
    names: dict[str, bool] = {}  # whether it was read first
    for statement in tree.body:
        inside = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        for node in sorted(inside, key=lambda node: isinstance(node.ctx, ast.Store)):
            names.setdefault(node.id, not isinstance(node.ctx, ast.Store))
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            names[statement.target.id] = True
    return {name: namespace[name] for name, read in names.items() if read and name in namespace}


def read_by_function(body: Callable[..., object]) -> dict[str, object]:
    """Names that a function reads from around it, and what they stand for; its arguments where it is a partial, and its
    object where it is a method of one.
    """
    given: dict[str, object] = {}
    while isinstance(body, functools.partial):
        given |= {f"argument {i}": value for i, value in enumerate(body.args, 1)} | body.keywords
        body = body.func
    owner = getattr(body, "__self__", None)  # of a method
    if owner is not None and not inspect.ismodule(owner):
        given["its object"] = owner
    with suppress(TypeError, ValueError):  # one without Python code, or with a cell that is still empty
        around = inspect.getclosurevars(body)
        given = {**around.globals, **around.nonlocals, **given}
    return given


def _mark(value: Any) -> tuple[Any, Any] | None:
    """What tells a changed object from the same one, None for what is not looked at."""
    if type(value) in _CONTAINERS:  # whatever a subclass does when it is looked at is not to be found here
        return (value, _items(value)) if len(value) <= MOST_ITEMS else None
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        with suppress(RuntimeError):  # tensors of inference mode keep no count
            return value, value._version
    elif numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "biufcmM" and value.size:
        return value, _checksum(numpy, value)
    return None


def _items(value: Any) -> list[int]:
    items = value.items() if isinstance(value, dict) else value
    flat = (part for item in items for part in item) if isinstance(value, dict) else iter(items)
    return [id(part) for part in flat]


def _checksum(numpy: Any, array: Any) -> int:
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    step = max(1, array.nbytes // MOST_BYTES)
    return zlib.crc32(numpy.ascontiguousarray(flat[::step]).view(numpy.uint8))


def _same(mark: tuple[Any, Any], now: object) -> bool:
    before, seen = mark
    found = _mark(now) if before is now else None
    return found is not None and found[1] == seen
