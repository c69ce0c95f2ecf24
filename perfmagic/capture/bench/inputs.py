"""Does the first call change what later ones find? A list that is sorted in place is sorted when they come.

What a body reads is looked at before its first call and after it. A look keeps nothing alive, runs no code of the user,
and takes a millisecond an object at most: some items of a container, some values of an array, the count of changes that
a tensor keeps.
"""

from __future__ import annotations

import ast
import functools
import inspect
import mmap
import sys
import types
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

MOST_ITEMS = 10_000  # of a container, or of an array in each of its directions together; 1 ms


class Inputs:
    """What some names stood for when it was made."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._seen = {name: mark for name, value in values.items() if (mark := _mark(value)) is not None}

    def changed(self, values: Mapping[str, object]) -> frozenset[str]:
        """The names whose objects have changed since, or that stand for another one now."""
        return frozenset(name for name, mark in self._seen.items() if name in values and _mark(values[name]) != mark)


def names_in(source: str) -> frozenset[str] | None:
    """All names in code, None for code that Python alone cannot read.  source: without magics."""
    try:
        return frozenset(node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))
    except (SyntaxError, ValueError):
        return None


def read_by_code(source: str, namespace: Mapping[str, object]) -> dict[str, object]:
    """Names that code reads before it assigns them, and what they stand for.  source: without magics."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    names: dict[str, bool] = {}  # whether it was read first
    for statement in tree.body:
        inside = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        for node in sorted(inside, key=lambda node: isinstance(node.ctx, ast.Store)):
            names.setdefault(node.id, not isinstance(node.ctx, ast.Store))
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            names[statement.target.id] = True
    return {name: namespace[name] for name, read in names.items() if read and name in namespace}


def read_by_function(body: Any) -> dict[str, object]:
    """Names that a function reads from around it, and what they stand for; its arguments where it is a partial, and its
    object where it is a method of one.
    """
    given: dict[str, object] = {}
    while type(body) is functools.partial:
        given |= {f"argument {i}": value for i, value in enumerate(body.args, 1)} | body.keywords
        body = body.func
    if type(body) in (types.MethodType, types.BuiltinMethodType) and not inspect.ismodule(body.__self__):
        given["its object"] = body.__self__
    if type(body) is types.MethodType:
        body = body.__func__
    if type(body) is types.FunctionType:
        with suppress(ValueError):  # a variable around it that has no value yet
            around = inspect.getclosurevars(body)
            given = {**around.globals, **around.nonlocals, **given}
    return given


def _mark(value: Any) -> tuple[Any, ...] | None:
    """What tells a changed object, or another one, from the same; None for what is not looked at."""
    try:
        look = _LOOKS.get(type(value)) or _look_of_arrays(type(value))
        found = look(value) if look is not None else None
    except Exception:  # noqa: BLE001 - another thread changes it, or it is of a kind that cannot be looked at so
        return None
    return None if found is None else (id(value), found)


def _look_of_arrays(kind: type) -> Callable[[Any], object] | None:
    """Exact types only: what a subclass does when it is looked at is not to be found here."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray:
        return _some_of_array
    if torch is not None and kind in (torch.Tensor, torch.nn.Parameter):
        return lambda tensor: tensor._version  # raises for tensors of inference mode, which keep no count
    return None


def _some_of_list(items: list[Any]) -> object:
    return len(items), [id(item) for item in items[:: len(items) // MOST_ITEMS + 1]]


def _some_of_dict(items: dict[Any, Any]) -> object:
    return len(items), [(id(key), id(value)) for key, value in islice(items.items(), MOST_ITEMS)]


def _some_of_others(items: Any) -> object:
    return len(items), [id(item) for item in islice(items, MOST_ITEMS)]


def _some_of_array(array: Any) -> object:
    base = array
    while base is not None:
        if isinstance(base, mmap.mmap):  # reading it would be what the first call takes time for
            return None
        base = getattr(base, "base", None)
    if array.dtype.kind not in "biufcmM" or not array.ndim or not array.size:
        return None
    side = max(1, int(MOST_ITEMS ** (1 / array.ndim)))
    some = array[tuple(slice(None, None, max(1, n // side)) for n in array.shape)]
    return array.shape, zlib.crc32(some.tobytes())


_LOOKS: dict[type, Callable[[Any], object]] = {
    list: _some_of_list,
    dict: _some_of_dict,
    set: _some_of_others,
    deque: _some_of_others,
    bytearray: _some_of_others,
}
