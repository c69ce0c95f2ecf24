"""Calls on values that the user did not give: larger ones, other random numbers, inputs a rounding away."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from perfmagic.capture.same_work.carried import Change, change, left_out
from perfmagic.capture.same_work.difference import NARROW_EPS, distances, lost, unlike
from perfmagic.capture.same_work.drawn import alike, below, has_floating, is_floating, nearby, size_of, times
from perfmagic.capture.same_work.values import Leaf, leaves

if TYPE_CHECKING:
    from perfmagic.capture.same_work.same_work import SameWork

Calls = Generator[tuple[int, Any], None, None]
Gave = Sequence[Sequence[Leaf]]
WIDER = 32.0  # times as large: limits and shortcuts for small values show
SEVERAL, TAIL = 100, 2.5  # numbers, and root mean squares that the largest of them has, where none is bounded
WIDE_OFF, WIDE_FRAC = 0.05, 0.01  # far beyond rounding, of that many values
LOST_FRAC = 0.01  # of the values
DRAWS = 6  # calls with other random numbers
KS_LEAST, KS_ERRORS = 0.01, 2.5  # chance exceeds this once in 10⁵ comparisons of independent numbers
CORRELATION, ERRORS = 0.05, 8.0  # and standard errors
CARRYING = 3  # calls: memory that is used in turns is then as it was
KEPT_FRAC, RECUR_FRAC = 0.5, 0.2  # of the values that change with the random numbers, and that come again


class Closing(Protocol):
    """perfmagic.capture.same_work.closing.Closing."""

    same: SameWork

    def gathered(
        self, label: str, only: int | None = None
    ) -> Generator[tuple[int, Any], None, list[Sequence[Leaf] | None]]: ...


def on_wider_values(closing: Closing) -> Calls:
    """Where no state would be spoilt by them, and rounding stays small."""
    same = closing.same
    assert same.arguments is not None
    given = same.arguments.slots[0]
    changes = any(each.changed or each.changes_inputs or each.alters(_differ) for each in same.watched)
    results = [*same.results.of_first(), *same.results.before]
    narrow = same.asked.dtype or any(leaf.eps > NARROW_EPS or leaf.gradient for leaf in results)
    if same.arguments.in_place or changes or narrow or same.asked.equal or not any(map(has_floating, given)):
        return
    same.new_values()
    before = same.arguments.chosen()
    same.arguments.change(_wider)
    if not any(distances(leaves(before), leaves(same.arguments.chosen()))):  # all have bounds
        return
    found = yield from closing.gathered("wide")
    if any(_far(found[0], other) for other in found[1:]):
        same.arguments.change(nearby)
        moved = yield from closing.gathered("wide moved", only=0)
        for watched, other in zip(same.watched[1:], found[1:], strict=True):
            if _far(found[0], other, moved[0]):
                watched.fact("wide", times=int(WIDER))


def _wider(array: Any) -> Any:
    """Many times an array that seems to have no bounds, as normally distributed numbers; shares and angles stay."""
    if not is_floating(array) or size_of(array) < SEVERAL:
        return array
    size = abs(array)
    bounded = float(size.max()) < TAIL * float((size * size).mean()) ** 0.5
    return array if bounded or not bool((array < 0).any()) else times(WIDER, array)


def _differ(before: object, after: object) -> bool:
    return before != after


def _far(first: Sequence[Leaf] | None, other: Sequence[Leaf] | None, moved: Sequence[Leaf] | None = None) -> bool:
    """Whether two results differ by far, where both are finite.  moved: the first, on inputs a rounding away."""
    if first is None or other is None:
        return first is not None
    if unlike(first, other) is not None:
        return True
    steady = moved if moved is not None and unlike(first, moved) is None else first
    return any(_one_far(a, b, c) for a, b, c in zip(first, other, steady, strict=True))


def _one_far(a: Leaf, b: Leaf, moved: Leaf) -> bool:
    if not a.plain or a.kind == "text":
        return bool(a.plain and a.values != b.values and moved.values == a.values)
    x, y, z = (v.values.astype(np.complex128 if v.values.dtype.kind == "c" else np.float64) for v in (a, b, moved))
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    if not finite.any():
        return False
    x, y, z = x[finite], y[finite], z[finite]
    size = np.abs(x) + np.sqrt(np.mean(np.square(np.abs(x))))
    off = (np.abs(x - y) > WIDE_OFF * size) & (np.abs(x - z) <= WIDE_OFF / 10 * size)
    return float(np.mean(off)) > WIDE_FRAC


def on_small_parts(closing: Closing) -> Calls:
    """Where values that are small beside the others are left out: whether the first computes those exactly."""
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
    """Where whole numbers or truths of the inputs are all one: others that the first takes."""
    same = closing.same
    assert same.arguments is not None
    changes = any(each.changed or each.changes_inputs or each.alters(_differ) for each in same.watched)
    same.new_values()
    before = same.arguments.chosen()
    same.arguments.change(below)
    if not changes and not same.asked.equal and any(distances(leaves(before), leaves(same.arguments.chosen()))):
        found = yield from closing.gathered("whole")
        if found[0] is not None and all(map(_is_finite, found[0])):
            for watched, other in zip(same.watched[1:], found[1:], strict=True):
                if other is not None and _far(found[0], other):
                    watched.fact("whole")
    same.new_values()


def _is_finite(leaf: Leaf) -> bool:
    return not leaf.plain or leaf.kind == "text" or bool(np.isfinite(leaf.values).all())


def on_what_is_carried(closing: Closing) -> Calls:
    """Calls on new values and on the same again, from where the last one ended: what each carries on."""
    same = closing.same
    changes: list[tuple[Change, Change]] = []
    for which, watched in enumerate(same.watched):
        same.new_values(cheaply=True)  # others for each: what both note in one set would be there already
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
        changes.append((on, change(*walks[:2], grows=True)))
    for watched, mine in zip(same.watched[1:], changes[1:], strict=True):
        (on, grows), (other, other_grows) = changes[0], mine
        if left_out(on, other) or (left_out(grows, other_grows) and left_out(grows, other)):
            names = ", ".join(sorted((on.names | grows.names) - other.names or on.names)[:3])
            watched.fact("state", **{"by": same.watched[0].name, "not": watched.name, "names": names})


def with_other_random_numbers(closing: Closing) -> Calls:
    """Whether results change as much with the random numbers as those of the first, alike, and never come again."""
    same = closing.same
    same.new_values(cheaply=True)
    found = yield from _drawn_again(closing, DRAWS)
    own = found[0]
    for watched, other in zip(same.watched[1:], found[1:], strict=True):
        if _changing(other) < KEPT_FRAC * _changing(own):
            watched.fact("random kept")
        elif _different(other) < KEPT_FRAC * _different(own):
            watched.fact("random repeats")
        elif unlike_noise(own, other):
            watched.fact("random unlike")
    if same.arguments is None or same.arguments.in_place:
        return
    same.arguments.change(alike)
    found = yield from _drawn_again(closing, DRAWS)
    for watched, other in zip(same.watched[1:], found[1:], strict=True):
        if _recurring(other) > _recurring(found[0]) + RECUR_FRAC:
            watched.fact("random repeats")
        elif unlike_noise(found[0], other):
            watched.fact("random unlike")


def unlike_noise(first: Gave, other: Gave) -> bool:
    """Whether random results have other distributions, or other correlations between neighbours.

    By the two-sample statistic of Kolmogorov and Smirnov, and by differences of two results, which only noise is in.
    """
    return any(
        _other_quantiles(a, b) or _other_correlations(a, b)
        for a, b in zip(_by_leaf(first), _by_leaf(other), strict=False)
    )


def _by_leaf(gave: Gave) -> list[list[Any]]:
    """Of each numeric value its draws, in its own shape where it is whole."""
    if not all(gave) or len({len(one) for one in gave}) > 1:
        return []
    found = []
    for leaf in zip(*gave, strict=True):
        if all(each.plain and each.kind != "text" and each.values.size for each in leaf):
            whole = len({each.shape for each in leaf}) == 1 and leaf[0].values.size == np.prod(leaf[0].shape)
            found.append([_real(e).reshape(e.shape) if whole else _real(e) for e in leaf])
        else:
            found.append([])
    return found


def _real(leaf: Leaf) -> Any:
    return np.real(leaf.values).astype(np.float64)


def _other_quantiles(first: list[Any], other: list[Any]) -> bool:
    if len(first) < 4 or len(other) < 4:
        return False
    halves = [np.concatenate([x.reshape(-1) for x in draws[i::2]]) for draws in (first, other) for i in (0, 1)]
    within = max(_apart(*halves[:2]), _apart(*halves[2:]))
    between = _apart(np.concatenate(halves[:2]), np.concatenate(halves[2:]))
    return bool(between > KS_LEAST + 4 * within + KS_ERRORS * (2 / (2 * min(map(len, halves)))) ** 0.5)


def _apart(x: Any, y: Any) -> float:
    """The largest distance of two empirical distribution functions."""
    both = np.concatenate([x, y])
    shares = [np.searchsorted(np.sort(each), both, side="right") / len(each) for each in (x, y)]
    return float(np.max(np.abs(shares[0] - shares[1])))


def _other_correlations(first: list[Any], other: list[Any]) -> bool:
    """Whether neighbours, or halves, of two results' difference correlate otherwise, in every pair of draws."""
    pairs = [[b - a for a, b in pairwise(draws) if a.shape == b.shape] for draws in (first, other)]
    if min(map(len, pairs)) < 3 or pairs[0][0].shape != pairs[1][0].shape:
        return False
    each = [np.array([_correlations(d) for d in of_one]) for of_one in pairs]
    spread = sum(np.ptp(of_one, axis=0) for of_one in each)
    gap = np.maximum(each[0].min(0) - each[1].max(0), each[1].min(0) - each[0].max(0))
    return bool((gap > CORRELATION + spread + ERRORS / pairs[0][0].size ** 0.5).any())


def _correlations(noise: Any) -> list[float]:
    found = []
    for axis in range(noise.ndim):
        n = noise.shape[axis]
        for lag in (1, n // 2):
            a, b = (noise.take(range(*ends), axis).reshape(-1) for ends in ((0, n - lag), (lag, n)))
            size = float(np.sqrt(np.mean(a * a) * np.mean(b * b))) if a.size else 0.0
            found.append(float(np.mean(a * b)) / size if size else 0.0)
    return found


def _drawn_again(closing: Closing, n: int) -> Generator[tuple[int, Any], None, list[list[Sequence[Leaf]]]]:
    """Of each function what it gives with n seeds, on the same values."""
    each: list[list[Sequence[Leaf]]] = [[] for _ in closing.same.watched]
    for _ in range(n):
        closing.same.new_seed()
        for gave, one in zip(each, (yield from closing.gathered("drawn")), strict=True):
            gave.append(one or [])
    return each


def _values(gave: Sequence[Leaf]) -> Any:
    numbers = [
        np.real(leaf.values).astype(np.float64).reshape(-1) for leaf in gave if leaf.plain and leaf.kind != "text"
    ]
    return np.concatenate(numbers) if numbers else np.zeros(0)


def _pairs(gave: Sequence[Sequence[Leaf]]) -> list[tuple[Any, Any]]:
    return [(a, b) for a, b in pairwise(map(_values, gave)) if a.size == b.size and a.size]


def _changing(gave: Sequence[Sequence[Leaf]]) -> float:
    return max((float(np.mean(a != b)) for a, b in _pairs(gave)), default=0.0)


def _different(gave: Sequence[Sequence[Leaf]]) -> float:
    """How many differences there are between two results, of all; of either sign."""
    return max((len(np.unique(np.abs(a - b))) / a.size for a, b in _pairs(gave)), default=0.0)


def _recurring(gave: Sequence[Sequence[Leaf]]) -> float:
    """Values that another result has, too."""
    found = [*map(_values, gave)]
    both = [(a, b) for i, a in enumerate(found) for b in found[i + 1 :] if a.size and b.size]
    return max((float(np.mean(np.isin(b, a))) for a, b in both), default=0.0)
