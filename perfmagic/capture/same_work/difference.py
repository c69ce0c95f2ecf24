"""How far two results differ, and how far they may."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from perfmagic.capture.same_work.values import Leaf
from perfmagic.trace.samples import Condition

if TYPE_CHECKING:
    from perfmagic.trace.samples import Float64

# Rounding, in units in the last place of the coarser type: reordered sums differ by a few in float32. Without fusion,
# 16-bit results are rounded once or twice more, each time by half a unit.
UNITS = {"wide": 64, "narrow": 12}
NARROW_EPS = 1e-4
GROWS_FROM = 4096  # elements: the error of a sum grows like the fourth root of their number, pairwise less
NEARBY = 16.0  # times the change from inputs that differ by one rounding

# values that are small next to the rest: relative to its root mean square, above what hardware flushes to zero, and
# their least share; the other's relative error in them is nearly 1
SMALL, LEAST, LEAST_OF_RMS, SMALL_FRAC, LOST = 1e-3, 1e-30, 1e-18, 0.01, 0.9

FEWEST, STEADY_ERRORS = 4, 8.0  # calls, and standard errors of their mean: chance exceeds them once in 10⁴ for nine


def unlike(first: Sequence[Leaf], other: Sequence[Leaf]) -> Condition | None:
    """What differs in the form of two results: number, type, shape, device; None if nothing does."""
    if len(first) != len(other):
        return Condition("other structure", {"first": len(first), "other": len(other)})
    for a, b in zip(first, other, strict=True):
        if not b.plain and (a.plain or a.kind != b.kind or b.reads_later):
            return Condition("lazy result", {"type": b.kind})
        if (a.kind == "text") != (b.kind == "text") and a.plain:
            return Condition("other kind", {"first": a.kind, "other": b.kind})
        if a.shape != b.shape and a.plain:
            return Condition("other shape", {"first": str([*a.shape]), "other": str([*b.shape])})
        if a.layout != b.layout:
            return Condition("other layout", {"first": a.layout or "dense", "other": b.layout or "dense"})
        if a.device != b.device and a.plain:
            return Condition("other device", {"first": a.device, "other": b.device})
    return None


def distances(first: Sequence[Leaf], other: Sequence[Leaf]) -> list[float]:
    """The relative difference of each value; infinite if only one has a NaN."""
    return [_distance(a, b) for a, b in zip(first, other, strict=True)]


def _distance(a: Leaf, b: Leaf) -> float:
    if not (a.plain and b.plain):
        return 0.0
    if a.kind == "text":
        return 0.0 if a.values == b.values else math.inf
    x, y = a.values, b.values
    if not x.size:
        return 0.0
    if not (a.eps or b.eps):
        return float(np.mean(x != y))
    x, y = (v.astype(np.float64) if v.dtype.kind in "biu" else v for v in (x, y))
    finite = np.isfinite(x)
    if not (finite == np.isfinite(y)).all() or not _alike(x[~finite], y[~finite]):
        return math.inf
    if not finite.all():
        x, y = x[finite], y[finite]
    return _relative(x, y) if x.size else 0.0


def size_of(leaf: Leaf) -> float:
    """The root mean square of a value, 0 if it has none."""
    if not leaf.eps or not leaf.values.size:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        rms = math.sqrt(float(np.mean(np.square(np.abs(leaf.values), dtype=np.float64))) or 0.0)
    return rms if math.isfinite(rms) else 0.0


def _alike(x: Float64, y: Float64) -> bool:
    return bool(np.array_equal(x, y, equal_nan=True))


def _relative(x: Float64, y: Float64) -> float:
    """The largest difference, each relative to the root mean square of all and to the value itself."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        size = np.abs(x)
        rms = math.sqrt(float(np.mean(np.square(size, dtype=np.float64))))
        off = np.abs(x - y)
        if not off.any():
            return 0.0
        worst = float(np.max(off / (size + rms))) if rms and math.isfinite(rms) else math.inf
    return math.inf if math.isnan(worst) else worst


def lost(a: Leaf, b: Leaf, moved: Leaf | None = None) -> float:
    """The share of values that are small in the first, next to its others, and constant in the other.

    moved: the first's result on inputs one rounding away: what that changes is rounding itself.
    """
    if not (a.plain and b.plain and a.eps and a.values.size > 1) or max(a.eps, b.eps) > NARROW_EPS:
        return 0.0
    x, y, rms = np.abs(a.values), b.values, size_of(a)
    small = (x < SMALL * rms) & (x > max(LEAST, LEAST_OF_RMS * rms))
    if not np.count_nonzero(small) > x.size * SMALL_FRAC:
        return 0.0
    small &= np.abs(a.values - y) > LOST * np.maximum(x, np.abs(y))
    if moved is not None:
        small &= np.abs(a.values - moved.values) < x * (1 - LOST)
    n = np.count_nonzero(small)
    return n / x.size if n and len(np.unique(y[small])) * 4 <= n else 0.0


def rounding(a: Leaf, b: Leaf, declared_eps: float, n: int) -> float:
    """How far two results may differ by rounding.  n: elements of the largest input."""
    if not (a.eps or b.eps):
        return 0.0
    eps = max(a.eps, b.eps, declared_eps)
    units = UNITS["narrow" if eps > NARROW_EPS else "wide"]
    return min(0.25, units * eps * max(1.0, math.sqrt(math.sqrt(n / GROWS_FROM))))


Moments = list[tuple[float, float, float]]


def moments(first: Sequence[Leaf], other: Sequence[Leaf]) -> Moments:
    """For each random value, the differences of mean and standard deviation, and their standard error."""
    found: Moments = []
    for a, b in zip(first, other, strict=True):
        if a.kind == "text" or not (a.plain and b.plain) or a.values.size < 2:
            continue
        x, y = a.values.astype(np.float64), b.values.astype(np.float64)
        spread = math.hypot(float(x.std()), float(y.std())) / math.sqrt(x.size)
        found.append((float(y.mean() - x.mean()), float(y.std() - x.std()), spread))
    return found


def standard_errors(of_one: Moments) -> float:
    """The largest difference in standard errors, if all numbers are independent."""
    worst = 0.0
    for mean, deviation, spread in of_one:
        if not math.isfinite(spread):
            return math.inf
        off = max(abs(mean), abs(deviation))
        worst = max(worst, off / spread if spread else math.inf * bool(off))
    return 0.0 if math.isnan(worst) else worst


def is_steady(series: Sequence[Moments]) -> bool:
    """Whether any difference persists over the calls: dependent numbers deviate only sometimes, and to both sides."""
    if len(series) < FEWEST or len({*map(len, series)}) > 1:
        return True
    values = np.array(series)[:, :, :2].reshape(len(series), -1)
    errors = values.std(axis=0, ddof=1) / math.sqrt(len(series))
    return bool((np.abs(values.mean(axis=0)) > STEADY_ERRORS * errors).any())
