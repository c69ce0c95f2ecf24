"""How results respond when a value of the inputs is changed: each function's change is compared with the first's."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from perfmagic.capture.same_work.beyond.values import wide
from perfmagic.capture.same_work.difference import NARROW_EPS, unlike
from perfmagic.capture.same_work.results import Results
from perfmagic.capture.same_work.values import MOST_ELEMENTS, Leaf

Found = Sequence[Sequence[Leaf] | None]
ALLOWED, MOST_ALLOWED = 4, 0.4  # times rounding, and of the results' size: less is no response
NEARBY = 16.0  # times the change from inputs that differ by one rounding
OTHERWISE, FRAC = 0.3, 0.02  # of the larger response, in this share of the places that respond
TINY_FRAC, TINY_OF_RMS, LEAST = 0.05, 1e-3, 1e-30
STEP = 0.6180339887  # golden ratio: successive places soon cover all parts


class Answers:
    """Responses of all functions to changed inputs.  base: results before.  level: of change that shows, by value."""

    def __init__(self, results: Results, longest: int, base: Found) -> None:
        self._results, self._longest, self.base = results, longest, base
        self.level: dict[int, int] = {}
        self.only_where_compared: dict[int, bool] = {}  # whether a value responds only in its own place, if known
        self._at: dict[int, float] = {}

    def ways(self, k: int, *, stretch: bool) -> tuple[bool, ...]:
        """Whether the k-th value is changed where large results are sampled; if unknown, first anywhere."""
        if stretch or self._longest <= MOST_ELEMENTS:
            return (False,)
        return (self.only_where_compared[k],) if k in self.only_where_compared else (False, True)

    @property
    def are_flags(self) -> bool:
        """Whether the first gave no floating numbers at all."""
        return bool(self.base[0]) and all(leaf.plain and not leaf.eps for leaf in self.base[0] or ())

    def next_place(self, k: int) -> float:
        """Where the k-th value is changed next, from 0 to 1."""
        self._at[k] = (self._at.get(k, secrets.randbelow(2**20) / 2**20) + STEP) % 1
        return self._at[k]

    def visible(self, found: Found) -> bool:
        """Whether any function responds."""
        return any(
            one is not None and before is not None and (unlike(before, one) is not None or self._answers(before, one))
            for before, one in zip(self.base, found, strict=True)
        )

    def _answers(self, before: Sequence[Leaf], after: Sequence[Leaf]) -> bool:
        return any(
            bool(self._one(i, a, b, a, b, b)[0].any()) for i, (a, b) in enumerate(zip(before, after, strict=True))
        )

    def otherwise(self, found: Found, moved: Sequence[Leaf] | None) -> set[int]:
        """Functions that answer in another way than the first.  moved: the first, on inputs a rounding away."""
        return {which for which in range(1, len(found)) if self._is_otherwise(found, which, moved)}

    def _is_otherwise(self, found: Found, which: int, moved: Sequence[Leaf] | None) -> bool:
        before, after, own, other = self.base[0], found[0], self.base[which], found[which]
        if before is None or after is None or own is None or other is None or moved is None:
            return False
        if unlike(before, own) is not None or unlike(after, moved) is not None:
            return False
        if unlike(after, other) is not None:
            return True
        if unlike(before, after) is not None:  # of another shape: nothing to subtract
            return False
        each = enumerate(zip(before, after, own, other, moved, strict=True))
        for i, leaf in each:
            answers, off = self._one(i, *leaf)
            if np.count_nonzero(off) > FRAC * np.count_nonzero(answers):
                return True
        return False

    def _one(self, i: int, before: Leaf, after: Leaf, own: Leaf, other: Leaf, moved: Leaf) -> tuple[Any, Any]:
        """Where in one value any function responds, and where the responses differ."""
        nowhere = np.zeros(1, bool)
        if not all(leaf.plain for leaf in (before, after, own, other)):
            return nowhere, nowhere
        if after.kind == "text":
            off = after.values != other.values and moved.values == after.values
            return np.array([after.values != before.values]), np.array([off])
        each = [*map(wide, (before, after, own, other, moved))]
        if len({one.shape for one in each}) > 1:
            return nowhere, nowhere
        finite = np.logical_and.reduce([np.isfinite(one) for one in each])
        x0, x1, y0, y1, z = (one[finite] for one in each)
        if not x1.size:
            return nowhere, nowhere
        with np.errstate(over="ignore", invalid="ignore"):
            first, second, floor = np.abs(x1 - x0), np.abs(y1 - y0), 0.0
            if after.eps:
                size = np.abs(x0) + np.abs(x1) + _rms(x0) + _rms(x1)
                allowed = self._results.allowed(i, after, other, self._longest)
                floor = min(MOST_ALLOWED, ALLOWED * allowed) * size + NEARBY * np.abs(z - x1)
            answers = np.maximum(first, second) > floor
            off = np.abs((x1 - x0) - (y1 - y0)) > OTHERWISE * np.maximum(first, second)
        return answers, answers & off


def differ_when_tiny(first: Sequence[Leaf] | None, other: Sequence[Leaf] | None) -> bool:
    """Whether floating-point results on tiny inputs differ completely."""
    if first is None or other is None or unlike(first, other) is not None:
        return False
    return any(_differs(a, b) for a, b in zip(first, other, strict=True))


def _differs(a: Leaf, b: Leaf) -> bool:
    if not (a.plain and b.plain and a.eps and b.eps) or max(a.eps, b.eps) > NARROW_EPS:
        return False
    x, y = wide(a), wide(b)
    size = np.maximum(np.abs(x), np.abs(y))
    large = np.isfinite(x) & np.isfinite(y) & (size > LEAST)
    large &= size > TINY_OF_RMS * _rms(x[large]) if large.any() else False
    off = np.abs(x[large] - y[large]) > OTHERWISE * size[large]
    return bool(np.count_nonzero(off) > TINY_FRAC * np.count_nonzero(large))


def _rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(np.abs(values)))))
