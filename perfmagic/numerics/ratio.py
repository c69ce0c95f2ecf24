"""The ratio of two times with an interval, for series of timing samples.

Of samples taken in turns each is set beside the one of the other series that was taken next to it: what changes the
machine's speed for longer than a turn meets both and cancels, whatever it does to the medians. Of series taken one
after the other there is only the ratio of medians. Source: docs/measuring.md, "Comparing";
benchmarks/bench_verdicts.py counts the false alarms.
"""

from __future__ import annotations

import math

import numpy as np

from perfmagic.numerics.stats import Float64, Samples, autocorrelation, median_interval, widening

BAND = 0.01  # a change within ± 1 % counts as the same: two runs of one code in one process differ by less
RESAMPLES = 1000
FEWEST = 6  # samples of each: below it a median has no interval either
FEWEST_99 = 8  # of each: below it there is none at 99 %, 1 - 2 / 2^n
_DRAWS_AT_ONCE = 2_000_000
_SEED = 1  # the same samples give the same interval


def ratio_interval(
    first: Samples, second: Samples, *, interleaved: bool, level: float = 0.95, resamples: int = RESAMPLES
) -> tuple[float, float] | None:
    """The interval of ratio(first, second); None below 6 samples each (at 95 %), or where a median is 0.

    first, second: in the order taken.  interleaved: whether they were taken in turns; then it is that of the median of
    the turns' ratios, by order statistics. Else it is a bootstrap of both medians, widened for the dependence of
    samples on those before them, as that of a median is.
    """
    if min(len(first), len(second)) < FEWEST or np.median(first) <= 0 or np.median(second) <= 0:
        return None
    if interleaved:
        found = median_interval(_of_turns(first, second), level)
        return None if found is None else (math.exp(found[0]), math.exp(found[1]))
    random = np.random.default_rng(_SEED)
    medians = [_resampled_medians(np.asarray(x, np.float64), resamples, random) for x in (first, second)]
    if min(m.min() for m in medians) <= 0:
        return None
    logs = np.log(medians[1] / medians[0])
    low, high = np.percentile(logs, [50 * (1 - level), 50 * (1 + level)])
    middle = math.log(float(np.median(second)) / float(np.median(first)))
    factor = max(widening(autocorrelation(x)) for x in (first, second))
    return math.exp(middle - factor * max(0.0, middle - low)), math.exp(middle + factor * max(0.0, high - middle))


def ratio(first: Samples, second: Samples, *, interleaved: bool) -> float:
    """second by first: the median of the turns' ratios, or the ratio of medians; 0 where a median is 0."""
    if not len(first) or not len(second) or np.median(first) <= 0 or np.median(second) <= 0:
        return 0.0
    if interleaved:
        return math.exp(float(np.median(_of_turns(first, second))))
    return float(np.median(second)) / float(np.median(first))


def _of_turns(first: Samples, second: Samples) -> Float64:
    """Logarithms of second by first in each turn; a sample of 0 counts as the smallest that is not."""
    n = min(len(first), len(second))
    both = np.stack((np.asarray(first[:n], np.float64), np.asarray(second[:n], np.float64)))
    logs = np.log(np.maximum(both, both[both > 0].min()))
    return np.asarray(logs[1] - logs[0], np.float64)


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


def _resampled_medians(samples: Float64, resamples: int, random: np.random.Generator) -> Float64:
    """Medians of samples drawn with replacement; shape (resamples,)."""
    n = len(samples)
    each = max(1, _DRAWS_AT_ONCE // n)
    parts = []
    for start in range(0, resamples, each):
        rows = min(each, resamples - start)
        parts.append(np.median(samples[random.integers(0, n, (rows, n))], axis=1))
    return np.concatenate(parts)
