"""What a function calls by name, and whether a call of another function has replaced it."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from perfmagic.base.imported import torch_if_imported
from perfmagic.capture.same_work.contents import looked_at
from perfmagic.capture.watch.user_code import UserCode

MOST, MOST_STATES = 400, 3  # names, and states of a model: before and after calls of its function


class Callees:
    """Names by which a function, and those of its own file that it calls, find functions, classes and models."""

    def __init__(self, body: Callable[..., object]) -> None:
        self._named: list[tuple[Any, str, Any]] = []  # a namespace or cell, the name in it, its value
        self._codes: list[tuple[Any, Any, Any]] = []
        self._models: list[tuple[str, Any, list[tuple[object, ...]]]] = []  # with their states
        self._seen: set[int] = set()
        self._libraries: set[int] = set()  # namespaces
        function = getattr(body, "func", body)
        function = getattr(function, "__func__", function)
        if type(function) is types.FunctionType:
            self._follow(function, function.__globals__)

    def _follow(self, function: Any, around: dict[str, Any]) -> None:
        if id(function) in self._seen or len(self._named) > MOST:
            return
        self._seen.add(id(function))
        code = function.__code__
        self._codes.append((function, code, function.__defaults__))
        for place, name, value in _names(function, code):
            if isinstance(value, types.ModuleType):
                members = vars(value)
                if _is_library(value):
                    self._libraries.add(id(members))
                self._named += [(members, n, members[n]) for n in _read_in(code) if callable(members.get(n))]
            elif _is_model(value):
                self._models.append((name, value, [_hooks(value)]))
            elif callable(value):
                self._named.append((place, name, value))
                if type(value) is types.FunctionType and value.__globals__ is around:
                    self._follow(value, around)

    def replaced(self, *, by_itself: bool = False) -> str:
        """The first name that has been rebound, "" for none. Names are restored.

        by_itself: the function was called, which may rebind its own names, but none of a library.
        """
        found = ""
        for place, name, was in self._named:
            if (now := _value(place, name)) is not was and not of_its_library(was, now):
                _put(place, name, was)
                found = found or ("" if by_itself and id(place) not in self._libraries else name)
        for function, code, defaults in self._codes:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                function.__code__, function.__defaults__ = code, defaults
                found = found or ("" if by_itself else f"the code of {function.__name__}")
        for name, model, known in self._models:
            if not (found or by_itself) and len(known) > 1 and _hooks(model) not in known:
                found = f"the hooks of {name}"
        return found

    def note_own(self) -> None:
        """The function itself was called: others may leave its models in the same state."""
        for _, model, known in self._models:
            if len(known) < MOST_STATES:
                known.append(_hooks(model))


def of_its_library(was: Any, now: Any) -> bool:
    """Whether a library replaced one of its own functions: modules imported late wrap earlier ones."""
    if not (type(was) is type(now) is types.FunctionType and was.__name__ == now.__name__):
        return False
    libraries = {_library_of(each) for each in (was, now)}
    return len(libraries) == 1 and "" not in libraries


def _is_library(module: types.ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return module.__name__ != "__main__" and (file is None or not UserCode()(compile("", file, "exec")))


def _library_of(function: types.FunctionType) -> str:
    """The package that has a function's code and names, "" for the user's own."""
    name = function.__globals__.get("__name__", "")
    module, package = sys.modules.get(name), sys.modules.get(name.partition(".")[0])
    folder = getattr(package, "__path__", None)
    is_there = folder is not None and function.__code__.co_filename.startswith(str(folder[0]) + os.sep)
    return (
        package.__name__
        if package is not None
        and is_there
        and not UserCode()(function.__code__)
        and vars(module) is function.__globals__
        else ""
    )


def _names(function: Any, code: Any) -> Iterator[tuple[Any, str, Any]]:
    outside = function.__globals__
    for name in _read_in(code):
        if name in outside:
            yield outside, name, outside[name]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if (value := _value(cell, name)) is not None:
            yield cell, name, value


def _read_in(code: types.CodeType) -> set[str]:
    """Names in a function and in what is defined in it, such as comprehensions before Python 3.12."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return {*code.co_names}.union(*map(_read_in, inner))


def _value(place: Any, name: str) -> Any:
    if isinstance(place, dict):
        return place.get(name)
    try:
        return place.cell_contents
    except ValueError:  # not assigned yet
        return None


def _put(place: Any, name: str, value: Any) -> None:
    if isinstance(place, dict):
        place[name] = value
    else:
        place.cell_contents = value


def _is_model(value: Any) -> bool:
    torch = torch_if_imported()
    return torch is not None and hasattr(torch, "nn") and isinstance(value, torch.nn.Module)


def _hooks(model: Any) -> tuple[object, ...]:
    """How many hooks a model's parts have, and requires_grad of its parameters; () for a model in TorchScript."""
    return looked_at(lambda: _asked_of(model), ())


def _asked_of(model: Any) -> tuple[object, ...]:
    parts = [
        (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks), m.training) for m in model.modules()
    ]
    return tuple(parts), tuple((p.requires_grad, p.dtype, len(p._backward_hooks or ())) for p in model.parameters())
