"""The contents of a value of a known type, read without running code of user-defined classes."""

from __future__ import annotations

import array
import inspect
import io
import mmap
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from perfmagic.base.imported import torch_if_imported

T = TypeVar("T")
SCALARS = (bool, int, float, complex, str, bytes, type(None))
_TEXT_MODULES = ("datetime", "decimal", "fractions", "ipaddress", "pathlib", "uuid", "zoneinfo")  # compared as written
_ASKED = {"__array__", "__torch_function__", "result", "join"}  # of types that act when they are read


def looked_at(how: Callable[[], T], otherwise: T) -> T:
    """The result of inspecting a user's object. Its class may run any code; exceptions do not end a benchmark."""
    try:
        return how()
    except Exception:  # noqa: BLE001 - the one place for it
        return otherwise


def contents(value: Any) -> list[Any] | None:
    """The items of a container, by the methods of Python's own class; None for anything else."""
    if isinstance(value, (list, tuple)):
        return list(list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value))
    if isinstance(value, dict):
        return [item for _, item in sorted(dict.items(value), key=lambda pair: str(pair[0]))]
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if type(value) in SCALARS or is_tensor(value) or isinstance(value, np.generic):
        return None
    known = _of_known(value)
    if known is not None or _is_opaque(value):
        return known
    held = [*vars_of(value).values(), *_slots(value)]
    return [type(value).__qualname__, *held] if held else None


def _of_array(value: Any) -> list[Any] | None:
    """The objects in an array; an array of one of numpy's subclasses as a plain one."""
    if type(value) in (np.memmap, np.matrix, np.recarray):
        return [type(value).__name__, value.view(np.ndarray)]
    if type(value) is np.ma.MaskedArray:
        return ["masked", np.ma.getmaskarray(value), value.filled(0)]
    return (
        [str(value.shape), value.reshape(-1).tolist()] if type(value) is np.ndarray and value.dtype == object else None
    )


def _of_known(value: Any) -> list[Any] | None:
    """The items of known types of the standard library, pandas and torch."""
    kind = type(value)
    if kind in (deque, type({}.keys()), type({}.values()), type({}.items())):
        return [kind.__name__, [*value]]
    if kind is not array.array and (content := bytes_of(value)) is not None:
        return [kind.__name__, content]
    if kind is array.array:
        return [kind.__name__, value.tolist()]
    pandas, torch = sys.modules.get("pandas"), torch_if_imported()
    if pandas is not None and hasattr(pandas, "DataFrame"):
        if kind is pandas.DataFrame:
            columns = [value.iloc[:, i].to_numpy() for i in range(value.shape[1])]
            return [value.index.to_numpy(), [str(name) for name in value.columns], *columns]
        if kind is pandas.Series or (isinstance(value, pandas.Index) and kind.__module__.startswith("pandas.")):
            return [value.to_numpy(), *([value.index.to_numpy()] if kind is pandas.Series else [])]
    if torch is not None and hasattr(torch, "nn") and isinstance(value, torch.nn.Module):
        return [kind.__qualname__, *value.parameters(), *value.buffers()]
    return None


def bytes_of(value: Any) -> bytes | None:
    """The bytes of a buffer, memory map, in-memory file or sqlite database; None for anything else."""
    kind, sqlite = type(value), sys.modules.get("sqlite3")
    if kind in (bytearray, memoryview, array.array, mmap.mmap):
        return bytes(value)
    if kind is np.memmap:
        return bytes(value.tobytes())
    if kind in (io.BytesIO, io.StringIO):
        content = value.getvalue()
        return bytes(content.encode() if isinstance(content, str) else content)
    if sqlite is not None and kind is sqlite.Connection:
        return "\n".join(value.iterdump()).encode()
    return None


def text_of(value: Any) -> str | None:
    """A value as text, if its type's text is complete; None for any other."""
    kind = type(value)
    owner = sys.modules.get(kind.__module__.partition(".")[0])
    own = getattr(owner, kind.__qualname__, None) is kind
    if own and (kind.__module__.partition(".")[0] in _TEXT_MODULES or kind in (range, slice)):
        return repr(value)
    torch = torch_if_imported()
    if torch is not None and hasattr(torch, "Tensor") and kind in (torch.dtype, torch.device, torch.layout):
        return str(value)
    return None


def vars_of(value: Any) -> dict[str, Any]:
    """The attributes in an object's __dict__."""
    try:
        return {**object.__getattribute__(value, "__dict__")}
    except AttributeError:
        return {}


def _slots(value: Any) -> Iterator[Any]:
    """The attributes in an object's slots."""
    for each in type(value).__mro__:
        for member in vars(each).values():
            if type(member) is types.MemberDescriptorType and each.__module__ != "builtins":
                try:
                    yield member.__get__(value)
                except AttributeError:
                    yield None


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of any class."""
    torch = torch_if_imported()
    return torch is not None and hasattr(torch, "Tensor") and isinstance(value, torch.Tensor)


def _is_opaque(value: Any) -> bool:
    """Whether it acts when it is read: functions, generators, futures, threads."""
    asked = callable(value) or hasattr(type(value), "__next__") or inspect.isawaitable(value)
    return bool(asked or _ASKED & {*dir(type(value))})
