"""Results that are worked out once for each trace: traces never change, so neither does what follows from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from perfmagic.trace.model import Trace

P = ParamSpec("P")
R = TypeVar("R")


def once_per_trace(function: Callable[Concatenate[Trace, P], R]) -> Callable[Concatenate[Trace, P], R]:
    """Keep what a pure function of a trace and hashable options gave, for as long as the trace lives.

    For results that are small beside the trace, or asked for by several readers: they share the one object, so they
    must not write to it.
    """
    known: WeakKeyDictionary[Trace, dict[Any, R]] = WeakKeyDictionary()

    def remembered(trace: Trace, /, *args: P.args, **options: P.kwargs) -> R:
        mine = known.setdefault(trace, {})
        key = (args, tuple(sorted(options.items())))
        if key not in mine:
            mine[key] = function(trace, *args, **options)
        return mine[key]

    update_wrapper(remembered, function)
    return remembered
