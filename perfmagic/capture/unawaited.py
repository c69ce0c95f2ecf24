"""Coroutines that are never awaited: the code in them has not run, so there is no time and no record of it."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from perfmagic.base.errors import OptionError

# what measures the same with `await` in a cell
_CELLS = {
    "bench": "%%bench",
    "syncbench": "%%syncbench",
    "compare": "%%bench --vs",
    "%compare": "%%bench --vs",
    "sweep": "%%syncbench --sweep n=…",
    "graph": "%%graph",
}


def refuse_async(where: str, function: object) -> None:
    """Raise OptionError for a function whose call only makes a coroutine or an asynchronous generator.

    where: what it was given to, such as "bench".
    """
    while isinstance(function, partial):
        function = function.func
    asked = function if inspect.isroutine(function) else getattr(type(function), "__call__", None)  # noqa: B004
    for candidate in (function, asked):
        if inspect.iscoroutinefunction(candidate) or inspect.isasyncgenfunction(candidate):
            raise _option_error(where, f"{getattr(function, '__name__', type(function).__name__)}() is asynchronous")


def refuse_unawaited(where: str, value: Any) -> None:
    """Raise OptionError for what a call gave, where it is to be awaited or iterated asynchronously."""
    if _closed(value):
        raise _option_error(where, f"the call returned an unawaited {type(value).__name__}")


def refuse_unawaited_value(value: object) -> None:
    """Raise OptionError for the last value of a cell, where it is to be awaited."""
    if _closed(value):
        raise OptionError(
            f"the last value is an unawaited {type(value).__name__}: its code has not run",
            hint="put await before it; in place of %bench f() write a cell, %%bench and below it await f()",
        )


def _closed(value: Any) -> bool:
    """Whether a value is to be awaited. A coroutine is closed then: else Python warns that it was never awaited."""
    if inspect.iscoroutine(value):
        value.close()
        return True
    return inspect.isawaitable(value) or inspect.isasyncgen(value)


def _option_error(where: str, what: str) -> OptionError:
    cell = f"in a notebook a cell with {_CELLS[where]} and await f(); in a script " if where in _CELLS else ""
    return OptionError(
        f"{where}: {what}, and only making the coroutine would be measured",
        hint=f"{cell}a function that returns asyncio.run(f())",
    )
