"""The state that a function carries from call to call: arrays, numbers and containers reachable from its names.

Scratch memory is the same after every call with the same values; a moving average, a history or an index is not.
"""

from __future__ import annotations

import functools
import pathlib
import sys
import types
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perfmagic.capture.same_work.contents import SCALARS, bytes_of, looked_at, vars_of
from perfmagic.capture.same_work.drawn import is_array
from perfmagic.capture.same_work.values import leaves
from perfmagic.capture.watch.user_code import UserCode

MOST, DEEPEST = 60_000, 12  # objects visited, and nesting depth
WHOLE = 2**20  # elements of arrays that are copied whole; larger ones are sampled
MOST_ELEMENTS = 2**26  # copied from all arrays together
MANY = 64  # numbers in a list that are compared as an array
FEW_COUNTS = 2  # integers that change: call counters
COUNTS = -1
LESS = 0.1  # of the state that the first carries on
_OUTSIDE = ("memmap", "mmap", "Connection")
_ITEMS = (list, tuple, set, frozenset, deque)
_PLAIN = (
    range,
    slice,
    type,
    types.BuiltinFunctionType,
    types.BuiltinMethodType,
    types.GetSetDescriptorType,
    np.generic,
)

Path = tuple[object, ...]


@dataclass
class Carried:
    """What one walk found, by the path from a name.

    unseen: names of objects that could not be fully visited.  outside: arrays that are files or databases, not scratch.
    """

    arrays: dict[Path, Any] = field(default_factory=dict)
    plain: dict[Path, Any] = field(default_factory=dict)  # a number or a text; for a container, its length
    unseen: set[str] = field(default_factory=set)
    outside: set[Path] = field(default_factory=set)

    def only_outside(self) -> Carried:
        """The state in files and databases."""
        return Carried({path: (self.arrays[path][0], ()) for path in self.outside if path in self.arrays})


@dataclass
class Change:
    """Between two walks.  shapes: counts of changed arrays by shape.  amount: changed elements and items."""

    shapes: Counter[tuple[int, ...]] = field(default_factory=Counter)
    amount: int = 0
    names: set[str] = field(default_factory=set)


class Walk:
    """Walks from what a function reads to all that it can change.  without: arguments, whose values are replaced."""

    def __init__(self, names: Mapping[str, object], without: Collection[object] = ()) -> None:
        self.found = Carried()
        self._seen, self._is_users, n = {*map(id, without)}, UserCode(), 0
        self._room = MOST_ELEMENTS
        self._todo: deque[tuple[Path, Any]] = deque(((name,), value) for name, value in names.items())
        while self._todo:
            path, value = self._todo.popleft()
            looked_at(functools.partial(self._look, path, value), None)
            if (n := n + 1) > MOST:
                self.found.unseen.update(str(path[0]) for path, _ in self._todo)
                return

    def _look(self, path: Path, value: Any) -> None:
        if type(value) in SCALARS:
            self.found.plain[path] = value
            return
        if id(value) in self._seen or isinstance(value, _PLAIN):
            self._look_at_class(path, value)
            return
        self._seen.add(id(value))
        if (content := bytes_of(value)) is not None:
            self._note(path, np.frombuffer(content, np.uint8), (len(content),))
            self.found.outside |= {path} if type(value).__name__ in _OUTSIDE else set()
        elif is_array(value):
            self._look_at_array(path, value)
        elif isinstance(value, types.ModuleType):
            return
        elif len(path) > DEEPEST:
            self.found.unseen.add(str(path[0]))
        elif type(value) is list and len(value) > MANY and {*map(type, value)} <= {int, float}:
            self._note(path, np.asarray(value), (len(value),))
        elif (held := self._held(value)) is not None:
            self.found.plain[(*path, "")] = len(held)
            self._todo.extend(((*path, key), each) for key, each in held[:MOST])
        else:
            self.found.unseen.add(str(path[0]))

    def look_at_files(self, paths: Collection[str]) -> None:
        """Add the contents of files, like those of memory maps."""
        for path in paths:
            with suppress(OSError):
                if (file := pathlib.Path(path)).is_file() and file.stat().st_size < self._room:
                    content = np.fromfile(path, np.uint8)
                    self._note((file.name,), content, content.shape)
                    self.found.outside.add((file.name,))

    def _look_at_class(self, path: Path, value: Any) -> None:
        """Add the attributes of a class of the user's."""
        if isinstance(value, type) and id(value) not in self._seen and self._of_user(value):
            self._todo.extend(((*path, k), v) for k, v in vars(value).items() if not k.startswith("__"))
        self._seen.add(id(value))

    def _of_user(self, kind: type) -> bool:
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        own = file is None and kind.__module__ == "__main__"
        return own or (file is not None and self._is_users(compile("", file, "exec")))

    def _look_at_array(self, path: Path, value: Any) -> None:
        flat = leaves(value, 0)[0].values if _size(value) > WHOLE or type(value) is not np.ndarray else value
        if flat is None or flat.dtype.kind == "O":
            self._todo.append(((*path, "of"), [*value.flat] if type(value) is np.ndarray else None))
            return
        self._note(path, flat, tuple(value.shape))
        if (grad := getattr(value, "grad", None)) is not None and getattr(value, "is_leaf", False):
            self._seen.add(id(grad))  # new in each step: its effect shows elsewhere

    def _note(self, path: Path, flat: Any, shape: tuple[int, ...]) -> None:
        self._room -= flat.size
        if self._room > 0:
            self.found.arrays[path] = np.array(flat, copy=True).reshape(-1), shape
        else:
            self.found.unseen.add(str(path[0]))

    def _held(self, value: Any) -> list[tuple[object, Any]] | None:
        """The contents of a container or an object, with keys; None if they cannot be read."""
        if isinstance(value, dict):
            return [(k if type(k) in SCALARS else n, v) for n, (k, v) in enumerate([*dict.items(value)])]
        if isinstance(value, _ITEMS):
            return [*enumerate(value)]
        if isinstance(value, (types.FunctionType, types.MethodType)):
            return [*self._of_function(value)]
        if isinstance(value, functools.partial):
            return [("called", value.func), ("given", value.args), ("named", value.keywords)]
        if type(value).__module__ == "torch._C":  # random numbers, scripts
            return None
        held = [*vars_of(value).items()]
        slots = [(name, member) for each in type(value).__mro__ for name, member in vars(each).items()]
        for name, member in slots:
            if type(member) is types.MemberDescriptorType:
                with suppress(AttributeError):
                    held.append((name, member.__get__(value)))
        return [*held, ("class", type(value))] if held or type(value).__module__ not in _opaque(value) else None

    def _of_function(self, value: Any) -> Iterator[tuple[object, Any]]:
        if isinstance(value, types.MethodType):
            yield "object", value.__self__
            value = value.__func__
        if type(value) is types.FunctionType and self._is_users(value.__code__):
            yield from around(value).items()


def around(function: types.FunctionType) -> dict[str, Any]:
    """The globals and closure variables of a function, its defaults and its attributes, by name."""
    found: dict[str, Any] = {}
    codes, names = [function.__code__], set[str]()
    while codes:  # nested functions, too
        code = codes.pop()
        names.update(code.co_names)
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    found.update((name, function.__globals__[name]) for name in names if name in function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # a variable without a value yet
            found[name] = cell.cell_contents
    defaults = enumerate(function.__defaults__ or ())
    return {**found, **{f"default {i}": v for i, v in defaults}, **(function.__kwdefaults__ or {}), **vars(function)}


def _opaque(value: Any) -> set[str]:
    """The module of a value whose contents may change unseen."""
    kind = type(value)
    changeless = kind.__module__ in (
        "builtins",
        "re",
        "datetime",
        "decimal",
        "fractions",
        "uuid",
        "_thread",
        "torch",
        "numpy",
    )
    return set() if changeless or kind.__module__ == "numpy.dtypes" else {kind.__module__}


def _size(array: Any) -> int:
    return int(np.prod(array.shape, dtype=np.int64))


def change(before: Carried, after: Carried, *, grows: bool = False) -> Change:
    """What changed.  grows: only what was added."""
    found = Change()
    for path, (now, shape) in after.arrays.items():
        was, had = before.arrays.get(path, (now[:0], ()))
        differ, added = _unequal(was, now), abs(now.size - was.size) if had != shape else 0
        if grows and added < differ - added:  # written anew: the text of numbers has another length each time
            continue
        n = added if grows or had != shape else differ
        if n and now.size > 1:
            found.shapes[shape] += 1
            found.amount += n
            found.names.add(str(path[0]))
    counts = 0
    for path, value in after.plain.items():
        n = _differs(path, before.plain.get(path), value, grows=grows or path not in before.plain)
        counts += n == COUNTS
        if n > 0:
            found.amount += n
            found.names.add(str(path[0]))
    found.amount += counts if counts > FEW_COUNTS else 0
    return found


def _unequal(was: Any, now: Any) -> int:
    """In how many places two arrays differ; NaN equals NaN."""
    n, more = min(was.size, now.size), abs(was.size - now.size)
    was, now = was[:n], now[:n]
    nan = np.isnan(was) & np.isnan(now) if now.dtype.kind in "fc" else False
    return int(more + np.count_nonzero((now != was) & ~np.asarray(nan)))


def _differs(path: Path, was: object, now: Any, *, grows: bool) -> int:
    """By how much a plain value differs, or a container grew; COUNTS for an integer."""
    if now == was and type(now) is type(was):
        return 0
    if path[-1:] == ("",):
        return max(0, int(now) - (was if isinstance(was, int) else 0))
    if grows:
        return 0
    return COUNTS if type(now) in (int, bool) else 1


def left_out(first: Change, other: Change) -> bool:
    """Whether the other carries far less state on than the first, or lacks arrays without a substitute."""
    if not first.amount:
        return False
    return other.amount < LESS * first.amount or bool(first.shapes - other.shapes and not other.shapes - first.shapes)


def names_of(body: Callable[..., Any], read: Mapping[str, object]) -> dict[str, object]:
    """All that a body can reach: names it reads, its defaults, its own object."""
    function = getattr(body, "__func__", body)
    found = dict(read)
    if type(function) is types.FunctionType:
        found.update(around(function))
    elif not isinstance(body, (types.BuiltinFunctionType, type)):
        found["its object"] = body
    return found
