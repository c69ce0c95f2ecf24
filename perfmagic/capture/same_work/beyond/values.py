"""Calls on values that the user did not give, such as larger ones, and calls that show which state is carried on."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from perfmagic.capture.same_work.carried import Change, change, left_out
from perfmagic.capture.same_work.difference import NARROW_EPS, distances, lost, unlike
from perfmagic.capture.same_work.drawn import below, has_any, is_floating, is_whole, nearby, size_of, times
from perfmagic.capture.same_work.values import Leaf, leaves, sampled_every

if TYPE_CHECKING:
    from perfmagic.capture.same_work.same_work import SameWork

Calls = Generator[tuple[int, Any], None, None]
WIDER = 32.0  # times as large: this exposes limits and shortcuts for small values
# numbers in an array that may be unbounded, and how many root mean squares its largest then is at least
SEVERAL, TAIL = 100, 2.5
WIDE_OFF, WIDE_FRAC = 0.05, 0.01  # a relative error far beyond rounding, in this share of the values
LOST_FRAC = 0.01  # of the values
CARRYING = 3  # calls, after which buffers that are used in turn are as they were


class Closing(Protocol):
    """perfmagic.capture.same_work.closing.Closing."""

    same: SameWork
    raised: dict[int, BaseException]
    first_values: tuple[int, list[Any], list[list[Leaf]]]  # seed, values, and each function's results on them

    def gathered(
        self, label: str, only: int | None = None
    ) -> Generator[tuple[int, Any], None, list[Sequence[Leaf] | None]]: ...


def wide(leaf: Leaf) -> Any:
    """The values of a leaf in double precision."""
    with np.errstate(invalid="ignore"):  # from signalling NaNs, which uninitialised memory can contain
        return leaf.values.astype(np.complex128 if leaf.values.dtype.kind == "c" else np.float64)


def on_wider_values(closing: Closing) -> Calls:
    """Calls on larger values, if they corrupt no state and rounding stays small."""
    same = closing.same
    assert same.arguments is not None
    given = same.arguments.slots[0]
    changes = any(each.changed or each.changes_inputs or each.alters(_differ) for each in same.watched)
    results = [*same.results.of_first(), *same.results.before]
    narrow = same.asked.dtype or any(leaf.eps > NARROW_EPS or leaf.gradient for leaf in results)
    if changes or narrow or same.asked.equal or not has_any(given, is_floating):
        return
    same.other_values()
    before = same.arguments.chosen()
    same.arguments.change(_wider)
    if not any(distances(leaves(before), leaves(same.arguments.chosen()))):  # all are bounded
        return
    found = yield from closing.gathered("wide")
    if any(_far(found[0], other) for other in found[1:]):
        same.arguments.change(nearby)
        moved = yield from closing.gathered("wide moved", only=0)
        for watched, other in zip(same.watched[1:], found[1:], strict=True):
            if _far(found[0], other, moved[0]):
                watched.fact("wide", times=int(WIDER))


def _wider(array: Any) -> Any:
    """An array scaled up if it looks unbounded, such as normally distributed numbers; shares and angles stay."""
    if not is_floating(array) or size_of(array) < SEVERAL:
        return array
    some = array.reshape(-1)[:: sampled_every(size_of(array), 0)[1]]
    size = abs(some)
    bounded = float(size.max()) < TAIL * float((size * size).mean()) ** 0.5
    return array if bounded or not bool((some < 0).any()) else times(WIDER, array)


def _differ(before: object, after: object) -> bool:
    return before != after


def _far(first: Sequence[Leaf] | None, other: Sequence[Leaf] | None, moved: Sequence[Leaf] | None = None) -> bool:
    """Whether two results differ by far where the first is finite.  moved: the first's, on inputs one rounding away."""
    if first is None or other is None:
        return first is not None
    if unlike(first, other) is not None:
        return True
    steady = moved if moved is not None and unlike(first, moved) is None else first
    return any(_one_far(a, b, c) for a, b, c in zip(first, other, steady, strict=True))


def _one_far(a: Leaf, b: Leaf, moved: Leaf) -> bool:
    if not a.plain or a.kind == "text":
        return bool(a.plain and a.values != b.values and moved.values == a.values)
    x, y, z = map(wide, (a, b, moved))
    finite = np.isfinite(x) & np.isfinite(z)
    if not np.isfinite(y[finite]).all():
        return True
    if not finite.any():
        return False
    x, y, z = x[finite], y[finite], z[finite]
    size = np.abs(x) + np.sqrt(np.mean(np.square(np.abs(x))))
    off = (np.abs(x - y) > WIDE_OFF * size) & (np.abs(x - z) <= WIDE_OFF / 10 * size)
    return float(np.mean(off)) > WIDE_FRAC


def on_small_parts(closing: Closing) -> Calls:
    """If results lack values that are small next to the others: whether the first computes these exactly."""
    same = closing.same
    assert same.arguments is not None
    if not same.results.loses:
        return
    same.new_values(cheaply=True)
    found = yield from closing.gathered("small")
    same.arguments.change(nearby)
    moved = yield from closing.gathered("small moved", only=0)
    for watched, other in zip(same.watched[1:], found[1:], strict=True):
        if not (found[0] and other and moved[0]) or unlike(found[0], other) or unlike(found[0], moved[0]):
            continue
        frac = max((lost(a, b, c) for a, b, c in zip(found[0], other, moved[0], strict=True)), default=0.0)
        if frac > LOST_FRAC:
            watched.fact("lost", percent=100 * frac)


def on_other_integers(closing: Closing) -> Calls:
    """If all integers or booleans of an input are equal: calls on others that the first accepts."""
    same = closing.same
    assert same.arguments is not None
    changes = any(each.changed or each.changes_inputs or each.alters(_differ) for each in same.watched)
    if changes or same.asked.equal or not has_any(same.arguments.slots[0], is_whole):
        return
    same.other_values()
    before = same.arguments.chosen()
    same.arguments.change(below)
    if any(distances(leaves(before), leaves(same.arguments.chosen()))):
        found = yield from closing.gathered("whole")
        if found[0] is not None and all(map(_is_finite, found[0])):
            for watched, other in zip(same.watched[1:], found[1:], strict=True):
                if other is not None and _far(found[0], other):
                    watched.fact("whole")
    same.other_values()


def _is_finite(leaf: Leaf) -> bool:
    return not leaf.plain or leaf.kind == "text" or bool(np.isfinite(leaf.values).all())


def on_what_is_carried(closing: Closing) -> Calls:
    """Calls without a reset in between: whether each function carries the same state from call to call."""
    same = closing.same
    changes: list[tuple[Change, Change, Change]] = []
    for which, watched in enumerate(same.watched):
        same.new_values(cheaply=True)  # different ones for each: a set that both fill would have them already
        walks = [same.walk(which)]
        watched.unseen = walks[0].unseen
        for _ in range(CARRYING):
            yield from closing.gathered("carried", only=which)
            walks.append(same.walk(which))
            same.goes_on = True
            if which == 0 and not change(walks[0], walks[1]).amount:
                same.goes_on = False
                return
        same.goes_on = False
        returns = any(leaf.values is not None for leaf in same.results.before)
        on = change(*walks[2:]) if returns else change(*walks[:2])
        outside = change(*(walk.only_outside() for walk in walks[:2]))
        changes.append((on, change(*walks[:2], grows=True), outside))
    for watched, mine in zip(same.watched[1:], changes[1:], strict=True):
        (on, grows, outside), (other, other_grows, other_outside) = changes[0], mine
        if left_out(outside, other_outside):
            watched.fact(
                "state", **{"by": same.watched[0].name, "not": watched.name, "names": ", ".join(outside.names)}
            )
        if left_out(on, other) or (left_out(grows, other_grows) and left_out(grows, other)):
            missing = (on.names | grows.names) - other.names
            names = ", ".join(sorted(missing or on.names | grows.names)[:3])
            kind = "state" if missing else "less state"
            watched.fact(kind, **{"by": same.watched[0].name, "not": watched.name, "names": names})
