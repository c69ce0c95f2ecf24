"""Statistics of timing samples: medians with exact intervals, and what makes such an interval wrong.

Samples are 1-d float arrays in the order they were taken. No function returns NaN for finite samples, and none removes
a sample. docs/measuring.md, "What is reported", gives the source of every choice; its figures come from a simulation.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]
Samples = npt.NDArray[np.floating[Any]]

# Above it a result says so: at ρ = 0.6 a plain interval of nominal 95 % covers 78 % (docs/measuring.md).
DEPENDENT_RHO = 0.2
_LARGEST_RHO = 0.99  # keeps the widening finite, at × 14
INNER_FENCE, OUTER_FENCE = 1.5, 3.0  # × IQR: Tukey, Exploratory Data Analysis (1977), section 2D
_MODES_FEWEST = 30
_MODES_EDGE_FRAC = 0.2  # of the samples, in each mode at least: fewer are outliers
_MODES_APART = 2.0
_MODES_FRAC = 0.03


@lru_cache(maxsize=4096)
def median_ranks(n: int, level: float = 0.95) -> tuple[int, int] | None:
    """Which two of n sorted samples bound the median with at least this probability, counted from 0.

    The narrowest symmetric pair (low, n - 1 - low). None where even minimum and maximum do not reach the level
    (n < 6 at 95 %). Source: [x(low), x(high)] contains the median when between low + 1 and high of n samples lie below
    it, a binomial with p = ½ (David and Nagaraja, Order Statistics, 7.1). Summed outward from the middle.
    """
    if n < 1:
        return None
    low, high = (n - 1) // 2, n // 2  # holds the median with probability 0 (one row) or P(B = n / 2)
    covered = _half_binomial(n, n // 2) if high > low else 0.0
    while covered < level:
        if low == 0:
            return None
        covered += 2 * _half_binomial(n, low)
        low, high = low - 1, high + 1
    return low, high


def _half_binomial(n: int, successes: int) -> float:
    """Probability of this number of heads in n throws of a fair coin."""
    log_choose = math.lgamma(n + 1) - math.lgamma(successes + 1) - math.lgamma(n - successes + 1)
    return math.exp(log_choose - n * math.log(2))


def median_interval(samples: Samples, level: float = 0.95) -> tuple[float, float] | None:
    """The confidence interval of the median; None below 6 samples (at 95 %).

    It comes from order statistics: exact for independent samples of any distribution, and without random numbers.
    Autocorrelation widens it about the median (see widening), at most to the range of the samples. Its coverage at
    n = 7 is 0.988; a bootstrap's is 0.879 (docs/measuring.md).
    """
    ranks = median_ranks(len(samples), level)
    if ranks is None:
        return None
    factor = widening(autocorrelation(samples))
    ordered = np.sort(samples)
    low, high = float(ordered[ranks[0]]), float(ordered[ranks[1]])
    if factor == 1.0:
        return low, high
    middle = float(np.median(ordered))
    return (
        max(float(ordered[0]), middle - factor * (middle - low)),
        min(float(ordered[-1]), middle + factor * (high - middle)),
    )


def relative_half_width(samples: Samples, level: float = 0.95) -> float:
    """Half the width of the median's interval as a share of the median: how well the median is known.

    Infinite where there is no interval, or where the median is 0 and the interval is not a point.
    """
    interval = median_interval(samples, level)
    if interval is None:
        return math.inf
    return _ratio((interval[1] - interval[0]) / 2, float(np.median(samples)))


def autocorrelation(samples: Samples) -> float:
    """Lag-1 autocorrelation of the samples' ranks, -1 to 1; 0 below 3 samples.

    Ranks (equal samples share theirs), because one outlier pulls the correlation of the values to 0. The median hardly
    moves with that outlier, so its interval would then be too narrow.
    """
    if len(samples) < 3:
        return 0.0
    # rank of each sample, equal ones sharing the mean of theirs
    _, group, size = np.unique(samples, return_inverse=True, return_counts=True)
    rank = np.asarray((np.cumsum(size) - (size - 1) / 2)[group], np.float64)
    centred = rank - rank.mean()
    spread = float(centred @ centred)
    return float(centred[:-1] @ centred[1:]) / spread if spread > 0 else 0.0


def widening(rho: float) -> float:
    """How many times wider the interval must be for lag-1 autocorrelation rho; 1 up to rho = 0.

    √((1 + ρ) / (1 - ρ)), the growth of a mean's standard error in a first-order autoregressive series (Bartlett 1946),
    here used for the median. Widening only above ρ = 0.2 would cover series of ρ = 0.3 in 93.7 % of cases; widening
    above 0 covers them in 95.2 % (600 series as in benchmarks/bench_coverage.py).
    """
    if rho <= 0:
        return 1.0
    rho = min(rho, _LARGEST_RHO)
    return math.sqrt((1 + rho) / (1 - rho))


def quartiles(samples: Samples) -> tuple[float, float]:
    """First and third quartile, linear between samples; (0, 0) without samples."""
    if not len(samples):
        return 0.0, 0.0
    q1, q3 = np.percentile(samples, (25, 75))
    return float(q1), float(q3)


def iqr(samples: Samples) -> float:
    """Distance between the quartiles: the spread of the middle half."""
    q1, q3 = quartiles(samples)
    return q3 - q1


def mad(samples: Samples) -> float:
    """Median distance from the median; 0 without samples."""
    return float(np.median(np.abs(samples - np.median(samples)))) if len(samples) else 0.0


def fences(samples: Samples, fence: float = OUTER_FENCE) -> tuple[float, float]:
    """Tukey's fences: the quartiles, each moved outward by fence × IQR."""
    q1, q3 = quartiles(samples)
    reach = fence * (q3 - q1)
    return q1 - reach, q3 + reach


def outliers(samples: Samples, fence: float = OUTER_FENCE) -> npt.NDArray[np.bool_]:
    """Which samples lie outside the fences, shape of samples. They are counted and drawn, never removed.

    fence: INNER_FENCE for Tukey's "outside" values, OUTER_FENCE for his "far out" ones.
    """
    low, high = fences(samples, fence)
    return np.asarray((samples < low) | (samples > high), dtype=np.bool_)


def noise_frac(samples: Samples) -> float:
    """IQR as a share of the median: the spread of one sample, however many there are."""
    return _ratio(iqr(samples), float(np.median(samples))) if len(samples) else math.inf


def drift_frac(samples: Samples) -> float:
    """How far the samples moved from the first to the last, as a share of their median; 0 where that is not sure.

    The slope of Tukey's resistant line (through the medians of the outer thirds; Exploratory Data Analysis, chapter 5)
    times the run's length. Sure means at least 9 samples, and 95 % intervals of those two medians that do not overlap.
    """
    n = len(samples)
    middle = float(np.median(samples)) if n else 0.0
    third = n // 3
    if third < 3 or middle == 0:
        return 0.0
    first, last = samples[:third], samples[n - third :]
    if _overlap(_range_of_median(first), _range_of_median(last)):
        return 0.0
    slope = (float(np.median(last)) - float(np.median(first))) / (n - third)
    return slope * (n - 1) / middle


def modes(samples: Samples) -> tuple[tuple[float, float], ...]:
    """The two modes of bimodal samples, as (median, share of the samples) from low to high; () for other samples.

    A GPU that switches between two clock rates gives two groups of samples with nothing between them, and the median of
    all says little. The samples are split at the widest gap that leaves at least a fifth of them on either side. They
    are bimodal if the low group's lower nine tenths and the high group's upper nine tenths are far apart. Far: more
    than twice either group's IQR, and more than 3 % of the median. Fewer than 30 samples are never called bimodal:
    of an exponential distribution, the likeliest to look so, 30 samples do in 2 % of cases, 50 in none
    (tests/base/numerics/test_stats.py).
    """
    n = len(samples)
    if n < _MODES_FEWEST:
        return ()
    ordered = np.sort(samples)
    edge = max(2, math.ceil(n * _MODES_EDGE_FRAC))
    inner = np.diff(ordered)[edge - 1 : n - edge]
    split = int(np.argmax(inner)) + edge
    low, high = ordered[:split], ordered[split:]
    apart = float(np.percentile(high, 10) - np.percentile(low, 90))
    if apart <= _MODES_APART * max(iqr(low), iqr(high)) or apart <= _MODES_FRAC * float(np.median(ordered)):
        return ()
    return (float(np.median(low)), split / n), (float(np.median(high)), 1 - split / n)


def _range_of_median(samples: Samples) -> tuple[float, float]:
    """The interval of the median; the whole range where too few samples have none."""
    return median_interval(samples) or (float(samples.min()), float(samples.max()))


def _overlap(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]


def _ratio(part: float, whole: float) -> float:
    if part == 0:
        return 0.0
    return part / whole if whole > 0 else math.inf


# The ratio of two times with a confidence interval, for series of timing samples.

BAND = 0.01  # a change within ± 1 % counts as the same: two runs of one code in one process differ by less
# separate runs: memory layout and clocks move the medians of two runs by about as much (docs/measuring.md, "Comparing";
# measured between two processes, and runs of one process lie no closer)
BAND_SEPARATE = 0.03
# where the host does the work, the heap of the process and what the other cores do move them by more, also where a loop
# of arithmetic takes as long as before (benchmarks/bench_baselines.py)
BAND_SEPARATE_HOST = 0.1
RESAMPLES = 1000
FEWEST_PAIRED = 6  # samples of each: from here on the median of the pairs has an interval at 95 %
FEWEST_99 = 8  # of each: the same at 99 %, 1 - 2 / 2^n
# Few samples do not show their autocorrelation. In separate runs this much is assumed: series of ρ = 0.6 are then
# parted by chance in at most 3 % of cases, not in 14 % (tests/base/numerics/test_ratio.py).
ASSUMED_RHO = 0.6
_DRAWS_AT_ONCE = 2_000_000
_SEED = 1  # the same samples give the same interval


def ratio_interval(
    first: Samples, second: Samples, *, interleaved: bool, level: float = 0.95, resamples: int = RESAMPLES
) -> tuple[float, float] | None:
    """The confidence interval of ratio(first, second); None where the samples are too few or a median is 0.

    first, second: in the order taken, in seconds.  interleaved: whether they were; then the interval is that of the
    median of the pairs' ratios, from order statistics. For separate runs it is a bootstrap of both medians, widened for
    autocorrelation as the interval of a median is. Where too few samples have either, it is their rank_interval.
    """
    if not len(first) or not len(second) or np.median(first) <= 0 or np.median(second) <= 0:
        return None
    if interleaved:
        log_interval = median_interval(_log_ratios(first, second), level)
        return (
            rank_interval(first, second, level)
            if log_interval is None
            else (math.exp(log_interval[0]), math.exp(log_interval[1]))
        )
    if min(len(first), len(second)) < FEWEST_PAIRED:
        return _widened(first, second, rank_interval(first, second, level), least=widening(ASSUMED_RHO))
    return _widened(first, second, _bootstrapped(first, second, level, resamples))


def rank_interval(first: Samples, second: Samples, level: float = 0.95) -> tuple[float, float] | None:
    """The range of all ratios of a sample of second to one of first; None where it does not reach the level.

    If both series come from one distribution up to a factor, every order of the n + m samples is equally likely. All of
    one are beyond all of the other in 2 of C(n + m, n) orders. So the range contains the factor in all other
    cases: 97.1 % for four samples of each, 99.2 % for five. Interleaving makes it safer: what changes slowly moves both
    series, and parts them less often (tests/base/numerics/test_ratio.py). Source: the extreme interval of the
    Wilcoxon-Mann-Whitney test (Lehmann, Nonparametrics, 1975, section 2.6).
    """
    if chance_of_parting(len(first), len(second)) > 1 - level:
        return None
    a, b = _above_zero(first), _above_zero(second)
    return float(b.min() / a.max()), float(b.max() / a.min())


def chance_of_parting(n: int, m: int) -> float:
    """How often all of n samples lie beyond all of m others, on either side, where nothing but chance orders them."""
    return min(1.0, 2 / math.comb(n + m, n)) if n and m else 1.0


def fewest_of_each(level: float) -> int:
    """The least number of samples of each that can carry a verdict at this level: 4 at 95 %, 5 at 99 %."""
    n = 1
    while chance_of_parting(n, n) > 1 - level:
        n += 1
    return n


def ratio(first: Samples, second: Samples, *, interleaved: bool) -> float:
    """second divided by first: the median of the pairs' ratios, or the ratio of medians; 0 where a median is 0."""
    if not len(first) or not len(second) or np.median(first) <= 0 or np.median(second) <= 0:
        return 0.0
    if interleaved:
        return math.exp(float(np.median(_log_ratios(first, second))))
    return float(np.median(second)) / float(np.median(first))


def judged(interval: tuple[float, float], band: float) -> str:
    """What an interval of a ratio of times says, if changes within the band do not count.

    "faster", "slower": the interval is outside the band.  "same": it is inside.  "unclear": it is neither.
    """
    low, high = interval
    if low > 1 + band:
        return "faster"
    if high < 1 / (1 + band):
        return "slower"
    return "same" if 1 / (1 + band) <= low and high <= 1 + band else "unclear"


def _log_ratios(first: Samples, second: Samples) -> Float64:
    """Logarithms of second divided by first in each pair; a sample of 0 counts as the smallest that is not."""
    n = min(len(first), len(second))
    both = _above_zero(np.stack((np.asarray(first[:n], np.float64), np.asarray(second[:n], np.float64))))
    logs = np.log(both)
    return np.asarray(logs[1] - logs[0], np.float64)


def _above_zero(samples: Samples) -> Float64:
    """The same, each 0 replaced by the smallest sample above it."""
    given = np.asarray(samples, np.float64)
    return np.asarray(np.maximum(given, given[given > 0].min()), np.float64)


def _widened(
    first: Samples, second: Samples, interval: tuple[float, float] | None, least: float = 1.0
) -> tuple[float, float] | None:
    """The interval of separate series, widened about the ratio of medians for autocorrelation, by `least` or more."""
    if interval is None:
        return None
    factor = max(least, *(widening(autocorrelation(samples)) for samples in (first, second)))
    middle = math.log(ratio(first, second, interleaved=False))
    below, above = max(0.0, middle - math.log(interval[0])), max(0.0, math.log(interval[1]) - middle)
    return math.exp(middle - factor * below), math.exp(middle + factor * above)


def _bootstrapped(first: Samples, second: Samples, level: float, resamples: int) -> tuple[float, float] | None:
    """The percentile interval of the ratio of resampled medians; None where one of those is 0."""
    random = np.random.default_rng(_SEED)
    medians = [_resampled_medians(np.asarray(x, np.float64), resamples, random) for x in (first, second)]
    if min(m.min() for m in medians) <= 0:
        return None
    low, high = np.percentile(np.log(medians[1] / medians[0]), [50 * (1 - level), 50 * (1 + level)])
    return math.exp(low), math.exp(high)


def _resampled_medians(samples: Float64, resamples: int, random: np.random.Generator) -> Float64:
    """Medians of samples drawn with replacement; shape (resamples,)."""
    n = len(samples)
    each = max(1, _DRAWS_AT_ONCE // n)
    parts = []
    for start in range(0, resamples, each):
        rows = min(each, resamples - start)
        parts.append(np.median(samples[random.integers(0, n, (rows, n))], axis=1))
    return np.concatenate(parts)
