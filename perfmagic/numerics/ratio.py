"""The ratio of two medians with an interval, for series of timing samples.

Source: MEASURING, "Comparing"; the false alarm rates there come from a simulation, and benchmarks/compare.py measures
them for this code.
"""

from __future__ import annotations

import math

import numpy as np

from perfmagic.numerics.stats import Float64, Samples, autocorrelation, widening

BAND = 0.01  # a change within ± 1 % counts as the same: two runs of one code in one process differ by less
RESAMPLES = 1000
STRATA = 10  # stretches of time within which samples are drawn: a drift of the run does not widen the interval
FEWEST = 6  # samples of each: below it a median has no interval either
_DRAWS_AT_ONCE = 2_000_000
_SEED = 1  # the same samples give the same interval


def ratio_interval(
    first: Samples, second: Samples, *, interleaved: bool, level: float = 0.95, resamples: int = RESAMPLES
) -> tuple[float, float] | None:
    """The bootstrap interval of median(second) / median(first); None below 6 samples each, or where a median is 0.

    first, second: in the order taken.  interleaved: whether they were taken in turns; then samples are drawn within
    stretches of time, so that what moved both during the run cancels. Else the interval is widened for the dependence
    of samples on those before them, as that of a median is.
    """
    if min(len(first), len(second)) < FEWEST or np.median(first) <= 0 or np.median(second) <= 0:
        return None
    random = np.random.default_rng(_SEED)
    strata = min(STRATA, len(first) // FEWEST, len(second) // FEWEST) if interleaved else 1
    medians = [
        _resampled_medians(np.asarray(x, np.float64), max(1, strata), resamples, random) for x in (first, second)
    ]
    if min(m.min() for m in medians) <= 0:
        return None
    logs = np.log(medians[1] / medians[0])
    low, high = np.percentile(logs, [50 * (1 - level), 50 * (1 + level)])
    middle = math.log(float(np.median(second)) / float(np.median(first)))
    factor = 1.0 if interleaved else max(widening(autocorrelation(x)) for x in (first, second))
    return math.exp(middle - factor * max(0.0, middle - low)), math.exp(middle + factor * max(0.0, high - middle))


def judged(interval: tuple[float, float], band: float) -> str:
    """What an interval of a speed-up says when changes within the band do not count.

    "faster", "slower": all of it lies beyond the band.  "same": all of it lies inside.  "unclear": neither.
    """
    low, high = interval
    if low > 1 + band:
        return "faster"
    if high < 1 / (1 + band):
        return "slower"
    return "same" if 1 / (1 + band) <= low and high <= 1 + band else "unclear"


def _resampled_medians(samples: Float64, strata: int, resamples: int, random: np.random.Generator) -> Float64:
    """Medians of samples drawn with replacement within each of some stretches of equal length; shape (resamples,)."""
    n = len(samples)
    edges = np.linspace(0, n, strata + 1).astype(np.int64)
    low, size = np.repeat(edges[:-1], np.diff(edges)), np.repeat(np.diff(edges), np.diff(edges))
    each = max(1, _DRAWS_AT_ONCE // n)
    parts = []
    for start in range(0, resamples, each):
        rows = min(each, resamples - start)
        drawn = low + (random.random((rows, n)) * size).astype(np.int64)
        parts.append(np.median(samples[drawn], axis=1))
    return np.concatenate(parts)
