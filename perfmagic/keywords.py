"""Functions with many keywords: shared words in each docstring, and the nearest name for one that is mistyped."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from perfmagic.errors import KeywordError

F = TypeVar("F", bound="Callable[..., Any]")


def documented(shared: str = "") -> Callable[[F], F]:
    """Append shared words to a function's docstring, and suggest the nearest keyword for one that it does not have.

    Python itself suggests one from 3.13 on.  The signature stays as it was written, for help(), Tab and type checkers.
    """

    def decorated(function: F) -> F:
        known = [
            one.name
            for one in inspect.signature(function).parameters.values()
            if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD) and one.name != "self"
        ]

        @functools.wraps(function)
        def called(*positional: Any, **keywords: Any) -> Any:
            __tracebackhide__ = True
            if not keywords.keys() <= {*known}:
                name = next(name for name in keywords if name not in known)
                raise _unknown(function.__qualname__.removesuffix(".__init__"), name, known)
            return function(*positional, **keywords)

        if shared:
            called.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{shared.strip()}"
        return cast("F", called)

    return decorated


def _unknown(function: str, name: str, known: list[str]) -> KeywordError:
    nearest = difflib.get_close_matches(name, known, n=1)
    meant = f"did you mean {nearest[0]}? " if nearest else ""
    return KeywordError(f"{function}: there is no option {name}", hint=f"{meant}there are {', '.join(known)}")
