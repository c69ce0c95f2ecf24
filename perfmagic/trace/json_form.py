"""JSON in both directions: results as JSON, and values from saved files, checked once, when a file is opened.

A result's keys are its fields, then the properties that its class names. Dataclasses that are saved declare the ranges
of their fields with the types below; msgspec checks them.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
import numpy as np

FAR_NS = 2**61  # times within it can be added and subtracted in int64
EXACT = 2**53  # doubles, which browsers use, are exact up to here: 104 days in nanoseconds
MOST_LINES = 2**20  # arrays are indexed by line: the longest takes 8 MB

Ns = Annotated[int, msgspec.Meta(ge=-FAR_NS, le=FAR_NS)]
Count = Annotated[int, msgspec.Meta(ge=0, le=EXACT)]
Line = Annotated[int, msgspec.Meta(ge=0, le=MOST_LINES)]
Int64Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Real = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e30)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]

T = TypeVar("T")


def typed(value: Any, kind: type[T]) -> T:
    """A plain value as a dataclass, a Struct or another type. Raises ValueError, which names what does not fit.

    >>> from perfmagic.trace.json_form import Count, typed
    >>> typed([1, -1], list[Count])
    Traceback (most recent call last):
        ...
    ValueError: Expected `int` >= 0 - at `$[1]`
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


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
