"""An option as the user wrote it: a magic's flag (`-r 20`) or a function's keyword (`samples=20`)."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from perfmagic.base.errors import KeywordError, OptionError

# Fields of perfmagic.capture.bench.spec.BenchSpec whose option has another name: an option is called the same as a flag
# and as a keyword, and a field carries its unit. Keywords had the fields' names before; they work with one warning.
RENAMED = {"time_s": "time", "cooldown_s": "cooldown", "flop": "flops", "moved_bytes": "bytes"}
_FUNCTIONS_ONLY = ("min_samples", "max_samples", "work")  # options that no magic has
_SWITCHES = ("cold", "setup_each")  # flags without a value
# what a magic and a function of the same effect are called
_CALLED = {
    "bench --vs": ("--vs", "perfmagic.compare(f, g)"),
    "syncbench": ("%%syncbench", "perfmagic.syncbench"),
    "timeline": ("%%timeline", "perfmagic.timeline"),
}


def option(magic: str, setting: str, value: object = "") -> str:
    """One option with a value, or its name alone.

    magic: that was used, such as "%%bench"; "" for a function.  setting: a field of BenchSpec.
    """
    name = RENAMED.get(setting, setting)
    if not magic or setting in _FUNCTIONS_ONLY:
        return f"{name}={value}" if value != "" else name
    flag = f"--{name.replace('_', '-')}"
    return flag if setting in _SWITCHES or value == "" else f"{flag} {value}"


def options(magic: str, **values: object) -> str:
    """Several options as they are written side by side: "--cold -n 5" or "cold=True, calls=5"."""
    return (" " if magic else ", ").join(option(magic, setting, value) for setting, value in values.items())


def called(magic: str, what: str) -> str:
    """What does the same elsewhere, as a magic or as a function.  what: one of those above."""
    return _CALLED[what][0 if magic else 1]


def as_fraction(value: Any) -> Any:
    """A share as a fraction: "1%" and "0.01" are 0.01; a number stays unchanged. Raises OptionError for other text."""
    if not isinstance(value, str):
        return value
    number = value.strip().removesuffix("%")
    try:
        return float(number) / (100 if number != value.strip() else 1)
    except ValueError:
        raise OptionError(f"{value!r} is not a fraction", hint="0.01 and 1% are one percent") from None


# Functions with many keywords: shared words in each docstring, and the nearest name for one that is mistyped.

F = TypeVar("F", bound="Callable[..., Any]")


def documented(shared: str = "", *, form: str = "", defaults: Mapping[str, object] | None = None) -> Callable[[F], F]:
    """Append shared words to a function's docstring, and suggest the nearest keyword for one that it does not have.

    form: a call that works, quoted in the error for too many or too few arguments.
    defaults: keywords that the function gets in any case, with these values where the caller gives none.
    Python itself suggests one from 3.13 on.  The signature stays as it was written, for help(), Tab and type checkers.
    """

    def decorated(function: F) -> F:
        where = function.__qualname__.removesuffix(".__init__")
        known = [
            parameter.name
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD) and parameter.name != "self"
        ]

        @functools.wraps(function)
        def called(*positional: Any, **keywords: Any) -> Any:
            __tracebackhide__ = True
            if not keywords.keys() <= {*known}:
                keywords = _renamed(keywords, where, known)
            try:
                return function(*positional, **{**(defaults or {}), **keywords})
            except TypeError:
                try:
                    inspect.signature(function).bind(*positional, **keywords)
                except TypeError as error:
                    raise KeywordError(f"{where}: {error}", hint=form or f"there are {', '.join(known)}") from None
                raise  # of the function's own code

        if shared:
            called.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{shared.strip()}"
        return cast("F", called)

    return decorated


def _renamed(keywords: dict[str, Any], function: str, known: list[str]) -> dict[str, Any]:
    """The keywords by the names that they have now. Raises KeywordError for one that is unknown, or given twice."""
    renamed: dict[str, Any] = {}
    for name, value in keywords.items():
        now = name if name in known else RENAMED.get(name, name)
        if now not in known:
            hint = f"{did_you_mean(name, known)}there are {', '.join(known)}"
            raise KeywordError(f"{function}: there is no option {name}", hint=hint)
        if now != name and now in keywords:
            raise KeywordError(f"{function}: {name} is the old name of {now}, and both are given")
        if now != name and first_time(name):
            warnings.warn(f"the option {name} is called {now} now", FutureWarning, stacklevel=3)
        renamed[now] = value
    return renamed


def first_time(old: str) -> bool:
    """Whether this process has not been warned of an old way to write an option; from now on it has."""
    first = old not in _said
    _said.add(old)
    return first


_said: set[str] = set()


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The nearest of the known words as a question with a space behind it, "" where none is near."""
    from difflib import get_close_matches

    nearest = get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"did you mean {nearest[0]}? " if nearest else ""
