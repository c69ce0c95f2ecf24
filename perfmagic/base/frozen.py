"""Frozen dataclasses that take Python a quarter of the time to make: that was half of what importing this package took.

dataclasses.dataclass compiles six functions for a class. Only __init__ needs that; the others are closures.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - so that others may import it from here
else:

    def dataclass(cls: Any = None, /, *, frozen: bool = False, eq: bool = True, **more: Any) -> Any:
        """dataclasses.dataclass. A frozen class needs the same decorator as its bases."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq, **more)
        if not frozen or more.get("slots"):
            return dataclasses.dataclass(cls, frozen=frozen, eq=eq, **more)
        own = dict(vars(cls))
        dataclasses.dataclass(cls, init=False, eq=False, **{**more, "repr": False})
        fields = dataclasses.fields(cls)
        if "__init__" not in own:
            cls.__init__ = _init(cls, fields)
        if more.get("repr", True) and "__repr__" not in own:
            cls.__repr__ = _repr([field.name for field in fields if field.repr])
        if eq:
            if "__eq__" not in own:
                cls.__eq__ = _eq(_values([field.name for field in fields if field.compare]))
            if own.get("__hash__") is None:  # where a class has its own __eq__, Python sets __hash__ to None
                hashed = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
                cls.__hash__ = _hash(_values(hashed))
        names = frozenset(field.name for field in fields)
        cls.__setattr__, cls.__delattr__ = _refuses(cls, names)
        return cls


class _Absent:
    def __repr__(self) -> str:
        return "<factory>"


_ABSENT = _Absent()


def _init(cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> Callable[..., None]:
    """What sets the fields, in their order."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_absent": _ABSENT}
    positional: list[str] = ["self"]
    by_name: list[str] = []
    body: list[str] = []
    for field in fields:
        name, value, given = field.name, field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            known[f"_of_{name}"] = field.default_factory
            value = f"_of_{name}() if {name} is _absent else {name}" if field.init else f"_of_{name}()"
            given = f"{name}=_absent"
        elif field.default is not dataclasses.MISSING:
            known[f"_of_{name}"] = field.default
            given = f"{name}=_of_{name}"
        if field.init:
            (by_name if field.kw_only else positional).append(given)
        if field.init or field.default_factory is not dataclasses.MISSING:
            body.append(f"  _set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("  self.__post_init__()")
    given = ", ".join([*positional, *(["*", *by_name] if by_name else [])])
    head = f"def make({', '.join(known)}):\n def __init__({given}):\n"
    made: dict[str, Any] = {}
    exec(head + "\n".join(body or ["  pass"]) + "\n return __init__", vars(sys.modules[cls.__module__]), made)
    init: Callable[..., None] = made["make"](**known)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return init


def _repr(names: list[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def written(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return written


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What is compared of an instance."""
    return attrgetter(*names) if len(names) > 1 else lambda self: tuple(getattr(self, name) for name in names)


def _eq(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], bool]:
    return lambda self, other: values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    return lambda self: hash(values(self))


def _refuses(cls: Any, names: frozenset[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    """What raises FrozenInstanceError, as dataclasses do: for a field, and in the class itself for any name."""

    def assign(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return assign, delete
