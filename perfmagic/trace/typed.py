"""Values from saved files, checked once, when a file is opened: each has its type and is in range.

Dataclasses that are saved declare the ranges of their fields with the types below; msgspec checks them.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

import msgspec

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


def plain_json(text: str | bytes) -> Any:
    """Parsed JSON, with printable texts. Raises ValueError for invalid JSON, NaN, infinities, and too deep nesting."""
    try:
        return all_printable(json.loads(text, parse_constant=_no_number))[0]
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def typed(value: Any, kind: type[T]) -> T:
    """A plain value as a dataclass, a Struct or another type. Raises ValueError, which names what does not fit.

    >>> from perfmagic.trace.typed import Count, typed
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


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


# Text from files: JSON may hold lone surrogates (halves of surrogate pairs), which UTF-8 cannot encode.

HALF = "\ufffd"  # replaces a lone surrogate, like any character that cannot be decoded


def printable(text: str) -> str:
    """The text with U+FFFD for each lone surrogate; the same object if there is none."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(HALF if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


def all_printable(value: Any) -> tuple[Any, int]:
    """A decoded JSON value with every text and key made printable, and how many were not printable."""
    if isinstance(value, str):
        text = printable(value)
        return text, int(text is not value)
    if isinstance(value, list):
        items = [all_printable(item) for item in value]
        return [item for item, _ in items], sum(n for _, n in items)
    if isinstance(value, dict):
        pairs = [(all_printable(key), all_printable(item)) for key, item in value.items()]
        return {key: item for (key, _), (item, _) in pairs}, sum(n + m for (_, n), (_, m) in pairs)
    return value, 0
