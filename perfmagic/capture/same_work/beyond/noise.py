"""Whether random results of two functions have the same distribution, and repeat no more: random=True."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from perfmagic.capture.same_work.beyond.values import Calls, Closing
from perfmagic.capture.same_work.drawn import alike
from perfmagic.capture.same_work.values import Leaf

Gave = Sequence[Sequence[Leaf]]
DRAWS = 6  # calls with other random numbers
KS_LEAST, KS_ERRORS = 0.01, 2.5  # chance exceeds this once in 10⁵ comparisons of independent numbers
CORRELATION, ERRORS = 0.05, 8.0  # and standard errors
ECHO_LEAST, ECHO_ERRORS, ECHO_TIMES = 4096, 6.5, 2  # numbers; chance is beyond 6.5 in 10⁶ of them once in 10⁴
DIGITS = 6  # of a deviation, in which equal numbers are alike
KEPT_FRAC, RECUR_FRAC = 0.5, 0.2  # of the values that change with the random numbers, and that come again


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
        elif unlike_noise(own, other) or any(map(_echoes, _by_leaf(own), _by_leaf(other))):
            watched.fact("random unlike")
    if same.arguments is None or same.arguments.in_place:
        return
    same.arguments.change(alike)
    found = yield from _drawn_again(closing, DRAWS)
    for watched, other in zip(same.watched[1:], found[1:], strict=True):
        again = _recurring(other) > _recurring(found[0]) + RECUR_FRAC
        if again or _distinct(other) < KEPT_FRAC * _distinct(found[0]):
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


def _echoes(first: list[Any], other: list[Any]) -> bool:
    """Whether the other's numbers come again at any distance, and the first's do not: shifted or negated copies."""
    if min(len(first), len(other)) < 2 or first[0].size != other[0].size or first[0].size < ECHO_LEAST:
        return False
    own, its = (max(map(_echo, *zip(*pairwise(draws), strict=True))) for draws in (first, other))
    return own < ECHO_ERRORS < ECHO_TIMES * ECHO_ERRORS < its


def _echo(one: Any, next_one: Any) -> float:
    """The largest correlation of a difference with itself shifted, in standard errors; without its means by column."""
    noise = (next_one - one).reshape(-1)
    size = float(np.std(noise))
    if not size or not np.isfinite(size):
        return 0.0
    spectrum = np.abs(np.fft.rfft((noise - noise.mean()) / size, 2 * noise.size)) ** 2
    return float(np.max(np.abs(np.fft.irfft(spectrum)[1 : noise.size])) / noise.size**0.5)


def _distinct(gave: Gave) -> float:
    """How many different numbers are in one result, of all, whatever their sign; of noise around one value."""
    found = [values for values in map(_values, gave) if values.size]
    return max((min(_share(v), _share(np.abs(v - np.median(v)))) for v in found), default=0.0)


def _share(values: Any) -> float:
    size = float(np.std(values)) or 1.0
    return float(len(np.unique(np.round(values / size, DIGITS))) / values.size)


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
