"""Intervals of a ratio: what they contain, how few samples carry a verdict, and how often chance makes one."""

import math
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest

from perfmagic.base.numerics import stats

pytestmark = pytest.mark.slow

SPREAD = 0.05
SERIES = 400  # A/A comparisons of each kind


def series(median: float, n: int = 200, noise: float = 0.01, seed: int = 0) -> stats.Float64:
    return median * (1 + noise * np.random.default_rng(seed).standard_normal(n))


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((1.02, 1.05), "faster"),
        ((0.9, 0.98), "slower"),
        ((0.995, 1.005), "same"),
        ((0.995, 1.02), "unclear"),
        ((1.005, 1.02), "unclear"),
        ((0.9, 1.1), "unclear"),
    ],
)
def test_a_verdict_needs_the_whole_interval(interval: tuple[float, float], verdict: str) -> None:
    assert stats.judged(interval, 0.01) == verdict
    mirrored = {"faster": "slower", "slower": "faster"}.get(verdict, verdict)
    assert stats.judged((1 / interval[1], 1 / interval[0]), 0.01) == mirrored


def test_the_interval_contains_the_ratio_and_is_the_same_each_time() -> None:
    first, second = series(1.0), series(1.05, seed=1)
    low, high = stats.ratio_interval(first, second, interleaved=False)
    assert low < 1.05 < high
    assert high - low < 0.01
    assert stats.ratio_interval(first, second, interleaved=False) == (low, high)


def test_a_drift_of_both_cancels_where_they_are_interleaved() -> None:
    drift = np.linspace(1, 1.5, 200)
    first, second = series(1.0) * drift, series(1.05, seed=1) * drift
    low, high = stats.ratio_interval(first, second, interleaved=True)
    assert low < 1.05 < high
    separate = stats.ratio_interval(first, second, interleaved=False)
    assert high - low < (separate[1] - separate[0]) / 3


def test_times_of_zero_have_no_interval() -> None:
    for interleaved in (False, True):
        assert stats.ratio_interval(np.zeros(50), np.ones(50), interleaved=interleaved) is None
        assert stats.ratio_interval(np.zeros(4), np.ones(4), interleaved=interleaved) is None


def test_the_chance_that_all_samples_of_one_lie_beyond_the_other_is_counted_over_all_orders() -> None:
    for n, m in ((1, 1), (1, 3), (2, 3), (3, 4)):
        orders = list(permutations(range(n + m)))
        parted = sum(max(o[:n]) < min(o[n:]) or min(o[:n]) > max(o[n:]) for o in orders)
        assert stats.chance_of_parting(n, m) == pytest.approx(parted / len(orders))
    assert stats.chance_of_parting(0, 9) == 1.0


def test_four_samples_of_each_carry_95_percent_and_five_carry_99() -> None:
    assert (stats.fewest_of_each(0.95), stats.fewest_of_each(0.99)) == (4, 5)
    four, five = np.array([1.0, 1.1, 1.2, 1.3]), np.array([1.0, 1.1, 1.2, 1.3, 1.4])
    assert stats.rank_interval(four, 10 * four) == pytest.approx((10 / 1.3, 13.0))
    assert stats.rank_interval(four, 10 * four, 0.99) is None
    assert stats.rank_interval(five, 10 * five, 0.99) == pytest.approx((10 / 1.4, 14.0))
    assert stats.rank_interval(four[:3], 10 * four[:3]) is None
    assert stats.rank_interval(four[:3], 10 * five) is not None  # 2 of the 56 orders


def test_few_interleaved_samples_have_the_interval_of_their_ranks() -> None:
    first, second = series(1.15, n=7, noise=0.1), series(0.102, n=7, noise=0.1, seed=1)
    sure = stats.ratio_interval(second, first, interleaved=True, level=0.99)
    assert sure == stats.rank_interval(second, first, 0.99)
    assert stats.judged(sure, stats.BAND) == "faster"
    paired = stats.ratio_interval(second, first, interleaved=True)
    assert (
        sure[0] < paired[0] * 1.000001 < stats.ratio(second, first, interleaved=True) < paired[1] < sure[1] * 1.000001
    )


def test_few_samples_of_separate_runs_have_that_interval_widened() -> None:
    first, second = np.array([1.0, 1.1, 1.2, 1.3]), np.array([10.0, 10.5, 11.0, 11.5])
    low, high = stats.ratio_interval(first, second, interleaved=False)
    middle, (rank_low, rank_high) = 10.75 / 1.15, stats.rank_interval(first, second)
    assert math.log(middle / low) >= 2 * math.log(middle / rank_low) - 1e-9
    assert math.log(high / middle) >= 2 * math.log(rank_high / middle) - 1e-9


def autocorrelated(random: np.random.Generator, rho: float, n: int) -> stats.Float64:
    """A first-order autoregressive series of logarithms, spread SPREAD."""
    noise = random.standard_normal(n)
    for i in range(1, n):
        noise[i] = rho * noise[i - 1] + math.sqrt(1 - rho**2) * noise[i]
    return np.exp(SPREAD * noise)


def interleaved(taken: stats.Float64) -> tuple[stats.Float64, stats.Float64]:
    """Two series from the samples in the order A B B A."""
    pairs = taken.reshape(-1, 2).copy()
    pairs[1::2] = pairs[1::2, ::-1]
    return pairs[:, 0], pairs[:, 1]


def false_verdicts(n: int, make: Callable[[np.random.Generator, int], stats.Float64], level: float) -> int:
    """How many of SERIES interleaved comparisons of equal code end in faster or slower."""
    random = np.random.default_rng(n)
    found = 0
    for _ in range(SERIES):
        first, second = interleaved(make(random, 2 * n))
        verdicts = []
        for one in (0.95, level):
            interval = stats.ratio_interval(second, first, interleaved=True, level=one)
            verdicts.append("unclear" if interval is None else stats.judged(interval, stats.BAND))
        found += verdicts[0] == verdicts[1] != "unclear" and verdicts[0] != "same"
    return found


KINDS: dict[str, Callable[[np.random.Generator, int], stats.Float64]] = {
    "independent": lambda random, n: autocorrelated(random, 0.0, n),
    "autocorrelated 0.6": lambda random, n: autocorrelated(random, 0.6, n),
    "autocorrelated 0.95": lambda random, n: autocorrelated(random, 0.95, n),
    "drifting by 20 %": lambda random, n: autocorrelated(random, 0.3, n) * np.linspace(1, 1.2, n),
    "a clock that steps": lambda random, n: autocorrelated(random, 0.0, n) * (1 + 0.8 * (np.arange(n) > n // 3)),
    "with outliers": lambda random, n: autocorrelated(random, 0.0, n) * np.where(random.random(n) < 0.1, 3.0, 1.0),
}


@pytest.mark.parametrize("n", [3, 4, 5, 6, 7, 8, 20])
def test_equal_code_has_a_false_verdict_in_at_most_one_percent_at_any_number_of_samples(n: int) -> None:
    each = {kind: false_verdicts(n, make, 0.99) for kind, make in KINDS.items()}
    assert sum(each.values()) <= len(KINDS) * SERIES // 100
    assert max(each.values()) <= 9  # of 400 at a true 1 %, more in one case of 100


def test_at_95_percent_equal_code_has_more_false_verdicts() -> None:
    assert false_verdicts(4, KINDS["independent"], 0.95) > SERIES // 100


@pytest.mark.parametrize("counts", [(3, 5), (3, 20), (4, 4), (5, 5)])
@pytest.mark.parametrize(("rho", "most_frac"), [(0.0, 0.01), (0.6, 0.05)])
def test_few_samples_of_separate_runs_keep_their_level_also_if_autocorrelated(
    counts: tuple[int, int], rho: float, most_frac: float
) -> None:
    random = np.random.default_rng(11)
    false = 0
    for _ in range(SERIES):
        intervals = stats.ratio_interval(*(autocorrelated(random, rho, n) for n in counts), interleaved=False)
        false += intervals is not None and stats.judged(intervals, 0.03) in ("faster", "slower")
    assert false <= most_frac * SERIES
