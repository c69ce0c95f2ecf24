"""Frozen dataclasses whose methods Python compiles on first use: that was half of what importing this package took.

dataclasses.dataclass compiles six functions for a class. Most classes of a process never get an instance.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - so that others may import it from here
else:

    def dataclass(cls: Any = None, /, *, frozen: bool = False, eq: bool = True, **more: Any) -> Any:
        """dataclasses.dataclass, later if the class is frozen. A class needs the same decorator as its bases."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq, **more)
        if not frozen or more.get("slots"):
            return dataclasses.dataclass(cls, frozen=frozen, eq=eq, **more)
        dataclasses.dataclass(cls, init=False, eq=False, **{**more, "repr": False})
        for name in ("__init__", *["__repr__"] * more.get("repr", True), *["__eq__", "__hash__"] * eq):
            if vars(cls).get(name) is None:  # where a class has its own __eq__, Python sets __hash__ to None
                setattr(cls, name, _Method(cls, name))
        cls.__setattr__, cls.__delattr__ = _refuse_to_set, _refuse_to_delete
        return cls


class _Method:
    """Stands where a method will be, and compiles it for whoever asks first."""

    def __init__(self, cls: type, name: str) -> None:
        self._cls, self._name = cls, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        cls, name = self._cls, self._name
        if vars(cls)[name] is self:
            setattr(cls, name, vars(_twin(cls, name))[name])  # at once: other threads may use the class
        return vars(cls)[name].__get__(instance, owner)


def _twin(cls: Any, method: str) -> type:
    """A class with the same fields, and the method compiled."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    body = {"__annotations__": {name: field.type for name, field in fields.items()}, **fields}
    kept = ("__module__", "__qualname__", "__doc__", "__post_init__")  # without __doc__ it would write one
    body |= {name: getattr(cls, name) for name in kept if hasattr(cls, name)}
    init, written, eq = method == "__init__", method == "__repr__", method in ("__eq__", "__hash__")
    return dataclasses.dataclass(init=init, repr=written, eq=eq, frozen=True)(type(cls.__name__, (), body))


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    _refuse(self, "assign to", name)
    object.__setattr__(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:
    _refuse(self, "delete", name)
    object.__delattr__(self, name)


def _refuse(of: Any, what: str, name: str) -> None:
    """Raise FrozenInstanceError, as dataclasses do: for a field, and in the class itself for any name."""
    if "__dataclass_fields__" in vars(type(of)) or name in of.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")
