"""The ratio of two times with a confidence interval, for series of timing samples.

Interleaved samples are compared in pairs: each with the sample of the other series that was taken next to it. A change
of the machine's speed that lasts longer than a pair affects both and cancels. Samples of separate runs have no pairs,
so their medians are compared. Few samples are compared by rank alone (rank_interval).

Source: docs/measuring.md, "Comparing". benchmarks/bench_verdicts.py counts false verdicts on a machine,
tests/numerics/test_ratio.py in simulated series.
"""

from __future__ import annotations

import math

import numpy as np

from perfmagic.numerics.stats import Float64, Samples, autocorrelation, median_interval, widening

BAND = 0.01  # a change within ± 1 % counts as the same: two runs of one code in one process differ by less
RESAMPLES = 1000
FEWEST_PAIRED = 6  # samples of each: from here on the median of the pairs has an interval at 95 %
FEWEST_99 = 8  # of each: the same at 99 %, 1 - 2 / 2^n
# Few samples do not show their autocorrelation. In separate runs this much is assumed: series of ρ = 0.6 are then
# parted by chance in at most 3 % of cases, not in 14 % (tests/numerics/test_ratio.py).
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
        found = median_interval(_log_ratios(first, second), level)
        return rank_interval(first, second, level) if found is None else (math.exp(found[0]), math.exp(found[1]))
    if min(len(first), len(second)) < FEWEST_PAIRED:
        return _widened(first, second, rank_interval(first, second, level), least=widening(ASSUMED_RHO))
    return _widened(first, second, _bootstrapped(first, second, level, resamples))


def rank_interval(first: Samples, second: Samples, level: float = 0.95) -> tuple[float, float] | None:
    """The range of all ratios of a sample of second to one of first; None where it does not reach the level.

    If both series come from one distribution up to a factor, then every order of the n + m samples is as likely, and
    all of one lie beyond all of the other in 2 of C(n + m, n) orders. So the range contains the factor in all other
    cases: 97.1 % for four samples of each, 99.2 % for five. Interleaving makes it safer: what changes slowly moves both
    series, and parts them less often (tests/numerics/test_ratio.py). Source: the extreme interval of the
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

    "faster", "slower": all of it lies beyond the band.  "same": all of it lies inside.  "unclear": neither.
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
