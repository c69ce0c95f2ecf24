"""The inputs of one call of an operator, as the record writes them, and what the call does with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]

# Bytes of an element, by the names that the profiler writes for C++ types
DTYPE_BYTES = {
    "double": 8,
    "float": 4,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1,
    "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2fnuz": 1,
    "long int": 8,
    "long": 8,
    "int": 4,
    "short": 2,
    "short int": 2,
    "signed char": 1,
    "unsigned char": 1,
    "bool": 1,
    "c10::complex<float>": 8,
    "c10::complex<double>": 16,
}
DTYPE_WORDS = {
    "double": "fp64",
    "float": "fp32",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    **{name: "fp8" for name in DTYPE_BYTES if name.startswith("c10::Float8")},
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
}


@dataclass(frozen=True)
class Inputs:
    """The inputs of one call: of each its shape and type, () and "" where it is no tensor or the record does not say.

    values: of each plain input its value as the record writes it ("[2, 2]", "False"), () where it has none.
    """

    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    values: tuple[str, ...] = ()

    @classmethod
    def read(cls, shapes: str | None, dtypes: str | None = None, values: str | None = None) -> Inputs:
        """From the JSON texts of a record. What is no list of whole numbers is no shape: (), as for a plain number."""
        found = tuple(map(_shape, _list(shapes)))
        types = [one if isinstance(one, str) else "" for one in _list(dtypes)]
        plain = tuple(one if isinstance(one, str) else "" for one in _list(values))
        return cls(found, tuple((*types, *[""] * len(found))[: len(found)]), plain)

    @property
    def tensors(self) -> list[tuple[Shape, str]]:
        """Shape and type of the inputs that are tensors with at least one dimension."""
        return [(s, d) for s, d in zip(self.shapes, self.dtypes, strict=True) if s]


@dataclass(frozen=True)
class Work:
    """What one call does: floating-point operations, and the shape of what it writes; None where that is not known.

    at_most: the call may have done with fewer operations, and the record does not say.
    """

    flop: int | None
    output: Shape | None
    at_most: bool = False


def must(fits: bool) -> None:
    """Raise ValueError for shapes that no such operator takes."""
    if not fits:
        raise ValueError("shapes that do not fit")


def dtype_words(dtypes: Sequence[str]) -> str:
    """The types of a call's tensors in words, each once: "bf16", "fp32, int64"; "" where none is known."""
    return ", ".join(dict.fromkeys(DTYPE_WORDS.get(one, one) for one in dtypes if one in DTYPE_BYTES))


def shape_words(shapes: Sequence[Shape]) -> str:
    """The shapes of a call's tensors: "[64, 128] [128, 32]"."""
    return " ".join(f"[{', '.join(map(str, shape))}]" for shape in shapes if shape)


def _list(text: str | None) -> list[Any]:
    if not text:
        return []
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _shape(value: Any) -> Shape:
    if isinstance(value, list) and all(type(n) is int and n >= 0 for n in value):
        return tuple(value)
    return ()
