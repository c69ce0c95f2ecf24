"""Results as JSON: the keys of an object are its fields, then the properties that its class names."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np


class JsonForm:
    """Base of the dataclasses that give themselves as JSON. trace/json_schema.py describes what they give.

    left_out: fields that are no keys.  leading, computed: properties that are keys, before the fields and after them.
    optional: keys that are absent where their value is None.
    """

    leading: ClassVar[tuple[str, ...]] = ()
    left_out: ClassVar[tuple[str, ...]] = ()
    computed: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """All keys with their values, ready for JSON."""
        values = {key: to_json(getattr(self, key)) for key in json_keys(type(self))}
        return {key: value for key, value in values.items() if value is not None or key not in self.optional}


def json_keys(cls: type[Any]) -> tuple[str, ...]:
    """The keys of a dataclass's JSON, in order."""
    leading, left_out, computed = (getattr(cls, name, ()) for name in ("leading", "left_out", "computed"))
    return (*leading, *(f.name for f in fields(cls) if f.name not in left_out), *computed)


def to_json(value: Any) -> Any:
    """A value as JSON holds it: members of an enumeration by name, None for a number that is not finite."""
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, (tuple, list, np.ndarray)):
        return value.tolist() if isinstance(value, np.ndarray) else [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    return _object_to_json(value)


def _object_to_json(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return {key: to_json(getattr(value, key)) for key in json_keys(type(value))} if is_dataclass(value) else value


def one_of(*values: str | int) -> msgspec.Meta:
    """Annotates a key that has one of some values."""
    return msgspec.Meta(extra_json_schema={"enum": list(values)} if len(values) > 1 else {"const": values[0]})
