"""Whether random results of two functions have the same distribution, and repeat no more often: random=True."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from perfmagic.capture.same_work.beyond.values import Calls, Closing
from perfmagic.capture.same_work.drawn import alike
from perfmagic.capture.same_work.values import Leaf

Gave = Sequence[Sequence[Leaf]]
DRAWS = 6  # calls with other random numbers
SERIES = 3  # of draws, all of which must show it: a false alarm of 1 in 30 becomes 1 in 3·10⁴
# Of n independent numbers each, chance exceeds c √(2/n) with 2 exp(-2 c²), for 2.5 with 7·10⁻⁶. One random choice a
# call makes all its numbers alike: halves of a function's own draws then differ by 1/3, three of which are 1. Only
# where all six of one agree, and all six of the other, they do not: 2 p⁶ (1-p)⁶, at most 5·10⁻⁴ a series.
KS_LEAST, KS_ERRORS, WITHIN = 0.01, 2.5, 3
GRID = 2048  # points where distribution functions are compared
NEAR = 4  # units in the last place: x / 0.8 and x * 1.25 are one number
HALVES = [(0, *rest) for rest in combinations(range(1, DRAWS), DRAWS // 2 - 1)]
CORRELATION, ERRORS = 0.05, 8.0  # and standard errors
ECHO_LEAST, ECHO_ERRORS, ECHO_TIMES = 4096, 6.5, 2  # chance: 2 n Q(13) of n distances, 10⁻³¹ of 10⁷
DIGITS = 6  # of a deviation, to which equal numbers agree
REPEAT_FRAC = 0.05  # of the pairs of draws
KEPT_FRAC, RECUR_FRAC = 0.5, 0.2  # of the values that change with the random numbers, and that recur


def with_other_random_numbers(closing: Closing) -> Calls:
    """Whether results change with the random numbers as often and as randomly as the first's, and never recur."""
    same = closing.same
    same.new_values(cheaply=True)
    yield from _compare(closing, as_given)
    if same.arguments is not None and not same.arguments.in_place:
        same.arguments.change(alike)
        yield from _compare(closing, of_equal_values)


def _compare(closing: Closing, judge: Callable[[Gave, Gave], str]) -> Calls:
    """Note what every one of several series of draws shows, which rules out chance."""
    kinds = ["?" for _ in closing.same.watched]
    draws: list[list[Sequence[Leaf]]] = [[] for _ in kinds]
    for _ in range(SERIES):
        found = yield from _drawn_again(closing, DRAWS)
        for drawn, more in zip(draws, found, strict=True):
            drawn.extend(more)
        repeat = [judge is as_given and draws_repeat(draws[0], each) for each in draws]
        kinds = [
            kind and (judge(found[0], other) or "random repeats" * again)
            for kind, other, again in zip(kinds, found, repeat, strict=True)
        ]
        if not any(kinds):
            return
    for watched, kind in zip(closing.same.watched, kinds, strict=True):
        if kind:
            watched.fact(kind)


def draws_repeat(own: Gave, other: Gave) -> bool:
    """Whether several draws of another function are one and the same, as from a store of them, and none of the first.

    Suppose that both choose one of n at random. For n near 40, 18 draws of the first differ and 8 pairs of the other
    agree in at most 1 of 1,000 comparisons.
    """
    pairs = len(other) * (len(other) - 1) // 2
    return _equal_pairs(own) == 0 and _equal_pairs(other) >= max(1, math.ceil(pairs * REPEAT_FRAC))


def _equal_pairs(gave: Gave) -> int:
    alike = Counter(zlib.crc32(_values(one).tobytes()) for one in gave)
    return sum(n * (n - 1) // 2 for n in alike.values())


def as_given(own: Gave, other: Gave) -> str:
    """What is wrong with random results of another function, "" for nothing."""
    if _changing(other) < KEPT_FRAC * _changing(own):
        return "random kept"
    if _different(other) < KEPT_FRAC * _different(own):
        return "random repeats"
    return "random unlike" if unlike_noise(own, other) else ""


def of_equal_values(own: Gave, other: Gave) -> str:
    """The same on inputs whose values are all equal: any difference is then random."""
    again = _recurring(other) > _recurring(own) + RECUR_FRAC
    if again or _distinct(other) < KEPT_FRAC * _distinct(own):
        return "random repeats"
    return "random unlike" if unlike_noise(own, other) else ""


def unlike_noise(first: Gave, other: Gave) -> bool:
    """Whether random results differ in distribution or correlations, or repeat numbers.

    Uses the two-sample Kolmogorov–Smirnov statistic, and differences of two results, which contain only noise.
    """
    eps = [max(a.eps, b.eps) for a, b in zip(first[0], other[0], strict=False)]
    return any(
        _other_quantiles(a, b, NEAR * least) or _other_correlations(a, b) or _echoes(a, b)
        for a, b, least in zip(_by_leaf(first), _by_leaf(other), eps, strict=False)
    )


def _by_leaf(gave: Gave) -> list[list[Any]]:
    """The draws of each numeric value, in its own shape unless sampled."""
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


def _other_quantiles(first: list[Any], other: list[Any], near: float) -> bool:
    if len(first) < DRAWS or len(other) < DRAWS:
        return False
    draws = [np.sort(each, axis=None) for each in (*first, *other)]
    both = np.sort(np.concatenate(draws))
    at = np.unique(both[np.linspace(0, len(both) - 1, GRID).astype(int)])
    finite = np.abs(both[np.isfinite(both)])
    upper = at + near * (np.abs(at) + (np.median(finite) if finite.size else 0.0))
    shares = np.array([[np.searchsorted(x, t, "right") / len(x) for t in (at, upper)] for x in draws])
    own, its = shares[:DRAWS], shares[DRAWS:]
    within = max(_apart(x[[*half]], np.delete(x, half, 0)) for x in (own, its) for half in HALVES)
    least = KS_LEAST + KS_ERRORS * (2 / min(sum(map(len, draws[:DRAWS])), sum(map(len, draws[DRAWS:])))) ** 0.5
    return bool(_apart(own, its) > least + WITHIN * within)


def _apart(x: Any, y: Any) -> float:
    """The largest distance of two empirical distribution functions; numbers one rounding apart count as equal."""
    (low, up), (other_low, other_up) = x.mean(0), y.mean(0)
    return float(max(np.max(low - other_up), np.max(other_low - up)))


def _other_correlations(first: list[Any], other: list[Any]) -> bool:
    """Whether neighbours, or halves, of two results' difference correlate differently, in every pair of draws."""
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


def _echoes(first: list[Any], other: list[Any]) -> bool:
    """Whether the other's numbers recur at any distance, and the first's do not: shifted or negated copies."""
    if min(len(first), len(other)) < 2 or first[0].size != other[0].size or first[0].size < ECHO_LEAST:
        return False
    own, its = (max(map(_echo, *zip(*pairwise(draws), strict=True))) for draws in (first, other))
    return 0 < own < ECHO_ERRORS < ECHO_TIMES * ECHO_ERRORS < its  # 0: its draws were all alike


def _echo(one: Any, next_one: Any) -> float:
    """The largest correlation of a difference with itself shifted, in standard errors; without its means by column."""
    noise = (next_one - one).reshape(-1)
    size = float(np.std(noise))
    if not size or not np.isfinite(size):
        return 0.0
    spectrum = np.abs(np.fft.rfft((noise - noise.mean()) / size, 2 * noise.size)) ** 2
    return float(np.max(np.abs(np.fft.irfft(spectrum)[1 : noise.size])) / noise.size**0.5)


def _distinct(gave: Gave) -> float:
    """The share of distinct numbers in one result, or of distances from its median if that is less."""
    found = [values for values in map(_values, gave) if values.size]
    return max((min(_share(v), _share(np.abs(v - np.median(v)))) for v in found), default=0.0)


def _share(values: Any) -> float:
    size = float(np.std(values)) or 1.0
    return float(len(np.unique(np.round(values / size, DIGITS))) / values.size)


def _drawn_again(closing: Closing, n: int) -> Generator[tuple[int, Any], None, list[list[Sequence[Leaf]]]]:
    """Each function's results with n seeds, on the same values."""
    each: list[list[Sequence[Leaf]]] = [[] for _ in closing.same.watched]
    for _ in range(n):
        closing.same.new_seed()
        for gave, one in zip(each, (yield from closing.gathered("drawn")), strict=True):
            gave.append(one or [])
    return each


def _values(gave: Sequence[Leaf]) -> Any:
    numbers = [_real(leaf).reshape(-1) for leaf in gave if leaf.plain and leaf.kind != "text"]
    return np.concatenate(numbers) if numbers else np.zeros(0)


def _pairs(gave: Sequence[Sequence[Leaf]]) -> list[tuple[Any, Any]]:
    return [(a, b) for a, b in pairwise(map(_values, gave)) if a.size == b.size and a.size]


def _changing(gave: Sequence[Sequence[Leaf]]) -> float:
    return max((float(np.mean(a != b)) for a, b in _pairs(gave)), default=0.0)


def _different(gave: Sequence[Sequence[Leaf]]) -> float:
    """The share of distinct absolute differences between two results."""
    return max((len(np.unique(np.abs(a - b))) / a.size for a, b in _pairs(gave)), default=0.0)


def _recurring(gave: Sequence[Sequence[Leaf]]) -> float:
    """The largest share of values that another result has, too."""
    found = [*map(_values, gave)]
    both = [(a, b) for i, a in enumerate(found) for b in found[i + 1 :] if a.size and b.size]
    return max((float(np.mean(np.isin(b, a))) for a, b in both), default=0.0)
