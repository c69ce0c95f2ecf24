import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmagic.base.numerics import stats

pytestmark = pytest.mark.slow


def exact_coverage(n: int, low: int) -> Fraction:
    """Probability that the median lies between sorted samples low and n - 1 - low."""
    return Fraction(sum(math.comb(n, below) for below in range(low + 1, n - low)), 2**n)


def test_median_ranks_are_the_narrowest_pair_that_covers_95_percent_by_exact_binomials():
    for n in range(6, 301):
        low, high = stats.median_ranks(n)
        assert high == n - 1 - low
        assert exact_coverage(n, low) >= Fraction(95, 100) > exact_coverage(n, low + 1)


@pytest.mark.parametrize("n", range(6))
def test_below_six_samples_not_even_the_range_covers_95_percent(n):
    assert exact_coverage(n, 0) < Fraction(95, 100)
    assert stats.median_ranks(n) is None


def test_six_samples_are_the_fewest_with_an_interval_and_it_is_their_range():
    assert stats.median_interval(np.array([3.0, 1, 2, 5, 4])) is None
    assert stats.median_interval(np.array([3.0, 1, 6, 2, 5, 4])) == (1.0, 6.0)


def test_the_interval_of_100_samples_runs_from_the_40th_to_the_61st():
    # tabulated for n = 100: order statistics 40 and 61 cover 96.48 %
    samples = np.stack((np.arange(1.0, 51.0), np.arange(100.0, 50.0, -1))).T.ravel()  # small and large by turns
    assert stats.autocorrelation(samples) < 0
    assert stats.median_interval(samples) == (40.0, 61.0)


def test_ranks_of_a_million_samples_are_those_of_the_normal_limit():
    ranks = stats.median_ranks(1_000_001)
    assert ranks[0] == pytest.approx(500_000 - 1.959964 * 500, abs=1.5)


def coverage(rho: float, n: int, rows: int = 2000) -> float:
    """How often the interval holds the true median, 0, of first-order autoregressive series."""
    rng = np.random.default_rng(7)
    noise = rng.normal(size=(rows, n))
    for i in range(1, n):
        noise[:, i] = rho * noise[:, i - 1] + math.sqrt(1 - rho**2) * noise[:, i]
    intervals = [stats.median_interval(row) for row in noise]
    return sum(low <= 0 <= high for low, high in intervals) / rows


def test_intervals_of_independent_samples_cover_at_least_what_they_promise():
    assert 0.95 <= coverage(rho=0.0, n=50) <= 0.985


def test_intervals_of_dependent_samples_are_widened_enough():
    assert coverage(rho=0.6, n=100) >= 0.93  # a plain bootstrap covers 78 %


def test_autocorrelation_of_an_alternating_series_is_close_to_minus_one():
    assert stats.autocorrelation(np.array([1.0, 2.0] * 50)) == pytest.approx(-0.99)


def test_autocorrelation_of_a_first_order_series_is_found_in_spite_of_outliers():
    rng = np.random.default_rng(3)
    noise = rng.normal(size=4000)
    for i in range(1, len(noise)):
        noise[i] = 0.6 * noise[i - 1] + 0.8 * noise[i]
    noise[::100] += 1e6
    assert stats.autocorrelation(noise) == pytest.approx(0.57, abs=0.05)


def test_equal_samples_have_no_autocorrelation():
    assert stats.autocorrelation(np.full(30, 2.5)) == 0.0
    assert stats.median_interval(np.full(30, 2.5)) == (2.5, 2.5)
    assert stats.relative_half_width(np.full(30, 2.5)) == 0.0


def test_widening_is_bartletts_factor_and_never_narrows():
    assert stats.widening(0.6) == pytest.approx(2.0)
    assert stats.widening(0.0) == 1.0
    assert stats.widening(-0.8) == 1.0
    assert stats.widening(1.0) == pytest.approx(math.sqrt(199))


def test_the_interval_of_dependent_samples_is_widened_about_their_median():
    random = np.random.default_rng(0)
    samples = np.cumsum(random.normal(size=100)) * 0.3 + random.normal(size=100)
    low, high = stats.median_interval(samples)
    factor = stats.widening(stats.autocorrelation(samples))
    assert factor > 1.2
    middle, ordered, ranks = np.median(samples), np.sort(samples), stats.median_ranks(100)
    assert low == pytest.approx(middle - factor * (middle - ordered[ranks[0]]))
    assert high == pytest.approx(middle + factor * (ordered[ranks[1]] - middle))


def test_an_interval_is_at_most_the_range_of_the_samples():
    assert stats.median_interval(np.arange(100.0)) == (0.0, 99.0)  # each sample says where the next lies


def test_outliers_lie_beyond_three_iqr_or_beyond_the_fence_asked_for():
    samples = np.array([*range(1, 12), 20.0, 30.0])  # quartiles 4 and 10: fences at 19 and 28
    assert stats.iqr(samples) == 6.0
    assert stats.fences(samples, stats.INNER_FENCE) == (-5.0, 19.0)
    assert samples[stats.outliers(samples, stats.INNER_FENCE)].tolist() == [20.0, 30.0]
    assert samples[stats.outliers(samples)].tolist() == [30.0]


def test_drift_of_a_straight_line_is_its_rise_over_its_median():
    assert stats.drift_frac(np.linspace(9.0, 11.0, 90)) == pytest.approx(0.2)
    assert stats.drift_frac(np.linspace(11.0, 9.0, 90)) == pytest.approx(-0.2)


def test_drift_is_not_claimed_where_the_ends_cannot_be_told_apart():
    samples = np.random.default_rng(5).normal(10.0, 1.0, 60)
    assert stats.drift_frac(samples) == 0.0
    assert stats.drift_frac(np.array([1.0, 2.0, 3.0])) == 0.0


def test_relative_half_width_without_an_interval_or_a_median_is_infinite():
    assert stats.relative_half_width(np.array([1.0, 2.0])) == math.inf
    assert stats.relative_half_width(np.array([0.0] * 7 + [1.0] * 5)) == math.inf


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=0, max_size=60))
def test_no_statistic_is_ever_nan_and_the_interval_holds_the_median(values):
    samples = np.array(values, np.float64)
    measures = (stats.iqr, stats.mad, stats.drift_frac, stats.autocorrelation, stats.noise_frac)
    numbers = [measure(samples) for measure in measures]
    interval = stats.median_interval(samples)
    assert not any(math.isnan(x) for x in (*numbers, *(interval or ())))
    if interval is not None:
        assert interval[0] <= np.median(samples) <= interval[1]


@pytest.mark.parametrize("shape", ["normal", "lognormal", "exponential", "uniform"])
@pytest.mark.parametrize(("n", "most_frac"), [(30, 0.03), (50, 0.005), (200, 0.0)])
def test_samples_of_one_mode_are_hardly_ever_called_bimodal(shape: str, n: int, most_frac: float) -> None:
    random = np.random.default_rng(7)
    draw = {
        "normal": lambda: random.normal(1, 0.05, n),
        "lognormal": lambda: random.lognormal(0, 0.3, n),
        "exponential": lambda: 1 + random.exponential(0.3, n),
        "uniform": lambda: random.uniform(1, 2, n),
    }[shape]
    assert np.mean([bool(stats.modes(draw())) for _ in range(400)]) <= most_frac


def test_a_clock_step_of_a_tenth_is_always_seen() -> None:
    random = np.random.default_rng(7)
    for _ in range(100):
        stepped = np.where(random.random(60) < 0.4, 1.1, 1.0) * random.normal(1, 0.01, 60)
        (low, share), (high, rest) = stats.modes(stepped)
        assert (low, high) == (pytest.approx(1.0, rel=0.01), pytest.approx(1.1, rel=0.01))
        assert share + rest == pytest.approx(1)
