"""Notes once that code reads the clock of this machine where the device keeps a virtual one."""

from __future__ import annotations

import ast
import datetime as dt
import re
import time
import timeit
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from perfmagic.base.clock import virtual_clock
from perfmagic.base.language import Words, phrase

_CLOCKS = frozenset({
    time.time, time.time_ns, time.perf_counter, time.perf_counter_ns, time.monotonic, time.monotonic_ns,
    time.process_time, time.process_time_ns, time.thread_time, time.thread_time_ns,
    timeit.timeit, timeit.repeat, timeit.Timer,
    dt.datetime.now, dt.datetime.utcnow, dt.datetime.today,
})  # fmt: skip
_MODULES: dict[str, ModuleType] = {"time": time, "timeit": timeit, "datetime": dt}
_MAGIC = re.compile(r"^[ \t]*(%%?time(?:it)?)\b", re.MULTILINE)
_NO_PYTHON = re.compile(r"^([ \t]*)[%!].*$", re.MULTILINE)  # magics and shell commands
_noted: list[str] = []


def note_once(source: str, names: Mapping[str, Any]) -> Words | None:
    """The note on a cell that has run, the first time that one reads another clock than the virtual one.

    names: the notebook's variables.
    """
    if virtual_clock() is None or _noted:
        return None
    call = other_clock(source, names)
    if not call:
        return None
    _noted.append(call)
    return phrase("the device's clock is virtual; {call} reads this machine's: use perfmagic.Benchmark", call=call)


def other_clock(source: str, names: Mapping[str, Any]) -> str:
    """The first call in a cell that reads the machine's clock, as it is written; "" without one."""
    magic = _MAGIC.search(source)
    if magic is not None:
        return magic[1]
    try:
        tree = ast.parse(_NO_PYTHON.sub(r"\1pass", source))
    except SyntaxError:  # another extension's cell
        return ""
    known = {**names, **dict(_imported(tree))}
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return next((f"{ast.unparse(call)}()" for call in calls if _is_clock(_meant(call, known))), "")


def _imported(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """What the cell imports of the modules with clocks, in functions too: those names are in no namespace."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((one.asname or one.name, _MODULES[one.name]) for one in node.names if one.name in _MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in _MODULES:
            module = _MODULES[node.module]
            yield from ((one.asname or one.name, getattr(module, one.name, None)) for one in node.names)


def _meant(call: ast.expr, known: Mapping[str, Any]) -> Any:
    """The object that a dotted name means. Attributes are read of modules and classes only: others may do anything."""
    if isinstance(call, ast.Name):
        return known.get(call.id)
    if not isinstance(call, ast.Attribute):
        return None
    owner = _meant(call.value, known)
    return getattr(owner, call.attr, None) if isinstance(owner, (ModuleType, type)) else None


def _is_clock(called: object) -> bool:
    return isinstance(called, (BuiltinFunctionType, FunctionType, type)) and called in _CLOCKS
