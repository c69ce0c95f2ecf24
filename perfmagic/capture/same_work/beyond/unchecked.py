"""Inputs that the first function rejects explicitly: another function that accepts them has skipped a check."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

from perfmagic.capture.same_work.beyond.answers import Found
from perfmagic.capture.same_work.beyond.places import BAD, changed, with_one
from perfmagic.capture.same_work.beyond.values import Calls, Closing
from perfmagic.capture.same_work.state import read_by
from perfmagic.capture.watch.user_code import UserCode

SOME = 64  # functions inspected


def see_unchecked(closing: Closing, found: Found) -> None:
    """Whether the first rejects a value explicitly, and another accepts it."""
    error = closing.raised.get(0)
    if error is None or not _raised_by_hand(error):
        return
    for watched, other in zip(closing.same.watched[1:], found[1:], strict=True):
        if other is not None:
            watched.fact("unchecked input", error=f"{type(error).__name__}: {error}"[:100])


def _raised_by_hand(error: BaseException) -> bool:
    """Whether the user's raise or assert raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not UserCode()(trace.tb_frame.f_code):
        return False
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def on_bad_values(closing: Closing, base: Sequence[Any], n: int) -> Calls:
    """Calls on values that a function may reject, if the first has any raise or assert."""
    same = closing.same
    assert same.arguments is not None
    if not any(map(_raises, _functions_around(same.reached(0)))):
        return
    for k in range(n):
        for bad in BAD:
            values = changed(base, same.arguments.fixed, k, partial(with_one, bad=bad))
            if values is not None:
                same.arguments.choose(values)
                found = yield from closing.gathered("bad")
                if found[0] is None:
                    see_unchecked(closing, found)


def _functions_around(values: Iterable[object]) -> list[FunctionType]:
    """The user's functions and methods among some values, and those that they read."""
    found, todo, is_users = dict[int, FunctionType](), [*values], UserCode()
    while todo and len(found) < SOME:
        value = todo.pop()
        if isinstance(value, type) or type(value).__module__ not in ("builtins", "torch", "numpy"):
            kind = value if isinstance(value, type) else type(value)
            todo += [each for each in vars(kind).values() if type(each) is FunctionType and is_users(each.__code__)]
        function = getattr(value, "__func__", value)
        if type(function) is FunctionType and id(function) not in found and is_users(function.__code__):
            found[id(function)] = function
            todo += read_by(function)
    return [*found.values()]


def _raises(function: FunctionType) -> bool:
    """Whether a statement in it raises."""
    return any(each.opname == "RAISE_VARARGS" for each in dis.get_instructions(function))
