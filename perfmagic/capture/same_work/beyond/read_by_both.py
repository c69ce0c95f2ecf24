"""Calls on other values in what both functions read from around them, where they take no arguments.

The user's objects are changed in place, and always get back what they held.
"""

from __future__ import annotations

import operator
import secrets
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

from perfmagic.capture.same_work.beyond.values import Calls, Closing
from perfmagic.capture.same_work.contents import looked_at
from perfmagic.capture.same_work.difference import distances, unlike
from perfmagic.capture.same_work.drawn import copied, drawn_anew, is_floating, write_back
from perfmagic.capture.same_work.process import NOW_NS
from perfmagic.capture.same_work.values import Leaf

MOST_TRIED = 4  # items of containers: a result may not depend on each
FRAC, LEAST_NS = 0.05, 1_200_000_000  # of the time so far, which counts as at least that
PICKED = 64  # pairs of items, among which two differ

Found = Sequence[Sequence[Leaf] | None]
Undo = Callable[[], None]


def on_what_both_read(closing: Closing) -> Calls:
    """A function that computes anything with arrays or containers has to answer where the first does."""
    same = closing.same
    own, *others = same.last_states
    first = same.watched[0]
    for watched, other in zip(same.watched[1:], others, strict=True):
        if any(each.changed or each.alters(operator.ne) for each in (first, watched)):
            continue
        arrays = [value for key, (_, value) in own.found.items() if key in other.found and is_floating(value)]
        held = [(name, value) for key, (name, value) in own.held.items() if key in other.held and _has_items(value)]
        if not arrays and not held:
            continue
        before = yield from closing.gathered("both")
        which = same.watched.index(watched)
        if arrays and (yield from _stays(closing, before, which, _drawn_anew(arrays))):
            watched.fact("kept answer", names=own.name(id(arrays[0])))
            continue
        from_ns, most_ns = NOW_NS(), FRAC * max(LEAST_NS, same.elapsed_ns())
        for name, container in held * MOST_TRIED:
            if NOW_NS() - from_ns < most_ns and (
                yield from _stays(closing, before, which, _with_another_item(container))
            ):
                watched.fact("kept answer", names=name)
                break


def _stays(
    closing: Closing, before: Found, which: int, changes: Callable[[], Undo]
) -> Generator[tuple[int, Any], None, bool]:
    """Whether the first answers to a change of what both read, and another does not."""
    undo = changes()
    try:
        after = yield from closing.gathered("both, changed")
    finally:
        undo()
    return _answers(before[0], after[0]) and after[which] is not None and not _answers(before[which], after[which])


def _drawn_anew(arrays: Sequence[Any]) -> Callable[[], Undo]:
    def changes() -> Undo:
        were = [copied(value) for value in arrays]
        for value in arrays:
            write_back(value, drawn_anew(value))

        def undo() -> None:
            for value, was in zip(arrays, were, strict=True):
                write_back(value, was)

        return undo

    return changes


def _with_another_item(container: Any) -> Callable[[], Undo]:
    """One item becomes what another one is."""

    def changes() -> Undo:
        keys = [*container] if isinstance(container, dict) else range(len(container))
        for _ in range(PICKED):
            at, other = (keys[secrets.randbelow(len(keys))] for _ in range(2))
            was, now = container[at], container[other]
            if looked_at(lambda a=was, b=now: bool(a != b), False):  # type: ignore[misc]
                container[at] = now
                return partial(_put_back, container, at, was)
        return lambda: None

    return changes


def _put_back(container: Any, at: Any, was: Any) -> None:
    """At its place, or at the end of a list that a call made shorter."""
    if isinstance(container, list) and at >= len(container):
        container.append(was)
    else:
        container[at] = was


def _has_items(value: Any) -> bool:
    return type(value) in (list, dict) and len(value) > 1


def _answers(before: Sequence[Leaf] | None, after: Sequence[Leaf] | None) -> bool:
    if before is None or after is None:
        return False
    return unlike(before, after) is not None or any(distances(before, after))
