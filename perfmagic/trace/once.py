"""Results worked out once for each trace, table or name: these never change, so neither does what follows."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, update_wrapper, wraps
from inspect import Parameter, signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from perfmagic.base.units import rough_times

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K")  # Trace, a Table, or the traces of all ranks
MOST_NAMES = 2048  # kept for each function
LONGEST_NAME = 4096  # characters: what a file with names of a megabyte says is not kept
_KEPT = "_kept_results"


class _Kept(dict[Any, dict[Any, Any]]):
    """The results kept on one trace, by function and options; a pickled or deep copy begins without any."""

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()


def once_per_trace(function: Callable[Concatenate[K, P], R]) -> Callable[Concatenate[K, P], R]:
    """Keep what a pure function of a trace or table gave on that trace; callers share the result, and only read.

    Its words have the times of a predicted trace with two digits. An option left out and its default are one key.
    """
    options_of = list(signature(function).parameters.values())[1:]
    in_words = in_its_digits(function)
    names = [option.name for option in options_of]
    defaults = {option.name: option.default for option in options_of if option.default is not Parameter.empty}

    def remembered(trace: K, /, *args: P.args, **options: P.kwargs) -> R:
        cached = vars(trace).setdefault(_KEPT, _Kept()).setdefault(function, {})
        given = defaults | dict(zip(names, args, strict=False)) | options
        key = tuple(map(given.get, names))
        if key not in cached:
            cached[key] = in_words(trace, *args, **options)
        result: R = cached[key]
        return result

    update_wrapper(remembered, function)
    return remembered


def in_its_digits(function: Callable[Concatenate[K, P], R]) -> Callable[Concatenate[K, P], R]:
    """Write times with two digits in a function of a trace that is predicted, or a method of what has one as .trace."""

    @wraps(function)
    def rounded(of: K, /, *args: P.args, **options: P.kwargs) -> R:
        if not getattr(getattr(of, "trace", of), "predicted", False):
            return function(of, *args, **options)
        with rough_times():
            return function(of, *args, **options)

    return rounded


def once_per_name(function: Callable[[str], R]) -> Callable[[str], R]:
    """Keep what a pure function of a kernel's name gave, for the names asked for last.

    Several analyses ask the same of each name, and traces of one program have the same names.
    """
    known = lru_cache(maxsize=MOST_NAMES)(function)

    def remembered(name: str) -> R:
        return known(name) if len(name) <= LONGEST_NAME else function(name)

    update_wrapper(remembered, function)
    return remembered
