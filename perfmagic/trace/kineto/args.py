"""Event arguments: decoded in batches, and read as numbers and ranks however they were written."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, TypeVar

import msgspec
import numpy as np

from perfmagic.trace.columns import NONE, Float64, Int64
from perfmagic.trace.kineto.decode import (
    CallArgs,
    Count,
    CounterArgs,
    HostArgs,
    LinkArgs,
    Loose,
    OpArgs,
    Span,
    WaitArgs,
)

_RANK = re.compile(r"\b\d{1,9}\b")

ArgsT = TypeVar("ArgsT", bound=msgspec.Struct)


def _reader(kind: type[ArgsT]) -> Callable[[Sequence[Span | Count]], list[ArgsT]]:
    """Decodes the arguments of many events at once, in a third of the time; an event without any has the defaults."""
    decode: Callable[[bytes], list[ArgsT | None]] = msgspec.json.Decoder(list[kind | None]).decode  # type: ignore[valid-type]
    none = kind()  # nobody writes to it

    def read(events: Sequence[Span | Count]) -> list[ArgsT]:
        found = decode(b"[" + b",".join([event.args or b"null" for event in events]) + b"]")
        return [none if args is None else args for args in found]

    return read


op_args, call_args, host_args = _reader(OpArgs), _reader(CallArgs), _reader(HostArgs)
wait_args, counter_args, link_args = _reader(WaitArgs), _reader(CounterArgs), _reader(LinkArgs)


def counter_values(event: Count) -> list[tuple[str, float]]:
    """The series and value of each argument of a counter; NaN where the value is not a number."""
    args = msgspec.json.decode(event.args) if event.args else None
    if not isinstance(args, dict):
        return []
    named = [event.name if key == "value" else f"{event.name} {key}" for key in args]
    return list(zip(named, numbers(list(args.values())).tolist(), strict=True))


def numbers(values: list[Any]) -> Float64:
    """Numbers, also those written as text; NaN for all else."""
    if not {*map(type, values)} <= {int}:
        values = [_number(value) for value in values]
    try:
        return np.array(values, np.float64)
    except OverflowError:
        return np.array([_number(value) for value in values], np.float64)


def _number(value: Any) -> float:
    if value is None or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return math.nan


def whole(values: list[Loose], events: Sequence[Any] = (), other: Callable[[Any], Loose] | None = None) -> Int64:
    """Numbers as `either` reads them. other: gives the value to take from the event where there is no number."""
    kinds = {*map(type, values)}
    try:
        if kinds <= {int}:
            return np.array(values, np.int64)
        if other is None and kinds <= {int, type(None)}:
            return np.array([NONE if value is None else value for value in values], np.int64)
    except OverflowError:
        pass
    others = map(other, events) if other else repeat(NONE)
    return np.array([either(*pair) for pair in zip(values, others, strict=False)], np.int64)


def either(value: Loose, other: Loose) -> int:
    """A number as the file has it, the last number in a text ("stream 7"), or else the other value."""
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, str):
        digits = value.replace("(", " ").split()
        found = [int(part) for part in digits if part.lstrip("-").isdecimal()]
        value = found[-1] if found else None
    if value is None or not -(2**63) <= value < 2**63:
        return NONE if other == NONE else either(other, NONE)
    return int(value)


def ranks_of(value: Any) -> tuple[int, ...]:
    """The ranks of a group, which Kineto writes as text: "[0, 1, ...]" where there are more."""
    return _ranks_in(str(value)) if isinstance(value, (str, list)) else ()


@lru_cache(maxsize=64)  # few groups, many collectives
def _ranks_in(text: str) -> tuple[int, ...]:
    return tuple(map(int, _RANK.findall(text)))
